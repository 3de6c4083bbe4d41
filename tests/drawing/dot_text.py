"""What stands in a DOT text: its edges, its words."""

import re


def edges(dot, kind):
    """Tail and head of the edges of a kind."""
    found = re.findall(r"^\s*(\S+) -> (\S+) \[(.*)\]$", dot, re.MULTILINE)
    return [(tail, head) for tail, head, rest in found if f"class={kind} " in f"{rest} "]


def shown(dot):
    """The words of all labels, tags left out."""
    return " ".join(re.sub(r"<[^>]*>", " ", dot).split())
