"""The numbers in `mdf_loop/ops/native`'s own functions: polynomials of least error.

    $ .venv/bin/python benchmarks/coefficients.py

Remez' exchange: of all polynomials of a degree, the one whose largest weighted error over an interval
is least; its coefficients are then rounded to float64. Written are the coefficients, from the constant
one on, and the error in units of 2**-53.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import mp, mpf

mp.prec = 240
Function = Callable[[Any], Any]


def fitted(
    f: Function, weight: Function, degree: int, low: Any, high: Any
) -> tuple[list[Any], Any]:
    """Coefficients, and the largest weighted error."""
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
        nodes = peaks(errors, nodes)
    rounded = [mpf(float(c)) for c in coefficients]
    left = [abs(weight(x) * (mp.polyval(rounded[::-1], x) - f(x))) for x in dense]
    return rounded, max(left)


def peaks(errors: list[tuple[Any, Any]], before: list[Any]) -> list[Any]:
    """Where the error is largest between two changes of its sign."""
    extrema: list[tuple[Any, Any]] = [errors[0]]
    for error, x in errors[1:]:
        if error * extrema[-1][0] < 0:
            extrema.append((error, x))
        elif abs(error) > abs(extrema[-1][0]):
            extrema[-1] = (error, x)
    return [x for _, x in extrema] if len(extrema) == len(before) else before


def rest(series: Function, terms: int = 60) -> Function:
    """A function by its power series: exact where its formula would cancel."""
    return lambda x: mp.fsum(series(k) * x**k for k in range(terms))


LN2, QUARTER = mp.ln2, mp.pi / 4
TABLES = {
    "EXP: (exp(r) - 1 - r - r**2 / 2) / r**3": (
        rest(lambda k: 1 / mp.factorial(k + 3)),
        lambda r: (r**2 + mpf("0.001")) * (r / mp.expm1(r) if r else 1),
        *(9, -LN2 / 2 * mpf("1.001"), LN2 / 2 * mpf("1.001")),
    ),
    "LOG: (log((1 + s) / (1 - s)) - 2 s) / s**3, of z = s**2": (
        rest(lambda k: mpf(2) / (2 * k + 3)),
        lambda z: z / (2 + z),
        *(6, mpf(2) ** -60, (3 - 2 * mp.sqrt(2)) ** 2),
    ),
    "POWER: (log((1 + s) / (1 - s)) - 2 s - 2 / 3 s**3) / s**5, of z = s**2": (
        rest(lambda k: mpf(2) / (2 * k + 5)),
        lambda z: z**2 / 2,
        *(7, mpf(2) ** -60, (3 - 2 * mp.sqrt(2)) ** 2),
    ),
    "SIN: (sin(r) - r) / r**3, of z = r**2": (
        rest(lambda k: (-1) ** (k + 1) / mp.factorial(2 * k + 3)),
        lambda z: z,
        *(5, mpf(2) ** -60, (QUARTER * mpf("1.001")) ** 2),
    ),
    "COS: (cos(r) - 1 + r**2 / 2) / r**4, of z = r**2": (
        rest(lambda k: (-1) ** k / mp.factorial(2 * k + 4)),
        lambda z: z**2,
        *(5, mpf(2) ** -60, (QUARTER * mpf("1.001")) ** 2),
    ),
}


def main() -> None:
    """Write all."""
    for title, (f, weight, degree, low, high) in TABLES.items():
        coefficients, error = fitted(f, weight, degree, low, high)
        print(f"{title}: {mp.nstr(error * 2**53, 3)}")
        for c in coefficients:
            print(f"    {float(c)!r},")


if __name__ == "__main__":
    main()
