"""Why some operators cannot be computed for many values at once."""

from __future__ import annotations

from mdf_loop.randomness import RANDOM_OPS

_SHAPE = "the shape of its result would differ from value to value"
_RANDOM = "each of them would draw other random numbers than it draws alone"

_REASONS = {
    **dict.fromkeys(("ConstantOfShape", "NonZero", "Range", "Unique"), _SHAPE),
    **dict.fromkeys(RANDOM_OPS, _RANDOM),
}


def reason(op_type: str) -> str:
    """The end of the sentence that refuses an operator without a rule."""
    return _REASONS.get(op_type, "there is no rule for it yet")
