"""Conversion of the MDF functions `onnx::If` and `case_of` to `If` operations.

A run computes only the selected branch.

    onnx::If   then_branch() if cond else else_branch()
    case_of    branches[index]() if 0 <= index < len(branches) else default()

If the condition (or index) is known while the model is read, only the selected graph is read.

Source: ONNX operators, If-13; NNC, ccv_nnc_symbolic_graph_case_of_new (a default passes values through).
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct

from mdf_loop.document.bodies import WrittenBody, written_bodies, written_body
from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import GRAPH_ARGUMENTS, graph_function
from mdf_loop.document.parts import DocumentValue, FunctionOrParameter, Node
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
from mdf_loop.reading.readers import FunctionResults, register_reader


@register_reader("onnx::If")
def read_if(
    b: ModelBuilder,
    item: FunctionOrParameter,
    node: Node,
    where: str,
    scope: Scope,
    document: Document,
) -> FunctionResults:
    """Append the operations of an `onnx::If`, and return the outputs of the selected branch."""
    choice = _Choice(b, item, node, where, scope, document, "cond")
    condition = choice.lower_condition()
    then_branch = choice.create_graph_branch("then_branch")
    else_branch = choice.create_graph_branch("else_branch")
    known_condition = b.constant_of(condition)
    if known_condition is not None:
        branch_outputs = (then_branch if known_condition else else_branch).read(b, choice.scope)
        return choice.build_results(
            [b.mark_unrolled_if(condition, value) for value in branch_outputs]
        )
    choice.check_outputs([then_branch, else_branch])
    return choice.build_results(
        choice.select_by_condition(b, condition, then_branch, else_branch, choice.scope)
    )


@register_reader("case_of")
def read_case(
    b: ModelBuilder,
    item: FunctionOrParameter,
    node: Node,
    where: str,
    scope: Scope,
    document: Document,
) -> FunctionResults:
    """Append the operations of a `case_of`, and return the outputs of the selected branch."""
    choice = _Choice(b, item, node, where, scope, document, "index")
    index = choice.lower_index()
    branch_count = sum(argument.startswith("branches[") for argument in choice.written_bodies)
    if not branch_count:
        raise ModelError(
            f"'{choice.name}' has no branches", where, "add branches: [a graph, another one, ...]"
        )
    branches = [choice.create_graph_branch(f"branches[{k}]") for k in range(branch_count)]
    default_branch = choice.create_default()
    known_index = b.constant_of(index)
    if known_index is not None:
        branch_outputs = choice.find_branch(int(known_index), branches, default_branch).read(
            b, choice.scope
        )
        return choice.build_results([b.mark_unrolled_if(index, value) for value in branch_outputs])
    choice.check_outputs([*branches, *([] if default_branch is None else [default_branch])])
    return choice.build_results(choice.select_by_index(index, branches, default_branch))


class _Branch(Protocol):
    """Protocol of a branch of an `onnx::If` or a `case_of`."""

    @property
    def description(self) -> str:
        """Name of the branch in error messages."""

    def names(self) -> tuple[str, ...]:
        """Return the names of the branch's outputs in the document."""

    def read(self, b: ModelBuilder, scope: Scope) -> list[Value]:
        """Append the operations of the branch, with names looked up in `scope`, and return its outputs."""


class _GraphBranch(Struct, frozen=True):
    """Branch of an `onnx::If` or a `case_of` that is a graph of the document.

    The graph is looked up at the first use.
    """

    choice: _Choice
    role: Role

    @property
    def description(self) -> str:
        return self.role.description

    def find_graph(self) -> OwnedGraph:
        """Look up the graph of the branch."""
        choice = self.choice
        written_body = choice.written_bodies.get(self.role.argument, WrittenBody(None))
        return find_branch_graph(
            written_body, choice.item, choice.where, self.role, choice.document
        )

    def names(self) -> tuple[str, ...]:
        return find_branch_outputs(self.find_graph())

    def read(self, b: ModelBuilder, scope: Scope) -> list[Value]:
        owned_graph = self.find_graph()
        output_names = find_branch_outputs(owned_graph)
        inner_graph = InnerGraph(b, owned_graph, scope.inner(), self.choice.document)
        with b.at(owned_graph.where):
            return [inner_graph.value(output_name) for output_name in output_names]


class _PassedDefault(Struct, frozen=True):
    """Default branch of a `case_of` that only names values of the node, which are returned unchanged."""

    choice: _Choice
    expressions: tuple[DocumentValue, ...]
    description: str = "the default"

    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.expressions))

    def read(self, b: ModelBuilder, scope: Scope) -> list[Value]:
        with b.at(f"{self.choice.where}.args.default"):
            terms = (
                lower_expression(b, expression, scope, f"default.{k}")
                for k, expression in enumerate(self.expressions)
            )
            return [tensor(b, term) for term in terms]


class _Choice:
    """Converter of the conditional functions `onnx::If` and `case_of` to operations."""

    def __init__(
        self,
        b: ModelBuilder,
        item: FunctionOrParameter,
        node: Node,
        where: str,
        scope: Scope,
        document: Document,
        selector: str,
    ) -> None:
        self.b = b
        self.item = item
        self.node = node
        self.where = where
        self.document = document
        self.selector = selector
        self.name = f"{node.id}.{item.id}"
        self.args = dict(item.args or {})
        self.written_bodies = written_bodies(item, node)
        self.join_rule: ShapeJoin = join_shapes
        self.output_count = 0
        self.scope = scope.inner()
        self._define_arguments(scope)

    def _define_arguments(self, scope: Scope) -> None:
        """Make the further arguments of an `onnx::If` or `case_of` readable by name in its branches."""
        own_argument_names = (
            self.selector,
            *GRAPH_ARGUMENTS[graph_function(self.item.function) or ""],
        )
        error_phrases = (f"'{self.name}'", "its branches do")
        for argument, expression in self.args.items():
            if argument in own_argument_names:
                continue
            with self.b.at(f"{self.where}.args.{argument}"):
                if isinstance(expression, dict):
                    close_matches = difflib.get_close_matches(
                        argument, own_argument_names, n=1, cutoff=0.4
                    )
                    raise ModelError(
                        f"'{self.name}' has no argument '{argument}' that is a graph",
                        hint=f"did you mean '{close_matches[0]}'?" if close_matches else "",
                    )
                if expression is None:
                    raise ExpressionError(
                        f"the argument '{argument}' of '{self.name}' has no value",
                        hint="give it a value, or leave it out",
                    )
                self.scope.define(argument, lower_expression(self.b, expression, scope, argument))
        refuse_unread(
            self.item, self.node, self.where, own_argument_names, self.document, error_phrases
        )

    # --- condition and index --------------------------------------------------------------------

    def _lower_selector(self, thing: str) -> Value:
        """Convert the condition or index that selects the branch to a program value.

        `thing` is the name of the selector in error messages.
        """
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
        """Reshape a value of one element to a scalar.

        A run fails if the value has more elements.
        """
        if value.shape is not None and any(
            extent != 1 for extent in value.shape if isinstance(extent, int)
        ):
            raise ConditionError(
                f"the {thing} of '{self.name}' must be one value, not {value.type}: the truth value "
                "of an array with more than one element is ambiguous"
                if thing == "condition"
                else f"the {thing} of '{self.name}' must be one number, not {value.type}",
                hint="reduce it to one element, e.g. numpy.max(...)",
            )
        return as_scalar(self.b, value)

    def lower_condition(self) -> Value:
        """Convert the condition of an `onnx::If` to a boolean program value."""
        argument_path = f"{self.where}.args.{self.selector}"
        with self.b.at(argument_path, f"{self.name}.{self.selector}"):
            scalar_condition = self._reduce_to_scalar(
                self._lower_selector("condition"), "condition"
            )
            try:
                condition = truths(self.b, scalar_condition)
            except OperandError as error:
                raise ConditionError(
                    f"the condition of '{self.name}' must be a truth value: "
                    f"{error.findings[0].what}"
                ) from None
            self.b.values_by_path[argument_path] = condition
            return condition

    def lower_index(self) -> Value:
        """Convert the index of a `case_of` to an int64 program value.

        A run fails if the index is not a whole number.
        """
        b, argument_path = self.b, f"{self.where}.args.{self.selector}"
        with b.at(argument_path, f"{self.name}.{self.selector}"):
            scalar_index = self._reduce_to_scalar(self._lower_selector("index"), "index")
            if scalar_index.dtype == "string":
                raise ConditionError(f"the index of '{self.name}' must be a whole number, not text")
            integer_index = cast(b, scalar_index, "int64")
            message = f"the index of '{self.name}' must be a whole number"
            known_index = b.constant_of(scalar_index)
            if known_index is not None and known_index != np.floor(known_index):
                raise ConditionError(
                    f"{message}, not {known_index}", hint="round it, e.g. int(...)"
                )
            if known_index is None and np.dtype(scalar_index.dtype).kind == "f":
                float_index = cast(b, integer_index, scalar_index.dtype)
                integer_index = guard_value(
                    b, integer_index, equal(b, float_index, scalar_index), message
                )
            b.values_by_path[argument_path] = integer_index
            return integer_index

    # --- branches -------------------------------------------------------------------------------

    def create_graph_branch(self, argument: str) -> _GraphBranch:
        """Return the branch for an argument, such as `then_branch`, that contains or names a graph."""
        return _GraphBranch(self, describe_branch(self.name, argument))

    def create_default(self) -> _Branch | None:
        """Return the default branch of a case_of (a graph or unchanged values), or None without a default."""
        if "default" in self.written_bodies:
            if self.written_bodies["default"].graph_or_id is None:
                return None
            return self.create_graph_branch("default")
        return _PassedDefault(
            self, list_expressions(written_body(self.item, self.node, "default").graph_or_id)
        )

    def check_outputs(self, branches: Sequence[_Branch]) -> None:
        """Raise an error if the branches do not all have the same number of outputs."""
        output_names: list[tuple[str, ...]] = []
        for branch in branches:
            with self.b.findings.catch(), self.b.at(self.where):
                output_names.append(branch.names())
        if len(output_names) < len(branches):
            raise Poisoned
        longest_output_names, shortest_output_names = (
            select_by_length(output_names, key=len) for select_by_length in (max, min)
        )
        if len(longest_output_names) != len(shortest_output_names):
            missing_name = next(
                (
                    output_name
                    for output_name in longest_output_names
                    if output_name not in shortest_output_names
                ),
                longest_output_names[len(shortest_output_names)],
            )
            longest_branch, shortest_branch = (
                branches[output_names.index(longest_output_names)].description,
                branches[output_names.index(shortest_output_names)].description,
            )
            raise ArityError(
                f"'{missing_name}' is not defined in {shortest_branch}, but defined in {longest_branch}: all branches "
                f"must give the same number of values, not {len(shortest_output_names)} and {len(longest_output_names)}",
                hint="name it in metadata.outputs of each; a value from outside can be named too",
            )
        self.output_count = len(longest_output_names)
        branch_graphs = [
            branch.find_graph() for branch in branches if isinstance(branch, _GraphBranch)
        ]
        stated_shapes = [graph.shape_rule for graph in branch_graphs if graph.shape_rule]
        if (*stated_shapes, self.b.options.shapes)[0] == "dynamic":
            self.join_rule = any_shape

    def build_results(self, values: Sequence[Value]) -> FunctionResults:
        """Return the outputs of the selected branch as the results of the `onnx::If` or `case_of`."""
        if not values:
            raise ArityError(f"the branches of '{self.name}' give nothing")
        return FunctionResults(values[0] if len(values) == 1 else tuple(values))

    def _name_result(self, k: int) -> str:
        """Return the name of result `k` of the `onnx::If` or `case_of`, such as `node.function[1]`."""
        return self.name if self.output_count == 1 else f"{self.name}[{k}]"

    # --- selection of a branch ------------------------------------------------------------------

    def select_by_condition(
        self, b: ModelBuilder, condition: Value, then: _Branch, otherwise: _Branch, scope: Scope
    ) -> tuple[Value, ...]:
        """Append an `If` operation with two branches, and return the outputs of the operation.

        Only the branch that a run selects must fit the shapes.
        """
        branch_names = BranchNames((then.description, otherwise.description), self._name_result)
        open_branches = [
            OpenBranch(branch.description, branch.read, scope, condition, is_then=is_then)
            for branch, is_then in ((then, True), (otherwise, False))
        ]

        def join(first: Shape, second: Shape) -> Shape:
            return (
                any_shape if any(branch.is_open for branch in open_branches) else self.join_rule
            )(first, second)

        with b.at(self.where, self.name):
            read_then, read_otherwise = (branch.read for branch in open_branches)
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
        """Return the part of an error message that states how many branches an index can select."""
        return f"it has {count} branches, counted from 0, and no default"

    def select_by_index(
        self, index: Value, branches: Sequence[_Branch], default: _Branch | None
    ) -> tuple[Value, ...]:
        """Append `If` operations that select a branch by an index at run time, and return their outputs."""
        b, branch_count = self.b, len(branches)
        with b.at(f"{self.where}.args.index", f"{self.name}.index"):
            first_index, index_limit = (b.constant(np.array(k)) for k in (0, branch_count))
            is_in_range = b.op(
                "And", greater_equal(b, index, first_index), less(b, index, index_limit)
            )
            if default is None:
                message = f"the index of '{self.name}' is outside: {self._describe_branches(branch_count)}"
                is_in_range = guard_value(b, is_in_range, is_in_range, message)
                index = guard_value(b, index, is_in_range, message)
        bisected_branches = _BisectedBranches(self, index, branches, 0, branch_count)
        if default is not None:
            return self.select_by_condition(b, is_in_range, bisected_branches, default, self.scope)
        if branch_count == 1:
            return self.select_by_condition(b, is_in_range, branches[0], branches[0], self.scope)
        return tuple(bisected_branches.read(b, self.scope))


class _BisectedBranches(Struct, frozen=True):
    """Consecutive branches of a `case_of`, selected by nested `If` operations that bisect the index."""

    choice: _Choice
    index: Value
    branches: Sequence[_Branch]
    first_index: int
    end_index: int

    @property
    def description(self) -> str:
        if self.end_index - self.first_index == 1:
            return self.branches[self.first_index].description
        return f"branches {self.first_index} to {self.end_index - 1} of '{self.choice.name}'"

    def names(self) -> tuple[str, ...]:
        return self.branches[self.first_index].names()

    def read(self, b: ModelBuilder, scope: Scope) -> list[Value]:
        if self.end_index - self.first_index == 1:
            return self.branches[self.first_index].read(b, scope)
        middle_index = (self.first_index + self.end_index) // 2
        with b.at(self.choice.where, self.choice.name):
            is_in_lower_half = less(b, self.index, b.constant(np.array(middle_index)))
        lower_half, upper_half = (
            _BisectedBranches(self.choice, self.index, self.branches, *index_limits)
            for index_limits in ((self.first_index, middle_index), (middle_index, self.end_index))
        )
        return list(
            self.choice.select_by_condition(b, is_in_lower_half, lower_half, upper_half, scope)
        )
