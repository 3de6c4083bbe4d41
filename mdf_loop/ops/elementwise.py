"""Operations that work element by element after broadcasting, and their near relations."""

from __future__ import annotations

from functools import partial

from mdf_loop.ir import Op
from mdf_loop.ir.types import kind_of
from mdf_loop.ops import elementwise_meaning as meanings
from mdf_loop.ops import for_cuda, speeds, sure_kernels
from mdf_loop.ops.batching import elementwise as batching
from mdf_loop.ops.compositions import activations, arithmetic, elementary, erf
from mdf_loop.ops.costs import transcendental
from mdf_loop.ops.derivatives import elementwise as slopes
from mdf_loop.ops.derivatives.rule import NOTHING
from mdf_loop.ops.failing import (
    divides_by_zero,
    negative_power,
    no_number,
)
from mdf_loop.ops.native import activations as native
from mdf_loop.ops.native import arithmetic as exact
from mdf_loop.ops.native import conversions, functions
from mdf_loop.ops.native.composed import composed
from mdf_loop.ops.native.shaping import identity
from mdf_loop.ops.registry import Bits, Row, no, yes
from mdf_loop.ops.sure_kernels import FLOATS, NUMBERS, PLAIN, first_dtype

pointwise = partial(
    Row, elementwise=True, may_fail=no, typed_by_types=True, batched=batching.elementwise
)
"""`y[k] = f(a[k], b[k], ...)` that gives a result for all values."""

_fixed = partial(pointwise, bits=Bits.FIXED)
_once = partial(pointwise, bits=Bits.ONCE, exact_integers=True)
_slow = partial(pointwise, work=transcendental)
_composed = partial(_slow, native=composed)
_number = partial(_fixed, has_kernel=sure_kernels.of(NUMBERS))
_logic = partial(_fixed, has_kernel=sure_kernels.of({"bool"}))


def _of_floats(op: Op) -> bool:
    return kind_of(op.outputs[0].dtype) == "f"


def _wrong_mod(op: Op) -> bool:
    """Of floats it must be `fmod`, which takes whole numbers of 64 bits through float64."""
    if op.attributes.get("fmod"):
        return first_dtype(op) in {"int64", "uint64"}
    return kind_of(first_dtype(op)) == "f"


def _wrong_power(op: Op) -> bool:
    """It computes whole numbers in float64 and saturates: 3 ** 39 = 4052555153018976256."""
    return all(kind_of(value.dtype) in "iu" for value in op.inputs if value is not None)


def _is_spelt_out(op: Op) -> bool:
    """There is a kernel of small floats; of others it takes ONNX's definition, in old opsets only."""
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
        native=exact.divided,
        native_together=exact.divided_together,
        may_fail=divides_by_zero,
        for_cuda=for_cuda.divisor,
        meaning=meanings.divide,
    ),
    _number(name="Neg", derivative=slopes.NEG, native=exact.neg),
    _number(name="Abs", derivative=slopes.ABS, native=exact.absolute, never_negative=_of_floats),
    _once(
        name="Mod",
        derivative=slopes.MOD,
        native=exact.rest,
        may_fail=divides_by_zero,
        for_cuda=for_cuda.divisor,
        wrong_kernel=_wrong_mod,
        composed=arithmetic.mod,
        meaning=meanings.remainder,
    ),
    pointwise(
        name="Pow",
        exact_integers=True,
        derivative=slopes.POW,
        native=functions.power,
        may_fail=negative_power,
        work=transcendental,
        wrong_kernel=_wrong_power,
        meaning=meanings.power,
        composed=arithmetic.power,
    ),
    _fixed(
        name="Sqrt",
        derivative=slopes.SQRT,
        native=exact.rounded("sqrt"),
        has_kernel=sure_kernels.of(FLOATS),
    ),
    _once(
        name="Reciprocal",
        derivative=slopes.RECIPROCAL,
        native=exact.reciprocal,
        has_kernel=sure_kernels.of(FLOATS),
    ),
    _once(
        name="Max",
        derivative=slopes.EXTREME,
        native=exact.extreme("gt"),
        has_kernel=sure_kernels.of(NUMBERS),
    ),
    _once(
        name="Min",
        derivative=slopes.EXTREME,
        native=exact.extreme("lt"),
        has_kernel=sure_kernels.of(NUMBERS),
    ),
    # the sign of nan is 0
    _once(
        name="Sign",
        derivative=NOTHING,
        native=exact.sign,
        for_cuda=for_cuda.sign,
        has_kernel=sure_kernels.of(NUMBERS),
        wrong_kernel=sure_kernels.first_of({"float16"}),
    ),
    pointwise(
        name="Sum",
        exact_integers=True,
        derivative=slopes.SUM,
        native=exact.total,
        has_kernel=sure_kernels.of(FLOATS),
    ),
    pointwise(name="Mean", derivative=slopes.MEAN, native=exact.average, composed=arithmetic.mean),
    _once(
        name="Clip",
        derivative=slopes.CLIP,
        native=native.clip,
        batched=batching.clip,
        meaning=meanings.clip,
    ),
    _fixed(name="BitShift", native=exact.shifted),
    _fixed(name="BitwiseAnd", native=exact.logical("and")),
    _fixed(name="BitwiseOr", native=exact.logical("or")),
    _fixed(name="BitwiseXor", native=exact.logical("xor")),
    _fixed(name="BitwiseNot", native=exact.negated),
    _fixed(name="BitCast", native=exact.same_bits),
)

ROUNDING = (
    _fixed(
        name="Ceil",
        derivative=NOTHING,
        native=exact.rounded("ceil"),
        has_kernel=sure_kernels.of(FLOATS),
    ),
    _fixed(
        name="Floor",
        derivative=NOTHING,
        native=exact.rounded("floor"),
        has_kernel=sure_kernels.of(FLOATS),
    ),
    _fixed(
        name="Round",
        derivative=NOTHING,
        native=exact.rounded("roundeven"),
        has_kernel=sure_kernels.of(FLOATS),
    ),
)

LOGIC = (
    *(_logic(name=name, native=exact.logical(name.lower())) for name in ("And", "Or", "Xor")),
    _logic(name="Not", native=exact.negated),
    _number(name="Greater", native=exact.compared("gt")),
    _number(name="GreaterOrEqual", native=exact.compared("ge")),
    _number(name="Less", native=exact.compared("lt")),
    _number(name="LessOrEqual", native=exact.compared("le")),
    _fixed(name="Equal", native=exact.compared("eq"), has_kernel=sure_kernels.of(PLAIN)),
    _fixed(name="IsInf", native=exact.is_infinite, has_kernel=sure_kernels.of(FLOATS)),
    _fixed(name="IsNaN", native=exact.is_nan, has_kernel=sure_kernels.of(FLOATS)),
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
        derivative=slopes.CONVERTED,
        native=conversions.cast,
        for_cuda=for_cuda.whole,
        may_fail=no_number,
        has_kernel=lambda op: {first_dtype(op), op.outputs[0].dtype} <= PLAIN,
    ),
    Row(
        name="CastLike",
        converts_text=True,
        derivative=slopes.CONVERTED,
        may_fail=no_number,
        bits=Bits.FIXED,
        batched=batching.cast_like,
        composed=arithmetic.cast_like,
    ),
    _fixed(
        name="Identity",
        derivative=slopes.IDENTITY,
        in_order=True,
        native_whole=identity,
        moves=lambda op: (0,),
        has_kernel=sure_kernels.of(PLAIN),
        meaning=lambda value: value,
    ),
)

ELEMENTARY = (
    _slow(
        name="Exp",
        speed=speeds.VECTORIZED,
        derivative=slopes.EXP,
        native=functions.exp,
        has_kernel=sure_kernels.of(FLOATS),
        never_negative=yes,
    ),
    _slow(
        name="Log", derivative=slopes.LOG, native=functions.log, has_kernel=sure_kernels.of(FLOATS)
    ),
    _slow(
        name="Sin", derivative=slopes.SIN, native=functions.sin, has_kernel=sure_kernels.of(FLOATS)
    ),
    _slow(
        name="Cos", derivative=slopes.COS, native=functions.cos, has_kernel=sure_kernels.of(FLOATS)
    ),
    _composed(name="Tan", derivative=slopes.TAN, composed=elementary.tan),
    _composed(name="Asin", derivative=slopes.ASIN, composed=elementary.asin),
    _composed(name="Acos", derivative=slopes.ACOS, composed=elementary.acos),
    _composed(name="Atan", derivative=slopes.ATAN, composed=elementary.atan),
    _composed(name="Sinh", derivative=slopes.SINH, composed=elementary.sinh),
    _composed(name="Cosh", derivative=slopes.COSH, composed=elementary.cosh),
    _slow(
        name="Tanh",
        speed=speeds.VECTORIZED,
        derivative=slopes.TANH,
        native=functions.tanh,
        has_kernel=sure_kernels.of(FLOATS),
    ),
    _composed(name="Asinh", derivative=slopes.ASINH, composed=elementary.asinh),
    _composed(name="Acosh", derivative=slopes.ACOSH, composed=elementary.acosh),
    _composed(name="Atanh", derivative=slopes.ATANH, composed=elementary.atanh),
    _composed(
        name="Erf",
        speed=speeds.VECTORIZED,
        derivative=slopes.ERF,
        composed=erf.erf,
        meaning=meanings.erf,
    ),
)

ACTIVATIONS = (
    _slow(
        name="Sigmoid",
        speed=speeds.VECTORIZED,
        derivative=slopes.SIGMOID,
        native=functions.sigmoid,
        has_kernel=sure_kernels.of(FLOATS),
        never_negative=yes,
    ),
    _composed(name="Softplus", derivative=slopes.SOFTPLUS, composed=activations.softplus),
    _composed(name="Elu", derivative=slopes.ELU, composed=activations.elu),
    _composed(name="Celu", derivative=slopes.CELU, composed=activations.celu),
    _composed(name="Selu", derivative=slopes.SELU, composed=activations.selu),
    _once(
        name="Relu",
        derivative=slopes.RELU,
        native=native.relu,
        composed=activations.relu,
        meaning=meanings.relu,
    ),
    pointwise(
        name="LeakyRelu",
        derivative=slopes.LEAKY_RELU,
        native=native.leaky_relu,
        wrong_kernel=_is_spelt_out,
        composed=activations.leaky_relu,
    ),
    pointwise(
        name="ThresholdedRelu",
        derivative=slopes.THRESHOLDED_RELU,
        native=native.thresholded_relu,
        composed=activations.thresholded_relu,
    ),
    pointwise(
        name="HardSigmoid",
        derivative=slopes.HARD_SIGMOID,
        native=native.hard_sigmoid,
        composed=activations.hard_sigmoid,
    ),
    pointwise(
        name="HardSwish",
        native=native.hard_swish,
        composed=activations.hard_swish,
        meaning=meanings.hard_swish,
    ),
    # of float64 it is approximated with constants of float32
    _composed(
        name="Gelu",
        wrong_kernel=sure_kernels.first_of({"float64"}),
        composed=activations.gelu,
        for_cuda=for_cuda.bell,
        meaning=meanings.gelu,
    ),
    _composed(
        name="Mish",
        derivative=slopes.MISH,
        wrong_kernel=_is_spelt_out,
        composed=activations.mish,
    ),
    pointwise(
        name="Softsign",
        native=native.softsign,
        composed=activations.softsign,
        meaning=meanings.softsign,
    ),
    # computes in float32: Shrink(1.9) = 1.89999998
    pointwise(
        name="Shrink",
        native=native.shrink,
        wrong_kernel=sure_kernels.first_of({"float64", "int64", "int32"}),
        composed=activations.shrink,
    ),
    _once(
        name="PRelu",
        native=native.prelu,
        wrong_kernel=_is_spelt_out,
        batched=batching.prelu,
        composed=activations.prelu,
    ),
)

ROWS = (*ARITHMETIC, *ROUNDING, *LOGIC, *DTYPES, *ELEMENTARY, *ACTIVATIONS)
