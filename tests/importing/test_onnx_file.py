"""Invalid, hostile and unusual ONNX files open or give one clear sentence."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import EncodeError
from onnx import TensorProto, helper, numpy_helper, parser

from mdf_loop.errors import (
    ArityError,
    CycleError,
    LoopError,
    ModelError,
    ScopeError,
    UnsupportedError,
)
from mdf_loop.importing import onnx_file
from mdf_loop.importing.onnx_file import check_onnx, open_onnx
from mdf_loop.importing.opsets import convert_to_package_opset

CASES = Path(__file__).parents[3] / "shared" / "cases"
PLAIN = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y)'
LOOP = """<ir_version: 8, opset_import: ["" : 17]>
g (int64 n, float[2] x) => (float[2] y) {
  c = Constant <value = bool {1}> ()
  y, rows = Loop (n, c, x) <body = body (int64 i, bool go, float[2] v) =>
     (bool go_on, float[2] w, float[2] r) {
       go_on = Identity(go)  w = Add(v, x)  r = Identity(v)
     }>
}"""


def plain(nodes: str, head: str = PLAIN) -> onnx.ModelProto:
    return parser.parse_model(f"{head} {{ {nodes} }}")


def refused(proto: onnx.ModelProto, kind: type[LoopError], sentence: str, where: str = "") -> None:
    with pytest.raises(kind) as error:
        check_onnx(proto)
    (finding,) = error.value.findings
    assert sentence in finding.what, finding.what
    assert where in finding.where, finding.where


def file_refused(path: Path, kind: type[LoopError], sentence: str) -> None:
    with pytest.raises(kind) as error:
        open_onnx(path)
    assert sentence in str(error.value)


# the file


def test_missing_files_folders_and_empty_files_are_refused(tmp_path: Path) -> None:
    file_refused(tmp_path / "none.onnx", ModelError, "there is no file")
    file_refused(tmp_path, ModelError, "is a folder")
    (tmp_path / "empty.onnx").write_bytes(b"")
    file_refused(tmp_path / "empty.onnx", ModelError, "is empty")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"hello: world\nnodes: []\n", "is not a whole ONNX file"),
        (plain("y = Abs(x)").SerializeToString()[:-5], "is not a whole ONNX file"),
        (b"\x08\x08", "holds no graph"),
        (b"\xfa\x01\x00", "holds no graph"),
        (onnx.ModelProto(ir_version=8).SerializeToString(), "holds no graph"),
    ],
)
def test_bytes_that_are_no_model(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    file_refused(path, ModelError, sentence)


@pytest.mark.parametrize("depth", [33, 100, 1000])
def test_bodies_nested_too_deep(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "deep.onnx"
    path.write_bytes(_nested(depth))
    file_refused(path, ModelError, "nests its bodies too deep")


def test_bodies_nested_deep_enough(tmp_path: Path) -> None:
    path = tmp_path / "deep.onnx"
    path.write_bytes(_nested(20))
    assert open_onnx(path).graph.node[0].op_type == "If"


def _nested(depth: int) -> bytes:
    """Return `depth` nested branches as bytes, since protobuf cannot nest so deep."""
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]).SerializeToString()
    leaf = helper.make_node("Identity", ["x"], ["y"]).SerializeToString()
    name = _field(2, b"g")
    inner = _field(1, leaf) + name + _field(12, value)
    flat = inner
    for _ in range(depth):
        branches = [
            _field(5, _field(1, word) + _field(6, graph) + b"\xa0\x01\x05")
            for word, graph in ((b"then_branch", inner), (b"else_branch", flat))
        ]
        node = _field(1, b"c") + _field(2, b"y") + _field(4, b"If") + b"".join(branches)
        inner = _field(1, node) + name + _field(12, value)
    inputs = (
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
    )
    graph = inner + b"".join(_field(11, v.SerializeToString()) for v in inputs)
    return b"\x08\x08" + _field(7, graph) + _field(8, _field(1, b"") + b"\x10\x11")


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = b""
    while number > 127:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])


# opsets and operators


def test_opsets() -> None:
    proto = plain("y = Abs(x)")
    del proto.opset_import[:]
    refused(proto, ModelError, "names no opset", "$.opset_import")
    proto.opset_import.add(domain="", version=99)
    refused(proto, UnsupportedError, "speaks opset 99")
    proto.opset_import[0].version = -3
    refused(proto, ModelError, "there is no opset -3")
    proto.opset_import[0].version = 17
    proto.opset_import.add(domain="ai.onnx", version=18)
    refused(proto, ModelError, "'ai.onnx' has two opsets")


def test_unknown_operators() -> None:
    refused(plain("y = Softmix(x)"), UnsupportedError, "no operator 'Softmix'", "['Softmix_0']")
    refused(plain("y = Gelu(x)"), UnsupportedError, "no operator 'Gelu' in opset 17")
    refused(plain("[me] y = far.Op(x)"), UnsupportedError, "domain 'far'", "$.graph.node['me']")
    two = PLAIN.replace('"" : 17', '"" : 17, "far" : 1')
    refused(plain("y = far.Op(x)", two), UnsupportedError, "belongs to the domain 'far'")


def test_functions_that_call_themselves() -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float x) => (float y) '
        '{ y = own.A(x) } <opset_import: ["" : 17, "own" : 1], domain: "own"> A (a) => (b) '
        '{ b = own.B(a) } <opset_import: ["" : 17, "own" : 1], domain: "own"> B (a) => (b) '
        "{ b = own.A(a) }"
    )
    refused(parser.parse_model(text), CycleError, "functions of the file call each other")


def test_functions_of_exponential_size_are_refused() -> None:
    head = '<opset_import: ["" : 17, "own" : 1], domain: "own">'
    text = '<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float x) => (float y) '
    text += "{ y = own.F40(x) } " + f"{head} F0 (a) => (b) {{ b = Neg(a) }}"
    for k in range(40):
        text += f"{head} F{k + 1} (a) => (b) {{ c = own.F{k}(a) b = own.F{k}(c) }}"
    refused(parser.parse_model(text), UnsupportedError, "written out has more than")


# names


@pytest.mark.parametrize(
    ("nodes", "kind", "sentence"),
    [
        ("[a] t = Add(x, u) [b] u = Neg(t) y = Abs(u)", CycleError, "circle: 'a' -> 'b'"),
        ("y = Add(x, nowhere)", ScopeError, "reads 'nowhere', which nothing makes"),
        ("y = Abs(x) y = Neg(x)", ScopeError, "'y' is made twice"),
        ("x = Abs(x) y = Neg(x)", ScopeError, "'x' is made twice"),
        ("z = Abs(x)", ScopeError, "the output 'y' is made by no node"),
    ],
)
def test_names(nodes: str, kind: type[LoopError], sentence: str) -> None:
    with pytest.raises(kind) as error:
        check_onnx(plain(nodes))
    text = str(error.value)
    assert sentence in text or (kind is CycleError and "circle: 'b' -> 'a'" in text)


def test_body_values_are_not_visible_outside() -> None:
    text = LOOP.replace("float[2] y) {", "float[2] y, float[2] w) {")
    refused(parser.parse_model(text), ScopeError, "the output 'w' is made by no node")


def test_nodes_in_any_order_are_put_in_order() -> None:
    proto = plain("y = Abs(t) t = Neg(x)")
    assert [node.op_type for node in check_onnx(proto).graph.node] == ["Neg", "Abs"]


def test_bodies_count_when_nodes_are_put_in_order() -> None:
    proto = parser.parse_model(LOOP.replace("Add(v, x)", "Add(v, late)"))
    proto.graph.node.append(helper.make_node("Neg", ["x"], ["late"]))
    kinds = [node.op_type for node in check_onnx(proto).graph.node]
    assert kinds.index("Neg") < kinds.index("Loop")


# counts, attributes, bodies


@pytest.mark.parametrize(
    ("nodes", "kind", "sentence"),
    [
        ("y = Add(x)", ArityError, "Add has 2 inputs, given 1"),
        ("y = Abs(x, x)", ArityError, "Abs has 1 inputs, given 2"),
        ("y = Concat <axis=0> ()", ArityError, "Concat has at least 1 inputs, given 0"),
        ("y = Add(, x)", ArityError, "input 'A' of Add must be given"),
        ("y = Concat(x, x)", ModelError, "Concat has no attribute 'axis'"),
        ("y = Abs <speed=3> (x)", ModelError, "Abs has no attribute 'speed'"),
        ("y = Concat <axis=1.5> (x, x)", ModelError, "'axis' of Concat must be int, not float"),
    ],
)
def test_wrong_counts_and_attributes_are_refused(
    nodes: str, kind: type[LoopError], sentence: str
) -> None:
    refused(plain(nodes), kind, sentence, "$.graph.node['")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("float[2] v) =>", "float[2] v, float[2] z) =>", "body of 3 inputs"),
        ("(n, c, x)", "(n, c)", "body of 2 inputs"),
        ("(bool go_on, float[2] w, float[2] r)", "(bool go_on)", "at least 2 outputs"),
        ("y, rows =", "y =", "2 outputs (1 carried values and 1 recorded ones"),
        ("y, rows =", "y, rows, more =", "2 outputs (1 carried values and 1 recorded ones"),
    ],
)
def test_loops_whose_counts_do_not_fit(old: str, new: str, sentence: str) -> None:
    refused(parser.parse_model(LOOP.replace(old, new)), ArityError, sentence, "['Loop_1']")


def test_a_loop_without_a_body() -> None:
    proto = parser.parse_model(LOOP)
    del proto.graph.node[1].attribute[:]
    refused(proto, ModelError, "Loop has no body 'body'")
    proto.graph.node[1].attribute.add(name="body", type=onnx.AttributeProto.GRAPH)
    refused(proto, ModelError, "holds no graph")


def test_branches_and_scans_whose_counts_do_not_fit() -> None:
    head = PLAIN.replace("(float[2] x)", "(bool c, float[2] x)")
    branch = "g () => (float[2] t) { t = Neg(x) }"
    two = "g () => (float[2] t, float[2] u) { t = Neg(x) u = Abs(x) }"
    nodes = f"y = If (c) <then_branch = {branch}, else_branch = {two}>"
    refused(plain(nodes, head), ArityError, "as many results in else_branch")
    branch_with_input = "g (float a) => (float t) { t = Neg(a) }"
    nodes = f"y = If (c) <then_branch = {branch_with_input}, else_branch = {branch}>"
    refused(plain(nodes, head), ArityError, "a branch has no inputs, given 1")
    body = "b (float a) => (float t) { t = Neg(a) }"
    refused(
        plain(f"y = Scan (x) <num_scan_inputs = 3, body = {body}>"), ArityError, "num_scan_inputs"
    )
    refused(plain(f"y = Scan (x, x) <num_scan_inputs = 2, body = {body}>"), ArityError, "2 inputs")


# tensors


def with_tensor(change: Callable[[TensorProto], None]) -> onnx.ModelProto:
    proto = plain("y = Add(x, w)")
    tensor = numpy_helper.from_array(np.ones(2, np.float32), "w")
    change(tensor)
    proto.graph.initializer.append(tensor)
    return proto


def _dims(*dims: int) -> Callable[[TensorProto], None]:
    def change(tensor: TensorProto) -> None:
        tensor.dims[:] = dims

    return change


@pytest.mark.parametrize(
    ("change", "kind", "sentence"),
    [
        (_dims(3), ModelError, "float[3], which is 12 bytes, but the file has 8 bytes"),
        (_dims(50_000, 50_000), ModelError, "which is 10000000000 bytes"),
        (_dims(2**62, 2**62), ModelError, "but the file has 8 bytes"),
        (_dims(-2), ModelError, "negative extent"),
        (lambda t: setattr(t, "data_type", 17), UnsupportedError, "element type float8e4m3fn"),
        (lambda t: setattr(t, "data_type", 22), UnsupportedError, "element type int4"),
        (lambda t: setattr(t, "data_type", 0), ModelError, "element type number 0"),
        (lambda t: setattr(t, "data_type", 12345), ModelError, "element type number 12345"),
        (lambda t: setattr(t, "data_type", 8), ModelError, "raw data"),
    ],
)
def test_tensors(
    change: Callable[[TensorProto], None], kind: type[LoopError], sentence: str
) -> None:
    refused(with_tensor(change), kind, sentence, "initializer['w']")


def test_tensors_in_constants_of_bodies() -> None:
    proto = parser.parse_model(LOOP.replace("Identity(v)", "Constant <value = float[2] {1, 2}> ()"))
    body = proto.graph.node[1].attribute[0].g
    body.node[2].attribute[0].t.dims[:] = [7]
    refused(proto, ModelError, "float[7]", "$.graph.node['Loop_1'].body.node['Constant_2'].value")


def test_types_of_values() -> None:
    proto = plain("y = Abs(x)")
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT8E5M2
    refused(proto, UnsupportedError, "'x' has element type float8e5m2", "$.graph.input['x']")
    proto = plain("y = Abs(x)")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -5
    refused(proto, ModelError, "negative extent")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1  # an unknown extent
    dim = check_onnx(proto).graph.input[0].type.tensor_type.shape.dim[0]
    assert dim.WhichOneof("value") is None


# data files


def external(folder: Path, location: str, **more: int) -> Path:
    def outside(tensor: TensorProto) -> None:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **more}.items():
            tensor.external_data.add(key=key, value=str(value))

    path = folder / "model.onnx"
    path.write_bytes(with_tensor(outside).SerializeToString())
    return path


def test_data_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"1234" + np.array([5, 6], np.float32).tobytes())
    proto = open_onnx(external(tmp_path, "w.bin", offset=4, length=8))
    assert numpy_helper.to_array(proto.graph.initializer[0]).tolist() == [5, 6]


@pytest.mark.parametrize(
    ("location", "more", "sentence"),
    [
        ("none.bin", {}, "there is no such file"),
        ("", {}, "does not say in which file"),
        ("/etc/hostname", {}, "outside the folder of the model"),
        ("../w.bin", {}, "outside the folder of the model"),
        ("a/../../w.bin", {}, "outside the folder of the model"),
        ("C:\\w.bin", {}, "outside the folder of the model"),
        ("..\\w.bin", {}, "outside the folder of the model"),
        ("link.bin", {}, "outside the folder of the model"),
        ("w.bin", {"offset": 4}, "should be bytes 4 to 12 of 'w.bin', but that file has 8"),
        ("w.bin", {"offset": -4}, "is not a whole number"),
        ("w.bin", {"length": 4}, "but its data is said to have 4 bytes"),
        ("w.bin", {"length": 10**30}, "is not a whole number"),
    ],
)
def test_data_files(tmp_path: Path, location: str, more: dict[str, int], sentence: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for file in (tmp_path / "w.bin", folder / "w.bin"):
        file.write_bytes(np.ones(2, np.float32).tobytes())
    os.symlink(tmp_path / "w.bin", folder / "link.bin")
    file_refused(external(folder, location, **more), ModelError, sentence)


def test_more_data_than_a_model_can_hold(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "w.bin").write_bytes(np.ones(2, np.float32).tobytes())
    monkeypatch.setattr(onnx_file, "MAX_FILE_BYTES", 1000)
    path = external(tmp_path, "w.bin")
    assert path.stat().st_size < 1000
    open_onnx(path)
    (tmp_path / "w.bin").write_bytes(bytes(2000))
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        tensor.dims[:] = [500]
    path.write_bytes(proto.SerializeToString())
    file_refused(path, UnsupportedError, "more than 2 GB of data")


def test_a_model_in_memory_that_cannot_be_copied(monkeypatch: Any) -> None:
    """Check a model whose copy raises EncodeError, as protobuf does for more than 2 GB."""

    class TooLarge:
        def CopyFrom(self, _: Any) -> None:
            raise EncodeError("Failed to serialize proto")

    proto = with_tensor(lambda tensor: None)
    monkeypatch.setattr(onnx, "ModelProto", TooLarge)
    refused(proto, UnsupportedError, "more than 2 GB of data")


def test_data_files_need_a_folder(tmp_path: Path) -> None:
    proto = onnx.load(external(tmp_path, "w.bin"), load_external_data=False)
    refused(proto, ModelError, "lies in another file")


# files that must open, and random bytes


@pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not beside the checkout")
def test_all_shared_models_that_run_open() -> None:
    for path in sorted(CASES.glob("*/*.onnx")):
        case = json.loads(path.with_suffix(".json").read_text())
        fails = all("error" in run.get("expected", {}) for run in case.get("runs", [{}]))
        try:
            open_onnx(path)
        except LoopError:
            assert fails, path.name


def test_damaged_bytes_give_outputs_or_one_clear_error(tmp_path: Path) -> None:
    dice = random.Random(4)
    sound = parser.parse_model(LOOP).SerializeToString()
    path = tmp_path / "model.onnx"
    for _ in range(300):
        content = bytearray(sound)
        for _ in range(dice.randint(1, 4)):
            content[dice.randrange(len(content))] = dice.randrange(256)
        path.write_bytes(content)
        with contextlib.suppress(LoopError):
            convert_to_package_opset(open_onnx(path))
