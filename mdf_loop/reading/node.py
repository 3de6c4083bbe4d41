"""Conversion of one execution of a node to operations, from the input ports to the output ports.

Functions read the old value of a parameter, output ports read the new one. In the first execution of a
node, the old value is the initial value. A single evaluation executes each node once.

Source: modeci_mdf.execution_engine.EvaluableNode (0.4.15), documented in docs/explanation/semantics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from msgspec import Struct

from mdf_loop.document.bodies import parameters_with_bodies
from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import graph_function, is_loop
from mdf_loop.document.parts import DocumentValue, FunctionOrParameter, Node, Parameter
from mdf_loop.errors import (
    ArityError,
    CycleError,
    ExpressionError,
    LoopError,
    Poisoned,
    ScopeError,
)
from mdf_loop.ir import Value
from mdf_loop.lower import (
    Scope,
    Term,
    lower_expression,
    lower_function,
    names_in,
    tensor,
    with_arguments,
)
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.operators import add, literal, multiply, promote, truths
from mdf_loop.ops.stop_gradient import STOP_GRADIENT
from mdf_loop.reading.memory import select_term
from mdf_loop.reading.parameters import (
    condition_fields,
    find_fixed_parameters,
    is_document_part,
    is_empty,
    is_stateful,
    is_text,
    no_value_error,
)
from mdf_loop.reading.readers import read_graph_function
from mdf_loop.reading.schedule.known import Truth

LOOP_RESULTS = ("iterations", "condition", "stopped_by")
"""Further results of a loop, written after a dot: iterations run, last condition, `StopReason` code."""


class Context(Struct, frozen=True):
    """Context of a graph conversion: document, enclosing scope and graph path.

    Attributes:
        document: Document of the graph.
        outer_scope: Names of the enclosing scope.
        graph_path: Path of the graph by ids alone.
    """

    document: Document
    outer_scope: Scope | None = None
    graph_path: str = ""


class ExecutionPoint(Struct, frozen=True):
    """Point of execution of a node: whether the node ran before, its old values and the time step.

    Attributes:
        has_run: Truth value that tells whether the node has been executed before.
        read_old_value: Function that returns the value of a parameter after the node's last execution.
        dt: Time since the last execution, or None if no time passes.
    """

    has_run: Truth
    read_old_value: Callable[[str], Term]
    dt: Value | None = None


class NodeReader:
    """Builder of the operations that execute a node once, from input ports to output ports."""

    def __init__(
        self,
        b: ModelBuilder,
        node: Node,
        where: str,
        ports: dict[str, Term | Callable[[], Term]],
        context: Context,
        execution_point: ExecutionPoint,
    ) -> None:
        self.b = b
        self.node = node
        self.execution_point = execution_point
        self.where = where
        self.context = context
        self.inputs = Scope(ports, context.outer_scope, is_node=True)
        self.parameters = {parameter.id: parameter for parameter in node.parameters}
        self.functions = {function.id: function for function in node.functions}
        self.fixed_ids = find_fixed_parameters(node)
        self.terms_or_errors: dict[tuple[str, str], Term | LoopError | None] = {}
        self.pending_keys: list[tuple[str, str]] = []
        self.names_by_reader: dict[str | None, set[str]] = {}
        self.reader_name: str | None = None
        self.loop_results: dict[str, Mapping[str, Callable[[], Term]]] = {}
        self._refuse_repeated_ids(ports)
        self.old_scope = self._build_old_scope(self.inputs)
        self.text_parameters: set[str] = set()
        self.inputs.texts = {
            parameter.id: partial(self._read_text, parameter)
            for parameter in node.parameters
            if is_text(parameter)
        }

    def _refuse_repeated_ids(self, ports: dict[str, Any]) -> None:
        """Raise ScopeError if two parts of the node have the same id."""
        part_ids = [
            *ports,
            *(parameter.id for parameter in self.node.parameters),
            *(function.id for function in self.node.functions),
        ]
        for repeated_id in [
            part_id for k, part_id in enumerate(part_ids) if part_id in part_ids[:k]
        ]:
            raise ScopeError(
                f"the name '{repeated_id}' stands for two things in node '{self.node.id}'",
                self.where,
                "rename one of them",
            )

    def _build_old_scope(self, scope: Scope) -> Scope:
        """Build a scope with parameter values before this execution, and the functions' results."""
        scope_before_execution = scope.inner()
        for parameter_id in self.parameters:
            scope_before_execution.define(
                parameter_id,
                partial(self._compute_once, "old", parameter_id, self._read_old_parameter),
            )
        for function_id in self.functions:
            scope_before_execution.define(
                function_id,
                partial(self._compute_once, "function", function_id, self._compute_function),
            )
        for node_part in self.node.functions_and_parameters:
            for result_key in LOOP_RESULTS if is_loop(node_part.function) else ():
                scope_before_execution.define(
                    f"{node_part.id}.{result_key}",
                    partial(self._read_loop_result, node_part.id, result_key),
                )
        return scope_before_execution

    def _read_text(self, parameter: Parameter) -> Any:
        """Return the text of a text parameter, and record that the text is read."""
        self.text_parameters.add(parameter.id)
        return parameter.value

    def _read_loop_result(self, name: str, key: str) -> Term:
        """Return a result of a loop by its key, such as `loop.iterations`."""
        if name in self.functions:
            self._compute_once("function", name, self._compute_function)
        if name not in self.loop_results:
            raise Poisoned
        return self._compute_once(key, name, lambda i: self.loop_results[i][key]())

    # --- memoization ----------------------------------------------------------------------------

    def _compute_once(self, kind: str, name: str, compute: Callable[[str], Term]) -> Term:
        """Compute a value of the node at its first use, and return the same value later.

        Raise CycleError if the value depends on itself.

        The method also records which parameter reads the value.
        """
        value_key = (kind, name)
        self.names_by_reader.setdefault(self.reader_name, set()).add(name)
        if value_key in self.pending_keys:
            cycle_text = " -> ".join(
                value_name
                for _, value_name in [
                    *self.pending_keys[self.pending_keys.index(value_key) :],
                    value_key,
                ]
            )
            raise CycleError(
                f"the values of node '{self.node.id}' need each other: {cycle_text}",
                self.where,
                "give a parameter a default_initial_value to make it a state",
            )
        if value_key not in self.terms_or_errors:
            self.pending_keys.append(value_key)
            self.terms_or_errors[value_key] = None
            try:
                self.terms_or_errors[value_key] = compute(name)
            except LoopError as error:
                self.terms_or_errors[value_key] = error
            finally:
                self.pending_keys.pop()
        cached_term = self.terms_or_errors[value_key]
        if cached_term is None:
            raise Poisoned
        if isinstance(cached_term, LoopError):
            raise cached_term
        return cached_term

    @contextmanager
    def _enter_part(self, kind: str, name: str) -> Iterator[str]:
        """Mark a function, parameter or port as the part of the node that is being converted.

        The builder's document path and random call site are set until the context ends.

        The context value is the path.
        """
        part_path = f"{self.where}.{kind}['{name}']"
        site_item = f"{self.node.id}.{name}"
        if kind == "output_ports" and (name in self.parameters or name in self.functions):
            site_item = f"{self.node.id}.output_ports.{name}"  # a parameter or function of the node has the same name
        call_site_context = self.b.at_call_site(
            graph_path=self.context.graph_path, item_path=site_item, call_index=0
        )
        with self.b.at(part_path, f"{self.node.id}.{name}"), call_site_context:
            yield part_path

    def _record_value(self, where: str, term: Term) -> Term:
        """Record which program value belongs to a document path, and return the value."""
        self.b.values_by_path[where] = term
        return term

    # --- B: old values of parameters ------------------------------------------------------------

    def _read_old_parameter(self, name: str) -> Term:
        """Return the value of a parameter before the current execution of the node."""
        has_run = self.execution_point.has_run
        if has_run is False or name in self.fixed_ids:
            return self._read_initial(name)
        old_value = self.execution_point.read_old_value(name)
        if has_run is True:
            return old_value
        return select_term(self.b, has_run, old_value, self._read_initial(name))

    def _read_initial(self, name: str) -> Term:
        """Return the value of a parameter before the first execution of the node."""
        parameter = self.parameters[name]
        with self._enter_part("parameters", name) as parameter_path:
            if is_stateful(parameter):
                initial_expression = parameter.default_initial_value
                if initial_expression is None:
                    return literal(self.b, 0.0)
                return self._lower_expression(
                    initial_expression, self.old_scope, "default_initial_value"
                )
            if is_empty(parameter):
                raise no_value_error(parameter)
            if (
                parameter.conditions
                and parameter.value is None
                and self.execution_point.has_run is not False
            ):
                return literal(self.b, 0.0)
            if parameter.value is None:
                raise ExpressionError(
                    f"the parameter '{name}' has no value yet when a function reads it",
                    hint=f"make '{name}' a function, or give it a value",
                )
            return self._record_value(
                parameter_path, self._lower_expression(parameter.value, self.old_scope)
            )

    def _lower_expression(self, expression: DocumentValue, scope: Scope, part: str = "") -> Term:
        """Convert an expression of the node to a program value.

        `part` is the field of the expression in the document.
        """
        return lower_expression(self.b, expression, scope, part)

    # --- C: functions ---------------------------------------------------------------------------

    def _compute_function(self, name: str) -> Term:
        """Return the result of a function of the node."""
        with self._enter_part("functions", name) as function_path:
            return self._record_value(
                function_path,
                self._call_function(self.functions[name], function_path, self.old_scope),
            )

    def _call_function(self, item: FunctionOrParameter, where: str, scope: Scope) -> Term:
        """Return the result of a Function, or of a Parameter that has a function."""
        if graph_function(item.function):
            function_results = read_graph_function(
                self.b, item, self.node, where, scope, self.context.document
            )
            self.loop_results[item.id] = function_results.named_results
            return function_results.term
        if item.function:
            return lower_function(self.b, item.function, item.args or {}, scope, item.metadata)
        if item.value is None:
            raise ExpressionError(f"'{item.id}' has neither a function nor a value")
        with with_arguments(self.b, item.args or {}, scope) as inner_scope:
            return self._lower_expression(item.value, inner_scope)

    # --- D: new values of parameters ------------------------------------------------------------

    def _build_new_scope(self) -> Scope:
        """Build a scope with the values of the parameters after this execution of the node."""
        new_scope = self.old_scope.inner()
        changed_parameter_ids: set[str] = set()
        node_parts = self.node.functions_and_parameters
        graph_parameters = set().union(
            *(parameters_with_bodies(node_part, self.node) for node_part in node_parts)
        )
        for parameter in self.node.parameters:
            if parameter.id in graph_parameters or is_document_part(parameter.value):
                continue
            if self._keeps_old_value(parameter, changed_parameter_ids):
                compute_value: Callable[[str], Term] = self._keep_parameter
            else:
                changed_parameter_ids.add(parameter.id)
                compute_value = self._create_update(new_scope)
            self.reader_name = parameter.id
            # Each reader of the parameter raises the error again.
            with suppress(LoopError, Poisoned):
                self._compute_once("new", parameter.id, compute_value)
            new_scope.define(
                parameter.id, partial(self._compute_once, "new", parameter.id, self._keep_parameter)
            )
        self.reader_name = None
        return new_scope

    def _keeps_old_value(self, parameter: Parameter, changed_parameter_ids: set[str]) -> bool:
        """Return True if one execution of the node does not change the value of a parameter."""
        if self.execution_point.has_run is not False:
            return parameter.id in self.fixed_ids
        names_read = names_in(parameter.value)
        return (
            parameter.value is not None
            and not parameter.conditions
            and not is_stateful(parameter)
            and not names_read & changed_parameter_ids
        )

    def _keep_parameter(self, name: str) -> Term:
        """Return the old value of a parameter as its new value."""
        return self._compute_once("old", name, self._read_old_parameter)

    def _create_update(self, scope: Scope) -> Callable[[str], Term]:
        """Return a function that computes the new value of a parameter by its name.

        Names in expressions are looked up in `scope`.
        """

        def compute(name: str) -> Term:
            parameter = self.parameters[name]
            with self._enter_part("parameters", name) as parameter_path:
                return self._record_value(
                    parameter_path,
                    self._apply_conditions(
                        parameter, self._compute_new_value(parameter, parameter_path, scope), scope
                    ),
                )

        return compute

    def _compute_new_value(self, parameter: Parameter, where: str, scope: Scope) -> Term:
        """Return the new value of a parameter before its conditions are applied."""
        if parameter.value is not None:
            return self._lower_expression(parameter.value, scope)
        if parameter.function:
            return self._call_function(parameter, where, scope)
        if parameter.time_derivative is not None:
            if self.execution_point.dt is not None:
                derivative = parameter.time_derivative
                slope = tensor(self.b, self._lower_expression(derivative, scope, "time_derivative"))
                old_value = tensor(self.b, self._keep_parameter(parameter.id))
                return add(self.b, old_value, multiply(self.b, slope, self.execution_point.dt))
            if parameter.default_initial_value is None:
                raise ExpressionError(
                    f"the parameter '{parameter.id}' has a time_derivative, but nothing to start from",
                    hint="give it a default_initial_value",
                )
            initial_expression = parameter.default_initial_value
            return self._lower_expression(initial_expression, scope, "default_initial_value")
        if parameter.conditions:
            is_first_run = self.execution_point.has_run is False
            return literal(self.b, 0.0) if is_first_run else self._keep_parameter(parameter.id)
        raise no_value_error(parameter)

    def _apply_conditions(self, parameter: Parameter, term: Term, scope: Scope) -> Term:
        """Return the new value of a parameter after its conditions, applied in order.

        Each condition is `where(test, value, current)`.
        """
        for k, condition in enumerate(parameter.conditions):
            test_expression, value_expression = condition_fields(condition)
            test_term = self._lower_expression(test_expression, scope, f"conditions.{k}.test")
            is_met = truths(self.b, tensor(self.b, test_term))
            conditional_value = tensor(
                self.b, self._lower_expression(value_expression, scope, f"conditions.{k}.value")
            )
            met_value, unmet_value = promote(self.b, conditional_value, tensor(self.b, term))
            term = self.b.op("Where", is_met, met_value, unmet_value)
        return term

    # --- E: output ports ------------------------------------------------------------------------

    def read(self) -> dict[str, Term]:
        """Return the value of each output port.

        A port with an error is omitted, and the error is recorded.
        """
        for function_id in self.functions:
            with self.b.findings.catch():
                self._compute_once("function", function_id, self._compute_function)
        new_scope = self._build_new_scope()
        self.scope = new_scope
        port_terms: dict[str, Term] = {}
        ports_by_group = self._group_ports_by_source()
        for port in self.node.output_ports:
            with self.b.findings.catch(), self._enter_part("output_ports", port.id) as port_path:
                if port.value is None:
                    raise ExpressionError(
                        f"the output port '{port.id}' has no value",
                        hint="write what it gives: value: <a parameter, function or expression>",
                    )
                expression = port.value
                port_term = self._lower_expression(expression, new_scope)
                if port.id in ports_by_group and isinstance(port_term, tuple):
                    port_term = self._select_port_result(port_term, ports_by_group, port.id)
                if f"{self.node.id}.{port.id}" in self.b.options.constant_ports:
                    port_term = self.b.op(STOP_GRADIENT, tensor(self.b, port_term))
                port_terms[port.id] = self._record_value(port_path, port_term)
        self._report_parameter_errors()
        return port_terms

    def _report_parameter_errors(self) -> None:
        """Report the errors of parameters, as mere notes for parameters that nothing reads."""
        names_read: set[str] = set()
        unvisited_names = self.names_by_reader.get(None, set())
        while unvisited_names:
            names_read |= unvisited_names
            unvisited_names = (
                set().union(*(self.names_by_reader.get(name, set()) for name in unvisited_names))
                - names_read
            )
        for (value_kind, value_name), outcome in self.terms_or_errors.items():
            if (
                value_kind != "new"
                or not isinstance(outcome, LoopError)
                or value_name in self.text_parameters
            ):
                continue
            if value_name in names_read or not self.node.output_ports:
                self.b.findings.items.extend(outcome.findings)
                continue
            self.b.findings.unread += outcome.findings
            for finding in outcome.findings:
                message = f"nothing reads the parameter '{value_name}', which has no value: {finding.what}"
                self.b.note(message, finding.where)

    def _group_ports_by_source(self) -> dict[str, list[str]]:
        """Map each output port to all output ports that name the same loop or conditional.

        Each of these ports gets the result at its position.
        """
        ports_by_source: dict[str, list[str]] = {}
        for port in self.node.output_ports:
            source_name = port.value if isinstance(port.value, str) else ""
            port_source = self.functions.get(source_name) or self.parameters.get(source_name)
            if port_source is not None and graph_function(port_source.function):
                ports_by_source.setdefault(source_name, []).append(port.id)
        return {
            port: grouped_ports
            for grouped_ports in ports_by_source.values()
            if len(grouped_ports) > 1
            for port in grouped_ports
        }

    def _select_port_result(
        self, term: tuple[Term, ...], ports_by_group: dict[str, list[str]], port: str
    ) -> Term:
        """Return result `k` of a loop or conditional for the `k`-th output port that reads its results."""
        grouped_ports = ports_by_group[port]
        source_noun = (
            "loop"
            if any(is_loop(function.function) for function in self.functions.values())
            else "choice"
        )
        if len(grouped_ports) != len(term):
            raise ArityError(
                f"the {source_noun} gives {len(term)} results, but {len(grouped_ports)} output ports take them",
                hint=f"write {source_noun}[0], {source_noun}[1], ... in the ports to choose",
            )
        return term[grouped_ports.index(port)]
