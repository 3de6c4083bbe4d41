"""From one dtype to another, as ONNX Runtime casts."""

from __future__ import annotations

from mdf_loop.ir import Op
from mdf_loop.ops.native.arithmetic import first
from mdf_loop.ops.native.code import Code, is_float

_LEAST = {"int64": -(2**63), "int32": -(2**31)}


def cast(code: Code, op: Op, x: str, *_: str) -> str:
    """`Cast`."""
    return converted(code, first(op), x, op.outputs[0].dtype)


def converted(code: Code, source: str, x: str, target: str) -> str:
    """The nearest number towards zero, of a whole one; what has none is the smallest whole number."""
    if source == target:
        return x
    if target == "bool":
        if is_float(source):
            return code.compare("une", source, x, code.number(0, source))
        return code.compare("ne", source, x, code.number(0, source))
    if source == "bool":
        return code.cast("uitofp" if is_float(target) else "zext", source, x, target)
    if is_float(source) and is_float(target):
        return code.cast("fpext" if target == "float64" else "fptrunc", source, x, target)
    if is_float(source):
        return _whole(code, source, x, target)
    if is_float(target):
        return code.cast("sitofp", source, x, target)
    return code.cast("sext" if target == "int64" else "trunc", source, x, target)


def _whole(code: Code, source: str, x: str, target: str) -> str:
    least = float(_LEAST[target])
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
    return code.choose(fits, target, made, code.number(_LEAST[target], target))
