"""Operations that opset 17 lacks, and operations whose encoding changes in newer opsets."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import defs

from mdf_loop.build import Builder
from mdf_loop.emit import to_onnx
from mdf_loop.errors import OperandError, UnsupportedError
from mdf_loop.ir import Input, Output, Program
from mdf_loop.ops import row_of
from mdf_loop.ops.numpy_evaluation import evaluate
from mdf_loop.ops.onnx_schema import operator_names
from mdf_loop.ops.opset import NEWEST_PREFERRED_OPSET, schemas_by_opset
from mdf_loop.pipeline import LEGAL, prepare
from tests.ops.op_running import program_of, run

CUBE = np.linspace(-1.9, 2.1, 27).reshape(1, 1, 3, 3, 3)
IMAGE = np.linspace(-1.9, 2.1, 20).reshape(1, 1, 4, 5)
AXES = np.array([1])
PLACES = np.array([[0], [2], [0]])
ROWS = np.array([[1.0, -9.0], [0.5, 3.0], [7.0, -8.0]])
NEWER: list[tuple[int, str, list[Any], dict[str, Any]]] = [
    (18, "ReduceMax", [ROWS, AXES], {"keepdims": 0}),
    (18, "ReduceMin", [ROWS, AXES], {}),
    (18, "ReduceProd", [ROWS, AXES], {}),
    (18, "ReduceL2", [ROWS, AXES], {}),
    (18, "ReduceMean", [ROWS, AXES], {}),
    (18, "ScatterElements", [ROWS, np.array([[0, 1], [0, 1]]), 2 * ROWS[:2]], {"reduction": "max"}),
    (18, "ScatterND", [ROWS, PLACES, -ROWS], {"reduction": "min"}),
    (17, "ScatterND", [ROWS, PLACES, -ROWS], {"reduction": "mul"}),
    (19, "AveragePool", [IMAGE], {"kernel_shape": (2, 2), "dilations": (2, 3)}),
    (17, "MaxPool", [IMAGE], {"kernel_shape": (2, 2), "dilations": (2, 3)}),
    (18, "LpPool", [IMAGE], {"kernel_shape": (2, 2), "dilations": (2, 3)}),
    (20, "GridSample", [CUBE, np.array([[[[[0.25, -0.5, 0.5]]]]])], {"mode": "linear"}),
    (18, "Mish", [ROWS], {}),
    (20, "Gelu", [ROWS], {"approximate": "tanh"}),
    (26, "BitCast", [ROWS], {"to": 1}),
]
"""The opset in float32, the operation, its operands and its attributes."""


def cast(arrays: list[Any], dtype: str) -> list[Any]:
    return [np.asarray(a, dtype) if a.dtype.kind == "f" else a for a in arrays]


def opset(program: Program) -> int:
    return int(to_onnx(program).opset_import[0].version)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("version", "op_type", "arrays", "attributes"), NEWER, ids=[f"{n[1]}-{n[0]}" for n in NEWER]
)
def test_results_equal_the_onnx_reference(
    version: int, op_type: str, arrays: list[Any], attributes: dict[str, Any], dtype: str
) -> None:
    operands = cast(arrays, dtype)
    if op_type == "BitCast":
        attributes = {"to": {"float32": 6, "float64": 7}[dtype]}
    legal = prepare(program_of(op_type, operands, **attributes), LEGAL)
    (expected,) = evaluate(op_type, operands, attributes, 1)[:1]
    actual = run(legal, operands)[0]
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-6 if dtype == "float32" else 1e-7)
    if dtype == "float32":
        assert opset(legal) == version


def test_grids_of_float64_are_sampled_in_float64() -> None:
    grid = np.array([[[[0.1, -0.3]]]])
    for mode in ("bilinear", "nearest", "bicubic"):
        legal = prepare(program_of("GridSample", [IMAGE, grid], mode=mode), LEGAL)
        assert opset(legal) == 20
        word = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
        (expected,) = evaluate("GridSample", [IMAGE, grid], {"mode": word}, 1)
        np.testing.assert_allclose(run(legal, [IMAGE, grid])[0], expected, rtol=1e-6)


GRID = np.array([[[[0.1, -0.3], [-1.0, 0.6]]]])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "uint32"])
def test_integers_are_sampled_from_a_grid(dtype: str) -> None:
    image = np.round(8 * np.abs(IMAGE)).astype(dtype)
    legal = prepare(program_of("GridSample", [image, GRID], mode="nearest"), LEGAL)
    (picked,) = run(legal, [image, GRID])
    (expected,) = evaluate("GridSample", [image.astype(float), GRID], {"mode": "nearest"}, 1)
    assert picked.dtype == image.dtype
    np.testing.assert_array_equal(picked, expected.astype(dtype))


@pytest.mark.parametrize("mode", ["bilinear", "linear", "bicubic", "nearest"])
@pytest.mark.parametrize("dtypes", [("float64", "float32"), ("float32", "float64")])
def test_grids_of_another_dtype_are_sampled_in_float64(mode: str, dtypes: Any) -> None:
    image, grid = IMAGE.astype(dtypes[0]), GRID.astype(dtypes[1])
    (sampled,) = run(
        prepare(program_of("GridSample", [image, grid], mode=mode), LEGAL), [image, grid]
    )
    word = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    (expected,) = evaluate(
        "GridSample", [image.astype(float), grid.astype(float)], {"mode": word}, 1
    )
    assert sampled.dtype == image.dtype
    np.testing.assert_allclose(sampled, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "mode"), [("int32", "bilinear"), ("uint8", "cubic"), ("int64", "nearest")]
)
def test_a_grid_of_whole_numbers_without_a_kernel_is_refused(dtype: str, mode: str) -> None:
    program = program_of("GridSample", [np.abs(IMAGE).astype(dtype), GRID], mode=mode)
    with pytest.raises(
        UnsupportedError, match=f"no {dtype} kernel for onnx::GridSample"
    ) as refusal:
        prepare(program, LEGAL)
    assert refusal.value.findings[0].where == "$.here"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lp_pool_of_windows_beyond_the_border(dtype: str) -> None:
    image = IMAGE.astype(dtype)
    attributes = {"kernel_shape": (2, 3), "ceil_mode": 1, "strides": (3, 3)}
    legal = prepare(program_of("LpPool", [image], **attributes), LEGAL)
    squares = image[0, 0] ** 2
    expected = [[np.sqrt(squares[i : i + 2, j : j + 3].sum()) for j in (0, 3)] for i in (0, 3)]
    np.testing.assert_allclose(run(legal, [image])[0][0, 0], expected, rtol=1e-6)


# --- other operations -----------------------------------------------------------------------------

UNCHANGED = [
    ("ReduceLogSumExp", [ROWS], {"axes": (1,)}, 1),
    ("ReduceMax", [ROWS], {}, 1),
    ("ReduceSum", [ROWS, AXES], {}, 1),
    ("Split", [ROWS], {"axis": 1}, 2),
    ("DFT", [ROWS[None]], {"axis": 1}, 1),
    ("DFT", [ROWS[None], np.array(2)], {}, 1),
    ("GridSample", [IMAGE, np.array([[[[0.1, -0.3]]]])], {}, 1),
    ("GridSample", [IMAGE, np.array([[[[0.1, -0.3]]]])], {"mode": "bicubic"}, 1),
    ("Pad", [ROWS, np.array([0, 1, 1, 0])], {}, 1),
    ("Resize", [IMAGE, None, np.array([1, 1, 2, 2], np.float32)], {}, 1),
]


@pytest.mark.parametrize(("op_type", "arrays", "attributes", "count"), UNCHANGED)
def test_other_operations_are_unchanged_in_a_newer_opset(
    op_type: str, arrays: list[Any], attributes: dict[str, Any], count: int
) -> None:
    arrays = [a if a is None or a.dtype.kind != "f" else a.astype(np.float32) for a in arrays]
    b = Builder()
    values = [
        None if a is None else b.new(str(a.dtype), a.shape, f"x{k}") for k, a in enumerate(arrays)
    ]
    results = b.multi(op_type, *values, output_count=count, **attributes)
    text = b.new("string", (1,), f"x{len(arrays)}")
    joined = b.op("StringConcat", text, text)
    inputs = tuple(Input(value) for value in (*values, text) if value is not None)
    outputs = (*(Output(f"y{k}", value) for k, value in enumerate(results)), Output("z", joined))
    newer = Program("newer", inputs, tuple(b.ops), outputs)
    older = Program("older", inputs[:-1], tuple(b.ops[:-1]), outputs[:-1])
    assert (opset(older), opset(newer)) == (17, 20)
    expected, actual = run(older, arrays), run(newer, [*arrays, np.array(["a"], object)])
    for left, right in zip(expected, actual[:-1], strict=True):
        np.testing.assert_array_equal(left, right)
    assert actual[-1].tolist() == ["aa"]


def test_every_change_of_an_encoding_has_a_row() -> None:
    """Check that a row covers each removal, changed default or added input of newer opsets."""
    changed = {
        (name, version)
        for name in operator_names()
        for (_, before), (version, now) in itertools.pairwise(schemas_by_opset(name).items())
        if version <= NEWEST_PREFERRED_OPSET and not _is_extended(before, now)
    }
    respelled = {(n, v) for n in operator_names() for v, _ in row_of(n).newer_encodings}
    assert changed - {("GridSample", 20), ("Split", 18)} <= respelled
    assert {(n, v) for n, v in respelled} <= changed | {("GridSample", 20), ("Split", 18)}


def _is_extended(before: defs.OpSchema, now: defs.OpSchema) -> bool:
    has_all_attributes = all(name in now.attributes for name in before.attributes)
    same = all(
        now.attributes[name].default_value == formal.default_value
        for name, formal in before.attributes.items()
        if name in now.attributes
    )
    return has_all_attributes and same and now.min_input <= before.min_input


# --- refusals -------------------------------------------------------------------------------------


def test_operations_without_kernel_are_refused_by_name() -> None:
    scales = np.array([1, 1, 0.5, 0.5], np.float32)
    program = program_of("Resize", [IMAGE, None, scales], mode="linear", antialias=1)
    with pytest.raises(UnsupportedError, match="onnx::Resize in float64 needs scales or sizes"):
        prepare(program, LEGAL)


def test_a_preserved_aspect_ratio_in_float64_is_refused_by_name() -> None:
    attributes = {"axes": (2, 3), "keep_aspect_ratio_policy": "not_larger"}
    program = program_of(
        "Resize", [IMAGE, None, None, np.array([7, 8])], constant=(3,), **attributes
    )
    with pytest.raises(UnsupportedError, match="in float64 does not take 'axes'"):
        prepare(program, LEGAL)


def test_an_operator_of_no_opset_up_to_20_is_no_function() -> None:
    assert not schemas_by_opset("Attention")
    assert list(schemas_by_opset("BitCast")) == [26]


def test_invalid_operands_get_the_error_of_the_oldest_opset() -> None:
    with pytest.raises(OperandError, match=r"onnx::AveragePool cannot take"):
        program_of("AveragePool", [np.array([1, 2])], kernel_shape=(2,))
