"""Random native loops: the results equal those of standard loops and of the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings

from mdf_loop.errors import RecordShapeError, RunError, UnsupportedError
from mdf_loop.ir import Program, loops
from mdf_loop.ir.check import check
from mdf_loop.native.bounds import FAULT_SENTENCE
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

TRAP_MESSAGE = "onnx::Identity cannot be computed of what it was given"
"""Error of ONNX Runtime for a loop that returns an array cast there and back outside of the loop."""

DIVISION_MESSAGE = "a whole number was divided by zero"
"""Error of a native integer division by zero, for which NumPy returns 0."""

REFUSED_REASONS = ("that runtimes compute differently", "that cannot be computed")
"""Parts of the rare reasons why a random loop in steps is standard."""

OutputsOrError = dict[str, np.ndarray] | str
random_settings = settings(
    max_examples=times(30, 12_500),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def prepared_program(case: Case) -> Program:
    assert check(case.program) == ()
    return prepare(case.program, ONNXRUNTIME)


def feeds(program: Program, case: Case) -> Mapping[str, Any]:
    return {
        program_input.value.name: case.arrays[program_input.value.name]
        for program_input in program.inputs
    }


def open_session(program: Program, case: Case, placement: Placement) -> Session:
    """Return a session of the program; its kernels check their accesses if `case.checked` is set."""
    with kernels_checked(case.checked):
        return Session(program, placement)


def run(program: Program, case: Case, placement: Placement) -> OutputsOrError:
    """Return the outputs or the error message, after a check that no access was out of bounds."""
    try:
        session = open_session(program, case, placement)
    except RunError:  # ONNX Runtime divides constants by zero when it loads them
        assert placement is STANDARD
        return interpreted(program, case)
    try:
        return session.run(feeds(program, case))
    except (RunError, RecordShapeError) as error:
        message = error.findings[0].what
        assert FAULT_SENTENCE not in message, message
        return interpreted(program, case) if message == TRAP_MESSAGE else message


def interpreted(program: Program, case: Case) -> OutputsOrError:
    with np.errstate(all="ignore"):
        try:
            return interpret(program, feeds(program, case))
        except (RunError, RecordShapeError) as error:
            return error.findings[0].what


def assert_equal_bits(outputs: OutputsOrError, expected: OutputsOrError) -> None:
    """Check that both runs have equal bits or that both failed; the first of several errors may differ.

    Arrays without elements may differ in their extents.
    """
    if isinstance(outputs, str) or isinstance(expected, str):
        assert isinstance(outputs, str) == isinstance(expected, str), (outputs, expected)
        return
    assert list(outputs) == list(expected)
    for name, array in expected.items():
        if array.size or outputs[name].size:
            assert same_bits(outputs[name], array), (name, outputs[name], array)
        assert outputs[name].ndim == array.ndim


def assert_close(outputs: OutputsOrError, expected: OutputsOrError) -> None:
    assert not isinstance(outputs, str)
    assert not isinstance(expected, str)
    for name, array in expected.items():
        if array.shape[:1] != (0,) or outputs[name].shape[:1] != (0,):
            np.testing.assert_allclose(outputs[name], array, rtol=1e-12, atol=1e-12, strict=True)


@random_settings
@given(native_loops(EXACT))
def test_exact_operations_equal_the_standard_loop(case: Case) -> None:
    program = prepared_program(case)
    assert_equal_bits(run(program, case, REQUIRED), run(program, case, STANDARD))


@random_settings
@given(native_loops(FIXED_BITS))
def test_fixed_bits_equal_the_interpreter(case: Case) -> None:
    program = prepared_program(case)
    outputs = run(program, case, REQUIRED)
    if outputs != DIVISION_MESSAGE:
        assert_equal_bits(outputs, interpreted(program, case))


@random_settings
@given(native_loops(SINGLE))
def test_single_numbers_equal_the_standard_loop(case: Case) -> None:
    program = prepared_program(case)
    assert_equal_bits(run(program, case, REQUIRED), run(program, case, STANDARD))


@random_settings
@given(native_loops(SMOOTH))
def test_functions_are_close_to_the_standard_loop(case: Case) -> None:
    program = prepared_program(case)
    assert_close(run(program, case, REQUIRED), run(program, case, STANDARD))
    form_by_loop = open_session(program, case, REQUIRED).native
    assert all(form == "native" for form in form_by_loop.values())
    assert len(list(loops(program))) <= len(form_by_loop)


@random_settings
@given(native_steps())
def test_loops_in_steps_equal_the_standard_loop(case: Case) -> None:
    program = prepared_program(case)
    try:
        open_session(program, case, REQUIRED)
    except UnsupportedError as error:
        reason = error.findings[0].what.partition(": ")[2]
        event(reason)
        assert any(refused_reason in reason for refused_reason in REFUSED_REASONS), reason
        return
    assert_equal_bits(run(program, case, REQUIRED), run(program, case, STANDARD))


UNKNOWN_EXTENT_REASONS = (
    *REFUSED_REASONS,
    *("may differ", "known only when it runs", "of what is computed", "may change its shape"),
)
"""Parts of the reasons why a random loop with unknown extents is standard."""


@random_settings
@given(native_extents())
def test_unknown_extents_equal_the_standard_loop(case: Case) -> None:
    program = prepared_program(case)
    try:
        open_session(program, case, REQUIRED)
    except UnsupportedError as error:
        reason = error.findings[0].what.partition(": ")[2]
        event(reason)
        assert any(refused_reason in reason for refused_reason in UNKNOWN_EXTENT_REASONS), reason
        return
    assert_equal_bits(run(program, case, REQUIRED), run(program, case, STANDARD))
