"""Law of a run: the compiled model equals modeci_mdf's engine, or refuses the model with a reason.

`judge` returns the case, or raises `BrokenError` with all details:

- `equal`: both return numbers of equal value, shape and number type;
- `both refuse`: the engine fails, and the compiler refuses the model;
- a refusal or a difference that is listed here, with its reason.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

import mdf_loop
from mdf_loop.errors import LoopError
from mdf_loop.importing.opening import open_document
from mdf_loop.verification.differences import differences
from tests.over_time.engine import EndlessScheduleError, Rules, Trace, trace
from tests.strategies.models_over_time import Run

TOLERANCE = 1e-12
"""Relative difference up to which functions such as exp may round differently."""

_ROUNDED = re.compile(
    r"math\.|numpy\.|\*\*|@|%|//|sum\(|round\(|exponential|logistic|sin|cos|tan|MatMul"
)
"""Operations whose last bits may differ; all others are compared bit for bit."""

REFUSED: tuple[tuple[str, str], ...] = (
    ("a shape that depends on the step", "depending on the step"),
)
"""Refusals of models that the engine runs: reason, pattern of the message."""

ENGINE_ONLY: tuple[tuple[str, str], ...] = (
    ("round() of a list", "doesn't define __round__ method"),
    ("- of numpy's truth values", "numpy boolean negative"),
    ("a list as the weight of a number", "can't multiply sequence by non-int"),
    ("[] of what is a number at first", "not subscriptable|invalid index|too many indices"),
    ("@ of what is a number at first", "matmul: Input operand . does not have enough dimensions"),
    ("a number divided by zero, which nothing shows", "float division by zero"),
)
"""Failures of the engine for models that we compute: reason, pattern of Python's message."""


class BrokenError(AssertionError):
    """Error for a compiled model that differs from the engine."""

    def __init__(self, reason: str, run: Run, detail: str = "") -> None:
        self.reason = reason
        settings = f"steps={run.steps}, dt={run.dt}, inputs={run.inputs}"
        super().__init__(f"{reason}\n{detail}\n{settings}\n{json.dumps(run.model)}")


def judge(run: Run) -> str:
    """Return the verdict on a run in one or two words, as listed in the docstring of this module."""
    inputs = {name: np.asarray(value) for name, value in run.inputs.items()}
    theirs = trace(run.model, run.dts, inputs)
    try:
        ours = _ours(run, inputs)
    except LoopError as error:
        return _refused(run, error, theirs, inputs)
    except Exception as error:
        raise BrokenError(
            f"a {type(error).__name__} instead of a LoopError", run, repr(error)
        ) from error
    if isinstance(theirs.error, EndlessScheduleError):
        raise BrokenError("the engine's schedule does not end, but we give numbers", run)
    beyond = _beyond_64_bits(theirs)
    if beyond:
        return beyond
    verdict = _same_rows(run, ours, theirs, inputs)
    if verdict != "equal":
        return verdict
    if theirs.error is not None:
        return _fails_there(run, ours, theirs)
    return _same_kinds(run, ours, inputs)


def _ours(run: Run, inputs: dict[str, Any]) -> mdf_loop.Results:
    compiled = mdf_loop.compile(run.model, device="cpu")
    return compiled.run(inputs, steps=run.steps, dt=run.dt, record=recorded(run.model))


def recorded(model: dict[str, Any]) -> list[str]:
    """Return the names of all output ports, parameters and functions."""
    return [
        f"{node}.{name}"
        for node, content in model["g"]["nodes"].items()
        for part in ("output_ports", "parameters", "functions")
        for name in content.get(part, {})
    ]


def _longer(run: Run) -> list[float | None]:
    """Return the time increments of the run and of more steps, because types hold for any number of steps."""
    return [*run.dts, *[run.dt] * 4]


# --- when one of the two fails ----------------------------------------------------------------


def _refused(run: Run, error: LoopError, theirs: Trace, inputs: dict[str, Any]) -> str:
    if theirs.error is not None:
        return "both refuse"
    if trace(run.model, _longer(run), inputs).error is not None:
        return "refused: the engine fails at a later step"
    for reason, pattern in REFUSED:
        if re.search(pattern, str(error)):
            return f"refused: {reason}"
    raise BrokenError("we refuse what the engine runs", run, str(error))


def _beyond_64_bits(theirs: Trace) -> str:
    for row in theirs.rows:
        for value in row.values():
            if type(value) is int and abs(value) > 2**53:
                return "whole numbers beyond 53 bits"
    return ""


def _fails_there(run: Run, ours: mdf_loop.Results, theirs: Trace) -> str:
    at = len(theirs.rows)
    row = [np.asarray(ours[name])[at] for name in ours]
    if any(not np.all(np.isfinite(value)) for value in row if value.dtype.kind == "f"):
        return "inf or nan where the engine fails"
    for reason, pattern in ENGINE_ONLY:
        if re.search(pattern, theirs.cause):
            return f"engine fails: {reason}"
    raise BrokenError(
        "the engine fails, but we give numbers", run, f"step {at}: {theirs.cause}: {theirs.error!r}"
    )


# --- when both give numbers -------------------------------------------------------------------


def _same_rows(run: Run, ours: mdf_loop.Results, theirs: Trace, inputs: dict[str, Any]) -> str:
    rounded = bool(_ROUNDED.search(json.dumps(run.model)))
    recorded = {name: ours.rows(name) for name in ours}
    for step, row in enumerate(theirs.rows):
        for name, value in row.items():
            if name not in ours:
                raise BrokenError(f"'{name.split('.')[1][0]}' is not recorded", run, name)
            computed = recorded[name][step]
            where = f"{name} at step {step}: {computed!r} against the engine's {value!r}"
            if value is None:
                raise BrokenError("the engine has no value, but we have", run, where)
            expected = np.asarray(value)
            if _extents(computed) != _extents(expected):
                if not _is_widened(computed, expected):
                    raise BrokenError("another shape", run, where)
                expected = np.broadcast_to(expected, computed.shape)
            if not _same(computed, expected, rounded):
                if rounded and _depends_on_last_bits(run, inputs, step, name, computed, expected):
                    return "equal up to a step that depends on last bits"
                if _overlooks_a_state(run):
                    return "the engine overlooks a state, as check says"
                raise BrokenError("other numbers", run, where)
    return "equal"


def _overlooks_a_state(run: Run) -> bool:
    document = open_document(run.model)
    return any("does not see" in note.what for note in differences(document, {}))


def _depends_on_last_bits(
    run: Run, inputs: dict[str, Any], step: int, name: str, ours: Any, expected: Any
) -> bool:
    """Return True if the engine's value changes as much when functions like sin and exp round differently."""
    spread = 0.0
    for rules in (Rules.UP, Rules.DOWN):
        nudged = trace(run.model, run.dts[: step + 1], inputs, rules)
        if len(nudged.rows) <= step:
            return True
        other = np.broadcast_to(np.asarray(nudged.rows[step][name]), expected.shape)
        spread = max(spread, float(np.max(np.abs(other - expected))))
    return float(np.max(np.abs(ours - expected))) <= 4 * spread


def _extents(array: Any) -> list[int]:
    """Return the shape without axes of extent 1, which the engine adds to plain numbers."""
    return [extent for extent in array.shape if extent != 1]


def _is_widened(ours: Any, expected: Any) -> bool:
    """Return True if a value has from the start the full shape that it gets later in the engine."""
    try:
        return np.broadcast_shapes(ours.shape, expected.shape) == ours.shape
    except ValueError:
        return False


def _same(ours: Any, expected: Any, rounded: bool) -> bool:
    left = ours.reshape(-1).astype(float)
    right = expected.reshape(-1).astype(float)
    if np.array_equal(left, right, equal_nan=True):
        return True
    if not rounded:
        return False
    with np.errstate(all="ignore"):
        size = np.max(np.abs(right), where=np.isfinite(right), initial=1e-3)
        return np.allclose(
            left, right, rtol=TOLERANCE, atol=8 * np.finfo(float).eps * size, equal_nan=True
        )


_EITHER = re.compile(r" if |\bor\b|\band\b|\bmin\(|\bmax\(")
"""Expressions with which Python returns one of several values, an int or a float; we have one type."""


def _same_kinds(run: Run, ours: mdf_loop.Results, inputs: dict[str, Any]) -> str:
    """Check that the number type of each value is the intended one, with which floats stay floats."""
    intended = trace(run.model, _longer(run), inputs, Rules.KINDS)
    if intended.error is not None:
        return "equal"
    for name in ours:
        rows = [np.asarray(row[name]) for row in intended.rows]
        kinds = {np.result_type(*rows[:k]).kind for k in (run.steps, len(rows))}
        kind = np.asarray(ours[name]).dtype.kind
        if kind not in kinds:
            if kind == "f" and _EITHER.search(json.dumps(run.model)):
                return "equal, a float for one of an int and a float"
            types = [str(row.dtype) for row in rows]
            raise BrokenError("another number type", run, f"{name}: {kind} against {types}")
    return "equal"
