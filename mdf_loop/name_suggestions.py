"""Suggestions for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(name: str, known_names: Iterable[str]) -> str:
    """Return a hint for an unknown name: `did you mean 'x'?`, or a list of known names."""
    known_names = list(dict.fromkeys(known_names))
    close_names = [known_name for known_name in known_names if known_name.lower() == name.lower()]
    close_names = close_names or difflib.get_close_matches(name, known_names, n=1)
    if close_names:
        return f"did you mean '{close_names[0]}'?"
    if 0 < len(known_names) <= 12:
        return "known here: " + ", ".join(f"'{known_name}'" for known_name in known_names)
    return ""
