"""Conversion between seconds and text such as `90`, `30s`, `1.5h` or `2 h 30 min`.

seconds("1.5h", "the time limit") == 5400.0
convert_step("0.5ms", "s") == 0.0005
as_text(125) == "2 min 5 s"
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Real
from typing import Any

from mdf_loop.errors import InputError
from mdf_loop.quantities import Unit, convert

UNITS: Mapping[str, Fraction] = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "\u00b5s": Fraction(1, 10**6),
    "\u03bcs": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3_600),
    "d": Fraction(86_400),
}
"""Number of seconds of each unit of time. Both Unicode characters for micro are included."""

SECONDS = "s"
"""Unit of time of a model that states no unit."""

UNIT_HINT = "units of time are ns, us, ms, s, min, h, d"

_NUMBER_PATTERN = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)"

_UNIT_SPELLINGS = {
    r"d(?:ays?)?": "d",
    r"h(?:rs?|ours?)?": "h",
    r"m(?:ins?|inutes?)?": "min",
    r"s(?:ecs?|econds?)?": "s",
    r"ms": "ms",
}
"""Pattern of the spellings of each unit of a duration, from the longest to the shortest unit."""

_UNITS_PATTERN = re.compile(
    r"\s*".join(rf"(?:{_NUMBER_PATTERN}\s*{unit}(?![a-z]))?" for unit in _UNIT_SPELLINGS),
    re.IGNORECASE | re.ASCII,
)

_PLAIN_PATTERN = re.compile(rf"[+-]?{_NUMBER_PATTERN}(?:e[+-]?[0-9]+)?", re.IGNORECASE | re.ASCII)

_HINT = "give a number of seconds or a text with a unit, e.g. 90, 30s, 5min, 2h"


def seconds(value: object, what: str) -> float:
    """Return a user-supplied duration in seconds as a positive float.

    A number, or a text without a unit, is in seconds. A Quantity is converted. The units of a text are d, h,
    min, s and ms, each at most once and the longest first: `2 h 30 min` is 9000 seconds.

    Raises:
        InputError: The value is no duration, or is not positive and finite.
    """
    number = _parse_seconds(convert(value, Unit(SECONDS), what))
    if number is None:
        raise InputError(f"{what} is {value!r}, which is not a length of time", hint=_HINT)
    if math.isnan(number) or math.isinf(number):
        raise InputError(f"{what} is {value!r}; it must be finite", hint=_HINT)
    if number <= 0:
        raise InputError(f"{what} is {value!r}; it must be longer than zero", hint=_HINT)
    return number


def has_unit(text: str) -> bool:
    """Return True if `text` is a duration with a unit, such as `5min`, but not `10`."""
    return _parse_units(text) is not None


def as_text(length: float) -> str:
    """Return a duration in seconds as text, in its two largest units, such as `2 min 5 s`.

    A duration below a minute has three digits (`0.25 s`). A longer one is rounded to its last unit.
    """
    if float(f"{length:.3g}") < 60:
        return f"{length:.3g} s"
    if round(length) < 3_600:
        return _format_two_units(round(length), 60, "min", "s")
    if round(length / 60) < 1_440:
        return _format_two_units(round(length / 60), 60, "h", "min")
    return _format_two_units(round(length / 3_600), 24, "d", "h")


def _format_two_units(count: int, per_larger: int, larger: str, smaller: str) -> str:
    """Return a duration as text in a larger and a smaller unit, such as `2 min 5 s`."""
    larger_count, smaller_count = divmod(count, per_larger)
    return (
        f"{larger_count} {larger} {smaller_count} {smaller}"
        if smaller_count
        else f"{larger_count} {larger}"
    )


def _parse_seconds(value: object) -> float | None:
    """Return the seconds of a duration, given as a number or text, or None if it is invalid."""
    if isinstance(value, str):
        stripped_text = value.strip()
        return (
            float(stripped_text)
            if _PLAIN_PATTERN.fullmatch(stripped_text)
            else _parse_units(stripped_text)
        )
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    return None


def _parse_units(text: str) -> float | None:
    """Return the seconds of a text with units, such as `2 h 30 min`, or None for other texts."""
    unit_match = _UNITS_PATTERN.fullmatch(text.strip())
    if unit_match is None or not any(unit_match.groups()):
        return None
    numbers_with_units = zip(unit_match.groups(), _UNIT_SPELLINGS.values(), strict=True)
    return math.fsum(
        float(number_text) * float(UNITS[unit])
        for number_text, unit in numbers_with_units
        if number_text
    )


# --- steps of a model ---------------------------------------------------------------------------

_STEP_PATTERN = re.compile(
    rf"([+-]?{_NUMBER_PATTERN}(?:e[+-]?[0-9]+)?)\s*([^\d_,.].*)?", re.IGNORECASE | re.ASCII
)

STEP_HINT = "give a number in the model's unit of time, or a text with a unit, e.g. 5e-5 or '0.5ms'"

_LARGEST_EXPONENT = 400
"""Largest decimal exponent of a time step. Larger exponents are refused before a huge integer is computed."""


def convert_step(dt: Any, unit: str) -> Any:
    """Return a user-supplied time step in a unit of the model, rounded once to a float.

    For example, `0.5ms` is exactly 0.0005 seconds.

    A text without a unit is in the model's unit. Any object other than a text is returned unchanged.

    Raises:
        InputError: A text is no number, its unit is no unit of time, or float64 cannot represent it.
    """
    if not isinstance(dt, str):
        return dt
    step_match = _match_step(dt)
    if step_match is None:
        raise InputError(f"dt must be a length of time, not {dt[:60]!r}", hint=STEP_HINT)
    number, unit_name = _parse_decimal(step_match[1], dt), step_match[3]
    if unit_name is not None and unit_name not in UNITS:
        message = f"dt is {dt[:60]!r}, but '{unit_name[:40]}' is no unit of time"
        raise InputError(message, hint=UNIT_HINT)
    exact_step = Fraction(number) * (UNITS[unit_name] / UNITS[unit] if unit_name is not None else 1)
    return _round_exact(exact_step, dt)


def unit_of_step(dt: str) -> str | None:
    """Return the unit in the text of a time step, or None if the text has no unit or is invalid."""
    step_match = _match_step(dt)
    return None if step_match is None else step_match[3]


def _match_step(text: str) -> re.Match[str] | None:
    """Match a text such as `0.1 ms` with the pattern of a time step, or return None."""
    return _STEP_PATTERN.fullmatch(text.strip()) if len(text) <= _LARGEST_EXPONENT else None


def _parse_decimal(text: str, dt: str) -> Decimal:
    """Return the decimal number in a text, or raise an error if its exponent is too large."""
    try:
        decimal_number = Decimal(text)
    except InvalidOperation:  # an exponent beyond all bounds
        raise _unrepresentable_error(dt) from None
    if decimal_number and abs(decimal_number.adjusted()) > _LARGEST_EXPONENT:
        raise _unrepresentable_error(dt)
    return decimal_number


def _round_exact(exact: Fraction, dt: str) -> float:
    """Return an exact fraction as a float, or raise an error if it overflows or underflows to 0."""
    try:
        rounded_step = float(exact)
    except OverflowError:
        raise _unrepresentable_error(dt) from None
    if exact and not rounded_step:
        raise _unrepresentable_error(dt)
    return rounded_step


def _unrepresentable_error(dt: str) -> InputError:
    """Return the error for a time step that float64 cannot represent."""
    return InputError(f"dt is {dt[:60]!r}, which float64 cannot hold", hint=STEP_HINT)
