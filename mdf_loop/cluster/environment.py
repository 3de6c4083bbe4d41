"""Versions and processor type that affect the numbers of a process. Workers with other versions are refused."""

from __future__ import annotations

import importlib.metadata
import platform

from mdf_loop.errors import InputError
from mdf_loop.version import __version__


def environment_versions() -> dict[str, str]:
    """Return the versions of libraries and the kind of machine code of this process."""
    from mdf_loop.native.loop_decisions import reason_unavailable

    problem = reason_unavailable()
    return {
        "mdf_loop": __version__,
        "onnxruntime": importlib.metadata.version("onnxruntime"),
        "processors": platform.machine(),
        "native loops": "there" if problem is None else f"off: {problem}",
    }


def check_environment(expected: dict[str, str], worker: str) -> None:
    """Check that this process has the environment of the client.

    Args:
        expected: Environment of the client.
        worker: Name of this process.

    Raises:
        InputError: This process has another environment.
    """
    actual = environment_versions()
    differences = [
        f"{library} {actual[library]} (here: {expected[library]})"
        for library in actual
        if actual[library] != expected[library]
    ]
    if differences:
        raise InputError(
            f"the worker {worker} would not compute the same numbers: it has {', '.join(differences)}",
            hint="install the same versions on all machines; 'mdf-loop cluster check' shows them",
        )
