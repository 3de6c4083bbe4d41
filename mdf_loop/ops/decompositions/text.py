"""Decompositions of operators on text that ONNX Runtime computes wrongly."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import ints
from mdf_loop.ops.decompositions.build_helpers import attribute, operand, rank

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def gather(b: Builder, op: Op) -> Value:
    """Build Gather of strings as a `GatherND` along the first axis and a Transpose.

    ONNX Runtime's Gather copies only the first string of each row, except along the last axis (1.31).
    """
    x, indices = operand(op, 0), operand(op, 1)
    index_tuples = b.op("Unsqueeze", indices, ints(b, -1))
    x_rank, index_rank = (
        rank(x, "onnx::Gather of text"),
        rank(indices, "onnx::Gather of text"),
    )
    axis = attribute(op, "axis") % x_rank
    axis_order = (axis, *(k for k in range(x_rank) if k != axis))
    result_axis_order = (
        *range(index_rank, index_rank + axis),
        *range(index_rank),
        *range(index_rank + axis, index_rank + x_rank - 1),
    )
    gathered_rows = b.op(
        "GatherND", b.op("Transpose", x, perm=axis_order) if axis else x, index_tuples
    )
    return b.op("Transpose", gathered_rows, perm=result_axis_order) if axis else gathered_rows


_LOCALE = "en-US" if os.name == "nt" else "C.UTF-8"
"""Locale that every machine has, with upper and lower case of all languages."""


def string_normalizer(b: Builder, op: Op) -> Value:
    """Build StringNormalizer with an explicit locale, because many machines lack the default locale."""
    return b.op("StringNormalizer", operand(op), **op.attributes, locale=_LOCALE)


def lacks_locale(op: Op) -> bool:
    """Return True if a StringNormalizer changes the case of letters without an explicit locale."""
    return op.attributes.get("case_change_action", "NONE") != "NONE" and not op.attributes.get(
        "locale"
    )
