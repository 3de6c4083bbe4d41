"""Products of matrices, and what is made of all elements of a matrix."""

from __future__ import annotations

from mdf_loop.ops import speeds, sure_kernels
from mdf_loop.ops.batching import products as batching
from mdf_loop.ops.compositions import arithmetic
from mdf_loop.ops.costs import product, summation
from mdf_loop.ops.derivatives import products as slopes
from mdf_loop.ops.equations import equation_fault
from mdf_loop.ops.native import products as native
from mdf_loop.ops.registry import Row, no
from mdf_loop.ops.sure_kernels import NUMBERS

ROWS = (
    Row(
        name="MatMul",
        exact_integers=True,
        speed=speeds.product,
        derivative=slopes.MATMUL,
        native_whole=native.matmul,
        may_fail=no,
        work=product,
        typed_by_types=True,
        has_kernel=sure_kernels.of(NUMBERS),
        # it fails where matrices are empty (onnxruntime 1.32)
        wrong_kernel=sure_kernels.first_of({"uint64", "uint32"}),
        as_signed=True,
        batched=batching.matmul,
    ),
    Row(
        name="Gemm",
        exact_integers=True,
        speed=speeds.product,
        derivative=slopes.GEMM,
        may_fail=no,
        work=product,
        batched=batching.gemm,
        composed=arithmetic.gemm,
    ),
    Row(
        name="Einsum",
        attribute_fault=equation_fault,
        speed=speeds.product,
        derivative=slopes.EINSUM,
        may_fail=no,
        work=summation,
        as_signed=True,
        batched=batching.einsum,
    ),
    Row(
        name="Det",
        derivative=slopes.DET,
        may_fail=no,
        batched=batching.last_two_axes,
        composed=arithmetic.det,
    ),
    Row(name="MatMulInteger", small_matters=True, work=product),
    Row(name="QLinearMatMul", small_matters=True),
)
