"""Suggestions for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'?` for the closest known name, or else the list of at most 12 known names."""
    known = list(dict.fromkeys(known))
    close = [entry for entry in known if entry.lower() == name.lower()]
    close = close or difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    if 0 < len(known) <= 12:
        return "known here: " + ", ".join(f"'{entry}'" for entry in known)
    return ""
