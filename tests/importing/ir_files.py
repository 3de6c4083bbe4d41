"""Small hand-written OpenVINO IRs: layers, bodies, the .xml file and the .bin file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

TYPES = {
    "float64": ("f64", "FP64"),
    "float32": ("f32", "FP32"),
    "float16": ("f16", "FP16"),
    "int64": ("i64", "I64"),
    "int32": ("i32", "I32"),
    "int8": ("i8", "I8"),
    "uint8": ("u8", "U8"),
    "bool": ("boolean", "BOOL"),
}


class Value:
    """Output port of a layer."""

    def __init__(self, layer: int, port: int, dtype: str, shape: tuple[object, ...]) -> None:
        self.layer, self.port, self.dtype, self.shape = layer, port, dtype, shape


class Net:
    """Network or body of a layer; all bodies share one .bin file."""

    def __init__(self, tag: str = "net", outer: Net | None = None) -> None:
        self.root = Element(tag, {} if outer else {"name": "m", "version": "11"})
        self.layers = SubElement(self.root, "layers")
        self.edges = SubElement(self.root, "edges")
        self.numbers: bytearray = bytearray() if outer is None else outer.numbers

    def parameter(self, name: str, dtype: str, shape: tuple[object, ...]) -> Value:
        about = {"shape": ",".join(map(str, shape)), "element_type": TYPES[dtype][0]}
        return self.layer("Parameter", [], [(dtype, shape)], about, name=name)[0]

    def const(self, array: object, dtype: str = "") -> Value:
        numbers = np.asarray(array, dtype or None)
        about = {
            "element_type": TYPES[str(numbers.dtype)][0],
            "shape": ",".join(map(str, numbers.shape)),
            "offset": str(len(self.numbers)),
            "size": str(numbers.nbytes),
        }
        self.numbers += numbers.tobytes()
        return self.layer("Const", [], [(str(numbers.dtype), numbers.shape)], about)[0]

    def layer(
        self,
        kind: str,
        inputs: list[Value],
        outputs: list[tuple[str, tuple[object, ...]]],
        about: Mapping[str, str] | None = None,
        *,
        name: str = "",
        opset: str = "opset1",
    ) -> list[Value]:
        number = len(self.layers)
        name = name or f"{kind}_{number}"
        attributes = {"id": str(number), "name": name, "type": kind, "version": opset}
        element = SubElement(self.layers, "layer", attributes)
        if about:
            SubElement(element, "data", dict(about))
        self._ports(element, "input", 0, [(v.dtype, v.shape) for v in inputs], "")
        self._ports(element, "output", len(inputs), outputs, name if kind == "Parameter" else "")
        for port, value in enumerate(inputs):
            ends = (value.layer, value.port, number, port)
            keys = ("from-layer", "from-port", "to-layer", "to-port")
            SubElement(self.edges, "edge", dict(zip(keys, map(str, ends), strict=True)))
        return [Value(number, len(inputs) + k, *kind) for k, kind in enumerate(outputs)]

    def result(self, value: Value) -> int:
        self.layer("Result", [value], [])
        return len(self.layers) - 1

    def last(self) -> Element:
        """Return the XML element of the last layer."""
        return self.layers[-1]

    def save(self, folder: Path, name: str = "m") -> Path:
        path = folder / f"{name}.xml"
        path.write_bytes(tostring(self.root))
        path.with_suffix(".bin").write_bytes(bytes(self.numbers))
        return path

    @staticmethod
    def _ports(
        element: Element,
        tag: str,
        first: int,
        types: list[tuple[str, tuple[object, ...]]],
        names: str,
    ) -> None:
        if not types:
            return
        group = SubElement(element, tag)
        for k, (dtype, shape) in enumerate(types):
            port = SubElement(group, "port", {"id": str(first + k), "precision": TYPES[dtype][1]})
            if names:
                port.set("names", names)
            for extent in shape:
                SubElement(port, "dim").text = "-1" if extent == "?" else str(extent)


def loop(
    outer: Net,
    body: Net,
    inputs: list[Value],
    outputs: list[tuple[str, tuple[object, ...]]],
    entries: list[tuple[str, dict[str, object]]],
    back_edges: list[tuple[int, int]],
    kind: str = "Loop",
) -> list[Value]:
    """Append a Loop or TensorIterator layer to `outer`; `entries` are the entries of its port_map."""
    layer = outer.layer(kind, inputs, outputs, opset="opset5" if kind == "Loop" else "opset1")
    element = outer.last()
    port_map = SubElement(element, "port_map")
    for tag, about in entries:
        SubElement(port_map, tag, {key: str(value) for key, value in about.items()})
    group = SubElement(element, "back_edges")
    for source, target in back_edges:
        SubElement(group, "edge", {"from-layer": str(source), "to-layer": str(target)})
    body.root.tag = "body"
    element.append(body.root)
    return layer


def plain_loop(folder: Path, trip: int = 3) -> tuple[Net, Net, Path]:
    """Write `for trip: x = x + 1` and return the network, its body and the file path."""
    net = Net()
    x = net.parameter("x", "float32", (2,))
    count, go = net.const(trip, "int64"), net.const(True)
    body = Net("body", net)
    inner = body.parameter("v", "float32", (2,))
    more = body.layer("Add", [inner, body.const(1, "float32")], [("float32", (2,))])[0]
    out, cond = body.result(more), body.result(body.const(True))
    entries: list[tuple[str, dict[str, object]]] = [
        ("input", {"external_port_id": 2, "internal_layer_id": inner.layer}),
        ("output", {"external_port_id": 3, "internal_layer_id": out}),
        (
            "output",
            {
                "external_port_id": -1,
                "internal_layer_id": cond,
                "purpose": "execution_condition",
            },
        ),
    ]
    edges = [(out, inner.layer)]
    final = loop(net, body, [count, go, x], [("float32", (2,))], entries, edges)
    net.result(final[0])
    return net, body, net.save(folder)
