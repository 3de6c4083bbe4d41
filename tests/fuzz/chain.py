"""One model through the whole chain: opened, imported, read, optimised, emitted, explained, run.

It may end in a result or in a clean `LoopError`; everything else is what is looked for.
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
from mdf_loop.reading.port_values import nothing

OPTIONS: dict[str, Any] = {"device": "cpu", "shapes": "dynamic", "max_iterations": 50}
MOST_ITERATIONS = 10_000
LARGEST = 10**6
LONGEST_RUN = 5.0
"""Seconds after which a run is stopped as Ctrl-C would stop it: a long run is no hang."""

LONGEST_SENTENCE = 2_000
PYTHON_SPEAK = re.compile(
    r"' object |\bNoneType\b|<class '|object at 0x|Traceback|list index out of range|unhashable"
    r"|positional argument|dictionary changed|\bKeyError\b|\bAttributeError\b|\bTypeError\b"
)


def outcome(path: Path) -> str:
    """What came of the model: `result ...`, or the first line of the `LoopError` that refused it.

    A model that cannot be compiled is explained and drawn all the same.

    Raises:
        AssertionError: the error's sentence is none.
        BaseException: whatever else came out of the chain.
    """
    outcomes = [_said(step, path) for step in (_imported, _compiled, _shown)]
    return outcomes[1]


def _said(step: Callable[[Path], str], path: Path) -> str:
    try:
        return step(path)
    except mdf_loop.LoopError as error:
        check_sentences(error)
        return error.report.splitlines()[0]


def check_sentences(error: mdf_loop.LoopError) -> None:
    """Say nothing about an error that says something, in a modeller's words.

    Raises:
        AssertionError: it does not.
    """
    assert str(error)
    assert error.findings, "a LoopError without a finding"
    for finding in error.findings:
        text = f"{finding.what} {finding.hint}"
        assert finding.what.strip(), "an error that says nothing"
        assert len(text) < LONGEST_SENTENCE, f"a sentence of {len(text)} characters: {text[:200]}"
        assert not PYTHON_SPEAK.search(text), f"not in a modeller's words: {text}"


def _imported(path: Path) -> str:
    """A file of another system is written as a document, which is read."""
    if path.suffix not in READERS:
        return ""
    written = write_model(read_foreign(path), path.with_name("imported.yaml"))
    return mdf_loop.compile(written[0], **OPTIONS).program.name


def _compiled(path: Path) -> str:
    compiled = mdf_loop.compile(path, **OPTIONS)
    inputs = _inputs(compiled)
    program = compiled.prepare(inputs)[1]
    assert str(program)
    compiled.to_onnx(inputs)
    if not is_small(program):
        return "result: not run, which would take long"
    try:
        with stopped_after(LONGEST_RUN):
            compiled.run(inputs)
    except KeyboardInterrupt:
        return "result: a long run, which could be stopped"
    return "result"


def _inputs(compiled: mdf_loop.CompiledModel) -> dict[str, Any]:
    """Values for the inputs that have none of their own: of ONNX files, and those with open shapes."""
    inputs: dict[str, Any] = {}
    for port in open_ports(compiled.document):
        shape = port.port.shape or ()
        is_open = port.port.default_value is None and any(n < 0 for n in shape)
        extents = tuple(2 if n < 0 else min(n, MOST_ITERATIONS) for n in shape)
        if np.prod(extents, dtype=float) > LARGEST:
            continue
        if is_open:
            inputs[port.full_name] = np.ones(extents, np.int64)
        elif port.required:
            dtype = stated_dtype(port.port, "float64")
            inputs[port.full_name] = nothing(port.port, dtype, extents, port.where)
    return inputs


def _shown(path: Path) -> str:
    return mdf_loop.explain(path) + draw(path).dot


def is_small(program: Program) -> bool:
    """Whether no trip count and no value that is known before the run is absurdly large."""
    known: dict[Any, Any] = {
        op.value: op.array for op in walk(program.ops) if isinstance(op, Constant)
    }
    known |= {entry.value: entry.default for entry in program.inputs}
    for operation in walk(program.ops):
        if isinstance(operation, Loop):
            count = known.get(operation.trip_count)
            if count is not None and np.size(count) and np.max(count) > MOST_ITERATIONS:
                return False
        for value in results(operation):
            extents = [n for n in value.shape or () if isinstance(n, int)]
            if np.prod(extents, dtype=float) > LARGEST:
                return False
    return True


@contextlib.contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Send this process the signal of Ctrl-C when the time is over."""
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
