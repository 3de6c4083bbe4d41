"""Equality of text arrays, which ONNX's Equal supports only from opset 19 on.

    _, _, numbers, _ = Unique(Concat(a, b))      a number for each distinct text
    a == b   ->   numbers of a == numbers of b

Source: ONNX operators, Equal-13, Unique-11.
"""

from __future__ import annotations

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops.build_helpers import ints


def equal_texts(b: ModelBuilder, left: Value, right: Value) -> Value:
    """Return `left == right` for text arrays, element by element, with broadcasting."""
    flat_texts = [b.op("Reshape", value, ints(b, -1)) for value in (left, right)]
    concatenated_texts = b.op("Concat", *flat_texts, axis=0)
    unique_text_indices = b.multi("Unique", concatenated_texts, output_count=3)[2]
    left_count = b.op("Shape", flat_texts[0])
    total_count = b.op("Shape", concatenated_texts)
    indices_by_operand = (
        b.op("Slice", unique_text_indices, ints(b, 0), left_count, ints(b, 0)),
        b.op("Slice", unique_text_indices, left_count, total_count, ints(b, 0)),
    )
    indices_with_operands = zip(indices_by_operand, (left, right), strict=True)
    return b.op(
        "Equal",
        *(
            b.op("Reshape", operand_indices, b.op("Shape", operand))
            for operand_indices, operand in indices_with_operands
        ),
    )
