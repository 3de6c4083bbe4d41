"""The way from a user's `run` to ONNX Runtime has at most 12 frames of the package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import mdf_loop

PACKAGE = str(Path(mdf_loop.__file__).parent)

WALK = {
    "g": {
        "nodes": {
            "A": {
                "parameters": {"x": {"value": "x + 1", "default_initial_value": 0.0}},
                "output_ports": {"y": {"value": "x"}},
            }
        }
    }
}

NOISY = {"g": {"nodes": {"A": {"output_ports": {"y": {"value": "numpy.random.normal()"}}}}}}

LOOP = Path(__file__).parents[2] / "examples" / "newton_sqrt" / "model.yaml"


def count_frames(compute: Callable[[], object]) -> int:
    """Return the largest number of the package's frames above a call of ONNX Runtime."""
    counts = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or "onnxruntime_inference_collection" not in frame.f_code.co_filename:
            return
        count, above = 0, frame.f_back
        while above is not None:
            count += above.f_code.co_filename.startswith(PACKAGE)
            above = above.f_back
        counts.append(count)

    compute()
    sys.setprofile(watch)
    try:
        compute()
    finally:
        sys.setprofile(None)
    return max(counts)


@pytest.mark.parametrize("native", ["off", "auto"])
@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        pytest.param(WALK, {}, id="one evaluation"),
        pytest.param(LOOP, {}, id="a loop"),
        pytest.param(LOOP, {"progress": lambda _: None}, id="a loop in chunks"),
        pytest.param(
            LOOP, {"sweep": {"a": [2.0] * 9}, "progress": lambda _: None}, id="members of a loop"
        ),
        pytest.param(WALK, {"steps": 9}, id="over time"),
        pytest.param(WALK, {"steps": 9, "sweep": {"A.x": [1.0, 2.0]}}, id="a sweep over time"),
        pytest.param(NOISY, {"steps": 9, "trials": 3}, id="trials"),
        pytest.param(
            NOISY, {"steps": 9, "trials": 3, "over_trials": {"y": "mean"}}, id="statistics"
        ),
    ],
)
def test_few_frames_lie_above_onnx_runtime(source: Any, arguments: Any, native: str) -> None:
    model = mdf_loop.compile(source, device="cpu", native=native)
    assert 5 <= count_frames(lambda: model.run(**arguments)) <= 12
