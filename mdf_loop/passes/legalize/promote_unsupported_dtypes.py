"""Compute in a wider dtype what ONNX Runtime has no kernel for, and cast back.

    y: int16[n] = Max(a, b)   ->   y = Cast(Max(Cast(a), Cast(b)))      in int32

Keeps: the values of ONNX's definition; whole numbers wrap as numpy's do, floats are rounded once.
Constants that no dtype has a kernel for are computed by numpy.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Program, Value
from mdf_loop.ir.types import onnx_type_text
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.kernels import has_kernel
from mdf_loop.ops.registry import Bits, row_of, title
from mdf_loop.ops.words import cast
from mdf_loop.passes.legalize.constant_fallback import build_or_evaluate
from mdf_loop.passes.legalize.kernel_needed import (
    is_decomposed,
    lacks_kernel,
    main_dtype,
    main_inputs,
)
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


def promote_unsupported_dtypes(program: Program) -> Program:
    """The program with what has neither kernel nor composition computed in a wider dtype.

    Raises:
        UnsupportedError: there is none; the sentence names the operation, its dtype and place.
    """
    return rewrite(program, _rule)


def _rule(b: Builder, op: Op) -> tuple[Value | None, ...] | None:
    if is_decomposed(op) or not lacks_kernel(op):
        return None
    return build_or_evaluate(b, op, _widened)


def _widened(b: Builder, op: Op) -> tuple[Value, ...]:
    """The operation in the first wider dtype that can be run, cast back.

    Of bfloat16 only what is rounded once at most: float32 has more than twice the digits, so rounding
    its result again changes nothing; only below 2**-126, where float32 has fewer digits, it may be
    rounded twice, as it is in onnx's reference implementation.

    Source: Figueroa, When is double rounding innocuous? (1995): p digits of 2p + 2 or more.
    """
    if main_dtype(op) == "bfloat16" and row_of(op.op_type).bits is Bits.OPEN:
        raise _not_rounded_once(op)
    wide = next((dtype for dtype in _wider(op) if _runs(_retyped(op, dtype))), None)
    if wide is None:
        raise _refusal(op)
    places = set(main_inputs(op))
    inputs = [
        cast(b, v, wide) if v is not None and k in places else v for k, v in enumerate(op.inputs)
    ]
    made = b.multi(op.op_type, *inputs, n_outputs=len(op.outputs), **op.attributes)
    pairs = zip(made, op.outputs, strict=True)
    return tuple(cast(b, new, old.dtype) for new, old in pairs)


def _wider(op: Op) -> tuple[str, ...]:
    row = row_of(op.op_type)
    if row.small_matters:
        return ()
    if main_dtype(op) == "uint64":
        return ("int64",) if row.as_signed else ()
    return _WIDER.get(main_dtype(op), ())


def _retyped(op: Op, dtype: str) -> Op | None:
    """The operation with its main type changed; None if ONNX does not define it."""
    schema = onnx_schema.schema_of(op)
    places = set(main_inputs(op))
    formal = schema.inputs[min(places)]
    if onnx_type_text(dtype) not in formal.types:
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
    return op is not None and (row_of(op.op_type).composed is not None or has_kernel(op))


def _not_rounded_once(op: Op) -> UnsupportedError:
    return UnsupportedError(
        f"{title(op.op_type)} of bfloat16 has no kernel, and would be rounded differently in float32",
        op.where,
        "cast to float32 before it, and back after it",
    )


def _refusal(op: Op) -> UnsupportedError:
    dtype = main_dtype(op)
    reason = row_of(op.op_type).not_composed
    sentence = f"ONNX Runtime has no {dtype} kernel for {title(op.op_type)}"
    hint = "use precision='float32'" if dtype == "float64" else "use another dtype"
    return UnsupportedError(f"{sentence}: {reason}" if reason else sentence, op.where, hint)
