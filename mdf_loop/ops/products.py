"""Registry rows of matrix products, Einsum and Det."""

from __future__ import annotations

from mdf_loop.ops import known_kernels, speeds
from mdf_loop.ops.batching import products as batching
from mdf_loop.ops.costs import einsum_work, product_work
from mdf_loop.ops.decompositions import arithmetic
from mdf_loop.ops.derivatives import products as slopes
from mdf_loop.ops.einsum_equation import equation_fault
from mdf_loop.ops.known_kernels import NUMBERS
from mdf_loop.ops.native import products as native
from mdf_loop.ops.registry import Row, never

OPERATOR_ROWS = (
    Row(
        name="MatMul",
        has_exact_integers=True,
        loop_cost=speeds.product_cost,
        derivative=slopes.MATMUL,
        native_array_code=native.matmul,
        may_fail=never,
        work=product_work,
        types_ignore_values=True,
        has_kernel=known_kernels.all_operands_have(NUMBERS),
        # The kernel fails for empty matrices (onnxruntime 1.32).
        wrong_kernel=known_kernels.first_operand_has({"uint64", "uint32"}),
        treats_uint64_as_int64=True,
        batching_rule=batching.matmul,
    ),
    Row(
        name="Gemm",
        has_exact_integers=True,
        loop_cost=speeds.product_cost,
        derivative=slopes.GEMM,
        may_fail=never,
        work=product_work,
        batching_rule=batching.gemm,
        decomposition=arithmetic.gemm,
    ),
    Row(
        name="Einsum",
        attribute_fault=equation_fault,
        loop_cost=speeds.product_cost,
        derivative=slopes.EINSUM,
        may_fail=never,
        work=einsum_work,
        treats_uint64_as_int64=True,
        batching_rule=batching.einsum,
    ),
    Row(
        name="Det",
        derivative=slopes.DET,
        may_fail=never,
        batching_rule=batching.apply_to_last_two_axes,
        decomposition=arithmetic.det,
    ),
    Row(name="MatMulInteger", needs_narrow_dtype=True, work=product_work),
    Row(name="QLinearMatMul", needs_narrow_dtype=True),
)
