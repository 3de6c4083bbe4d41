"""Lower bounds of the execution time of operations in ONNX Runtime, without call overhead.

The times are microseconds, measured with `benchmarks/lazy_choices.py` (onnxruntime 1.31.1, AMD EPYC, one core). An element
takes 0.2 ns, a transcendental function 3 ns, and a multiplication of a product 0.15 ns. Unknown extents count
as 1.
"""

from __future__ import annotations

import math

from mdf_loop.ir import Op, Value
from mdf_loop.ops.registry import count_elements, row_of

CALL_MICROSECONDS = 0.2
"""Call overhead of one ONNX Runtime operation in microseconds."""

_TRANSCENDENTAL_MICROSECONDS, _MULTIPLICATION_MICROSECONDS = 0.003, 0.00015


def transcendental_microseconds(op: Op) -> float:
    """Return the minimum time of one transcendental function per element, in microseconds."""
    return _TRANSCENDENTAL_MICROSECONDS * count_elements(op.outputs)


def product_microseconds(op: Op) -> float:
    """Return the minimum time of a matrix product in microseconds, from its multiplications."""
    inner_extent = _known_extent(op.inputs[0], -2 if op.attributes.get("transA") else -1)
    return _MULTIPLICATION_MICROSECONDS * inner_extent * count_elements(op.outputs)


def convolution_microseconds(op: Op) -> float:
    """Return the minimum time of a convolution in microseconds, from its multiplications."""
    kernels = op.inputs[1]
    kernel_size = (
        count_elements((kernels,)) // max(_known_extent(kernels, 0), 1)
        if kernels is not None
        else 1
    )
    return _MULTIPLICATION_MICROSECONDS * kernel_size * count_elements(op.outputs)


def einsum_microseconds(op: Op) -> float:
    """Return the minimum microseconds of an `Einsum`, with one multiplication per index combination."""
    operand_terms = str(op.attributes["equation"]).replace(" ", "").partition("->")[0].split(",")
    extent_by_letter: dict[str, int] = {}
    for operand_term, operand in zip(operand_terms, op.inputs, strict=False):
        if (
            "." not in operand_term
            and operand is not None
            and len(operand.shape or ()) == len(operand_term)
        ):
            extent_by_letter |= {
                letter: _known_extent(operand, k) for k, letter in enumerate(operand_term)
            }
    return _MULTIPLICATION_MICROSECONDS * math.prod(extent_by_letter.values())


def count_multiplications(op: Op) -> float:
    """Return the number of multiplications of a matrix product or of a convolution."""
    return row_of(op.op_type).min_microseconds(op) / _MULTIPLICATION_MICROSECONDS


def _known_extent(value: Value | None, axis: int) -> int:
    shape = (value.shape if value is not None else None) or ()
    extent = shape[axis] if -len(shape) <= axis < len(shape) else 1
    return extent if isinstance(extent, int) else 1
