"""Integer division by zero: a run-time error in every engine, for constant and computed divisors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.build import Builder
from mdf_loop.errors import RunError
from mdf_loop.ir import Program
from mdf_loop.passes.legalize.guard_zero_divisors import guard_zero_divisors
from mdf_loop.pipeline import LEGAL, prepare
from mdf_loop.run.backend import PROGRAM_BACKENDS
from mdf_loop.run.interpret import interpret
from tests.models.loops import loop_model
from tests.passes.sketch import straight, text
from tests.placements import STANDARD

QUOTIENTS = [
    "a // k",
    "a % k",
    "numpy.fmod(a, k)",
    "numpy.floor_divide(a, k)",
    "numpy.divmod(a, k)[1]",
    "numpy.where(k > 0, a // k, 0)",
]
ENGINES = [("onnxruntime", "auto"), ("onnxruntime", "off"), ("interpreter", "auto")]


def divided(divisor: Any, shape: tuple[Any, ...] = (2,)) -> Program:
    b = Builder()
    x = b.new("int64", shape, "x")
    return straight(b, (x,), q=b.op("Div", x, b.constant(np.array(divisor))))


def test_a_divisor_with_zeros_gets_a_guard() -> None:
    assert text(guard_zero_divisors(divided([0, 4])))[3:-1] == [
        "  %Div:Div: int64[2] = Div(%x, %Div_2)",
        "  %const_2: bool[] = False",
        '  %Div: int64[2] = %Div:Div if %const_2 else fail "a whole number was divided by zero"',
    ]


def test_a_constant_divisor_without_zeros_gets_no_guard() -> None:
    program = divided([3, 4])
    assert guard_zero_divisors(program) is program


@pytest.mark.parametrize("op_type", ["Div", "Mod"])
@pytest.mark.parametrize("extents", [(0, 2), ("n", 2), (0,), ("n",), (1, 0), (1, "n")], ids=str)
@pytest.mark.parametrize("divisor", [[0, 4], [0], 0], ids=str)
def test_a_zero_divisor_is_an_error_unless_the_array_is_empty(
    op_type: str, extents: tuple[Any, ...], divisor: Any
) -> None:
    b, k = Builder(), np.array(divisor)
    if k.size > 1 and extents[-1] != 2:
        k = k[:1]
    x, y = b.new("int64", extents, "x"), b.new("int64", k.shape, "y")
    program = straight(b, (x, y), q=b.op(op_type, x, y))
    empty = np.zeros(tuple(0 if extent == "n" else extent for extent in extents), np.int64)
    expected = np.broadcast_shapes(empty.shape, k.shape)
    backend = PROGRAM_BACKENDS["onnxruntime"]
    session = backend.load(prepare(program, backend.pass_order), STANDARD)
    for results in (session.run({"x": empty, "y": k}), interpret(program, {"x": empty, "y": k})):
        assert np.shape(results["q"]) == expected
    if "n" in extents:
        some = np.ones(tuple(1 if extent == "n" else extent for extent in extents), np.int64)
        with pytest.raises(RunError, match="a whole number was divided by zero"):
            session.run({"x": some, "y": k})


@pytest.mark.parametrize("op_type", ["Div", "Mod"])
def test_a_guarded_division_is_not_guarded_again(op_type: str) -> None:
    b = Builder()
    x, y = b.new("int64", ("n",), "x"), b.new("int64", ("n",), "y")
    program = prepare(straight(b, (x, y), q=b.op(op_type, x, y)), LEGAL)
    assert prepare(program, LEGAL) is program


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("expression", QUOTIENTS)
def test_a_zero_parameter_fails_as_default_and_when_set(expression: str, dtype: str) -> None:
    ports = {
        "z": {"type": "int64", "shape": [], "default_value": 1},
        "a": {"type": dtype, "shape": [3], "default_value": [7, 8, 9]},
    }
    values = {"a": {"value": [7, 8, 9]}} if dtype == "int64" else {}
    for name in values:
        ports.pop(name)
    node = {
        "input_ports": ports,
        "parameters": {**values, "k": {"value": 0}},
        "output_ports": {"q": {"value": expression}},
    }
    model = {"m": {"graphs": {"g": {"nodes": {"A": node}}}}}
    for engine, native in ENGINES:
        compiled = mdf_loop.compile(model, native=native, device="cpu")
        for changed in ({}, {"A.k": 0}):
            with pytest.raises(RunError, match="a whole number was divided by zero") as caught:
                compiled.run(set=changed, engine=engine)
            assert "nodes['A'].output_ports['q']" in str(caught.value)


@pytest.mark.parametrize(
    ("engine", "native"),
    [*ENGINES, pytest.param("onnxruntime", "require", marks=pytest.mark.native)],
)
def test_division_by_zero_without_iterations_is_no_error(engine: str, native: str) -> None:
    source = loop_model(
        {"M": "count", "v_initial": "(x0,)"},
        {"x_next": "x + x // (0 * 1)"},
        port_values={"count": 0, "x0": [5, 6]},
        carried="x",
    )
    compiled = mdf_loop.compile(source, native=native, device="cpu")
    assert compiled.run(engine=engine)["r0"].tolist() == [5, 6]
    with pytest.raises(RunError, match="a whole number was divided by zero"):
        compiled.run({"count": 1}, engine=engine)


@pytest.mark.parametrize(("engine", "native"), ENGINES)
def test_division_of_empty_arrays_by_zero_is_no_error(engine: str, native: str) -> None:
    node = {
        "input_ports": {"a": {"type": "int64"}},
        "output_ports": {"q": {"value": "a // 0"}},
    }
    compiled = mdf_loop.compile(
        {"m": {"graphs": {"g": {"nodes": {"A": node}}}}}, native=native, device="cpu"
    )
    assert compiled.run({"a": np.zeros(0, np.int64)}, engine=engine)["q"].shape == (0,)
    with pytest.raises(RunError, match="a whole number was divided by zero"):
        compiled.run({"a": [1]}, engine=engine)
