"""Conversion of pint Quantities to units of the model. Quantities of other packages are refused.

    unit = Unit("pA", "$.graphs[0].nodes['cell'].input_ports['I'].metadata.units")

    convert(Quantity(0.9, "nA"), unit, "the input 'I'")     900.0
    convert(Quantity(3.0, "mV"), unit, "the input 'I'")     InputError: another dimension
    convert(Quantity(0.5, ""), unit, "the input 'I'")       0.5: dimensionless, so a plain number
    convert(0.9, unit, "the input 'I'")                     0.9: a plain number is in the unit of the model

This module imports no package of units. A Quantity is recognized by its attributes, and converted by its
registry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from inspect import isroutine
from numbers import Real
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.errors import InputError, LoopError

MAX_AXES = 64
"""Largest number of axes of a NumPy array."""

_PLAIN_TYPES = frozenset(
    (bool, int, float, complex, str, bytes, type(None), np.bool_, np.int64, np.float64)
)
"""Common types of values that have no unit."""

_FOREIGN_ATTRIBUTES = ("unit", "units", "dim")
"""Attributes with the unit in astropy (`unit`), in unyt, quantities and neo, and in Brian2 (`dim`)."""

_SPELLINGS = (
    (re.compile("Ohm"), "ohm"),
    (re.compile("^per_"), "1/"),
    (re.compile("_per_"), "/"),
    (re.compile(r"(?<=[A-Za-z])(-?[0-9]+)"), r"**\1"),
)
"""Replacements of common spellings of units that pint does not know: `MOhm`, `mS_per_cm2`, `uA/cm2`."""


class Unit(Struct, frozen=True):
    """Unit of a model.

    Attributes:
        text: Unit as the model states it, or an empty text.
        where: Place in the model where the unit is stated or could be stated.
    """

    text: str = ""
    where: str = ""


NO_UNIT = Unit()
"""Unit of values for which the model states no unit."""


def has_unit(value: Any, depth: int = 0) -> bool:
    """Return True if a value, or one of its elements, is a Quantity, including dimensionless ones.

    Args:
        value: Any value.
        depth: Number of lists and tables around the value.
    """
    kind = type(value)
    if kind in _PLAIN_TYPES or isinstance(value, np.generic):
        return False
    if kind is np.ndarray or isinstance(value, list | tuple):
        if kind is np.ndarray and value.dtype.kind != "O":
            return False
        parts = value.ravel().tolist() if kind is np.ndarray else value
        plain = depth == MAX_AXES or _PLAIN_TYPES.issuperset(map(type, parts))
        return not plain and any(has_unit(part, depth + 1) for part in parts)
    if _is_quantity(value) or _find_foreign_unit(value):
        return True
    content = _find_elements_with_units(value)
    return content is not None and has_unit(content, depth + 1)


def convert(
    value: Any,
    unit: Unit,
    what: str,
    error: type[LoopError] = InputError,
    *,
    is_difference: bool = False,
) -> Any:
    """Return a value with each Quantity in it converted to a unit of the model.

    Args:
        value: Any value. Numbers without a unit stay unchanged.
        unit: Unit of the model.
        what: Name of the value in errors, such as `the input 'x'`.
        error: Class of the errors.
        is_difference: True for a difference or a deviation: 1 kelvin is then 1 degree Celsius.

    Raises:
        LoopError: A unit is unknown or has another dimension. The error has the class `error`.
    """
    return _Conversion(unit, what, error, is_difference).apply(value) if has_unit(value) else value


def short_form(value: Any) -> str:
    """Return a scalar Quantity as text with the symbol of its unit, such as `50us`.

    Any other value gives an empty text.
    """
    number = value.magnitude if _is_quantity(value) else None
    if isinstance(number, np.ndarray) and number.ndim == 0:
        number = number.item()
    if isinstance(number, float):
        return f"{float(number)!r}{value.units:~D}"
    return f"{number}{value.units:~D}" if isinstance(number, int | np.integer | Decimal) else ""


class _Conversion(Struct, frozen=True):
    """Conversion of the Quantities in one value. See `convert`."""

    unit: Unit
    what: str
    error: type[LoopError]
    is_difference: bool

    def apply(self, value: Any) -> Any:
        """Return a value with plain numbers in place of Quantities."""
        if isinstance(value, tuple):
            return tuple(map(self.apply, value))
        if isinstance(value, list):
            return list(map(self.apply, value))
        if type(value) is np.ndarray:
            return self.apply(value.tolist()) if value.dtype.kind == "O" else value
        if _is_quantity(value):
            return self._magnitude(value)
        if text := _find_foreign_unit(value):
            raise self._foreign(value, text)
        content = _find_elements_with_units(value)
        return value if content is None else self.apply(content)

    def _magnitude(self, quantity: Any) -> Any:
        """Return the number of a Quantity in the unit of the model."""
        if _full_unit_name(quantity.units) == "dimensionless":
            return _to_plain_number(quantity.magnitude)
        target = self._target(quantity)
        if self.is_difference:
            target = self._difference(quantity, target)
        try:
            number = quantity.to(target).magnitude
        except Exception as problem:  # noqa: BLE001 - a registry has errors of its own
            raise self._unlike(quantity, _error_message(problem)) from None
        return _to_plain_number(number)

    def _target(self, quantity: Any) -> Any:
        """Return the unit to which a Quantity is converted."""
        if not self.unit.text:
            if quantity.units.dimensionless:
                return ""
            raise self._without_unit(quantity)
        try:
            target = quantity._REGISTRY.parse_units(self.unit.text)
        except Exception:  # noqa: BLE001 - its parser has errors of its own, AssertionError among them
            raise self._unknown(quantity) from None
        return "" if quantity.units.dimensionless and not target.dimensionless else target

    def _difference(self, quantity: Any, target: Any) -> Any:
        """Return the unit of differences between values in `target`.

        Raises:
            LoopError: The Quantity is no difference, but a point on a scale such as degrees Celsius.
        """
        if isinstance(target, str):
            return target
        if _find_difference_unit(quantity._REGISTRY, quantity.units) != quantity.units:
            problem = f"{_full_unit_name(quantity.units)} is a scale with a zero of its own"
            raise self._unlike(quantity, f"it is a difference, and {problem}")
        return _find_difference_unit(quantity._REGISTRY, target)

    # --- errors -----------------------------------------------------------------------------------

    def _without_unit(self, quantity: Any) -> LoopError:
        """Return the error about a Quantity for a value without a unit in the model."""
        name, symbol = _full_unit_name(quantity.units), f"{quantity.units:~D}"
        if self.error is not InputError:  # raised where a document is read
            return self.error(
                f"{self.what} is given in {name}, but values of a model are plain numbers",
                self.unit.where,
                f"write the number alone, and its unit in the metadata: {{units: {symbol}}}",
            )
        hint = "give a plain number"
        if self.unit.where:
            hint += f", or state the unit in the model, e.g. metadata: {{units: {symbol}}}"
        sentence = f"{self.what} is given in {name}, but has no unit in the model"
        return self.error(sentence, self.unit.where, hint)

    def _unlike(self, quantity: Any, problem: str) -> LoopError:
        """Return the error about a Quantity that cannot be converted to the unit of the model."""
        name = _full_unit_name(quantity.units)
        return self.error(
            f"{self.what} is given in {name}, but its unit is '{self.unit.text}': {problem}"[:400],
            self.unit.where,
            f"give a Quantity that can be converted to '{self.unit.text}', or a plain number in it",
        )

    def _unknown(self, quantity: Any) -> LoopError:
        """Return the error about a unit of the model that pint does not know."""
        text = self.unit.text
        known = next(_find_known_spellings(quantity._REGISTRY, text), None)
        better = f"write '{known}' there" if known else "write a unit that pint knows"
        return self.error(
            f"{self.what} is given in {_full_unit_name(quantity.units)}, but its unit in the model, '{text}', "
            "is none that pint knows",
            self.unit.where,
            f"{better}, define '{text}' in the registry, or give a plain number",
        )

    def _foreign(self, value: Any, text: str) -> LoopError:
        """Return the error about a quantity of another package than pint."""
        package = type(value).__module__.partition(".")[0]
        unit = f" in '{self.unit.text}'" if self.unit.text else ""
        return self.error(
            f"{self.what} is given in {text} as {type(value).__name__} of {package}: "
            "only Quantities of pint are converted",
            self.unit.where,
            f"give plain numbers{unit}, e.g. what {package} converts to a numpy array",
        )


def _is_quantity(value: Any) -> bool:
    """Return True for a pint Quantity of any registry."""
    kind = type(value)
    return hasattr(kind, "magnitude") and hasattr(kind, "to") and hasattr(kind, "dimensionless")


def _find_foreign_unit(value: Any) -> str:
    """Return the unit of a quantity of astropy, Brian2 and similar packages as text, or an empty text."""
    # Only arrays have a unit in the instance: such an attribute of a table may be a column.
    where = value if isinstance(value, np.ndarray) else type(value)
    for name in _FOREIGN_ATTRIBUTES:
        if not hasattr(where, name):
            continue
        unit = getattr(value, name, None)
        if unit is None or isinstance(unit, str) or isroutine(unit):
            continue
        text = str(unit).removeprefix("1.0 ")  # the package quantities writes this prefix
        if text not in ("", "1") and not text.endswith("dimensionless"):
            return text
    return ""


def _find_elements_with_units(value: Any) -> Any:
    """Return the elements of a pandas column or an xarray array that may have units, or None."""
    dtype = getattr(value, "dtype", None)
    if hasattr(type(value), "iloc") and dtype is not None:
        may_have_units = getattr(dtype, "kind", "O") == "O" or hasattr(dtype, "units")
        return list(value) if may_have_units else None
    return getattr(value, "data", None) if hasattr(type(value), "dims") else None


def _find_difference_unit(registry: Any, unit: Any) -> Any:
    """Return the unit of a difference of two values in a unit, such as `delta_degC` for `degC`."""
    try:
        one = registry.Quantity(1.0, unit)
        difference = (one - one).units
    except Exception:  # noqa: BLE001 - logarithmic units, for example, have no difference
        return unit
    return difference if _full_unit_name(difference).startswith("delta_") else unit


def _find_known_spellings(registry: Any, text: str) -> Iterator[str]:
    """Yield spellings of a unit that a registry knows, after replacement of common spellings."""
    spelling = text
    for usual, known in _SPELLINGS:
        spelling = usual.sub(known, spelling)
        try:
            registry.parse_units(spelling)
        except Exception:  # noqa: BLE001 - an unknown spelling
            continue
        yield spelling


def _to_plain_number(number: Any) -> Any:
    """Return a magnitude with the number type of any registry (such as Decimal) as a float or NumPy array."""
    if isinstance(number, Decimal | Fraction):
        return float(number)
    if type(number) is not np.ndarray:
        return number
    if number.dtype.kind == "O" and all(isinstance(each, Real | Decimal) for each in number.flat):
        number = number.astype(float)
    return number[()] if number.ndim == 0 else number


def _error_message(problem: Exception) -> str:
    """Return the message of an error of a registry, or the name of its class if it has no message."""
    try:
        return str(problem)
    except Exception:  # noqa: BLE001 - errors about Fractions fail here, for example
        return type(problem).__name__


def _full_unit_name(unit: Any) -> str:
    """Return the full name of a unit, independent of the default format of its registry."""
    return format(unit, "D")
