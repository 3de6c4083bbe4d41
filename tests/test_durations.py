"""Durations as text or number: accepted forms, refused forms, and conversion to a model's unit of time."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdf_loop.durations import UNITS, as_text, convert_step, has_unit, seconds, unit_of_step
from mdf_loop.errors import InputError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (90, 90.0),
        (0.25, 0.25),
        (np.float64(1.5), 1.5),
        (np.int64(3), 3.0),
        ("90", 90.0),
        (" 1e3 ", 1000.0),
        (".5", 0.5),
        ("90s", 90.0),
        ("90 sec", 90.0),
        ("1 second", 1.0),
        ("5min", 300.0),
        ("5 mins", 300.0),
        ("5m", 300.0),
        ("5 MIN", 300.0),
        ("1.5h", 5400.0),
        ("2 h 30 min", 9000.0),
        ("2h30m", 9000.0),
        ("2 hours 1 minute 1 s", 7261.0),
        ("1d", 86400.0),
        ("1 day 1 hr", 90000.0),
        ("250ms", 0.25),
        ("1 s 500 ms", 1.5),
        ("1.h", 3600.0),
    ],
)
def test_accepted_durations(value, expected: float) -> None:
    assert seconds(value, "the time limit") == expected


@pytest.mark.parametrize(
    "value",
    ["", " ", "soon", "5 bananas", "min", "2h30", "5min 5min", "30 min 2 h", "1,5h", "-5min"],
)
def test_texts_that_are_no_durations_are_refused(value: str) -> None:
    assert_refused(value)


@pytest.mark.parametrize(
    "value", ["1_000", "nan", "inf", "٣s", "5 mi n", "1e3s", "5ſ", True, None, [5], 2j, b"5s"]
)
def test_other_values_are_refused(value) -> None:
    assert_refused(value)


def assert_refused(value: object) -> None:
    with pytest.raises(InputError) as error:
        seconds(value, "the time limit")
    assert error.value.report == (
        f"InputError: the time limit is {value!r}, which is not a length of time\n"
        "  hint: give a number of seconds or a text with a unit, e.g. 90, 30s, 5min, 2h"
    )


@pytest.mark.parametrize("value", [0, -1, -0.5, "0", "-3", "0 min"])
def test_zero_and_negative_durations_are_refused(value) -> None:
    with pytest.raises(InputError, match="must be longer than zero"):
        seconds(value, "the time limit")


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "1e999", "9" * 400 + "h"])
def test_infinite_durations_are_refused(value) -> None:
    with pytest.raises(InputError, match="must be finite"):
        seconds(value, "the time limit")


def test_an_integer_beyond_float64_is_refused() -> None:
    with pytest.raises(InputError, match="must be finite"):
        seconds(10**400, "the time limit")


@pytest.mark.parametrize("text", ["5min", "1h", " 250 ms ", "2 h 30 min", "0s"])
def test_texts_with_a_unit(text: str) -> None:
    assert has_unit(text)


@pytest.mark.parametrize("text", ["10", "", "1e3", "5 bananas", "h", "-5min"])
def test_texts_without_a_unit(text: str) -> None:
    assert not has_unit(text)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (3, "3 s"),
        (12.34, "12.3 s"),
        (59.9, "59.9 s"),
        (59.97, "1 min"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (3599.7, "1 h"),
        (3840, "1 h 4 min"),
        (7199, "2 h"),
        (86_399, "1 d"),
        (90_000, "1 d 1 h"),
        (172_800, "2 d"),
    ],
)
def test_durations_as_text(duration: float, text: str) -> None:
    assert as_text(duration) == text


@given(st.floats(min_value=1e-3, max_value=1e7))
def test_durations_survive_conversion_to_text(duration: float) -> None:
    assert seconds(as_text(duration), "it") == pytest.approx(duration, rel=0.03)


@given(st.text(max_size=12))
def test_any_text_is_a_positive_duration_or_refused(text: str) -> None:
    with suppress(InputError):
        assert seconds(text, "it") > 0


# --- time steps of a model ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("0.5ms", "s", 0.0005),
        ("0.5ms", "ms", 0.5),
        ("0.5 ms", "us", 500.0),
        (" 50us ", "ms", 0.05),
        ("50\u00b5s", "s", 5e-5),
        ("50 \u03bcs", "s", 5e-5),
        ("1e-4s", "ms", 0.1),
        ("3ns", "s", 3e-9),
        ("1min", "s", 60.0),
        ("1 h", "min", 60.0),
        ("1d", "h", 24.0),
        ("-0.1ms", "s", -0.0001),
        ("+.5ms", "ms", 0.5),
        ("0ms", "s", 0.0),
        ("0.1", "ms", 0.1),
        ("1e-4", "s", 1e-4),
    ],
)
def test_time_steps_are_converted_to_the_unit_of_the_model(
    text: str, unit: str, expected: float
) -> None:
    assert convert_step(text, unit) == expected


@given(
    st.decimals(min_value="-1e9", max_value="1e9", places=6),
    st.sampled_from(sorted(UNITS)),
    st.sampled_from(sorted(UNITS)),
)
def test_converted_time_steps_are_correctly_rounded(number, of: str, unit: str) -> None:
    exact = Fraction(number) * UNITS[of] / UNITS[unit]
    assert convert_step(f"{number:f} {of}", unit) == float(exact)


def test_plain_numbers_are_not_converted() -> None:
    for dt in (0.5, 3, np.float64(0.1), None, True, [1]):
        assert convert_step(dt, "ms") is dt


@pytest.mark.parametrize("text", ["", "ms", "fast", "nan", "inf", "0,5ms", "1_0", "٣ms", "1" * 500])
def test_time_steps_that_are_no_durations_are_refused(text: str) -> None:
    with pytest.raises(InputError) as error:
        convert_step(text, "s")
    assert error.value.report == (
        f"InputError: dt must be a length of time, not {text[:60]!r}\n"
        "  hint: give a number in the model's unit of time, or a text with a unit, "
        "e.g. 5e-5 or '0.5ms'"
    )


@pytest.mark.parametrize("unit", ["m", "MS", "mV", "bananas", "sec", "min 30 s", "/s", "%"])
def test_units_of_other_dimensions_are_refused(unit: str) -> None:
    with pytest.raises(InputError) as error:
        convert_step(f"5 {unit}", "s")
    assert error.value.report == (
        f"InputError: dt is '5 {unit}', but '{unit}' is no unit of time\n"
        "  hint: units of time are ns, us, ms, s, min, h, d"
    )


@pytest.mark.parametrize(
    "text", ["1e999ms", "-1e400", "1e-400ms", "1e-320ms", "1e308h", "1e99999999999999999999s"]
)
def test_time_steps_beyond_float64_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="which float64 cannot hold"):
        convert_step(text, "s" if text != "1e-320ms" else "d")


@given(st.text(max_size=12))
def test_any_text_is_a_finite_time_step_or_refused(text: str) -> None:
    with suppress(InputError):
        assert np.isfinite(convert_step(text, "ms"))


@pytest.mark.parametrize(
    ("text", "unit"), [("0.5ms", "ms"), (" 1 s ", "s"), ("1", None), ("x", None)]
)
def test_the_unit_of_a_time_step(text: str, unit: str | None) -> None:
    assert unit_of_step(text) == unit
