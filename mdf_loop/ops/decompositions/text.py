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
    """Build a gather of text by `GatherND` along the first axis, which is then moved back.

    ONNX Runtime's Gather copies only the first text of each row (1.31). Along the last axis it is right.
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
"""Locale that is present on every machine and has the letters of all languages."""


def string_normalizer(b: Builder, op: Op) -> Value:
    """Build the operation with a locale; many machines lack its default one."""
    return b.op("StringNormalizer", operand(op), **op.attributes, locale=_LOCALE)


def lacks_locale(op: Op) -> bool:
    """Return True if the operation changes the case of letters by the default locale."""
    return op.attributes.get("case_change_action", "NONE") != "NONE" and not op.attributes.get(
        "locale"
    )
