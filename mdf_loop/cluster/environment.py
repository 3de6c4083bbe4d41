"""Check that a cluster's workers have the library versions and processor type of the client."""

from __future__ import annotations

import importlib.metadata
import platform

from mdf_loop.errors import InputError
from mdf_loop.version import __version__


def environment_versions() -> dict[str, str]:
    """Return the library versions and processor type that affect the results of this process."""
    from mdf_loop.native.loop_decisions import reason_unavailable

    native_loop_problem = reason_unavailable()
    return {
        "mdf_loop": __version__,
        "onnxruntime": importlib.metadata.version("onnxruntime"),
        "processors": platform.machine(),
        "native loops": "there" if native_loop_problem is None else f"off: {native_loop_problem}",
    }


def check_environment(expected: dict[str, str], worker: str) -> None:
    """Raise an error if this worker process has other versions than the client.

    Args:
        expected: Environment of the client.
        worker: Name of this process.

    Raises:
        InputError: This process has another environment.
    """
    actual_versions = environment_versions()
    version_differences = [
        f"{library} {actual_versions[library]} (here: {expected[library]})"
        for library in actual_versions
        if actual_versions[library] != expected[library]
    ]
    if version_differences:
        raise InputError(
            f"the worker {worker} would not compute the same numbers: it has {', '.join(version_differences)}",
            hint="install the same versions on all machines; 'mdf-loop cluster check' shows them",
        )
