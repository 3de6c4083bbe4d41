"""Run a model through all stages: open, import, read, optimize, emit, explain, draw and run.

The expected outcomes are a result and a clean `LoopError`. Fuzzing searches for all other outcomes.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import mdf_loop
from mdf_loop.document.stated_types import stated_dtype
from mdf_loop.drawing import draw
from mdf_loop.importing import READERS, read_foreign
from mdf_loop.importing.writing import write_model
from mdf_loop.ir import Constant, Loop, Program, results, walk
from mdf_loop.reading import open_ports
from mdf_loop.reading.port_values import create_default

OPTIONS: dict[str, Any] = {"device": "cpu", "shapes": "dynamic", "max_iterations": 50}
MAX_ITERATIONS = 10_000
MAX_ELEMENTS = 10**6
MAX_RUN_SECONDS = 5.0
"""Seconds after which SIGINT stops a run; a long run that stops is no failure."""

MAX_SENTENCE_LENGTH = 2_000
PYTHON_INTERNALS = re.compile(
    r"' object |\bNoneType\b|<class '|object at 0x|Traceback|list index out of range|unhashable"
    r"|positional argument|dictionary changed|\bKeyError\b|\bAttributeError\b|\bTypeError\b"
)


def outcome(path: Path) -> str:
    """Return `result ...`, or the first line of the `LoopError` that refused the model.

    The model is also explained and drawn, even if compilation fails.

    Raises:
        AssertionError: The message of the error is invalid.
        BaseException: A stage raised another exception.
    """
    outcomes = [
        _stage_outcome(stage, path)
        for stage in (_import_and_compile, _compile_and_run, _explain_and_draw)
    ]
    return outcomes[1]


def _stage_outcome(stage: Callable[[Path], str], path: Path) -> str:
    try:
        return stage(path)
    except mdf_loop.LoopError as error:
        check_sentences(error)
        return error.report.splitlines()[0]


def check_sentences(error: mdf_loop.LoopError) -> None:
    """Check that an error has readable messages without terms of Python's internals.

    Raises:
        AssertionError: A message is empty, too long or contains such a term.
    """
    assert str(error)
    assert error.findings, "a LoopError without a finding"
    for finding in error.findings:
        text = f"{finding.what} {finding.hint}"
        assert finding.what.strip(), "an error that says nothing"
        assert len(text) < MAX_SENTENCE_LENGTH, (
            f"a sentence of {len(text)} characters: {text[:200]}"
        )
        assert not PYTHON_INTERNALS.search(text), f"not in a modeller's words: {text}"


def _import_and_compile(path: Path) -> str:
    """Import a file of another format, write the model as a document, and compile the document."""
    if path.suffix not in READERS:
        return ""
    paths = write_model(read_foreign(path), path.with_name("imported.yaml"))
    return mdf_loop.compile(paths[0], **OPTIONS).program.name


def _compile_and_run(path: Path) -> str:
    compiled = mdf_loop.compile(path, **OPTIONS)
    inputs = _inputs(compiled)
    program = compiled.prepare(inputs)[1]
    assert str(program)
    compiled.to_onnx(inputs)
    if not is_small(program):
        return "result: not run, which would take long"
    try:
        with interrupt_after(MAX_RUN_SECONDS):
            compiled.run(inputs)
    except KeyboardInterrupt:
        return "result: a long run, which could be stopped"
    return "result"


def _inputs(compiled: mdf_loop.CompiledModel) -> dict[str, Any]:
    """Return values for inputs without a default and for inputs with open shapes."""
    inputs: dict[str, Any] = {}
    for port in open_ports(compiled.document):
        shape = port.port.shape or ()
        is_open = port.port.default_value is None and any(n < 0 for n in shape)
        extents = tuple(2 if n < 0 else min(n, MAX_ITERATIONS) for n in shape)
        if np.prod(extents, dtype=float) > MAX_ELEMENTS:
            continue
        if is_open:
            inputs[port.full_name] = np.ones(extents, np.int64)
        elif port.is_required:
            dtype = stated_dtype(port.port, "float64")
            inputs[port.full_name] = create_default(port.port, dtype, extents, port.where)
    return inputs


def _explain_and_draw(path: Path) -> str:
    return mdf_loop.explain(path) + draw(path).dot


def is_small(program: Program) -> bool:
    """Return True if all trip counts and shapes known before the run are moderate."""
    known_values: dict[Any, Any] = {
        op.value: op.array for op in walk(program.ops) if isinstance(op, Constant)
    }
    known_values |= {entry.value: entry.default for entry in program.inputs}
    for operation in walk(program.ops):
        if isinstance(operation, Loop):
            count = known_values.get(operation.trip_count)
            if count is not None and np.size(count) and np.max(count) > MAX_ITERATIONS:
                return False
        for value in results(operation):
            extents = [n for n in value.shape or () if isinstance(n, int)]
            if np.prod(extents, dtype=float) > MAX_ELEMENTS:
                return False
    return True


@contextlib.contextmanager
def interrupt_after(seconds: float) -> Iterator[None]:
    """Send SIGINT to this process if the body of this context takes longer than `seconds`."""
    running, lock = True, threading.Lock()

    def stop() -> None:
        with lock:
            if running:
                os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        yield
    finally:
        with lock:
            running = False
        timer.cancel()
