"""`mdf-loop import`: the written model runs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import yaml

POWERS = """
<ir_version: 8, opset_import: ["" : 17]>
powers (float x, int64 n) => (float y, float[n] rows) {
    y, rows = Loop (n, "", x) <body = step (int64 i, bool go, float v) => (bool g, float w, float r) {
        g = Identity(go)  w = Mul(v, x)  r = Identity(v) }>
}
"""


@pytest.fixture
def powers(tmp_path):
    path = tmp_path / "powers.onnx"
    onnx.save(onnx.parser.parse_model(POWERS), path)
    return path


def test_the_written_model_runs(cli, powers, tmp_path):
    target = tmp_path / "powers.yaml"
    outcome = cli("import", powers)
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        f"wrote {target}",
        "  input x",
        "  input n",
        "  output y",
        "  output rows",
    ]
    outputs = cli("run", target, "--input", "x=2", "--input", "n=3", "--json").json["outputs"]
    assert outputs["y"] == {"dtype": "float32", "shape": [], "data": 16.0}
    assert outputs["rows"] == {"dtype": "float32", "shape": [3], "data": [2.0, 4.0, 8.0]}


def test_captures_are_ports_of_the_node(cli, powers, tmp_path):
    target = tmp_path / "m.yaml"
    cli("import", powers, "-o", target)
    graph = yaml.safe_load(target.read_text())["powers"]["graphs"]["powers"]
    (loop,) = (node for name, node in graph["nodes"].items() if name.startswith("Loop"))
    assert list(loop["input_ports"]) == ["n", "x"]
    body = loop["functions"]["loop"]["args"]["body"]["step"]
    assert body["metadata"]["inputs"] == ["i", "go", "v"]
    assert body["metadata"]["outputs"] == ["g", "w", "r"]


def test_commands_open_onnx_files(cli, powers, tmp_path):
    outputs = cli("run", powers, "--input", "x=2", "--input", "n=3", "--json").json["outputs"]
    assert outputs["y"]["data"] == 16.0
    assert cli("draw", powers, "-o", tmp_path / "powers.svg").code == 0
    assert cli("check", powers).code == 0
    assert "captured" in cli("explain", powers).out or "x" in cli("explain", powers).out


def test_large_tensors_are_in_a_side_file(cli, tmp_path):
    weights = np.arange(10_000, dtype=np.float64).reshape(100, 100)
    model = onnx.parser.parse_model(
        'g <ir_version: 8, opset_import: ["" : 17]> (double[100] x) => (double[100] y)'
        " { y = MatMul(w, x) }".replace("g <", "<", 1).replace("17]>", "17]> g", 1)
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    outcome = cli("import", tmp_path / "m.onnx")
    assert f"wrote {tmp_path / 'm.npz'}" in outcome.out
    (stored,) = np.load(tmp_path / "m.npz").values()  # the weights are stored once
    np.testing.assert_array_equal(stored, weights)
    content = cli("run", tmp_path / "m.yaml", "--input", f"x={[1.0] * 100}", "--json").json
    assert content["outputs"]["y"]["data"] == weights.sum(axis=1).tolist()


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("m.txt", b"x", "cannot import 'm.txt'"),
        ("m.onnx", b"no protobuf", "m.onnx"),
        ("m.xml", b"no xml", "m.xml"),
        ("missing.onnx", None, "there is no file"),
    ],
)
def test_invalid_files_have_one_clear_error(cli, tmp_path, name, content, match):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    outcome = cli("import", tmp_path / name)
    assert outcome.code == 2
    assert match in outcome.err
    assert "Traceback" not in outcome.err


def test_an_invalid_model_leaves_no_file(cli, tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"no protobuf")
    cli("import", tmp_path / "m.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
