"""Comparison of derivatives with central differences, whose runs are one sweep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import GradientError
from mdf_loop.ir import Array
from mdf_loop.losses import Loss
from mdf_loop.results.gradient import Gradient, GradientCheck

MOST = 64
"""Elements of one parameter or input that are looked at, evenly spaced."""

NEAR: Mapping[str, tuple[float, float]] = {"float64": (1e-5, 1e-5), "float32": (5e-3, 1e-2)}
"""By dtype how far above and below, in parts of a number (and half as far, which tells how exact a
difference is), and how much a derivative may be off, in parts of the largest."""

WIDE = (0.05, 0.5)
"""How far above and below, in parts of a number, where only iteration counts and comparisons change: as far as
the first of these that changes the number."""

_Runs = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""Outputs of a sweep, with its members in front."""


def checked(
    gradient: Gradient,
    at: Mapping[str, Array],
    losses: Sequence[Loss],
    outputs: Mapping[str, str],
    runs: _Runs,
    front: int,
    in_steps: Collection[str] = (),
) -> GradientCheck:
    """Compare derivatives with central differences.

    Args:
        gradient: the derivatives.
        at: the values by which was differentiated.
        losses: Terms of the number.
        outputs: Names in the results, by the names of outputs in losses.
        runs: the model itself.
        front: how many axes outputs have between that of members and that of time: one for trials.
        in_steps: names by which the number changes only in steps.

    Raises:
        GradientError: one differs; the sentence names the element.
    """
    check = GradientCheck()
    for name, values in at.items():
        places = _places(values)
        if not places:  # there is nothing to move
            continue
        near, allowed = NEAR.get(str(values.dtype), (5e-2, 0.1))

        def moved(part: float, name: str = name, values: Array = values) -> tuple[Array, Array]:
            steps = np.array([part * (abs(float(values[p])) or 1.0) for p in _places(values)])
            sweep = _sweep(at, name, steps)
            count = len(sweep[name])
            numbers = numbers_of(losses, outputs, runs(sweep), count, front)
            return steps, numbers.reshape(-1, len(_AT))

        if name in in_steps:
            exact, doubt = _differences_in_steps(moved, values.dtype)
        else:
            exact, doubt = _differences(*moved(near), values.dtype)
        check = _compared(gradient, name, places, exact, doubt, allowed, check)
    return check


def _sweep(at: Mapping[str, Array], name: str, steps: Array) -> dict[str, Array]:
    """Return the members of a sweep in which each element of one name is moved by its step."""
    values = at[name]
    pairs = zip(_places(values), steps, strict=True)
    rows = [_moved(values, place, step * k) for place, step in pairs for k in _AT]
    return {n: np.stack(rows if n == name else [fixed] * len(rows)) for n, fixed in at.items()}


def _differences(steps: Array, numbers: Array, dtype: Any) -> tuple[Array, Array]:
    """Return extrapolated central differences, with an error bound for each."""
    wide = (numbers[:, 0] - numbers[:, 1]) / (2 * steps)
    half = (numbers[:, 2] - numbers[:, 3]) / steps
    rounding = _rounding(steps, numbers, dtype)
    return half + (half - wide) / 3, 10 * np.abs(half - wide) + rounding


def _differences_in_steps(
    moved: Callable[[float], tuple[Array, Array]], dtype: Any
) -> tuple[Array, Array]:
    """Return plain central differences over steps that change the number, and their rounding errors."""
    for part in WIDE:
        steps, numbers = moved(part)
        if bool((numbers[:, 0] != numbers[:, 1]).any()):
            break
    return (numbers[:, 0] - numbers[:, 1]) / (2 * steps), _rounding(steps, numbers, dtype)


def _rounding(steps: Array, numbers: Array, dtype: Any) -> Array:
    bound: Array = 16 * np.finfo(dtype).eps * np.abs(numbers).max(axis=1) / steps
    return bound


_AT = (1.0, -1.0, 0.5, -0.5)


def _places(values: Array) -> list[tuple[int, ...]]:
    flat = np.unique(np.linspace(0, values.size - 1, min(values.size, MOST)).round().astype(int))
    return [tuple(int(k) for k in np.unravel_index(place, values.shape)) for place in flat]


def _moved(values: Array, place: tuple[int, ...], step: float) -> Array:
    moved = values.copy()
    moved[place] += step
    return moved


def numbers_of(
    losses: Sequence[Loss],
    outputs: Mapping[str, str],
    arrays: Mapping[str, Array],
    members: int,
    front: int,
) -> Array:
    """Return the differentiated number of each member.

    Args:
        losses: Terms of the number.
        outputs: Names in the results, by the names of outputs in losses.
        arrays: Outputs by these names, with members in front.
        members: the number of members.
        front: how many axes outputs have between that of members and that of time.
    """
    total = np.zeros(members)
    for loss in losses:
        rows = np.asarray(arrays[outputs[loss.output]], np.float64)
        total += [_number(loss, row, front) for row in rows]
    return total


def _number(loss: Loss, rows: Array, front: int) -> float:
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


def _compared(
    gradient: Gradient,
    name: str,
    places: Sequence[tuple[int, ...]],
    exact: Array,
    doubt: Array,
    allowed: float,
    check: GradientCheck,
) -> GradientCheck:
    derivatives = np.array([gradient[name][place] for place in places])
    scale = max(float(np.max(np.abs(gradient[name]), initial=0)), 1e-12)
    off = np.abs(derivatives - exact)
    wrong = ~(off <= allowed * scale + doubt)
    if wrong.any():
        k = int(np.argmax(np.where(wrong, np.nan_to_num(off, nan=np.inf), -1)))
        raise GradientError(
            f"the derivative by '{shown(name, places[k])}' is {derivatives[k]:.12g}, but central "
            f"differences give {exact[k]:.12g}",
            hint="a kink, a spike or a count of iterations may lie between the two: they are held fixed",
        )
    worst = int(np.argmax(off))
    largest = float(off[worst]) / (float(np.max(np.abs(gradient[name]), initial=0)) or 1.0)
    elements = check.elements + len(places)
    if largest < check.largest:
        return GradientCheck(elements, check.largest, check.where)
    return GradientCheck(elements, largest, shown(name, places[worst]))


def shown(name: str, place: tuple[int, ...]) -> str:
    """Return the name of an element, such as `cell.M[3, 4]`."""
    return f"{name}[{', '.join(map(str, place))}]" if place else name
