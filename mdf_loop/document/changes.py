"""Parts of a document that say something else: copies, since a document is never changed.

port = changed(port, value="2 * x")
"""

from __future__ import annotations

import copy
from typing import Any


def changed(part: Any, **said: Any) -> Any:
    """A copy of a part (a graph, a node, a function ...) that says this; itself, if it does already."""
    if all(value is getattr(part, name) for name, value in said.items()):
        return part
    made = copy.copy(part)
    for name, value in said.items():
        setattr(made, name, value)
    return made
