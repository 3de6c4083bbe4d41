"""Slices compared with Python for all ends and steps, constant or computed, on any axis and engine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.ir import Input, Output, Program
from mdf_loop.lower import Scope, lower_expression
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.pipeline import LEGAL, ONNXRUNTIME, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.ops.op_running import program_of
from tests.placements import STANDARD
from tests.soak import some

STEPS = (-3, -2, -1, 1, 2, 3)
LOW, HIGH = -(2**63), 2**63 - 1
ENDS = [LOW, LOW + 1, *range(-11, 12), 2**31 - 2, 2**31 - 1, 2**31, HIGH - 1, HIGH]
WRITINGS = ("a:b", "a:", ":b", ":")

FORMS: list[dict[str, Any]] = [
    {"native": "off"},
    {"native": "require"},
    {"native": "off", "engine": "interpreter"},
]
FORM_PARAMETERS = [
    pytest.param(form, marks=[pytest.mark.native] * (form["native"] == "require"), id=str(form))
    for form in FORMS
]


def part_of(writing: str, step: int, a: int, b: int) -> slice:
    """Return Python's slice for the ends in this notation."""
    start, stop = a if "a" in writing else None, b if "b" in writing else None
    return slice(start, stop, step)


def measures(part: Any) -> list[int]:
    """Return the number of elements and their sum, which identify a slice of one array."""
    return [part.size, int(part.sum())]


# --- computed ends --------------------------------------------------------------------------------


def over_time(shape: list[int], *, axis: int, step: int, cut: bool) -> dict[str, Any]:
    """Return a model that slices an array along an axis by the ends `a` and `b` of each step.

    `cut` keeps `n` elements of the axis, a number that is known only at run time.
    """
    x = np.arange(1, 1 + math.prod(shape)).reshape(shape)
    front = ":, " * axis
    array = f"x[{front}:n]" if cut else "x"
    outputs = {}
    for k, writing in enumerate(WRITINGS):
        part = f"{array}[{front}{writing}:{step}]"
        outputs[f"size{k}"] = {"value": f"numpy.size({part})"}
        outputs[f"sum{k}"] = {"value": f"numpy.sum({part})"}
    node = {
        "input_ports": {name: {"type": "int64", "shape": []} for name in ("a", "b", "n")},
        "parameters": {"x": {"default_initial_value": x.tolist(), "value": "x + 0 * n"}},
        "output_ports": outputs,
    }
    return {"m": {"graphs": {"g": {"nodes": {"A": node}}}}}


def assert_as_python(
    shape: list[int], ends: np.ndarray, form: dict[str, Any], *, axis: int, step: int, cut: bool
) -> None:
    """Compare a model with Python for rows of `a`, `b` and `n`."""
    feeds = dict(zip("abn", ends.T, strict=True))
    compiled = mdf_loop.compile(
        over_time(shape, axis=axis, step=step, cut=cut), native=form["native"]
    )
    engine = {"engine": form["engine"]} if "engine" in form else {}
    results = compiled.run(feeds, steps=len(ends), progress=False, **engine)
    x = np.arange(1, 1 + math.prod(shape)).reshape(shape)
    front = (slice(None),) * axis
    for k, writing in enumerate(WRITINGS):
        expected = [
            measures(x[(*front, slice(n if cut else None))][(*front, part_of(writing, step, a, b))])
            for a, b, n in ends.tolist()
        ]
        slices = np.stack([results[f"size{k}"], results[f"sum{k}"]], axis=1)
        mismatches = ends[np.any(slices != expected, axis=1)]
        assert not len(mismatches), (writing, step, mismatches[:5])


def rows(lengths: Iterable[int]) -> np.ndarray:
    """Return pairs of ends for each length; all pairs in a soak test."""
    return np.array(some([(a, b, n) for n in lengths for a in ENDS for b in ENDS], 5))


@pytest.mark.parametrize("form", FORM_PARAMETERS)
@pytest.mark.parametrize("step", STEPS)
def test_ends_outside_of_an_axis(step: int, form: dict[str, Any]) -> None:
    ends = np.array([(a, b, 0) for a in (-11, -9, -8, -1, 0, 8, HIGH) for b in (-11, -8, 0, 7, 8)])
    assert_as_python([8], ends, form, axis=0, step=step, cut=False)


@pytest.mark.native
@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize(
    ("step", "axis", "form"), some(itertools.product(STEPS, (0, 1), FORMS[:2]), 4), ids=str
)
def test_all_ends_of_all_lengths(step: int, axis: int, form: dict[str, Any]) -> None:
    lengths = some(range(9), 4)
    shape = [8] if axis == 0 else [2, 8]
    assert_as_python(shape, rows(lengths), form, axis=axis, step=step, cut=True)
    for length in lengths:
        shape = [length] if axis == 0 else [2, length]
        assert_as_python(shape, rows([length]), form, axis=axis, step=step, cut=False)


# --- known ends -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_known", [True, False])
def test_constant_ends(step: int, is_known: bool) -> None:
    """Slice arrays of every length, with known or unknown extents, by numbers in the expression."""
    pairs = list(itertools.product([None, *ENDS[1:]], repeat=2))
    for length in some(range(9), 3):
        b, x = ModelBuilder(), np.arange(length)
        value = b.new("int64", (length,) if is_known else ("n",), "x")
        selected = some(pairs, 30)
        outputs = []
        for start, stop in selected:
            text = f"x[{'' if start is None else start}:{'' if stop is None else stop}:{step}]"
            outputs.append(Output(text, lower_expression(b, text, Scope({"x": value}))))
        program = Program("p", (Input(value),), tuple(b.ops), tuple(outputs))
        interpreted = interpret(program, {"x": x})
        computed = Session(prepare(program, ONNXRUNTIME), STANDARD).run({"x": x})
        for (start, stop), output in zip(selected, outputs, strict=True):
            expected = x[start:stop:step]
            for results in (interpreted, computed):
                np.testing.assert_array_equal(results[output.name], expected, output.name)


# --- the operator ---------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", [(), (1, 2, 3, 4), (0, 1, 2, 3, 4), (4,)])
def test_the_operator_has_the_ends_of_the_onnx_document(constant: tuple[int, ...]) -> None:
    """Check that a backward slice from before the first element begins there, unlike Python's."""
    x = np.arange(5)
    for start, end, step, expected in (
        (-7, -9, -2, [0]),
        (-7, 0, -1, []),
        (3, HIGH, -1, []),
        (3, 2**31 - 1, -2, []),
        (HIGH, LOW, -2, [4, 2, 0]),
        (LOW, HIGH, 2, [0, 2, 4]),
        (-7, 2, 1, [0, 1]),
    ):
        arrays = [x, *(np.array([k]) for k in (start, end, 0, step))]
        program = program_of("Slice", arrays, constant=constant)
        feeds = {f"x{k}": array for k, array in enumerate(arrays) if k not in constant}
        assert interpret(program, feeds)["y0"].tolist() == expected
        assert Session(prepare(program, LEGAL), STANDARD).run(feeds)["y0"].tolist() == expected


def test_an_unsigned_end_is_never_negative() -> None:
    x = np.arange(5)
    for text, k in (("x[k::-1]", 2**64 - 3), ("x[:k]", 2**63), ("x[k:]", 2**64 - 1)):
        b = ModelBuilder()
        values = {"x": b.new("int64", (5,), "x"), "k": b.new("uint64", (), "k")}
        part = lower_expression(b, text, Scope(values))
        inputs = tuple(Input(value) for value in values.values())
        program = Program("p", inputs, tuple(b.ops), (Output("y", part),))
        feeds = {"x": x, "k": np.array(k, np.uint64)}
        expected = eval(text, {}, {"x": x, "k": k})
        assert interpret(program, feeds)["y"].tolist() == expected.tolist()
        outputs = Session(prepare(program, ONNXRUNTIME), STANDARD).run(feeds)["y"]
        assert outputs.tolist() == expected.tolist()


def test_the_exported_file_slices_as_python_does(tmp_path: Any) -> None:
    node = {
        "input_ports": {
            "x": {"type": "int64", "shape": [8]},
            "a": {"type": "int64"},
            "b": {"type": "int64"},
        },
        "output_ports": {"y": {"value": "x[a:b:-2]"}},
    }
    compiled = mdf_loop.compile({"m": {"graphs": {"g": {"nodes": {"A": node}}}}})
    x = np.arange(8)
    compiled.save(tmp_path / "m.onnx", {"x": x, "a": 1, "b": 1})
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for a, b in ((-11, -11), (-9, LOW), (-8, -11), (7, 2**31 - 1), (20, HIGH), (5, -7)):
        (y,) = session.run(None, {"x": x, "a": np.array(a), "b": np.array(b)})
        assert y.tolist() == x[a:b:-2].tolist()
