"""Replace every operation that ONNX Runtime cannot run by operations that it can.

    y: float64[n] = Tan(x)    ->   n = Round(x * 2/pi); ...; y = Where(...)
    y: int16[n] = Max(a, b)   ->   y = Cast(Max(Cast(a), Cast(b)))      in int32
    y: float64[n] = Exp(x)    ->   the same
    q: int64[n] = Div(a, b)   ->   q = Mul(Div(a, divisor), sign)      where b may be -1

Keeps: the values of ONNX's definition, in the dtype of the model; elementary functions within
4 ulp, everything else as exact as its sums. float64 never passes through float32. Attributes
are used as the model has them, where an ONNX file would round them to float32.
"""

from __future__ import annotations

from dataclasses import replace

from mdf_loop import onnx_ops
from mdf_loop.build import Builder, Options
from mdf_loop.emit.compositions import COMPOSITIONS, REFUSED
from mdf_loop.emit.compositions.registry import cast
from mdf_loop.emit.divisions import safe_divisions
from mdf_loop.emit.kernels import has_kernel
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Program, Value
from mdf_loop.onnx_types import onnx_word
from mdf_loop.passes import optimise
from mdf_loop.passes.rewrite import rewrite

_WIDER = {
    "bool": ("uint8", "int32", "int64"),
    "int8": ("int32", "int64"),
    "int16": ("int32", "int64"),
    "int32": ("int64",),
    "uint8": ("int32", "int64", "uint32", "uint64"),
    "uint16": ("int32", "int64", "uint32", "uint64"),
    "uint32": ("int64", "uint64"),
    "float16": ("float32",),
    "bfloat16": ("float32",),
}
"""Dtypes that hold all values of a small one; cast back, results wrap as numpy's do."""

_ONLY_BITS = frozenset({"CumSum", "Einsum", "Trilu", "Where"})
"""Operators that give the same bits for int64 as for uint64."""

_HALF = ("float16", "bfloat16")
"""Dtypes too coarse for compositions: always widened."""

_ROUNDED_ONCE = frozenset(
    (
        # give one of their operands, a truth value, or a number that bfloat16 holds
        *("Abs", "Ceil", "Clip", "Equal", "Floor", "Greater", "GreaterOrEqual", "IsNaN"),
        *("Less", "LessOrEqual", "Max", "Min", "Mod", "Neg", "Relu", "Sign", "Where"),
        *("ArgMax", "ArgMin", "Hardmax", "ReduceMax", "ReduceMin"),
        # float32 has more than twice the digits: rounding its result again changes nothing
        *("Add", "Div", "Mul", "PRelu", "Reciprocal", "Sqrt", "Sub"),
    )
)
"""Arithmetic of bfloat16 that is right in float32, rounded to bfloat16 at the end.

That is the exact result rounded once; only below 2**-126, where float32 has fewer digits, it may
be rounded twice, as it is in onnx's reference implementation.

Source: Figueroa, When is double rounding innocuous? (1995): p digits of 2p + 2 or more.
"""

_COPIES = frozenset(
    (
        *("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND"),
        *("Identity", "NonZero", "Pad", "Reshape", "Shape", "Size", "Slice", "SpaceToDepth"),
        *("Split", "Squeeze", "Tile", "Transpose", "Trilu", "Unsqueeze"),
    )
)
"""Operators that move numbers."""

_QUANTIZED = ("Quantize", "Dequantize", "QLinear", "ConvInteger", "MatMulInteger")
"""Operators in which a small dtype is the point."""


def legalise(program: Program, options: Options | None = None) -> Program:
    """The program with nothing but operations that ONNX Runtime's CPU provider can run.

    Raises:
        UnsupportedError: an operation cannot be made; the sentence names it, its dtype and place.
    """
    while True:
        legal = rewrite(program, _replacement, options)
        if legal is program:
            return safe_divisions(program, options)
        program = legal


def _replacement(
    b: Builder, op: Op, inputs: tuple[Value | None, ...]
) -> tuple[Value | None, ...] | None:
    if _is_exact(op) and has_kernel(op):
        return None
    if op.op_type in COMPOSITIONS and main_dtype(op) not in _HALF:
        return _composed(b, op)
    return _widened(b, op)


def _is_exact(op: Op) -> bool:
    """Whether an ONNX file can hold the numbers among the attributes as the model has them."""
    if op.op_type not in COMPOSITIONS or main_dtype(op) != "float64":
        return True
    return onnx_ops.fits_a_file(op.op_type, op.attributes)


def runnable(program: Program, options: Options) -> Program:
    """The program after all default passes, in operations that ONNX Runtime can run."""
    return legalise(optimise(program), options)


def main_dtype(op: Op) -> str:
    """The dtype an operation computes in: that of the inputs of its main type variable."""
    places = _main_inputs(op)
    values = [op.inputs[k] for k in places] or list(op.outputs)
    return next((value.dtype for value in values if value is not None), op.outputs[0].dtype)


def _main_inputs(op: Op) -> list[int]:
    """Which inputs have the operator's main type: its output's, or its first input's."""
    schema = onnx_ops.schema(op.op_type)
    if not schema.inputs:
        return []
    last = len(schema.inputs) - 1
    groups = [schema.inputs[min(k, last)].type_str for k in range(len(op.inputs))]
    wanted = schema.outputs[0].type_str
    main = wanted if wanted in groups else groups[0]
    return [k for k, group in enumerate(groups) if group == main and op.inputs[k] is not None]


# --- small dtypes -----------------------------------------------------------------------------


def _widened(b: Builder, op: Op) -> tuple[Value, ...]:
    """The operation in the first wider dtype that can be run, cast back."""
    if main_dtype(op) == "bfloat16" and op.op_type not in _ROUNDED_ONCE | _COPIES:
        raise _not_rounded_once(op)
    wide = next((dtype for dtype in _wider(op) if _runs(_retyped(op, dtype))), None)
    if wide is None:
        raise _refusal(op)
    places = set(_main_inputs(op))
    inputs = [
        cast(b, v, wide) if v is not None and k in places else v for k, v in enumerate(op.inputs)
    ]
    made = b.multi(op.op_type, *inputs, n_outputs=len(op.outputs), **op.attributes)
    pairs = zip(made, op.outputs, strict=True)
    return tuple(cast(b, new, old.dtype) for new, old in pairs)


def _wider(op: Op) -> tuple[str, ...]:
    if op.op_type.startswith(_QUANTIZED):
        return ()
    if main_dtype(op) == "uint64":
        return ("int64",) if op.op_type in _ONLY_BITS else ()
    return _WIDER.get(main_dtype(op), ())


def _retyped(op: Op, dtype: str) -> Op | None:
    """The operation with its main type changed; None if ONNX does not define it."""
    schema = onnx_ops.schema(op.op_type)
    places = set(_main_inputs(op))
    formal = schema.inputs[min(places)]
    if onnx_word(dtype) not in formal.types:
        return None
    inputs = tuple(
        replace(v, dtype=dtype) if v is not None and k in places else v
        for k, v in enumerate(op.inputs)
    )
    last = len(schema.outputs) - 1
    outputs = tuple(
        replace(v, dtype=dtype) if schema.outputs[min(k, last)].type_str == formal.type_str else v
        for k, v in enumerate(op.outputs)
    )
    return replace(op, inputs=inputs, outputs=outputs)


def _runs(op: Op | None) -> bool:
    return op is not None and (op.op_type in COMPOSITIONS or has_kernel(op))


# --- compositions -----------------------------------------------------------------------------


def _composed(b: Builder, op: Op) -> tuple[Value | None, ...]:
    made = COMPOSITIONS[op.op_type](b, op)
    return made if isinstance(made, tuple) else (made,)


def _not_rounded_once(op: Op) -> UnsupportedError:
    return UnsupportedError(
        f"onnx::{op.op_type} of bfloat16 has no kernel, and would be rounded differently in float32",
        op.where,
        "cast to float32 before it, and back after it",
    )


def _refusal(op: Op) -> UnsupportedError:
    dtype = main_dtype(op)
    reason = REFUSED.get(op.op_type)
    sentence = f"ONNX Runtime has no {dtype} kernel for onnx::{op.op_type}"
    hint = "use precision='float32'" if dtype == "float64" else "use another dtype"
    return UnsupportedError(f"{sentence}: {reason}" if reason else sentence, op.where, hint)
