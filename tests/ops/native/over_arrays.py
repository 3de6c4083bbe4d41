"""Own functions of loops as functions of arrays, at any width; and how far numbers are from true ones."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import mpmath
import numpy as np

from mdf_loop.native import machine
from mdf_loop.ops.native.code import TYPES, Code, Text
from mdf_loop.ops.native.functions import Own, of_many

WIDTHS = (1, 2, 4, 8)
MP = mpmath.mp.clone()
MP.prec = 120


@functools.cache
def over_arrays(
    own: Own, width: int, operands: int = 1, dtype: str = "float64"
) -> Callable[..., np.ndarray]:
    """The function of arrays that own code becomes when it computes so many lanes at once."""
    code = Code(Text(), width, many=True)
    made = machine.compiled(_text(code, own, operands, dtype), ["over_arrays"])
    kinds = (ctypes.c_int64, *[ctypes.c_void_p] * (1 + operands))
    function = ctypes.CFUNCTYPE(None, *kinds)(*made.addresses)

    def computed(*arrays: np.ndarray) -> np.ndarray:
        count = arrays[0].size
        padded = [np.resize(array, -(-count // width) * width) for array in arrays]
        out = np.empty_like(padded[0])
        function(out.size, out.ctypes.data, *(array.ctypes.data for array in padded))
        return out[:count]

    computed.machine = made  # type: ignore[attr-defined]  # as long as the function
    return computed


def _text(code: Code, own: Own, operands: int, dtype: str) -> str:
    """`for i in range(0, n, width): out[i : i + width] = own(in0[i : i + width], ...)`."""
    names = ["%out", *(f"%in{k}" for k in range(operands))]
    code.line("br label %again\nagain:")
    code.line("%i = phi i64 [0, %entry], [%next, %stored]")
    code.line("%more = icmp slt i64 %i, %n")
    code.line("br i1 %more, label %some, label %done\nsome:")
    places = [code.put(f"getelementptr {TYPES[dtype]}, ptr {name}, i64 %i") for name in names]
    given = [code.put(f"load {code.type(dtype)}, ptr {at}, align 4") for at in places[1:]]
    made = of_many(code, dtype, own, *given)
    code.line(f"store {code.type(dtype)} {made}, ptr {places[0]}, align 4")
    code.line("br label %stored\nstored:")
    code.line(f"%next = add i64 %i, {code.width}")
    code.line("br label %again\ndone:\n  ret void")
    head = f"define void @over_arrays(i64 %n, {', '.join(f'ptr {name}' for name in names)}) {{"
    text = code.text
    return "\n".join([*text.declared.values(), head, "entry:", *text.frame, *text.lines, "}"])


def bits(y: np.ndarray) -> np.ndarray:
    """The numbers bit by bit; every nan is one."""
    return np.where(np.isnan(y), np.nan, y).view(f"uint{8 * y.itemsize}")


def ulps(exact: Callable[..., mpmath.mpf], y: np.ndarray, *x: np.ndarray) -> np.ndarray:
    """How far each y is from the true value; infinite where it is not even of its kind."""

    def one(given: float, *at: float) -> float:
        true = exact(*map(MP.mpf, at))
        nearest = float(true)
        if not np.isfinite(nearest):
            return 0.0 if given == nearest else np.inf
        if not np.isfinite(given):
            return np.inf
        return float(abs(MP.mpf(given) - true) / MP.mpf(float(np.spacing(abs(nearest)))))

    return np.array([one(*each) for each in zip(y.tolist(), *(a.tolist() for a in x), strict=True)])
