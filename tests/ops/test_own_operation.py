"""An operation that ONNX lacks is one row: with it models call it, and it is interpreted, composed on
ONNX Runtime, batched in a sweep, drawn and explained; without it, it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import defs

import mdf_loop
from mdf_loop.build import Builder
from mdf_loop.errors import OperandError, UnknownFunctionError, UnsupportedError
from mdf_loop.ir import Array, Op, Value
from mdf_loop.ops import Row, registered
from mdf_loop.ops.batching.elementwise import elementwise
from mdf_loop.ops.failing import unless_fixed
from mdf_loop.ops.registry import no
from mdf_loop.run.interpret import interpret

FORMAL = defs.OpSchema.FormalParameter
FLOATS = ("T", ["tensor(double)", "tensor(float)"], "numbers with a point")


def cubed(b: Builder, op: Op) -> Value:
    """`x * x * x`."""
    x = op.inputs[0]
    return b.op("Mul", b.op("Mul", x, x), x)


CUBE = Row(
    name="Cube",
    schema=defs.OpSchema(
        "Cube", "tests", 1, inputs=[FORMAL("X", "T")], outputs=[FORMAL("Y", "T")],
        type_constraints=[FLOATS],
    ),
    types=lambda inputs, attributes, known: [inputs[0]],
    meaning=lambda x: x * x * x,
    elementwise=True,
    may_fail=no,
    batched=elementwise,
    composed=cubed,
)  # fmt: skip

MODEL: dict[str, Any] = {
    "cubes": {
        "nodes": {
            "cell": {
                "input_ports": {"x": {"shape": [3]}},
                "functions": {"cube": {"function": "tests::Cube", "args": {"X": "x"}}},
                "parameters": {"total": {"value": "total + cube", "default_initial_value": 0.0}},
                "output_ports": {"y": {"value": "cube"}, "sum": {"value": "total"}},
            }
        }
    }
}
X = np.array([1.5, -2.0, 0.1])


@pytest.fixture(autouse=True)
def _row() -> Iterator[None]:
    with registered(CUBE):
        yield


def test_it_is_interpreted() -> None:
    program = mdf_loop.read(MODEL, {"x": X})
    assert "Cube(%x)" in str(program)
    (made,) = (interpret(program, {"x": X})[name] for name in [program.outputs[0].name])
    np.testing.assert_array_equal(made, X * X * X)


def test_it_is_composed_where_it_runs() -> None:
    compiled = mdf_loop.compile(MODEL)
    np.testing.assert_array_equal(compiled.run({"x": X})["cell.y"], X * X * X)
    over_time = compiled.run({"x": X}, steps=4)
    np.testing.assert_array_equal(over_time["cell.y"], np.broadcast_to(X * X * X, (4, 3)))
    nodes = {node.op_type for node in compiled.to_onnx({"x": X}).graph.node}
    assert "Cube" not in nodes
    assert "Mul" in nodes


def test_it_is_computed_for_many_values_at_once() -> None:
    rows = np.array([X, 2 * X, 3 * X])
    swept = mdf_loop.compile(MODEL).run(sweep={"x": rows})
    np.testing.assert_array_equal(swept["cell.y"], rows * rows * rows)


def test_what_is_known_is_computed_when_compiling() -> None:
    b = Builder()
    made = b.op("Cube", b.constant(np.array(2.0)))
    assert b.evaluated(made) == 8.0


def test_it_is_drawn_and_explained(tmp_path: Path) -> None:
    mdf_loop.draw(MODEL, tmp_path / "cubes.dot", level=3)
    assert "Cube(" in (tmp_path / "cubes.dot").read_text()
    assert "Cube(" in str(mdf_loop.explain(MODEL))


def test_what_is_wrong_with_a_call_is_said_by_its_own_name() -> None:
    with pytest.raises(OperandError, match="no argument 'Q'"):
        _with_function({"function": "tests::Cube", "args": {"Q": "x"}})
    with pytest.raises(UnknownFunctionError, match="Cube"):
        _with_function({"function": "onnx::Cube", "args": {"X": "x"}})


def test_who_misses_its_name_is_told_it() -> None:
    with pytest.raises(UnknownFunctionError, match="did you mean 'tests::Cube'"):
        _with_function({"function": "tests::Cuube", "args": {"X": "x"}})


def test_dtypes_that_its_schema_does_not_list_are_refused() -> None:
    said = r"tests::Cube cannot take \(X: int64\[3\]\): X must be float64 or float32"
    with pytest.raises(OperandError, match=said):
        mdf_loop.read(MODEL, {"x": np.array([1, 2, 3])})
    b = Builder()
    with pytest.raises(OperandError, match=r"tests::Cube cannot take \(X: bool\[\]\)"):
        b.op("Cube", b.constant(np.array(True)))


def test_operands_of_one_type_have_one_dtype() -> None:
    schema = defs.OpSchema(
        "Cubes", "tests", 1, inputs=[FORMAL("X", "T"), FORMAL("Y", "T")],
        outputs=[FORMAL("Z", "T")], type_constraints=[FLOATS],
    )  # fmt: skip
    b = Builder()
    x, y = b.constant(np.array(2.0)), b.constant(np.array(2.0, np.float32))
    cubes = Row(name="Cubes", schema=schema, types=CUBE.types, meaning=lambda x, y: x * y)
    with registered(cubes):
        assert b.evaluated(b.op("Cubes", x, x)) == 4.0
        with pytest.raises(OperandError, match="X and Y must have one dtype"):
            b.op("Cubes", x, y)


def _with_function(function: dict[str, Any]) -> None:
    cell = {**MODEL["cubes"]["nodes"]["cell"], "functions": {"cube": function}}
    mdf_loop.read({"cubes": {"nodes": {"cell": cell}}}, {"x": X})


def test_without_a_composition_it_is_refused_by_name() -> None:
    alone = Row(name="Alone", schema=_schema("Alone"), types=CUBE.types, meaning=CUBE.meaning)
    with registered(alone):
        cell = MODEL["cubes"]["nodes"]["cell"]
        functions = {"cube": {"function": "tests::Alone", "args": {"X": "x"}}}
        model = {"cubes": {"nodes": {"cell": {**cell, "functions": functions}}}}
        with pytest.raises(UnsupportedError, match="no float64 kernel for tests::Alone"):
            mdf_loop.compile(model).run({"x": X})


def _schema(name: str) -> defs.OpSchema:
    return defs.OpSchema(
        name, "tests", 1, inputs=[FORMAL("X", "T")], outputs=[FORMAL("Y", "T")],
        type_constraints=[FLOATS],
    )  # fmt: skip


def test_its_row_says_when_it_fails() -> None:
    x = Value("x", "float64", ("n",))
    fails = Row(name="Open", schema=_schema("Open"), types=CUBE.types, may_fail=unless_fixed)
    with registered(fails):
        assert fails.may_fail(Op("Open", (x,), (x,)), _nothing)


def _nothing(value: Value | None) -> Array | None:
    return None
