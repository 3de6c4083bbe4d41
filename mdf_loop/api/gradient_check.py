"""Comparison of derivatives with central differences, computed by one sweep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import GradientError
from mdf_loop.ir import Array
from mdf_loop.losses import Loss
from mdf_loop.results.gradient import Gradient, GradientCheck

MAX_CHECKED_ELEMENTS = 64
"""Largest number of checked elements of one parameter or input; they are evenly spaced."""

STEPS_AND_TOLERANCES: Mapping[str, tuple[float, float]] = {
    "float64": (1e-5, 1e-5),
    "float32": (5e-3, 1e-2),
}
"""Relative step of the differences, and tolerance of a derivative relative to the largest one, by dtype.

Differences with half of the step estimate the error of a difference."""

COARSE_RELATIVE_STEPS = (0.05, 0.5)
"""Relative steps for parameters that change the scalar only through iteration counts and comparisons.

The first step that changes the scalar is used."""

_SweepFunction = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""Function that returns the outputs of the members of a sweep along the first axis."""


def check_gradient(
    gradient: Gradient,
    at: Mapping[str, Array],
    losses: Sequence[Loss],
    outputs: Mapping[str, str],
    runs: _SweepFunction,
    front: int,
    stepwise_names: Collection[str] = (),
) -> GradientCheck:
    """Compare derivatives with central differences, and return the largest deviation.

    Args:
        gradient: The derivatives.
        at: The values of the differentiated parameters and inputs.
        losses: The terms of the scalar.
        outputs: Names in the results, by the names of outputs in `losses`.
        runs: A function that runs the members of a sweep.
        front: Number of axes of outputs between the axes of members and of time: 1 with trials, else 0.
        stepwise_names: Names by which the scalar changes only in steps.

    Raises:
        GradientError: A derivative differs from the difference. The message names the element.
    """
    gradient_check = GradientCheck()
    for name, values in at.items():
        checked_indices = _select_indices(values)
        if not checked_indices:  # an empty array has no derivatives
            continue
        fine_step, tolerance = STEPS_AND_TOLERANCES.get(str(values.dtype), (5e-2, 0.1))

        def evaluate_moved(
            relative_step: float, name: str = name, values: Array = values
        ) -> tuple[Array, Array]:
            step_sizes = np.array(
                [
                    relative_step * (abs(float(values[index])) or 1.0)
                    for index in _select_indices(values)
                ]
            )
            sweep = _build_sweep(at, name, step_sizes)
            member_count = len(sweep[name])
            loss_values = evaluate_scalars(losses, outputs, runs(sweep), member_count, front)
            return step_sizes, loss_values.reshape(-1, len(_STEP_MULTIPLES))

        if name in stepwise_names:
            differences, error_bounds = _compute_differences_in_steps(evaluate_moved, values.dtype)
        else:
            differences, error_bounds = _compute_differences(
                *evaluate_moved(fine_step), values.dtype
            )
        gradient_check = _compare_derivatives(
            gradient, name, checked_indices, differences, error_bounds, tolerance, gradient_check
        )
    return gradient_check


def _build_sweep(at: Mapping[str, Array], name: str, step_sizes: Array) -> dict[str, Array]:
    """Return a sweep that changes the checked elements of one parameter, one element at a time."""
    values = at[name]
    indices_and_steps = zip(_select_indices(values), step_sizes, strict=True)
    moved_values = [
        _move_element(values, index, step_size * step_multiple)
        for index, step_size in indices_and_steps
        for step_multiple in _STEP_MULTIPLES
    ]
    return {
        other_name: np.stack(
            moved_values if other_name == name else [base_values] * len(moved_values)
        )
        for other_name, base_values in at.items()
    }


def _compute_differences(step_sizes: Array, scalars: Array, dtype: Any) -> tuple[Array, Array]:
    """Return central differences with Richardson extrapolation, and bounds of their errors."""
    full_step_slopes = (scalars[:, 0] - scalars[:, 1]) / (2 * step_sizes)
    half_step_slopes = (scalars[:, 2] - scalars[:, 3]) / step_sizes
    rounding_bounds = _bound_rounding_errors(step_sizes, scalars, dtype)
    return half_step_slopes + (half_step_slopes - full_step_slopes) / 3, 10 * np.abs(
        half_step_slopes - full_step_slopes
    ) + rounding_bounds


def _compute_differences_in_steps(
    evaluate_moved: Callable[[float], tuple[Array, Array]], dtype: Any
) -> tuple[Array, Array]:
    """Return central differences of a piecewise constant loss, and bounds of their errors.

    The first step size that changes the loss is used.
    """
    for relative_step in COARSE_RELATIVE_STEPS:
        step_sizes, scalars = evaluate_moved(relative_step)
        if bool((scalars[:, 0] != scalars[:, 1]).any()):
            break
    return (scalars[:, 0] - scalars[:, 1]) / (2 * step_sizes), _bound_rounding_errors(
        step_sizes, scalars, dtype
    )


def _bound_rounding_errors(step_sizes: Array, scalars: Array, dtype: Any) -> Array:
    """Return an upper bound of the rounding error of each central difference."""
    error_bounds: Array = 16 * np.finfo(dtype).eps * np.abs(scalars).max(axis=1) / step_sizes
    return error_bounds


_STEP_MULTIPLES = (1.0, -1.0, 0.5, -0.5)
"""Positions at which the scalar is computed, in multiples of the step of an element."""


def _select_indices(values: Array) -> list[tuple[int, ...]]:
    """Return the indices of an array's elements whose derivatives are checked."""
    flat_indices = np.unique(
        np.linspace(0, values.size - 1, min(values.size, MAX_CHECKED_ELEMENTS)).round().astype(int)
    )
    return [
        tuple(int(k) for k in np.unravel_index(flat_index, values.shape))
        for flat_index in flat_indices
    ]


def _move_element(values: Array, index: tuple[int, ...], step: float) -> Array:
    """Return a copy of an array with `step` added to one element."""
    moved_values = values.copy()
    moved_values[index] += step
    return moved_values


def evaluate_scalars(
    losses: Sequence[Loss],
    outputs: Mapping[str, str],
    arrays: Mapping[str, Array],
    members: int,
    front: int,
) -> Array:
    """Return the scalar objective of each member of a sweep, computed from its outputs.

    Args:
        losses: The terms of the scalar.
        outputs: Names in the results, by the names of outputs in `losses`.
        arrays: The outputs of all members by these names, with a leading axis of members.
        members: The number of members.
        front: The number of axes of outputs between the axes of members and of time.
    """
    scalar_sums = np.zeros(members)
    for loss in losses:
        member_outputs = np.asarray(arrays[outputs[loss.output]], np.float64)
        scalar_sums += [
            _evaluate_term(loss, member_output, front) for member_output in member_outputs
        ]
    return scalar_sums


def _evaluate_term(loss: Loss, rows: Array, front: int) -> float:
    """Return one term of the scalar objective for the output of one member of a sweep."""
    match loss.term_kind:
        case "sum":
            return float(np.sum(rows))
        case "mean":
            return float(np.mean(rows))
        case "last":
            return float(np.sum(np.moveaxis(rows, front, 0)[-1] if rows.ndim > front else rows))
        case "sse":
            return float(np.sum((rows - loss.data) ** 2))
        case _:
            return float(np.sum(rows * loss.data))


def _compare_derivatives(
    gradient: Gradient,
    name: str,
    checked_indices: Sequence[tuple[int, ...]],
    differences: Array,
    error_bounds: Array,
    tolerance: float,
    check: GradientCheck,
) -> GradientCheck:
    """Compare the derivatives by one parameter with differences, and return the updated report.

    Raises:
        GradientError: A derivative deviates by more than the tolerance and the error bound.
    """
    derivatives = np.array([gradient[name][element_index] for element_index in checked_indices])
    gradient_scale = max(float(np.max(np.abs(gradient[name]), initial=0)), 1e-12)
    deviations = np.abs(derivatives - differences)
    is_wrong = ~(deviations <= tolerance * gradient_scale + error_bounds)
    if is_wrong.any():
        failed_index = int(np.argmax(np.where(is_wrong, np.nan_to_num(deviations, nan=np.inf), -1)))
        raise GradientError(
            f"the derivative by '{format_element_name(name, checked_indices[failed_index])}' is {derivatives[failed_index]:.12g}, but central "
            f"differences give {differences[failed_index]:.12g}",
            hint="a kink, a spike or a count of iterations may lie between the two: they are held fixed",
        )
    worst_index = int(np.argmax(deviations))
    largest_deviation = float(deviations[worst_index]) / (
        float(np.max(np.abs(gradient[name]), initial=0)) or 1.0
    )
    element_count = check.elements + len(checked_indices)
    if largest_deviation < check.largest:
        return GradientCheck(element_count, check.largest, check.where)
    return GradientCheck(
        element_count, largest_deviation, format_element_name(name, checked_indices[worst_index])
    )


def format_element_name(name: str, index: tuple[int, ...]) -> str:
    """Return the name of an array element as text, such as `cell.M[3, 4]`."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name
