"""Check of the equation of `onnx::Einsum` before onnx's shape inference.

    "...ij,...jk->...ik"     letters, and one ellipsis at most in each term

The shape inference of onnx 1.23 never returns from an equation with two ellipses in one term ("...a...->a"), nor
from several with other signs ("a.b->a", "a-b->a"). It cannot be interrupted, since it holds the interpreter's lock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TERM_PATTERN = r"[A-Za-z]*(?:\.\.\.[A-Za-z]*)?"
_EQUATION_PATTERN = re.compile(rf"{_TERM_PATTERN}(?:,{_TERM_PATTERN})*(?:->{_TERM_PATTERN})?")


def equation_fault(attributes: Mapping[str, Any]) -> str:
    """Return an error message for an invalid `equation` attribute, or an empty string."""
    equation = attributes.get("equation")
    if isinstance(equation, bytes):
        equation = equation.decode(errors="replace")
    if not isinstance(equation, str):
        return ""
    compact_equation = equation.replace(" ", "")
    if _EQUATION_PATTERN.fullmatch(compact_equation):
        return ""
    operand_terms, _, result_term = compact_equation.partition("->")
    for term in (*operand_terms.split(","), result_term):
        if term.count("...") > 1:
            return f"the term '{term}' of the equation '{equation}' has more than one ellipsis"
    return (
        f"the equation '{equation}' has other signs than letters, commas, one '->', "
        "and one '...' in each term"
    )
