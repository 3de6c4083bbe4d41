"""What operations take on ONNX Runtime, besides the call: the `work` of rows, in microseconds.

Lower bounds, measured with `benchmarks/lazy_choices.py` (onnxruntime 1.31.1, AMD EPYC, one core): for
each element 0.2 ns, or 3 ns where it is transcendental; for each multiplication of a product 0.15 ns.
Extents that are not known count as 1.
"""

from __future__ import annotations

import math

from mdf_loop.ir import Op, Value
from mdf_loop.ops.registry import elements, row_of

CALL = 0.2
"""Microseconds of any operation besides its work."""

_SLOW, _MULTIPLICATION = 0.003, 0.00015


def transcendental(op: Op) -> float:
    """A series for each element."""
    return _SLOW * elements(op.outputs)


def product(op: Op) -> float:
    """A row times a column for each element."""
    length = _extent(op.inputs[0], -2 if op.attributes.get("transA") else -1)
    return _MULTIPLICATION * length * elements(op.outputs)


def convolution(op: Op) -> float:
    """A window times the weights of one output for each element."""
    weights = op.inputs[1]
    each = elements((weights,)) // max(_extent(weights, 0), 1) if weights is not None else 1
    return _MULTIPLICATION * each * elements(op.outputs)


def summation(op: Op) -> float:
    """`Einsum`: a multiplication for each combination of all letters."""
    terms = str(op.attributes["equation"]).replace(" ", "").partition("->")[0].split(",")
    extents: dict[str, int] = {}
    for term, value in zip(terms, op.inputs, strict=False):
        if "." not in term and value is not None and len(value.shape or ()) == len(term):
            extents |= {letter: _extent(value, k) for k, letter in enumerate(term)}
    return _MULTIPLICATION * math.prod(extents.values())


def multiplications(op: Op) -> float:
    """Return the number of multiplications of a product, or of a convolution."""
    return row_of(op.op_type).work(op) / _MULTIPLICATION


def _extent(value: Value | None, axis: int) -> int:
    shape = (value.shape if value is not None else None) or ()
    found = shape[axis] if -len(shape) <= axis < len(shape) else 1
    return found if isinstance(found, int) else 1
