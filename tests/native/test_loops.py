"""Random native loops give what standard ones give, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings

from mdf_loop.errors import RecordShapeError, RunError, UnsupportedError
from mdf_loop.ir import Program, loops
from mdf_loop.ir.check import check
from mdf_loop.native.bounds import FAULT
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.device import Placement
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import REQUIRED, STANDARD, kernels_checked
from tests.soak import times
from tests.strategies.native_extents import native_extents
from tests.strategies.native_loops import EXACT, FIXED_BITS, SINGLE, SMOOTH, Case, native_loops
from tests.strategies.native_operations import same_bits
from tests.strategies.native_steps import native_steps

pytestmark = [pytest.mark.slow, pytest.mark.soak]

TRAP = "onnx::Identity cannot be computed of what it was given"
"""What ONNX Runtime says where a loop gives on what was cast there and back outside of it."""

DIVIDED = "a whole number was divided by zero"
"""Where numpy gives 0."""

REFUSED = ("that runtimes compute differently", "that cannot be computed")
"""Why steps that are drawn may be standard: seldom."""

Made = dict[str, np.ndarray] | str
random = settings(
    max_examples=times(30, 12_500),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def ready(case: Case) -> Program:
    assert check(case.program) == ()
    return prepare(case.program, ONNXRUNTIME)


def feeds(program: Program, case: Case) -> Mapping[str, Any]:
    return {entry.value.name: case.arrays[entry.value.name] for entry in program.inputs}


def loaded(program: Program, case: Case, placement: Placement) -> Session:
    """The program, ready; its kernels check their accesses if the case wants that."""
    with kernels_checked(case.checked):
        return Session(program, placement)


def run(program: Program, case: Case, placement: Placement) -> Made:
    """The outputs, or the sentence of the error; no kernel leaves its arrays."""
    try:
        session = loaded(program, case, placement)
    except RunError:  # ONNX Runtime divides constants by zero when it loads them
        assert placement is STANDARD
        return meant(program, case)
    try:
        return session.run(feeds(program, case))
    except (RunError, RecordShapeError) as error:
        what = error.findings[0].what
        assert FAULT not in what, what
        return meant(program, case) if what == TRAP else what


def meant(program: Program, case: Case) -> Made:
    with np.errstate(all="ignore"):
        try:
            return interpret(program, feeds(program, case))
        except (RunError, RecordShapeError) as error:
            return error.findings[0].what


def agree(made: Made, expected: Made) -> None:
    """The same bits, or an error: which of several checks fails first is open.

    No rows are nothing, of whatever extents.
    """
    if isinstance(made, str) or isinstance(expected, str):
        assert isinstance(made, str) == isinstance(expected, str), (made, expected)
        return
    assert list(made) == list(expected)
    for name, array in expected.items():
        if array.size or made[name].size:
            assert same_bits(made[name], array), (name, made[name], array)
        assert made[name].ndim == array.ndim


def near(made: Made, expected: Made) -> None:
    assert not isinstance(made, str)
    assert not isinstance(expected, str)
    for name, array in expected.items():
        if array.shape[:1] != (0,) or made[name].shape[:1] != (0,):
            np.testing.assert_allclose(made[name], array, rtol=1e-12, atol=1e-12, strict=True)


@random
@given(native_loops(EXACT))
def test_exact_operations(case: Case) -> None:
    program = ready(case)
    agree(run(program, case, REQUIRED), run(program, case, STANDARD))


@random
@given(native_loops(FIXED_BITS))
def test_what_they_mean(case: Case) -> None:
    program = ready(case)
    made = run(program, case, REQUIRED)
    if made != DIVIDED:
        agree(made, meant(program, case))


@random
@given(native_loops(SINGLE))
def test_single_numbers(case: Case) -> None:
    program = ready(case)
    agree(run(program, case, REQUIRED), run(program, case, STANDARD))


@random
@given(native_loops(SMOOTH))
def test_functions(case: Case) -> None:
    program = ready(case)
    near(run(program, case, REQUIRED), run(program, case, STANDARD))
    native = loaded(program, case, REQUIRED).native
    assert all(said == "native" for said in native.values())
    assert len(list(loops(program))) <= len(native)


@random
@given(native_steps())
def test_steps(case: Case) -> None:
    program = ready(case)
    try:
        loaded(program, case, REQUIRED)
    except UnsupportedError as error:
        reason = error.findings[0].what.partition(": ")[2]
        event(reason)
        assert any(words in reason for words in REFUSED), reason
        return
    agree(run(program, case, REQUIRED), run(program, case, STANDARD))


UNKNOWN = (
    *REFUSED,
    *("may differ", "known only when it runs", "of what is computed", "may change its shape"),
)
"""Why loops with such extents may be standard."""


@random
@given(native_extents())
def test_extents_that_are_known_when_it_runs(case: Case) -> None:
    program = ready(case)
    try:
        loaded(program, case, REQUIRED)
    except UnsupportedError as error:
        reason = error.findings[0].what.partition(": ")[2]
        event(reason)
        assert any(words in reason for words in UNKNOWN), reason
        return
    agree(run(program, case, REQUIRED), run(program, case, STANDARD))
