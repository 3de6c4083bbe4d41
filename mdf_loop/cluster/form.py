"""What the numbers of a process depend on besides the model: workers of another form are refused."""

from __future__ import annotations

import importlib.metadata
import platform

from mdf_loop.errors import InputError
from mdf_loop.version import __version__


def form() -> dict[str, str]:
    """The versions and the machine code of this process."""
    from mdf_loop.native.choice import unavailable

    problem = unavailable()
    return {
        "mdf_loop": __version__,
        "onnxruntime": importlib.metadata.version("onnxruntime"),
        "processors": platform.machine(),
        "native loops": "there" if problem is None else f"off: {problem}",
    }


def check_form(wanted: dict[str, str], who: str) -> None:
    """Refuse to compute here what somebody else wants as he would compute it.

    Args:
        wanted: the form of who asks.
        who: what this process is called.

    Raises:
        InputError: this process has another form.
    """
    own = form()
    apart = [
        f"{word} {own[word]} (here: {wanted[word]})" for word in own if own[word] != wanted[word]
    ]
    if apart:
        raise InputError(
            f"the worker {who} would not compute the same numbers: it has {', '.join(apart)}",
            hint="install the same versions on all machines; 'mdf-loop cluster check' shows them",
        )
