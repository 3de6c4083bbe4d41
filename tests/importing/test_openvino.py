"""OpenVINO IRs convert to MDF models with the numbers of OpenVINO or of its specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from modeci_mdf.mdf import Model

import mdf_loop
from mdf_loop.errors import InputError
from mdf_loop.importing.openvino import read_ir
from tests.importing.ir_files import Net, Value, loop, plain_loop

HERE = Path(__file__).parent
MODELS = HERE / "openvino_models"
CASES = HERE.parents[2] / "shared" / "cases" / "openvino"

API_ONLY = ("iter_value_first",)
"""Asks for an iteration that the written file does not name; its document says the last."""


def array(tensor: dict[str, Any]) -> np.ndarray:
    return np.array(tensor["data"], tensor["dtype"]).reshape(tensor["shape"])


def graph_of(path: Path) -> dict[str, Any]:
    (model,) = read_ir(path).values()
    (graph,) = model["graphs"].values()
    return graph


def run(path: Path, *inputs: np.ndarray, **named: np.ndarray) -> list[np.ndarray]:
    """Return the outputs of the model for inputs in order or by name."""
    nodes = graph_of(path)["nodes"]
    names = [key for key, node in nodes.items() if not {"functions", "parameters"} & node.keys()]
    feeds = {**dict(zip(names, inputs, strict=False)), **named}
    compiled = mdf_loop.compile(Model.from_dict(read_ir(path)), device="cpu")
    return list(compiled.run(feeds).values())


def same(results: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for result, array in zip(results, expected, strict=True):
        assert (result.dtype, result.shape) == (array.dtype, array.shape)
        np.testing.assert_allclose(result, array, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.xml")), ids=lambda p: p.stem)
def test_a_model_equals_openvino(path: Path) -> None:
    case = json.loads(path.with_suffix(".json").read_text())
    for one in case["runs"]:
        results = run(path, *(array(tensor) for tensor in one["inputs"]))
        same(results, [array(tensor) for tensor in one["expected"]])


@pytest.mark.skipif(not CASES.exists(), reason="the stored cases are not here")
@pytest.mark.parametrize("path", sorted(CASES.glob("*.xml")), ids=lambda p: p.stem)
def test_a_stored_case_gives_the_expected_result(path: Path) -> None:
    if path.stem in API_ONLY:
        pytest.skip("the file does not hold what the case asks")
    case = json.loads(path.with_suffix(".json").read_text())
    for one in case["runs"]:
        inputs = {name: array(tensor) for name, tensor in one["inputs"].items()}
        if isinstance(one["expected"], dict):
            with pytest.raises(mdf_loop.LoopError):
                run(path, **inputs)
        else:
            same(run(path, **inputs), [array(tensor) for tensor in one["expected"]])


def test_the_imported_document(tmp_path: Path) -> None:
    _, _, path = plain_loop(tmp_path)
    graph = graph_of(path)
    assert list(graph["nodes"]) == ["x", "Loop_3"]
    assert graph["nodes"]["x"]["input_ports"] == {"x": {"type": "float32", "shape": [2]}}
    assert graph["metadata"]["outputs"] == {"Loop_3": "Loop_3.Loop_3"}
    (function,) = graph["nodes"]["Loop_3"]["functions"].values()
    args = function["args"]
    assert (function["function"], args["M"], args["cond"]) == ("onnx::Loop", 3, True)
    assert args["v_initial"] == ["x"]
    (body,) = args["body"].values()
    assert body["metadata"]["strict"] is True
    assert body["metadata"]["inputs"][2:] == ["v"]


# --- slices that OpenVINO's own plugin gets wrong, by the document ------------------------------


def digits(
    folder: Path, about: dict[str, int], part: tuple[int, ...], trip: int, kind: str = "Loop"
) -> Path:
    """Return the loop `acc = 10 acc + slice` over `x[2, 6]`, with the slices joined on axis 1."""
    net = Net()
    x = net.parameter("x", "float32", (2, 6))
    start = net.const(np.zeros(part, np.float32))
    body = Net("body", net)
    piece, acc = body.parameter("piece", "float32", part), body.parameter("acc", "float32", part)
    tens = body.layer("Multiply", [acc, body.const(10, "float32")], [("float32", part)])[0]
    total = body.layer("Add", [tens, piece], [("float32", part)])[0]
    out, rows = body.result(total), body.result(piece)
    inputs: list[Value] = [x, start]
    if kind == "Loop":
        inputs = [net.const(trip, "int32"), net.const([True]), x, start]
    first = len(inputs) - 2
    entries: list[tuple[str, dict[str, object]]] = [
        ("input", {"external_port_id": first, "internal_layer_id": piece.layer, **about}),
        ("input", {"external_port_id": first + 1, "internal_layer_id": acc.layer}),
        ("output", {"external_port_id": first + 2, "internal_layer_id": out}),
        (
            "output",
            {
                "external_port_id": first + 3,
                "internal_layer_id": rows,
                "axis": -1,
                "part_size": part[1],
                "stride": part[1],
            },
        ),
    ]
    if kind == "Loop":
        condition_result = body.result(body.const([True]))
        purpose = {"external_port_id": -1, "internal_layer_id": condition_result}
        entries.append(("output", {**purpose, "purpose": "execution_condition"}))
    types: list[tuple[str, tuple[object, ...]]] = [("float32", part), ("float32", (2, "?"))]
    for value in loop(net, body, inputs, types, entries, [(out, acc.layer)], kind):
        net.result(value)
    return net.save(folder)


X = np.arange(12, dtype=np.float32).reshape(2, 6)


@pytest.mark.parametrize(
    ("about", "begins", "size"),
    [
        ({"axis": 1}, (0, 1, 2, 3, 4, 5), 1),
        ({"axis": -1}, (0, 1, 2, 3, 4, 5), 1),
        ({"axis": 1, "start": 1, "end": 5}, (1, 2, 3, 4), 1),
        ({"axis": 1, "stride": 2}, (0, 2, 4), 1),
        ({"axis": 1, "stride": 1, "part_size": 2}, (0, 1, 2, 3, 4), 2),
        ({"axis": 1, "stride": 2, "part_size": 2}, (0, 2, 4), 2),
        ({"axis": 1, "stride": -1, "start": -1, "end": 0}, (5, 4, 3, 2, 1, 0), 1),
        ({"axis": 1, "stride": -1, "start": 4, "end": 1}, (3, 2, 1), 1),
        ({"axis": 1, "stride": -2, "part_size": 2, "start": -3, "end": 0}, (2, 0), 2),
        ({"axis": 1, "stride": 2, "part_size": 1, "start": 0, "end": -2}, (0, 2, 4), 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["Loop", "TensorIterator"])
def test_slices(
    tmp_path: Path, about: dict[str, int], begins: tuple[int, ...], size: int, kind: str
) -> None:
    pieces = [X[:, b : b + size] for b in begins]
    total = np.zeros((2, size), np.float32)
    for piece in pieces:
        total = 10 * total + piece
    outputs = run(digits(tmp_path, about, (2, size), -1, kind), X)
    same(outputs, [total, np.concatenate(pieces, axis=1)])


def test_fewer_iterations_than_slices(tmp_path: Path) -> None:
    same(run(digits(tmp_path, {"axis": 1}, (2, 1), 2), X)[1:], [X[:, :2]])


def test_no_iteration_gives_an_empty_join(tmp_path: Path) -> None:
    total, rows = run(digits(tmp_path, {"axis": 1}, (2, 1), 0), X)
    assert rows.shape == (2, 0)
    np.testing.assert_array_equal(total, np.zeros((2, 1)))


def test_more_iterations_than_slices_are_an_error(tmp_path: Path) -> None:
    path = digits(tmp_path, {"axis": 1}, (2, 1), 7)
    with pytest.raises(mdf_loop.LoopError, match="only 6"):
        run(path, X)


# --- the last row of a value that is not carried ------------------------------------------------


def last_square(folder: Path) -> Path:
    """Return a loop of M iterations `v = v + 1` with the square of v before the last iteration."""
    net = Net()
    count, x = net.parameter("M", "int64", ()), net.parameter("x", "float32", (2,))
    body = Net("body", net)
    v = body.parameter("v", "float32", (2,))
    square = body.layer("Multiply", [v, v], [("float32", (2,))])[0]
    more = body.layer("Add", [v, body.const(1, "float32")], [("float32", (2,))])[0]
    out, side, condition_result = (body.result(value) for value in (more, square, body.const(True)))
    condition = {"external_port_id": -1, "internal_layer_id": condition_result}
    entries: list[tuple[str, dict[str, object]]] = [
        ("input", {"external_port_id": 2, "internal_layer_id": v.layer}),
        ("output", {"external_port_id": 3, "internal_layer_id": side}),
        ("output", {**condition, "purpose": "execution_condition"}),
    ]
    types: list[tuple[str, tuple[object, ...]]] = [("float32", (2,))]
    layers = loop(net, body, [count, net.const(True), x], types, entries, [(out, v.layer)])
    net.result(layers[0])
    return net.save(folder)


def test_the_last_row(tmp_path: Path) -> None:
    outputs = run(last_square(tmp_path), M=np.array(3), x=np.array([0, 1], np.float32))
    same(outputs, [np.array([4, 9], np.float32)])


def test_no_iteration_has_no_last_row(tmp_path: Path) -> None:
    with pytest.raises(mdf_loop.LoopError, match=r"last|no iteration"):
        run(last_square(tmp_path), M=np.array(0), x=np.array([0, 1], np.float32))


def test_open_extents_are_symbols(tmp_path: Path) -> None:
    net = Net()
    x = net.parameter("x", "float32", ("?", "1..5", 3))
    net.result(net.layer("Abs", [x], [("float32", ("?", "?", 3))])[0])
    port = graph_of(net.save(tmp_path))["nodes"]["x"]["input_ports"]["x"]
    assert port["shape"] == [-1, -1, 3]
    assert port["metadata"]["dims"] == ["x_0", "x_1", 3]
    same(run(tmp_path / "m.xml", -np.ones((2, 4, 3), np.float32)), [np.ones((2, 4, 3), np.float32)])


def test_weights_of_half_precision_stay_half(tmp_path: Path) -> None:
    net = Net()
    x = net.parameter("x", "float32", (2,))
    half_value = net.const(np.array([1.5, 2.5], np.float16))
    widened = net.layer("Convert", [half_value], [("float32", (2,))], {"destination_type": "f32"})[
        0
    ]
    net.result(net.layer("Multiply", [x, widened], [("float32", (2,))])[0])
    stated = graph_of(net.save(tmp_path))["nodes"]["Const_1"]["parameters"]["value"]
    assert stated["metadata"]["dtype"] == "float16"
    same(run(tmp_path / "m.xml", np.ones(2, np.float32)), [np.array([1.5, 2.5], np.float32)])


def test_values_called_as_arguments_of_operators_do_not_leak(tmp_path: Path) -> None:
    """Check names such as min, max and axis, which are also inputs and attributes of ONNX operators."""
    net = Net()
    x = net.parameter("min", "float32", (3,))
    low = net.layer("Clamp", [x], [("float32", (3,))], {"min": "-1", "max": "1"}, name="axis")[0]
    net.result(net.layer("SoftMax", [low], [("float32", (3,))], {"axis": "0"}, name="max")[0])
    values = np.exp(np.array([-1, 0, 1], np.float32))
    expected = values / values.sum()
    same(run(net.save(tmp_path), np.array([-5, 0, 5], np.float32)), [expected])


@pytest.mark.parametrize("name", ["arg_0", "cond", "M", "recordings", "w"])
def test_a_body_may_call_its_parameters_as_it_likes(tmp_path: Path, name: str) -> None:
    net = Net()
    x = net.parameter("x", "float32", (2,))
    body = Net("body", net)
    v, w = body.parameter("v", "float32", (2,)), body.parameter(name, "float32", (2,))
    unread = body.parameter("m", "float32", (2,))
    out = body.result(body.layer("Add", [v, w], [("float32", (2,))])[0])
    condition_result = body.result(body.const(True))
    condition = {"external_port_id": -1, "internal_layer_id": condition_result}
    entries: list[tuple[str, dict[str, object]]] = [
        ("input", {"external_port_id": 2, "internal_layer_id": v.layer}),
        ("input", {"external_port_id": 3, "internal_layer_id": w.layer}),
        ("input", {"external_port_id": 3, "internal_layer_id": unread.layer}),
        ("output", {"external_port_id": 4, "internal_layer_id": out}),
        ("output", {**condition, "purpose": "execution_condition"}),
    ]
    types: list[tuple[str, tuple[object, ...]]] = [("float32", (2,))]
    inputs = [net.const(3), net.const(True), x, x]
    net.result(loop(net, body, inputs, types, entries, [(out, v.layer)])[0])
    same(run(net.save(tmp_path), np.array([1, 2], np.float32)), [np.array([4, 8], np.float32)])


def two_inputs(tmp_path: Path, *names: str) -> Path:
    """Return the network `first - second` whose input ports have additional names."""
    net = Net()
    values = []
    for layer, written in zip(("first", "second"), names, strict=True):
        values.append(net.parameter(layer, "float32", (2,)))
        net.last().find("output/port").set("names", written)
    net.result(net.layer("Subtract", values, [("float32", (2,))])[0])
    return net.save(tmp_path)


ONE, TWO = np.array([5, 7], np.float32), np.array([1, 2], np.float32)


@pytest.mark.parametrize(
    "input_names", [("x", "y"), ("first", "second"), ("input_0", "y"), ("first", "y")], ids="-".join
)
def test_an_input_is_given_by_each_of_its_names(
    tmp_path: Path, input_names: tuple[str, str]
) -> None:
    compiled = mdf_loop.compile(two_inputs(tmp_path, "x,input_0", "y"), device="cpu")
    (difference,) = compiled.run(dict(zip(input_names, (ONE, TWO), strict=True))).values()
    np.testing.assert_array_equal(difference, ONE - TWO)


def test_a_name_shared_by_two_inputs_is_refused(tmp_path: Path) -> None:
    compiled = mdf_loop.compile(two_inputs(tmp_path, "x,input", "y,input"), device="cpu")
    with pytest.raises(InputError, match="the model has no input 'input'"):
        compiled.run({"input": ONE, "y": TWO})
    with pytest.raises(InputError, match=r"the model has no input 'y\.first'"):
        compiled.run({"y.first": ONE})


def test_two_names_of_one_input_are_refused(tmp_path: Path) -> None:
    compiled = mdf_loop.compile(two_inputs(tmp_path, "x,input_0", "y"), device="cpu")
    with pytest.raises(InputError, match="'x' and 'first' mean the same input"):
        compiled.run({"x": ONE, "first": TWO, "y": TWO})
