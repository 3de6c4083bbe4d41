"""Conversion of pint Quantities to the units of the model.

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

_SPELLING_REPLACEMENTS = (
    (re.compile("Ohm"), "ohm"),
    (re.compile("^per_"), "1/"),
    (re.compile("_per_"), "/"),
    (re.compile(r"(?<=[A-Za-z])(-?[0-9]+)"), r"**\1"),
)
"""Replacements of common spellings of units that pint does not know: `MOhm`, `mS_per_cm2`, `uA/cm2`."""


class Unit(Struct, frozen=True):
    """Unit that a model states for a value, with the place of the statement.

    Attributes:
        text: Unit as the model states it, or an empty text.
        where: Place in the model where the unit is stated or could be stated.
    """

    text: str = ""
    where: str = ""


NO_UNIT = Unit()
"""Unit of values for which the model states no unit."""


def has_unit(value: Any, depth: int = 0) -> bool:
    """Return True if a value or one of its elements is a Quantity, also a dimensionless one.

    Args:
        value: Any value.
        depth: Number of lists and tables around the value.
    """
    value_type = type(value)
    if value_type in _PLAIN_TYPES or isinstance(value, np.generic):
        return False
    if value_type is np.ndarray or isinstance(value, list | tuple):
        if value_type is np.ndarray and value.dtype.kind != "O":
            return False
        elements = value.ravel().tolist() if value_type is np.ndarray else value
        contains_plain_numbers = depth == MAX_AXES or _PLAIN_TYPES.issuperset(map(type, elements))
        return not contains_plain_numbers and any(
            has_unit(element, depth + 1) for element in elements
        )
    if _is_quantity(value) or _find_foreign_unit(value):
        return True
    inner_elements = _find_elements_with_units(value)
    return inner_elements is not None and has_unit(inner_elements, depth + 1)


def convert(
    value: Any,
    unit: Unit,
    what: str,
    error: type[LoopError] = InputError,
    *,
    is_difference: bool = False,
) -> Any:
    """Return a value with its Quantities converted to plain numbers in a unit of the model.

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
    magnitude = value.magnitude if _is_quantity(value) else None
    if isinstance(magnitude, np.ndarray) and magnitude.ndim == 0:
        magnitude = magnitude.item()
    if isinstance(magnitude, float):
        return f"{float(magnitude)!r}{value.units:~D}"
    return (
        f"{magnitude}{value.units:~D}" if isinstance(magnitude, int | np.integer | Decimal) else ""
    )


class _Conversion(Struct, frozen=True):
    """Converter of the Quantities in one value to the unit of the model."""

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
        if foreign_unit := _find_foreign_unit(value):
            raise self._foreign_quantity_error(value, foreign_unit)
        inner_elements = _find_elements_with_units(value)
        return value if inner_elements is None else self.apply(inner_elements)

    def _magnitude(self, quantity: Any) -> Any:
        """Return the number of a Quantity after conversion to the unit of the model."""
        if _full_unit_name(quantity.units) == "dimensionless":
            return _to_plain_number(quantity.magnitude)
        target_unit = self._target_unit(quantity)
        if self.is_difference:
            target_unit = self._difference_unit(quantity, target_unit)
        try:
            magnitude = quantity.to(target_unit).magnitude
        except Exception as problem:  # noqa: BLE001 - a registry has errors of its own
            raise self._incompatible_unit_error(quantity, _error_message(problem)) from None
        return _to_plain_number(magnitude)

    def _target_unit(self, quantity: Any) -> Any:
        """Return the model's unit to which a Quantity is converted."""
        if not self.unit.text:
            if quantity.units.dimensionless:
                return ""
            raise self._missing_unit_error(quantity)
        try:
            target_unit = quantity._REGISTRY.parse_units(self.unit.text)
        except Exception:  # noqa: BLE001 - its parser has errors of its own, AssertionError among them
            raise self._unknown_unit_error(quantity) from None
        return "" if quantity.units.dimensionless and not target_unit.dimensionless else target_unit

    def _difference_unit(self, quantity: Any, target: Any) -> Any:
        """Return the unit of differences between two values in the unit `target`.

        Raises:
            LoopError: The Quantity is no difference, but a point on a scale such as degrees Celsius.
        """
        if isinstance(target, str):
            return target
        if _find_difference_unit(quantity._REGISTRY, quantity.units) != quantity.units:
            scale_problem = f"{_full_unit_name(quantity.units)} is a scale with a zero of its own"
            raise self._incompatible_unit_error(
                quantity, f"it is a difference, and {scale_problem}"
            )
        return _find_difference_unit(quantity._REGISTRY, target)

    # --- errors -----------------------------------------------------------------------------------

    def _missing_unit_error(self, quantity: Any) -> LoopError:
        """Return the error for a Quantity where the model states no unit."""
        unit_name, unit_symbol = _full_unit_name(quantity.units), f"{quantity.units:~D}"
        if self.error is not InputError:  # raised where a document is read
            return self.error(
                f"{self.what} is given in {unit_name}, but values of a model are plain numbers",
                self.unit.where,
                f"write the number alone, and its unit in the metadata: {{units: {unit_symbol}}}",
            )
        hint = "give a plain number"
        if self.unit.where:
            hint += f", or state the unit in the model, e.g. metadata: {{units: {unit_symbol}}}"
        message = f"{self.what} is given in {unit_name}, but has no unit in the model"
        return self.error(message, self.unit.where, hint)

    def _incompatible_unit_error(self, quantity: Any, problem: str) -> LoopError:
        """Return the error for a Quantity that cannot be converted to the unit of the model."""
        unit_name = _full_unit_name(quantity.units)
        return self.error(
            f"{self.what} is given in {unit_name}, but its unit is '{self.unit.text}': {problem}"[
                :400
            ],
            self.unit.where,
            f"give a Quantity that can be converted to '{self.unit.text}', or a plain number in it",
        )

    def _unknown_unit_error(self, quantity: Any) -> LoopError:
        """Return the error for a unit of the model that pint does not know."""
        unit_text = self.unit.text
        known_spelling = next(_find_known_spellings(quantity._REGISTRY, unit_text), None)
        spelling_hint = (
            f"write '{known_spelling}' there" if known_spelling else "write a unit that pint knows"
        )
        return self.error(
            f"{self.what} is given in {_full_unit_name(quantity.units)}, but its unit in the model, '{unit_text}', "
            "is none that pint knows",
            self.unit.where,
            f"{spelling_hint}, define '{unit_text}' in the registry, or give a plain number",
        )

    def _foreign_quantity_error(self, value: Any, text: str) -> LoopError:
        """Return the error for a quantity from another package than pint."""
        package_name = type(value).__module__.partition(".")[0]
        unit_suffix = f" in '{self.unit.text}'" if self.unit.text else ""
        return self.error(
            f"{self.what} is given in {text} as {type(value).__name__} of {package_name}: "
            "only Quantities of pint are converted",
            self.unit.where,
            f"give plain numbers{unit_suffix}, e.g. what {package_name} converts to a numpy array",
        )


def _is_quantity(value: Any) -> bool:
    """Return True for a pint Quantity of any registry."""
    value_type = type(value)
    return (
        hasattr(value_type, "magnitude")
        and hasattr(value_type, "to")
        and hasattr(value_type, "dimensionless")
    )


def _find_foreign_unit(value: Any) -> str:
    """Return the unit of a quantity from astropy, Brian2 or a similar package as text, or ""."""
    # Only arrays have a unit in the instance: such an attribute of a table may be a column.
    attribute_owner = value if isinstance(value, np.ndarray) else type(value)
    for attribute_name in _FOREIGN_ATTRIBUTES:
        if not hasattr(attribute_owner, attribute_name):
            continue
        foreign_unit = getattr(value, attribute_name, None)
        if foreign_unit is None or isinstance(foreign_unit, str) or isroutine(foreign_unit):
            continue
        # the package quantities writes this prefix
        unit_text = str(foreign_unit).removeprefix("1.0 ")
        if unit_text not in ("", "1") and not unit_text.endswith("dimensionless"):
            return unit_text
    return ""


def _find_elements_with_units(value: Any) -> Any:
    """Return the elements of a pandas or xarray object if they may have units, or None."""
    dtype = getattr(value, "dtype", None)
    if hasattr(type(value), "iloc") and dtype is not None:
        may_have_units = getattr(dtype, "kind", "O") == "O" or hasattr(dtype, "units")
        return list(value) if may_have_units else None
    return getattr(value, "data", None) if hasattr(type(value), "dims") else None


def _find_difference_unit(registry: Any, unit: Any) -> Any:
    """Return the unit of a difference of two quantities, such as `delta_degC` for `degC`."""
    try:
        unit_quantity = registry.Quantity(1.0, unit)
        difference_unit = (unit_quantity - unit_quantity).units
    except Exception:  # noqa: BLE001 - logarithmic units, for example, have no difference
        return unit
    return difference_unit if _full_unit_name(difference_unit).startswith("delta_") else unit


def _find_known_spellings(registry: Any, text: str) -> Iterator[str]:
    """Yield spellings of a unit that a pint registry knows, after replacing common spellings."""
    candidate_spelling = text
    for spelling_pattern, known_spelling in _SPELLING_REPLACEMENTS:
        candidate_spelling = spelling_pattern.sub(known_spelling, candidate_spelling)
        try:
            registry.parse_units(candidate_spelling)
        except Exception:  # noqa: BLE001 - an unknown spelling
            continue
        yield candidate_spelling


def _to_plain_number(number: Any) -> Any:
    """Convert the magnitude of a Quantity, which may be a Decimal, to a float or NumPy array."""
    if isinstance(number, Decimal | Fraction):
        return float(number)
    if type(number) is not np.ndarray:
        return number
    if number.dtype.kind == "O" and all(
        isinstance(element, Real | Decimal) for element in number.flat
    ):
        number = number.astype(float)
    return number[()] if number.ndim == 0 else number


def _error_message(problem: Exception) -> str:
    """Return the message of an error of a pint registry, or the name of its class."""
    try:
        return str(problem)
    except Exception:  # noqa: BLE001 - errors about Fractions fail here, for example
        return type(problem).__name__


def _full_unit_name(unit: Any) -> str:
    """Return the full name of a unit, independent of its registry's default format."""
    return format(unit, "D")
