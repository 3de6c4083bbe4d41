"""Operators by what they do to numbers: element by element, and rounded alike everywhere."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mdf_loop.ir import Array

ELEMENTWISE: frozenset[str] = frozenset(
    (
        *("Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift"),
        *("Cast", "Ceil", "Celu", "Cos", "Cosh", "Div", "Elu", "Equal", "Erf", "Exp", "Floor"),
        *("Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN"),
        *("LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mod", "Mul", "Neg"),
        *("Not", "Or", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign"),
        *("Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tan", "Tanh"),
        *("ThresholdedRelu", "Where", "Xor"),
    )
)
"""`y[k] = f(a[k], b[k], ...)` after broadcasting. (Clip's ends and PRelu's slope are not
broadcast both ways.)"""

WHOLE_FAIL: frozenset[str] = frozenset({"Div", "Mod", "Pow"})
"""Those that can fail on whole numbers: by zero, or by a negative power."""

_ROUNDED_ALIKE: frozenset[str] = frozenset(
    (
        *("Abs", "Add", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand"),
        *("Flatten", "Floor", "Gather", "Greater", "GreaterOrEqual", "Identity", "Less"),
        *("LessOrEqual", "Mul", "Neg", "Range", "Reshape", "Shape", "Size", "Slice", "Split"),
        *("Sqrt", "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze", "Where"),
    )
)
"""Operators whose result IEEE 754 fixes to the bit, and those that only move numbers."""


def same_bits(op_type: str, arrays: Iterable[Array]) -> bool:
    """Whether every runtime gives the same bits for these operands.

    Sums and transcendental functions differ in the last bits from one library to the next.
    """
    kinds = {array.dtype.kind for array in arrays}
    plain = all(a.dtype in (np.float64, np.float32) for a in arrays if a.dtype.kind not in "iub")
    return kinds <= set("iub") or (op_type in _ROUNDED_ALIKE and plain)
