"""Compute the coefficients of the minimax polynomials in `mdf_loop/ops/native`.

    $ .venv/bin/python benchmarks/coefficients.py

The Remez exchange algorithm finds the polynomial of a degree with the least maximum weighted error over an
interval. The coefficients are then rounded to float64. The program prints the coefficients in ascending
order of powers, and the maximum error in units of 2**-53.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import mp, mpf

mp.prec = 240
Function = Callable[[Any], Any]


def minimax_polynomial(
    f: Function, weight: Function, degree: int, low: Any, high: Any
) -> tuple[list[Any], Any]:
    """Return the coefficients of the minimax polynomial and its maximum weighted error."""
    count = degree + 2
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [middle - half * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    dense = [middle - half * mp.cos(mp.pi * k / (40 * count)) for k in range(1, 40 * count)]
    for _ in range(8):
        rows = [
            [x**k for k in range(degree + 1)] + [(-1) ** i / weight(x)] for i, x in enumerate(nodes)
        ]
        *coefficients, _ = mp.lu_solve(mp.matrix(rows), mp.matrix([f(x) for x in nodes]))
        errors = [(weight(x) * (mp.polyval(coefficients[::-1], x) - f(x)), x) for x in dense]
        nodes = error_extrema(errors, nodes)
    rounded_coefficients = [mpf(float(c)) for c in coefficients]
    residuals = [abs(weight(x) * (mp.polyval(rounded_coefficients[::-1], x) - f(x))) for x in dense]
    return rounded_coefficients, max(residuals)


def error_extrema(errors: list[tuple[Any, Any]], nodes: list[Any]) -> list[Any]:
    """Return the positions of the extrema of the error between its sign changes."""
    extrema: list[tuple[Any, Any]] = [errors[0]]
    for error, x in errors[1:]:
        if error * extrema[-1][0] < 0:
            extrema.append((error, x))
        elif abs(error) > abs(extrema[-1][0]):
            extrema[-1] = (error, x)
    return [x for _, x in extrema] if len(extrema) == len(nodes) else nodes


def power_series(series: Function, terms: int = 60) -> Function:
    """Return a function by its power series, which is exact where the closed formula would cancel."""
    return lambda x: mp.fsum(series(k) * x**k for k in range(terms))


LN2, QUARTER = mp.ln2, mp.pi / 4
TABLES = {
    "EXP: (exp(r) - 1 - r - r**2 / 2) / r**3": (
        power_series(lambda k: 1 / mp.factorial(k + 3)),
        lambda r: (r**2 + mpf("0.001")) * (r / mp.expm1(r) if r else 1),
        *(9, -LN2 / 2 * mpf("1.001"), LN2 / 2 * mpf("1.001")),
    ),
    "LOG: (log((1 + s) / (1 - s)) - 2 s) / s**3, of z = s**2": (
        power_series(lambda k: mpf(2) / (2 * k + 3)),
        lambda z: z / (2 + z),
        *(6, mpf(2) ** -60, (3 - 2 * mp.sqrt(2)) ** 2),
    ),
    "POWER: (log((1 + s) / (1 - s)) - 2 s - 2 / 3 s**3) / s**5, of z = s**2": (
        power_series(lambda k: mpf(2) / (2 * k + 5)),
        lambda z: z**2 / 2,
        *(7, mpf(2) ** -60, (3 - 2 * mp.sqrt(2)) ** 2),
    ),
    "SIN: (sin(r) - r) / r**3, of z = r**2": (
        power_series(lambda k: (-1) ** (k + 1) / mp.factorial(2 * k + 3)),
        lambda z: z,
        *(5, mpf(2) ** -60, (QUARTER * mpf("1.001")) ** 2),
    ),
    "COS: (cos(r) - 1 + r**2 / 2) / r**4, of z = r**2": (
        power_series(lambda k: (-1) ** k / mp.factorial(2 * k + 4)),
        lambda z: z**2,
        *(5, mpf(2) ** -60, (QUARTER * mpf("1.001")) ** 2),
    ),
}


def main() -> None:
    """Print the coefficients of all functions."""
    for title, (f, weight, degree, low, high) in TABLES.items():
        coefficients, error = minimax_polynomial(f, weight, degree, low, high)
        print(f"{title}: {mp.nstr(error * 2**53, 3)}")
        for c in coefficients:
            print(f"    {float(c)!r},")


if __name__ == "__main__":
    main()
