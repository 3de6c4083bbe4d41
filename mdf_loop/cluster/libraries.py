"""Libraries of the optional dependency `cluster`, imported on first use."""

from __future__ import annotations

import importlib
import importlib.util
import signal
from typing import Any

from mdf_loop.errors import InputError


def import_library(name: str) -> Any:
    """Import a library, and restore the Ctrl-C handler that dask_jobqueue replaces.

    Raises:
        InputError: The library is not installed.
    """
    old_interrupt_handler = signal.getsignal(signal.SIGINT)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise missing_library(name, f"cannot be imported: {error}") from None
    finally:
        if (
            old_interrupt_handler is not None
            and signal.getsignal(signal.SIGINT) is not old_interrupt_handler
        ):
            signal.signal(signal.SIGINT, old_interrupt_handler)


def check_installed(name: str) -> None:
    """Check that a library of the optional dependency `cluster` is installed.

    The library is not imported, which would take a while.

    Raises:
        InputError: The library is not installed.
    """
    if importlib.util.find_spec(name) is None:
        raise missing_library(name, "is not installed")


def missing_library(name: str, problem: str) -> InputError:
    """Return the error that a library of the optional dependency `cluster` is missing."""
    return InputError(
        f"a cluster needs the library {name}, which {problem}",
        hint="pip install 'mdf-loop[cluster]'",
    )
