"""Import of an exported file restores its MDF model, whose export is the same file again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import mdf_loop
from mdf_loop.document.content import content_of
from mdf_loop.document.tensors import array_parameter
from mdf_loop.importing import origin
from mdf_loop.importing.opening import open_document
from mdf_loop.importing.origin import ARRAYS_KEY, DIGEST_KEY, MODEL_KEY, STORED_KEY, origin_of

ROOT = Path(__file__).parents[2]
MODELS = sorted((ROOT / "examples").glob("*/*.yaml")) + sorted(
    (ROOT / "mdf_loop/demo").glob("*.y*ml")
)


def export(source: Any) -> onnx.ModelProto:
    proto = mdf_loop.compile(source, device="cpu", max_iterations=5).to_onnx()
    return onnx.ModelProto.FromString(proto.SerializeToString())


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_export_after_import_gives_the_same_file(path: Path) -> None:
    proto = export(path)
    model = mdf_loop.from_onnx(proto)
    written = content_of(open_document(path))
    assert str(content_of(open_document(model))) == str(written)
    assert export(model).SerializeToString(deterministic=True) == proto.SerializeToString(
        deterministic=True
    )


def model_with(**parameters: Any) -> dict[str, Any]:
    """Return a model that outputs every parameter unchanged, with array dtypes in the metadata."""
    node = {
        "parameters": {name: typed_if_array(value) for name, value in parameters.items()},
        "output_ports": {f"{name}_out": {"value": name} for name in parameters},
    }
    return {"m": {"graphs": {"g": {"nodes": {"A": node}}}}}


def typed_if_array(value: Any) -> Any:
    return array_parameter(value) if isinstance(value, np.ndarray) else {"value": value}


def large(n: int) -> dict[str, Any]:
    model = model_with(w=np.arange(n, dtype=np.float32))
    model["m"]["graphs"]["g"]["nodes"]["A"]["output_ports"] = {"y": {"value": "w * 2"}}
    return model


def entries_of(proto: onnx.ModelProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in proto.metadata_props}


def values_of(model: Any) -> dict[str, Any]:
    return {parameter.id: parameter.value for parameter in model.graphs[0].nodes[0].parameters}


# --- weights are stored once ----------------------------------------------------------------------

RANDOM = np.random.default_rng(1).standard_normal((100, 100))
NANS = np.array([0x7FF8000000000001, 0xFFF8000000000000, 1 << 63], np.uint64).view(np.float64)
TEXTS = np.array([["a", "b\0"], ["\u00e9\u4e2d", ""]], object)
ARRAYS_OF_ALL_KINDS = {
    "float64": RANDOM,
    "float32": RANDOM.astype(np.float32),
    "float16": RANDOM.astype(np.float16),
    "bfloat16": RANDOM.astype(ml_dtypes.bfloat16),
    "int64": np.arange(-50, 50),
    "uint8": np.arange(100, dtype=np.uint8),
    "bool": RANDOM > 0,
    "text": TEXTS,
    "texts": np.resize(TEXTS, 100),
    "nans": NANS,
    "nans32": np.array([0x7FC00001, 0xFFC00000, 1 << 31], np.uint32).view(np.float32),
    "scalar": np.array(-0.0),
    "empty": np.zeros((3, 0), np.int32),
    "turned": RANDOM.T,
}


@pytest.mark.parametrize("array", ARRAYS_OF_ALL_KINDS.values(), ids=ARRAYS_OF_ALL_KINDS)
def test_an_array_comes_back_with_every_bit(array: Any) -> None:
    proto = export(model_with(w=array))
    w = values_of(mdf_loop.from_onnx(proto))["w"]
    assert (w.dtype, w.shape) == (array.dtype, array.shape)
    assert list(w.flat) == list(array.flat) if array.dtype == object else True
    assert array.dtype == object or w.tobytes() == array.tobytes()
    assert w.flags.writeable
    assert STORED_KEY not in entries_of(proto)  # the origin refers to the initializer


LISTS = {
    "floats": [-0.0, float("nan"), *range(1, 100)],
    "whole": list(range(100)),
    "truth": [True, False] * 50,
    "rows": [[0.5 * k, -0.0] for k in range(50)],
    "short": [1.0, 2.0],
    "mixed": [1, 2.0, *[0.5] * 100],
}
LISTS["floats"] = [float(number) for number in LISTS["floats"]]


@pytest.mark.parametrize("values", LISTS.values(), ids=LISTS)
def test_a_list_of_numbers_comes_back_as_that_list(values: list[Any]) -> None:
    w = values_of(mdf_loop.from_onnx(export(model_with(w=values))))["w"]
    assert repr(w) == repr(values)


@pytest.mark.parametrize("word", ["floats", "whole", "truth", "rows"])
def test_long_lists_of_numbers_are_not_stored_again(word: str) -> None:
    entries = entries_of(export(model_with(w=LISTS[word])))
    assert json.loads(entries[MODEL_KEY])["m"]["graphs"]["g"]["nodes"]["A"]["parameters"]["w"] == {
        "value": None
    }
    assert [listed for _, _, listed in json.loads(entries[ARRAYS_KEY])] == [True]
    assert STORED_KEY not in entries


@pytest.mark.parametrize("as_list", [False, True])
def test_weights_are_stored_once(as_list: bool) -> None:
    rng = np.random.default_rng(2)
    weights = {f"w{k}": rng.standard_normal((150, 150)) for k in range(4)}
    model = model_with(**{k: w.tolist() if as_list else w for k, w in weights.items()})
    compiled = mdf_loop.compile(model, device="cpu")
    with_origin = len(compiled.to_onnx().SerializeToString())
    assert with_origin <= 1.05 * len(compiled.to_onnx(origin=False).SerializeToString())


def test_without_its_origin_a_file_is_read_from_its_graph() -> None:
    proto = mdf_loop.compile(large(100), device="cpu").to_onnx(origin=False)
    assert not any(entry.key.startswith("mdf_loop") for entry in proto.metadata_props)
    assert origin_of(proto) is None


def test_equal_arrays_are_one_initializer() -> None:
    proto = export(model_with(v=RANDOM, w=RANDOM.copy()))
    assert len(proto.graph.initializer) == 1
    parameters = values_of(mdf_loop.from_onnx(proto))
    assert parameters["v"].tobytes() == parameters["w"].tobytes() == RANDOM.tobytes()
    parameters["v"][:] = 0  # the arrays share no memory
    assert parameters["w"].tobytes() == RANDOM.tobytes()


# --- what no initializer has ------------------------------------------------------------------------


def of_passes(value: str, **parameters: Any) -> dict[str, Any]:
    model = model_with(**parameters)
    node = model["m"]["graphs"]["g"]["nodes"]["A"]
    node["input_ports"] = {"x": {"shape": [100]}}
    node["output_ports"] = {"y": {"value": value}}
    return model


CHANGED = {
    "transposed": of_passes("w @ x", w=RANDOM),
    "cast": of_passes("w * x", w=RANDOM.astype(np.float32)),
    "folded": of_passes("(w + 1) * x", w=RANDOM),
    "dropped": of_passes("x", w=RANDOM),
    "another zero": of_passes("x + w * v", v=np.zeros(100), w=-np.zeros(100)),
}


@pytest.mark.parametrize("model", CHANGED.values(), ids=CHANGED)
def test_arrays_changed_by_a_pass_are_restored(model: dict[str, Any]) -> None:
    proto = export(model)
    back = mdf_loop.from_onnx(proto)
    expected = values_of(open_document(model).model)
    for name, parameter in values_of(back).items():
        assert parameter.dtype == expected[name].dtype
        assert parameter.tobytes() == expected[name].tobytes()
    assert export(back).SerializeToString() == proto.SerializeToString()


def test_transposed_arrays_are_not_stored_twice() -> None:
    """Check the transposed matrix of a matrix-vector product.

    `passes.simplify.fast_matrix_vector_products` transposes the matrix.
    """
    for weights in (RANDOM, RANDOM.tolist()):
        proto = export(of_passes("w @ x", w=weights))
        entries = entries_of(proto)
        (name,) = (tensor.name for tensor in proto.graph.initializer)
        assert [place for _, place, _ in json.loads(entries[ARRAYS_KEY])] == [{"turned": name}]
        assert STORED_KEY not in entries
        w = values_of(mdf_loop.from_onnx(proto))["w"]
        assert np.asarray(w).tobytes() == RANDOM.tobytes()


def test_arrays_without_initializer_are_stored_once() -> None:
    proto = export(of_passes("(w + 1) @ x", v=RANDOM, w=RANDOM.tolist()))
    assert [place for _, place, _ in json.loads(entries_of(proto)[ARRAYS_KEY])] == [0, 0]
    assert len(entries_of(proto)[STORED_KEY]) < 1.4 * RANDOM.nbytes
    parameters = values_of(mdf_loop.from_onnx(proto))
    assert parameters["v"].tobytes() == RANDOM.tobytes()
    assert parameters["w"] == RANDOM.tolist()


def test_arrays_of_every_part_come_back() -> None:
    def row(*numbers: float) -> dict[str, Any]:
        return {"dtype": "float32", "value": list(numbers)}

    node = {
        "input_ports": {"x": {"default_value": row(1, 2)}},
        "parameters": {
            "p": {"value": "p + x", "default_initial_value": row(3, 4)},
            "q": {"value": [0.0, 0.0], "conditions": {"c": {"test": "r > 1", "value": row(5, 6)}}},
            "r": {"value": 2.0},
        },
        "functions": {"f": {"function": "onnx::Mul", "args": {"A": "p", "B": row(7, 8)}}},
        "output_ports": {"y": {"value": "f + q"}},
    }
    weight = {"sender": "A", "sender_port": "y", "receiver": "B", "receiver_port": "x"}
    edge = {**weight, "parameters": {"weight": row(9, 10)}}
    last = {"input_ports": {"x": {}}, "output_ports": {"z": {"value": "x"}}}
    graph = {"nodes": {"A": node, "B": last}, "edges": {"e": edge}}
    graph_back = mdf_loop.from_onnx(export({"m": {"graphs": {"g": graph}}})).graphs[0]
    back = graph_back.nodes[0]
    p, q, _ = back.parameters
    arrays = [
        *(back.input_ports[0].default_value, p.default_initial_value, q.conditions[0].value),
        *(back.functions[0].args["B"], graph_back.edges[0].parameters["weight"]),
    ]
    for k, array in enumerate(arrays):
        expected = np.array([2 * k + 1, 2 * k + 2], np.float32)
        np.testing.assert_array_equal(array, expected, strict=True)


# --- files that were changed --------------------------------------------------------------------------


def test_a_file_that_was_changed_is_read_from_its_graph() -> None:
    proto = export(large(3))
    assert origin_of(proto) is not None
    proto.graph.node.add(op_type="Neg", input=[proto.graph.output[0].name], output=["minus"])
    proto.graph.output.add(name="minus").type.CopyFrom(proto.graph.output[0].type)
    assert origin_of(proto) is None
    results = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu").run()
    np.testing.assert_array_equal(results["minus"], np.array([0, -2, -4], np.float32), strict=True)


def change_a_bit(proto: onnx.ModelProto) -> None:
    (tensor,) = (t for t in proto.graph.initializer if len(t.raw_data) > 100)
    tensor.raw_data = bytes([tensor.raw_data[0] ^ 1]) + tensor.raw_data[1:]


def rename(proto: onnx.ModelProto) -> None:
    proto.graph.name += "_2"


def speak_another_opset(proto: onnx.ModelProto) -> None:
    proto.opset_import[0].version += 1


@pytest.mark.parametrize("change", [change_a_bit, rename, speak_another_opset])
def test_every_change_of_the_graph_counts(change: Any) -> None:
    proto = export(large(100))
    change(proto)
    assert origin_of(proto) is None


def test_external_data_keep_the_origin(tmp_path: Path) -> None:
    model = large(1000)
    onnx.save(export(model), tmp_path / "m.onnx", save_as_external_data=True, location="m.weights")
    assert (tmp_path / "m.weights").is_file()
    for source in (tmp_path / "m.onnx", onnx.load(tmp_path / "m.onnx")):
        (node,) = mdf_loop.from_onnx(source).graphs[0].nodes
        assert node.output_ports[0].value == "w * 2"


def with_entry(key: str, text: str, *, signed: bool) -> onnx.ModelProto:
    """Return a file with one changed metadata entry and, with `signed`, a matching digest."""
    proto = export(of_passes("w @ x", w=RANDOM, v=RANDOM + 1))
    entries = {**entries_of(proto), key: text}
    if signed:
        metadata = {name: entries[name] for name in (MODEL_KEY, ARRAYS_KEY, STORED_KEY)}
        entries[DIGEST_KEY] = origin._model_digest(
            proto, origin._initializer_digests(proto.graph), metadata
        )
    del proto.metadata_props[:]
    for name, value in entries.items():
        proto.metadata_props.add(key=name, value=value)
    return proto


BROKEN = [
    *((MODEL_KEY, text) for text in ("no json", "", "{}", "[" * 10_000, '{"m": {}}')),
    *((ARRAYS_KEY, text) for text in ("", "3", "[3]", '[[["m"], 7, false]]', "[[[], 0, false]]")),
    *((ARRAYS_KEY, f'[[["m", "graphs"{rest}, 0, false]]') for rest in (', "g", 3]', ', 0, "g"]')),
    *((STORED_KEY, text) for text in ("", "AAA", "AAAA", "CgA=", "no base64")),
]


@pytest.mark.parametrize(("key", "text"), BROKEN)
def test_metadata_that_are_broken_are_read_from_the_graph(key: str, text: str) -> None:
    assert origin_of(with_entry(key, text, signed=False)) is None
    if (key, text) not in [(MODEL_KEY, '{"m": {}}'), (MODEL_KEY, "{}")]:
        assert origin_of(with_entry(key, text, signed=True)) is None
    model = mdf_loop.from_onnx(with_entry(key, text, signed=False))
    (row_sums,) = mdf_loop.compile(model, device="cpu").run({"x": np.ones(100)}).values()
    np.testing.assert_allclose(row_sums, RANDOM.sum(1), rtol=1e-12)


@pytest.mark.parametrize("text", ["[1, 2]", '{"m": 3}', '{"m": {"graphs": 3}}', '{"m": {}}'])
def test_an_invalid_document_is_one_clear_error(text: str) -> None:
    proto = export(large(3))
    del proto.metadata_props[:]
    proto.metadata_props.add(key=MODEL_KEY, value=text)
    digest = origin._model_digest(
        proto, origin._initializer_digests(proto.graph), {MODEL_KEY: text}
    )
    proto.metadata_props.add(key=DIGEST_KEY, value=digest)
    with pytest.raises(mdf_loop.LoopError):
        mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu")


def test_a_file_with_another_form_of_origin_is_read_from_its_graph() -> None:
    proto = export(large(3))
    del proto.metadata_props[:]
    for key, text in ((MODEL_KEY, "{}"), (ARRAYS_KEY, "UEsDBA=="), ("mdf_loop.graph", "0" * 64)):
        proto.metadata_props.add(key=key, value=text)
    assert origin_of(proto) is None
    assert len(mdf_loop.from_onnx(proto).graphs[0].nodes) > 1


def test_other_metadata_are_ignored() -> None:
    proto = export(large(3))
    proto.metadata_props.add(key="author", value="me")
    assert origin_of(proto) is not None
    del proto.metadata_props[:]
    proto.metadata_props.add(key="author", value="me")
    assert origin_of(proto) is None


def test_an_origin_beyond_the_file_limit_is_omitted(monkeypatch: Any) -> None:
    compiled = mdf_loop.compile(of_passes("w @ x", w=RANDOM, v=RANDOM + 1), device="cpu")
    alone = compiled.to_onnx(origin=False)
    monkeypatch.setattr(origin, "MAX_FILE_BYTES", alone.ByteSize() + RANDOM.nbytes)
    assert compiled.to_onnx() == alone


def test_a_file_that_computes_in_float32_is_read_from_its_graph() -> None:
    """Check that a float32 file does not restore its float64 model, which has other numbers."""
    node = {"input_ports": {"x": {"shape": [2]}}, "output_ports": {"y": {"value": "x / 3"}}}
    graph = {"g": {"nodes": {"A": node}}}
    proto = mdf_loop.compile(graph, device="cpu", precision="float32").to_onnx({"x": [1.0, 2.0]})
    assert origin_of(proto) is None
    (quotient,) = (
        mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu").run({"x": [1, 2]}).values()
    )
    np.testing.assert_array_equal(
        quotient, np.array([1, 2], np.float32) / np.float32(3), strict=True
    )
