"""A program differentiated in every form, forward, and by central differences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from mdf_loop.ir import Loop, Program
from mdf_loop.ir.check import check
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.passes.gradient.backward_strategy import (
    apply_or_fall_back,
    backward_for_native,
    backward_for_onnxruntime,
)
from mdf_loop.passes.gradient.differentiate import cotangent_name, differentiate
from mdf_loop.passes.gradient.forward import tangent_name, tangents
from mdf_loop.passes.gradient.jacobian_backward import has_small_state, jacobian_backward
from mdf_loop.passes.gradient.loop_backward import loop_backward
from mdf_loop.passes.gradient.reverse import LoopBackward, Reverse
from mdf_loop.passes.gradient.split_backward import split_backward
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.device import Placement
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.passes.gradient.both_ways import VALUE, Arrays, directions
from tests.placements import NATIVE, STANDARD

STEPS = (6e-6, 2e-6, 1e-6)


def all_at_once(reverse: Reverse, outside: Sweep, loop: Loop) -> None:
    apply_or_fall_back(split_backward, reverse, outside, loop)


def matrices(reverse: Reverse, outside: Sweep, loop: Loop) -> None:
    apply_or_fall_back(
        jacobian_backward if has_small_state(reverse, loop) else loop_backward,
        reverse,
        outside,
        loop,
    )


FORMS: Mapping[str, LoopBackward] = {
    "plain": loop_backward,
    "split": all_at_once,
    "matrices": matrices,
    "kernels": backward_for_onnxruntime,
    "machine code": backward_for_native,
}


def slopes_of(
    program: Program, arrays: Arrays, wrt: Collection[str], form: LoopBackward
) -> dict[str, np.ndarray]:
    gradient = differentiate(program, VALUE, wrt, loop_rule=form)
    assert check(gradient) == ()
    return slopes_in(interpret(gradient, arrays), wrt)


def slopes_in(outputs: Arrays, wrt: Collection[str]) -> dict[str, np.ndarray]:
    return {name: np.asarray(outputs[cotangent_name(name)]) for name in wrt}


def assert_same(actual: Arrays, expected: Arrays, tolerance: float, label: str) -> None:
    """Check that derivatives are equal up to a fraction of the largest one, since the order of sums differs."""
    size = 1e-3 + max(float(np.max(np.abs(array), initial=0)) for array in expected.values())
    for name, array in expected.items():
        assert actual[name].shape == array.shape, (label, name)
        np.testing.assert_allclose(
            actual[name], array, rtol=0, atol=tolerance * size, err_msg=f"{label}: {name}"
        )


def differences(program: Program, arrays: Arrays, moves: Arrays) -> Iterator[float]:
    """Yield directional derivatives of the objective from differences with decreasing steps."""
    for step in STEPS:
        sides = [
            interpret(program, {**arrays, **{n: arrays[n] + way * t for n, t in moves.items()}})
            for way in (step, -step)
        ]
        yield float((sides[0][VALUE] - sides[1][VALUE]) / (2 * step))


def assert_near_differences(program: Program, arrays: Arrays, moves: Arrays, slope: float) -> None:
    """Compare a slope with central differences, unless these differ from each other, as at a kink."""
    errors: list[float] = []
    for difference in differences(program, arrays, moves):
        errors.append(difference)
        if abs(difference - slope) <= 1e-6 * (1 + abs(slope)):
            return
    spread = max(errors) - min(errors)
    assert spread > 1e-5 * (1 + abs(slope)), (slope, errors)


def assert_all_forms(program: Program, arrays: Arrays, wrt: Collection[str]) -> None:
    """Check all backward forms and forward mode in the interpreter."""
    assert check(program) == ()
    slopes = slopes_of(program, arrays, wrt, loop_backward)
    for name, form in FORMS.items():
        assert_same(slopes_of(program, arrays, wrt, form), slopes, 1e-10, name)
    moves = directions(arrays, wrt)
    slope = float(sum(np.sum(slopes[name] * t) for name, t in moves.items()))
    derived = tangents(program, wrt, [VALUE])
    assert check(derived) == ()
    outputs = interpret(derived, {**arrays, **{tangent_name(n): t for n, t in moves.items()}})
    size = float(sum(np.sum(np.abs(slopes[n] * t)) for n, t in moves.items()))
    assert abs(outputs[tangent_name(VALUE)] - slope) <= 1e-10 * (1e-3 + size)
    assert_near_differences(program, arrays, moves, slope)


def assert_on_runtime(
    program: Program, arrays: Arrays, wrt: Collection[str], *forms: tuple[LoopBackward, Placement]
) -> None:
    """Check that ONNX Runtime equals the interpreter, with its own loops and with native code."""
    expected = slopes_of(program, arrays, wrt, loop_backward)
    for form, placement in (
        (backward_for_onnxruntime, STANDARD),
        (backward_for_native, NATIVE),
        *forms,
    ):
        gradient = differentiate(program, VALUE, wrt, loop_rule=form)
        outputs = Session(prepare(gradient, ONNXRUNTIME), placement).run(arrays)
        assert_same(slopes_in(outputs, wrt), expected, 1e-9, f"{form.__name__} {placement.native}")
