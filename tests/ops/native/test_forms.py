"""Every form of an operation in machine code, of every dtype: what ONNX Runtime's own kernel gives.

A form that is added to a row is tried here without being named.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.errors import RunError
from mdf_loop.ir import Input, Loop, Output, Program, Recorded, Scanned, Value
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import REQUIRED, STANDARD
from tests.soak import some
from tests.strategies.native_operations import Call, calls, combined, hard, same_bits

CLOSE = {"float64": 1e-12, "float32": 2e-6}
"""Relative difference of functions that libraries round apart."""


LOST = {"Gelu": 1e-6}
"""How far from a small number ONNX Runtime's kernel of float32 is, where terms cancel out."""

WITH_FORM = calls()


def each(found: Iterable[Call]) -> pytest.MarkDecorator:
    """A test of each call; of unusual dtypes, which are many, only of some."""
    every, rare = list(found), [pytest.mark.slow, pytest.mark.soak]
    usual = [pytest.param(c, id=str(c)) for c in every if c.is_usual]
    others = some([c for c in every if not c.is_usual], 10)
    return pytest.mark.parametrize(
        "call", [*usual, *(pytest.param(c, id=str(c), marks=rare) for c in others)]
    )


def rows_of(call: Call, given: list[np.ndarray]) -> Program:
    """A loop that scans operands of a call, and records what it gives."""
    b = Builder()
    inputs = [
        b.new(dtype, array.shape, f"x{k}")
        for k, (dtype, array) in enumerate(zip(call.dtypes, given, strict=True))
    ]
    count = given[0].shape[0]
    inside = b.body()
    i, go = inside.new("int64", (), "i"), inside.new("bool", (), "go")
    scanned = tuple(Scanned(v, inside.new(v.dtype, v.shape[1:], "row")) for v in inputs)
    with inside.at("$.here"):
        row = call.made(inside, *(each.row for each in scanned))
    stack = b.new(row.dtype, (count, *(row.shape or ())), "stack")
    trip = b.constant(np.array(count))
    ops = tuple(inside.ops)
    b.append(
        Loop("loop", trip, None, i, go, None, (), (Recorded(row, stack),), ops, scanned, where="$")
    )
    return program(b, inputs, stack)


def program(b: Builder, inputs: list[Value], made: Value) -> Program:
    raw = Program("p", tuple(map(Input, inputs)), tuple(b.ops), (Output("y", made),))
    return prepare(raw, ONNXRUNTIME)


def native_and_standard(call: Call, given: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """What machine code and ONNX Runtime's kernels give."""
    ready = rows_of(call, given)
    feeds = {f"x{k}": array for k, array in enumerate(given)}
    feeds = {entry.value.name: feeds[entry.value.name] for entry in ready.inputs}
    made = Session(ready, REQUIRED).run(feeds)["y"]
    return made, Session(ready, STANDARD).run(feeds)["y"]


def operands(call: Call) -> list[np.ndarray]:
    given = combined(call.dtypes)
    kept = np.ones(given[0].shape, bool)
    if call.divides:
        kept = given[1] != 0
    elif call.raises_integers:
        kept = given[1] >= 0
    elif call.is_open:
        kept = abs(given[0]) < 2.0**31
    return [array[kept] for array in given]


def of_arrays(call: Call) -> list[np.ndarray]:
    """Hard numbers in rows, each with each; what is a single number always is one for each row."""
    if not any(map(call.is_single, range(len(call.dtypes)))):
        return [array[np.newaxis] for array in operands(call)]
    first, *others = call.dtypes
    numbers = combined(tuple(others)) if others else []
    count = numbers[0].size if numbers else 1
    return [np.tile(hard(first), (count, 1)), *numbers]


def compare(call: Call, made: np.ndarray, expected: np.ndarray, *, exact: bool) -> None:
    if call.loses_signs:
        made, expected = made + 0, expected + 0
    if exact or made.dtype.kind != "f":
        assert same_bits(made, expected)
        return
    near = CLOSE[str(made.dtype)]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(made, expected, rtol=near, atol=LOST.get(call.name, 1e-37))


@each(WITH_FORM)
def test_of_arrays(call: Call) -> None:
    made, expected = native_and_standard(call, of_arrays(call))
    compare(call, made, expected, exact=call.is_exact)


SEVERAL = [call for call in WITH_FORM if len(call.dtypes) > 1 and call.is_exact]


@each(SEVERAL)
def test_of_arrays_and_single_numbers(call: Call) -> None:
    """Each operand once a single number, and once an array among single numbers."""
    pools = [hard(dtype) for dtype in call.dtypes]
    if call.divides:
        pools[1] = pools[1][pools[1] != 0]
    count, rng = max(map(len, pools)), np.random.default_rng(0)
    for chosen in range(len(pools)):
        for alone in (True, False):
            lone = [(k == chosen) == alone for k in range(len(pools))]
            if any(call.is_single(k) for k in range(len(pools))):
                continue
            if call.is_shaped_by_first and lone[0]:
                continue
            given = [
                rng.choice(pool, count if one else (count, len(pool)))
                for pool, one in zip(pools, lone, strict=True)
            ]
            width = min(a.shape[1] for a, one in zip(given, lone, strict=True) if not one)
            given = [a if one else a[:, :width] for a, one in zip(given, lone, strict=True)]
            made, expected = native_and_standard(call, given)
            compare(call, made, expected, exact=True)


@each(WITH_FORM)
def test_of_single_numbers(call: Call) -> None:
    made, expected = native_and_standard(call, operands(call))
    compare(call, made, expected, exact=call.is_exact or "float32" not in call.dtypes)


TRUE = {
    **{"Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan},
    **{"Sinh": np.sinh, "Cosh": np.cosh, "Asinh": np.arcsinh, "Acosh": np.arccosh},
    **{
        "Atanh": np.arctanh,
        "Erf": np.vectorize(math.erf),
        "Softplus": lambda x: np.logaddexp(0, x),
    },
}


@pytest.mark.parametrize("name", TRUE)
@pytest.mark.parametrize("lanes", [True, False])
def test_functions_of_float32_are_rounded_once(name: str, lanes: bool) -> None:
    rng = np.random.default_rng(5)
    low, high = (1, 30) if name == "Acosh" else (-1, 1) if name[0] == "A" else (-8, 8)
    x = rng.uniform(low, high, 500).astype(np.float32)
    call = Call(name, ("float32",), places=(0,))
    given = [x[np.newaxis] if lanes else x]
    made = Session(rows_of(call, given), REQUIRED).run({"x0": given[0]})["y"].reshape(-1)
    expected = TRUE[name](x.astype(np.float64))
    assert np.all(abs(made - expected) <= 0.501 * np.spacing(abs(expected.astype(np.float32))))


@each(calls(lambda call: call.divides))
@pytest.mark.parametrize("shape", [(3,), (1, 3)])
def test_division_by_zero(call: Call, shape: tuple[int, ...]) -> None:
    given = [np.ones(shape, dtype) for dtype in call.dtypes]
    given[1][..., -1] = 0
    ready = rows_of(call, given)
    feeds = {f"x{k}": array for k, array in enumerate(given)}
    said = []
    for placement in (REQUIRED, STANDARD):
        try:
            said.append(Session(ready, placement).run(feeds)["y"].tolist())
        except RunError as error:
            said.append(error.findings)
    assert said[0] == said[1]


@each(call for call in WITH_FORM if call.is_fixed)
def test_what_it_means(call: Call) -> None:
    given = of_arrays(call)
    ready = rows_of(call, given)
    feeds = {f"x{k}": array for k, array in enumerate(given)}
    with np.errstate(all="ignore"):
        meant = interpret(ready, feeds)["y"]
    made = Session(ready, REQUIRED).run(feeds)["y"]
    assert same_bits(made, meant)
