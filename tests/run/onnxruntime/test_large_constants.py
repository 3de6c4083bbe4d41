"""Large constants reach the runtime without copies and without a file of 2 GB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mdf_loop
from mdf_loop.array_digest import array_digest
from mdf_loop.build import Builder
from mdf_loop.emit import SessionModel, onnx_model
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Input, Output, Program
from mdf_loop.run.onnxruntime import session
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import STANDARD

DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool")


def model(weights: Any) -> dict[str, Any]:
    node = {
        "parameters": {"w": {"value": weights}},
        "input_ports": {"x": {"shape": [len(weights)]}},
        "output_ports": {"y": {"value": "w @ x"}, "z": {"value": "(x @ w) * 0.1"}},
    }
    return {"g": {"nodes": {"A": node}}}


@pytest.mark.parametrize("dtype", DTYPES)
def test_external_constants_are_equal(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(-6, 6).reshape(3, 4)
    typed = array.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    monkeypatch.setattr(onnx_model, "LARGE_CONSTANT_BYTES", 1)
    b = Builder()
    rows = b.new("int64", (2,), "rows")
    y = b.op("Gather", b.constant(typed), rows, axis=0)
    program = Program("p", (Input(rows),), tuple(b.ops), (Output("y", y),))
    model = SessionModel(program)
    proto, apart = model.for_cpu, model.large_constants
    assert list(apart) == [tensor.name for tensor in proto.graph.initializer]
    assert not any(tensor.raw_data for tensor in proto.graph.initializer)
    selected = Session(program, STANDARD).run({"rows": np.array([2, 0])})["y"]
    assert selected.dtype == typed.dtype
    np.testing.assert_array_equal(selected, typed[[2, 0]])


def test_external_and_internal_constants_give_equal_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    weights, x = rng.standard_normal((400, 400)), rng.standard_normal(400)
    assert weights.nbytes >= onnx_model.LARGE_CONSTANT_BYTES
    apart = mdf_loop.compile(model(weights), device="cpu").run({"x": x}, steps=3)
    monkeypatch.setattr(onnx_model, "LARGE_CONSTANT_BYTES", 10**9)
    inside = mdf_loop.compile(model(weights), device="cpu").run({"x": x}, steps=3)
    for name in ("A.y", "A.z"):
        np.testing.assert_array_equal(apart[name], inside[name])


def test_more_constants_than_a_file_holds_are_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Check constants above the size limit of a file, which the test lowers."""
    weights = np.ones((400, 400))
    monkeypatch.setattr(onnx_model, "_MAX_CONSTANT_BYTES", 10**6)
    compiled = mdf_loop.compile(model(weights), device="cpu")
    np.testing.assert_array_equal(compiled.run({"x": weights[0]})["A.y"], [400.0] * 400)
    with pytest.raises(UnsupportedError, match="one ONNX model holds 2 GB at most"):
        compiled.save(tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_the_model_for_the_runtime_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def opened(model: SessionModel, *rest: Any) -> Any:
        sizes.append(model.for_cpu.ByteSize())
        return original_function(model, *rest)

    original_function = session.open_session
    monkeypatch.setattr(session, "open_session", opened)
    mdf_loop.compile(model(np.ones((1000, 1000))), device="cpu").run({"x": np.ones(1000)})
    assert sizes
    assert max(sizes) < 10**4


def test_bits_tell_arrays_apart() -> None:
    rng = np.random.default_rng(1)
    for dtype in (np.float64, np.bool_, ml_dtypes.bfloat16):
        large = rng.integers(0, 2, (300, 301)).astype(dtype)
        other = large.copy()
        assert array_digest(large) == array_digest(other) == array_digest(np.asfortranarray(large))
        assert large.nbytes < 10**5 or len(array_digest(large)) == 64
        other[-1, -1] = 1 - other[-1, -1]
        assert array_digest(large) != array_digest(other)
    assert array_digest(np.zeros(10**5)) != array_digest(-np.zeros(10**5))


CHILD = """
import resource, sys
import numpy as np, mdf_loop
small = mdf_loop.compile(sys.argv[1] + "/small.json", device="cpu")
small.run({"x": np.ones(10)})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
large = mdf_loop.compile(sys.argv[1] + "/large.json", device="cpu")
assert large.run({"x": np.ones(3600)})["A.y"][0] == 3600
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_a_large_constant_is_in_memory_at_most_twice(tmp_path: Path) -> None:
    for name, extent in (("small", 10), ("large", 3600)):
        np.savez(tmp_path / f"{name}.npz", w=np.ones((extent, extent)))
        parameter = {
            "value": {"npz": f"{name}.npz", "array": "w"},
            "metadata": {"dtype": "float64"},
        }
        content = model([0.0] * extent)
        content["g"]["nodes"]["A"]["parameters"]["w"] = parameter
        (tmp_path / f"{name}.json").write_text(json.dumps({"m": {"graphs": content}}))
    process = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(process.stdout) * 1024 < 2.5 * 1.04e8, process.stdout
