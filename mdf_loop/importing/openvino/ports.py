"""The port_map and back_edges of a loop: what each Parameter and Result of its body is.

Source: OpenVINO, Loop-5 and TensorIterator-1.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element

from msgspec import Struct

from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.importing.openvino.elements import whole
from mdf_loop.importing.openvino.network import Layer, Network, child


class Tie(Struct, frozen=True):
    """A port of the owner tied to a Parameter or Result of its body; the port is -1 for none."""

    port: int
    inner: Layer
    axis: int | None = None
    start: int | None = None
    end: int | None = None
    stride: int = 1
    part_size: int = 1
    purpose: str = ""

    def slicing(self, owner: Layer) -> dict[str, int]:
        """The slice of an input, in the words of a loop's `slices`."""
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

    def joining(self, owner: Layer) -> dict[str, object]:
        """The recording of an output whose parts are joined."""
        assert self.axis is not None
        self._check(owner)
        if abs(self.stride) != self.part_size:
            raise UnsupportedError(
                f"the parts of an output cannot overlap or leave gaps: stride {self.stride}, "
                f"part_size {self.part_size}",
                owner.where,
            )
        if self._range() != ((0, -1) if self.stride > 0 else (-1, 0)):
            raise UnsupportedError(
                f"an output can only be joined as a whole, not from {self.start} to {self.end}",
                owner.where,
                "start 0, end -1, stride 1; or -1, 0, -1 for the last iteration first",
            )
        about: dict[str, object] = {"axis": self.axis, "concat": True}
        return about if self.stride > 0 else {**about, "reverse": True}

    def _range(self) -> tuple[int, int]:
        first, last = (0, -1) if self.stride > 0 else (-1, 0)
        return first if self.start is None else self.start, last if self.end is None else self.end

    def _check(self, owner: Layer) -> None:
        if self.stride == 0 or self.part_size < 1:
            raise ModelError(
                f"a slice cannot have stride {self.stride} and part_size {self.part_size}",
                owner.where,
            )


class BodyPorts(Struct, frozen=True):
    """What enters and leaves the body of a loop."""

    sliced: tuple[Tie, ...]
    invariant: tuple[Tie, ...]
    carried: tuple[tuple[Tie, Layer], ...]
    iteration: Layer | None
    joined_outputs: tuple[Tie, ...]
    plain_outputs: tuple[Tie, ...]
    condition: Layer | None


def read_ties(
    element: Element, tag: str, owner: Layer, network: Network, unbound: tuple[str, ...] = ()
) -> tuple[Tie, ...]:
    """The `<input>` or `<output>` entries of a port_map, every id checked.

    Those of a purpose in `unbound` are tied to no port: it is -1.
    """
    side, kind = ("inputs", "Parameter") if tag == "input" else ("outputs", "Result")
    ids = {port.id for port in getattr(owner, side)}
    ties = [_tie(e, kind, owner, network) for e in element.findall(tag)]
    for tie in ties:
        if tie.port not in ids and not (tie.port == -1 and tie.purpose in unbound):
            raise ModelError(
                f"port_map names the port {tie.port}, which is none of the {side}", owner.where
            )
    return tuple(ties)


def _tie(element: Element, kind: str, owner: Layer, network: Network) -> Tie:
    def number(key: str) -> int | None:
        text = element.get(key)
        return None if text is None else whole(text, key, owner.where)

    inner_id = whole(element.get("internal_layer_id"), "internal_layer_id", owner.where)
    inner = network.layer(inner_id, "port_map", owner.where)
    if inner.type != kind:
        raise ModelError(f"port_map names a {inner.type} where a {kind} must be", inner.where)
    if kind == "Parameter" and len(inner.outputs) != 1:
        raise ModelError("a Parameter has one output", inner.where)
    if kind == "Result" and len(inner.inputs) != 1:
        raise ModelError("a Result has one input", inner.where)
    stride, part_size = number("stride"), number("part_size")
    return Tie(
        port=whole(element.get("external_port_id"), "external_port_id", owner.where),
        inner=inner,
        axis=number("axis"),
        start=number("start"),
        end=number("end"),
        stride=1 if stride is None else stride,
        part_size=1 if part_size is None else part_size,
        purpose=element.get("purpose", ""),
    )


def read_ports(owner: Layer, network: Network) -> BodyPorts:
    """Sort the entries of a loop's port_map.

    Raises:
        ModelError: an id is unknown or named twice, or a Parameter gets no value.
    """
    element = child(owner.element, "port_map", owner.where)
    inputs = read_ties(element, "input", owner, network, ("current_iteration",))
    outputs = read_ties(element, "output", owner, network, ("execution_condition", ""))
    edges = _back_edges(owner, network)
    iteration = _only(inputs, "current_iteration", owner)
    condition = _only(outputs, "execution_condition", owner)
    plain = [tie for tie in inputs if tie.purpose != "current_iteration"]
    _refuse_unfed(owner, network, inputs, edges)
    given = [tie for tie in outputs if tie.port != -1]
    _refuse_repeated([tie.port for tie in given], "the output port {} twice", owner)
    return BodyPorts(
        sliced=tuple(tie for tie in plain if tie.axis is not None),
        invariant=tuple(t for t in plain if t.axis is None and t.inner.id not in edges),
        carried=tuple((tie, edges[tie.inner.id]) for tie in plain if tie.inner.id in edges),
        iteration=iteration,
        joined_outputs=tuple(tie for tie in given if tie.axis is not None),
        plain_outputs=tuple(tie for tie in given if tie.axis is None),
        condition=condition,
    )


def _only(ties: Iterable[Tie], purpose: str, owner: Layer) -> Layer | None:
    found = [tie.inner for tie in ties if tie.purpose == purpose]
    if len(found) > 1:
        raise ModelError(f"port_map has the purpose {purpose} twice", owner.where)
    return found[0] if found else None


def _refuse_repeated(ids: list[int], what: str, owner: Layer) -> None:
    seen: set[int] = set()
    for number in ids:
        if number in seen:
            raise ModelError(f"port_map names {what.format(number)}", owner.where)
        seen.add(number)


def _back_edges(owner: Layer, network: Network) -> dict[int, Layer]:
    """Parameter id -> the Result that it takes over from the iteration before."""
    found: dict[int, Layer] = {}
    group = owner.element.find("back_edges")
    for element in () if group is None else group.findall("edge"):
        ends = [whole(element.get(key), key, owner.where) for key in ("from-layer", "to-layer")]
        source, target = (network.layer(end, "a back edge", owner.where) for end in ends)
        if source.type != "Result" or target.type != "Parameter":
            raise ModelError(
                f"a back edge goes from a Result to a Parameter, not from a {source.type} to a "
                f"{target.type}",
                owner.where,
            )
        if target.id in found:
            raise ModelError(f"two back edges go to '{target.name}'", owner.where)
        found[target.id] = source
    return found


def _refuse_unfed(
    owner: Layer, network: Network, inputs: tuple[Tie, ...], edges: dict[int, Layer]
) -> None:
    _refuse_repeated([tie.inner.id for tie in inputs], "the layer {} twice", owner)
    by_layer = {tie.inner.id: tie for tie in inputs}
    for layer in network.of_type("Parameter"):
        tie = by_layer.get(layer.id)
        if tie is None:
            raise ModelError(
                "no entry of port_map brings a value to this Parameter",
                layer.where,
                "a back edge alone says nothing of the first iteration"
                if layer.id in edges
                else "",
            )
        if layer.id in edges and (tie.axis is not None or tie.purpose):
            raise ModelError(
                "a Parameter with a back edge cannot be sliced or counted", layer.where
            )
