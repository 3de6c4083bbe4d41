"""Warnings of derivatives that are nan or infinite although the outputs are finite.

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

NONFINITE_CAUSE = (
    "sqrt, cbrt, numpy.std and numpy.linalg.norm have no finite derivative where they are 0, and "
    "derivatives over many steps may grow beyond all numbers"
)
NONFINITE_REMEDY = (
    "differentiate at other values, or write into the model what holds there, such as "
    "numpy.sqrt(x) if x > 0 else 0.0"
)


def warn_of_gradient(gradient: Gradient) -> None:
    """Warn once of all nan and infinite derivatives of a finite scalar."""
    objective_value = np.asarray(gradient.value)
    labelled_derivatives = {
        f"by '{name}'": (array, objective_value) for name, array in gradient.items()
    }
    _warn("the number is finite, but its derivative", labelled_derivatives)


def warn_of_jacobian(derivatives: Derivatives, outputs: Mapping[str, Array]) -> None:
    """Warn once of all nan and infinite derivatives of finite output elements.

    Args:
        derivatives: The Jacobian.
        outputs: The values of the differentiated outputs, by the first names of the derivatives.
    """
    labelled_derivatives = {
        f"of '{output}' by '{name}'": (array, np.asarray(outputs[output]))
        for (output, name), array in derivatives.items()
    }
    _warn("outputs are finite, but the derivative", labelled_derivatives)


def warn_of_hessian(derivatives: Derivatives, value: float) -> None:
    """Warn once of all nan and infinite second derivatives of a finite scalar.

    Args:
        derivatives: The Hessian.
        value: The value of the scalar.
    """
    name_positions = {
        name: k for k, name in enumerate(dict.fromkeys(first_name for first_name, _ in derivatives))
    }
    labelled_derivatives = {
        f"by '{first_name}' and '{second_name}'": (array, np.asarray(value))
        for (first_name, second_name), array in derivatives.items()
        if name_positions[first_name] <= name_positions[second_name]
    }
    _warn("the number is finite, but its second derivative", labelled_derivatives)


def warn_of_fits(fits: Iterable[Fit]) -> None:
    """Warn once of all parameters with nan or infinite derivatives during the search of a fit."""
    parameter_names = dict.fromkeys(name for fit in fits for name in fit.nonfinite_derivatives)
    quoted_names = ", ".join(f"'{name}'" for name in parameter_names)
    if quoted_names:
        warn_user(
            f"at points of the search outputs are finite, but derivatives by {quoted_names} are nan or infinite: "
            f"the fit may have ended too early, and its standard errors may be wrong. {NONFINITE_CAUSE}: give "
            "bounds, or a start, that leave such points out, or write into the model what holds there, "
            "such as numpy.sqrt(x) if x > 0 else 0.0"
        )


def has_nonfinite(arrays: Iterable[Array]) -> bool:
    """Return True if one of several arrays has a nan or infinite element."""
    return not all(bool(np.isfinite(array).all()) for array in arrays)


def _warn(beginning: str, labelled_derivatives: Mapping[str, tuple[Array, Array]]) -> None:
    """Warn of all nan and infinite derivatives in a sentence that begins with `beginning`."""
    descriptions = ", ".join(_describe_derivatives(labelled_derivatives))
    if descriptions:
        warn_user(f"{beginning} {descriptions}: {NONFINITE_CAUSE}; {NONFINITE_REMEDY}")


def _describe_derivatives(labelled_derivatives: Mapping[str, tuple[Array, Array]]) -> Iterator[str]:
    """Yield a phrase for each array of derivatives that has nan or infinite elements.

    Args:
        labelled_derivatives: Derivatives and the differentiated numbers, by label. The axes of the numbers are the first
            axes of the derivatives.
    """
    for label, (derivative_array, differentiated_numbers) in labelled_derivatives.items():
        has_finite_value = np.expand_dims(
            np.isfinite(differentiated_numbers),
            (*range(differentiated_numbers.ndim, derivative_array.ndim),),
        )
        nonfinite_elements = derivative_array[~np.isfinite(derivative_array) & has_finite_value]
        if nonfinite_elements.size:
            share_text = (
                ""
                if derivative_array.size == 1
                else f" in {nonfinite_elements.size} of {derivative_array.size} elements"
            )
            yield f"{label} is {_describe_kind(nonfinite_elements)}{share_text}"


def _describe_kind(numbers: Array) -> str:
    """Return the text `nan`, `infinite` or `nan or infinite` that describes an array's elements."""
    nan_count = int(np.isnan(numbers).sum())
    return "nan" if nan_count == numbers.size else "nan or infinite" if nan_count else "infinite"
