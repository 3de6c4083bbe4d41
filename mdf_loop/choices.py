"""What a run is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdf_loop.ir import Array
from mdf_loop.reading.names import Chosen


@dataclass(frozen=True, slots=True)
class Choices:
    """What is asked for; see `Compiled.run` for the words."""

    inputs: Mapping[str, Any]
    chosen: Chosen
    set: Mapping[str, Any]
    sweep: Mapping[str, Any]
    steps: int | None
    dt: float | None
    every: int
    when: str | None
    reduce: Mapping[str, tuple[str, ...]]
    state: Mapping[str, Array] | None
    execution_list: bool
    engine: str
    output: str | Path | None
    overwrite: bool

    @property
    def store(self) -> Path | None:
        """The Zarr store that is written, if it is one."""
        is_zarr = self.output is not None and Path(self.output).suffix.lower() == ".zarr"
        return Path(self.output) if is_zarr and self.output is not None else None

    @property
    def streams(self) -> bool:
        """Whether rows are written while they are computed."""
        return self.store is not None and self.steps is not None and self.engine != "modeci"
