"""Operator cases of ONNX's backend test suite, generated once because generation takes ten seconds."""

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

CACHE_FILE = (
    Path(__file__).parents[1]
    / ".pytest_cache"
    / f"cases of onnx {onnx.__version__}, numpy {np.__version__}.pickle"
)


@functools.cache
def node_cases() -> dict[str, Any]:
    """Return the operator cases by name in alphabetical order; one process generates them for all."""
    with suppress(OSError):
        cases: dict[str, Any] = pickle.loads(CACHE_FILE.read_bytes())
        return cases
    cases = _generate_cases()
    with suppress(OSError):  # if the cache folder is read-only, each process generates the cases
        CACHE_FILE.parent.mkdir(exist_ok=True)
        file = CACHE_FILE.with_suffix(f".{os.getpid()}")
        file.write_bytes(pickle.dumps(cases))
        file.replace(CACHE_FILE)
    return cases


def _generate_cases() -> dict[str, Any]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in sorted(collect_testcases(None), key=lambda c: c.name)}
