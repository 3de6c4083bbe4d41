"""Registry rows of matrix products, Einsum and Det."""

from __future__ import annotations

from mdf_loop.ops import known_kernels, speeds
from mdf_loop.ops.batching import products as batching
from mdf_loop.ops.costs import einsum_microseconds, product_microseconds
from mdf_loop.ops.decompositions import arithmetic
from mdf_loop.ops.derivatives import products as slopes
from mdf_loop.ops.einsum_equation import equation_fault
from mdf_loop.ops.known_kernels import NUMBER_DTYPES
from mdf_loop.ops.native import products as native
from mdf_loop.ops.registry import Row, never

OPERATOR_ROWS = (
    Row(
        name="MatMul",
        has_exact_integers=True,
        loop_cost=speeds.product_cost,
        derivative=slopes.MATMUL_DERIVATIVE,
        native_array_code=native.matmul,
        may_fail=never,
        min_microseconds=product_microseconds,
        types_ignore_values=True,
        has_kernel=known_kernels.all_operands_have(NUMBER_DTYPES),
        # The kernel fails for empty matrices (onnxruntime 1.32).
        wrong_kernel=known_kernels.first_operand_has({"uint64", "uint32"}),
        treats_uint64_as_int64=True,
        batching_rule=batching.matmul,
    ),
    Row(
        name="Gemm",
        has_exact_integers=True,
        loop_cost=speeds.product_cost,
        derivative=slopes.GEMM_DERIVATIVE,
        may_fail=never,
        min_microseconds=product_microseconds,
        batching_rule=batching.gemm,
        decomposition=arithmetic.gemm,
    ),
    Row(
        name="Einsum",
        attribute_fault=equation_fault,
        loop_cost=speeds.product_cost,
        derivative=slopes.EINSUM_DERIVATIVE,
        may_fail=never,
        min_microseconds=einsum_microseconds,
        treats_uint64_as_int64=True,
        batching_rule=batching.einsum,
    ),
    Row(
        name="Det",
        derivative=slopes.DET_DERIVATIVE,
        may_fail=never,
        batching_rule=batching.apply_to_last_two_axes,
        decomposition=arithmetic.det,
    ),
    Row(name="MatMulInteger", needs_narrow_dtype=True, min_microseconds=product_microseconds),
    Row(name="QLinearMatMul", needs_narrow_dtype=True),
)
