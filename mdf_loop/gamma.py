"""Gamma random numbers, and the distributions that are computed from them, without rejection.

A gamma number with a large shape parameter is computed from one normal number:

    x = a * y**3,  y = 1 + eta/3 - 1/(9 a) + ...,  eta = z / sqrt(a)

`z` is a normal number. `x` is the gamma quantile of shape `a` at the probability of `z`. Its cube root is
nearly normal (Wilson and Hilferty). The correction is a smooth function of `eta` and `1/a`, and is
represented by a polynomial in both. The polynomial was fitted to scipy's inverse of the incomplete gamma
function for shapes from 6 and |z| up to 8.3. The error of each probability is at most 1e-12.

Sources: E. B. Wilson, M. M. Hilferty, "The distribution of chi-square" (1931); the correction as a
function of `eta` and `1/a`: N. M. Temme, "Asymptotic inversion of incomplete gamma functions" (1992).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdf_loop import parameter_rules
from mdf_loop.call_site import CallSite, Shape
from mdf_loop.errors import OperandError
from mdf_loop.streams import exp, polynomial

MIN_SHAPE = 6
"""Least shape `a` for which the polynomial is valid."""

POLYNOMIAL_COEFFICIENTS: tuple[tuple[float, ...], ...] = (
    (
        *(1.0, -0.11111111111386852, -0.005761316751838214),
        *(0.0015807666546252498, 0.0006067799200974594, -0.0002753217082880564),
        *(-0.00022358889982129762, 0.00022510279634173897),
    ),
    (
        *(0.33333333333326, 0.009259259214392936, -0.0019290066447531045),
        *(-0.0012600119306431191, -2.356025378273752e-05, 0.00025919221526100194),
        *(0.00014556593568029047, -0.0004128132645863801),
    ),
    (
        *(3.2467540101353345e-12, 0.003292181096055802, 0.0017506050918086307),
        *(0.00035341845927294713, -0.00019459897322637062, -0.0001272447814842967),
        *(0.00012431491224486373,),
    ),
    (
        *(-0.0030864197311727525, -0.0017146802773771162, -0.0005201731751541293),
        *(5.395795314203321e-05, 0.00014477772515070954, -4.7309062521334176e-05),
    ),
    (
        *(0.00082304518279534, 0.0003919265264547125, 2.468212733669605e-05),
        *(-8.943181713361029e-05, -4.095136521867834e-05, 4.1293834299767603e-05),
    ),
    (
        *(-0.0001286007878758409, -2.4113780051719132e-05, 4.572973491869863e-05),
        *(3.885416974697533e-05, -9.630457315658792e-06),
    ),
    (
        *(4.355326819820716e-06, -1.8999036685920268e-05, -2.2383252308991705e-05),
        *(-6.610619350059519e-06, 8.445690215563548e-06),
    ),
    (
        *(4.778582759414386e-06, 8.912162771444952e-06, 5.087816591620171e-06),
        *(-1.688434727575232e-06, -3.614161840379172e-06),
    ),
    (
        *(-1.815760352433934e-06, -1.978347871460972e-06, -1.379682300303977e-07),
        *(2.084677951464097e-06,),
    ),
    (
        *(3.561790402481565e-07, 1.0313160933836373e-07, -4.88943872863405e-07),
        *(-4.325643807060654e-07,),
    ),
    (
        *(-1.8662082108072062e-08, 9.454450663029899e-08, 2.724925303806122e-07),
        *(-1.3343103199717955e-07,),
    ),
    (
        *(-1.4333372798110799e-08, -4.432044942813675e-08, -6.123105913893604e-08),
        *(7.318474928355021e-08,),
    ),
    (5.461987059037232e-09, 1.5323999569987894e-08, -1.5355994901586862e-08),
    (-1.0882378964054332e-09, -2.0705314998868098e-09, 8.899674777102325e-09),
    (2.6963578932664326e-10, -1.625912740749099e-09, -1.1244232585424932e-10),
    (-9.95674819214673e-12, 6.420661984343008e-10, -4.5444387998695304e-10),
    (-5.7398703885141763e-11, 5.236077593166857e-11),
    (1.673749210109216e-11, -4.209620162381627e-11),
    (2.9896610375453837e-12, 3.8810854589261843e-13),
    (-1.5418011763629382e-12, 1.1645999288396406e-12),
    (-5.745047674979629e-14,),
    (6.415315066784988e-14,),
    (-3.3796275793561843e-16,),
    (-1.1773562558674744e-15,),
)
"""Coefficients of the polynomial in `1/a`, from the constant one on, for each power of `eta`."""


def gamma_quantile(z: Any, a: Any) -> Any:
    """Return the quantile of a gamma distribution with shape `a` at the probability Phi(z).

    Phi is the cumulative distribution function of the standard normal distribution. The shape is at
    least 6.

    The number `z` is standard normal.
    """
    inverse_shape = 1.0 / a
    y = polynomial(
        z * np.sqrt(inverse_shape),
        [polynomial(inverse_shape, coefficients) for coefficients in POLYNOMIAL_COEFFICIENTS],
    )
    return a * (y * y * y)


# --- distributions of gamma numbers ---------------------------------------------------------------

MIN_GAMMA_SHAPE, MAX_GAMMA_SHAPE = 1e-3, 1e9
"""Least and largest shape of a gamma distribution."""


def _gamma(site: CallSite, shape: Shape, a: Any, what: str, times: float = 1.0) -> tuple[Any, Any]:
    """Return gamma random numbers `x * exp(-exponent)` as the pair x and exponent.

    The numbers themselves may underflow for small shapes.

    For a shape below 6, x is a number of shape a + 6. A factor `u**(1/a)` reduces the shape from a + 1 to
    a. Six such factors give the exponent, a sum of exponential numbers.

    Args:
        site: Call site of the draw.
        shape: Shape of the array of numbers.
        a: Shape of the gamma distribution.
        what: Parameter that an error names.
        times: Ratio of this parameter to `a`.
    """
    is_in_range = (a >= MIN_GAMMA_SHAPE) & (a <= MAX_GAMMA_SHAPE)
    low_text, high_text = (
        f"{times * limit:g}".replace("e+0", "e") for limit in (MIN_GAMMA_SHAPE, MAX_GAMMA_SHAPE)
    )
    a = site.ensured(a, is_in_range, f"{what} must be from {low_text} to {high_text}")
    z = site.numbers("Normal", shape)
    if site.least(a) >= MIN_SHAPE:
        return gamma_quantile(z, a), 0.0
    exponentials = site.part("small").numbers("Exponential", (MIN_SHAPE, *shape))
    exponent: Any = 0.0
    for k in range(MIN_SHAPE):
        exponent = exponent + np.take(exponentials, k, axis=0) / (a + float(k))
    is_small_shape = a < float(MIN_SHAPE)
    x = gamma_quantile(z, np.where(is_small_shape, a + float(MIN_SHAPE), a))
    return x, np.where(is_small_shape, exponent, 0.0)


def _standard_gamma(site: CallSite, size: Shape, shape: Any) -> Any:
    x, exponent = _gamma(site, size, shape, "the shape of a gamma distribution")
    return x * exp(-exponent)


def _scaled_gamma(site: CallSite, size: Shape, shape: Any, scale: Any = 1.0) -> Any:
    scale = parameter_rules.check_not_negative(site, scale, "the scale of a gamma distribution")
    return scale * _standard_gamma(site, size, shape)


def _gammavariate(site: CallSite, size: Shape, alpha: Any, beta: Any) -> Any:
    beta = parameter_rules.check_positive(site, beta, "the scale of a gamma distribution")
    return beta * _standard_gamma(site, size, alpha)


def _chisquare(site: CallSite, size: Shape, df: Any) -> Any:
    parameter_name = "the degrees of freedom of a chi-square distribution"
    x, exponent = _gamma(site, size, df * 0.5, parameter_name, 2.0)
    return 2.0 * (x * exp(-exponent))


def _beta(site: CallSite, size: Shape, a: Any, b: Any) -> Any:
    """Return beta random numbers `x / (x + y)` of gamma random numbers x and y.

    Both numbers are divided by the larger one of their factors `exp(-s)`, which prevents underflow.
    """
    x, x_exponent = _gamma(site, size, a, "the first shape of a beta distribution")
    y, y_exponent = _gamma(site.part("other"), size, b, "the second shape of a beta distribution")
    exponent_difference = x_exponent - y_exponent
    smaller_factor, is_x_smaller = (
        exp(-np.abs(exponent_difference)),
        exponent_difference > 0.0,
    )
    x, y = (
        x * np.where(is_x_smaller, smaller_factor, 1.0),
        y * np.where(is_x_smaller, 1.0, smaller_factor),
    )
    return x / (x + y)


def _betavariate(site: CallSite, size: Shape, alpha: Any, beta: Any) -> Any:
    return _beta(site, size, alpha, beta)


def _f(site: CallSite, size: Shape, dfnum: Any, dfden: Any) -> Any:
    parameter_name = "the degrees of freedom of an F distribution"
    x, x_exponent = _gamma(site, size, dfnum * 0.5, parameter_name, 2.0)
    y, y_exponent = _gamma(site.part("other"), size, dfden * 0.5, parameter_name, 2.0)
    return dfden / dfnum * (x / y) * exp(y_exponent - x_exponent)


def _standard_t(site: CallSite, size: Shape, df: Any) -> Any:
    parameter_name = "the degrees of freedom of a Student's t distribution"
    y, exponent = _gamma(site.part("spread"), size, df * 0.5, parameter_name, 2.0)
    return site.numbers("Normal", size) * np.sqrt(df * 0.5 / y) * exp(exponent * 0.5)


MAX_DIRICHLET_COMPONENTS = 256
"""Largest number of components of a Dirichlet distribution, since they are added one by one."""


def dirichlet(site: CallSite, size: Shape, alpha: Any) -> Any:
    """Return Dirichlet random vectors: gamma numbers along the last axis, divided by their sum.

    The gamma numbers are first divided by their largest factor `exp(-s)`, which prevents underflow.
    """
    if len(alpha.shape) != 1 or not 1 <= size[-1] <= MAX_DIRICHLET_COMPONENTS:
        raise OperandError(
            f"a Dirichlet distribution has a list of 1 to {MAX_DIRICHLET_COMPONENTS} numbers"
        )
    component_indices = range(size[-1])
    x, exponents = _gamma(site, size, alpha, "alpha of a Dirichlet distribution")
    if site.least(alpha) < MIN_SHAPE:
        smallest_exponent = np.take(exponents, 0, axis=-1)
        for k in component_indices[1:]:
            component_exponent = np.take(exponents, k, axis=-1)
            smallest_exponent = np.where(
                component_exponent < smallest_exponent, component_exponent, smallest_exponent
            )
        x = x * exp(np.expand_dims(smallest_exponent, -1) - exponents)
    component_sum = np.take(x, 0, axis=-1)
    for k in component_indices[1:]:
        component_sum = component_sum + np.take(x, k, axis=-1)
    return x / np.expand_dims(component_sum, -1)


NUMPY_FORMULAS: Mapping[str, Callable[..., Any]] = {
    "standard_gamma": _standard_gamma,
    "gamma": _scaled_gamma,
    "chisquare": _chisquare,
    "beta": _beta,
    "f": _f,
    "standard_t": _standard_t,
}
PYTHON_FORMULAS: Mapping[str, Callable[..., Any]] = {
    "gammavariate": _gammavariate,
    "betavariate": _betavariate,
}
"""Formulas of the distributions that are computed from gamma numbers, by their names in `random`."""
