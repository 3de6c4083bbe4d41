"""Edges and words of a DOT text."""

import re


def edges(dot, kind):
    """Return tail and head of the edges of a kind."""
    matches = re.findall(r"^\s*(\S+) -> (\S+) \[(.*)\]$", dot, re.MULTILINE)
    return [
        (tail, head) for tail, head, attributes in matches if f"class={kind} " in f"{attributes} "
    ]


def visible_text(dot):
    """Return the words of all labels without tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", dot).split())
