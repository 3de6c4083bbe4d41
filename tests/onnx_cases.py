"""The cases of ONNX's backend suite that its package makes, which takes it ten seconds."""

from __future__ import annotations

import functools
import os
import pickle
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx

STORED = (
    Path(__file__).parents[1]
    / ".pytest_cache"
    / f"cases of onnx {onnx.__version__}, numpy {np.__version__}.pickle"
)


@functools.cache
def node_cases() -> dict[str, Any]:
    """The cases of operators by name, in the order of names; one process makes them for all others."""
    with suppress(OSError):
        cases: dict[str, Any] = pickle.loads(STORED.read_bytes())
        return cases
    cases = _made()
    with suppress(OSError):  # where nothing can be kept each process makes them
        STORED.parent.mkdir(exist_ok=True)
        file = STORED.with_suffix(f".{os.getpid()}")
        file.write_bytes(pickle.dumps(cases))
        file.replace(STORED)
    return cases


def _made() -> dict[str, Any]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in sorted(collect_testcases(None), key=lambda c: c.name)}
