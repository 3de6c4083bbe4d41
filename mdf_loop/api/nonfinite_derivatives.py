"""Warnings of derivatives that are nan or infinite although the differentiated number is finite.

    numpy.std(x)     equal elements: 0 / 0 is nan
    numpy.sqrt(x)    x = 0: the slope is infinite

The derivative does not exist at such points, so it is not replaced by a number. If the differentiated
number itself is nan or infinite, there is no warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from mdf_loop.ir import Array
from mdf_loop.results.derivatives import Derivatives
from mdf_loop.results.fit import Fit
from mdf_loop.results.gradient import Gradient
from mdf_loop.user_warnings import warn_user

CAUSE = (
    "sqrt, cbrt, numpy.std and numpy.linalg.norm have no finite derivative where they are 0, and "
    "derivatives over many steps may grow beyond all numbers"
)
REMEDY = (
    "differentiate at other values, or write into the model what holds there, such as "
    "numpy.sqrt(x) if x > 0 else 0.0"
)


def warn_of_gradient(gradient: Gradient) -> None:
    """Warn once of all derivatives that are not finite, for members whose scalar is finite."""
    value = np.asarray(gradient.value)
    labels = {f"by '{name}'": (array, value) for name, array in gradient.items()}
    _warn("the number is finite, but its derivative", labels)


def warn_of_jacobian(derivatives: Derivatives, outputs: Mapping[str, Array]) -> None:
    """Warn once of all derivatives that are not finite, for finite elements of outputs.

    Args:
        derivatives: The Jacobian.
        outputs: The values of the differentiated outputs, by the first names of the derivatives.
    """
    labels = {
        f"of '{output}' by '{name}'": (array, np.asarray(outputs[output]))
        for (output, name), array in derivatives.items()
    }
    _warn("outputs are finite, but the derivative", labels)


def warn_of_hessian(derivatives: Derivatives, value: float) -> None:
    """Warn once of all second derivatives that are not finite, if the differentiated scalar is finite.

    Args:
        derivatives: The Hessian.
        value: The value of the scalar.
    """
    places = {name: k for k, name in enumerate(dict.fromkeys(a for a, _ in derivatives))}
    labels = {
        f"by '{first}' and '{second}'": (array, np.asarray(value))
        for (first, second), array in derivatives.items()
        if places[first] <= places[second]
    }
    _warn("the number is finite, but its second derivative", labels)


def warn_of_fits(fits: Iterable[Fit]) -> None:
    """Warn once of all parameters whose derivatives were not finite in the search of a fit."""
    names = dict.fromkeys(name for fit in fits for name in fit.nonfinite_derivatives)
    listed = ", ".join(f"'{name}'" for name in names)
    if listed:
        warn_user(
            f"at points of the search outputs are finite, but derivatives by {listed} are nan or infinite: "
            f"the fit may have ended too early, and its standard errors may be wrong. {CAUSE}: give "
            "bounds, or a start, that leave such points out, or write into the model what holds there, "
            "such as numpy.sqrt(x) if x > 0 else 0.0"
        )


def has_nonfinite(arrays: Iterable[Array]) -> bool:
    """Return True if an element of an array is nan or infinite."""
    return not all(bool(np.isfinite(array).all()) for array in arrays)


def _warn(beginning: str, labels: Mapping[str, tuple[Array, Array]]) -> None:
    """Warn of all derivatives that are not finite, with a sentence that starts with `beginning`."""
    listed = ", ".join(_describe_derivatives(labels))
    if listed:
        warn_user(f"{beginning} {listed}: {CAUSE}; {REMEDY}")


def _describe_derivatives(labels: Mapping[str, tuple[Array, Array]]) -> Iterator[str]:
    """Yield a phrase for each array of derivatives with elements that are not finite.

    Args:
        labels: Derivatives and the differentiated numbers, by label. The axes of the numbers are the first
            axes of the derivatives.
    """
    for label, (array, numbers) in labels.items():
        is_number = np.expand_dims(np.isfinite(numbers), (*range(numbers.ndim, array.ndim),))
        lost = array[~np.isfinite(array) & is_number]
        if lost.size:
            share = "" if array.size == 1 else f" in {lost.size} of {array.size} elements"
            yield f"{label} is {_describe_kind(lost)}{share}"


def _describe_kind(numbers: Array) -> str:
    """Return `nan`, `infinite` or `nan or infinite` for an array of numbers that are not finite."""
    nans = int(np.isnan(numbers).sum())
    return "nan" if nans == numbers.size else "nan or infinite" if nans else "infinite"
