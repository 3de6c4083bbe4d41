"""Memory limits: a run that must exceed the limit is refused, and a run that reaches the limit is stopped."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mdf_loop
from mdf_loop import memory_limit
from mdf_loop.cli import cli
from mdf_loop.errors import InputError, MemoryLimitError
from mdf_loop.ir import StopReason
from mdf_loop.memory_limit import resident_bytes
from mdf_loop.run import single_run as once
from mdf_loop.run.control import chunks, stopping
from mdf_loop.run.control.stepper import Cadence

STOPPED = "took more memory than its limit|grows and would take"
"""Pattern of the two possible errors. The time of the memory measurement determines which one is raised."""


def model(**node: Any) -> dict[str, Any]:
    return {"g": {"nodes": {"A": node}}}


def doubling_loop(times: int) -> dict[str, Any]:
    """Return a loop whose carried array doubles in each iteration."""
    twice = {"function": "onnx::Concat", "args": {"inputs": ["v", "v"], "axis": 0}}
    inner = {
        "input_ports": {"v": {}},
        "functions": {"w": twice},
        "output_ports": {"w": {"value": "w"}},
    }
    body = {
        "metadata": {"inputs": ["i", "c", "v"], "outputs": ["c", "w"]},
        "nodes": {"B": inner},
    }
    loop = {
        "function": "onnx::Loop",
        "args": {"M": "trip", "v_initial": "(x,)", "body": {"b": body}},
    }
    return model(
        input_ports={"x": {"shape": [-1]}},
        parameters={"trip": {"value": times}},
        functions={"f": loop},
        output_ports={"y": {"value": "f[0]"}},
    )


def chain(times: int, **node: Any) -> dict[str, Any]:
    """Return the doubling as a chain of Concat operations without a loop."""
    functions = {
        f"x{k + 1}": {
            "function": "onnx::Concat",
            "args": {"inputs": [f"x{k}", f"x{k}"], "axis": 0},
        }
        for k in range(times)
    }
    return model(functions=functions, output_ports={"y": {"value": f"x{times}"}}, **node)


WALK = model(
    parameters={"v": {"value": "v + 1", "default_initial_value": [0.0] * 100}},
    output_ports={"v": {"value": "v"}},
)


# --- known before ---------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [30, 45])
def test_values_of_known_size_are_refused_before(times: int) -> None:
    memory_before = resident_bytes()
    for node, inputs in (
        ({"parameters": {"x0": {"value": [1.0, 2.0]}}}, {}),
        ({"input_ports": {"x0": {"shape": [2]}}}, {"x0": [1.0, 2.0]}),
    ):
        compiled = mdf_loop.compile(chain(times, **node), device="cpu")
        with pytest.raises(MemoryLimitError, match=rf"'A.x{times}:Concat', float64\[") as caught:
            compiled.run(inputs, memory_limit="4GB")
        assert f"nodes['A'].functions['x{times}']" in str(caught.value)
    assert resident_bytes() - memory_before < 10**8


def test_a_limit_is_of_a_run() -> None:
    compiled = mdf_loop.compile(chain(21, input_ports={"x0": {"shape": [2]}}), device="cpu")
    assert compiled.run({"x0": [1.0, 2.0]})["A.y"].nbytes == 2**25
    with pytest.raises(MemoryLimitError, match=r"would take 33\.6 MB"):
        compiled.run({"x0": [1.0, 2.0]}, memory_limit="20MB")
    assert compiled.run({"x0": [1.0, 2.0]}, memory_limit="2GB")["A.y"].nbytes == 2**25


def test_rows_for_which_there_is_no_room() -> None:
    compiled = mdf_loop.compile(WALK, device="cpu")
    with pytest.raises(MemoryLimitError, match=r"1000000000 rows of 'A.v' would take 800 GB") as c:
        compiled.run(steps=10**9, memory_limit="4GB")
    assert "stream them to disk" in str(c.value)
    assert c.value.results.stopped_by is StopReason.MEMORY_LIMIT
    with pytest.raises(MemoryLimitError, match=r"1000000 rows of 'A.v' would take 8 TB"):
        compiled.run(steps=10**6, memory_limit="4GB", sweep={"A.v": np.zeros((10**4, 100))})


def test_one_number_for_a_large_port() -> None:
    large = model(
        input_ports={"x": {"shape": [10**5, 10**5]}}, output_ports={"y": {"value": "x + 1"}}
    )
    with pytest.raises(MemoryLimitError, match=r"the input 'x' of the shape .* would take 80 GB"):
        mdf_loop.compile(large, device="cpu").run({"x": 1.0}, memory_limit="4GB")


def test_invalid_limits_are_refused() -> None:
    compiled = mdf_loop.compile(WALK, device="cpu")
    with pytest.raises(InputError, match="the memory limit is 'much', which is no size"):
        compiled.run(steps=2, memory_limit="much")
    with pytest.raises(InputError, match="engine takes no memory limit"):
        compiled.run(steps=2, memory_limit="4GB", engine="modeci")


# --- known while running --------------------------------------------------------------------------


def test_a_loop_that_doubles_what_it_carries() -> None:
    compiled = mdf_loop.compile(doubling_loop(60), device="cpu", shapes="dynamic")
    most = resident_bytes() + 4 * 10**8
    with pytest.raises(MemoryLimitError, match=STOPPED) as caught:
        compiled.run({"x": [1.0]}, memory_limit=most)
    results = caught.value.results
    assert results.stopped_by is StopReason.MEMORY_LIMIT
    report = results.loops["A.f"]
    assert 10 < report.iterations < 30
    assert report.stopped_by is StopReason.MEMORY_LIMIT
    assert resident_bytes() < most + 4 * 10**8


@pytest.mark.slow
def test_a_loop_that_is_stopped_before_it_is_begun_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check that the memory of the first attempt does not count against the run in chunks."""
    monkeypatch.setattr(once, "MAX_WHOLE_SECONDS", 60.0)
    compiled = mdf_loop.compile(doubling_loop(60), device="cpu", shapes="dynamic")
    with pytest.raises(MemoryLimitError, match=STOPPED) as caught:
        compiled.run({"x": [1.0]}, memory_limit=resident_bytes() + 5 * 10**8)
    assert 10 < caught.value.results.loops["A.f"].iterations < 30


def appending_loop(count: int, size: int) -> dict[str, Any]:
    """Return a loop that appends `size` elements in each of `count` iterations."""
    body = {
        "metadata": {"inputs": ["i", "g", "x"], "outputs": ["go", "z"]},
        "nodes": {
            "q": {
                "input_ports": {"x": {}},
                "output_ports": {
                    "go": {"value": "True"},
                    "z": {"value": f"numpy.concatenate([x, numpy.zeros({size})])"},
                },
            }
        },
    }
    loop = {
        "function": "onnx::Loop",
        "args": {"M": count, "v_initial": "(x,)", "body": {"b": body}},
    }
    return model(
        input_ports={"x": {"shape": [-1]}},
        functions={"f": loop},
        output_ports={"y": {"value": "numpy.sum(f)"}, "n": {"value": "numpy.size(f)"}},
    )


@pytest.mark.parametrize("native", ["off", "auto"])
@pytest.mark.parametrize("first", [0, 1, 1000])
def test_a_loop_that_appends_is_not_refused(first: int, native: str, monkeypatch: Any) -> None:
    """Check that strong growth in the first step is no growth factor for later steps."""
    monkeypatch.setattr(once, "MAX_WHOLE_SECONDS", 0.0)
    compiled = mdf_loop.compile(appending_loop(6, 200_000), native=native, shapes="dynamic")
    results = compiled.run({"x": np.ones(first)}, memory_limit=resident_bytes() + 10**9)
    assert (results["y"], results["n"]) == (first, first + 6 * 200_000)


class Growing:
    """Stepper whose value has the given sizes, one per step."""

    def __init__(self, sizes: list[float]) -> None:
        self.sizes = sizes
        self.total = len(sizes) - 1
        self.cadence = Cadence()
        self.done = 0

    @property
    def finished(self) -> bool:
        return self.done == self.total

    @property
    def carried_bytes(self) -> int:
        return int(self.sizes[self.done])

    def advance(self, most: int, stopping: Any) -> Any:
        self.done += 1
        return chunks.Block(range(0), {})


MB = 1e6


def reason_of_stop(stepper: Any, alone: stopping.Stopping) -> StopReason | None:
    """Run a stepper to its end or a stop, and return the reason of the stop."""
    iterator = chunks.Chunks(stepper, alone)
    assert list(iterator)
    return iterator.reason


@pytest.mark.parametrize(
    ("sizes", "steps"),
    [
        ([8, *(8 + k * 10 * MB for k in range(1, 30))], 29),
        ([0, *(k * 10 * MB for k in range(1, 30))], 29),
        ([8, 8, 8, *(k * 90 * MB for k in range(1, 5))], 6),
        ([8, 8_000, 8 * MB, *(k * 9 * MB for k in range(2, 20))], 20),
        ([8 * (k + 1) ** 3 * 1e3 for k in range(30)], 29),
        ([400 * MB, 800 * MB, 1200 * MB], 1),
        ([8 * 10.0**k for k in range(12)], 8),
        ([8 * 2.0**k for k in range(30)], 26),
    ],
)
def test_growth_is_known_from_several_steps(
    sizes: list[float], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that only growth beyond the limit of 1 GB in the next step is refused."""
    monkeypatch.setattr(memory_limit, "resident_bytes", lambda: 0)
    stepper = Growing(sizes)
    with stopping.Stopping() as alone:
        alone._memory_limit = 10**9
        reason = reason_of_stop(stepper, alone)
    assert stepper.done == steps
    if steps < stepper.total:
        assert reason is StopReason.MEMORY_LIMIT
        assert alone.failure is not None
        assert alone.failure.findings[0].what == (
            f"what the run carries from step to step grows and would take "
            f"{memory_limit.as_text(sizes[steps + 1])} of memory, more than the limit allows: 1 GB, "
            "of which 0 B are in use"
        )
    else:
        assert reason is None


class SlowGrowth:
    """Stepper whose steps take no time and whose value grows."""

    total = None
    finished = False

    def __init__(self, growth: float) -> None:
        self.growth = growth
        self.cadence = Cadence()
        self.done = 0
        self.lengths: list[int] = []

    @property
    def carried_bytes(self) -> int:
        return int(1000 * self.growth**self.done)

    def advance(self, most: int, stopping: Any) -> Any:
        self.done += most
        self.lengths.append(most)
        self.finished = self.done > 500
        return chunks.Block(range(0), {})


@pytest.mark.parametrize("growth", [2.0, 1.3])
def test_growing_values_at_most_double_in_a_chunk(
    growth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "resident_bytes", lambda: 0)
    stepper = SlowGrowth(growth)
    with stopping.Stopping() as alone:
        alone._memory_limit = 10**9
        reason = reason_of_stop(stepper, alone)
    assert reason is StopReason.MEMORY_LIMIT
    assert 10**9 / growth**2 < stepper.carried_bytes < 10**9
    sizes = [1000 * growth**done for done in np.cumsum(stepper.lengths)]
    for before, after in itertools.pairwise(sizes):
        assert after <= max(2 * before, chunks.MAX_CHUNK_BYTES) * 1.001


def test_values_of_constant_size_have_normal_chunks() -> None:
    stepper = SlowGrowth(1.0)
    with stopping.Stopping() as alone:
        assert reason_of_stop(stepper, alone) is None
    assert stepper.lengths[:2] == [1, chunks.MAX_CHUNK_LENGTH_RATIO]


@pytest.mark.slow
def test_a_stopped_run_over_time_saves_partial_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, store, saved = (str(tmp_path / name) for name in ("m.json", "m.zarr", "m.ckpt"))
    Path(path).write_text(json.dumps({"m": {"graphs": WALK}}))
    options = ["run", path, "--steps", "300000", "--every", "100", "--quiet", "--native", "off"]
    options += ["--checkpoint", saved, "--output", store]
    looks = itertools.count()
    monkeypatch.setattr(stopping, "MEMORY_CHECK_SECONDS", 0.02)
    monkeypatch.setattr(memory_limit, "resident_bytes", lambda: 10**12 * (next(looks) > 4))
    invocation = CliRunner().invoke(cli, [*options, "--memory-limit", "100GB"])
    assert invocation.exit_code == 2, invocation.output
    assert (
        "MemoryLimitError: the run took more memory than its limit of 100 GB" in invocation.output
    )
    assert f"hint: go on with --resume '{saved}' and a larger --memory-limit" in invocation.output
    monkeypatch.undo()
    again = CliRunner().invoke(cli, [*options, "--resume", saved])
    assert again.exit_code == 0, again.output
    import zarr

    rows = zarr.open_group(store, mode="r")["A.v"]
    assert rows.shape == (3000, 100)
    assert rows[-1, 0] == 299901


def test_a_model_without_loops_is_stopped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = mdf_loop.compile(chain(20, input_ports={"x0": {"shape": [4]}}), device="cpu")
    compiled.run({"x0": [1.0] * 4})
    enter = stopping.Stopping.__enter__

    def looked(self: stopping.Stopping) -> stopping.Stopping:
        enter(self)
        self.check_memory()
        self.check(time.monotonic(), ())
        return self

    monkeypatch.setattr(stopping.Stopping, "__enter__", looked)
    monkeypatch.setattr(memory_limit, "resident_bytes", lambda: 10**12)
    with pytest.raises(MemoryLimitError, match="took more memory") as caught:
        compiled.run({"x0": [1.0] * 4}, memory_limit="100GB")
    assert caught.value.results is None


def test_the_runtime_without_memory_says_so() -> None:
    from mdf_loop.emit.scope import NodeRegistry
    from mdf_loop.run.onnxruntime.runtime_errors import convert_run_error

    text = (
        "Non-zero status code returned while running Concat node. Name:'$.a Concat#1' Status "
        "Message: Failed to allocate memory for requested buffer of size 8589934592"
    )
    error = convert_run_error(RuntimeError(text), NodeRegistry())
    assert isinstance(error, MemoryLimitError)
    assert "at $.a" in str(error)
