"""Arguments of any type to Python functions are accepted or raise one LoopError, and no other exception."""

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


class UnknownObject:
    """An object of an unknown class, whose repr is the same in every process."""

    def __repr__(self) -> str:
        return "a thing"


WRONG_VALUES: list[Any] = [
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
    {"a": UnknownObject()},
    {"n.g": "x"},
    {"n.g": [[1], [2, 3]]},
    {"n.v": ["a", "b"]},
    {"n.g": {"a": 1}},
    {"n.g": [10**30, 1]},
    UnknownObject(),
    len,
    np.array([1, 2]),
]


@pytest.fixture(scope="module")
def compiled() -> CompiledModel:
    return mdf_loop.compile(MODEL)


@pytest.fixture(scope="module")
def results(compiled: CompiledModel) -> Any:
    return compiled.run(steps=2, dt=0.1)


def call_or_loop_error(call: Callable[..., Any], **arguments: Any) -> None:
    with contextlib.suppress(LoopError):
        call(**arguments)


RUN_ARGUMENTS = [
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


@pytest.mark.parametrize("argument", RUN_ARGUMENTS)
def test_arguments_of_run(compiled, argument, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong_value in WRONG_VALUES:
        call_or_loop_error(compiled.run, steps=2, progress=False, **{argument: wrong_value})


@pytest.mark.parametrize(
    "wrong_value",
    [wrong_value for wrong_value in WRONG_VALUES if not isinstance(wrong_value, bool)],
    ids=repr,
)
def test_wrong_steps_are_refused(compiled, wrong_value) -> None:
    if not (isinstance(wrong_value, int) and wrong_value == 3):
        with pytest.raises(LoopError, match="steps must be a whole number above 0"):
            compiled.run(steps=wrong_value)


@pytest.mark.parametrize("argument", ["device", "precision", "shapes", "max_iterations", "unroll"])
def test_arguments_of_compile(argument) -> None:
    for wrong_value in WRONG_VALUES:
        call_or_loop_error(mdf_loop.compile, source=MODEL, **{argument: wrong_value})


@pytest.mark.parametrize(
    "argument",
    ["level", "depth", "captures", "rankdir", "focus", "collapse", "over_time", "target"],
)
def test_arguments_of_draw(argument, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong_value in WRONG_VALUES:
        call_or_loop_error(mdf_loop.draw, source=MODEL, **{argument: wrong_value})


@pytest.mark.slow
def test_arguments_of_other_functions(compiled, results, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong_value in WRONG_VALUES:
        for function in (mdf_loop.read, mdf_loop.explain, mdf_loop.compile, mdf_loop.from_onnx):
            call_or_loop_error(function, source=wrong_value)
        call_or_loop_error(mdf_loop.read, source=MODEL, inputs=wrong_value)
        call_or_loop_error(mdf_loop.read, source=MODEL, record=wrong_value)
        call_or_loop_error(mdf_loop.fold, source=MODEL, nodes=wrong_value)
        call_or_loop_error(mdf_loop.fold, source=MODEL, nodes=["n"], carry=wrong_value)
        call_or_loop_error(mdf_loop.unfold, source=MODEL, loop=wrong_value)
        call_or_loop_error(compiled.to_onnx, inputs=wrong_value)
        call_or_loop_error(compiled.prepare, inputs=wrong_value)
        call_or_loop_error(results.save, path=wrong_value)
        call_or_loop_error(results.plot, names=wrong_value)
        call_or_loop_error(results.plot, title=wrong_value)


@pytest.mark.parametrize("argument", ["inputs", "set"])
def test_wrong_arguments_of_verify_are_refused(argument) -> None:
    for wrong_value in ([1], {3: 1}, np.array([1, 2]), {"n.g": "x"}):
        with pytest.raises(LoopError):
            mdf_loop.verify(MODEL, **{argument: wrong_value})


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
def test_messages_and_hints(compiled, arguments, sentence, hint) -> None:
    with pytest.raises(LoopError) as caught:
        compiled.run(steps=2, **arguments)
    (finding,) = caught.value.findings
    assert (finding.what, finding.hint) == (sentence, hint)


@pytest.mark.parametrize("steps", [None, 2])
@pytest.mark.parametrize(
    "values", [["a", "b"], [None, 1], [[1], [2, 3]], [10**30, 1], [1j, 2], 3, {}, np.ones((2, 3))]
)
def test_swept_values_that_do_not_fit_a_state_are_refused(steps, values) -> None:
    node = {
        "input_ports": {"a": {"default_value": [1.0, 2.0]}},
        "parameters": {"v": {"default_initial_value": [0.0, 0.0], "value": "v + a"}},
        "output_ports": {"out": {"value": "v"}},
    }
    compiled = mdf_loop.compile({"m": {"graphs": {"g": {"nodes": {"n": node}}}}})
    with pytest.raises(LoopError):
        compiled.run(sweep={"n.v": values}, steps=steps)


@pytest.mark.parametrize("values", [[[1.0, 2.0, 3.0]] * 2, [1.0, 2.0, 3.0]])
def test_a_sweep_that_does_not_fit_the_saved_state_is_refused(compiled, values) -> None:
    state = compiled.run(steps=2, sweep={"n.v": [1.0, 2.0]}).state
    with pytest.raises(LoopError):
        compiled.run(steps=2, sweep={"n.v": values}, state=state)
