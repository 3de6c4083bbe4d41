"""Checks of distribution parameters by the same rules as in NumPy.

    scale = check_not_negative(site, scale, "the scale of a normal distribution")

Parameters are NumPy arrays in the reference, or values of a program (`ops.symbolic`) in compiled models.
The same rules apply to both. A nan is allowed where NumPy draws nan.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.call_site import CallSite


def check_not_negative(site: CallSite, parameter: Any, what: str) -> Any:
    """Return a distribution parameter, or raise an error if an element is negative."""
    return site.ensured(parameter, np.logical_not(parameter < 0.0), f"{what} must not be negative")


def check_positive(site: CallSite, parameter: Any, what: str) -> Any:
    """Return a distribution parameter, or raise an error if an element is nan or not above 0."""
    return site.ensured(parameter, parameter > 0.0, f"{what} must be above 0")


def check_range(site: CallSite, parameter: Any, low: float, high: float, what: str) -> Any:
    """Return a distribution parameter, or raise an error if an element is outside of an interval."""
    is_in_range = (parameter >= low) & (parameter <= high)
    return site.ensured(
        parameter,
        is_in_range,
        f"{what} must be from {_format_number(low)} to {_format_number(high)}",
    )


def check_width(site: CallSite, low: Any, high: Any) -> Any:
    """Return the width of a uniform distribution, or raise an error if negative or infinite."""
    width = high - low
    message = "the ends of a uniform distribution must be finite, and low not above high"
    return site.ensured(width, (width >= 0.0) & (width < np.inf), message)


def check_probabilities(site: CallSite, p: Any) -> Any:
    """Return the probabilities of a random choice, or raise an error if they are invalid.

    They are invalid if one is negative or nan, or if the sum is not 1 within the tolerance of NumPy.
    """
    total, dtype = np.sum(p), np.dtype(p.dtype)
    tolerance = float(np.sqrt(np.finfo(dtype if dtype.kind == "f" else float).eps))
    p = site.ensured(p, p >= 0.0, "the probabilities p of a choice must not be negative or nan")
    is_sum_one = (total >= 1.0 - tolerance) & (total <= 1.0 + tolerance)
    return site.ensured(p, is_sum_one, "the probabilities p of a choice must sum to 1")


def _format_number(number: float) -> str:
    """Return a number as short text, such as `1e9`."""
    return f"{number:g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
