"""Registry rows of matrix products, Einsum and Det."""

from __future__ import annotations

from mdf_loop.ops import known_kernels, speeds
from mdf_loop.ops.batching import products as batching
from mdf_loop.ops.costs import product, summation
from mdf_loop.ops.decompositions import arithmetic
from mdf_loop.ops.derivatives import products as slopes
from mdf_loop.ops.einsum_equation import equation_fault
from mdf_loop.ops.known_kernels import NUMBERS
from mdf_loop.ops.native import products as native
from mdf_loop.ops.registry import Row, never

ROWS = (
    Row(
        name="MatMul",
        exact_integers=True,
        speed=speeds.product,
        derivative=slopes.MATMUL,
        native_whole=native.matmul,
        may_fail=never,
        work=product,
        typed_by_types=True,
        has_kernel=known_kernels.for_dtypes(NUMBERS),
        # The kernel fails for empty matrices (onnxruntime 1.32).
        wrong_kernel=known_kernels.for_first_dtype({"uint64", "uint32"}),
        as_signed=True,
        batched=batching.matmul,
    ),
    Row(
        name="Gemm",
        exact_integers=True,
        speed=speeds.product,
        derivative=slopes.GEMM,
        may_fail=never,
        work=product,
        batched=batching.gemm,
        decomposition=arithmetic.gemm,
    ),
    Row(
        name="Einsum",
        attribute_fault=equation_fault,
        speed=speeds.product,
        derivative=slopes.EINSUM,
        may_fail=never,
        work=summation,
        as_signed=True,
        batched=batching.einsum,
    ),
    Row(
        name="Det",
        derivative=slopes.DET,
        may_fail=never,
        batched=batching.last_two_axes,
        decomposition=arithmetic.det,
    ),
    Row(name="MatMulInteger", small_matters=True, work=product),
    Row(name="QLinearMatMul", small_matters=True),
)
