"""Gamma random numbers with a large shape parameter, each computed from one normal number.

    x = a * y**3,  y = 1 + eta/3 - 1/(9 a) + ...,  eta = z / sqrt(a)

`z` is a normal number. `x` is the gamma quantile of shape `a` at the probability of `z`. Its cube root is
nearly normal (Wilson and Hilferty). The correction is a smooth function of `eta` and `1/a`, and is
represented by a polynomial in both. The polynomial was fitted to scipy's inverse of the incomplete gamma
function for shapes from 6 and |z| up to 8.3. The error of each probability is at most 1e-12.

Sources: E. B. Wilson, M. M. Hilferty, "The distribution of chi-square" (1931); the correction as a
function of `eta` and `1/a`: N. M. Temme, "Asymptotic inversion of incomplete gamma functions" (1992).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.streams import polynomial

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
