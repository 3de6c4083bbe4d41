"""Native loops with trip counts that no run can reach, and errors before the first step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import StopReason
from tests.models.loops import loop_model


def halving(start: Any) -> dict[str, Any]:
    """Return a loop that records a row in each iteration and has the trip count `m`."""
    return loop_model(
        {"M": "m", "v_initial": "(x,)"},
        {"x_next": "x * 0.5 + 1.0", "y": "x * 2.0"},
        carried="x",
        recorded="y",
        port_values={"m": 4, "x": start},
    )


@pytest.mark.parametrize("native", ["off", "auto", "require"])
@pytest.mark.parametrize("trip", [2**62, 2**60, 2**40])
def test_a_time_limit_ends_the_loop_with_the_rows_so_far(
    native: str, trip: int, capfd: pytest.CaptureFixture[str]
) -> None:
    compiled = mdf_loop.compile(halving(8.0), device="cpu", native=native)
    results = compiled.run({"m": trip}, time_limit=0.2, progress=False)
    assert results.stopped_by is StopReason.TIME_LIMIT
    (rows,) = (output for output in map(results.__getitem__, results) if np.ndim(output) == 1)
    assert len(rows) == results.loops["A.loop"].iterations
    np.testing.assert_array_equal(rows[:3], [16.0, 10.0, 7.0][: len(rows)])
    assert capfd.readouterr().err == ""


def test_a_time_limit_ends_a_loop_with_rows_of_unknown_size() -> None:
    source = halving([8.0] * 1000)
    source["model"]["graphs"]["graph"]["nodes"]["A"]["input_ports"]["x"] = {"shape": [-1]}
    compiled = mdf_loop.compile(source, device="cpu", native="require")
    inputs = {"m": 2**62, "x": np.full(1000, 8.0)}
    results = compiled.run(inputs, time_limit=0.2, progress=False)
    assert results.stopped_by is StopReason.TIME_LIMIT
    (rows,) = (output for output in map(results.__getitem__, results) if np.ndim(output) == 2)
    assert len(rows) == results.loops["A.loop"].iterations
    np.testing.assert_array_equal(rows[:3, 7], [16.0, 10.0, 7.0][: len(rows)])


@pytest.mark.parametrize("state", [False, True])
def test_a_required_loop_is_refused_before_the_first_step(state: bool) -> None:
    node = {
        "parameters": {
            "v": {"default_initial_value": [2.0, 1.0], "value": "numpy.sort(v) * 0.5 + 1.0"}
        },
        "output_ports": {"v": {"value": "v"}},
    }
    source = {"g": {"nodes": {"A": node}}}
    first_part: dict[str, Any] = {}
    if state:
        standard_model = mdf_loop.compile(source, device="cpu", native="off")
        first_part = {"state": standard_model.run(steps=2).state}
    compiled = mdf_loop.compile(source, device="cpu", native="require")
    steps: list[Any] = []
    with pytest.raises(UnsupportedError) as error:
        compiled.run(steps=30, progress=steps.append, **first_part)
    (finding,) = error.value.findings
    assert finding.what == "the loop 'time' cannot be native: it has onnx::TopK"
    assert steps == []
    if not state:
        assert compiled.run(steps=1)["v"].shape == (1, 2)
