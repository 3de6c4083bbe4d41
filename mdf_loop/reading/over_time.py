"""Reading of a model over time: a first evaluation, then one loop whose body is one evaluation.

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
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.document.document import Document
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
from mdf_loop.reading.possible_shapes import widened_findings
from mdf_loop.reading.program import ProgramReader, read_current_value
from mdf_loop.reading.schedule.plan import NodeSets, Schedule
from mdf_loop.specification import RunSpecification


def _create_executed_output(sets: Value) -> Output:
    """Return the program output with the nodes that ran, for a schedule that the run decides (see `EXECUTED_SETS`)."""
    return Output("executed", sets, OutputRole.EXECUTED)


class OverTime(Struct, frozen=True):
    """Two programs of a model over time.

    Attributes:
        first_program: Program of the first evaluation. It returns recorded values, then states.
        later_program: Program of the later evaluations. It takes inputs, states, `steps` and `dt`, and returns
            recorded values with a time axis, then states.
        recorded_names: Names of the recorded values.
        watched_names: Watched floats of both programs, by name in the model, each with its program output.
        states: States that are passed from `first_program` to `later_program`.
        schedule: Schedule of the graph.
        plans: Execution orders in both programs. None if the run decides the order.
        types: Values of the document's paths in the later program.
    """

    first_program: Program
    later_program: Program
    recorded_names: tuple[str, ...]
    watched_names: tuple[Mapping[str, str], Mapping[str, str]]
    states: tuple[State, ...]
    schedule: Schedule
    plans: tuple[NodeSets | None, NodeSets | None]
    types: Mapping[str, Any]


def read_over_time(
    document: Document, bound: BoundValues, options: Options, specification: RunSpecification
) -> OverTime:
    """Read a model over time as two programs, specialized for the types of the bound inputs.

    Raises:
        LoopError: All errors in the model.
    """
    arguments = (document, bound, options, specification)
    first = _FirstReader(*arguments)
    while (later := _LaterReader(*arguments, first)).read():
        continue  # the type of a state was widened, so the body is read again
    program = later.finish()
    states = tuple(later.state_memory.enters)
    raise_findings(_find_non_array_states(document, later.state_memory.enters))
    first_program, later_program, count_states = replace_draws_over_time(
        first.finish(states), program
    )
    programs = (first_program, later_program)
    first_shapes = {later.state_memory.initials[s]: first.read_state(s).shape for s in states}
    shapes = {value: shape for value, shape in first_shapes.items() if shape != value.shape}
    for output_program in programs:
        raise_findings(check(output_program))
    raise_findings(
        (
            *widened_findings(programs[0], first.b),
            *widened_findings(programs[1], later.b, shapes),
        )
    )
    plans = (first.graph.plan, later.graph.plan)
    return OverTime(
        *programs,
        later.recorded,
        (first.watched, later.watched),
        (*states, *count_states),
        first.graph.schedule,
        plans,
        later.b.values_by_path,
    )


def _find_non_array_states(document: Document, enters: Mapping[State, Value]) -> Iterator[Finding]:
    """Yield findings about states that are not arrays."""
    for (kind, node, name), value in enters.items():
        if not is_tensor(value.dtype):
            yield Finding(
                "UnsupportedError",
                f"'{name}' of node '{node}' is {value.dtype}, which cannot be kept from one step "
                "to the next",
                f"{document.where}.nodes['{node}'].{NODE_FIELDS[kind]}['{name}']",
                "keep an array, or carry it in a loop inside of one evaluation",
            )


class _FirstReader(ProgramReader):
    """Reader of the first evaluation."""

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
        self.recorded = self.collect_outputs(self.graph)
        self.raise_findings()
        watches = specification.controls.watches
        self.watched = self.watch(self.graph, self.recorded) if watches else {}
        if specification.execution_list and self.graph.plan is None:
            executed = _create_executed_output(tensor(self.b, self.memory.get(EXECUTED_SETS)))
            self.recorded[executed.name] = executed

    def read_state(self, state: State) -> Value:
        """Return the value of a state after the first evaluation."""
        return tensor(self.b, read_current_value(self.graph, state))

    def finish(self, states: Sequence[State]) -> Program:
        """Build the program of the first evaluation, with these states as further outputs."""
        final_states = [create_state_output(state, self.read_state(state)) for state in states]
        return self.build_program([*self.recorded.values(), *final_states])


class _LaterReader(ProgramReader):
    """Reader of the loop over the later evaluations. A state is carried from its first read on."""

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
        self.first = first
        self.scanned: dict[str, Scanned] = {}
        self.declare(bound.inputs, self.varying_names)
        self.steps = self._declare_control("steps", "int64")
        has_dt = specification.dt is not None
        self.dt = self._declare_control("dt", self.b.float_dtype) if has_dt else None
        self.body = self.b.loop_body()
        self.iteration = self.body.new("int64", (), "step")
        nodes = [node.id for node in document.graph.nodes]
        nodes_that_ran = [node for node in nodes if first.memory.ran(node) is True]
        self.state_memory = LoopMemory(
            self.body, first.memory.types, self._declare_initial, nodes_that_ran
        )

    def _declare_initial(self, state: State) -> Value:
        """Declare the program input for a state before the loop, and return its value."""
        types = self.state_memory.types
        if state[0] in NODE_FIELDS and state not in types.types_by_state:
            types.widen(state, self.first.read_state(state))
        name = state_name(state)
        type_ = types.type(state)
        return self.declare_input(f"{name} before", *type_, role=InputRole.STATE, owner_name=name)

    def _declare_control(self, name: str, dtype: str) -> Value:
        """Declare the program input `steps` or `dt`, and return its value."""
        return self.declare_input(name, dtype, (), role=InputRole.CONTROL, owner_name=name)

    def supply(self, node: Any, port: Any, where: str) -> Term:
        """Return the value of an open port: the row of this step for an input over time."""
        name = self.ports[node.id, port.id].name
        if name not in self.varying_names:
            return super().supply(node, port, where)
        if name not in self.scanned:
            rows = self.inputs[name].value
            shape = None if rows.shape is None else rows.shape[1:]
            self.scanned[name] = Scanned(rows, self.body.new(rows.dtype, shape, name))
        return self.scanned[name].row

    def read(self) -> bool:
        """Read the loop body. Return True if the body must be read again, with wider types."""
        self.graph: GraphReader = self.read_graph(self.state_memory, self.dt)
        self.rows = self.collect_outputs(self.graph)
        watches = self.specification.controls.watches
        self.watched = self.watch(self.graph, self.rows) if watches else {}
        if self.specification.execution_list and self.graph.plan is None:
            executed = _create_executed_output(
                tensor(self.body, self.state_memory.get(EXECUTED_SETS))
            )
            self.rows[executed.name] = executed
        self.raise_findings()
        return self.state_memory.find_leaving_values(self.document.where)

    def finish(self) -> Program:
        """Build the program of the loop over the later evaluations."""
        carried = self.state_memory.carried(self.b, lambda state: f"{state_name(state)} after")
        stacks = [replace(row, value=self._create_stack(row)) for row in self.rows.values()]
        rows = zip(self.rows.values(), stacks, strict=True)
        self.b.append(
            Loop(
                name="time",
                trip_count=self.steps,
                condition=None,
                iteration=self.iteration,
                condition_in=self.body.new("bool", (), "go"),
                condition_out=None,
                carried=carried,
                recorded=tuple(Recorded(row.value, stack.value, row.name) for row, stack in rows),
                scanned=tuple(self.scanned.values()),
                ops=tuple(self.body.ops),
                where=self.document.where,
            )
        )
        self.recorded = tuple(stack.name for stack in stacks)
        finals = zip(self.state_memory.enters, carried, strict=True)
        return self.build_program(
            [*stacks, *(create_state_output(state, c.final) for state, c in finals)]
        )

    def _create_stack(self, row: Output) -> Value:
        """Create a value for the stacked rows of a recording, with a time axis."""
        shape, dtype = row.value.shape, row.value.dtype
        return self.b.new(dtype, None if shape is None else ("time", *shape), row.name)
