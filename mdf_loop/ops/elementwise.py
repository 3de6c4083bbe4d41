"""Registry rows of elementwise operations."""

from __future__ import annotations

from functools import partial

from mdf_loop.ir import Op
from mdf_loop.ir.types import kind_of
from mdf_loop.ops import cuda_replacements, known_kernels, speeds
from mdf_loop.ops import elementwise_numpy as numpy_functions
from mdf_loop.ops.batching import elementwise as batching
from mdf_loop.ops.costs import transcendental_microseconds
from mdf_loop.ops.decompositions import activations, arithmetic, elementary, erf
from mdf_loop.ops.derivatives import elementwise as slopes
from mdf_loop.ops.derivatives.rule import ZERO_DERIVATIVE
from mdf_loop.ops.failure_conditions import (
    has_negative_power,
    is_text_without_number,
    may_divide_by_zero,
)
from mdf_loop.ops.known_kernels import (
    FLOAT_DTYPES,
    NUMBER_AND_BOOL_DTYPES,
    NUMBER_DTYPES,
    first_dtype,
)
from mdf_loop.ops.native import activations as native
from mdf_loop.ops.native import arithmetic as exact
from mdf_loop.ops.native import conversions, functions
from mdf_loop.ops.native.composed import write_decomposition
from mdf_loop.ops.native.shaping import identity
from mdf_loop.ops.registry import Reproducibility, Row, always, never

pointwise_row = partial(
    Row,
    is_elementwise=True,
    may_fail=never,
    types_ignore_values=True,
    batching_rule=batching.elementwise,
)
"""Registry row of an elementwise operation `y[k] = f(a[k], b[k], ...)` that cannot fail."""

_fixed_bits_row = partial(pointwise_row, reproducibility=Reproducibility.FIXED)
_rounded_once_row = partial(
    pointwise_row, reproducibility=Reproducibility.ROUNDED_ONCE, has_exact_integers=True
)
_transcendental_row = partial(pointwise_row, min_microseconds=transcendental_microseconds)
_decomposed_row = partial(_transcendental_row, native_code=write_decomposition)
_numeric_row = partial(_fixed_bits_row, has_kernel=known_kernels.all_operands_have(NUMBER_DTYPES))
_bool_row = partial(_fixed_bits_row, has_kernel=known_kernels.all_operands_have({"bool"}))


def _has_float_result(op: Op) -> bool:
    return kind_of(op.outputs[0].dtype) == "f"


def _has_wrong_mod(op: Op) -> bool:
    """Return True if ONNX Runtime's kernel of Mod fails or is wrong for these operands.

    The kernel fails for floats without `fmod`. With `fmod` the kernel converts 64-bit integers to float64.
    """
    if op.attributes.get("fmod"):
        return first_dtype(op) in {"int64", "uint64"}
    return kind_of(first_dtype(op)) == "f"


def _has_wrong_power(op: Op) -> bool:
    """Return True for integer powers, which ONNX Runtime inexactly computes in float64.

    An example is 3 ** 39 = 4052555153018976256.
    """
    return all(kind_of(value.dtype) in "iu" for value in op.inputs if value is not None)


def _has_expanded_function(op: Op) -> bool:
    """Return True if ONNX Runtime has no kernel for an operation's dtype and expands its definition.

    The expansion exists only in old opsets.
    """
    return first_dtype(op) not in {"float32", "float16"}


def _selects_numbers(op: Op) -> bool:
    return op.inputs[1] is not None and op.inputs[1].dtype in NUMBER_DTYPES


ARITHMETIC_ROWS = (
    _numeric_row(
        name="Add", derivative=slopes.ADD_DERIVATIVE, native_code=exact.binary("fadd", "add")
    ),
    _numeric_row(
        name="Sub", derivative=slopes.SUB_DERIVATIVE, native_code=exact.binary("fsub", "sub")
    ),
    _numeric_row(
        name="Mul", derivative=slopes.MUL_DERIVATIVE, native_code=exact.binary("fmul", "mul")
    ),
    _numeric_row(
        name="Div",
        derivative=slopes.DIV_DERIVATIVE,
        native_code=exact.divide,
        native_vector_code=exact.divide_vectors,
        may_fail=may_divide_by_zero,
        cuda_replacement=cuda_replacements.check_divisor,
        numpy_function=numpy_functions.divide,
    ),
    _numeric_row(name="Neg", derivative=slopes.NEG_DERIVATIVE, native_code=exact.neg),
    _numeric_row(
        name="Abs",
        derivative=slopes.ABS_DERIVATIVE,
        native_code=exact.absolute,
        never_negative=_has_float_result,
    ),
    _rounded_once_row(
        name="Mod",
        derivative=slopes.MOD_DERIVATIVE,
        native_code=exact.write_remainder,
        may_fail=may_divide_by_zero,
        cuda_replacement=cuda_replacements.check_divisor,
        wrong_kernel=_has_wrong_mod,
        decomposition=arithmetic.mod,
        numpy_function=numpy_functions.remainder,
    ),
    pointwise_row(
        name="Pow",
        has_exact_integers=True,
        derivative=slopes.POW_DERIVATIVE,
        native_code=functions.power,
        may_fail=has_negative_power,
        min_microseconds=transcendental_microseconds,
        wrong_kernel=_has_wrong_power,
        numpy_function=numpy_functions.power,
        decomposition=arithmetic.power,
    ),
    _fixed_bits_row(
        name="Sqrt",
        derivative=slopes.SQRT_DERIVATIVE,
        native_code=exact.unary_intrinsic("sqrt"),
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
    ),
    _rounded_once_row(
        name="Reciprocal",
        derivative=slopes.RECIPROCAL_DERIVATIVE,
        native_code=exact.reciprocal,
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
    ),
    _rounded_once_row(
        name="Max",
        derivative=slopes.EXTREME_DERIVATIVE,
        native_code=exact.extreme("gt"),
        has_kernel=known_kernels.all_operands_have(NUMBER_DTYPES),
    ),
    _rounded_once_row(
        name="Min",
        derivative=slopes.EXTREME_DERIVATIVE,
        native_code=exact.extreme("lt"),
        has_kernel=known_kernels.all_operands_have(NUMBER_DTYPES),
    ),
    # The kernel returns 0 for nan.
    _rounded_once_row(
        name="Sign",
        derivative=ZERO_DERIVATIVE,
        native_code=exact.sign,
        cuda_replacement=cuda_replacements.sign,
        has_kernel=known_kernels.all_operands_have(NUMBER_DTYPES),
        wrong_kernel=known_kernels.first_operand_has({"float16"}),
    ),
    pointwise_row(
        name="Sum",
        has_exact_integers=True,
        derivative=slopes.SUM_DERIVATIVE,
        native_code=exact.add_all,
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
    ),
    pointwise_row(
        name="Mean",
        derivative=slopes.MEAN_DERIVATIVE,
        native_code=exact.average,
        decomposition=arithmetic.mean,
    ),
    _rounded_once_row(
        name="Clip",
        derivative=slopes.CLIP_DERIVATIVE,
        native_code=native.clip,
        batching_rule=batching.clip,
        numpy_function=numpy_functions.clip,
    ),
    _fixed_bits_row(name="BitShift", native_code=exact.shift),
    _fixed_bits_row(name="BitwiseAnd", native_code=exact.bitwise("and")),
    _fixed_bits_row(name="BitwiseOr", native_code=exact.bitwise("or")),
    _fixed_bits_row(name="BitwiseXor", native_code=exact.bitwise("xor")),
    _fixed_bits_row(name="BitwiseNot", native_code=exact.complement),
    _fixed_bits_row(name="BitCast", native_code=exact.bitcast),
)

ROUNDING_ROWS = (
    _fixed_bits_row(
        name="Ceil",
        derivative=ZERO_DERIVATIVE,
        native_code=exact.unary_intrinsic("ceil"),
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
    ),
    _fixed_bits_row(
        name="Floor",
        derivative=ZERO_DERIVATIVE,
        native_code=exact.unary_intrinsic("floor"),
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
    ),
    _fixed_bits_row(
        name="Round",
        derivative=ZERO_DERIVATIVE,
        native_code=exact.unary_intrinsic("roundeven"),
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
    ),
)

LOGIC_ROWS = (
    *(
        _bool_row(name=name, native_code=exact.bitwise(name.lower()))
        for name in ("And", "Or", "Xor")
    ),
    _bool_row(name="Not", native_code=exact.complement),
    _numeric_row(name="Greater", native_code=exact.comparison("gt")),
    _numeric_row(name="GreaterOrEqual", native_code=exact.comparison("ge")),
    _numeric_row(name="Less", native_code=exact.comparison("lt")),
    _numeric_row(name="LessOrEqual", native_code=exact.comparison("le")),
    _fixed_bits_row(
        name="Equal",
        native_code=exact.comparison("eq"),
        has_kernel=known_kernels.all_operands_have(NUMBER_AND_BOOL_DTYPES),
    ),
    _fixed_bits_row(
        name="IsInf",
        native_code=exact.is_infinite,
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
    ),
    _fixed_bits_row(
        name="IsNaN",
        native_code=exact.is_nan,
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
    ),
    _fixed_bits_row(
        name="Where",
        loop_cost=speeds.CHOICE_COST,
        derivative=slopes.WHERE_DERIVATIVE,
        native_code=exact.where,
        moved_operands=lambda op: (1, 2),
        treats_uint64_as_int64=True,
        has_kernel=_selects_numbers,
    ),
)

DTYPE_ROWS = (
    _fixed_bits_row(
        name="Cast",
        converts_text=True,
        derivative=slopes.CAST_DERIVATIVE,
        native_code=conversions.cast,
        cuda_replacement=cuda_replacements.cast_float_to_integer,
        may_fail=is_text_without_number,
        has_kernel=lambda op: {first_dtype(op), op.outputs[0].dtype} <= NUMBER_AND_BOOL_DTYPES,
    ),
    Row(
        name="CastLike",
        converts_text=True,
        derivative=slopes.CAST_DERIVATIVE,
        may_fail=is_text_without_number,
        reproducibility=Reproducibility.FIXED,
        batching_rule=batching.cast_like,
        decomposition=arithmetic.cast_like,
    ),
    _fixed_bits_row(
        name="Identity",
        derivative=slopes.IDENTITY_DERIVATIVE,
        keeps_order=True,
        native_array_code=identity,
        moved_operands=lambda op: (0,),
        has_kernel=known_kernels.all_operands_have(NUMBER_AND_BOOL_DTYPES),
        numpy_function=lambda value: value,
    ),
)

ELEMENTARY_ROWS = (
    _transcendental_row(
        name="Exp",
        loop_cost=speeds.VECTORIZED_COST,
        derivative=slopes.EXP_DERIVATIVE,
        native_code=functions.exp,
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
        never_negative=always,
    ),
    _transcendental_row(
        name="Log",
        derivative=slopes.LOG_DERIVATIVE,
        native_code=functions.log,
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
    ),
    _transcendental_row(
        name="Sin",
        derivative=slopes.SIN_DERIVATIVE,
        native_code=functions.sin,
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
    ),
    _transcendental_row(
        name="Cos",
        derivative=slopes.COS_DERIVATIVE,
        native_code=functions.cos,
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
    ),
    _decomposed_row(name="Tan", derivative=slopes.TAN_DERIVATIVE, decomposition=elementary.tan),
    _decomposed_row(name="Asin", derivative=slopes.ASIN_DERIVATIVE, decomposition=elementary.asin),
    _decomposed_row(name="Acos", derivative=slopes.ACOS_DERIVATIVE, decomposition=elementary.acos),
    _decomposed_row(name="Atan", derivative=slopes.ATAN_DERIVATIVE, decomposition=elementary.atan),
    _decomposed_row(name="Sinh", derivative=slopes.SINH_DERIVATIVE, decomposition=elementary.sinh),
    _decomposed_row(name="Cosh", derivative=slopes.COSH_DERIVATIVE, decomposition=elementary.cosh),
    _transcendental_row(
        name="Tanh",
        loop_cost=speeds.VECTORIZED_COST,
        derivative=slopes.TANH_DERIVATIVE,
        native_code=functions.tanh,
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
    ),
    _decomposed_row(
        name="Asinh", derivative=slopes.ASINH_DERIVATIVE, decomposition=elementary.asinh
    ),
    _decomposed_row(
        name="Acosh", derivative=slopes.ACOSH_DERIVATIVE, decomposition=elementary.acosh
    ),
    _decomposed_row(
        name="Atanh", derivative=slopes.ATANH_DERIVATIVE, decomposition=elementary.atanh
    ),
    _decomposed_row(
        name="Erf",
        loop_cost=speeds.VECTORIZED_COST,
        derivative=slopes.ERF_DERIVATIVE,
        decomposition=erf.erf,
        numpy_function=numpy_functions.erf,
    ),
)

ACTIVATION_ROWS = (
    _transcendental_row(
        name="Sigmoid",
        loop_cost=speeds.VECTORIZED_COST,
        derivative=slopes.SIGMOID_DERIVATIVE,
        native_code=functions.sigmoid,
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
        never_negative=always,
    ),
    _decomposed_row(
        name="Softplus", derivative=slopes.SOFTPLUS_DERIVATIVE, decomposition=activations.softplus
    ),
    _decomposed_row(name="Elu", derivative=slopes.ELU_DERIVATIVE, decomposition=activations.elu),
    _decomposed_row(name="Celu", derivative=slopes.CELU_DERIVATIVE, decomposition=activations.celu),
    _decomposed_row(name="Selu", derivative=slopes.SELU_DERIVATIVE, decomposition=activations.selu),
    _rounded_once_row(
        name="Relu",
        derivative=slopes.RELU_DERIVATIVE,
        native_code=native.relu,
        decomposition=activations.relu,
        numpy_function=numpy_functions.relu,
    ),
    pointwise_row(
        name="LeakyRelu",
        derivative=slopes.LEAKY_RELU_DERIVATIVE,
        native_code=native.leaky_relu,
        wrong_kernel=_has_expanded_function,
        decomposition=activations.leaky_relu,
    ),
    pointwise_row(
        name="ThresholdedRelu",
        derivative=slopes.THRESHOLDED_RELU_DERIVATIVE,
        native_code=native.thresholded_relu,
        decomposition=activations.thresholded_relu,
    ),
    pointwise_row(
        name="HardSigmoid",
        derivative=slopes.HARD_SIGMOID_DERIVATIVE,
        native_code=native.hard_sigmoid,
        decomposition=activations.hard_sigmoid,
    ),
    pointwise_row(
        name="HardSwish",
        native_code=native.hard_swish,
        decomposition=activations.hard_swish,
        numpy_function=numpy_functions.hard_swish,
    ),
    # The kernel approximates float64 with constants of float32.
    _decomposed_row(
        name="Gelu",
        wrong_kernel=known_kernels.first_operand_has({"float64"}),
        decomposition=activations.gelu,
        cuda_replacement=cuda_replacements.gelu,
        numpy_function=numpy_functions.gelu,
    ),
    _decomposed_row(
        name="Mish",
        derivative=slopes.MISH_DERIVATIVE,
        wrong_kernel=_has_expanded_function,
        decomposition=activations.mish,
    ),
    pointwise_row(
        name="Softsign",
        native_code=native.softsign,
        decomposition=activations.softsign,
        numpy_function=numpy_functions.softsign,
    ),
    # The kernel computes in float32: Shrink(1.9) = 1.89999998.
    pointwise_row(
        name="Shrink",
        native_code=native.shrink,
        wrong_kernel=known_kernels.first_operand_has({"float64", "int64", "int32"}),
        decomposition=activations.shrink,
    ),
    _rounded_once_row(
        name="PRelu",
        native_code=native.prelu,
        wrong_kernel=_has_expanded_function,
        batching_rule=batching.prelu,
        decomposition=activations.prelu,
    ),
)

OPERATOR_ROWS = (
    *ARITHMETIC_ROWS,
    *ROUNDING_ROWS,
    *LOGIC_ROWS,
    *DTYPE_ROWS,
    *ELEMENTARY_ROWS,
    *ACTIVATION_ROWS,
)
