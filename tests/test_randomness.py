"""Operators that draw random numbers: one evaluation may draw, all else refuses them by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs, parser

import mdf_loop
from mdf_loop.errors import LoopError, UnsupportedError
from mdf_loop.ir import OPSET
from mdf_loop.ops.onnx_schema import operator_names, schema_at
from mdf_loop.ops.registry import rows

RANDOM_OPS = {row.name for row in rows() if row.random}

ARGUMENTS: dict[str, dict[str, Any]] = {
    "Bernoulli": {"input": "x"},
    "Dropout": {"data": "x", "ratio": 0.5, "training_mode": True},
    "Multinomial": {"input": "x"},
    "RandomNormal": {"shape": [1, 3]},
    "RandomNormalLike": {"input": "x"},
    "RandomUniform": {"shape": [1, 3]},
    "RandomUniformLike": {"input": "x"},
}
WHERE = "$.graphs[0].nodes['A'].functions['f']"


def drawing(op_type: str, **arguments: Any) -> Any:
    """A model with one function that draws."""
    node = {
        "input_ports": {"x": {"default_value": [[0.2, 0.3, 0.5]]}},
        "functions": {
            "f": {"function": f"onnx::{op_type}", "args": arguments or ARGUMENTS[op_type]}
        },
        "output_ports": {"y": {"value": "f"}},
    }
    return mdf_loop.compile({"g": {"nodes": {"A": node}}}, precision="float32")


def refused(op_type: str, what: str, **asked: Any) -> None:
    with pytest.raises(UnsupportedError) as caught:
        drawing(op_type).run(**asked)
    (finding,) = caught.value.findings
    assert finding.what.startswith(f"onnx::{op_type} ")
    assert what in finding.what
    assert finding.where == WHERE
    assert finding.hint


def test_the_list_has_all_that_onnx_calls_random() -> None:
    schemas = [schema_at(name, OPSET) for name in operator_names()]
    with_graphs = {
        s.name
        for s in schemas
        if any(a.type == defs.OpSchema.AttrType.GRAPH for a in s.attributes.values())
    }
    called = {s.name for s in schemas if s.non_deterministic}
    wrongly = with_graphs | {"AffineGrid"}  # which owns a graph in ONNX's definition of it
    assert called - wrongly == RANDOM_OPS
    assert ARGUMENTS.keys() == RANDOM_OPS


@pytest.mark.parametrize("op_type", sorted(RANDOM_OPS))
def test_one_evaluation_draws(op_type: str) -> None:
    compiled = drawing(op_type)
    drawn = [compiled.run()["y"] for _ in range(40)]
    assert any(not np.array_equal(one, drawn[0]) for one in drawn)


@pytest.mark.parametrize("op_type", sorted(RANDOM_OPS))
def test_refused_over_time(op_type: str) -> None:
    what = "draws random numbers, so it cannot run over time"
    refused(op_type, what, steps=2)
    refused(op_type, what, steps=2, state={"step": np.array(1), "time": np.array(0.0)})
    refused(op_type, what, steps=2, sweep={"x": np.full((2, 1, 3), 0.5)})


@pytest.mark.parametrize("op_type", sorted(RANDOM_OPS))
def test_refused_in_a_sweep(op_type: str) -> None:
    what = "each of them would draw other random numbers than it draws alone"
    refused(op_type, what, sweep={"x": np.full((2, 1, 3), 0.5)})


@pytest.mark.parametrize("op_type", sorted(RANDOM_OPS))
def test_refused_with_a_checkpoint(op_type: str, tmp_path: Path) -> None:
    refused(op_type, "it has no checkpoint", checkpoint=tmp_path / "run.ckpt")
    assert not list(tmp_path.iterdir())


def test_all_that_draw_are_named_at_once() -> None:
    functions = {
        name: {"function": "onnx::RandomNormal", "args": {"shape": [1]}} for name in ("f", "g")
    }
    node = {"functions": functions, "output_ports": {"y": {"value": "f + g"}}}
    compiled = mdf_loop.compile({"g": {"nodes": {"A": node}}})
    for asked in ({"steps": 2}, {"checkpoint": "run.ckpt"}):
        with pytest.raises(UnsupportedError) as caught:
            compiled.run(**asked)
        places = [finding.where for finding in caught.value.findings]
        assert places == [WHERE, WHERE.replace("'f'", "'g'")]


def test_what_nobody_reads_is_not_drawn() -> None:
    node = {
        "input_ports": {"x": {"default_value": 1.0}},
        "functions": {"f": {"function": "onnx::RandomNormal", "args": {"shape": [1]}}},
        "output_ports": {"y": {"value": "f"}, "z": {"value": "2 * x"}},
    }
    compiled = mdf_loop.compile({"g": {"nodes": {"A": node}}})
    assert compiled.run(steps=2, only=["A.z"])["z"].tolist() == [2.0, 2.0]
    assert compiled.run(sweep={"x": [1.0, 2.0]}, only=["A.z"])["z"].tolist() == [2.0, 4.0]
    with pytest.raises(UnsupportedError, match="RandomNormal"):
        compiled.run(steps=2)


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


def test_each_iteration_of_a_loop_draws_its_own(tmp_path: Path) -> None:
    onnx.save(parser.parse_model(LOOP), tmp_path / "loop.onnx")
    compiled = mdf_loop.compile(tmp_path / "loop.onnx")
    assert len(np.unique(compiled.run({"n": 5})["rows"])) == 5
    assert len(np.unique(compiled.run({"n": 200_000})["rows"])) > 190_000  # in chunks
    with pytest.raises(UnsupportedError, match="onnx::RandomNormal draws random numbers") as caught:
        compiled.run({"n": 5}, steps=2)
    assert ".body." in caught.value.findings[0].where


IMPORTED = """
<ir_version: 8, opset_import: ["": 17]>
g (float[2] x, bool go) => (float[2] y) {
    y = If(go) <
        then_branch = a () => (float[2] t) { t = RandomNormalLike(x) },
        else_branch = b () => (float[2] e) { e = Identity(x) }
    >
}
"""


def test_an_imported_file_is_evaluated_once(tmp_path: Path) -> None:
    model = parser.parse_model(IMPORTED)
    onnx.save(model, tmp_path / "draws.onnx")
    compiled = mdf_loop.compile(tmp_path / "draws.onnx")
    given = {"x": np.array([1, 2], np.float32)}
    assert compiled.run({**given, "go": False})["y"].tolist() == [1.0, 2.0]
    assert compiled.run({**given, "go": True})["y"].tolist() != [1.0, 2.0]
    with pytest.raises(UnsupportedError, match="onnx::RandomNormalLike draws random numbers"):
        compiled.run({**given, "go": False}, steps=2)


# --- Dropout ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more", [{}, {"ratio": 0.5}, {"ratio": 0.5, "training_mode": False}], ids=str
)
def test_dropout_out_of_training_draws_nothing(more: dict[str, Any]) -> None:
    compiled = drawing("Dropout", data="x", **more)
    rows = np.array([[[0.1, 0.2, 0.3]], [[0.4, 0.5, 0.6]]], np.float32)
    assert np.array_equal(compiled.run({"x": rows[0]})["y"], rows[0])
    assert np.array_equal(compiled.run({"x": rows}, steps=2)["y"], rows)
    assert np.array_equal(compiled.run(sweep={"x": rows})["y"], rows)


def test_dropout_whose_training_is_computed_may_draw() -> None:
    node = {
        "input_ports": {
            "x": {"default_value": [0.5]},
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
    assert compiled.run()["y"].tolist() == [0.5]
    with pytest.raises(LoopError, match="onnx::Dropout draws random numbers"):
        compiled.run(steps=2)


def test_the_mask_of_a_dropout_out_of_training_keeps_all() -> None:
    node = {
        "input_ports": {"x": {"default_value": [0.5, 0.25]}},
        "functions": {"f": {"function": "onnx::Dropout", "args": {"data": "x"}}},
        "output_ports": {"y": {"value": "f[0]"}, "kept": {"value": "f[1]"}},
    }
    made = mdf_loop.compile({"g": {"nodes": {"A": node}}}).run()
    assert (made["y"].tolist(), made["kept"].tolist()) == ([0.5, 0.25], [True, True])
