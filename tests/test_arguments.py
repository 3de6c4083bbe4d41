"""What Python functions are given that is of another kind is one error, or means something; never a traceback."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop import LoopError
from mdf_loop.api.compiled import CompiledModel

NODE = {
    "input_ports": {"a": {"default_value": 1.5}},
    "parameters": {"v": {"default_initial_value": 0.0, "value": "v + a"}, "g": {"value": 0.5}},
    "output_ports": {"out": {"value": "v * g"}},
}
MODEL = {"m": {"graphs": {"g": {"nodes": {"n": NODE}}}}}


class Thing:
    """What nobody knows; its name is the same in every process."""

    def __repr__(self) -> str:
        return "a thing"


ODD: list[Any] = [
    3,
    -1,
    2**70,
    float("nan"),
    True,
    "text",
    b"x",
    [1],
    {1, 2},
    {3: 1},
    {None: 1},
    {("a",): 1},
    {"a": Thing()},
    {"n.g": "x"},
    {"n.g": [[1], [2, 3]]},
    {"n.v": ["a", "b"]},
    {"n.g": {"a": 1}},
    {"n.g": [10**30, 1]},
    Thing(),
    len,
    np.array([1, 2]),
]


@pytest.fixture(scope="module")
def compiled() -> CompiledModel:
    return mdf_loop.compile(MODEL)


@pytest.fixture(scope="module")
def results(compiled: CompiledModel) -> Any:
    return compiled.run(steps=2, dt=0.1)


def refused_or_done(call: Callable[..., Any], **arguments: Any) -> None:
    with contextlib.suppress(LoopError):
        call(**arguments)


RUN = [
    "inputs",
    "set",
    "sweep",
    "record",
    "only",
    "dt",
    "every",
    "when",
    "reduce",
    "state",
    "execution_list",
    "engine",
    "time_limit",
    "nan",
    "output",
    "checkpoint",
    "checkpoint_every",
    "resume",
    "overwrite",
    "memory_limit",
]


@pytest.mark.parametrize("argument", RUN)
def test_run(compiled, argument, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for odd in ODD:
        refused_or_done(compiled.run, steps=2, progress=False, **{argument: odd})


@pytest.mark.parametrize("odd", [odd for odd in ODD if not isinstance(odd, bool)], ids=repr)
def test_steps(compiled, odd) -> None:
    if not (isinstance(odd, int) and odd == 3):
        with pytest.raises(LoopError, match="steps must be a whole number above 0"):
            compiled.run(steps=odd)


@pytest.mark.parametrize("argument", ["device", "precision", "shapes", "max_iterations", "unroll"])
def test_compile(argument) -> None:
    for odd in ODD:
        refused_or_done(mdf_loop.compile, source=MODEL, **{argument: odd})


@pytest.mark.parametrize(
    "argument",
    ["level", "depth", "captures", "rankdir", "focus", "collapse", "over_time", "target"],
)
def test_draw(argument, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for odd in ODD:
        refused_or_done(mdf_loop.draw, source=MODEL, **{argument: odd})


@pytest.mark.slow
def test_other_functions(compiled, results, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for odd in ODD:
        for function in (mdf_loop.read, mdf_loop.explain, mdf_loop.compile, mdf_loop.from_onnx):
            refused_or_done(function, source=odd)
        refused_or_done(mdf_loop.read, source=MODEL, inputs=odd)
        refused_or_done(mdf_loop.read, source=MODEL, record=odd)
        refused_or_done(mdf_loop.fold, source=MODEL, nodes=odd)
        refused_or_done(mdf_loop.fold, source=MODEL, nodes=["n"], carry=odd)
        refused_or_done(mdf_loop.unfold, source=MODEL, loop=odd)
        refused_or_done(compiled.to_onnx, inputs=odd)
        refused_or_done(compiled.prepare, inputs=odd)
        refused_or_done(results.save, path=odd)
        refused_or_done(results.plot, names=odd)
        refused_or_done(results.plot, title=odd)


@pytest.mark.parametrize("argument", ["inputs", "set"])
def test_verify(argument) -> None:
    for odd in ([1], {3: 1}, np.array([1, 2]), {"n.g": "x"}):
        with pytest.raises(LoopError):
            mdf_loop.verify(MODEL, **{argument: odd})


@pytest.mark.parametrize(
    ("arguments", "sentence", "hint"),
    [
        (
            {"set": {3: 1}},
            "set is a mapping in which a name is no text: 3",
            "e.g. set={'node.parameter': 0.5}",
        ),
        (
            {"set": [("n.g", 1)]},
            "set is no mapping of names to values: [('n.g', 1)]",
            "e.g. set={'node.parameter': 0.5}",
        ),
        (
            {"inputs": [1]},
            "inputs is no mapping of names to values: [1]",
            "e.g. inputs={'port': 1.5}",
        ),
        ({"when": 3}, "when is no text: 3", "e.g. when='node.port'"),
        (
            {"execution_list": "no"},
            "execution_list is neither True nor False: 'no'",
            "e.g. execution_list=True",
        ),
        ({"engine": []}, "engine cannot be []", "use onnxruntime or interpreter or modeci"),
    ],
)
def test_what_is_said(compiled, arguments, sentence, hint) -> None:
    with pytest.raises(LoopError) as raised:
        compiled.run(steps=2, **arguments)
    (finding,) = raised.value.findings
    assert (finding.what, finding.hint) == (sentence, hint)


@pytest.mark.parametrize("steps", [None, 2])
@pytest.mark.parametrize(
    "values", [["a", "b"], [None, 1], [[1], [2, 3]], [10**30, 1], [1j, 2], 3, {}, np.ones((2, 3))]
)
def test_a_sweep_of_what_does_not_fit_a_state(steps, values) -> None:
    node = {
        "input_ports": {"a": {"default_value": [1.0, 2.0]}},
        "parameters": {"v": {"default_initial_value": [0.0, 0.0], "value": "v + a"}},
        "output_ports": {"out": {"value": "v"}},
    }
    compiled = mdf_loop.compile({"m": {"graphs": {"g": {"nodes": {"n": node}}}}})
    with pytest.raises(LoopError):
        compiled.run(sweep={"n.v": values}, steps=steps)


@pytest.mark.parametrize("values", [[[1.0, 2.0, 3.0]] * 2, [1.0, 2.0, 3.0]])
def test_a_sweep_and_a_state_that_do_not_fit(compiled, values) -> None:
    state = compiled.run(steps=2, sweep={"n.v": [1.0, 2.0]}).state
    with pytest.raises(LoopError):
        compiled.run(steps=2, sweep={"n.v": values}, state=state)
