"""Generate the API pages from docstrings, one page for each public name."""

from __future__ import annotations

from collections.abc import Iterator

import mdf_loop
from docs.site.pages import contents

GROUPS = {
    "Run models": ["compile", "CompiledModel", "Results", "StopReason", "Progress", "seed"],
    "Sweeps": ["grid", "paired", "sobol", "Grid"],
    "Derivatives": ["Differentiated", "Gradient", "Derivatives"],
    "Fits": ["Fit", "Fits", "FitProgress", "recover", "Recovery"],
    "Look at models": ["read", "draw", "Drawing", "explain", "verify", "Verification"],
    "Change and import models": ["from_onnx", "fold", "unfold"],
    "Inside modeci_mdf's engine": ["register", "unregister", "loop"],
    "Errors": ["LoopError"],
}
"""Public names by heading, in the order of the list of names."""


def _first_sentence(name: str) -> str:
    docstring = getattr(mdf_loop, name).__doc__ or ""
    return docstring.strip().split("\n\n")[0].replace("\n", " ").replace("    ", "")


def _page(name: str) -> str:
    title = f"mdf_loop.{name}"
    kind, options = "function", ""
    public = getattr(mdf_loop, name)
    if isinstance(public, type):
        kind = "class"
        options = "   :members:\n   :inherited-members: object, Mapping, Enum, Exception\n"
        options += "".join(f"\n.. autoclass:: {base}\n" for base in _bases(public))
    line = "=" * len(title)
    return f"{title}\n{line}\n\n.. auto{kind}:: mdf_loop.{name}\n{options}"


def _bases(public: type) -> list[str]:
    """Return the base classes in mdf_loop that document attributes."""
    ours = (base for base in public.__mro__[1:] if base.__module__.startswith("mdf_loop."))
    return [f"{b.__module__}.{b.__qualname__}" for b in ours if "Attributes:" in (b.__doc__ or "")]


def api_pages() -> Iterator[tuple[str, str]]:
    """Yield path and text of the page of each public name, and of the list of names."""
    text = [
        "# API",
        "The docstrings of all public names. [Python](../reference/python-api.md) lists the arguments in "
        "tables and explains their valid combinations.",
    ]
    for title, names in GROUPS.items():
        rows = [f"| [`{name}`]({name}.rst) | {_first_sentence(name)} |" for name in names]
        text += [f"## {title}", "\n".join(["| name | |", "|---|---|", *rows])]
        yield from ((f"api/{name}.rst", _page(name)) for name in names)
    names = [name for group in GROUPS.values() for name in group]
    yield "api/index.md", "\n\n".join([*text, contents([f"{name}.rst" for name in names])])
