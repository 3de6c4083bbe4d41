"""What a run gives: arrays by name, and for each loop how often it ran and why it stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.ir import Array, StoppedBy


@dataclass(frozen=True, slots=True)
class LoopReport:
    """How one loop of the outermost level went."""

    iterations: int
    stopped_by: StoppedBy


class Results(Mapping[str, Array]):
    """Outputs by name (`node.port`); a port id alone will do where it is the only one.

    Attributes:
        loops: a `LoopReport` by `node.function` for each loop of the outermost level.
        device: `cpu` or `cuda`, where the model really ran.
        precision: the dtype of numbers with a point.
        time: the time of each row in seconds, for a model run over time with `dt`; else None.
    """

    def __init__(
        self,
        arrays: Mapping[str, Array],
        loops: Mapping[str, LoopReport],
        device: str,
        precision: str,
        time: Array | None = None,
    ) -> None:
        self._arrays = dict(arrays)
        self.loops = dict(loops)
        self.device = device
        self.precision = precision
        self.time = time

    def __getitem__(self, name: str) -> Array:
        if name in self._arrays:
            return self._arrays[name]
        matches = [full for full in self._arrays if full.rsplit(".", 1)[-1] == name]
        if len(matches) == 1:
            return self._arrays[matches[0]]
        raise KeyError(f"no output '{name}'; there are {', '.join(self._arrays)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}: {a.dtype}{list(a.shape)}" for k, a in self._arrays.items())
        return f"Results({shown})"

    def to_json(self) -> str:
        """One JSON object: outputs with dtype, shape and data; loops; device; precision."""
        outputs = {
            name: {"dtype": _dtype(a), "shape": list(a.shape), "data": _plain(a.tolist())}
            for name, a in self._arrays.items()
        }
        loops = {
            name: {"iterations": report.iterations, "stopped_by": report.stopped_by.word}
            for name, report in self.loops.items()
        }
        return json.dumps(
            {"outputs": outputs, "loops": loops, "device": self.device, "precision": self.precision}
        )

    def save(self, path: str | Path) -> None:
        """Write the outputs to a `.npz` or `.json` file."""
        target = Path(path)
        writers = {".npz": self._write_npz, ".json": self._write_json}
        write = writers.get(target.suffix.lower())
        if write is None:
            raise InputError(
                f"cannot save results as '{target.suffix or target.name}'", hint="use .npz or .json"
            )
        try:
            write(target)
        except OSError as error:
            raise InputError(f"cannot write '{target}': {error.strerror or error}") from None

    def _write_npz(self, target: Path) -> None:
        time = {} if self.time is None else {"time": self.time}
        np.savez(target, **{**time, **self._arrays})  # type: ignore[arg-type]

    def _write_json(self, target: Path) -> None:
        target.write_text(self.to_json() + "\n", encoding="utf-8")


def _dtype(array: Array) -> str:
    return "string" if array.dtype.kind in "OU" else str(array.dtype)


def _plain(data: Any) -> Any:
    """Nan and infinities as text, since JSON has none."""
    if isinstance(data, list):
        return [_plain(part) for part in data]
    if isinstance(data, float) and not np.isfinite(data):
        return str(data)
    return data
