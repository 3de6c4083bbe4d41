"""Stored cases with known results in a folder next to the checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import mdf_loop
from mdf_loop.importing import read_foreign
from mdf_loop.importing.writing import write_model

CASES = Path(__file__).parents[3] / "shared" / "cases"


def stored() -> list[Path]:
    paths = [path for path in sorted(CASES.glob("*/*.json")) if source(path) is not None]
    return [path for path in paths if runs(json.loads(path.read_text()))]


def source(path: Path) -> Path | None:
    case = json.loads(path.read_text())
    name = case.get("ir") or case.get("model")
    return path.with_name(name) if name else None


def runs(case: dict[str, Any]) -> list[dict[str, Any]]:
    if "runs" in case:
        return list(case["runs"])
    return [{"inputs": case["inputs"], "expected": list(case["expected"].values())}]


def value(stored: Any) -> Any:
    """Return a stored tensor as an array, a sequence as a list, and null as None."""
    if stored is None:
        return None
    if "sequence" in stored:
        return [value(part) for part in stored["sequence"]]
    dtype = ml_dtypes.bfloat16 if stored["dtype"] == "bfloat16" else stored["dtype"]
    if dtype == "string":
        return np.array(stored["data"], object).reshape(stored["shape"])
    numbers = [float(n) if isinstance(n, str) else n for n in stored["data"]]
    return np.array(numbers, dtype).reshape(stored["shape"])


def imported(path: Path, folder: Path) -> mdf_loop.CompiledModel:
    file = source(path)
    assert file is not None
    model, *_ = write_model(read_foreign(file), folder / "model.yaml")
    return mdf_loop.compile(model, device="cpu")
