"""Software versions and processor, which affect the last bits of results.

Checkpoints and stores record these entries.

Entries:
    number format   an integer of the package, which changes only in a release that changes result bits
    onnxruntime     its version, for runs by ONNX Runtime
    llvmlite        its version, if a loop is native or could be native with llvmlite
    numpy           its version, for runs by the interpreter
    processor       its kind and vector instructions. A different processor is a warning, not an error
"""

from __future__ import annotations

import functools
import importlib.metadata
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from mdf_loop.errors import InputError
from mdf_loop.native.loop_decisions import NATIVE, reason_unavailable
from mdf_loop.user_warnings import warn_user
from mdf_loop.version import NUMBER_FORMAT

_LLVMLITE, _PROCESSOR = "llvmlite", "processor"
_VECTOR_INSTRUCTIONS = ("avx", "avx2", "fma", "avx512f", "asimd", "sve")


def environment(engine: str, execution_modes: Mapping[str, str] | None) -> dict[str, str]:
    """Return the software versions and the processor that affect the results of a run.

    Args:
        engine: Name of the engine that runs the model.
        execution_modes: Execution mode of each loop, as `Results.native`, or None if unknown.
    """
    entry_names = {"number format", _PROCESSOR}
    if engine == "interpreter":
        entry_names.add("numpy")
    else:
        entry_names.add("onnxruntime")
        if execution_modes is None or any(map(_depends_on_llvmlite, execution_modes.values())):
            entry_names.add(_LLVMLITE)
    return {
        entry_name: _ENTRY_READERS[entry_name]()
        for entry_name in _ENTRY_READERS
        if entry_name in entry_names
    }


def check_environment(what: str, recorded: Mapping[str, str] | None, remedy: str) -> None:
    """Raise InputError if versions of libraries differ from those of the run that is to be resumed.

    Other versions may change the last bits of results.

    A different processor, or a missing record, gives a warning.

    Args:
        what: The checkpoint or the store, for messages.
        recorded: Environment of the resumed run, or None if it was not recorded.
        remedy: Advice on how to begin a new run.
    """
    if not recorded:
        warn_user(
            f"{what} does not record the versions that it was begun with: continue it with the "
            "same ones, since others may change the last bits of numbers"
        )
        return
    current_environment = {
        entry_name: _ENTRY_READERS[entry_name]()
        for entry_name in recorded
        if entry_name in _ENTRY_READERS
    }
    differences = [
        f"{entry_name} {recorded_text} (here: {current_environment.get(entry_name, 'unknown')})"
        for entry_name, recorded_text in recorded.items()
        if entry_name != _PROCESSOR and current_environment.get(entry_name) != recorded_text
    ]
    if differences:
        raise InputError(
            f"{what} was begun with {' and '.join(differences)}, which would change the last bits "
            "of numbers",
            hint=f"continue it with the versions that it was begun with, or {remedy}",
        )
    if recorded.get(_PROCESSOR) != current_environment.get(_PROCESSOR):
        warn_user(
            f"{what} was begun on the processor {recorded[_PROCESSOR]} (here: {current_environment.get(_PROCESSOR)}): "
            "the last bits of numbers of standard loops may differ"
        )


def _depends_on_llvmlite(execution_mode: str) -> bool:
    """Return True if a loop's execution mode is native, or would be with llvmlite installed."""
    return execution_mode in (NATIVE, f"standard: {reason_unavailable()}")


def _llvmlite_version() -> str:
    """Return the version of llvmlite, or the reason why native loops are unavailable."""
    problem = reason_unavailable()
    return importlib.metadata.version("llvmlite") if problem is None else f"off: {problem}"


@functools.cache
def _processor_description() -> str:
    """Return the processor type and its vector instruction sets as text."""
    processor_flags: set[str] = set()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.lower().startswith(("flags", "features")):
                processor_flags = set(line.partition(":")[2].split())
                break
    return " ".join(
        (
            platform.machine(),
            *(
                instruction_set
                for instruction_set in _VECTOR_INSTRUCTIONS
                if instruction_set in processor_flags
            ),
        )
    )


_ENTRY_READERS: Mapping[str, Callable[[], str]] = {
    "number format": lambda: str(NUMBER_FORMAT),
    "onnxruntime": lambda: importlib.metadata.version("onnxruntime"),
    "numpy": lambda: importlib.metadata.version("numpy"),
    _LLVMLITE: _llvmlite_version,
    _PROCESSOR: _processor_description,
}
"""Functions that return the entries of this process's environment, by entry name."""
