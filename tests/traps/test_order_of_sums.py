"""The order in which ONNX Runtime's kernels add, and its dependence on the address or on other rows.

These tests shift an array in memory and compute some of its rows alone. Their findings are stated in
docs/explanation/what-is-promised.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from mdf_loop.build import Builder
from mdf_loop.emit import to_onnx
from mdf_loop.ir import Input, Output, Program
from mdf_loop.ops.ordered_sum import ordered_sum
from tests.strategies.addresses import shifted

ROWS, TERMS = 9, 1003
NUMBERS = np.random.default_rng(4)
TYPES = {"float64": TensorProto.DOUBLE, "float32": TensorProto.FLOAT}


def session_of(op_type: str, arrays: dict[str, Any], known: Any, attributes: Any) -> Any:
    """Return a session of one node with arrays and then constants as operands."""
    dtype = next(iter(arrays.values())).dtype.name
    inputs = [helper.make_tensor_value_info(name, TYPES[dtype], None) for name in arrays]
    constants = [numpy_helper.from_array(array, f"k{k}") for k, array in enumerate(known)]
    names = [*arrays, *(constant.name for constant in constants)]
    node = helper.make_node(op_type, names, ["y"], **attributes)
    output = helper.make_tensor_value_info("y", TYPES[dtype], None)
    graph = helper.make_graph([node], "g", inputs, [output], constants)
    imports = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


CASES: dict[str, tuple[str, Any, Any, Any]] = {
    "sum": ("ReduceSum", None, [np.array([1])], {"keepdims": 0}),
    "mean": ("ReduceMean", None, [], {"axes": [1], "keepdims": 0}),
    "lone letter": ("Einsum", None, [], {"equation": "bi->b"}),
    "rows": ("ReduceSum", None, [np.array([0])], {"keepdims": 0}),
    "product": ("MatMul", (TERMS, 7), [], {}),
    "Gemm": ("Gemm", (TERMS, 7), [], {}),
    "two letters": ("Einsum", (TERMS, 7), [], {"equation": "bi,ij->bj"}),
    "running": ("CumSum", None, [np.array(1)], {}),
    "softmax": ("Softmax", None, [], {"axis": 1}),
    "layer": ("LayerNormalization", (TERMS,), [], {"axis": 1}),
}
"""Operator, shape of the second operand, constants, attributes; the first operand is [9, 1003]."""
ADDRESS_DEPENDENT = {"sum", "mean", "lone letter"}
"""Cases whose last bits depend on the address."""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_which_results_depend_on_the_address(case: str, dtype: str) -> None:
    op_type, second, constants, attributes = CASES[case]
    arrays = {"x": NUMBERS.normal(size=(ROWS, TERMS)).astype(dtype)}
    if second is not None:
        arrays["w"] = NUMBERS.normal(size=second).astype(dtype)
    session = session_of(op_type, arrays, constants, attributes)
    results = {
        session.run(None, {name: shifted(a, by) for name, a in arrays.items()})[0].tobytes()
        for by in range(64 // np.dtype(dtype).itemsize)
    }
    assert (len(results) > 1) is (case in ADDRESS_DEPENDENT)


@pytest.mark.parametrize("case", ["product", "Gemm", "two letters"])
def test_products_of_float32_differ_for_one_row_alone(case: str) -> None:
    op_type, second, constants, attributes = CASES[case]
    differ = {}
    for dtype in TYPES:
        arrays = {
            "x": NUMBERS.normal(size=(ROWS, TERMS)).astype(dtype),
            "w": NUMBERS.normal(size=second).astype(dtype),
        }
        session = session_of(op_type, arrays, constants, attributes)
        unbroken_outputs = session.run(None, arrays)[0]
        parts = {n: session.run(None, {**arrays, "x": arrays["x"][:n]})[0] for n in (1, 2, 5)}
        differ[dtype] = [n for n, part in parts.items() if (part != unbroken_outputs[:n]).any()]
    assert differ == {"float64": [], "float32": [1]}


# --- a sum in a fixed order -----------------------------------------------------------------------

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((1,), (0,)),
    ((7,), (0,)),
    ((16,), (0,)),
    ((17,), (0,)),
    ((1000,), (0,)),
    ((3, 9), (1,)),
    ((3, 50), (1,)),
    ((1, 50), (1,)),
    ((2, 5000), (1,)),
    ((50, 3), (0,)),
    ((50, 1), (0,)),
    ((3, 700, 2), (1,)),
    ((2, 50, 1), (1,)),
    ((4, 5, 6), (0, 1)),
    ((4, 5, 6), (1, 2)),
    ((4, 5, 6), (0, 2)),
    ((4, 5, 6), (0, 1, 2)),
    ((0, 5), (0,)),
    ((5, 0), (0,)),
]


def ordered_sum_session(
    array: np.ndarray,
    shape: tuple[Any, ...],
    axes: tuple[int, ...],
    *,
    is_transposed: bool,
    keepdims: int,
) -> Any:
    """Return a session of `OrderedSum` in ONNX's own operations."""
    b = Builder()
    x = b.new(array.dtype.name, shape[::-1] if is_transposed else shape, "x")
    data = b.op("Transpose", x) if is_transposed else x
    y = b.op("OrderedSum", data, axes=axes, keepdims=keepdims)
    model = to_onnx(Program("p", (Input(x),), tuple(b.ops), (Output("y", y),)))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_an_ordered_sum_has_its_order_at_every_address(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str
) -> None:
    x = (NUMBERS.normal(size=shape) * np.exp(3 * NUMBERS.normal(size=shape))).astype(dtype)
    open_shape = tuple(f"d{k}" for k in range(len(shape)))
    for is_transposed, declared_shape in [
        (False, shape),
        (False, open_shape),
        (True, shape),
        (True, open_shape),
    ]:
        keepdims = int(declared_shape is open_shape)
        expected = ordered_sum(x, axes, keepdims=bool(keepdims))
        session = ordered_sum_session(
            x, declared_shape, axes, is_transposed=is_transposed, keepdims=keepdims
        )
        operand = np.ascontiguousarray(x.T) if is_transposed else x
        for by in (0, 1, 3):
            sums = session.run(None, {"x": shifted(operand, by)})[0]
            assert sums.shape == expected.shape
            assert sums.tobytes() == expected.tobytes(), (is_transposed, declared_shape, by)


@pytest.mark.parametrize("count", [1, 9, 17])
def test_the_sign_of_zero_is_that_of_the_definition(count: int) -> None:
    for shape in [(count,), (3, count), (count, 2), (count, 1), (2, count, 2)]:
        x, axes = np.full(shape, -0.0), (shape.index(count),)
        sums = ordered_sum_session(x, shape, axes, is_transposed=False, keepdims=0).run(
            None, {"x": x}
        )[0]
        expected = ordered_sum(x, axes, keepdims=False)
        np.testing.assert_array_equal(np.signbit(sums), np.signbit(expected), str(shape))


def test_the_sum_of_no_elements_is_zero() -> None:
    for shape in [(0,), ("n",), (0, 3), ("n", 3)]:
        x = np.zeros([0, 3][: len(shape)])
        sums = ordered_sum_session(x, shape, (0,), is_transposed=False, keepdims=0).run(
            None, {"x": x}
        )[0]
        np.testing.assert_array_equal(sums, np.zeros(shape[1:]))
        assert not np.signbit(sums).any()


@pytest.mark.parametrize(
    ("shape", "axes"), [((40,), (-1,)), ((3, 50), (-1,)), ((50, 3), (0,)), ((4, 5, 6), (-2, -1))]
)
def test_arrays_of_unknown_rank_are_summed_in_order(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    x = NUMBERS.normal(size=shape)
    for named in (axes, None):
        for keepdims in (0, 1):
            b = Builder()
            data = b.new("float64", None, "x")
            attributes = {} if named is None else {"axes": named}
            y = b.op("OrderedSum", data, **attributes, keepdims=keepdims)
            model = to_onnx(Program("p", (Input(data),), tuple(b.ops), (Output("y", y),)))
            session = onnxruntime.InferenceSession(model.SerializeToString())
            expected = ordered_sum(x, named or range(x.ndim), keepdims=bool(keepdims))
            for by in (0, 1, 3):
                sums = session.run(None, {"x": shifted(x, by)})[0]
                assert sums.shape == expected.shape
                assert sums.tobytes() == expected.tobytes()
