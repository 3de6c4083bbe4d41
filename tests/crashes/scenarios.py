"""Scenarios for processes that may be killed, each in its own folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

import mdf_loop
from mdf_loop.importing.writing import write_model
from mdf_loop.run.control import checkpoint, chunks
from mdf_loop.run.recording import stream, zarr_folder
from mdf_loop.run.states import save_state
from tests.long_runs.processes import WALK

STEPS = 330
"""Three chunks on the disk, and some rows more."""

SMALL = mdf_loop.Results({"A.x": np.arange(3.0)}, {}, "cpu", "float64")
OTHER = mdf_loop.Results({"A.x": np.arange(4.0), "A.n": np.array(3)}, {}, "cpu", "float64")


class Thirty(chunks.ChunkLengths):
    """Chunk lengths that are always thirty steps."""

    def __init__(self) -> None:
        super().__init__()
        self.next_steps = 30

    def record_duration(self, steps: int, seconds: float, size: int) -> None:
        """Ignore the measured time, and keep the chunk length."""


def small_chunks() -> None:
    """Make chunk lengths, checkpoints and writes independent of time; a chunk has a hundred rows."""
    chunks.ChunkLengths = Thirty  # type: ignore[misc]
    turns = iter(range(10**9))
    checkpoint.Checkpoints.due = lambda _: next(turns) % 4 == 3  # type: ignore[method-assign]
    zarr_folder.CHUNK_BYTES, zarr_folder.MIN_CHUNK_BYTES, stream.BUFFER_SECONDS = 800, 1, 1e9


def streamed() -> None:
    """Start or resume a run that streams its rows."""
    small_chunks()
    mdf_loop.compile(WALK["g"], device="cpu").run(
        steps=STEPS,
        output="rows.zarr",
        reduce={"walk.x": ["mean"]},
        only=["walk.x"],
        checkpoint="run.checkpoint",
        resume="run.checkpoint",
    )


def in_memory() -> None:
    """Start or resume a run that writes its rows into a file at the end."""
    small_chunks()
    results = mdf_loop.compile(WALK["g"], device="cpu").run(
        steps=STEPS, output="rows.npz", checkpoint="run.checkpoint", resume="run.checkpoint"
    )
    save_state("state.npz", results.state)


def anew() -> None:
    """Run a model whose store replaces the store of another run."""
    small_chunks()
    mdf_loop.compile(WALK["g"], device="cpu").run(steps=STEPS, output="rows.zarr", overwrite=True)


def saved_store() -> None:
    """Save results in place of other results."""
    OTHER.save("rows.zarr")


def files() -> None:
    """Replace one file of each kind."""
    for suffix in ("json", "npz", "h5", "nc", "csv"):
        OTHER.save(f"rows.{suffix}")
    write_model({"weights": np.arange(100.0)}, "model.yaml")


SCENARIOS: Mapping[str, Callable[[], None]] = {
    scenario.__name__: scenario for scenario in (streamed, in_memory, anew, saved_store, files)
}


def prepare(name: str, folder: Path) -> None:
    """Create the files that exist before the scenario."""
    if name in ("anew", "saved_store"):
        SMALL.save(folder / "rows.zarr")
    if name == "files":
        for suffix in ("json", "npz", "h5", "nc", "csv"):
            SMALL.save(folder / f"rows.{suffix}")
