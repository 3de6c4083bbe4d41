"""The decision between native and standard loops: the option, the amount of work and the machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError, UnsupportedError
from mdf_loop.native import loop_decisions
from mdf_loop.native.loop_decisions import NATIVE, STANDARD_FOR_LITTLE_WORK
from tests.long_runs.helpers import lengths, report_every_chunk
from tests.models.control import body, model, repeat
from tests.models.loops import loop_model
from tests.models.timed import ADDING, ALL, ARRAYS, NEURON, PAIR, same

LONG_STEP_COUNT = 100_000
"""A number of steps with enough work for machine code."""

DECAY_MODEL = loop_model(
    {"M": "m", "v_initial": "(x,)"},
    {"x_next": "x * 0.5 + a", "y": "x + i"},
    carried="x",
    recorded="y",
    port_values={"m": 4, "x": [1.0, 2.0, 0.0], "a": [0.5, -2.0, 7.0]},
)
NESTED_MODEL = model(
    {"y": "c[0]"},
    c=repeat(
        body(
            "i go z",
            {"more": "True", "z_next": "inner"},
            inner=repeat(
                body("j g w", {"g_next": "True", "w_next": "w * 0.5 + i * j"}), ["z"], M="i"
            ),
        ),
        ["x"],
        M=20_000,
    ),
)


@pytest.fixture
def without_llvmlite(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Simulate a machine on which llvmlite is not installed."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "llvmlite" else find_spec(name, *rest),
    )
    loop_decisions.reason_unavailable.cache_clear()
    yield
    loop_decisions.reason_unavailable.cache_clear()


@pytest.fixture
def other_system(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Simulate a machine for which there is no trampoline."""
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    loop_decisions.reason_unavailable.cache_clear()
    yield
    loop_decisions.reason_unavailable.cache_clear()


def loop_forms(source: Any, native: str = "auto", **run_options: Any) -> dict[str, str]:
    """Return the form of each loop, native or standard with the reason, of a run."""
    return mdf_loop.compile(source, device="cpu", native=native).run(**run_options).native


# --- options ----------------------------------------------------------------------------------------


def test_off_makes_loops_standard() -> None:
    reason = "standard: native loops are off"
    assert loop_forms(DECAY_MODEL, "off") == {"A.loop": reason}
    assert loop_forms(NEURON, "off", steps=LONG_STEP_COUNT, dt=0.1) == {"time": reason}


def test_require_makes_short_loops_native() -> None:
    assert loop_forms(DECAY_MODEL, "require") == {"A.loop": NATIVE}
    assert loop_forms(NEURON, "require", steps=3, dt=0.1) == {"time": NATIVE}


def test_auto_leaves_short_loops_standard() -> None:
    fixed_loop = loop_model(
        {"M": 4, "v_initial": "(1.0,)"},
        {"x_next": "x * 0.5 + a"},
        carried="x",
        port_values={"a": 2.0},
    )
    assert loop_forms(fixed_loop) == {"A.loop": STANDARD_FOR_LITTLE_WORK}
    assert loop_forms(PAIR, steps=10, dt=0.1) == {"time": STANDARD_FOR_LITTLE_WORK}
    assert loop_forms(PAIR, steps=LONG_STEP_COUNT, dt=0.1) == {"time": NATIVE}


def test_auto_makes_loops_of_unknown_length_native() -> None:
    assert loop_forms(DECAY_MODEL) == {"A.loop": NATIVE}


@pytest.mark.parametrize(
    ("count", "goes_on", "expected"),
    [
        ({"M": 5}, "True", STANDARD_FOR_LITTLE_WORK),
        ({"M": 100_000}, "True", NATIVE),
        ({"M": 5, "cond": "True"}, "w < 9.0", NATIVE),
        ({"M": "y"}, "True", NATIVE),
    ],
)
def test_the_work_of_an_inner_loop_counts_all_its_iterations(
    count: dict[str, Any], goes_on: str, expected: str
) -> None:
    """Check that an inner loop with an unknown number of iterations counts as long."""
    inner_graph = body("j g w", {"g_next": goes_on, "w_next": "w * 0.5 + 1.0"})
    outer_graph = body(
        "i go z", {"more": "True", "z_next": "inner"}, inner=repeat(inner_graph, ["z"], **count)
    )
    source = model({"r": "c[0]"}, c=repeat(outer_graph, ["x"], M=3))
    inputs = {"x": 1.0, **({"y": 2} if count["M"] == "y" else {})}
    assert set(loop_forms(source, inputs=inputs).values()) == {expected}


@pytest.mark.parametrize("step", ["numpy.maximum(x, a)", "numpy.max(x) + x"])
def test_short_loops_whose_results_could_differ_are_native(step: str) -> None:
    """Check that short loops with `max` are native, since ONNX Runtime picks either zero and drops nan."""
    source = loop_model(
        {"M": 4, "v_initial": "(a,)"}, {"x_next": step}, carried="x", port_values={"a": [0.0, 1.0]}
    )
    assert loop_forms(source) == {"A.loop": NATIVE}


def test_nested_loops_are_listed() -> None:
    assert loop_forms(NESTED_MODEL, inputs={"x": 1.0}) == {"m.c": NATIVE, "n.inner": NATIVE}


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(InputError, match="native") as error:
        mdf_loop.compile(DECAY_MODEL, native="yes")
    assert "'yes'" in error.value.findings[0].what


def test_require_names_each_loop_and_its_reason(tmp_path: Path) -> None:
    two_loops = loop_model(
        {"M": "m", "v_initial": "(x,)"},
        {"x_next": "x - numpy.sort(x)"},
        carried="x",
        port_values={"m": 4, "x": [1.0, 2.0]},
    )
    nodes = two_loops["model"]["graphs"]["graph"]["nodes"]
    nodes["B"] = nodes["A"]
    with pytest.raises(UnsupportedError) as error:
        mdf_loop.compile(two_loops, device="cpu", native="require").run()
    first_reason, second_reason = (finding.what for finding in error.value.findings)
    assert first_reason == "the loop 'A.loop' cannot be native: it has onnx::TopK"
    assert second_reason == first_reason.replace("A.loop", "B.loop")
    assert loop_forms(two_loops)["A.loop"] == "standard: it has onnx::TopK"


# --- the same numbers -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_models_over_time(name: str) -> None:
    results_by_option = [
        mdf_loop.compile(ALL[name], device="cpu", native=native_option).run(steps=500, dt=0.01)
        for native_option in ("off", "auto")
    ]
    if name == "arrays":  # sums of products are rounded differently
        for port in results_by_option[0]:
            np.testing.assert_allclose(
                results_by_option[1][port], results_by_option[0][port], rtol=1e-12
            )
    else:
        same(*results_by_option)


# --- machines -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_llvmlite")
def test_loops_are_standard_without_llvmlite() -> None:
    reason = "llvmlite is not installed"
    assert loop_forms(DECAY_MODEL) == {"A.loop": f"standard: {reason}"}
    assert loop_forms(NEURON, steps=LONG_STEP_COUNT, dt=0.1) == {"time": f"standard: {reason}"}
    with pytest.raises(UnsupportedError, match=f"'A.loop' cannot be native: {reason}"):
        loop_forms(DECAY_MODEL, "require")


@pytest.mark.usefixtures("other_system")
def test_loops_are_standard_without_a_trampoline() -> None:
    reason = "there is none for this system and processor"
    assert loop_forms(DECAY_MODEL) == {"A.loop": f"standard: {reason}"}


# --- checkpoints ----------------------------------------------------------------------------------


def write_checkpoint(file: Path, source: Any, native: str) -> None:
    """Write the checkpoint of an interrupted native run."""
    compiled = mdf_loop.compile(source, device="cpu", native=native)
    remaining_calls = iter(range(3))
    with lengths(lambda: 1000), report_every_chunk():
        results = compiled.run(
            steps=LONG_STEP_COUNT,
            dt=1e-3,
            checkpoint=file,
            progress=lambda _: next(remaining_calls, None) is not None,
        )
    assert results.stopped_by is not None
    assert results.native["time"] == NATIVE


@pytest.mark.slow
def test_a_resumed_run_is_native(tmp_path: Path) -> None:
    checkpoint_path = tmp_path / "run.checkpoint"
    write_checkpoint(checkpoint_path, PAIR, "auto")
    compiled = mdf_loop.compile(PAIR, device="cpu")
    results = compiled.run(steps=LONG_STEP_COUNT, dt=1e-3, resume=checkpoint_path)
    assert results.native == {"time": NATIVE}
    same(results, compiled.run(steps=LONG_STEP_COUNT, dt=1e-3))


@pytest.mark.slow
def test_a_native_run_cannot_be_resumed_without_llvmlite(tmp_path: Path, request: Any) -> None:
    checkpoint_path = tmp_path / "run.checkpoint"
    write_checkpoint(checkpoint_path, ARRAYS, "auto")
    request.getfixturevalue("without_llvmlite")
    with pytest.raises(InputError, match=r"begun with llvmlite .*here: off: llvmlite is not"):
        mdf_loop.compile(ARRAYS, device="cpu").run(
            steps=LONG_STEP_COUNT, dt=1e-3, resume=checkpoint_path
        )


def test_a_checkpoint_refuses_another_native_option(tmp_path: Path) -> None:
    checkpoint_path = tmp_path / "run.checkpoint"
    write_checkpoint(checkpoint_path, ADDING, "auto")
    with pytest.raises(InputError, match="native"):
        mdf_loop.compile(ADDING, device="cpu", native="off").run(
            steps=LONG_STEP_COUNT, dt=1e-3, resume=checkpoint_path
        )
