"""Registry rows of elementwise operations."""

from __future__ import annotations

from functools import partial

from mdf_loop.ir import Op
from mdf_loop.ir.types import kind_of
from mdf_loop.ops import cuda_replacements, known_kernels, speeds
from mdf_loop.ops import elementwise_meaning as meanings
from mdf_loop.ops.batching import elementwise as batching
from mdf_loop.ops.costs import transcendental
from mdf_loop.ops.decompositions import activations, arithmetic, elementary, erf
from mdf_loop.ops.derivatives import elementwise as slopes
from mdf_loop.ops.derivatives.rule import ZERO_DERIVATIVE
from mdf_loop.ops.failure_conditions import (
    has_negative_power,
    is_text_without_number,
    may_divide_by_zero,
)
from mdf_loop.ops.known_kernels import FLOATS, NUMBERS, NUMBERS_AND_BOOL, first_dtype
from mdf_loop.ops.native import activations as native
from mdf_loop.ops.native import arithmetic as exact
from mdf_loop.ops.native import conversions, functions
from mdf_loop.ops.native.composed import write_decomposition
from mdf_loop.ops.native.shaping import identity
from mdf_loop.ops.registry import Bits, Row, always, never

pointwise = partial(
    Row, elementwise=True, may_fail=never, typed_by_types=True, batched=batching.elementwise
)
"""Registry row of an elementwise operation `y[k] = f(a[k], b[k], ...)` that cannot fail."""

_fixed = partial(pointwise, bits=Bits.FIXED)
_once = partial(pointwise, bits=Bits.ONCE, exact_integers=True)
_slow = partial(pointwise, work=transcendental)
_decomposed = partial(_slow, native=write_decomposition)
_number = partial(_fixed, has_kernel=known_kernels.for_dtypes(NUMBERS))
_logic = partial(_fixed, has_kernel=known_kernels.for_dtypes({"bool"}))


def _of_floats(op: Op) -> bool:
    return kind_of(op.outputs[0].dtype) == "f"


def _has_wrong_mod(op: Op) -> bool:
    """Return True if ONNX Runtime's kernel of Mod fails or is wrong for these operands.

    The kernel fails for floats without `fmod`. With `fmod` the kernel converts 64-bit integers to float64.
    """
    if op.attributes.get("fmod"):
        return first_dtype(op) in {"int64", "uint64"}
    return kind_of(first_dtype(op)) == "f"


def _has_wrong_power(op: Op) -> bool:
    """Return True for integer powers, which ONNX Runtime computes in float64: 3 ** 39 = 4052555153018976256."""
    return all(kind_of(value.dtype) in "iu" for value in op.inputs if value is not None)


def _has_expanded_function(op: Op) -> bool:
    """Return True if ONNX Runtime has no kernel and expands ONNX's function definition, only in old opsets."""
    return first_dtype(op) not in {"float32", "float16"}


def _chosen_numbers(op: Op) -> bool:
    return op.inputs[1] is not None and op.inputs[1].dtype in NUMBERS


ARITHMETIC = (
    _number(name="Add", derivative=slopes.ADD, native=exact.binary("fadd", "add")),
    _number(name="Sub", derivative=slopes.SUB, native=exact.binary("fsub", "sub")),
    _number(name="Mul", derivative=slopes.MUL, native=exact.binary("fmul", "mul")),
    _number(
        name="Div",
        derivative=slopes.DIV,
        native=exact.divide,
        native_together=exact.divide_vectors,
        may_fail=may_divide_by_zero,
        for_cuda=cuda_replacements.checked_divisor,
        meaning=meanings.divide,
    ),
    _number(name="Neg", derivative=slopes.NEG, native=exact.neg),
    _number(name="Abs", derivative=slopes.ABS, native=exact.absolute, never_negative=_of_floats),
    _once(
        name="Mod",
        derivative=slopes.MOD,
        native=exact.write_remainder,
        may_fail=may_divide_by_zero,
        for_cuda=cuda_replacements.checked_divisor,
        wrong_kernel=_has_wrong_mod,
        decomposition=arithmetic.mod,
        meaning=meanings.remainder,
    ),
    pointwise(
        name="Pow",
        exact_integers=True,
        derivative=slopes.POW,
        native=functions.power,
        may_fail=has_negative_power,
        work=transcendental,
        wrong_kernel=_has_wrong_power,
        meaning=meanings.power,
        decomposition=arithmetic.power,
    ),
    _fixed(
        name="Sqrt",
        derivative=slopes.SQRT,
        native=exact.unary_intrinsic("sqrt"),
        has_kernel=known_kernels.for_dtypes(FLOATS),
    ),
    _once(
        name="Reciprocal",
        derivative=slopes.RECIPROCAL,
        native=exact.reciprocal,
        has_kernel=known_kernels.for_dtypes(FLOATS),
    ),
    _once(
        name="Max",
        derivative=slopes.EXTREME,
        native=exact.extreme("gt"),
        has_kernel=known_kernels.for_dtypes(NUMBERS),
    ),
    _once(
        name="Min",
        derivative=slopes.EXTREME,
        native=exact.extreme("lt"),
        has_kernel=known_kernels.for_dtypes(NUMBERS),
    ),
    # The kernel returns 0 for nan.
    _once(
        name="Sign",
        derivative=ZERO_DERIVATIVE,
        native=exact.sign,
        for_cuda=cuda_replacements.sign,
        has_kernel=known_kernels.for_dtypes(NUMBERS),
        wrong_kernel=known_kernels.for_first_dtype({"float16"}),
    ),
    pointwise(
        name="Sum",
        exact_integers=True,
        derivative=slopes.SUM,
        native=exact.add_all,
        has_kernel=known_kernels.for_dtypes(FLOATS),
    ),
    pointwise(
        name="Mean", derivative=slopes.MEAN, native=exact.average, decomposition=arithmetic.mean
    ),
    _once(
        name="Clip",
        derivative=slopes.CLIP,
        native=native.clip,
        batched=batching.clip,
        meaning=meanings.clip,
    ),
    _fixed(name="BitShift", native=exact.shift),
    _fixed(name="BitwiseAnd", native=exact.bitwise("and")),
    _fixed(name="BitwiseOr", native=exact.bitwise("or")),
    _fixed(name="BitwiseXor", native=exact.bitwise("xor")),
    _fixed(name="BitwiseNot", native=exact.complement),
    _fixed(name="BitCast", native=exact.bitcast),
)

ROUNDING = (
    _fixed(
        name="Ceil",
        derivative=ZERO_DERIVATIVE,
        native=exact.unary_intrinsic("ceil"),
        has_kernel=known_kernels.for_dtypes(FLOATS),
    ),
    _fixed(
        name="Floor",
        derivative=ZERO_DERIVATIVE,
        native=exact.unary_intrinsic("floor"),
        has_kernel=known_kernels.for_dtypes(FLOATS),
    ),
    _fixed(
        name="Round",
        derivative=ZERO_DERIVATIVE,
        native=exact.unary_intrinsic("roundeven"),
        has_kernel=known_kernels.for_dtypes(FLOATS),
    ),
)

LOGIC = (
    *(_logic(name=name, native=exact.bitwise(name.lower())) for name in ("And", "Or", "Xor")),
    _logic(name="Not", native=exact.complement),
    _number(name="Greater", native=exact.comparison("gt")),
    _number(name="GreaterOrEqual", native=exact.comparison("ge")),
    _number(name="Less", native=exact.comparison("lt")),
    _number(name="LessOrEqual", native=exact.comparison("le")),
    _fixed(
        name="Equal",
        native=exact.comparison("eq"),
        has_kernel=known_kernels.for_dtypes(NUMBERS_AND_BOOL),
    ),
    _fixed(name="IsInf", native=exact.is_infinite, has_kernel=known_kernels.for_dtypes(FLOATS)),
    _fixed(name="IsNaN", native=exact.is_nan, has_kernel=known_kernels.for_dtypes(FLOATS)),
    _fixed(
        name="Where",
        speed=speeds.CHOICE,
        derivative=slopes.WHERE,
        native=exact.where,
        moves=lambda op: (1, 2),
        as_signed=True,
        has_kernel=_chosen_numbers,
    ),
)

DTYPES = (
    _fixed(
        name="Cast",
        converts_text=True,
        derivative=slopes.CAST,
        native=conversions.cast,
        for_cuda=cuda_replacements.float_to_integer,
        may_fail=is_text_without_number,
        has_kernel=lambda op: {first_dtype(op), op.outputs[0].dtype} <= NUMBERS_AND_BOOL,
    ),
    Row(
        name="CastLike",
        converts_text=True,
        derivative=slopes.CAST,
        may_fail=is_text_without_number,
        bits=Bits.FIXED,
        batched=batching.cast_like,
        decomposition=arithmetic.cast_like,
    ),
    _fixed(
        name="Identity",
        derivative=slopes.IDENTITY,
        in_order=True,
        native_whole=identity,
        moves=lambda op: (0,),
        has_kernel=known_kernels.for_dtypes(NUMBERS_AND_BOOL),
        meaning=lambda value: value,
    ),
)

ELEMENTARY = (
    _slow(
        name="Exp",
        speed=speeds.VECTORIZED,
        derivative=slopes.EXP,
        native=functions.exp,
        has_kernel=known_kernels.for_dtypes(FLOATS),
        never_negative=always,
    ),
    _slow(
        name="Log",
        derivative=slopes.LOG,
        native=functions.log,
        has_kernel=known_kernels.for_dtypes(FLOATS),
    ),
    _slow(
        name="Sin",
        derivative=slopes.SIN,
        native=functions.sin,
        has_kernel=known_kernels.for_dtypes(FLOATS),
    ),
    _slow(
        name="Cos",
        derivative=slopes.COS,
        native=functions.cos,
        has_kernel=known_kernels.for_dtypes(FLOATS),
    ),
    _decomposed(name="Tan", derivative=slopes.TAN, decomposition=elementary.tan),
    _decomposed(name="Asin", derivative=slopes.ASIN, decomposition=elementary.asin),
    _decomposed(name="Acos", derivative=slopes.ACOS, decomposition=elementary.acos),
    _decomposed(name="Atan", derivative=slopes.ATAN, decomposition=elementary.atan),
    _decomposed(name="Sinh", derivative=slopes.SINH, decomposition=elementary.sinh),
    _decomposed(name="Cosh", derivative=slopes.COSH, decomposition=elementary.cosh),
    _slow(
        name="Tanh",
        speed=speeds.VECTORIZED,
        derivative=slopes.TANH,
        native=functions.tanh,
        has_kernel=known_kernels.for_dtypes(FLOATS),
    ),
    _decomposed(name="Asinh", derivative=slopes.ASINH, decomposition=elementary.asinh),
    _decomposed(name="Acosh", derivative=slopes.ACOSH, decomposition=elementary.acosh),
    _decomposed(name="Atanh", derivative=slopes.ATANH, decomposition=elementary.atanh),
    _decomposed(
        name="Erf",
        speed=speeds.VECTORIZED,
        derivative=slopes.ERF,
        decomposition=erf.erf,
        meaning=meanings.erf,
    ),
)

ACTIVATIONS = (
    _slow(
        name="Sigmoid",
        speed=speeds.VECTORIZED,
        derivative=slopes.SIGMOID,
        native=functions.sigmoid,
        has_kernel=known_kernels.for_dtypes(FLOATS),
        never_negative=always,
    ),
    _decomposed(name="Softplus", derivative=slopes.SOFTPLUS, decomposition=activations.softplus),
    _decomposed(name="Elu", derivative=slopes.ELU, decomposition=activations.elu),
    _decomposed(name="Celu", derivative=slopes.CELU, decomposition=activations.celu),
    _decomposed(name="Selu", derivative=slopes.SELU, decomposition=activations.selu),
    _once(
        name="Relu",
        derivative=slopes.RELU,
        native=native.relu,
        decomposition=activations.relu,
        meaning=meanings.relu,
    ),
    pointwise(
        name="LeakyRelu",
        derivative=slopes.LEAKY_RELU,
        native=native.leaky_relu,
        wrong_kernel=_has_expanded_function,
        decomposition=activations.leaky_relu,
    ),
    pointwise(
        name="ThresholdedRelu",
        derivative=slopes.THRESHOLDED_RELU,
        native=native.thresholded_relu,
        decomposition=activations.thresholded_relu,
    ),
    pointwise(
        name="HardSigmoid",
        derivative=slopes.HARD_SIGMOID,
        native=native.hard_sigmoid,
        decomposition=activations.hard_sigmoid,
    ),
    pointwise(
        name="HardSwish",
        native=native.hard_swish,
        decomposition=activations.hard_swish,
        meaning=meanings.hard_swish,
    ),
    # The kernel approximates float64 with constants of float32.
    _decomposed(
        name="Gelu",
        wrong_kernel=known_kernels.for_first_dtype({"float64"}),
        decomposition=activations.gelu,
        for_cuda=cuda_replacements.gelu,
        meaning=meanings.gelu,
    ),
    _decomposed(
        name="Mish",
        derivative=slopes.MISH,
        wrong_kernel=_has_expanded_function,
        decomposition=activations.mish,
    ),
    pointwise(
        name="Softsign",
        native=native.softsign,
        decomposition=activations.softsign,
        meaning=meanings.softsign,
    ),
    # The kernel computes in float32: Shrink(1.9) = 1.89999998.
    pointwise(
        name="Shrink",
        native=native.shrink,
        wrong_kernel=known_kernels.for_first_dtype({"float64", "int64", "int32"}),
        decomposition=activations.shrink,
    ),
    _once(
        name="PRelu",
        native=native.prelu,
        wrong_kernel=_has_expanded_function,
        batched=batching.prelu,
        decomposition=activations.prelu,
    ),
)

ROWS = (*ARITHMETIC, *ROUNDING, *LOGIC, *DTYPES, *ELEMENTARY, *ACTIVATIONS)
