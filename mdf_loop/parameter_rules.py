"""Rules for the parameters of distributions, which are NumPy's. A violation is an error of the run.

    scale = not_negative(site, scale, "the scale of a normal distribution")

Parameters are arrays of numpy, or values of a program (`ops.symbolic`): a rule is written once for the
reference and for compiled models. A nan is no broken rule where numpy draws nan.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

WHOLE = "whole numbers are drawn of 1 to 2**32 - 1 different ones"
CHANCE = "the probability of a binomial distribution"
BERNOULLI = "the probability of onnx::Bernoulli"


class Checker(Protocol):
    """Place of a draw, which raises an error if a parameter is invalid: now, or in the run."""

    def ensured(self, parameter: Any, fits: Any, sentence: str) -> Any:
        """Return the parameter, or raise an error with the sentence if a value is invalid."""


def not_negative(site: Checker, parameter: Any, what: str) -> Any:
    """Return the parameter, or raise an error for a negative value."""
    return site.ensured(parameter, np.logical_not(parameter < 0.0), f"{what} must not be negative")


def positive(site: Checker, parameter: Any, what: str) -> Any:
    """Return the parameter, or raise an error for nan or a value that is not above 0."""
    return site.ensured(parameter, parameter > 0.0, f"{what} must be above 0")


def between(site: Checker, parameter: Any, low: float, high: float, what: str) -> Any:
    """Return the parameter, or raise an error for nan or a value outside of an interval."""
    fits = (parameter >= low) & (parameter <= high)
    return site.ensured(parameter, fits, f"{what} must be from {_shown(low)} to {_shown(high)}")


def width(site: Checker, low: Any, high: Any) -> Any:
    """Return the width of a uniform distribution, or raise an error for a negative or infinite width."""
    wide = high - low
    sentence = "the ends of a uniform distribution must be finite, and low not above high"
    return site.ensured(wide, (wide >= 0.0) & (wide < np.inf), sentence)


def probabilities(site: Checker, p: Any, total: Any, tolerance: float) -> Any:
    """Return the probabilities of a choice; those that are no numbers from 0 on with the sum 1 are an error."""
    p = site.ensured(p, p >= 0.0, "the probabilities p of a choice must not be negative or nan")
    fits = (total >= 1.0 - tolerance) & (total <= 1.0 + tolerance)
    return site.ensured(p, fits, "the probabilities p of a choice must sum to 1")


def tolerance(dtype: Any) -> float:
    """Return NumPy's tolerance for the sum of probabilities."""
    return float(np.sqrt(np.finfo(dtype).eps))


def _shown(number: float) -> str:
    return f"{number:g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
