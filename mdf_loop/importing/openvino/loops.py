"""Loop and TensorIterator -> `onnx::Loop` with slices and recordings.

    port_map input with axis           a slice
    port_map input, a back edge's end  a carried value
    any other port_map input           bound to the value outside
    port_map output with axis          a recording, its parts joined along the axis
    any other port_map output          a carried value's last, or the last row of a recording

Source: OpenVINO, Loop-5 and TensorIterator-1.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from mdf_loop.errors import ConditionError, EndlessLoopError, ModelError
from mdf_loop.importing.graph_writer import Content, GraphWriter
from mdf_loop.importing.openvino.graph import owner, write_layers
from mdf_loop.importing.openvino.network import Layer, Network, child, read_network
from mdf_loop.importing.openvino.place import Place
from mdf_loop.importing.openvino.ports import BodyPorts, Tie, read_ports
from mdf_loop.ir.types import element_type

_TAKEN = ("M", "cond", "v_initial", "body", "slices", "delays", "recordings", "exit", "shapes")
"""Arguments of a loop: no value of a body is called so."""


@owner("Loop", "TensorIterator")
def write_loop(layer: Layer, place: Place) -> None:
    """Write the node of a loop, with its body in the args."""
    network = read_network(child(layer.element, "body", layer.where), layer.where)
    ports = read_ports(layer, network)
    _LoopWriter(layer, place, network, ports).write()


class _Written(Struct):
    """The arguments of the loop and the signature of its body, as they come together."""

    args: Content = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)
    initial: list[str] = field(default_factory=list)
    enters: list[str] = field(default_factory=list)
    leaves: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    finals: list[str] = field(default_factory=list)
    stacks: list[str] = field(default_factory=list)
    left: set[str] = field(default_factory=set)
    slices: Content = field(default_factory=dict)
    recordings: Content = field(default_factory=dict)


class _LoopWriter:
    def __init__(self, layer: Layer, place: Place, network: Network, ports: BodyPorts) -> None:
        self.layer = layer
        self.outside = place
        self.network = network
        self.ports = ports
        self.inside = Place(network, GraphWriter(f"{layer.name}_body"), place.weights)
        self.to = _Written()

    def write(self) -> None:
        """Arguments, body, node."""
        inside = self.inside
        self._name_values()
        self._bring_types()
        self._know_invariants()
        iteration = self._iteration()
        write_layers(inside)
        self._slices()
        self._refuse_endless()
        condition = self._condition()
        self._carried()
        self._outputs()
        self._bind_invariants(condition)
        to, writer = self.to, inside.writer
        body = writer.content(
            inputs=[iteration, writer.unique_name("condition"), *to.enters],
            outputs=[condition, *to.leaves, *to.rows],
            metadata=self._metadata(),
        )
        self._node(body)

    def _metadata(self) -> Content:
        """A body sees nothing but its Parameters; a carried one of open shape may grow."""
        about: Content = {"strict": True}
        open_shapes = [self.inside.shapes[name] for name in self.to.enters]
        if any(shape is None or None in shape for shape in open_shapes):
            about["shapes"] = "dynamic"
        return about

    def _node(self, body: Content) -> None:
        to = self.to
        args: Content = {**self._limits(), "v_initial": to.initial}
        if to.slices:
            args["slices"] = to.slices
        if to.recordings:
            args["recordings"] = to.recordings
        self.outside.writer.node(
            "onnx::Loop",
            [*to.finals, *to.stacks],
            args={**args, **to.args, "body": body},
            reads=to.reads,
            node_id=self.layer.name,
        )

    # --- what enters ----------------------------------------------------------------------------

    def _outer(self, tie: Tie) -> str:
        """The value outside that a port of the loop brings."""
        name = self.outside.read(self._source(tie))
        self.to.reads.append(name)
        return name

    def _name_values(self) -> None:
        """Name the body's values; none is called as an argument of the loop (`arg_0` is one)."""
        inside = self.inside
        inside.writer.reserve(_TAKEN)
        for tie in self.ports.invariant:
            (port,) = tie.inner.outputs
            wanted = (*port.names, tie.inner.name)[0]
            if wanted.startswith("arg_"):
                inside.names[tie.inner.id, port.id] = inside.writer.unique_name(f"outer_{wanted}")
        inside.name_values()

    def _source(self, tie: Tie) -> str:
        """The name of the value outside that a port of the loop brings."""
        return self.outside.names[self.outside.network.sources[self.layer.id, tie.port]]

    def _bring_types(self) -> None:
        """A Parameter whose type the body leaves open has that of its value."""
        ports = self.ports
        for tie in (*ports.sliced, *ports.invariant, *(tie for tie, _ in ports.carried)):
            name, outer = self._inner(tie.inner), self._source(tie)
            self.inside.dtypes[name] = self.inside.dtypes[name] or self.outside.dtypes[outer]

    def _inner(self, layer: Layer) -> str:
        return self.inside.names[layer.id, layer.outputs[0].id]

    def _limits(self) -> Content:
        """Trip count and condition: the first two inputs of a Loop."""
        if self.layer.type == "TensorIterator":
            return {}
        if len(self.layer.inputs) < 2:
            raise ModelError("a Loop needs a trip count and a condition", self.layer.where)
        limits: Content = {}
        for key, position in (("M", 0), ("cond", 1)):
            name = self.outside.source(self.layer, position)
            known = self.outside.known.get(name)
            if known is not None and known.size == 1:
                limits[key] = known.reshape(()).item()
                continue
            scalar = self._scalar(self.outside, name)
            self.to.reads.append(scalar)
            limits[key] = scalar
        return limits

    def _scalar(self, place: Place, name: str) -> str:
        """A value of one element without axes."""
        place.read(name)
        if place.shapes.get(name) in ((), (1,)):
            return name
        wanted = place.writer.unique_name(f"{name}_scalar")
        axes = place.value(np.zeros(0, np.int64), name)
        args = {"data": name, "shape": axes}
        place.writer.node("onnx::Reshape", [wanted], args=args, reads=[name, axes])
        return wanted

    def _know_invariants(self) -> None:
        """What is constant outside is constant inside."""
        for tie in self.ports.invariant:
            known = self.outside.known.get(self._source(tie))
            if known is not None:
                self.inside.known[self._inner(tie.inner)] = known

    def _bind_invariants(self, condition: str) -> None:
        """Bind the Parameters that the body reads to the values outside."""
        nodes = self.inside.writer.nodes.values()
        read = {name for node in nodes for name in node.get("input_ports", {})} | {condition}
        read |= self.to.left
        for tie in self.ports.invariant:
            name = self._inner(tie.inner)
            if name in read:
                self.to.args[name] = self._outer(tie)

    def _slices(self) -> None:
        for tie in self.ports.sliced:
            name = self._inner(tie.inner)
            self.to.slices[name] = {"of": self._outer(tie), **tie.slicing(self.layer)}

    def _refuse_endless(self) -> None:
        if self.layer.type == "TensorIterator" and not self.to.slices:
            raise EndlessLoopError(
                "the TensorIterator has no sliced input: nothing says how often its body runs",
                self.layer.where,
            )

    def _iteration(self) -> str:
        """The iteration number, in the type and shape that the body declares."""
        writer = self.inside.writer
        layer = self.ports.iteration
        if layer is None:
            return writer.unique_name("iteration")
        name = self._inner(layer)
        dtype, shape = self.inside.dtypes[name], self.inside.shapes[name]
        if dtype not in ("int64", "int32"):
            raise ModelError(
                f"the current iteration must be int64 or int32, not {dtype}", layer.where
            )
        listed = shape is not None and len(shape) == 1
        if dtype == "int64" and not listed:
            return name
        number = writer.unique_name(f"{name}_number")
        value = number
        if dtype == "int32":
            value = writer.unique_name(f"{name}_int32") if listed else name
            to = element_type(dtype)
            writer.node("onnx::Cast", [value], args={"input": number, "to": to}, reads=[number])
        if listed:
            axes = self.inside.value(np.ones(1, np.int64), name)
            args = {"data": value, "shape": axes}
            writer.node("onnx::Reshape", [name], args=args, reads=[value, axes])
        return number

    # --- what leaves ----------------------------------------------------------------------------

    def _condition(self) -> str:
        """The body's condition; a TensorIterator goes on as long as there are slices."""
        if self.layer.type == "TensorIterator":
            return self.inside.value(np.array(True), "condition")
        if self.ports.condition is None:
            raise ConditionError(
                "the body of the Loop gives no condition for the next iteration",
                self.layer.where,
                'port_map needs <output external_port_id="-1" purpose="execution_condition" .../>',
            )
        return self._scalar(self.inside, self.inside.source(self.ports.condition, 0))

    def _leaving(self, result: Layer) -> str:
        """The name of what a Result gives, one that no other output of the body has."""
        name = self.inside.read(self.inside.source(result, 0))
        if name not in self.to.left:
            self.to.left.add(name)
            return name
        other = self.inside.writer.unique_name(f"{name}_again")
        self.inside.writer.node("onnx::Identity", [other], args={"input": name}, reads=[name])
        return other

    def _carried(self) -> None:
        finals = {tie.inner.id: tie for tie in self.ports.plain_outputs}
        for tie, result in self.ports.carried:
            self.to.initial.append(self._outer(tie))
            self.to.enters.append(self._inner(tie.inner))
            self.to.leaves.append(self._leaving(result))
            final = finals.pop(result.id, None)
            self.to.finals.append("" if final is None else self._given(final))

    def _given(self, tie: Tie) -> str:
        """The name of a value that the loop gives."""
        return self.outside.names[self.layer.id, tie.port]

    def _outputs(self) -> None:
        """Rows: joined along their axis, or the last one only."""
        ties = (*self.ports.joined_outputs, *self.ports.plain_outputs)
        given = {tie.port for tie in ties}
        for port in self.layer.outputs:
            if port.id not in given:
                raise ModelError(
                    f"no entry of port_map gives the output {port.id}", self.layer.where
                )
        carried = {result.id for _, result in self.ports.carried}
        final: set[int] = set()
        for tie in ties:
            if tie.axis is None and tie.inner.id in carried and tie.inner.id not in final:
                final.add(tie.inner.id)
                continue
            row = self._leaving(tie.inner)
            self.to.rows.append(row)
            self.to.stacks.append(self._given(tie))
            self.to.recordings[row] = (
                {"keep": "last"} if tie.axis is None else tie.joining(self.layer)
            )
