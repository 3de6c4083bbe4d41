"""Conversion of a loop body to operations, specialized for the types of its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.document.document import Document
from mdf_loop.errors import ConditionError, Poisoned, SignatureError
from mdf_loop.ir import Operation, Scanned, Shape, Value, operands, results, walk
from mdf_loop.lower import Scope, Term
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.operators import one_element
from mdf_loop.reading.delays import History, RowType
from mdf_loop.reading.extents import Extents
from mdf_loop.reading.inner_graph import InnerGraph, list_output_ports
from mdf_loop.reading.loop_forms import LoopForm
from mdf_loop.reading.signature import Signature
from mdf_loop.reading.slices import Slice, SlicedRows


class BodyScopes(Struct, frozen=True):
    """Names that a loop body can read: names of the loop's node, and names that the loop defines."""

    node_scope: Scope
    loop_names: Mapping[str, Term]

    def select_for_body(self, form: LoopForm) -> Scope:
        """Return the scope of names that the loop body can read.

        A strict body sees bound names only.
        """
        return (
            Scope(self.loop_names)
            if form.owned_graph.is_strict
            else self.node_scope.inner(self.loop_names)
        )


class UnrolledIteration(Struct, frozen=True):
    """Input values of one iteration of an unrolled loop.

    Attributes:
        iteration_number: Number of the iteration, counted from 0.
        max_iterations: Maximum number of iterations.
        iteration: Iteration number as a value of the program.
        condition: Condition that enters the iteration.
        carried_values: Carried values that enter the iteration.
    """

    iteration_number: int
    max_iterations: int
    iteration: Value
    condition: Value
    carried_values: tuple[Value, ...]


class BodyInputs(Struct, frozen=True):
    """Inputs of a loop body: types of carried values, sliced arrays and past values of delays.

    Attributes:
        carried_types: Types of the carried values. Those of delay histories are last.
        slices: All slices.
        rows_by_slice: Slices that the loop scans, with their rows. The body computes the other slices from the
            iteration number.
        histories: Delay histories.
        unrolled_iteration: Input values of an iteration of an unrolled loop, else None.
    """

    carried_types: tuple[RowType, ...]
    slices: tuple[Slice, ...]
    rows_by_slice: Mapping[Slice, SlicedRows]
    histories: tuple[History, ...]
    unrolled_iteration: UnrolledIteration | None = None


class LoweredBody(Struct, frozen=True):
    """Loop body that was converted to operations, with its inputs, outputs and recorded values.

    Attributes:
        iteration: Iteration number.
        condition_in: Condition that enters an iteration.
        condition_out: Condition for the next iteration.
        carried_inputs: Carried values at the beginning of an iteration.
        carried_outputs: Carried values at the end of an iteration.
        carried_names: Names of the carried values.
        recorded_values: Values that the loop records in each iteration.
        recorded_names: Names of the recorded values.
        scanned_inputs: Arrays that the loop scans row by row.
        ops: Operations of the body.
        delayed_values: For each delay history, the body's value that the history records.
        values_before_test: Values that are available when the condition of a loop with a mid-body exit is tested.
    """

    iteration: Value
    condition_in: Value
    condition_out: Value
    carried_inputs: tuple[Value, ...]
    carried_outputs: tuple[Value, ...]
    carried_names: tuple[str, ...]
    recorded_values: tuple[Value, ...]
    recorded_names: tuple[str, ...]
    scanned_inputs: tuple[Scanned, ...]
    ops: tuple[Operation, ...]
    delayed_values: tuple[Value, ...]
    values_before_test: tuple[Value, ...]

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Inputs of the body: iteration number, condition, carried values and scanned rows."""
        scanned_rows = (scanned_input.row for scanned_input in self.scanned_inputs)
        return (self.iteration, self.condition_in, *self.carried_inputs, *scanned_rows)

    @property
    def outer_extents(self) -> Extents:
        """Symbolic extents, such as `n`, of the outer-scope values that the loop reads or scans."""
        inner_operations = list(walk(self.ops))
        inner_values = {
            *self.inputs,
            *(value for operation in inner_operations for value in results(operation)),
        }
        outer_values = (
            value
            for operation in inner_operations
            for value in operands(operation)
            if value not in inner_values
        )
        return Extents(
            (*(scanned_input.rows for scanned_input in self.scanned_inputs), *outer_values)
        )


def read_body(
    b: ModelBuilder,
    form: LoopForm,
    signature: Signature,
    body_inputs: BodyInputs,
    scopes: BodyScopes,
    document: Document,
) -> LoweredBody:
    """Convert the body graph of a loop to operations, specialized for the types of its inputs."""
    return _BodyReader(
        _create_body_builder(b, body_inputs.unrolled_iteration),
        form,
        signature,
        scopes.select_for_body(form),
        document,
    ).read(body_inputs)


def _create_body_builder(
    b: ModelBuilder, unrolled_iteration: UnrolledIteration | None
) -> ModelBuilder:
    """Return a builder for the body of a loop, or for one iteration of an unrolled loop."""
    if unrolled_iteration is None:
        return b.loop_body()
    body_builder = b.body()
    body_builder.call_site = replace(
        body_builder.call_site,
        pass_index=b.call_site.pass_index * unrolled_iteration.max_iterations
        + unrolled_iteration.iteration_number,
    )
    body_builder.in_loop = True
    return body_builder


class _BodyReader:
    """Converter of one loop body to operations."""

    def __init__(
        self,
        b: ModelBuilder,
        form: LoopForm,
        signature: Signature,
        scope: Scope,
        document: Document,
    ) -> None:
        self.b = b
        self.loop_form = form
        self.signature = signature
        self.outer_scope = scope
        self.document = document
        self.inputs: dict[str, Term] = {}
        self.scanned_inputs: list[Scanned] = []

    def read(self, body_inputs: BodyInputs) -> LoweredBody:
        """Convert the body graph to operations, specialized for the types of its inputs."""
        b, signature, body_path = self.b, self.signature, self.loop_form.body_path
        with b.at(body_path):
            iteration, condition_in = self._define_control(body_inputs.unrolled_iteration)
            history_names = [
                name for history in body_inputs.histories for name in history.carried_names
            ]
            carried_inputs = self._define_carried(body_inputs, history_names)
            histories_with_values = self._define_slices_and_delays(
                iteration, carried_inputs, body_inputs
            )
        body_scope, is_strict = (
            self.outer_scope.inner(self.inputs),
            self.loop_form.owned_graph.is_strict,
        )
        inner_graph = InnerGraph(
            b,
            self.loop_form.owned_graph,
            body_scope,
            self.document,
            strict=is_strict,
            iteration=iteration,
        )
        condition_out, *body_outputs = self._read_outputs(inner_graph)
        carried_count = len(signature.carried_outputs)
        delayed_values, next_carried_values = self._update_histories(
            histories_with_values, inner_graph
        )
        return LoweredBody(
            iteration=iteration,
            condition_in=condition_in,
            condition_out=condition_out,
            carried_inputs=carried_inputs,
            carried_outputs=(*body_outputs[:carried_count], *next_carried_values),
            carried_names=(*signature.carried_outputs, *history_names),
            recorded_values=tuple(body_outputs[carried_count:]),
            recorded_names=signature.recorded_outputs,
            delayed_values=delayed_values,
            scanned_inputs=tuple(self.scanned_inputs),
            values_before_test=tuple(self._find_available_values(inner_graph))
            if self.loop_form.has_mid_exit
            else (),
            ops=tuple(b.ops),
        )

    def _define_control(self, unrolled_iteration: UnrolledIteration | None) -> tuple[Value, Value]:
        """Define the iteration number and the incoming condition as inputs of the body, and return both."""
        signature = self.signature
        if unrolled_iteration is None:
            iteration = self._create_input(signature.iteration, "iteration", "int64", ())
            return iteration, self._create_input(signature.condition_in, "condition", "bool", ())
        values_by_name = {
            signature.iteration: unrolled_iteration.iteration,
            signature.condition_in: unrolled_iteration.condition,
        }
        self.inputs.update((name, value) for name, value in values_by_name.items() if name)
        return unrolled_iteration.iteration, unrolled_iteration.condition

    def _define_carried(
        self, body_inputs: BodyInputs, history_names: list[str]
    ) -> tuple[Value, ...]:
        """Define the carried values of the loop as inputs of its body, and return these inputs.

        The carried values of delay histories are last.
        """
        carried_names = self.signature.carried_inputs
        if body_inputs.unrolled_iteration is not None:
            self.inputs.update(
                zip(carried_names, body_inputs.unrolled_iteration.carried_values, strict=True)
            )
            return body_inputs.unrolled_iteration.carried_values
        return tuple(
            self._create_input(input_name, input_label, row_type.dtype, row_type.shape)
            for input_name, input_label, row_type in zip(
                (*carried_names, *(None for _ in history_names)),
                (*carried_names, *history_names),
                body_inputs.carried_types,
                strict=True,
            )
        )

    def _define_slices_and_delays(
        self, iteration: Value, carried_inputs: tuple[Value, ...], body_inputs: BodyInputs
    ) -> list[tuple[History, tuple[Value, ...]]]:
        """Define slices and delays as inputs of the body, and return the carried values of each delay.

        The result contains each delay history with its carried values.
        """
        for input_slice in body_inputs.slices:
            with self.b.at(input_slice.slice_form.where, input_slice.slice_form.name):
                current_slice_part = self._read_slice(
                    input_slice, body_inputs.rows_by_slice.get(input_slice), iteration
                )
                self._define_input(
                    input_slice.slice_form.name, current_slice_part, input_slice.slice_form.where
                )
        histories_with_values = []
        first_position = len(self.signature.carried_inputs)
        for history in body_inputs.histories:
            carried_values = carried_inputs[
                first_position : first_position + len(history.carried_names)
            ]
            first_position += len(history.carried_names)
            histories_with_values.append((history, carried_values))
            with self.b.at(history.where, history.source_name):
                for delay_name, delayed_value in history.read_delayed_values(
                    self.b, carried_values
                ).items():
                    self._define_input(delay_name, delayed_value, history.where)
        return histories_with_values

    def _read_slice(self, part: Slice, rows: SlicedRows | None, iteration: Value) -> Value:
        """Return the part of a sliced array that the current iteration of the body reads.

        The part is a scanned row, or is selected by the iteration number.
        """
        if rows is None:
            return part.select_part(self.b, iteration)
        self.scanned_inputs.append(rows.create_scanned(self.b, part.slice_form.name))
        return self.scanned_inputs[-1].row

    def _define_input(self, name: str, value: Value, where: str) -> None:
        """Define an input of the body.

        Raise SignatureError if the name is already defined.
        """
        if name in self.inputs:
            raise SignatureError(
                f"the name '{name}' stands for two inputs of the body",
                where,
                "slices and delays do not stand in metadata.inputs; rename one of them",
            )
        self.inputs[name] = value

    def _update_histories(
        self,
        histories_with_values: list[tuple[History, tuple[Value, ...]]],
        inner: InnerGraph,
    ) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Return the values that delays read later, and the past values for the next iteration."""
        delayed_values: list[Value] = []
        next_carried_values: list[Value] = []
        for history, carried_values in histories_with_values:
            with self.b.at(history.where, history.source_name):
                delayed_value = inner.value(history.source_name)
                is_storable = RowType(delayed_value.dtype, delayed_value.shape).fits(history)
                next_carried_values += (
                    history.append_value(self.b, carried_values, delayed_value)
                    if is_storable
                    else carried_values
                )
            delayed_values.append(delayed_value)
        return tuple(delayed_values), tuple(next_carried_values)

    def _find_available_values(self, inner: InnerGraph) -> list[Value]:
        """Return the values that are computed before a mid-body exit tests the loop's condition.

        These are inputs of the body, and outputs of the nodes that precede the test.
        """
        graph, condition_name = self.loop_form.body, self.signature.condition_out
        preceding_nodes = {
            node_id
            for node_id, port in list_output_ports(graph)
            if condition_name in (port, f"{node_id}.{port}")
        }
        unvisited_nodes = list(preceding_nodes)
        while unvisited_nodes:
            receiver = unvisited_nodes.pop()
            senders = {
                edge.sender for edge in graph.edges if edge.receiver == receiver
            } - preceding_nodes
            preceding_nodes |= senders
            unvisited_nodes += senders
        available_terms = [*self.inputs.values()]
        available_terms += [
            inner.reader.output(*output_port)
            for output_port in list_output_ports(graph)
            if output_port[0] in preceding_nodes
        ]
        return [value for term in available_terms for value in _iterate_values(term)]

    def _create_input(self, name: str | None, label: str, dtype: str, shape: Shape) -> Value:
        """Create the program value of a body input, and bind the input's name (unless None) to the value."""
        shape_with_names = shape and tuple(
            self.b.name("d") if str(extent).startswith("?") else extent for extent in shape
        )
        input_value = self.b.new(dtype, shape_with_names, name or label)
        if name is not None:
            self.inputs[name] = input_value
        return input_value

    def _read_outputs(self, inner: InnerGraph) -> list[Value]:
        """Return the outputs of a loop body: its condition, then carried values, then recorded values.

        Errors in several outputs are raised together.
        """
        b, signature, body_path = self.b, self.signature, self.loop_form.body_path
        body_outputs: list[Value] = []
        with b.findings.catch(), b.at(body_path):
            body_outputs.append(self._read_condition(inner))
        for output_name in (*signature.carried_outputs, *signature.recorded_outputs):
            with b.findings.catch(), b.at(body_path):
                body_outputs.append(inner.value(output_name))
        if len(body_outputs) < 1 + len(signature.carried_outputs) + len(signature.recorded_outputs):
            raise Poisoned
        return body_outputs

    def _read_condition(self, inner: InnerGraph) -> Value:
        """Return the body's condition as one truth value, or a constant True if the body has no condition."""
        condition_name = self.signature.condition_out
        if not condition_name:
            return self.b.constant(np.array(True))
        condition = inner.value(condition_name)
        if condition.dtype != "bool":
            raise ConditionError(
                f"the body's condition '{condition_name}' must be a truth value, not {condition.type}",
                hint="compare, e.g. x < limit, or use True to go on always; the condition is the "
                "first of metadata.outputs",
            )
        scalar_condition = one_element(self.b, condition)
        if scalar_condition is None:
            raise ConditionError(
                f"the body's condition '{condition_name}' must be one truth value, not {condition.type}",
                hint="reduce it to one element, e.g. numpy.max(...)",
            )
        return scalar_condition


def _iterate_values(term: Term) -> Iterator[Value]:
    """Yield the program values in a term, which is a value or a nested tuple of values."""
    if isinstance(term, Value):
        yield term
    else:
        for element in term:
            yield from _iterate_values(element)
