"""From one dtype to another, as ONNX Runtime casts."""

from __future__ import annotations

import numpy as np

from mdf_loop.ir import Op
from mdf_loop.ops.native.arithmetic import first
from mdf_loop.ops.native.code import TYPES, Code, is_float, is_signed


def cast(code: Code, op: Op, x: str, *_: str) -> str:
    """`Cast`."""
    return converted(code, first(op), x, op.outputs[0].dtype)


def converted(code: Code, source: str, x: str, target: str) -> str:
    """The nearest number towards zero; of a whole one in a smaller dtype its last bits."""
    if source == target:
        return x
    if target == "bool":
        if is_float(source):
            return code.compare("une", source, x, code.number(0, source))
        return code.compare("ne", source, x, code.number(0, source))
    if is_float(source):
        if is_float(target):
            return code.cast("fpext" if target == "float64" else "fptrunc", source, x, target)
        return _cut(code, source, x, target)
    if is_float(target):
        return code.cast("sitofp" if is_signed(source) else "uitofp", source, x, target)
    before, after = _BITS[source], _BITS[target]
    if before == after:
        return x
    wider = "sext" if is_signed(source) else "zext"
    return code.cast(wider if before < after else "trunc", source, x, target)


_BITS = {dtype: int(kind[1:]) for dtype, kind in TYPES.items() if not is_float(dtype)}


def _cut(code: Code, source: str, x: str, target: str) -> str:
    """A float as a whole number: towards zero, by the instruction that the runtime's kernels use.

    It makes int64 or int32, and of what does not fit the smallest. Smaller dtypes take last bits of that;
    uint64 has numbers from 2**63 on shifted down and up again.
    """
    if target in ("int64", "int32"):
        return _signed(code, source, x, target)
    if target != "uint64":
        wide = "int64" if target == "uint32" else "int32"
        return converted(code, wide, _signed(code, source, x, wide), target)
    half, top = code.number(2.0**63, source), code.number(-(2**63), "int64")
    large = code.compare("oge", source, x, half)
    low = code.choose(large, source, code.binary("fsub", source, x, half), x)
    made = _signed(code, source, low, "int64")
    return code.choose(large, "int64", code.binary("xor", "int64", made, top), made)


def _signed(code: Code, source: str, x: str, target: str) -> str:
    """Towards zero; what does not fit is the smallest whole number."""
    smallest = int(np.iinfo(target).min)
    least = float(smallest)
    low = "oge" if target == "int64" or source == "float32" else "ogt"
    edge = least if low == "oge" else least - 1
    fits = code.binary(
        "and",
        "bool",
        code.compare(low, source, x, code.number(edge, source)),
        code.compare("olt", source, x, code.number(-least, source)),
    )
    safe = code.choose(fits, source, x, code.number(0, source))
    made = code.cast("fptosi", source, safe, target)
    return code.choose(fits, target, made, code.number(smallest, target))
