"""Comparison of derivatives with central differences, whose runs are one sweep."""

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

COARSE_STEPS = (0.05, 0.5)
"""Relative steps for parameters that change the scalar only through iteration counts and comparisons.

The first step that changes the scalar is used."""

_Runs = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""Function that returns the outputs of the members of a sweep along the first axis."""


def check_gradient(
    gradient: Gradient,
    at: Mapping[str, Array],
    losses: Sequence[Loss],
    outputs: Mapping[str, str],
    runs: _Runs,
    front: int,
    in_steps: Collection[str] = (),
) -> GradientCheck:
    """Compare derivatives with central differences, and return the largest deviation.

    Args:
        gradient: The derivatives.
        at: The values of the differentiated parameters and inputs.
        losses: The terms of the scalar.
        outputs: Names in the results, by the names of outputs in `losses`.
        runs: A function that runs the members of a sweep.
        front: Number of axes of outputs between the axes of members and of time: 1 with trials, else 0.
        in_steps: Names by which the scalar changes only in steps.

    Raises:
        GradientError: A derivative differs from the difference. The message names the element.
    """
    check = GradientCheck()
    for name, values in at.items():
        places = _select_indices(values)
        if not places:  # an empty array has no derivatives
            continue
        near, allowed = STEPS_AND_TOLERANCES.get(str(values.dtype), (5e-2, 0.1))

        def moved(part: float, name: str = name, values: Array = values) -> tuple[Array, Array]:
            steps = np.array(
                [part * (abs(float(values[p])) or 1.0) for p in _select_indices(values)]
            )
            sweep = _build_sweep(at, name, steps)
            count = len(sweep[name])
            numbers = evaluate_scalars(losses, outputs, runs(sweep), count, front)
            return steps, numbers.reshape(-1, len(_POSITIONS))

        if name in in_steps:
            exact, doubt = _compute_differences_in_steps(moved, values.dtype)
        else:
            exact, doubt = _compute_differences(*moved(near), values.dtype)
        check = _compare_derivatives(gradient, name, places, exact, doubt, allowed, check)
    return check


def _build_sweep(at: Mapping[str, Array], name: str, steps: Array) -> dict[str, Array]:
    """Return a sweep that changes the checked elements of one parameter or input one by one."""
    values = at[name]
    pairs = zip(_select_indices(values), steps, strict=True)
    rows = [_move_element(values, place, step * k) for place, step in pairs for k in _POSITIONS]
    return {n: np.stack(rows if n == name else [fixed] * len(rows)) for n, fixed in at.items()}


def _compute_differences(steps: Array, numbers: Array, dtype: Any) -> tuple[Array, Array]:
    """Return extrapolated central differences (Richardson), and an error bound of each."""
    wide = (numbers[:, 0] - numbers[:, 1]) / (2 * steps)
    half = (numbers[:, 2] - numbers[:, 3]) / steps
    rounding = _bound_rounding_errors(steps, numbers, dtype)
    return half + (half - wide) / 3, 10 * np.abs(half - wide) + rounding


def _compute_differences_in_steps(
    moved: Callable[[float], tuple[Array, Array]], dtype: Any
) -> tuple[Array, Array]:
    """Return central differences, and bounds of their rounding errors, for steps that change the loss."""
    for part in COARSE_STEPS:
        steps, numbers = moved(part)
        if bool((numbers[:, 0] != numbers[:, 1]).any()):
            break
    return (numbers[:, 0] - numbers[:, 1]) / (2 * steps), _bound_rounding_errors(
        steps, numbers, dtype
    )


def _bound_rounding_errors(steps: Array, numbers: Array, dtype: Any) -> Array:
    """Return a bound of the rounding error of each difference."""
    bound: Array = 16 * np.finfo(dtype).eps * np.abs(numbers).max(axis=1) / steps
    return bound


_POSITIONS = (1.0, -1.0, 0.5, -0.5)
"""Positions at which the scalar is computed, in multiples of the step of an element."""


def _select_indices(values: Array) -> list[tuple[int, ...]]:
    """Return the indices of the checked elements of an array."""
    flat = np.unique(
        np.linspace(0, values.size - 1, min(values.size, MAX_CHECKED_ELEMENTS)).round().astype(int)
    )
    return [tuple(int(k) for k in np.unravel_index(place, values.shape)) for place in flat]


def _move_element(values: Array, place: tuple[int, ...], step: float) -> Array:
    """Return a copy of an array, in which a step is added to one element."""
    moved = values.copy()
    moved[place] += step
    return moved


def evaluate_scalars(
    losses: Sequence[Loss],
    outputs: Mapping[str, str],
    arrays: Mapping[str, Array],
    members: int,
    front: int,
) -> Array:
    """Return the differentiated scalar of each member.

    Args:
        losses: The terms of the scalar.
        outputs: Names in the results, by the names of outputs in `losses`.
        arrays: The outputs of all members by these names, with a leading axis of members.
        members: The number of members.
        front: The number of axes of outputs between the axes of members and of time.
    """
    total = np.zeros(members)
    for loss in losses:
        rows = np.asarray(arrays[outputs[loss.output]], np.float64)
        total += [_evaluate_term(loss, row, front) for row in rows]
    return total


def _evaluate_term(loss: Loss, rows: Array, front: int) -> float:
    """Return the value of one term of the scalar for the rows of one member."""
    match loss.word:
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
    places: Sequence[tuple[int, ...]],
    exact: Array,
    doubt: Array,
    allowed: float,
    check: GradientCheck,
) -> GradientCheck:
    """Compare the derivatives by one name with differences, and return the updated check.

    Raises:
        GradientError: A derivative deviates by more than the tolerance and the error bound.
    """
    derivatives = np.array([gradient[name][place] for place in places])
    scale = max(float(np.max(np.abs(gradient[name]), initial=0)), 1e-12)
    off = np.abs(derivatives - exact)
    wrong = ~(off <= allowed * scale + doubt)
    if wrong.any():
        k = int(np.argmax(np.where(wrong, np.nan_to_num(off, nan=np.inf), -1)))
        raise GradientError(
            f"the derivative by '{format_element_name(name, places[k])}' is {derivatives[k]:.12g}, but central "
            f"differences give {exact[k]:.12g}",
            hint="a kink, a spike or a count of iterations may lie between the two: they are held fixed",
        )
    worst = int(np.argmax(off))
    largest = float(off[worst]) / (float(np.max(np.abs(gradient[name]), initial=0)) or 1.0)
    elements = check.elements + len(places)
    if largest < check.largest:
        return GradientCheck(elements, check.largest, check.where)
    return GradientCheck(elements, largest, format_element_name(name, places[worst]))


def format_element_name(name: str, place: tuple[int, ...]) -> str:
    """Return the name of an element, such as `cell.M[3, 4]`."""
    return f"{name}[{', '.join(map(str, place))}]" if place else name
