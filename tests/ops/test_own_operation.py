"""Registration of an operation that ONNX lacks, by one row of the registry.

With the row, models can call the operation. It is interpreted, decomposed on ONNX Runtime, batched in a sweep,
drawn and explained. Without the row, the name is unknown.
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
from mdf_loop.ops.failure_conditions import may_mismatch_unknown_extent
from mdf_loop.ops.registry import never
from mdf_loop.run.interpret import interpret

FORMAL = defs.OpSchema.FormalParameter
FLOATS = ("T", ["tensor(double)", "tensor(float)"], "numbers with a point")


def cubed(b: Builder, op: Op) -> Value:
    """Build `x * x * x`."""
    x = op.inputs[0]
    return b.op("Mul", b.op("Mul", x, x), x)


CUBE = Row(
    name="Cube",
    schema=defs.OpSchema(
        "Cube", "tests", 1, inputs=[FORMAL("X", "T")], outputs=[FORMAL("Y", "T")],
        type_constraints=[FLOATS],
    ),
    type_rule=lambda inputs, attributes, known: [inputs[0]],
    numpy_function=lambda x: x * x * x,
    is_elementwise=True,
    may_fail=never,
    batching_rule=elementwise,
    decomposition=cubed,
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


def test_the_interpreter_runs_a_registered_operation() -> None:
    program = mdf_loop.read(MODEL, {"x": X})
    assert "Cube(%x)" in str(program)
    (cubes,) = (interpret(program, {"x": X})[name] for name in [program.outputs[0].name])
    np.testing.assert_array_equal(cubes, X * X * X)


def test_a_registered_operation_is_decomposed_for_the_runtime() -> None:
    compiled = mdf_loop.compile(MODEL)
    np.testing.assert_array_equal(compiled.run({"x": X})["cell.y"], X * X * X)
    over_time = compiled.run({"x": X}, steps=4)
    np.testing.assert_array_equal(over_time["cell.y"], np.broadcast_to(X * X * X, (4, 3)))
    nodes = {node.op_type for node in compiled.to_onnx({"x": X}).graph.node}
    assert "Cube" not in nodes
    assert "Mul" in nodes


def test_a_registered_operation_in_a_sweep() -> None:
    rows = np.array([X, 2 * X, 3 * X])
    sweep_run = mdf_loop.compile(MODEL).run(sweep={"x": rows})
    np.testing.assert_array_equal(sweep_run["cell.y"], rows * rows * rows)


def test_constants_are_computed_at_compile_time() -> None:
    b = Builder()
    cube = b.op("Cube", b.constant(np.array(2.0)))
    assert b.evaluated(cube) == 8.0


def test_a_registered_operation_is_drawn_and_explained(tmp_path: Path) -> None:
    mdf_loop.draw(MODEL, tmp_path / "cubes.dot", level=3)
    assert "Cube(" in (tmp_path / "cubes.dot").read_text()
    assert "Cube(" in str(mdf_loop.explain(MODEL))


def test_errors_of_a_call_name_the_operation() -> None:
    with pytest.raises(OperandError, match="no argument 'Q'"):
        _with_function({"function": "tests::Cube", "args": {"Q": "x"}})
    with pytest.raises(UnknownFunctionError, match="Cube"):
        _with_function({"function": "onnx::Cube", "args": {"X": "x"}})


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(UnknownFunctionError, match="did you mean 'tests::Cube'"):
        _with_function({"function": "tests::Cuube", "args": {"X": "x"}})


def test_dtypes_that_its_schema_does_not_list_are_refused() -> None:
    sentence = r"tests::Cube cannot take \(X: int64\[3\]\): X must be float64 or float32"
    with pytest.raises(OperandError, match=sentence):
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
    cubes = Row(
        name="Cubes", schema=schema, type_rule=CUBE.type_rule, numpy_function=lambda x, y: x * y
    )
    with registered(cubes):
        assert b.evaluated(b.op("Cubes", x, x)) == 4.0
        with pytest.raises(OperandError, match="X and Y must have one dtype"):
            b.op("Cubes", x, y)


def _with_function(function: dict[str, Any]) -> None:
    cell = {**MODEL["cubes"]["nodes"]["cell"], "functions": {"cube": function}}
    mdf_loop.read({"cubes": {"nodes": {"cell": cell}}}, {"x": X})


def test_an_operation_without_a_decomposition_is_refused_by_name() -> None:
    alone = Row(
        name="Alone",
        schema=_schema("Alone"),
        type_rule=CUBE.type_rule,
        numpy_function=CUBE.numpy_function,
    )
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


def test_the_row_of_an_operation_defines_its_errors() -> None:
    x = Value("x", "float64", ("n",))
    fails = Row(
        name="Open",
        schema=_schema("Open"),
        type_rule=CUBE.type_rule,
        may_fail=may_mismatch_unknown_extent,
    )
    with registered(fails):
        assert fails.may_fail(Op("Open", (x,), (x,)), _no_derivative)


def _no_derivative(value: Value | None) -> Array | None:
    return None
