"""The libraries of the extra `cluster`, imported where they are needed."""

from __future__ import annotations

import importlib
import importlib.util
import signal
from typing import Any

from mdf_loop.errors import InputError


def needed(name: str) -> Any:
    """A module of the extra; what Ctrl-C does stays (dask_jobqueue lets it end the process from then on).

    Raises:
        InputError: it is not installed.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise _missing(name, f"cannot be imported: {error}") from None
    finally:
        if before is not None and signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)


def check_needed(name: str) -> None:
    """Refuse to go on without a module of the extra; it is not imported, which takes a while.

    Raises:
        InputError: it is not installed.
    """
    if importlib.util.find_spec(name) is None:
        raise _missing(name, "is not installed")


def _missing(name: str, how: str) -> InputError:
    return InputError(
        f"a cluster needs the library {name}, which {how}", hint="pip install 'mdf-loop[cluster]'"
    )
