"""Valid scenes: a folder of files and a command that reads them, created on demand.

store        a run that was interrupted while it streamed to `run.zarr`, and resumes from its checkpoint

checkpoint   the same without a store, and a run over time that starts from a saved state

data         inputs in files of all formats

command      many commands with all their options
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import mdf_loop
from mdf_loop.ir import StopReason
from mdf_loop.run.states import save_state
from tests.fuzz.seeds import HERE
from tests.long_runs.helpers import lengths, report_every_chunk

SCENES = ("store", "checkpoint", "data", "command")
STEPS = 400
"""Number of steps of a run that is interrupted half-way."""


@dataclass(frozen=True)
class Scene:
    """Files by their path in a folder, and the words of a command that runs there."""

    words: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the files and links."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for name, target in self.links.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)


@functools.cache
def scenes(kind: str) -> tuple[Callable[[], Scene], ...]:
    """Return the valid scenes of a kind in a fixed order."""
    makers: Mapping[str, tuple[Callable[[], Scene], ...]] = {
        "store": (
            functools.partial(_interrupted_run, "growing", output="run.zarr"),
            functools.partial(_interrupted_run, "schedule", output="run.zarr", every=3),
            functools.partial(_interrupted_run, "spikes", output="run.zarr"),
        ),
        "checkpoint": (
            functools.partial(_interrupted_run, "growing"),
            functools.partial(_interrupted_run, "spikes", reduce={"spikes.v": ("mean", "max")}),
            _continued_run,
        ),
        "data": tuple(
            functools.partial(_with_data, suffix) for suffix in (".npz", ".csv", ".json")
        ),
        "command": tuple(functools.partial(_command, words) for words in COMMANDS),
    }
    return tuple(functools.cache(maker) for maker in makers[kind])


# --- interrupted runs -----------------------------------------------------------------------------


def _interrupted_run(model: str, **options: Any) -> Scene:
    """Return an interrupted run and the command that resumes it."""
    words = ["run", "model.yaml", "--steps", str(STEPS), "--dt", "0.125", "--resume", "run.ckpt"]
    if "output" in options:
        words += ["--output", options["output"]]
    if "every" in options:
        words += ["--every", str(options["every"])]
    for name, reduced in options.get("reduce", {}).items():
        words += ["--reduce", f"{name}={','.join(reduced)}"]
    with _folder() as folder:
        _copy(model, folder)
        compiled = mdf_loop.compile("model.yaml")
        with lengths(lambda: STEPS // 2), report_every_chunk():
            results = compiled.run(
                steps=STEPS,
                dt=0.125,
                checkpoint="run.ckpt",
                progress=_StopAtSecondCall(),
                **options,
            )
        assert results.stopped_by is StopReason.INTERRUPTED
        return Scene(tuple(words), _contents(folder))


class _StopAtSecondCall:
    """Progress callback that stops a run at the second call."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self, _: Any) -> bool:
        self._calls += 1
        return self._calls < 2


def _continued_run() -> Scene:
    """Return a run that starts from the saved final state of another run."""
    with _folder() as folder:
        _copy("growing", folder)
        results = mdf_loop.compile("model.yaml").run(steps=20)
        assert results.state is not None
        save_state("state.npz", results.state)
        words = ("run", "model.yaml", "--steps", "10", "--initial-state", "state.npz")
        return Scene(words, _contents(folder))


# --- inputs ---------------------------------------------------------------------------------------


def _with_data(suffix: str) -> Scene:
    """Return a run that reads one input row per step from a file."""
    rows = np.linspace(-1, 1, 24).reshape(12, 2)
    with _folder() as folder:
        _copy("growing", folder)
        path = folder / f"data{suffix}"
        if suffix == ".npz":
            np.savez(path, drive=rows)
        elif suffix == ".json":
            path.write_text(json.dumps({"drive": rows.tolist()}))
        else:
            lines = ["time,drive[0],drive[1]", *(f"{k},{a},{b}" for k, (a, b) in enumerate(rows))]
            path.write_text("\n".join(lines) + "\n")
        words = (
            "run",
            "model.yaml",
            "--steps",
            "12",
            "--inputs",
            path.name,
            "--output",
            "out.json",
        )
        return Scene(words, _contents(folder))


# --- command lines --------------------------------------------------------------------------------

COMMANDS = (
    "run model.yaml",
    "run model.yaml --steps 20 --dt 0.5 --output out.npz --json --quiet",
    "run model.yaml --steps 20 --record growing.v --every 2 --output out.h5 --plot out.svg",
    "run model.yaml --steps 20 --reduce growing.v=mean,max --only growing.row --output out.csv",
    "run model.yaml --steps 20 --set growing.v=[1.0,2.0] --input growing.drive=[0.5,0.25] --nan stop",
    "run model.yaml --steps 20 --sweep growing.drive=[[0,1],[1,0]] --output out.nc",
    "run model.yaml --steps 20 --final-state state.npz --checkpoint run.ckpt --checkpoint-every 1s",
    "run model.yaml --steps 20 --output run.zarr --time-limit 5s --precision float32",
    "run model.yaml --steps 20 --execution-list --engine onnxruntime --shapes dynamic",
    "run choices.yaml --max-iterations 20 --unroll 8 --device cpu",
    "check model.yaml",
    "check choices.yaml --shapes dynamic",
    "verify model.yaml --steps 5 --json",
    "gradient model.yaml --of growing.v:mean --wrt growing.drive --steps 20 --save g.onnx",
    "fit model.yaml fitted.csv --free growing.v=0..1 --against row=r --dt 0.5 --points 8",
    "draw model.yaml -o model.svg",
    "draw choices.yaml -o choices.dot --rankdir TB --level 2",
    "explain choices.yaml",
    "compile model.yaml -o model.onnx --precision float32",
    "compile choices.yaml -o choices.onnx",
    "import part.onnx -o imported.yaml",
)


def _command(words: str) -> Scene:
    with _folder() as folder:
        _copy("growing", folder)
        _copy("choices", folder, "choices.yaml")
        mdf_loop.compile("choices.yaml", device="cpu").save("part.onnx")
        (folder / "fitted.csv").write_text("time,r[0]\n0,0.25\n0.5,0.375\n1,0.5\n")
        return Scene(tuple(words.split()), _contents(folder))


# --- folders --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Create a folder that is the working directory inside this context."""
    previous_folder = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(previous_folder)


def _copy(model: str, folder: Path, name: str = "model.yaml") -> None:
    (folder / name).write_bytes((HERE / "models" / f"{model}.yaml").read_bytes())


def _contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder by their relative path."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
