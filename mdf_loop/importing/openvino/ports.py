"""Reading of the inputs, outputs and back edges of an OpenVINO loop.

Source: OpenVINO, Loop-5 and TensorIterator-1.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element

from msgspec import Struct

from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.importing.openvino.elements import read_integer
from mdf_loop.importing.openvino.network import Layer, Network, require_child


class PortBinding(Struct, frozen=True):
    """Binding of a loop's port to a Parameter or Result layer of its body. Port -1 means no port."""

    port_id: int
    layer: Layer  # Parameter or Result layer of the body
    axis: int | None = None  # axis that is sliced or concatenated
    start: int | None = None  # position where the slices start
    end: int | None = None  # position where the slices end
    stride: int = 1  # step between slices
    part_size: int = 1  # extent of each slice
    purpose: str = ""  # special role, such as "current_iteration"

    def slice_entry(self, owner: Layer) -> dict[str, int]:
        """Return the `slices` entry of a loop for a sliced input."""
        assert self.axis is not None
        self._check(owner)
        start, end = self._range()
        return {
            "axis": self.axis,
            "start": start,
            "end": end,
            "stride": self.stride,
            "part_size": self.part_size,
        }

    def recording_entry(self, owner: Layer) -> dict[str, object]:
        """Return the `recordings` entry of a loop for an output that concatenates all iterations."""
        assert self.axis is not None
        self._check(owner)
        if abs(self.stride) != self.part_size:
            raise UnsupportedError(
                f"the parts of an output cannot overlap or leave gaps: stride {self.stride}, "
                f"part_size {self.part_size}",
                owner.location,
            )
        if self._range() != ((0, -1) if self.stride > 0 else (-1, 0)):
            raise UnsupportedError(
                f"an output can only be joined as a whole, not from {self.start} to {self.end}",
                owner.location,
                "start 0, end -1, stride 1; or -1, 0, -1 for the last iteration first",
            )
        recording_settings: dict[str, object] = {"axis": self.axis, "concat": True}
        return recording_settings if self.stride > 0 else {**recording_settings, "reverse": True}

    def _range(self) -> tuple[int, int]:
        default_start, default_end = (0, -1) if self.stride > 0 else (-1, 0)
        return (
            default_start if self.start is None else self.start,
            default_end if self.end is None else self.end,
        )

    def _check(self, owner: Layer) -> None:
        if self.stride == 0 or self.part_size < 1:
            raise ModelError(
                f"a slice cannot have stride {self.stride} and part_size {self.part_size}",
                owner.location,
            )


class BodyPorts(Struct, frozen=True):
    """Inputs and outputs of a loop body by role, such as sliced, loop-invariant or carried."""

    sliced_inputs: tuple[PortBinding, ...]
    invariant_inputs: tuple[PortBinding, ...]
    carried_pairs: tuple[tuple[PortBinding, Layer], ...]
    iteration_parameter: Layer | None
    concatenated_outputs: tuple[PortBinding, ...]
    last_outputs: tuple[PortBinding, ...]
    condition_result: Layer | None


def read_bindings(
    element: Element, tag: str, body_owner: Layer, network: Network, unbound: tuple[str, ...] = ()
) -> tuple[PortBinding, ...]:
    """Return the `<input>` or `<output>` entries of a port_map, with all ids checked.

    An entry with a purpose in `unbound` may have the port -1, which means no port.
    """
    inputs_or_outputs, layer_type, layer_ports = (
        ("inputs", "Parameter", body_owner.input_ports)
        if tag == "input"
        else ("outputs", "Result", body_owner.output_ports)
    )
    port_ids = {port.id for port in layer_ports}
    port_bindings = [
        _parse_binding(binding_element, layer_type, body_owner, network)
        for binding_element in element.findall(tag)
    ]
    for binding in port_bindings:
        if binding.port_id not in port_ids and not (
            binding.port_id == -1 and binding.purpose in unbound
        ):
            raise ModelError(
                f"port_map names the port {binding.port_id}, which is none of the {inputs_or_outputs}",
                body_owner.location,
            )
    return tuple(port_bindings)


def _parse_binding(
    element: Element, layer_type: str, body_owner: Layer, network: Network
) -> PortBinding:
    def number(attribute_key: str) -> int | None:
        number_text = element.get(attribute_key)
        return (
            None
            if number_text is None
            else read_integer(number_text, attribute_key, body_owner.location)
        )

    layer_id = read_integer(
        element.get("internal_layer_id"), "internal_layer_id", body_owner.location
    )
    body_layer = network.layer(layer_id, "port_map", body_owner.location)
    if body_layer.type != layer_type:
        raise ModelError(
            f"port_map names a {body_layer.type} where a {layer_type} must be", body_layer.location
        )
    if layer_type == "Parameter" and len(body_layer.output_ports) != 1:
        raise ModelError("a Parameter has one output", body_layer.location)
    if layer_type == "Result" and len(body_layer.input_ports) != 1:
        raise ModelError("a Result has one input", body_layer.location)
    stride, part_size = number("stride"), number("part_size")
    return PortBinding(
        port_id=read_integer(
            element.get("external_port_id"), "external_port_id", body_owner.location
        ),
        layer=body_layer,
        axis=number("axis"),
        start=number("start"),
        end=number("end"),
        stride=1 if stride is None else stride,
        part_size=1 if part_size is None else part_size,
        purpose=element.get("purpose", ""),
    )


def read_ports(loop_layer: Layer, network: Network) -> BodyPorts:
    """Classify the inputs and outputs of an OpenVINO loop by role, such as sliced or carried.

    Raises:
        ModelError: An id is unknown or repeated, or a Parameter has no value.
    """
    port_map_element = require_child(loop_layer.xml_element, "port_map", loop_layer.location)
    input_bindings = read_bindings(
        port_map_element, "input", loop_layer, network, ("current_iteration",)
    )
    output_bindings = read_bindings(
        port_map_element, "output", loop_layer, network, ("execution_condition", "")
    )
    result_by_parameter_id = _back_edges(loop_layer, network)
    iteration_parameter = _layer_with_purpose(input_bindings, "current_iteration", loop_layer)
    condition_result = _layer_with_purpose(output_bindings, "execution_condition", loop_layer)
    value_inputs = [binding for binding in input_bindings if binding.purpose != "current_iteration"]
    _check_all_fed(loop_layer, network, input_bindings, result_by_parameter_id)
    mapped_outputs = [binding for binding in output_bindings if binding.port_id != -1]
    _check_not_repeated(
        [binding.port_id for binding in mapped_outputs], "the output port {} twice", loop_layer
    )
    return BodyPorts(
        sliced_inputs=tuple(binding for binding in value_inputs if binding.axis is not None),
        invariant_inputs=tuple(
            binding
            for binding in value_inputs
            if binding.axis is None and binding.layer.id not in result_by_parameter_id
        ),
        carried_pairs=tuple(
            (binding, result_by_parameter_id[binding.layer.id])
            for binding in value_inputs
            if binding.layer.id in result_by_parameter_id
        ),
        iteration_parameter=iteration_parameter,
        concatenated_outputs=tuple(
            binding for binding in mapped_outputs if binding.axis is not None
        ),
        last_outputs=tuple(binding for binding in mapped_outputs if binding.axis is None),
        condition_result=condition_result,
    )


def _layer_with_purpose(
    bindings: Iterable[PortBinding], purpose: str, loop_layer: Layer
) -> Layer | None:
    layers_with_purpose = [binding.layer for binding in bindings if binding.purpose == purpose]
    if len(layers_with_purpose) > 1:
        raise ModelError(f"port_map has the purpose {purpose} twice", loop_layer.location)
    return layers_with_purpose[0] if layers_with_purpose else None


def _check_not_repeated(ids: list[int], phrase: str, owner: Layer) -> None:
    earlier_port_ids: set[int] = set()
    for port_id in ids:
        if port_id in earlier_port_ids:
            raise ModelError(f"port_map names {phrase.format(port_id)}", owner.location)
        earlier_port_ids.add(port_id)


def _back_edges(loop_layer: Layer, network: Network) -> dict[int, Layer]:
    """Return the Result layer that feeds each Parameter in the next iteration, by Parameter id."""
    result_by_parameter_id: dict[int, Layer] = {}
    edges_element = loop_layer.xml_element.find("back_edges")
    for edge_element in () if edges_element is None else edges_element.findall("edge"):
        layer_ids = [
            read_integer(edge_element.get(attribute_key), attribute_key, loop_layer.location)
            for attribute_key in ("from-layer", "to-layer")
        ]
        source_layer, target_layer = (
            network.layer(layer_id, "a back edge", loop_layer.location) for layer_id in layer_ids
        )
        if source_layer.type != "Result" or target_layer.type != "Parameter":
            raise ModelError(
                f"a back edge goes from a Result to a Parameter, not from a {source_layer.type} to a "
                f"{target_layer.type}",
                loop_layer.location,
            )
        if target_layer.id in result_by_parameter_id:
            raise ModelError(f"two back edges go to '{target_layer.name}'", loop_layer.location)
        result_by_parameter_id[target_layer.id] = source_layer
    return result_by_parameter_id


def _check_all_fed(
    loop_layer: Layer, network: Network, inputs: tuple[PortBinding, ...], edges: dict[int, Layer]
) -> None:
    _check_not_repeated([binding.layer.id for binding in inputs], "the layer {} twice", loop_layer)
    binding_by_layer_id = {binding.layer.id: binding for binding in inputs}
    for layer in network.layers_of_type("Parameter"):
        binding = binding_by_layer_id.get(layer.id)
        if binding is None:
            raise ModelError(
                "no entry of port_map brings a value to this Parameter",
                layer.location,
                "a back edge alone says nothing of the first iteration"
                if layer.id in edges
                else "",
            )
        if layer.id in edges and (binding.axis is not None or binding.purpose):
            raise ModelError(
                "a Parameter with a back edge cannot be sliced or counted", layer.location
            )
