"""Tolerances of the comparison between two forms of a program or of one operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdf_loop.ir.types import dtype_name
from tests.random_programs.forms import Failure, Outcome

Numbers = NDArray[Any]

SHARES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-1, "bfloat16": 1e-1}
"""Tolerance between two forms relative to the largest absolute value in a program."""


def differences(actual: Outcome, expected: Outcome, largest: float | None = None) -> list[str]:
    """Return descriptions of the differences between two outcomes; none if they agree.

    Without `largest`, the largest absolute value in the program, bits must be equal.
    """
    if isinstance(expected, Failure) or isinstance(actual, Failure):
        if type(actual) is type(expected):
            return []
        failure = actual if isinstance(actual, Failure) else expected
        return [f"only one of two forms fails: {failure.reason}"]  # type: ignore[union-attr]
    if set(actual) != set(expected):
        return [f"other outputs: {sorted(actual)}, not {sorted(expected)}"]
    return [
        f"{name}: {sentence}"
        for name in expected
        for sentence in array_differences(actual[name], expected[name], largest)
    ]


def array_differences(actual: Numbers, expected: Numbers, largest: float | None) -> Iterator[str]:
    """Yield descriptions of the differences between two arrays, in the wording of `differences`."""
    types = dtype_name(actual), dtype_name(expected)
    if types[0] != types[1] or actual.shape != expected.shape:
        yield f"{types[0]}{actual.shape}, not {types[1]}{expected.shape}"
    elif types[0] not in SHARES or largest is None:
        if not same_bits(actual, expected):
            yield _describe_differences(actual, expected, ~_equal(actual, expected))
    else:
        actual, expected = actual.astype(np.float64), expected.astype(np.float64)
        bound = SHARES[types[0]] * largest
        with np.errstate(all="ignore"):
            is_close = np.abs(actual - expected) <= bound
        is_wrong = ~(is_close | _equal_number(actual, expected))
        if is_wrong.any():
            yield _describe_differences(actual, expected, is_wrong)


def same_bits(actual: Numbers, expected: Numbers) -> bool:
    """Return True if dtypes, shapes and bits are equal; all nan count as one number."""
    types = dtype_name(actual), dtype_name(expected)
    return types[0] == types[1] and bool(
        actual.shape == expected.shape and _equal(actual, expected).all()
    )


def _equal_number(actual: Numbers, expected: Numbers) -> NDArray[np.bool_]:
    both_nan = np.isnan(actual) & np.isnan(expected)
    return np.asarray((actual == expected) | both_nan)


def _equal(actual: Numbers, expected: Numbers) -> NDArray[np.bool_]:
    if dtype_name(actual) not in SHARES:
        return np.asarray(actual == expected)
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    return np.asarray(
        _equal_number(actual, expected)
        & ((np.signbit(actual) == np.signbit(expected)) | np.isnan(actual))
    )


def _describe_differences(actual: Numbers, expected: Numbers, wrong: NDArray[np.bool_]) -> str:
    count = int(np.count_nonzero(wrong))
    where = tuple(int(k) for k in np.argwhere(wrong)[0])
    return f"{count} of {wrong.size} numbers differ: {actual[where]!r}, not {expected[where]!r} at {where}"


def close_by_ulps(actual: Numbers, expected: Numbers, ulps: float) -> bool:
    """Return True if numbers differ by at most `ulps` units in the last place."""
    with np.errstate(all="ignore"):
        unit = np.spacing(np.maximum(np.abs(actual), np.abs(expected)))
        return bool(
            np.all((np.abs(actual - expected) <= ulps * unit) | _equal_number(actual, expected))
        )


def largest_of(outcomes: Mapping[str, Outcome]) -> float:
    """Return the largest finite absolute value among the floats of all outcomes, at least 1e-300."""
    sizes = [1e-300]
    for outcome in outcomes.values():
        if not isinstance(outcome, Failure):
            sizes += [largest_in(array) for array in outcome.values()]
    return max(sizes)


def largest_in(array: Numbers) -> float:
    """Return the largest finite absolute value of floats, 0 for other arrays."""
    if dtype_name(array) not in SHARES or array.size == 0:
        return 0.0
    numbers = np.abs(array.astype(np.float64))
    finite = numbers[np.isfinite(numbers)]
    return float(finite.max()) if finite.size else 0.0
