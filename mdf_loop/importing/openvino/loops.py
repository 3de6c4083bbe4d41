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
from mdf_loop.importing.openvino.place import NetworkWriter
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
    """Write a Loop or TensorIterator layer as a node, with its body in the arguments."""
    network = read_network(require_child(layer.element, "body", layer.where), layer.where)
    body_ports = read_ports(layer, network)
    _LoopWriter(layer, network_writer, network, body_ports).write()


class _LoopParts(Struct):
    """Arguments of an `onnx::Loop` and the signature of its body, collected during the conversion."""

    args: Content = field(default_factory=dict)
    names_read: list[str] = field(default_factory=list)
    initial_names: list[str] = field(default_factory=list)
    carried_inputs: list[str] = field(default_factory=list)
    carried_outputs: list[str] = field(default_factory=list)
    recorded_outputs: list[str] = field(default_factory=list)
    final_names: list[str] = field(default_factory=list)
    stacked_names: list[str] = field(default_factory=list)
    used_outputs: set[str] = field(default_factory=set)
    slices: Content = field(default_factory=dict)
    recordings: Content = field(default_factory=dict)


class _LoopWriter:
    def __init__(
        self, layer: Layer, network_writer: NetworkWriter, network: Network, body_ports: BodyPorts
    ) -> None:
        self.layer = layer
        self.outer_writer = network_writer
        self.network = network
        self.ports = body_ports
        self.inner_writer = NetworkWriter(
            network, GraphWriter(f"{layer.name}_body"), network_writer.weights
        )
        self.loop_parts = _LoopParts()

    def write(self) -> None:
        """Write the body, the arguments and the node of the loop."""
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
        loop_parts, body_writer = self.loop_parts, body_network_writer.writer
        body_content = body_writer.content(
            inputs=[
                iteration_name,
                body_writer.unique_name("condition"),
                *loop_parts.carried_inputs,
            ],
            outputs=[condition_name, *loop_parts.carried_outputs, *loop_parts.recorded_outputs],
            metadata=self._build_metadata(),
        )
        self._write_loop_node(body_content)

    def _build_metadata(self) -> Content:
        """Return the metadata of the MDF graph of the loop's body.

        The body is strict (it captures no values). Its shapes are dynamic if the shape of a carried value is
        not fixed.
        """
        metadata: Content = {"strict": True}
        carried_shapes = [self.inner_writer.shapes[name] for name in self.loop_parts.carried_inputs]
        if any(shape is None or None in shape for shape in carried_shapes):
            metadata["shapes"] = "dynamic"
        return metadata

    def _write_loop_node(self, body_content: Content) -> None:
        loop_parts = self.loop_parts
        args: Content = {**self._read_limits(), "v_initial": loop_parts.initial_names}
        if loop_parts.slices:
            args["slices"] = loop_parts.slices
        if loop_parts.recordings:
            args["recordings"] = loop_parts.recordings
        self.outer_writer.writer.node(
            "onnx::Loop",
            [*loop_parts.final_names, *loop_parts.stacked_names],
            args={**args, **loop_parts.args, "body": body_content},
            names_read=loop_parts.names_read,
            node_id=self.layer.name,
        )

    # --- inputs of the body ---------------------------------------------------------------------

    def _read_outer(self, binding: PortBinding) -> str:
        """Return the name of the outer value at a loop port, which the MDF node then reads.

        Return the name of the value.
        """
        name = self.outer_writer.read(self._outer_source(binding))
        self.loop_parts.names_read.append(name)
        return name

    def _name_values(self) -> None:
        """Name the values of the loop's body, and avoid names of loop arguments such as `arg_0`."""
        body_network_writer = self.inner_writer
        body_network_writer.writer.reserve(_RESERVED_NAMES)
        for binding in self.ports.invariant_inputs:
            (port,) = binding.layer.outputs
            base_name = (*port.names, binding.layer.name)[0]
            if base_name.startswith("arg_"):
                body_network_writer.names[binding.layer.id, port.id] = (
                    body_network_writer.writer.unique_name(f"outer_{base_name}")
                )
        body_network_writer.name_values()

    def _outer_source(self, binding: PortBinding) -> str:
        """Return the name of the outer value at a port of the loop."""
        return self.outer_writer.names[
            self.outer_writer.network.sources[self.layer.id, binding.port_id]
        ]

    def _copy_types(self) -> None:
        """Copy the type of the outer value to each body Parameter that declares no type."""
        ports = self.ports
        for binding in (
            *ports.sliced_inputs,
            *ports.invariant_inputs,
            *(binding for binding, _ in ports.carried_pairs),
        ):
            parameter_name, outer_name = (
                self._parameter_name(binding.layer),
                self._outer_source(binding),
            )
            self.inner_writer.dtypes[parameter_name] = (
                self.inner_writer.dtypes[parameter_name] or self.outer_writer.dtypes[outer_name]
            )

    def _parameter_name(self, layer: Layer) -> str:
        return self.inner_writer.names[layer.id, layer.outputs[0].id]

    def _read_limits(self) -> Content:
        """Return the trip count and the condition as arguments of an ONNX Loop."""
        if self.layer.type == "TensorIterator":
            return {}
        if len(self.layer.inputs) < 2:
            raise ModelError("a Loop needs a trip count and a condition", self.layer.where)
        limits: Content = {}
        for argument, input_index in (("M", 0), ("cond", 1)):
            value_name = self.outer_writer.source(self.layer, input_index)
            constant_array = self.outer_writer.constants.get(value_name)
            if constant_array is not None and constant_array.size == 1:
                limits[argument] = constant_array.reshape(()).item()
                continue
            scalar_name = self._reshape_to_scalar(self.outer_writer, value_name)
            self.loop_parts.names_read.append(scalar_name)
            limits[argument] = scalar_name
        return limits

    def _reshape_to_scalar(self, network_writer: NetworkWriter, name: str) -> str:
        """Reshape a value with one element to a scalar, and return the name of the scalar."""
        network_writer.read(name)
        if network_writer.shapes.get(name) in ((), (1,)):
            return name
        scalar_name = network_writer.writer.unique_name(f"{name}_scalar")
        axes = network_writer.value(np.zeros(0, np.int64), name)
        args = {"data": name, "shape": axes}
        network_writer.writer.node(
            "onnx::Reshape", [scalar_name], args=args, names_read=[name, axes]
        )
        return scalar_name

    def _copy_constants(self) -> None:
        """Copy the constants among the loop-invariant outer values to the body."""
        for binding in self.ports.invariant_inputs:
            constant_array = self.outer_writer.constants.get(self._outer_source(binding))
            if constant_array is not None:
                self.inner_writer.constants[self._parameter_name(binding.layer)] = constant_array

    def _bind_invariants(self, condition: str) -> None:
        """Bind the loop-invariant Parameters that the body reads to values outside the loop."""
        nodes = self.inner_writer.writer.nodes.values()
        names_read = {name for node in nodes for name in node.get("input_ports", {})} | {condition}
        names_read |= self.loop_parts.used_outputs
        for binding in self.ports.invariant_inputs:
            parameter_name = self._parameter_name(binding.layer)
            if parameter_name in names_read:
                self.loop_parts.args[parameter_name] = self._read_outer(binding)

    def _write_slices(self) -> None:
        for binding in self.ports.sliced_inputs:
            parameter_name = self._parameter_name(binding.layer)
            self.loop_parts.slices[parameter_name] = {
                "of": self._read_outer(binding),
                **binding.slice_entry(self.layer),
            }

    def _check_not_endless(self) -> None:
        if self.layer.type == "TensorIterator" and not self.loop_parts.slices:
            raise EndlessLoopError(
                "the TensorIterator has no sliced input: nothing says how often its body runs",
                self.layer.where,
            )

    def _write_iteration_number(self) -> str:
        """Write nodes that convert the iteration number to the type that the body declares.

        Return the name of the unconverted int64 scalar, which is an input of the body.
        """
        body_writer = self.inner_writer.writer
        layer = self.ports.iteration_parameter
        if layer is None:
            return body_writer.unique_name("iteration")
        parameter_name = self._parameter_name(layer)
        dtype, shape = (
            self.inner_writer.dtypes[parameter_name],
            self.inner_writer.shapes[parameter_name],
        )
        if dtype not in ("int64", "int32"):
            raise ModelError(
                f"the current iteration must be int64 or int32, not {dtype}", layer.where
            )
        is_vector = shape is not None and len(shape) == 1
        if dtype == "int64" and not is_vector:
            return parameter_name
        number_name = body_writer.unique_name(f"{parameter_name}_number")
        typed_name = number_name
        if dtype == "int32":
            typed_name = (
                body_writer.unique_name(f"{parameter_name}_int32") if is_vector else parameter_name
            )
            element_type_number = element_type(dtype)
            body_writer.node(
                "onnx::Cast",
                [typed_name],
                args={"input": number_name, "to": element_type_number},
                names_read=[number_name],
            )
        if is_vector:
            axes = self.inner_writer.value(np.ones(1, np.int64), parameter_name)
            args = {"data": typed_name, "shape": axes}
            body_writer.node(
                "onnx::Reshape", [parameter_name], args=args, names_read=[typed_name, axes]
            )
        return number_name

    # --- outputs of the body --------------------------------------------------------------------

    def _write_condition(self) -> str:
        """Write the condition that the body computes, which is always true for a TensorIterator.

        Return the name of the condition.
        """
        if self.layer.type == "TensorIterator":
            return self.inner_writer.value(np.array(True), "condition")
        if self.ports.condition_result is None:
            raise ConditionError(
                "the body of the Loop gives no condition for the next iteration",
                self.layer.where,
                'port_map needs <output external_port_id="-1" purpose="execution_condition" .../>',
            )
        return self._reshape_to_scalar(
            self.inner_writer, self.inner_writer.source(self.ports.condition_result, 0)
        )

    def _output_name(self, result: Layer) -> str:
        """Return the name of a body output, after copying a value that is already an output."""
        value_name = self.inner_writer.read(self.inner_writer.source(result, 0))
        if value_name not in self.loop_parts.used_outputs:
            self.loop_parts.used_outputs.add(value_name)
            return value_name
        copy_name = self.inner_writer.writer.unique_name(f"{value_name}_again")
        self.inner_writer.writer.node(
            "onnx::Identity", [copy_name], args={"input": value_name}, names_read=[value_name]
        )
        return copy_name

    def _write_carried_values(self) -> None:
        final_bindings = {binding.layer.id: binding for binding in self.ports.last_outputs}
        for binding, result_layer in self.ports.carried_pairs:
            self.loop_parts.initial_names.append(self._read_outer(binding))
            self.loop_parts.carried_inputs.append(self._parameter_name(binding.layer))
            self.loop_parts.carried_outputs.append(self._output_name(result_layer))
            final_binding = final_bindings.pop(result_layer.id, None)
            self.loop_parts.final_names.append(
                "" if final_binding is None else self._outer_name(final_binding)
            )

    def _outer_name(self, binding: PortBinding) -> str:
        """Return the name of the value at an output port of the loop."""
        return self.outer_writer.names[self.layer.id, binding.port_id]

    def _write_recorded_outputs(self) -> None:
        """Write the loop outputs that are not carried: concatenated values and last values."""
        bindings = (*self.ports.concatenated_outputs, *self.ports.last_outputs)
        mapped_ports = {binding.port_id for binding in bindings}
        for port in self.layer.outputs:
            if port.id not in mapped_ports:
                raise ModelError(
                    f"no entry of port_map gives the output {port.id}", self.layer.where
                )
        carried_result_ids = {result_layer.id for _, result_layer in self.ports.carried_pairs}
        ids_of_written_results: set[int] = set()
        for binding in bindings:
            if (
                binding.axis is None
                and binding.layer.id in carried_result_ids
                and binding.layer.id not in ids_of_written_results
            ):
                ids_of_written_results.add(binding.layer.id)
                continue
            row_name = self._output_name(binding.layer)
            self.loop_parts.recorded_outputs.append(row_name)
            self.loop_parts.stacked_names.append(self._outer_name(binding))
            self.loop_parts.recordings[row_name] = (
                {"keep": "last"} if binding.axis is None else binding.recording_entry(self.layer)
            )
