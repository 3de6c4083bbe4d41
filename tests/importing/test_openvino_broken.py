"""Invalid and hostile IRs give one error with cause and place."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import numpy as np
import pytest

from mdf_loop.errors import CycleError, LoopError, ModelError, UnsupportedError
from mdf_loop.importing.openvino import read_ir
from tests.importing.ir_files import Net, Value, loop, plain_loop

Change = Callable[[Net, Net], object]


def layer(net: Net, kind: str, position: int = 0) -> Element:
    elements = [element for element in net.layers if element.get("type") == kind]
    return elements[position]


def data(net: Net, kind: str, position: int = 0) -> Element:
    element = layer(net, kind, position).find("data")
    assert element is not None
    return element


def of_loop(net: Net, path: str) -> Element:
    element = layer(net, "Loop").find(path)
    assert element is not None
    return element


def drop(net: Net, path: str) -> None:
    parent = layer(net, "Loop")
    if "/" in path:
        parent = of_loop(net, path.rpartition("/")[0])
    parent.remove(of_loop(net, path))


def repeat(element: Element, parent: Element) -> None:
    SubElement(parent, element.tag, element.attrib)


BROKEN: list[tuple[str, Change, str, str]] = [
    ("no layers", lambda n, b: n.root.remove(n.layers), "<net> has no <layers>", ""),
    ("no edges", lambda n, b: n.root.remove(n.edges), "<net> has no <edges>", ""),
    ("not a net", lambda n, b: setattr(n.root, "tag", "svg"), "not an OpenVINO network", "m.xml"),
    ("old IR", lambda n, b: n.root.set("version", "7"), "an IR of version 7", "m.xml"),
    ("no version", lambda n, b: n.root.attrib.pop("version"), "'version of the net' is", "m.xml"),
    ("no id", lambda n, b: layer(n, "Loop").attrib.pop("id"), "'id of a layer' is", "'Loop_3'"),
    ("text id", lambda n, b: layer(n, "Loop").set("id", "x"), "whole number, not 'x'", "'Loop_3'"),
    ("no type", lambda n, b: layer(n, "Loop").attrib.pop("type"), "'type' is missing", "(id 3)"),
    ("same id", lambda n, b: layer(n, "Const").set("id", "0"), "layer id 0 is there twice", ""),
    (
        "edge from nowhere",
        lambda n, b: n.edges[0].set("from-layer", "77"),
        "an edge goes from layer 77, which does not exist",
        "",
    ),
    (
        "edge from a port that is none",
        lambda n, b: n.edges[0].set("from-port", "77"),
        "port 77, which is none of its outputs",
        "layer 'Const_1' (id 1)",
    ),
    (
        "edge without an end",
        lambda n, b: n.edges[0].attrib.pop("to-port"),
        "'to-port' is missing",
        "",
    ),
    (
        "edge twice",
        lambda n, b: repeat(n.edges[0], n.edges),
        "input port with an edge (3, 0) is there twice",
        "",
    ),
    ("port unfed", lambda n, b: n.edges.remove(n.edges[0]), "no edge feeds", "layer 'Loop_3'"),
    (
        "unknown layer type",
        lambda n, b: layer(n, "Loop").set("type", "Frobnicate"),
        "the layer type Frobnicate (opset5) cannot be read",
        "layer 'Loop_3' (id 3)",
    ),
    (
        "unknown type in the body",
        lambda n, b: layer(b, "Add").set("type", "NonZero"),
        "the layer type NonZero (opset1) cannot be read",
        "layer 'Loop_3' (id 3) > layer 'Add_2' (id 2)",
    ),
    (
        "element type",
        lambda n, b: data(n, "Const").set("element_type", "u4"),
        "the element type 'u4' cannot be read",
        "layer 'Const_1' (id 1)",
    ),
    (
        "precision",
        lambda n, b: layer(n, "Const")[1][0].set("precision", "U1"),
        "the layer type Const: the precision 'U1' cannot be read",
        "layer 'Const_1'",
    ),
    (
        "broadcast",
        lambda n, b: SubElement(layer(b, "Add"), "data", {"auto_broadcast": "pdpd"}),
        "with auto_broadcast='pdpd' cannot be read",
        "layer 'Add_2'",
    ),
    (
        "outside of the bin",
        lambda n, b: data(n, "Const").set("offset", "1000"),
        "bytes 1000 to 1008 are not in 'm.bin', which has 14",
        "layer 'Const_1' (id 1)",
    ),
    (
        "before the bin",
        lambda n, b: data(n, "Const").set("offset", "-8"),
        "bytes -8 to 0 are not in",
        "layer 'Const_1'",
    ),
    (
        "wrong size",
        lambda n, b: data(n, "Const").set("size", "4"),
        "takes 8 bytes, but the size is stated as 4",
        "layer 'Const_1'",
    ),
    ("no size", lambda n, b: data(n, "Const").attrib.pop("size"), "'size' is", "layer 'Const_1'"),
    (
        "absurd shape",
        lambda n, b: data(n, "Const").set("shape", "999999999,999999999"),
        "takes 7999999984000000008 bytes",
        "layer 'Const_1'",
    ),
    (
        "absurd shape and size",
        lambda n, b: data(n, "Const").attrib.update(shape="99999999999", size="799999999992"),
        "are not in 'm.bin'",
        "layer 'Const_1'",
    ),
    (
        "negative shape",
        lambda n, b: data(n, "Const").set("shape", "-3"),
        "cannot have the",
        "layer 'Const_1'",
    ),
    (
        "huge input",
        lambda n, b: data(n, "Parameter").set("shape", "9999999999999999"),
        "an axis cannot have the extent",
        "layer 'x' (id 0)",
    ),
    (
        "bytes that are no truth",
        lambda n, b: n.numbers.__setitem__(8, 7),
        "the bytes of a boolean Const must be 0 or 1",
        "layer 'Const_2'",
    ),
    ("no body", lambda n, b: drop(n, "body"), "<layer> has no <body>", "layer 'Loop_3'"),
    ("no port map", lambda n, b: drop(n, "port_map"), "has no <port_map>", "layer 'Loop_3'"),
    (
        "port map names no layer",
        lambda n, b: of_loop(n, "port_map/input").set("internal_layer_id", "50"),
        "port_map names the layer 50, which does not exist",
        "layer 'Loop_3' (id 3)",
    ),
    (
        "port map names another layer",
        lambda n, b: of_loop(n, "port_map/input").set("internal_layer_id", "2"),
        "port_map names a Add where a Parameter must be",
        "layer 'Add_2'",
    ),
    (
        "port map names no port",
        lambda n, b: of_loop(n, "port_map/input").set("external_port_id", "9"),
        "port_map names the port 9, which is none of the inputs",
        "layer 'Loop_3'",
    ),
    (
        "port map without an id",
        lambda n, b: of_loop(n, "port_map/input").attrib.pop("external_port_id"),
        "'external_port_id' is missing",
        "layer 'Loop_3'",
    ),
    (
        "port map gives nothing",
        lambda n, b: drop(n, "port_map/input"),
        "no entry of port_map brings a value to this Parameter",
        "layer 'Loop_3' (id 3) > layer 'v' (id 0)",
    ),
    (
        "port map gives twice",
        lambda n, b: repeat(of_loop(n, "port_map/input"), of_loop(n, "port_map")),
        "port_map names the layer 0 twice",
        "layer 'Loop_3'",
    ),
    (
        "output unmapped",
        lambda n, b: drop(n, "port_map/output"),
        "no entry of port_map gives the output 3",
        "layer 'Loop_3'",
    ),
    (
        "no condition",
        lambda n, b: of_loop(n, "port_map").remove(of_loop(n, "port_map")[2]),
        "the body of the Loop gives no condition for the next iteration",
        "layer 'Loop_3' (id 3)",
    ),
    (
        "back edge from nowhere",
        lambda n, b: of_loop(n, "back_edges/edge").set("from-layer", "50"),
        "a back edge names the layer 50, which does not exist",
        "layer 'Loop_3'",
    ),
    (
        "back edge to a Result",
        lambda n, b: of_loop(n, "back_edges/edge").set("to-layer", "3"),
        "a back edge goes from a Result to a Parameter",
        "layer 'Loop_3'",
    ),
    (
        "two back edges",
        lambda n, b: repeat(of_loop(n, "back_edges/edge"), of_loop(n, "back_edges")),
        "two back edges go to 'v'",
        "layer 'Loop_3'",
    ),
    (
        "sliced and carried",
        lambda n, b: of_loop(n, "port_map/input").set("axis", "0"),
        "a Parameter with a back edge cannot be sliced",
        "layer 'v'",
    ),
    (
        "stride of nothing",
        lambda n, b: of_loop(n, "port_map/output").attrib.update(axis="0", stride="0"),
        "cannot have stride 0",
        "layer 'Loop_3'",
    ),
    (
        "part of an output",
        lambda n, b: of_loop(n, "port_map/output").attrib.update(axis="0", start="2"),
        "an output can only be joined as a whole",
        "layer 'Loop_3'",
    ),
]


@pytest.mark.parametrize(
    ("change", "what", "where"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_a_broken_file_is_one_error(tmp_path: Path, change: Change, what: str, where: str) -> None:
    net, body, _ = plain_loop(tmp_path)
    change(net, body)
    with pytest.raises(LoopError) as caught:
        read_ir(net.save(tmp_path))
    (finding,) = caught.value.findings
    assert what in finding.what
    assert where in finding.where


def test_layers_in_a_circle(tmp_path: Path) -> None:
    net = Net()
    x = net.parameter("x", "float32", (2,))
    first = net.layer("Add", [x, x], [("float32", (2,))])[0]
    second = net.layer("Abs", [first], [("float32", (2,))])[0]
    net.result(second)
    net.edges[1].set("from-layer", str(second.layer))
    net.edges[1].set("from-port", "1")
    with pytest.raises(CycleError, match=r"'Abs_2' -> 'Add_1'|'Add_1' -> 'Abs_2'"):
        read_ir(net.save(tmp_path))


def test_a_tensor_iterator_without_slices_never_ends(tmp_path: Path) -> None:
    net = Net()
    x = net.parameter("x", "float32", (2,))
    body = Net("body", net)
    v = body.parameter("v", "float32", (2,))
    out = body.result(body.layer("Abs", [v], [("float32", (2,))])[0])
    entries: list[tuple[str, dict[str, object]]] = [
        ("input", {"external_port_id": 0, "internal_layer_id": v.layer}),
        ("output", {"external_port_id": 1, "internal_layer_id": out}),
    ]
    types: list[tuple[str, tuple[object, ...]]] = [("float32", (2,))]
    net.result(loop(net, body, [x], types, entries, [(out, v.layer)], "TensorIterator")[0])
    with pytest.raises(LoopError, match="has no sliced input"):
        read_ir(net.save(tmp_path))


# --- the files themselves -----------------------------------------------------------------------


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the file cannot be read"):
        read_ir(tmp_path / "m.xml")


def test_no_bin(tmp_path: Path) -> None:
    _, _, path = plain_loop(tmp_path)
    path.with_suffix(".bin").unlink()
    with pytest.raises(ModelError, match=r"'m\.bin', which is not there"):
        read_ir(path)


ENTITIES = """<?xml version="1.0"?>
<!DOCTYPE net [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/hostname">]>
<net name="&b;&c;" version="11"><layers/><edges/></net>"""


def test_document_types_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    path.write_text(ENTITIES)
    with pytest.raises(ModelError, match="declares a document type"):
        read_ir(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\xfe",
        b"no xml",
        b"<net version='11'",
        b"<?xml version='1.0' encoding='x'?><a/>",
    ],
    ids=["empty", "bytes", "text", "cut off", "encoding"],
)
def test_invalid_xml_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.xml"
    path.write_bytes(content)
    with pytest.raises(ModelError):
        read_ir(path)


def test_elements_without_end(tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    path.write_bytes(b"<net>" * 100_000)
    with pytest.raises(ModelError, match="nested too deeply"):
        read_ir(path)


def test_a_file_cut_off_anywhere(tmp_path: Path) -> None:
    _, _, path = plain_loop(tmp_path)
    text = path.read_bytes()
    for end in range(0, len(text) - 1, 97):
        path.write_bytes(text[:end])
        with pytest.raises(ModelError):
            read_ir(path)


def test_a_bin_cut_off_anywhere(tmp_path: Path) -> None:
    _, _, path = plain_loop(tmp_path)
    numbers = path.with_suffix(".bin").read_bytes()
    for end in range(len(numbers)):
        path.with_suffix(".bin").write_bytes(numbers[:end])
        with pytest.raises(ModelError, match="are not in"):
            read_ir(path)


@pytest.mark.slow
def test_randomly_changed_attributes_open_or_are_refused(tmp_path: Path) -> None:
    """Check that randomly exchanged attributes raise no exception except LoopError."""
    dice = random.Random(4)
    words = ["", "-1", "0", "1", "2", "3", "99", "x", "f32", "Const", "Loop", "Add", "1e9", "[1]"]
    for _ in range(300):
        net, _, path = plain_loop(tmp_path)
        elements = [element for element in net.root.iter() if element.attrib]
        for _ in range(dice.randint(1, 3)):
            element = dice.choice(elements)
            key = dice.choice(sorted(element.attrib))
            if dice.random() < 0.2:
                del element.attrib[key]
                element.set("other", "")
            else:
                element.set(key, dice.choice(words))
        net.save(tmp_path)
        with contextlib.suppress(LoopError):
            read_ir(path)


def nested(folder: Path, depth: int) -> Path:
    """Return nested loops whose innermost body adds one."""
    net = Net()
    outer, value = net, net.parameter("x", "float32", (1,))
    nets: list[Net] = []
    for _ in range(depth):
        body = Net("body", net)
        inner = body.parameter("v", "float32", (1,))
        nets.append(outer)
        outer, value = body, inner
    result = outer.layer("Abs", [value], [("float32", (1,))])[0]
    for above in reversed(nets):
        out, condition_result = outer.result(result), outer.result(outer.const(np.array(True)))
        source = next(k for k, e in enumerate(above.layers) if e.get("type") == "Parameter")
        inputs = [above.const(1, "int64"), above.const(np.array(True))]
        inputs.append(Value(source, 0, "float32", (1,)))
        condition = {"external_port_id": -1, "internal_layer_id": condition_result}
        entries: list[tuple[str, dict[str, object]]] = [
            ("input", {"external_port_id": 2, "internal_layer_id": 0}),
            ("output", {"external_port_id": 3, "internal_layer_id": out}),
            ("output", {**condition, "purpose": "execution_condition"}),
        ]
        types: list[tuple[str, tuple[object, ...]]] = [("float32", (1,))]
        result = loop(above, outer, inputs, types, entries, [(out, 0)])[0]
        outer = above
    net.result(result)
    return net.save(folder)


def test_bodies_a_hundred_deep_are_read(tmp_path: Path) -> None:
    assert read_ir(nested(tmp_path, 100))


def test_bodies_deeper_than_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nested too deeply"):
        read_ir(nested(tmp_path, 101))


def test_a_layer_of_another_kind_is_named(tmp_path: Path) -> None:
    net = Net()
    x = net.parameter("x", "float32", (2,))
    net.result(net.layer("ReadValue", [x], [("float32", (2,))], name="memory", opset="opset6")[0])
    with pytest.raises(UnsupportedError, match=r"ReadValue \(opset6\)"):
        read_ir(net.save(tmp_path))
