"""Conversion of one evaluation of a document to a `Program`.

A program is specialized for the dtypes and shapes of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop import arguments
from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import graph_function
from mdf_loop.document.parts import InputPort, Node
from mdf_loop.document.stated_types import stated_dtype
from mdf_loop.errors import ArityError, Finding, LoopError, Poisoned, raise_findings
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.ir import Data, Input, InputRole, Output, OutputRole, Program, Shape, Value, results
from mdf_loop.ir.check import check
from mdf_loop.ir.types import dtype_name, kind_of
from mdf_loop.lower import Scope, Term, tensor
from mdf_loop.lower.builder import ModelBuilder, Options
from mdf_loop.public_call import public_call
from mdf_loop.reading.binding import BoundValues
from mdf_loop.reading.draws import replace_draws
from mdf_loop.reading.graph import GraphReader
from mdf_loop.reading.inputs import BoundInputs, bind_types, open_ports
from mdf_loop.reading.memory import Memory, State, create_placeholder
from mdf_loop.reading.model_units import ModelUnits
from mdf_loop.reading.names import ALL_OUTPUTS, Item, items, named_items
from mdf_loop.reading.node import Context
from mdf_loop.reading.possible_shapes import find_broadcast_errors
from mdf_loop.reading.schedule.known import to_value
from mdf_loop.reading.settings import Settings, input_name, with_settings
from mdf_loop.reading.stated_dims import check_dims
from mdf_loop.specification import Selection


class Reading(Struct, frozen=True):
    """Converted model: program, program values by document path, and notes to the user."""

    program: Program
    terms_by_path: Mapping[str, Any]
    notes: tuple[Finding, ...] = ()


@public_call
def read(
    source: Source,
    inputs: Mapping[str, Any] | None = None,
    *,
    record: Sequence[str] = (),
    options: Options | None = None,
) -> Program:
    """Convert one evaluation of an MDF model to a program.

    Args:
        source: a path, a modeci_mdf Model or Graph, or a graph's dict.
        inputs: values by port id (`node.port` where ambiguous). They determine dtypes and shapes.
        record: `node.port`, `node.parameter` or `node.function` to return besides the outputs.
        options: precision, shapes, bound.

    Raises:
        LoopError: All errors in the model.
    """
    return read_annotated(source, inputs, record=record, options=options).program


def read_annotated(
    source: Source,
    inputs: Mapping[str, Any] | None = None,
    *,
    record: Sequence[str] = (),
    options: Options | None = None,
) -> Reading:
    """Convert one evaluation of a model to a program, and map document paths to program values."""
    document = open_document(source)
    options = options or Options()
    input_values = ModelUnits(document).convert_inputs(arguments.inputs(inputs))
    bound_types = bind_types(document, input_values, options)
    selection = Selection(arguments.names(record, "record"))
    return read_once(document, BoundValues.of(bound_types), options, selection)


def read_once(
    document: Document, bound: BoundValues, options: Options, selection: Selection = ALL_OUTPUTS
) -> Reading:
    """Convert one evaluation of a document to a program, specialized for the types of the bound inputs."""
    program_reader = ProgramReader(document, options, bound.settings, selection)
    program_reader.b.in_loop = bound.has_members
    program_reader.declare(bound.inputs)
    graph = program_reader.read_graph(program_reader.memory)
    recorded_outputs = program_reader.collect_outputs(graph)
    program = replace_draws(program_reader.build_program(recorded_outputs.values()))
    program_reading = Reading(program, program_reader.b.values_by_path, program_reader.b.notes)
    raise_findings(check(program_reading.program))
    raise_findings(find_broadcast_errors(program_reading.program, program_reader.b))
    return program_reading


class ProgramReader:
    """Converter of a model to a program, which assembles inputs, graph and outputs."""

    def __init__(
        self,
        document: Document,
        options: Options,
        settings: Settings,
        selection: Selection = ALL_OUTPUTS,
    ) -> None:
        self.document = with_settings(document, settings)
        self.settings = settings
        self.b = ModelBuilder(options)
        self.memory = Memory(self.b)
        self.inputs: dict[str, Input] = {}
        self.ports = {(port.node, port.port.id): port for port in open_ports(document)}
        self.item_by_result_name: dict[str, Item] = {}
        graph = document.graph
        functions_and_parameters = (
            node_part for node in graph.nodes for node_part in node.functions_and_parameters
        )
        self._has_bodies = any(
            graph_function(node_part.function) for node_part in functions_and_parameters
        )
        with self.b.findings.catch():
            self.item_by_result_name = named_items(document, selection)

    def declare(self, inputs: BoundInputs, varying_names: Iterable[str] = ()) -> None:
        """Declare the program inputs: ports that no edge feeds, and parameters that a run sets.

        Inputs in `varying_names` get a time axis in front.
        """
        for port in self.ports.values():
            dtype, shape = inputs.type(port.name)
            default_data = (
                inputs.arrays[port.name]
                if port.name in varying_names
                else inputs.first_value(port.name)
            )
            if port.name in varying_names and shape is not None:
                shape = ("time", *shape)
            with self.b.at(port.where):
                input_value = self.declare_input(
                    port.name, dtype, shape, (port.full_name,), default_data
                )
            stated_shape = port.stated_shape()
            if stated_shape is not None and shape is not None and len(shape) >= len(stated_shape):
                self.b.stated_shapes[input_value] = (
                    *shape[: len(shape) - len(stated_shape)],
                    *stated_shape,
                )
        for parameter_name, parameter_array in self.settings.arrays.items():
            program_name, dtype = input_name(parameter_name), dtype_name(parameter_array)
            input_value = self.declare_input(
                program_name,
                dtype,
                parameter_array.shape,
                (),
                parameter_array,
                InputRole.SETTING,
                parameter_name,
            )
            if self.settings.is_plain(parameter_name):
                self.b.mark_weak(input_value)

    def declare_input(
        self,
        name: str,
        dtype: str,
        shape: Shape,
        ports: tuple[str, ...] = (),
        default: Data = None,
        role: InputRole = InputRole.PORT,
        owner_name: str = "",
    ) -> Value:
        """Declare one named input of the program, and return its value."""
        self.inputs[name] = Input(self.b.new(dtype, shape, name), ports, default, role, owner_name)
        return self.inputs[name].value

    def supply(self, node: Node, port: InputPort, where: str) -> Term:
        """Return the program input for an input port that no edge feeds."""
        return self.inputs[self.ports[node.id, port.id].name].value

    def read_graph(self, memory: Memory, dt: Value | None = None) -> GraphReader:
        """Convert one evaluation of the graph to operations, with node values kept in `memory`."""
        input_values = {name: self.inputs[name].value for name in self.settings.inputs}
        context = Context(self.document, Scope(input_values), self.document.graph.id)
        return GraphReader(
            self.document.graph,
            self.document.where,
            self.supply,
            context,
            memory,
            dt=dt,
            recorded=[recorded_item.state for recorded_item in self.item_by_result_name.values()],
        ).read()

    def build_program(self, outputs: Iterable[Output]) -> Program:
        """Build the program from its inputs, operations and outputs.

        Raise an error if findings exist.
        """
        self.raise_findings()
        return Program(
            name=self.document.graph.id,
            inputs=tuple(self.inputs.values()),
            ops=tuple(self.b.ops),
            outputs=tuple(outputs),
        )

    def raise_findings(self) -> None:
        """Raise an error that contains all findings (errors in the model), if there are any."""
        findings = self.b.findings.items
        raise_findings(
            map(self._add_type_hint, (*findings, *self.b.findings.unread) if findings else ())
        )

    def _add_type_hint(self, finding: Finding) -> Finding:
        """Return an error with the hint, if it applies, that ports without a type are integers."""
        if finding.kind != "OperandError" or finding.hint or "int64" not in finding.what:
            return finding
        node_prefix = f"{self.document.where}.nodes['"
        untyped_ports = [
            f"'{port.port.id}'" + (f" (type: {port.port.type})" if port.port.type else "")
            for port in self.ports.values()
            if finding.where.startswith(f"{node_prefix}{port.node}']")
            and stated_dtype(port.port, self.b.options.precision) is None
            and self.inputs[port.name].value.dtype == "int64"
        ]
        if not untyped_ports:
            return finding
        name_list = ", ".join(untyped_ports[:3]) + (", ..." if len(untyped_ports) > 3 else "")
        hint = (
            f"these ports hold whole numbers, since no type says otherwise: {name_list}; "
            "write type: float32, or give 1.0, not 1"
        )
        return replace(finding, hint=hint)

    def collect_outputs(self, graph: GraphReader) -> dict[str, Output]:
        """Return the program outputs for all recorded values, by `node.port`.

        An output whose node may not run is followed by a flag that tells whether the node has run.
        """
        recorded_outputs: dict[str, Output] = {}
        shape_by_item: dict[Item, Shape] = {}
        for result_name, node_item in self.item_by_result_name.items():
            with self.b.findings.catch():
                state_memory = graph.memory
                result_term = read_current_value(graph, node_item.state)
                if not self._has_bodies:
                    # The value of a port can be a list of expressions: [x, 1].
                    result_term = tensor(state_memory.b, result_term)
                if isinstance(result_term, tuple):
                    raise ArityError(
                        f"'{result_name}' is {len(result_term)} results, an output is one",
                        self.document.where,
                        "choose one in the port's value, e.g. loop[0]",
                    )
                recorded_outputs |= _with_run_flag(
                    Output(result_name, result_term), node_item, state_memory
                )
                shape_by_item[node_item] = recorded_outputs[result_name].value.shape
        with self.b.findings.catch():
            raise_findings(check_dims(self.document, shape_by_item))
        return recorded_outputs

    def watch(self, graph: GraphReader, program_outputs: dict[str, Output]) -> dict[str, str]:
        """Add all floats that the graph computes to the program outputs, so that a run can find nan.

        Returns:
            Name of each float in the model -> name of its output, in the order of computation.
        """
        state_memory = graph.memory
        position_by_value = {
            computed_value: position
            for position, op in enumerate(state_memory.b.ops)
            for computed_value in results(op)
        }
        item_by_float: dict[Value, Item] = {}
        stored_items = (
            node_item
            for node_item in items(self.document)
            if node_item.state in state_memory.stored_values
        )
        for node_item in stored_items:  # a read of any other state would carry it from step to step
            with suppress(LoopError, Poisoned):
                item_term = read_current_value(graph, node_item.state)
                if (
                    isinstance(item_term, Value)
                    and item_term in position_by_value
                    and kind_of(item_term.dtype) == "f"
                ):
                    item_by_float.setdefault(item_term, node_item)
        output_by_value = {
            program_output.value: program_output
            for program_output in reversed(program_outputs.values())
        }
        output_name_by_item = {}
        for float_value in sorted(item_by_float, key=position_by_value.__getitem__):
            node_item = item_by_float[float_value]
            watched_output = Output(
                f"watched: {node_item.name}", float_value, OutputRole.WATCHED, node_item.name
            )
            program_output = output_by_value.get(float_value, watched_output)
            output_name_by_item[node_item.name] = program_output.name
            program_outputs |= _with_run_flag(program_output, node_item, state_memory)
        return output_name_by_item


def _with_run_flag(output: Output, item: Item, memory: Memory) -> dict[str, Output]:
    """Return an output with a second output, if needed, that is True if its node has run.

    The result is a dict by output name.

    The flag is omitted if the node has certainly run.
    """
    has_run, output_name = memory.has_run(item.node), output.name
    if has_run is True:
        return {output_name: output}
    run_flag_output = Output(
        f"has run: {output_name}", to_value(memory.b, has_run), OutputRole.HAS_RUN, output_name
    )
    return {output_name: output, run_flag_output.name: run_flag_output}


def read_current_value(graph: GraphReader, state: State) -> Term:
    """Return the value of a state after an evaluation, or a placeholder before its node runs."""
    state_memory = graph.memory
    state_kind, node_id, _ = state
    if state_kind == "ran":
        return to_value(state_memory.b, state_memory.has_run(node_id))
    if state_kind in ("flag", "count"):
        stored_value = state_memory.find(state)
        return (
            to_value(state_memory.b, state_kind == "flag" and False)
            if stored_value is None
            else stored_value
        )
    if state_memory.has_run(node_id) is False:
        if state not in state_memory.carried_types.types_by_state:
            graph.executor.learn_types(state_memory, graph.nodes)
        return create_placeholder(state_memory.b, *state_memory.carried_types.type(state))
    return state_memory.get(state)
