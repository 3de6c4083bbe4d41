"""Conversion of `onnx::If` and `case_of` to `If` operations. A run computes only the selected branch.

    onnx::If   then_branch() if cond else else_branch()
    case_of    branches[index]() if 0 <= index < len(branches) else default()

If the condition (or index) is known while the model is read, only the selected graph is read.

Source: ONNX operators, If-13; NNC, ccv_nnc_symbolic_graph_case_of_new (a default passes values through).
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from mdf_loop.document.bodies import WrittenBody, written_bodies, written_body
from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import GRAPH_ARGUMENTS, graph_function
from mdf_loop.errors import (
    ArityError,
    ConditionError,
    ExpressionError,
    ModelError,
    OperandError,
    Poisoned,
)
from mdf_loop.ir import Shape, Value
from mdf_loop.ir.shape_join import any_shape, join_shapes
from mdf_loop.lower import Scope, cast, lower_expression, tensor
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import BranchNames, ShapeJoin, choose
from mdf_loop.lower.operators import as_scalar, equal, greater_equal, guard_value, less, truths
from mdf_loop.reading.branch_graphs import describe_branch, find_branch_graph, find_branch_outputs
from mdf_loop.reading.entries import list_expressions
from mdf_loop.reading.inner_graph import InnerGraph
from mdf_loop.reading.names_read import refuse_unread
from mdf_loop.reading.open_branch import OpenBranch
from mdf_loop.reading.owned_graph import OwnedGraph, Role
from mdf_loop.reading.readers import Reading, reads


@reads("onnx::If")
def read_if(
    b: ModelBuilder, item: Any, node: Any, where: str, scope: Scope, document: Document
) -> Reading:
    """Read an `onnx::If`, and return the results of the branch that its condition selects."""
    choice = _Choice(b, item, node, where, scope, document, "cond")
    condition = choice.lower_condition()
    then = choice.create_graph_branch("then_branch")
    otherwise = choice.create_graph_branch("else_branch")
    constant = b.constant_of(condition)
    if constant is not None:
        outputs = (then if constant else otherwise).read(b, choice.scope)
        return choice.build_reading([b.mark_late_if(condition, value) for value in outputs])
    choice.check_outputs([then, otherwise])
    return choice.build_reading(
        choice.select_by_condition(b, condition, then, otherwise, choice.scope)
    )


@reads("case_of")
def read_case(
    b: ModelBuilder, item: Any, node: Any, where: str, scope: Scope, document: Document
) -> Reading:
    """Read a `case_of`, and return the results of the branch that its index selects."""
    choice = _Choice(b, item, node, where, scope, document, "index")
    index = choice.lower_index()
    count = sum(argument.startswith("branches[") for argument in choice.written)
    if not count:
        raise ModelError(
            f"'{choice.name}' has no branches", where, "add branches: [a graph, another one, ...]"
        )
    branches = [choice.create_graph_branch(f"branches[{k}]") for k in range(count)]
    default = choice.create_default()
    constant = b.constant_of(index)
    if constant is not None:
        outputs = choice.find_branch(int(constant), branches, default).read(b, choice.scope)
        return choice.build_reading([b.mark_late_if(index, value) for value in outputs])
    choice.check_outputs([*branches, *([] if default is None else [default])])
    return choice.build_reading(choice.select_by_index(index, branches, default))


class _Branch(Protocol):
    """Protocol of a branch of an `onnx::If` or a `case_of`."""

    @property
    def word(self) -> str:
        """Name of the branch in errors."""

    def names(self) -> tuple[str, ...]:
        """Return the names of the branch's outputs in the document."""

    def read(self, b: ModelBuilder, scope: Scope) -> list[Value]:
        """Append the operations of the branch, with names looked up in `scope`, and return its outputs."""


class _GraphBranch(Struct, frozen=True):
    """Branch that is a graph. The graph is looked up at the first use."""

    choice: _Choice
    role: Role

    @property
    def word(self) -> str:
        return self.role.word

    def graph(self) -> OwnedGraph:
        """Look up the graph of the branch."""
        choice = self.choice
        written = choice.written.get(self.role.argument, WrittenBody(None))
        return find_branch_graph(written, choice.item, choice.where, self.role, choice.document)

    def names(self) -> tuple[str, ...]:
        return find_branch_outputs(self.graph())

    def read(self, b: ModelBuilder, scope: Scope) -> list[Value]:
        graph = self.graph()
        names = find_branch_outputs(graph)
        inner = InnerGraph(b, graph, scope.inner(), self.choice.document)
        with b.at(graph.where):
            return [inner.value(name) for name in names]


class _PassedDefault(Struct, frozen=True):
    """Default branch that passes values of the node through."""

    choice: _Choice
    expressions: tuple[Any, ...]
    word: str = "the default"

    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.expressions))

    def read(self, b: ModelBuilder, scope: Scope) -> list[Value]:
        with b.at(f"{self.choice.where}.args.default"):
            parts = (
                lower_expression(b, expression, scope, f"default.{k}")
                for k, expression in enumerate(self.expressions)
            )
            return [tensor(b, part) for part in parts]


class _Choice:
    """Reader of an `onnx::If` or a `case_of`, which selects one of several graphs."""

    def __init__(
        self,
        b: ModelBuilder,
        item: Any,
        node: Any,
        where: str,
        scope: Scope,
        document: Document,
        chooser: str,
    ) -> None:
        self.b = b
        self.item = item
        self.node = node
        self.where = where
        self.document = document
        self.selector = chooser
        self.name = f"{node.id}.{item.id}"
        self.args = dict(item.args or {})
        self.written = written_bodies(item, node)
        self.join_rule: ShapeJoin = join_shapes
        self.output_count = 0
        self.scope = scope.inner()
        self._define_arguments(scope)

    def _define_arguments(self, scope: Scope) -> None:
        """Define the function's further arguments as names that the branches can read."""
        own_arguments = (self.selector, *GRAPH_ARGUMENTS[graph_function(self.item.function) or ""])
        location = (f"'{self.name}'", "its branches do")
        for key, expression in self.args.items():
            if key in own_arguments:
                continue
            with self.b.at(f"{self.where}.args.{key}"):
                if isinstance(expression, dict):
                    close_matches = difflib.get_close_matches(key, own_arguments, n=1, cutoff=0.4)
                    raise ModelError(
                        f"'{self.name}' has no argument '{key}' that is a graph",
                        hint=f"did you mean '{close_matches[0]}'?" if close_matches else "",
                    )
                if expression is None:
                    raise ExpressionError(
                        f"the argument '{key}' of '{self.name}' has no value",
                        hint="give it a value, or leave it out",
                    )
                self.scope.define(key, lower_expression(self.b, expression, scope, key))
        refuse_unread(self.item, self.node, self.where, own_arguments, self.document, location)

    # --- condition and index --------------------------------------------------------------------

    def _lower_selector(self, thing: str) -> Value:
        """Lower the condition or index of the function. `thing` is its name in error messages."""
        expression = self.args.get(self.selector)
        if expression is None or (isinstance(expression, str) and not expression.strip()):
            raise ConditionError(
                f"'{self.name}' has no {thing}", hint=f"add '{self.selector}' to its args"
            )
        if isinstance(expression, str) and expression.strip() in ("true", "false"):
            expression = (
                expression.strip() == "true" if self.scope.find(expression) is None else expression
            )
        return tensor(self.b, lower_expression(self.b, expression, self.scope, self.selector))

    def _reduce_to_scalar(self, value: Value, thing: str) -> Value:
        """Return a value of one element without its axes. A run fails if the value has more elements."""
        if value.shape is not None and any(d != 1 for d in value.shape if isinstance(d, int)):
            raise ConditionError(
                f"the {thing} of '{self.name}' must be one value, not {value.type}: the truth value "
                "of an array with more than one element is ambiguous"
                if thing == "condition"
                else f"the {thing} of '{self.name}' must be one number, not {value.type}",
                hint="reduce it to one element, e.g. numpy.max(...)",
            )
        return as_scalar(self.b, value)

    def lower_condition(self) -> Value:
        """Return the condition of an If as a boolean value."""
        path = f"{self.where}.args.{self.selector}"
        with self.b.at(path, f"{self.name}.{self.selector}"):
            value = self._reduce_to_scalar(self._lower_selector("condition"), "condition")
            try:
                test = truths(self.b, value)
            except OperandError as error:
                raise ConditionError(
                    f"the condition of '{self.name}' must be a truth value: "
                    f"{error.findings[0].what}"
                ) from None
            self.b.values_by_path[path] = test
            return test

    def lower_index(self) -> Value:
        """Return the index of a case_of as an int64 value. A run fails if the index is not a whole number."""
        b, path = self.b, f"{self.where}.args.{self.selector}"
        with b.at(path, f"{self.name}.{self.selector}"):
            value = self._reduce_to_scalar(self._lower_selector("index"), "index")
            if value.dtype == "string":
                raise ConditionError(f"the index of '{self.name}' must be a whole number, not text")
            integer = cast(b, value, "int64")
            message = f"the index of '{self.name}' must be a whole number"
            constant = b.constant_of(value)
            if constant is not None and constant != np.floor(constant):
                raise ConditionError(f"{message}, not {constant}", hint="round it, e.g. int(...)")
            if constant is None and np.dtype(value.dtype).kind == "f":
                round_trip = cast(b, integer, value.dtype)
                integer = guard_value(b, integer, equal(b, round_trip, value), message)
            b.values_by_path[path] = integer
            return integer

    # --- branches -------------------------------------------------------------------------------

    def create_graph_branch(self, argument: str) -> _GraphBranch:
        """Return the branch for an argument that is a graph."""
        return _GraphBranch(self, describe_branch(self.name, argument))

    def create_default(self) -> _Branch | None:
        """Return the default branch of a case_of: a graph, values that are passed through, or None."""
        if "default" in self.written:
            if self.written["default"].graph_or_id is None:
                return None
            return self.create_graph_branch("default")
        return _PassedDefault(
            self, list_expressions(written_body(self.item, self.node, "default").graph_or_id)
        )

    def check_outputs(self, branches: Sequence[_Branch]) -> None:
        """Look up all branches, and refuse branches with different numbers of outputs."""
        names: list[tuple[str, ...]] = []
        for branch in branches:
            with self.b.findings.catch(), self.b.at(self.where):
                names.append(branch.names())
        if len(names) < len(branches):
            raise Poisoned
        longest, shortest = (pick(names, key=len) for pick in (max, min))
        if len(longest) != len(shortest):
            missing_name = next((n for n in longest if n not in shortest), longest[len(shortest)])
            longest_word, shortest_word = (
                branches[names.index(longest)].word,
                branches[names.index(shortest)].word,
            )
            raise ArityError(
                f"'{missing_name}' is not defined in {shortest_word}, but defined in {longest_word}: all branches "
                f"must give the same number of values, not {len(shortest)} and {len(longest)}",
                hint="name it in metadata.outputs of each; a value from outside can be named too",
            )
        self.output_count = len(longest)
        graphs = [branch.graph() for branch in branches if isinstance(branch, _GraphBranch)]
        stated_shapes = [graph.shape_rule for graph in graphs if graph.shape_rule]
        if (*stated_shapes, self.b.options.shapes)[0] == "dynamic":
            self.join_rule = any_shape

    def build_reading(self, values: Sequence[Value]) -> Reading:
        """Return the outputs of the selected branch as results of the function."""
        if not values:
            raise ArityError(f"the branches of '{self.name}' give nothing")
        return Reading(values[0] if len(values) == 1 else tuple(values))

    def _name_result(self, k: int) -> str:
        """Return the name of the function's result number k."""
        return self.name if self.output_count == 1 else f"{self.name}[{k}]"

    # --- selection of a branch ------------------------------------------------------------------

    def select_by_condition(
        self, b: ModelBuilder, condition: Value, then: _Branch, otherwise: _Branch, scope: Scope
    ) -> tuple[Value, ...]:
        """Return `then if condition else otherwise`. Only the branch that a run selects must fit the shapes."""
        branch_names = BranchNames((then.word, otherwise.word), self._name_result)
        open_branches = [
            OpenBranch(side.word, side.read, scope, condition, is_then=is_then)
            for side, is_then in ((then, True), (otherwise, False))
        ]

        def join(first: Shape, second: Shape) -> Shape:
            return (any_shape if any(side.is_open for side in open_branches) else self.join_rule)(
                first, second
            )

        with b.at(self.where, self.name):
            read_then, read_otherwise = (side.read for side in open_branches)
            return choose(
                b, condition, read_then, read_otherwise, self.name, names=branch_names, join=join
            )

    def find_branch(
        self, index: int, branches: Sequence[_Branch], default: _Branch | None
    ) -> _Branch:
        """Return the branch that a constant index selects."""
        if 0 <= index < len(branches):
            return branches[index]
        if default is None:
            raise ConditionError(
                f"the index of '{self.name}' is {index}: {self._describe_branches(len(branches))}",
                f"{self.where}.args.index",
                "add a default: a graph, or the names of values that pass through",
            )
        return default

    def _describe_branches(self, count: int) -> str:
        """Return the error text for an index beyond the branches."""
        return f"it has {count} branches, counted from 0, and no default"

    def select_by_index(
        self, index: Value, branches: Sequence[_Branch], default: _Branch | None
    ) -> tuple[Value, ...]:
        """Append operations that select a branch by its index at run time, and return the results."""
        b, count = self.b, len(branches)
        with b.at(f"{self.where}.args.index", f"{self.name}.index"):
            zero, branch_count = (b.constant(np.array(k)) for k in (0, count))
            is_in_range = b.op("And", greater_equal(b, index, zero), less(b, index, branch_count))
            if default is None:
                message = f"the index of '{self.name}' is outside: {self._describe_branches(count)}"
                is_in_range = guard_value(b, is_in_range, is_in_range, message)
                index = guard_value(b, index, is_in_range, message)
        all_branches = _BisectedBranches(self, index, branches, 0, count)
        if default is not None:
            return self.select_by_condition(b, is_in_range, all_branches, default, self.scope)
        if count == 1:
            return self.select_by_condition(b, is_in_range, branches[0], branches[0], self.scope)
        return tuple(all_branches.read(b, self.scope))


class _BisectedBranches(Struct, frozen=True):
    """Range of the branches of a case_of. Nested `If` operations select one by bisection of the index."""

    choice: _Choice
    index: Value
    branches: Sequence[_Branch]
    start: int
    end: int

    @property
    def word(self) -> str:
        if self.end - self.start == 1:
            return self.branches[self.start].word
        return f"branches {self.start} to {self.end - 1} of '{self.choice.name}'"

    def names(self) -> tuple[str, ...]:
        return self.branches[self.start].names()

    def read(self, b: ModelBuilder, scope: Scope) -> list[Value]:
        if self.end - self.start == 1:
            return self.branches[self.start].read(b, scope)
        middle = (self.start + self.end) // 2
        with b.at(self.choice.where, self.choice.name):
            is_in_lower_half = less(b, self.index, b.constant(np.array(middle)))
        lower_half, upper_half = (
            _BisectedBranches(self.choice, self.index, self.branches, *ends)
            for ends in ((self.start, middle), (middle, self.end))
        )
        return list(
            self.choice.select_by_condition(b, is_in_lower_half, lower_half, upper_half, scope)
        )
