"""Warnings that refer to the line of the user's code instead of one of this package."""

from __future__ import annotations

import sys
import warnings


def warn_user(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that refers to the innermost code line outside of this package."""
    package_name = __name__.partition(".")[0]
    stack_level, frame = 2, sys._getframe(1)
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").split(".")[0] == package_name
    ):
        stack_level, frame = stack_level + 1, frame.f_back
    warnings.warn(sentence, category, stacklevel=stack_level)
