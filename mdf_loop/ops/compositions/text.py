"""Operators on text that ONNX Runtime gets wrong."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mdf_loop.ir import Op, Value
from mdf_loop.ops.compositions.words import attribute, operand, rank
from mdf_loop.ops.words import ints

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def gather(b: Builder, op: Op) -> Value:
    """`GatherND`, which takes rows: the axis comes first, and goes back to its place.

    ONNX Runtime's Gather copies only the first text of each row (1.31); right it is along the last
    axis.
    """
    data, indices = operand(op, 0), operand(op, 1)
    places = b.op("Unsqueeze", indices, ints(b, -1))
    axes, own = rank(data, "onnx::Gather of text"), rank(indices, "onnx::Gather of text")
    axis = attribute(op, "axis") % axes
    first = (axis, *(k for k in range(axes) if k != axis))
    back = (*range(own, own + axis), *range(own), *range(own + axis, own + axes - 1))
    rows = b.op("GatherND", b.op("Transpose", data, perm=first) if axis else data, places)
    return b.op("Transpose", rows, perm=back) if axis else rows


_LOCALE = "en-US" if os.name == "nt" else "C.UTF-8"
"""One that is there without being installed, and has the letters of all languages."""


def string_normalizer(b: Builder, op: Op) -> Value:
    """The operation with a locale: its default is one that many machines do not have."""
    return b.op("StringNormalizer", operand(op), **op.attributes, locale=_LOCALE)


def lacks_locale(op: Op) -> bool:
    """Whether letters change their case by the locale that is the default."""
    return op.attributes.get("case_change_action", "NONE") != "NONE" and not op.attributes.get(
        "locale"
    )
