"""`compile`: a model made ready to run, one session for each set of input types."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.build import Options
from mdf_loop.emit.legalise import runnable
from mdf_loop.errors import InputError, ModelError
from mdf_loop.ir import Array, Loop, Program, StoppedBy, loops
from mdf_loop.passes import report_loops
from mdf_loop.reading import Document, Source, bind, open_document, read
from mdf_loop.reading.over_time import read_over_time
from mdf_loop.run.device import DEVICES, Device
from mdf_loop.run.over_time import TimedSession, checked_steps
from mdf_loop.run.results import LoopReport, Results
from mdf_loop.run.session import Session

PRECISIONS = ("float64", "float32")
SHAPES = ("strict", "dynamic")


def compile(
    source: Source,
    *,
    device: str = "auto",
    precision: str = "float64",
    shapes: str = "strict",
    max_iterations: int | None = None,
) -> Compiled:
    """Make an MDF model ready to run on ONNX Runtime.

    Args:
        source: a path, a modeci_mdf Model or Graph, or a graph's dict.
        device: `cpu`, `cuda`, or `auto` (CUDA if it can really be used).
        precision: `float64`, or `float32` for all numbers with a point.
        shapes: `strict` refuses carried values that change their shape, `dynamic` allows them.
        max_iterations: the most iterations a loop without a trip count may run.

    Raises:
        LoopError: all that is wrong with the model.
    """
    options = checked_options(device, precision, shapes, max_iterations)
    return Compiled(open_document(source), device, options)


def checked_options(
    device: str, precision: str, shapes: str, max_iterations: int | None
) -> Options:
    """The options of a compilation, refusing words that mean nothing."""
    for what, value, allowed in (
        ("device", device, DEVICES),
        ("precision", precision, PRECISIONS),
        ("shapes", shapes, SHAPES),
    ):
        if value not in allowed:
            raise InputError(f"{what} cannot be '{value}'", hint=f"use {' or '.join(allowed)}")
    whole = isinstance(max_iterations, int | np.integer) and not isinstance(max_iterations, bool)
    if max_iterations is not None and (not whole or max_iterations > np.iinfo(np.int64).max):
        raise InputError(
            f"max_iterations must be a whole number of 64 bits, not {max_iterations!r}"
        )
    if max_iterations is not None and max_iterations < 0:
        raise InputError(f"max_iterations must not be negative, but is {max_iterations}")
    return Options(precision, shapes, max_iterations)


class Compiled:
    """A model ready to run; sessions are made once for each set of input types and kept."""

    def __init__(self, document: Document, device: str, options: Options) -> None:
        self.document = document
        self.options = options
        self._device = device
        self._sessions: dict[Any, tuple[Program, Session]] = {}
        self._timed: dict[Any, TimedSession] = {}
        self._latest: tuple[Program, Session] | None = None
        self._taken: Device | None = None

    def prepare(
        self, inputs: Mapping[str, Any], record: Sequence[str] = ()
    ) -> tuple[dict[str, Array], Program, Session]:
        """The arrays of all inputs, the program for their types, and its session."""
        arrays = bind(self.document, inputs, self.options)
        key = (_signature(arrays), tuple(record))
        if key not in self._sessions:
            program = read(self.document, inputs, record=record, options=self.options)
            ready = runnable(report_loops(program), self.options)
            self._sessions[key] = (program, Session(ready, self._device))
        self._latest = self._sessions[key]
        self._taken = self._latest[1].device
        return (arrays, *self._latest)

    @property
    def program(self) -> Program:
        """The program that was evaluated last (at first: for the model's own defaults)."""
        return (self._latest or self.prepare({})[1:])[0]

    @property
    def device(self) -> str:
        """Where the model runs: `cpu` or `cuda`."""
        return self._taken_device().name

    @property
    def device_reason(self) -> str:
        """Why that device was taken."""
        return self._taken_device().reason

    def _taken_device(self) -> Device:
        """The device of the last run; a model not yet run is prepared for its defaults."""
        return self._taken or self.prepare({})[2].device

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        record: Sequence[str] = (),
        steps: int | None = None,
        dt: float | None = None,
    ) -> Results:
        """One evaluation of the model, or (with `steps`) the model over time.

        Args:
            inputs: values by port id (`node.port` where ambiguous); the rest have their defaults.
                Over time they hold in every step.
            record: `node.port`, `node.parameter` or `node.function` to give besides the outputs.
            steps: how often the model is evaluated; every output then has an axis of time in
                front, one row for each evaluation.
            dt: the time in seconds between one evaluation and the next; none passes before the
                first. Without it no time passes.

        Raises:
            LoopError: an input does not fit, or the model failed; the sentence names the place.
        """
        if steps is not None:
            return self._run_over_time(inputs or {}, record, *checked_steps(steps, dt))
        if dt is not None:
            raise InputError("dt needs steps: one evaluation takes no time", hint="give steps too")
        arrays, program, session = self.prepare(inputs or {}, record)
        made = session.run(arrays)
        outputs = {name: made[name] for name, _ in program.outputs}
        reports = {
            loop.name: _report(loop, made)
            for loop in loops(session.program)
            if f"{loop.name}.iterations" in made
        }
        return Results(outputs, reports, session.device.name, self.options.precision)

    def _run_over_time(
        self, inputs: Mapping[str, Any], record: Sequence[str], steps: int, dt: float | None
    ) -> Results:
        arrays = bind(self.document, inputs, self.options)
        key = (_signature(arrays), tuple(record), dt is None)
        if key not in self._timed:
            programs = read_over_time(
                self.document, arrays, record, options=self.options, has_dt=dt is not None
            )
            self._timed[key] = TimedSession(programs, self.options, self._device)
        session = self._timed[key]
        self._taken = session.device
        outputs = session.run(arrays, steps, dt)
        time = None if dt is None else np.arange(steps) * dt
        return Results(outputs, {}, session.device.name, self.options.precision, time)

    def save(self, path: str | Path, inputs: Mapping[str, Any] | None = None) -> Any:
        """Write a standard `.onnx` file that plain ONNX Runtime and OpenVINO run.

        `inputs` fix dtypes and shapes of the file's inputs; their values are not stored.
        Returns the `onnx.ModelProto` that was written.
        """
        target = Path(path)
        if target.suffix.lower() != ".onnx":
            raise InputError(f"'{target.name}' does not end in .onnx", hint="name it model.onnx")
        if not target.parent.is_dir():
            raise ModelError(f"there is no folder '{target.parent}'", hint="create it first")
        proto = self.to_onnx(inputs)
        part = target.with_name(target.name + ".part")
        part.write_bytes(proto.SerializeToString())
        os.replace(part, target)
        return proto

    def to_onnx(self, inputs: Mapping[str, Any] | None = None) -> Any:
        """The model as an `onnx.ModelProto`."""
        from mdf_loop.emit import portable, to_onnx

        program = read(self.document, inputs or {}, options=self.options)
        return portable(to_onnx(runnable(program, self.options)))


def _signature(arrays: Mapping[str, Array]) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """What a session is made for: name, dtype and shape of every input."""
    return tuple((name, str(array.dtype), array.shape) for name, array in arrays.items())


def _report(loop: Loop, made: Mapping[str, Array]) -> LoopReport:
    limit = StoppedBy.MAX_ITERATIONS if loop.trip_count is None else StoppedBy.TRIP_COUNT
    last = made.get(f"{loop.name}.condition")
    goes_on = loop.condition is None or (last is not None and bool(last))
    stopped_by = limit if goes_on else StoppedBy.CONDITION
    return LoopReport(int(made[f"{loop.name}.iterations"]), stopped_by)
