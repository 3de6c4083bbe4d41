"""ONNX's operators that draw random numbers: from streams, like the functions of expressions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs, parser

import mdf_loop
from mdf_loop import streams
from mdf_loop.errors import OperandError
from mdf_loop.ir import OPSET
from mdf_loop.ops.onnx_schema import operator_names, schema_at
from mdf_loop.ops.registry import rows

RANDOM_OPS = {row.name for row in rows() if row.is_random} - {"Draw"}

ARGUMENTS: dict[str, dict[str, Any]] = {
    "Bernoulli": {"input": "x"},
    "Dropout": {"data": "x", "ratio": 0.5, "training_mode": True},
    "Multinomial": {"input": "x"},
    "RandomNormal": {"shape": [1, 3]},
    "RandomNormalLike": {"input": "x"},
    "RandomUniform": {"shape": [1, 3]},
    "RandomUniformLike": {"input": "x"},
}


def drawing(op_type: str, **arguments: Any) -> Any:
    """Return a compiled model with one function that draws."""
    node = {
        "input_ports": {"x": {"default_value": [[0.2, 0.3, 0.5]]}},
        "functions": {
            "f": {"function": f"onnx::{op_type}", "args": arguments or ARGUMENTS[op_type]}
        },
        "output_ports": {"y": {"value": "f"}},
    }
    return mdf_loop.compile({"g": {"nodes": {"A": node}}}, precision="float32")


def uniform(site: str, count: int = 3, seed: int = 0) -> np.ndarray:
    """Return the first uniform numbers of a site."""
    key = streams.keys(seed, streams.site(site))
    return streams.uniform(streams.squares(np.arange(count), key))


def test_the_list_has_all_random_operators_of_onnx() -> None:
    schemas = [schema_at(name, OPSET) for name in operator_names()]
    with_graphs = {
        s.name
        for s in schemas
        if any(a.type == defs.OpSchema.AttrType.GRAPH for a in s.attributes.values())
    }
    non_deterministic = {s.name for s in schemas if s.non_deterministic}
    exceptions = with_graphs | {"AffineGrid"}  # which owns a graph in ONNX's definition of it
    assert non_deterministic - exceptions == RANDOM_OPS
    assert ARGUMENTS.keys() == RANDOM_OPS


@pytest.mark.parametrize("op_type", sorted(RANDOM_OPS))
def test_each_operator_draws_over_time_in_trials_and_with_a_seed(op_type: str) -> None:
    compiled = drawing(op_type)
    numbers = compiled.run(steps=20, trials=5)["y"]
    assert (
        len(np.unique(numbers.reshape(100, -1), axis=0))
        > (3 if op_type == "Multinomial" else 7) - 1
    )
    np.testing.assert_array_equal(numbers[0], compiled.run(steps=20)["y"])
    np.testing.assert_array_equal(numbers[:, 0], compiled.run(trials=5)["y"])
    first_part = compiled.run(steps=7)
    np.testing.assert_array_equal(
        compiled.run(steps=13, state=first_part.state)["y"], numbers[0, 7:]
    )
    assert not np.array_equal(compiled.run(steps=20, seed=1)["y"], numbers[0])
    np.testing.assert_array_equal(compiled.run(steps=20, engine="interpreter")["y"], numbers[0])


SITE = "g.A.f#0"


def test_draws_have_their_range_and_mean() -> None:
    u = uniform(SITE)
    numbers = drawing("RandomUniform", shape=[3], low=-1.0, high=3.0, dtype=11).run()["y"]
    np.testing.assert_array_equal(numbers, -1.0 + 4.0 * u)
    numbers = drawing("RandomNormal", shape=[3], mean=2.0, scale=0.5, dtype=11).run()["y"]
    np.testing.assert_array_equal(numbers, 2.0 + 0.5 * streams.normal(u))
    narrow = drawing("RandomNormal", shape=[3], mean=2.0, scale=0.5).run()["y"]
    np.testing.assert_array_equal(narrow, numbers.astype(np.float32))


def test_bernoulli_and_multinomial_draws() -> None:
    u = uniform(SITE)
    hits = drawing("Bernoulli", input="x").run()["y"]
    np.testing.assert_array_equal(hits, [(u < np.float32([0.2, 0.3, 0.5])).astype(np.float32)])
    weights = np.exp([0.2, 0.3, 0.5])
    drawn = drawing("Multinomial", input="x", sample_size=200).run()["y"]
    chosen = np.searchsorted(np.cumsum(weights / weights.sum()), uniform(SITE, 200))
    np.testing.assert_array_equal(drawn, [chosen])
    assert drawn.dtype == np.int32


@pytest.mark.parametrize("logits", ["x[0, 0]", "x[0]", "numpy.stack([x, x])"])
def test_multinomial_refuses_logits_without_two_axes(logits: str) -> None:
    with pytest.raises(OperandError, match=r"needs logits of two axes.*not float"):
        drawing("Multinomial", input=logits).run()


def test_a_seed_of_the_model_is_part_of_the_site() -> None:
    functions = {
        name: {"function": "onnx::RandomNormal", "args": {"shape": [3], "seed": -1.0, "dtype": 11}}
        for name in ("f", "g")
    }
    node = {"functions": functions, "output_ports": {"f": {"value": "f"}, "g": {"value": "g"}}}
    results = mdf_loop.compile({"g": {"nodes": {"A": node}}}).run()
    assert not np.intersect1d(results["f"], results["g"]).size
    functions["f"]["args"]["seed"] = 2.0
    other = mdf_loop.compile({"g": {"nodes": {"A": node}}}).run()
    assert not np.intersect1d(results["f"], other["f"]).size
    np.testing.assert_array_equal(results["g"], other["g"])


def test_the_number_of_draws_must_be_known() -> None:
    node = {
        "input_ports": {"x": {"default_value": [1.0, -1.0]}},
        "functions": {
            "some": {"function": "onnx::Compress", "args": {"input": "x", "condition": "x > 0"}},
            "f": {"function": "onnx::RandomNormalLike", "args": {"input": "some"}},
        },
        "output_ports": {"y": {"value": "f"}},
    }
    with pytest.raises(OperandError, match="how many numbers are drawn must be known"):
        mdf_loop.compile({"g": {"nodes": {"A": node}}}).run()


# --- in bodies ----------------------------------------------------------------------------------


LOOP = """
<ir_version: 8, opset_import: ["": 17]>
g (int64 n) => (float[k, 1] rows) {
    go = Constant <value = bool {1}> ()
    rows = Loop(n, go) <
        body = b (int64 i, bool go_in) => (bool go_out, float[1] row) {
            go_out = Identity(go_in)
            row = RandomNormal <shape = [1]> ()
        }
    >
}
"""


def test_each_iteration_of_a_loop_draws_new_numbers(tmp_path: Path) -> None:
    onnx.save(parser.parse_model(LOOP), tmp_path / "loop.onnx")
    compiled = mdf_loop.compile(tmp_path / "loop.onnx")
    rows = compiled.run({"n": 200_000})["rows"]  # in chunks
    assert len(np.unique(rows)) > 190_000
    np.testing.assert_array_equal(compiled.run({"n": 5})["rows"], rows[:5])
    np.testing.assert_array_equal(
        compiled.run({"n": 5}, steps=2)["rows"], rows[:10].reshape(2, 5, 1)
    )


IMPORTED = """
<ir_version: 8, opset_import: ["": 17]>
g (float[2] x, bool go) => (float[2] y) {
    y = If(go) <
        then_branch = a () => (float[2] t) { t = RandomNormalLike(x) },
        else_branch = b () => (float[2] e) { e = Identity(x) }
    >
}
"""


def test_a_skipped_branch_consumes_its_numbers(tmp_path: Path) -> None:
    onnx.save(parser.parse_model(IMPORTED), tmp_path / "draws.onnx")
    compiled = mdf_loop.compile(tmp_path / "draws.onnx")
    inputs = {"x": np.array([1, 2], np.float32)}
    always = compiled.run({**inputs, "go": np.ones(4, bool)}, steps=4)["y"]
    is_taken = np.array([True, False, False, True])
    results = compiled.run({**inputs, "go": is_taken}, steps=4)["y"]
    np.testing.assert_array_equal(results[is_taken], always[is_taken])
    np.testing.assert_array_equal(results[~is_taken], [[1.0, 2.0]] * 2)


# --- Dropout ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more", [{}, {"ratio": 0.5}, {"ratio": 0.5, "training_mode": False}], ids=str
)
def test_dropout_in_inference_draws_no_numbers(more: dict[str, Any]) -> None:
    compiled = drawing("Dropout", data="x", **more)
    rows = np.array([[[0.1, 0.2, 0.3]], [[0.4, 0.5, 0.6]]], np.float32)
    assert np.array_equal(compiled.run({"x": rows[0]})["y"], rows[0])
    assert np.array_equal(compiled.run({"x": rows}, steps=2)["y"], rows)
    assert np.array_equal(compiled.run(sweep={"x": rows})["y"], rows)


def test_dropout_in_training_scales_the_kept_elements() -> None:
    scaled = drawing("Dropout", data="x", ratio=0.25, training_mode=True).run()["y"]
    mask = uniform(SITE) >= 0.25
    np.testing.assert_allclose(
        scaled, [np.where(mask, np.float32([0.2, 0.3, 0.5]) / 0.75, 0)], 1e-6
    )


def test_dropout_with_a_computed_training_mode() -> None:
    node = {
        "input_ports": {
            "x": {"default_value": [0.5, 0.5, 0.5]},
            "training": {"default_value": False, "type": "bool"},
        },
        "functions": {
            "f": {
                "function": "onnx::Dropout",
                "args": {"data": "x", "ratio": 0.5, "training_mode": "training"},
            }
        },
        "output_ports": {"y": {"value": "f"}, "kept": {"value": "f[1]"}},
    }
    compiled = mdf_loop.compile({"g": {"nodes": {"A": node}}})
    assert compiled.run()["y"].tolist() == [0.5, 0.5, 0.5]
    results = compiled.run({"training": True})
    mask = uniform(SITE) >= 0.5
    assert results["y"].tolist() == np.where(mask, 1.0, 0.0).tolist()
    assert results["kept"].tolist() == mask.tolist()


def test_the_mask_of_dropout_in_inference_is_true() -> None:
    node = {
        "input_ports": {"x": {"default_value": [0.5, 0.25]}},
        "functions": {"f": {"function": "onnx::Dropout", "args": {"data": "x"}}},
        "output_ports": {"y": {"value": "f[0]"}, "kept": {"value": "f[1]"}},
    }
    results = mdf_loop.compile({"g": {"nodes": {"A": node}}}).run()
    assert (results["y"].tolist(), results["kept"].tolist()) == ([0.5, 0.25], [True, True])
