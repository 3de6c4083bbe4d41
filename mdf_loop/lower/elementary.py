"""Elementary functions of `math.` and `numpy.`, element by element."""

from __future__ import annotations

from mdf_loop.build import Builder
from mdf_loop.ir import Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.functions import names
from mdf_loop.lower.operators import Term, tensor


def _unary(op_type: str) -> None:
    def call(b: Builder, x: Term, /) -> Value:
        return b.op(op_type, ops.as_float(b, tensor(b, x)))

    name = op_type.lower()
    names(f"numpy.{name}", f"math.{name}")(call)


for _op_type in ("Exp", "Sqrt", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh", "Log"):
    _unary(_op_type)
