"""Conversion of a model over time to a first evaluation and a loop with one evaluation per iteration.

    first:  y, states = evaluate(inputs)                       # no time has passed
    later:  for i in range(steps):
                y, states = evaluate(inputs, states, dt)       # states are carried, y recorded

The carried states are found while the body is read: parameters whose old value is read, outputs that an
edge leads back, counts of scheduler conditions. A carried value has the dtype and shape that hold for all
steps.

Source: modeci_mdf.execution_engine.EvaluableGraph.evaluate (0.4.15), called repeatedly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.document.document import Document
from mdf_loop.document.parts import DocumentValue, InputPort, Node
from mdf_loop.errors import Finding, raise_findings
from mdf_loop.ir import InputRole, Loop, Output, OutputRole, Program, Recorded, Scanned, Value
from mdf_loop.ir.check import check
from mdf_loop.ir.types import is_tensor
from mdf_loop.lower import Term, tensor
from mdf_loop.lower.builder import Options
from mdf_loop.reading.binding import BoundValues
from mdf_loop.reading.draws import replace_draws_over_time
from mdf_loop.reading.graph import GraphReader
from mdf_loop.reading.memory import NODE_FIELDS, LoopMemory, State, create_state_output, state_name
from mdf_loop.reading.passes_loop import EXECUTED_SETS
from mdf_loop.reading.possible_shapes import find_broadcast_errors
from mdf_loop.reading.program import ProgramReader, read_current_value
from mdf_loop.reading.schedule.plan import NodeSets, Schedule
from mdf_loop.specification import RunSpecification


def _create_executed_output(sets: Value) -> Output:
    """Return the program output that states which nodes ran, for a schedule that depends on values.

    See `EXECUTED_SETS`.
    """
    return Output("executed", sets, OutputRole.EXECUTED)


class OverTime(Struct, frozen=True):
    """Program of the first evaluation of a model over time, and program of all later evaluations.

    Attributes:
        first_program: Program of the first evaluation. It returns recorded values, then states.
        later_program: Program of the later evaluations. It takes inputs, states, `steps` and `dt`, and returns
            recorded values with a time axis, then states.
        recorded_names: Names of the recorded values.
        watched_names: Watched floats of both programs, by name in the model, each with its program output.
        states: States that are passed from `first_program` to `later_program`.
        schedule: Schedule of the graph.
        plans: Execution orders in both programs. None if the run decides the order.
        terms_by_path: Values of the document's paths in the later program.
    """

    first_program: Program
    later_program: Program
    recorded_names: tuple[str, ...]
    watched_names: tuple[Mapping[str, str], Mapping[str, str]]
    states: tuple[State, ...]
    schedule: Schedule
    plans: tuple[NodeSets | None, NodeSets | None]
    terms_by_path: Mapping[str, DocumentValue]


def read_over_time(
    document: Document, bound: BoundValues, options: Options, specification: RunSpecification
) -> OverTime:
    """Convert a model over time to two programs, specialized for the types of the bound inputs.

    Raises:
        LoopError: All errors in the model.
    """
    reader_arguments = (document, bound, options, specification)
    first_step_reader = _FirstReader(*reader_arguments)
    while (later_steps_reader := _LaterReader(*reader_arguments, first_step_reader)).read():
        continue  # the type of a state was widened, so the body is read again
    loop_program = later_steps_reader.finish()
    states = tuple(later_steps_reader.state_memory.carried_inputs)
    raise_findings(_find_non_array_states(document, later_steps_reader.state_memory.carried_inputs))
    first_step_program, later_steps_program, draw_counter_states = replace_draws_over_time(
        first_step_reader.finish(states), loop_program
    )
    programs = (first_step_program, later_steps_program)
    first_shapes = {
        later_steps_reader.state_memory.initial_values[state]: first_step_reader.read_state(
            state
        ).shape
        for state in states
    }
    changed_shapes = {value: shape for value, shape in first_shapes.items() if shape != value.shape}
    for checked_program in programs:
        raise_findings(check(checked_program))
    raise_findings(
        (
            *find_broadcast_errors(programs[0], first_step_reader.b),
            *find_broadcast_errors(programs[1], later_steps_reader.b, changed_shapes),
        )
    )
    execution_plans = (first_step_reader.graph.plan, later_steps_reader.graph.plan)
    return OverTime(
        *programs,
        later_steps_reader.recorded_names,
        (first_step_reader.watched_names, later_steps_reader.watched_names),
        (*states, *draw_counter_states),
        first_step_reader.graph.schedule,
        execution_plans,
        later_steps_reader.b.values_by_path,
    )


def _find_non_array_states(
    document: Document, body_inputs: Mapping[State, Value]
) -> Iterator[Finding]:
    """Yield an error for each value that must pass from step to step but is not an array."""
    for (state_kind, node_id, item_id), carried_input in body_inputs.items():
        if not is_tensor(carried_input.dtype):
            yield Finding(
                "UnsupportedError",
                f"'{item_id}' of node '{node_id}' is {carried_input.dtype}, which cannot be kept from one step "
                "to the next",
                f"{document.where}.nodes['{node_id}'].{NODE_FIELDS[state_kind]}['{item_id}']",
                "keep an array, or carry it in a loop inside of one evaluation",
            )


class _FirstReader(ProgramReader):
    """Builder of the program for the first evaluation of a model over time."""

    def __init__(
        self,
        document: Document,
        bound: BoundValues,
        options: Options,
        specification: RunSpecification,
    ) -> None:
        super().__init__(document, options, bound.settings, specification.selection)
        self.b.in_loop = True
        self.declare(bound.inputs)
        self.graph = self.read_graph(self.memory)
        self.recorded_outputs = self.collect_outputs(self.graph)
        self.raise_findings()
        has_watches = specification.controls.watches
        self.watched_names = self.watch(self.graph, self.recorded_outputs) if has_watches else {}
        if specification.execution_list and self.graph.plan is None:
            executed_nodes_output = _create_executed_output(
                tensor(self.b, self.memory.get(EXECUTED_SETS))
            )
            self.recorded_outputs[executed_nodes_output.name] = executed_nodes_output

    def read_state(self, state: State) -> Value:
        """Return the value of a state after the first evaluation."""
        return tensor(self.b, read_current_value(self.graph, state))

    def finish(self, states: Sequence[State]) -> Program:
        """Build the program of the first evaluation, which also returns the values of `states`."""
        final_states = [create_state_output(state, self.read_state(state)) for state in states]
        return self.build_program([*self.recorded_outputs.values(), *final_states])


class _LaterReader(ProgramReader):
    """Builder of the program that loops over all evaluations of a model except the first.

    A state is carried from its first read on.
    """

    def __init__(
        self,
        document: Document,
        bound: BoundValues,
        options: Options,
        specification: RunSpecification,
        first: _FirstReader,
    ) -> None:
        super().__init__(document, options, bound.settings, specification.selection)
        self.b.in_loop = True
        self.specification = specification
        self.varying_names = bound.inputs.varying_names
        self.first_reader = first
        self.scanned_inputs: dict[str, Scanned] = {}
        self.declare(bound.inputs, self.varying_names)
        self.steps = self._declare_control("steps", "int64")
        has_time_step = specification.dt is not None
        self.dt = self._declare_control("dt", self.b.float_dtype) if has_time_step else None
        self.body_builder = self.b.loop_body()
        self.iteration = self.body_builder.new("int64", (), "step")
        node_ids = [node.id for node in document.graph.nodes]
        nodes_that_ran = [node for node in node_ids if first.memory.has_run(node) is True]
        self.state_memory = LoopMemory(
            self.body_builder, first.memory.carried_types, self._declare_initial, nodes_that_ran
        )

    def _declare_initial(self, state: State) -> Value:
        """Declare the program input for a state's value before the loop, and return its value."""
        carried_types = self.state_memory.carried_types
        if state[0] in NODE_FIELDS and state not in carried_types.types_by_state:
            carried_types.widen(state, self.first_reader.read_state(state))
        state_text = state_name(state)
        state_type = carried_types.type(state)
        return self.declare_input(
            f"{state_text} before", *state_type, role=InputRole.STATE, owner_name=state_text
        )

    def _declare_control(self, name: str, dtype: str) -> Value:
        """Declare the program input `steps` or `dt`, and return its value."""
        return self.declare_input(name, dtype, (), role=InputRole.CONTROL, owner_name=name)

    def supply(self, node: Node, port: InputPort, where: str) -> Term:
        """Return the value that an input port without an edge has in this step.

        An input over time has one row for each step.
        """
        port_name = self.ports[node.id, port.id].name
        if port_name not in self.varying_names:
            return super().supply(node, port, where)
        if port_name not in self.scanned_inputs:
            time_series = self.inputs[port_name].value
            shape = None if time_series.shape is None else time_series.shape[1:]
            self.scanned_inputs[port_name] = Scanned(
                time_series, self.body_builder.new(time_series.dtype, shape, port_name)
            )
        return self.scanned_inputs[port_name].row

    def read(self) -> bool:
        """Build the loop body, and return True if the dtype or shape of a carried value changed.

        The body must then be converted again.
        """
        self.graph: GraphReader = self.read_graph(self.state_memory, self.dt)
        self.recorded_outputs = self.collect_outputs(self.graph)
        has_watches = self.specification.controls.watches
        self.watched_names = self.watch(self.graph, self.recorded_outputs) if has_watches else {}
        if self.specification.execution_list and self.graph.plan is None:
            executed_nodes_output = _create_executed_output(
                tensor(self.body_builder, self.state_memory.get(EXECUTED_SETS))
            )
            self.recorded_outputs[executed_nodes_output.name] = executed_nodes_output
        self.raise_findings()
        return self.state_memory.find_body_outputs(self.document.where)

    def finish(self) -> Program:
        """Build the program of the loop over the later evaluations."""
        carried_values = self.state_memory.build_carried_values(
            self.b, lambda state: f"{state_name(state)} after"
        )
        stacked_recordings = [
            replace(recording, value=self._create_stack(recording))
            for recording in self.recorded_outputs.values()
        ]
        recordings_with_stacks = zip(
            self.recorded_outputs.values(), stacked_recordings, strict=True
        )
        self.b.append(
            Loop(
                name="time",
                trip_count=self.steps,
                condition=None,
                iteration=self.iteration,
                condition_in=self.body_builder.new("bool", (), "go"),
                condition_out=None,
                carried=carried_values,
                recorded=tuple(
                    Recorded(recording.value, stacked_recording.value, recording.name)
                    for recording, stacked_recording in recordings_with_stacks
                ),
                scanned=tuple(self.scanned_inputs.values()),
                ops=tuple(self.body_builder.ops),
                where=self.document.where,
            )
        )
        self.recorded_names = tuple(recording.name for recording in stacked_recordings)
        states_with_carried = zip(self.state_memory.carried_inputs, carried_values, strict=True)
        return self.build_program(
            [
                *stacked_recordings,
                *(
                    create_state_output(state, carried_value.final)
                    for state, carried_value in states_with_carried
                ),
            ]
        )

    def _create_stack(self, recording: Output) -> Value:
        """Create a value for the stacked rows of a recording, with a time axis."""
        shape, dtype = recording.value.shape, recording.value.dtype
        return self.b.new(dtype, None if shape is None else ("time", *shape), recording.name)
