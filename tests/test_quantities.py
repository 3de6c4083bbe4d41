"""Quantities of pint are converted to the unit of the model; numbers with other units are refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pint
import pytest
import xarray as xr

from mdf_loop.errors import InputError, ModelError
from mdf_loop.quantities import NO_UNIT, Unit, convert, has_unit, short_form

REGISTRY = pint.UnitRegistry()
OTHER = pint.UnitRegistry()
OTHER.define("spike = 1e-12 * ampere")
EXACT = pint.UnitRegistry(non_int_type=Decimal)
RATIONAL = pint.UnitRegistry(non_int_type=Fraction)
FORCED = pint.UnitRegistry(force_ndarray=True)
Q = REGISTRY.Quantity
PICO = Unit("pA", "$.here")


class ArrayWithUnit(np.ndarray):
    """An array with a unit attribute, as in astropy, unyt or Brian2."""

    unit: Any = None
    units: Any = None
    dim: Any = None

    @classmethod
    def of(cls, attribute: str, unit: Any) -> ArrayWithUnit:
        array = np.array([1.0, 2.0]).view(cls)
        setattr(array, attribute, unit)
        return array


class TextUnit:
    """A unit with a text form."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def column(values: list[Any]) -> pd.Series:
    objects = np.empty(len(values), object)
    for k, value in enumerate(values):
        objects[k] = value
    return pd.Series(objects)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Q(0.9, "nA"), 900.0),
        (Q(900, "pA"), 900),
        (Q(0.0, "A"), 0.0),
        (Q([1.0, 2.0], "nA"), [1000.0, 2000.0]),
        ([Q(1.0, "nA"), Q(5.0, "pA"), 7.0], [1000.0, 5.0, 7.0]),
        (([Q(1.0, "nA")], (Q(3.0, "nA"),)), ([1000.0], (3000.0,))),
        (np.array([Q(1.0, "nA"), 4.0], dtype=object), [1000.0, 4.0]),
        (column([Q(1.0, "nA"), Q(2.0, "pA")]), [1000.0, 2.0]),
        (xr.DataArray(Q([1.0, 2.0], "nA")), [1000.0, 2000.0]),
        (OTHER.Quantity(3.0, "spike"), 3.0),
        (Q(3.0, ""), 3.0),
        (Q(1.0, "nA/pA"), 1000.0),
        (Q(50.0, "percent"), 0.5),
        (EXACT.Quantity(Decimal("0.9"), "nA"), 900.0),
        (EXACT.Quantity(Decimal("0.9"), ""), 0.9),
        (RATIONAL.Quantity(Fraction(9, 10), "nA"), 900.0),
        (RATIONAL.Quantity(np.array([Fraction(9, 10)]), "nA"), [900.0]),
        (FORCED.Quantity(0.9, "nA"), 900.0),
    ],
)
def test_a_quantity_is_converted_by_its_registry(value: Any, expected: Any) -> None:
    assert has_unit(value)
    plain = np.asarray(convert(value, PICO, "x"))
    assert plain.dtype.kind in "if"
    assert np.allclose(plain, expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (Q(68.0, "degF"), "degC", 20.0),
        (Q(300.0, "kelvin"), "degC", 26.85),
        (Q(20.0, "degC"), "kelvin", 293.15),
        (Q(0.5, ""), "percent", 0.5),
        (Q(50.0, "percent"), "percent", 50.0),
        (Q(180.0, "deg"), "rad", np.pi),
        (Q(1.0, "1/ms"), "Hz", 1000.0),
    ],
)
def test_scales_and_dimensionless_units(value: Any, unit: str, expected: float) -> None:
    assert convert(value, Unit(unit), "x") == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (Q(0.5, "delta_degC"), "degC", 0.5),
        (Q(0.5, "kelvin"), "degC", 0.5),
        (Q(0.9, "delta_degF"), "kelvin", 0.5),
        (Q(0.5, "V"), "mV", 500.0),
        (Q(0.5, ""), "degC", 0.5),
    ],
)
def test_differences_are_converted_without_offset(value: Any, unit: str, expected: float) -> None:
    assert convert(value, Unit(unit), "x", is_difference=True) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("unit", ["degC", "kelvin"])
def test_absolute_temperatures_are_refused_as_differences(unit: str) -> None:
    with pytest.raises(InputError, match="degree_Celsius is a scale with a zero of its own"):
        convert(Q(0.5, "degC"), Unit(unit), "the noise", is_difference=True)


@pytest.mark.parametrize(
    ("value", "unit", "message"),
    [
        (Q(3.0, "mV"), PICO, "x is given in millivolt, but its unit is 'pA': Cannot convert"),
        ([1.0, Q(3.0, "mV")], PICO, "x is given in millivolt"),
        (Q(5.0, "delta_degC"), Unit("degC"), "x is given in delta_degree_Celsius"),
        (
            Q(3.0, "mV"),
            NO_UNIT,
            r"x is given in millivolt, but has no unit[^,]*\n  hint: give a plain number$",
        ),
        (
            Q(3.0, "mV"),
            Unit("", "$.p"),
            r"(?s)no unit in the model\n  at \$\.p.*metadata: \{units: mV\}",
        ),
        (Q(3.0, "mV"), Unit("widgets", "$.p"), r"'widgets', is none that pint knows\n  at \$\.p"),
        (Q(3.0, "mV"), Unit("mV/"), "'mV/', is none that pint knows"),
        (Q(3.0, "mV"), Unit("2 mV"), "'2 mV', is none that pint knows"),
        (
            RATIONAL.Quantity(Fraction(3), "mV"),
            PICO,
            "x is given in millivolt, but its unit is 'pA'",
        ),
        (Q(5.0, "percent"), Unit("widgets"), "'widgets', is none that pint knows"),
        (Q(3.0, "ohm"), Unit("MOhm"), "write 'Mohm' there"),
        (Q(3.0, "A/m**2"), Unit("uA/cm2"), r"write 'uA/cm\*\*2' there"),
        (Q(3.0, "S/m**2"), Unit("mS_per_cm2"), r"write 'mS/cm\*\*2' there"),
        (Q(3.0, "Hz"), Unit("per_ms"), "write '1/ms' there"),
    ],
)
def test_quantities_without_a_conversion_are_refused(value: Any, unit: Unit, message: str) -> None:
    with pytest.raises(InputError, match=message):
        convert(value, unit, "x")


def test_a_dimensionless_quantity_needs_no_unit_that_pint_knows() -> None:
    assert convert(Q(3.0, ""), Unit("widgets"), "x") == 3.0
    assert convert(Q(50.0, "percent"), NO_UNIT, "x") == 0.5


@pytest.mark.parametrize("attribute", ["unit", "units", "dim"])
@pytest.mark.parametrize("wrap", [lambda array: array, lambda array: [array, 1.0]])
def test_units_of_other_packages_are_refused(attribute: str, wrap: Any) -> None:
    value = wrap(ArrayWithUnit.of(attribute, TextUnit("mV")))
    with pytest.raises(
        InputError, match=r"(?s)given in mV as ArrayWithUnit.*only Quantities of pint.*'pA'"
    ):
        convert(value, PICO, "x")


@pytest.mark.parametrize("text", ["", "1", "dimensionless", "1.0 dimensionless"])
def test_dimensionless_arrays_of_other_packages_are_plain(text: str) -> None:
    assert not has_unit(ArrayWithUnit.of("units", TextUnit(text)))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        2.5,
        "mV",
        np.float64(2.0),
        np.ones(3),
        np.array(["a", None, [1.0]], dtype=object),
        [[1.0, 2.0], [3.0, np.float32(4.0)], [np.float64(5.0), np.int64(6)], [np.ones(2)]],
        {"a": 1},
        xr.DataArray([1.0], attrs={"units": "mV"}),
        pd.Series([1.0, 2.0], index=["unit", "units"]),
        pd.Series(["a", "b"]),
        pd.Timedelta(5, "ms"),
        pd.DataFrame({"units": [1.0]}),
        REGISTRY.nA,
    ],
)
def test_plain_values_are_returned_unchanged(value: Any) -> None:
    assert not has_unit(value)
    assert convert(value, PICO, "x") is value


def test_a_list_that_contains_itself_has_no_unit() -> None:
    endless: list[Any] = [None]
    endless[0] = endless
    assert not has_unit(endless)


def test_quantities_in_documents_are_refused() -> None:
    with pytest.raises(
        ModelError, match=r"(?s)the value is given in millivolt.*metadata: \{units: mV\}"
    ):
        convert(Q(3.0, "mV"), Unit("", "$.p"), "the value", ModelError)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Q(50, "us"), "50µs"),
        (Q(np.int64(5), "min"), "5min"),
        (Q(np.float64(0.1), "ms"), "0.1ms"),
        (Q(np.array(0.1), "ms"), "0.1ms"),
        (EXACT.Quantity(Decimal("0.10"), "ms"), "0.10ms"),
        (Q([0.1], "ms"), ""),
        (0.1, ""),
    ],
)
def test_short_forms(value: Any, text: str) -> None:
    assert short_form(value) == text
