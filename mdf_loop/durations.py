"""Lengths of time as people write them: `90`, `30s`, `5min`, `1.5h`, `2 h 30 min`.

seconds("1.5h", "the time limit") == 5400.0
as_text(125) == "2 min 5 s"
"""

from __future__ import annotations

import math
import re
from numbers import Real

from mdf_loop.errors import InputError

_NUMBER = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)"

_UNITS = {
    r"d(?:ays?)?": 86_400.0,
    r"h(?:rs?|ours?)?": 3_600.0,
    r"m(?:ins?|inutes?)?": 60.0,
    r"s(?:ecs?|econds?)?": 1.0,
    r"ms": 0.001,
}

_WITH_UNITS = re.compile(
    r"\s*".join(rf"(?:{_NUMBER}\s*{unit}(?![a-z]))?" for unit in _UNITS), re.IGNORECASE | re.ASCII
)

_PLAIN = re.compile(rf"[+-]?{_NUMBER}(?:e[+-]?[0-9]+)?", re.IGNORECASE | re.ASCII)

_HINT = "give a number of seconds or a text with a unit, e.g. 90, 30s, 5min, 2h"


def seconds(value: object, what: str) -> float:
    """The positive number of seconds that `value` says; `what` names it in the error.

    A number, or a text without a unit, is in seconds. Units are d, h, min, s and ms, each at
    most once and the longest first; they add up: `2 h 30 min` is 9000 seconds.
    """
    found = _read(value)
    if found is None:
        raise InputError(f"{what} is {value!r}, which is not a length of time", hint=_HINT)
    if math.isnan(found) or math.isinf(found):
        raise InputError(f"{what} is {value!r}; it must be finite", hint=_HINT)
    if found <= 0:
        raise InputError(f"{what} is {value!r}; it must be longer than zero", hint=_HINT)
    return found


def has_unit(text: str) -> bool:
    """Whether `text` is a length of time with a unit: `5min` is one, `10` is not."""
    return _of_units(text) is not None


def as_text(length: float) -> str:
    """A length of time in its two largest units: `3 s`, `2 min 5 s`, `1 h 4 min`, `2 d`.

    Below a minute it has three digits (`0.25 s`), above it is rounded to its last unit.
    """
    if float(f"{length:.3g}") < 60:
        return f"{length:.3g} s"
    if round(length) < 3_600:
        return _two(round(length), 60, "min", "s")
    if round(length / 60) < 1_440:
        return _two(round(length / 60), 60, "h", "min")
    return _two(round(length / 3_600), 24, "d", "h")


def _two(count: int, per_larger: int, larger: str, smaller: str) -> str:
    whole, rest = divmod(count, per_larger)
    return f"{whole} {larger} {rest} {smaller}" if rest else f"{whole} {larger}"


def _read(value: object) -> float | None:
    if isinstance(value, str):
        text = value.strip()
        return float(text) if _PLAIN.fullmatch(text) else _of_units(text)
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    return None


def _of_units(text: str) -> float | None:
    """The sum of all numbers with units in `text`; None if it is anything else."""
    found = _WITH_UNITS.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        return None
    parts = zip(found.groups(), _UNITS.values(), strict=True)
    return math.fsum(float(number) * unit for number, unit in parts if number)
