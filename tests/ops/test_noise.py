"""Random numbers of streams have the same bits in numpy, the interpreter and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import mdf_loop
from mdf_loop import streams

NUMBERS = {
    "RandomWord": streams.squares,
    "Uniform": lambda c, k: streams.uniform(streams.squares(c, k)),
    "Normal": lambda c, k: streams.normal(streams.uniform(streams.squares(c, k))),
}
KEY = streams.keys(7, streams.site("graph.node.item#0"), np.arange(3))
COUNTERS = np.array([0, 1, 2**40, 2**64 - 1, 12345], np.uint64)


def model(name: str) -> dict[str, Any]:
    """Return a model of a node that draws by a counter and a key from its inputs."""
    node = {
        "input_ports": {"counter": {"type": "uint64"}, "key": {"type": "uint64"}},
        "functions": {
            "drawn": {
                "function": f"mdf_loop.noise::{name}",
                "args": {"counter": "counter", "key": "key"},
            }
        },
        "output_ports": {"y": {"value": "drawn"}},
    }
    return {"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"a": node}}}}}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("engine", ["onnxruntime", "interpreter"])
@pytest.mark.parametrize("threads", [1, 2])
def test_random_numbers_have_the_same_bits_in_all_engines(
    name: str, engine: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = mdf_loop.compile(model(name), device="cpu")
    for counter, key in (
        (COUNTERS, KEY[0]),
        (COUNTERS[0], KEY[1]),
        (COUNTERS, KEY[:, np.newaxis]),
        (np.arange(60_000 * (threads - 1) + 5, dtype=np.uint64), KEY[2]),
    ):
        numbers = compiled.run({"counter": counter, "key": np.asarray(key)}, engine=engine)["y"]
        expected = NUMBERS[name](counter, key)
        np.testing.assert_array_equal(numbers, expected, strict=True)


@pytest.mark.parametrize("name", NUMBERS)
def test_plain_onnx_runtime_draws_the_same_numbers(name: str) -> None:
    feeds = {"counter": COUNTERS, "key": KEY[1]}
    saved = mdf_loop.compile(model(name)).to_onnx(feeds).SerializeToString()
    session = onnxruntime.InferenceSession(saved, providers=["CPUExecutionProvider"])
    (numbers,) = session.run(None, {k: np.asarray(v) for k, v in feeds.items()})
    np.testing.assert_array_equal(numbers, NUMBERS[name](COUNTERS, KEY[1]), strict=True)


def test_a_sweep_over_keys_equals_single_runs() -> None:
    compiled = mdf_loop.compile(model("Normal"), device="cpu")
    sweep_run = compiled.run({"counter": COUNTERS}, sweep={"key": KEY})["y"]
    for row, key in zip(sweep_run, KEY, strict=True):
        np.testing.assert_array_equal(row, NUMBERS["Normal"](COUNTERS, key))
