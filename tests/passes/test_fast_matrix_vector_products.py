"""The fast form of matrix-vector products has the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.ir import Program, Value
from mdf_loop.passes.simplify.fast_matrix_vector_products import fast_matrix_vector_products
from mdf_loop.run.onnxruntime.session import Session
from tests.passes.sketch import straight, text
from tests.placements import STANDARD

RNG = np.random.default_rng(11)


def product(rows: int, length: int, *, constant: bool) -> Program:
    b = Builder()
    r = b.new("float64", (length,), "r")
    if constant:
        w = b.constant(RNG.normal(size=(rows, length)), name="W")
        return straight(b, (r,), y=b.op("MatMul", w, r))
    w = b.new("float64", (rows, length), "W")
    return straight(b, (w, r), y=b.op("MatMul", w, r))


def test_a_matrix_vector_product_is_rewritten() -> None:
    assert text(fast_matrix_vector_products(product(5, 3, constant=True)))[2:] == [
        "  %W.T: float64[3, 5] = [...]",
        "  %MatMul: float64[5] = MatMul(%r, %W.T)",
        "  output y = %MatMul",
    ]
    assert text(fast_matrix_vector_products(product(20, 3, constant=False)))[1:] == [
        "  %const: int64[1] = [-1]",
        "  %MatMul:Unsqueeze: float64[3, 1] = Unsqueeze(%r, %const)",
        "  %MatMul:MatMul: float64[20, 1] = MatMul(%W, %MatMul:Unsqueeze)",
        "  %MatMul: float64[20] = Squeeze(%MatMul:MatMul, %const)",
        "  output y = %MatMul",
    ]


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "given"])
@pytest.mark.parametrize(
    ("rows", "length"),
    [(1, 1), (5, 5), (7, 3), (3, 17), (16, 16), (33, 128), (40, 129), (300, 300)],
)
def test_sums_are_bit_identical(rows: int, length: int, constant: bool) -> None:
    program = product(rows, length, constant=constant)
    fast = fast_matrix_vector_products(program)
    assert fast_matrix_vector_products(fast) is fast
    arrays = {"r": RNG.normal(size=length)}
    if not constant:
        arrays["W"] = RNG.normal(size=(rows, length))
    plain, rewritten = (Session(p, STANDARD).run(arrays)["y"] for p in (program, fast))
    np.testing.assert_allclose(rewritten, plain, rtol=0, atol=1e-12 * np.abs(plain).max())


def few_rows(b: Builder) -> tuple[Value, Value]:
    return b.new("float64", (4, 9), "W"), b.new("float64", (9,), "r")


def in_float32(b: Builder) -> tuple[Value, Value]:
    return b.constant(np.ones((4, 9), np.float32)), b.new("float32", (9,), "r")


def two_matrices(b: Builder) -> tuple[Value, Value]:
    return b.new("float64", (40, 9), "W"), b.new("float64", (9, 2), "r")


def vector_first(b: Builder) -> tuple[Value, Value]:
    return b.new("float64", (9,), "r"), b.new("float64", (9, 40), "W")


@pytest.mark.parametrize("operands", [few_rows, in_float32, two_matrices, vector_first])
def test_other_products_are_unchanged(operands) -> None:
    b = Builder()
    left, right = operands(b)
    inputs = tuple(v for v in (left, right) if b.constant_of(v) is None)
    program = straight(b, inputs, y=b.op("MatMul", left, right))
    assert fast_matrix_vector_products(program) is program
