"""Equality of texts, which ONNX's Equal supports only from opset 19 on.

    _, _, numbers, _ = Unique(Concat(a, b))      a number for each distinct text
    a == b   ->   numbers of a == numbers of b

Source: ONNX operators, Equal-13, Unique-11.
"""

from __future__ import annotations

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops.build_helpers import ints


def equal_texts(b: ModelBuilder, left: Value, right: Value) -> Value:
    """Return `left == right`, element by element, with broadcasting."""
    flat = [b.op("Reshape", value, ints(b, -1)) for value in (left, right)]
    concatenated = b.op("Concat", *flat, axis=0)
    numbers = b.multi("Unique", concatenated, n_outputs=3)[2]
    extent = b.op("Shape", flat[0])
    end = b.op("Shape", concatenated)
    parts = (
        b.op("Slice", numbers, ints(b, 0), extent, ints(b, 0)),
        b.op("Slice", numbers, extent, end, ints(b, 0)),
    )
    pairs = zip(parts, (left, right), strict=True)
    return b.op("Equal", *(b.op("Reshape", part, b.op("Shape", value)) for part, value in pairs))
