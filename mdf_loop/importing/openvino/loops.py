"""Conversion of Loop and TensorIterator to `onnx::Loop` with slices and recordings.

    port_map input with axis           slice
    port_map input with a back edge    carried value
    other port_map input               outer value
    port_map output with axis          recording, whose rows are concatenated along the axis
    other port_map output              final value of a carried value, or last row of a recording

Source: OpenVINO, Loop-5 and TensorIterator-1.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from mdf_loop.errors import ConditionError, EndlessLoopError, ModelError
from mdf_loop.importing.graph_writer import Content, GraphWriter
from mdf_loop.importing.openvino.graph import body_layer, write_layers
from mdf_loop.importing.openvino.network import Layer, Network, read_network, require_child
from mdf_loop.importing.openvino.network_writer import NetworkWriter
from mdf_loop.importing.openvino.ports import BodyPorts, PortBinding, read_ports
from mdf_loop.ir.types import element_type

_RESERVED_NAMES = (
    "M",
    "cond",
    "v_initial",
    "body",
    "slices",
    "delays",
    "recordings",
    "exit",
    "shapes",
)
"""Argument names of a loop, which are not allowed as names of values in a body."""


@body_layer("Loop", "TensorIterator")
def write_loop(layer: Layer, network_writer: NetworkWriter) -> None:
    """Write a Loop or TensorIterator layer and its body as one MDF node, an `onnx::Loop`."""
    network = read_network(require_child(layer.xml_element, "body", layer.location), layer.location)
    body_ports = read_ports(layer, network)
    _LoopWriter(layer, network_writer, network, body_ports).write()


class _LoopParts(Struct):
    """Arguments of an `onnx::Loop` and the signature of its body, collected during the conversion."""

    loop_arguments: Content = field(default_factory=dict)
    names_read: list[str] = field(default_factory=list)
    initial_value_names: list[str] = field(default_factory=list)
    carried_inputs: list[str] = field(default_factory=list)
    carried_outputs: list[str] = field(default_factory=list)
    recorded_outputs: list[str] = field(default_factory=list)
    final_value_names: list[str] = field(default_factory=list)
    stacked_value_names: list[str] = field(default_factory=list)
    used_output_names: set[str] = field(default_factory=set)
    slices: Content = field(default_factory=dict)
    recordings: Content = field(default_factory=dict)


class _LoopWriter:
    def __init__(
        self, layer: Layer, network_writer: NetworkWriter, network: Network, body_ports: BodyPorts
    ) -> None:
        self.layer = layer
        self.outer_writer = network_writer
        self.network = network
        self.body_ports = body_ports
        self.inner_writer = NetworkWriter(
            network, GraphWriter(f"{layer.name}_body"), network_writer.weights
        )
        self.loop_parts = _LoopParts()

    def write(self) -> None:
        """Write an OpenVINO loop as an MDF node with its arguments and body."""
        body_network_writer = self.inner_writer
        self._name_values()
        self._copy_types()
        self._copy_constants()
        iteration_name = self._write_iteration_number()
        write_layers(body_network_writer)
        self._write_slices()
        self._check_not_endless()
        condition_name = self._write_condition()
        self._write_carried_values()
        self._write_recorded_outputs()
        self._bind_invariants(condition_name)
        loop_interface, body_writer = self.loop_parts, body_network_writer.graph_writer
        body_graph = body_writer.graph_content(
            inputs=[
                iteration_name,
                body_writer.unique_name("condition"),
                *loop_interface.carried_inputs,
            ],
            outputs=[
                condition_name,
                *loop_interface.carried_outputs,
                *loop_interface.recorded_outputs,
            ],
            metadata=self._build_metadata(),
        )
        self._write_loop_node(body_graph)

    def _build_metadata(self) -> Content:
        """Return the metadata of the MDF graph of the loop's body.

        The body is strict (it captures no values). Its shapes are dynamic if the shape of a carried value is
        not fixed.
        """
        body_metadata: Content = {"strict": True}
        carried_shapes = [
            self.inner_writer.value_shapes[input_name]
            for input_name in self.loop_parts.carried_inputs
        ]
        if any(shape is None or None in shape for shape in carried_shapes):
            body_metadata["shapes"] = "dynamic"
        return body_metadata

    def _write_loop_node(self, body_content: Content) -> None:
        loop_interface = self.loop_parts
        node_arguments: Content = {
            **self._read_trip_count_and_condition(),
            "v_initial": loop_interface.initial_value_names,
        }
        if loop_interface.slices:
            node_arguments["slices"] = loop_interface.slices
        if loop_interface.recordings:
            node_arguments["recordings"] = loop_interface.recordings
        self.outer_writer.graph_writer.add_node(
            "onnx::Loop",
            [*loop_interface.final_value_names, *loop_interface.stacked_value_names],
            args={**node_arguments, **loop_interface.loop_arguments, "body": body_content},
            names_read=loop_interface.names_read,
            node_id=self.layer.name,
        )

    # --- inputs of the body ---------------------------------------------------------------------

    def _read_outer(self, binding: PortBinding) -> str:
        """Return the name of the outside value at a port of the loop, and record it as read."""
        outer_value_name = self.outer_writer.ensure_node(self._outer_source(binding))
        self.loop_parts.names_read.append(outer_value_name)
        return outer_value_name

    def _name_values(self) -> None:
        """Name the values of the loop's body, and avoid names of loop arguments such as `arg_0`."""
        body_network_writer = self.inner_writer
        body_network_writer.graph_writer.reserve_names(_RESERVED_NAMES)
        for binding in self.body_ports.invariant_inputs:
            (port,) = binding.layer.output_ports
            base_name = (*port.value_names, binding.layer.name)[0]
            if base_name.startswith("arg_"):
                body_network_writer.value_names[binding.layer.id, port.id] = (
                    body_network_writer.graph_writer.unique_name(f"outer_{base_name}")
                )
        body_network_writer.name_values()

    def _outer_source(self, binding: PortBinding) -> str:
        """Return the name of the value outside the loop that feeds a port of the loop."""
        return self.outer_writer.value_names[
            self.outer_writer.network.source_by_input[self.layer.id, binding.port_id]
        ]

    def _copy_types(self) -> None:
        """Copy types from values outside the loop to body Parameters that declare no type."""
        body_ports = self.body_ports
        for binding in (
            *body_ports.sliced_inputs,
            *body_ports.invariant_inputs,
            *(binding for binding, _ in body_ports.carried_pairs),
        ):
            parameter_name, outer_value_name = (
                self._parameter_name(binding.layer),
                self._outer_source(binding),
            )
            self.inner_writer.value_dtypes[parameter_name] = (
                self.inner_writer.value_dtypes[parameter_name]
                or self.outer_writer.value_dtypes[outer_value_name]
            )

    def _parameter_name(self, layer: Layer) -> str:
        return self.inner_writer.value_names[layer.id, layer.output_ports[0].id]

    def _read_trip_count_and_condition(self) -> Content:
        """Return the trip count and the condition as arguments of an ONNX Loop."""
        if self.layer.type == "TensorIterator":
            return {}
        if len(self.layer.input_ports) < 2:
            raise ModelError("a Loop needs a trip count and a condition", self.layer.location)
        termination_arguments: Content = {}
        for argument_name, input_index in (("M", 0), ("cond", 1)):
            value_name = self.outer_writer.input_name(self.layer, input_index)
            constant_array = self.outer_writer.constant_arrays.get(value_name)
            if constant_array is not None and constant_array.size == 1:
                termination_arguments[argument_name] = constant_array.reshape(()).item()
                continue
            scalar_name = self._reshape_to_scalar(self.outer_writer, value_name)
            self.loop_parts.names_read.append(scalar_name)
            termination_arguments[argument_name] = scalar_name
        return termination_arguments

    def _reshape_to_scalar(self, network_writer: NetworkWriter, value_name: str) -> str:
        """Reshape a value with one element to a scalar, and return the name of the scalar."""
        network_writer.ensure_node(value_name)
        if network_writer.value_shapes.get(value_name) in ((), (1,)):
            return value_name
        scalar_name = network_writer.graph_writer.unique_name(f"{value_name}_scalar")
        scalar_shape = network_writer.write_term(np.zeros(0, np.int64), value_name)
        reshape_arguments = {"data": value_name, "shape": scalar_shape}
        network_writer.graph_writer.add_node(
            "onnx::Reshape",
            [scalar_name],
            args=reshape_arguments,
            names_read=[value_name, scalar_shape],
        )
        return scalar_name

    def _copy_constants(self) -> None:
        """Copy constants that are loop-invariant inputs of an OpenVINO loop to the loop's body."""
        for binding in self.body_ports.invariant_inputs:
            constant_array = self.outer_writer.constant_arrays.get(self._outer_source(binding))
            if constant_array is not None:
                self.inner_writer.constant_arrays[self._parameter_name(binding.layer)] = (
                    constant_array
                )

    def _bind_invariants(self, condition_name: str) -> None:
        """Bind the loop-invariant Parameters that the body reads to values outside the loop."""
        body_nodes = self.inner_writer.graph_writer.nodes.values()
        names_read = {
            value_name for node in body_nodes for value_name in node.get("input_ports", {})
        } | {condition_name}
        names_read |= self.loop_parts.used_output_names
        for binding in self.body_ports.invariant_inputs:
            parameter_name = self._parameter_name(binding.layer)
            if parameter_name in names_read:
                self.loop_parts.loop_arguments[parameter_name] = self._read_outer(binding)

    def _write_slices(self) -> None:
        for binding in self.body_ports.sliced_inputs:
            parameter_name = self._parameter_name(binding.layer)
            self.loop_parts.slices[parameter_name] = {
                "of": self._read_outer(binding),
                **binding.slice_entry(self.layer),
            }

    def _check_not_endless(self) -> None:
        if self.layer.type == "TensorIterator" and not self.loop_parts.slices:
            raise EndlessLoopError(
                "the TensorIterator has no sliced input: nothing says how often its body runs",
                self.layer.location,
            )

    def _write_iteration_number(self) -> str:
        """Write nodes that convert the iteration number to the type that the body declares.

        Return the name of the unconverted int64 scalar, which is an input of the body.
        """
        body_writer = self.inner_writer.graph_writer
        iteration_layer = self.body_ports.iteration_parameter
        if iteration_layer is None:
            return body_writer.unique_name("iteration")
        parameter_name = self._parameter_name(iteration_layer)
        dtype, shape = (
            self.inner_writer.value_dtypes[parameter_name],
            self.inner_writer.value_shapes[parameter_name],
        )
        if dtype not in ("int64", "int32"):
            raise ModelError(
                f"the current iteration must be int64 or int32, not {dtype}",
                iteration_layer.location,
            )
        is_vector = shape is not None and len(shape) == 1
        if dtype == "int64" and not is_vector:
            return parameter_name
        number_name = body_writer.unique_name(f"{parameter_name}_number")
        cast_name = number_name
        if dtype == "int32":
            cast_name = (
                body_writer.unique_name(f"{parameter_name}_int32") if is_vector else parameter_name
            )
            element_type_number = element_type(dtype)
            body_writer.add_node(
                "onnx::Cast",
                [cast_name],
                args={"input": number_name, "to": element_type_number},
                names_read=[number_name],
            )
        if is_vector:
            vector_shape = self.inner_writer.write_term(np.ones(1, np.int64), parameter_name)
            reshape_arguments = {"data": cast_name, "shape": vector_shape}
            body_writer.add_node(
                "onnx::Reshape",
                [parameter_name],
                args=reshape_arguments,
                names_read=[cast_name, vector_shape],
            )
        return number_name

    # --- outputs of the body --------------------------------------------------------------------

    def _write_condition(self) -> str:
        """Write the condition that the body computes, which is always true for a TensorIterator.

        Return the name of the condition.
        """
        if self.layer.type == "TensorIterator":
            return self.inner_writer.write_term(np.array(True), "condition")
        if self.body_ports.condition_result is None:
            raise ConditionError(
                "the body of the Loop gives no condition for the next iteration",
                self.layer.location,
                'port_map needs <output external_port_id="-1" purpose="execution_condition" .../>',
            )
        return self._reshape_to_scalar(
            self.inner_writer, self.inner_writer.input_name(self.body_ports.condition_result, 0)
        )

    def _output_name(self, result_layer: Layer) -> str:
        """Return the name of a body output. Copy the value if it is already another output."""
        value_name = self.inner_writer.ensure_node(self.inner_writer.input_name(result_layer, 0))
        if value_name not in self.loop_parts.used_output_names:
            self.loop_parts.used_output_names.add(value_name)
            return value_name
        name_of_copy = self.inner_writer.graph_writer.unique_name(f"{value_name}_again")
        self.inner_writer.graph_writer.add_node(
            "onnx::Identity", [name_of_copy], args={"input": value_name}, names_read=[value_name]
        )
        return name_of_copy

    def _write_carried_values(self) -> None:
        final_bindings = {binding.layer.id: binding for binding in self.body_ports.last_outputs}
        for binding, result_layer in self.body_ports.carried_pairs:
            self.loop_parts.initial_value_names.append(self._read_outer(binding))
            self.loop_parts.carried_inputs.append(self._parameter_name(binding.layer))
            self.loop_parts.carried_outputs.append(self._output_name(result_layer))
            final_binding = final_bindings.pop(result_layer.id, None)
            self.loop_parts.final_value_names.append(
                "" if final_binding is None else self._outer_name(final_binding)
            )

    def _outer_name(self, binding: PortBinding) -> str:
        """Return the name of the value at an output port of the loop."""
        return self.outer_writer.value_names[self.layer.id, binding.port_id]

    def _write_recorded_outputs(self) -> None:
        """Write the loop outputs that are not carried: concatenated values and last values."""
        output_bindings = (*self.body_ports.concatenated_outputs, *self.body_ports.last_outputs)
        mapped_port_ids = {binding.port_id for binding in output_bindings}
        for port in self.layer.output_ports:
            if port.id not in mapped_port_ids:
                raise ModelError(
                    f"no entry of port_map gives the output {port.id}", self.layer.location
                )
        carried_result_ids = {result_layer.id for _, result_layer in self.body_ports.carried_pairs}
        written_result_ids: set[int] = set()
        for binding in output_bindings:
            if (
                binding.axis is None
                and binding.layer.id in carried_result_ids
                and binding.layer.id not in written_result_ids
            ):
                written_result_ids.add(binding.layer.id)
                continue
            recorded_name = self._output_name(binding.layer)
            self.loop_parts.recorded_outputs.append(recorded_name)
            self.loop_parts.stacked_value_names.append(self._outer_name(binding))
            self.loop_parts.recordings[recorded_name] = (
                {"keep": "last"} if binding.axis is None else binding.recording_entry(self.layer)
            )
