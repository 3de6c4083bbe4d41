"""Which loops are native: what is asked for, how much there is to do, what this machine can."""

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
from mdf_loop.native.loop_decisions import BRIEF, NATIVE
from tests.long_runs.helpers import every_chunk_is_told, lengths
from tests.models.control import body, model, repeat
from tests.models.loops import loop_model
from tests.models.timed import ADDING, ALL, ARRAYS, NEURON, PAIR, same

LONG = 100_000
"""Steps that are worth machine code."""

DECAY = loop_model(
    {"M": "m", "v_initial": "(x,)"},
    {"x_next": "x * 0.5 + a", "y": "x + i"},
    carried="x",
    recorded="y",
    port_values={"m": 4, "x": [1.0, 2.0, 0.0], "a": [0.5, -2.0, 7.0]},
)
NESTED = model(
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
    """A machine on which llvmlite is not installed."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "llvmlite" else found(name, *rest),
    )
    loop_decisions.unavailable.cache_clear()
    yield
    loop_decisions.unavailable.cache_clear()


@pytest.fixture
def other_system(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine for which there is no trampoline."""
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    loop_decisions.unavailable.cache_clear()
    yield
    loop_decisions.unavailable.cache_clear()


def said(source: Any, native: str = "auto", **how: Any) -> dict[str, str]:
    return mdf_loop.compile(source, device="cpu", native=native).run(**how).native


# --- words ----------------------------------------------------------------------------------------


def test_off_is_off() -> None:
    off = "standard: native loops are off"
    assert said(DECAY, "off") == {"A.loop": off}
    assert said(NEURON, "off", steps=LONG, dt=0.1) == {"time": off}


def test_require_runs_what_is_brief() -> None:
    assert said(DECAY, "require") == {"A.loop": NATIVE}
    assert said(NEURON, "require", steps=3, dt=0.1) == {"time": NATIVE}


def test_auto_leaves_what_is_brief() -> None:
    fixed = loop_model(
        {"M": 4, "v_initial": "(1.0,)"},
        {"x_next": "x * 0.5 + a"},
        carried="x",
        port_values={"a": 2.0},
    )
    assert said(fixed) == {"A.loop": BRIEF}
    assert said(PAIR, steps=10, dt=0.1) == {"time": BRIEF}
    assert said(PAIR, steps=LONG, dt=0.1) == {"time": NATIVE}


def test_auto_takes_what_may_be_long() -> None:
    assert said(DECAY) == {"A.loop": NATIVE}


@pytest.mark.parametrize(
    ("count", "goes_on", "expected"),
    [
        ({"M": 5}, "True", BRIEF),
        ({"M": 100_000}, "True", NATIVE),
        ({"M": 5, "cond": "True"}, "w < 9.0", NATIVE),
        ({"M": "y"}, "True", NATIVE),
    ],
)
def test_a_loop_inside_counts_as_often_as_it_runs(
    count: dict[str, Any], goes_on: str, expected: str
) -> None:
    """Where nobody knows how often, it may be long."""
    inside = body("j g w", {"g_next": goes_on, "w_next": "w * 0.5 + 1.0"})
    graph = body(
        "i go z", {"more": "True", "z_next": "inner"}, inner=repeat(inside, ["z"], **count)
    )
    source = model({"r": "c[0]"}, c=repeat(graph, ["x"], M=3))
    given = {"x": 1.0, **({"y": 2} if count["M"] == "y" else {})}
    assert set(said(source, inputs=given).values()) == {expected}


@pytest.mark.parametrize("step", ["numpy.maximum(x, a)", "numpy.max(x) + x"])
def test_what_is_brief_is_native_where_that_could_be_seen(step: str) -> None:
    """ONNX Runtime gives one or the other zero or, of a number and nan, any."""
    source = loop_model(
        {"M": 4, "v_initial": "(a,)"}, {"x_next": step}, carried="x", port_values={"a": [0.0, 1.0]}
    )
    assert said(source) == {"A.loop": NATIVE}


def test_nested_loops_are_listed() -> None:
    assert said(NESTED, inputs={"x": 1.0}) == {"m.c": NATIVE, "n.inner": NATIVE}


def test_an_unknown_word() -> None:
    with pytest.raises(InputError, match="native") as error:
        mdf_loop.compile(DECAY, native="yes")
    assert "'yes'" in error.value.findings[0].what


def test_require_names_each_loop_and_its_reason(tmp_path: Path) -> None:
    two = loop_model(
        {"M": "m", "v_initial": "(x,)"},
        {"x_next": "x - numpy.sort(x)"},
        carried="x",
        port_values={"m": 4, "x": [1.0, 2.0]},
    )
    nodes = two["model"]["graphs"]["graph"]["nodes"]
    nodes["B"] = nodes["A"]
    with pytest.raises(UnsupportedError) as error:
        mdf_loop.compile(two, device="cpu", native="require").run()
    first, second = (finding.what for finding in error.value.findings)
    assert first == "the loop 'A.loop' cannot be native: it has onnx::TopK"
    assert second == first.replace("A.loop", "B.loop")
    assert said(two)["A.loop"] == "standard: it has onnx::TopK"


# --- the same numbers -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_models_over_time(name: str) -> None:
    runs = [
        mdf_loop.compile(ALL[name], device="cpu", native=native).run(steps=500, dt=0.01)
        for native in ("off", "auto")
    ]
    if name == "arrays":  # sums of products round apart
        for port in runs[0]:
            np.testing.assert_allclose(runs[1][port], runs[0][port], rtol=1e-12)
    else:
        same(*runs)


# --- machines -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_llvmlite")
def test_without_llvmlite() -> None:
    reason = "llvmlite is not installed"
    assert said(DECAY) == {"A.loop": f"standard: {reason}"}
    assert said(NEURON, steps=LONG, dt=0.1) == {"time": f"standard: {reason}"}
    with pytest.raises(UnsupportedError, match=f"'A.loop' cannot be native: {reason}"):
        said(DECAY, "require")


@pytest.mark.usefixtures("other_system")
def test_on_another_system() -> None:
    reason = "there is none for this system and processor"
    assert said(DECAY) == {"A.loop": f"standard: {reason}"}


# --- checkpoints ----------------------------------------------------------------------------------


def begun(file: Path, source: Any, native: str) -> None:
    """A part of a run that is native, or not, and its checkpoint."""
    compiled = mdf_loop.compile(source, device="cpu", native=native)
    left = iter(range(3))
    with lengths(lambda: 1000), every_chunk_is_told():
        made = compiled.run(
            steps=LONG,
            dt=1e-3,
            checkpoint=file,
            progress=lambda _: next(left, None) is not None,
        )
    assert made.stopped_by is not None
    assert made.native["time"] == NATIVE


@pytest.mark.slow
def test_a_checkpoint_goes_on_natively(tmp_path: Path) -> None:
    file = tmp_path / "run.checkpoint"
    begun(file, PAIR, "auto")
    compiled = mdf_loop.compile(PAIR, device="cpu")
    made = compiled.run(steps=LONG, dt=1e-3, resume=file)
    assert made.native == {"time": NATIVE}
    same(made, compiled.run(steps=LONG, dt=1e-3))


@pytest.mark.slow
def test_a_native_run_does_not_go_on_otherwise(tmp_path: Path, request: Any) -> None:
    file = tmp_path / "run.checkpoint"
    begun(file, ARRAYS, "auto")
    request.getfixturevalue("without_llvmlite")
    with pytest.raises(InputError, match=r"begun with llvmlite .*here: off: llvmlite is not"):
        mdf_loop.compile(ARRAYS, device="cpu").run(steps=LONG, dt=1e-3, resume=file)


def test_a_checkpoint_knows_what_was_asked(tmp_path: Path) -> None:
    file = tmp_path / "run.checkpoint"
    begun(file, ADDING, "auto")
    with pytest.raises(InputError, match="native"):
        mdf_loop.compile(ADDING, device="cpu", native="off").run(steps=LONG, dt=1e-3, resume=file)
