"""`compile`: a model made ready to run, one session for each set of input types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.build import Options
from mdf_loop.emit.legalise import runnable
from mdf_loop.errors import InputError, ModelError
from mdf_loop.files import write_whole
from mdf_loop.ir import Array, Data, Loop, Program, StoppedBy, loops
from mdf_loop.onnx_types import is_tensor
from mdf_loop.passes import report_loops
from mdf_loop.passes.batch import batch
from mdf_loop.reading import Document, Source, open_document, read
from mdf_loop.reading.names import stated_shapes
from mdf_loop.reading.over_time import What, read_over_time
from mdf_loop.reading.program import read_once
from mdf_loop.reading.settings import with_values
from mdf_loop.reading.units import units_of
from mdf_loop.request import Request, request
from mdf_loop.run.device import DEVICES, Device
from mdf_loop.run.engine import ENGINES, engine_results, only_given
from mdf_loop.run.missing import with_missing
from mdf_loop.run.over_time import TimedSession, Wanted, checked_steps, refuse_without_steps
from mdf_loop.run.results import Axis, LoopReport, Results
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
    unroll: int | None = None,
) -> Compiled:
    """Make an MDF model ready to run on ONNX Runtime.

    Args:
        source: a path, a modeci_mdf Model or Graph, or a graph's dict.
        device: `cpu`, `cuda`, or `auto` (CUDA if it can really be used).
        precision: `float64`, or `float32` for all numbers with a point.
        shapes: `strict` refuses carried values that change their shape, `dynamic` allows them.
        max_iterations: the most iterations a loop without a trip count may run.
        unroll: write out loops of a constant number of iterations, of at most so many.

    Raises:
        LoopError: all that is wrong with the model.
    """
    options = checked_options(device, precision, shapes, max_iterations, unroll)
    return Compiled(open_document(source), device, options)


def checked_options(
    device: str,
    precision: str,
    shapes: str,
    max_iterations: int | None,
    unroll: int | None = None,
) -> Options:
    """The options of a compilation, refusing words that mean nothing."""
    for what, value, allowed in (
        ("device", device, DEVICES),
        ("precision", precision, PRECISIONS),
        ("shapes", shapes, SHAPES),
    ):
        if value not in allowed:
            raise InputError(f"{what} cannot be '{value}'", hint=f"use {' or '.join(allowed)}")
    for what, number in (("max_iterations", max_iterations), ("unroll", unroll)):
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if number is not None and (not whole or number > np.iinfo(np.int64).max):
            raise InputError(f"{what} must be a whole number of 64 bits, not {number!r}")
        if number is not None and number < 0:
            raise InputError(f"{what} must not be negative, but is {number}")
    return Options(precision, shapes, max_iterations, unroll)


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

    def _request(self, steps: int | None = None, **asked: Any) -> Request:
        nothing: dict[str, Any] = {"inputs": {}, "record": (), "parameters": {}, "sweep": {}}
        return request(self.document, self.options, steps=steps, **{**nothing, **asked})

    def _prepare(self, asked: Request) -> tuple[Program, Session]:
        """The program for what is asked, and its session."""
        if asked.key not in self._sessions:
            program = read_once(
                self.document, asked.given, asked.settings, asked.record, self.options
            ).program
            ready = batch(program, asked.swept) if asked.swept else report_loops(program)
            session = Session(runnable(ready, self.options), self._device)
            self._sessions[asked.key] = (program, session)
        self._latest = self._sessions[asked.key]
        self._taken = self._latest[1].device
        return self._latest

    def prepare(
        self, inputs: Mapping[str, Any], record: Sequence[str] = ()
    ) -> tuple[dict[str, Data], Program, Session]:
        """The arrays of all inputs, the program for their types, and its session."""
        asked = self._request(inputs=inputs, record=record)
        return (asked.arrays, *self._prepare(asked))

    @property
    def program(self) -> Program:
        """The program that was evaluated last (at first: for the model's own defaults)."""
        return (self._latest or self._prepare(self._request()))[0]

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
        return self._taken or self._prepare(self._request())[1].device

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        record: Sequence[str] = (),
        set: Mapping[str, Any] | None = None,
        sweep: Mapping[str, Any] | None = None,
        steps: int | None = None,
        dt: float | None = None,
        every: int = 1,
        state: Mapping[str, Array] | None = None,
        execution_list: bool = False,
        engine: str = "onnxruntime",
    ) -> Results:
        """One evaluation of the model, or (with `steps`) the model over time.

        Args:
            inputs: values by port id (`node.port` where ambiguous); the rest have their defaults.
                Over time a value holds in every step, or has a row for each in front.
            record: `node.port`, `node.parameter` or `node.function` to give besides the outputs.
            set: parameters by `node.parameter`; of one that keeps a state, what it starts from.
            sweep: lists of values for parameters or inputs: all runs at once, an axis in front.
            steps: how often the model is evaluated; every output then has an axis of time in
                front, one row for each evaluation.
            dt: the time in seconds between one evaluation and the next; none passes before the
                first. Without it no time passes.
            every: keep a row of every `every`-th evaluation only, the first among them.
            state: `results.state` of an earlier run: go on where it ended.
            execution_list: over time, say in `results.execution_list` which nodes ran also where
                that is decided while running (it then takes a call of ONNX Runtime for each step).
            engine: `onnxruntime`, or `modeci` for modeci_mdf's own engine.

        Raises:
            LoopError: an input does not fit, or the model failed; the sentence names the place.
        """
        if engine not in ENGINES:
            raise InputError(f"engine cannot be '{engine}'", hint=f"use {' or '.join(ENGINES)}")
        if steps is None:
            refuse_without_steps(
                dt=dt,
                state=state,
                every=None if every == 1 else every,
                execution_list=execution_list or None,
            )
        else:
            steps, dt, every = checked_steps(steps, dt, every)
        asked = self._request(
            steps, inputs=inputs or {}, record=record, parameters=set or {}, sweep=sweep or {}
        )
        wanted = Wanted(
            asked.arrays, asked.given.over_time, steps or 1, dt, every, state, execution_list
        )
        if engine == "modeci":
            return self._run_in_engine(asked, inputs or {}, wanted, steps)
        if steps is None:
            return self._run_once(asked)
        return self._run_over_time(asked, wanted)

    def _run_once(self, asked: Request) -> Results:
        program, session = self._prepare(asked)
        made = session.run(asked.arrays)
        outputs = with_missing({name: made[name] for name, _ in program.outputs})
        reports = {
            loop.name: _report(loop, made)
            for loop in loops(program)
            if f"{loop.name}.iterations" in made
        }
        dtypes = {name: v.dtype for name, v in program.outputs if not is_tensor(v.dtype)}
        return self._results(asked, outputs, session.device, loops=reports, dtypes=dtypes)

    def _run_over_time(self, asked: Request, wanted: Wanted) -> Results:
        key = (asked.key, wanted.dt is None, wanted.executed)
        if key not in self._timed:
            what = What(
                self.document,
                asked.given,
                asked.settings,
                asked.record,
                self.options,
                wanted.dt is not None,
                wanted.executed,
            )
            self._timed[key] = TimedSession(
                read_over_time(what), self.options, self._device, asked.swept
            )
        ran = self._timed[key].run(wanted)
        self._taken = ran.device
        return self._results(
            asked,
            ran.rows,
            ran.device,
            axes=(ran.axis,),
            state=ran.state,
            execution_list=ran.execution_list,
        )

    def _run_in_engine(
        self, asked: Request, inputs: Mapping[str, Any], wanted: Wanted, steps: int | None
    ) -> Results:
        if asked.members or wanted.state is not None:
            what = "sweep" if asked.members else "state"
            raise InputError(
                f"modeci_mdf's engine takes no {what}",
                hint="leave it out, or run the model compiled",
            )
        return engine_results(
            with_values(self.document, asked.settings),
            only_given(self.document, inputs, asked.given),
            steps=steps,
            dt=wanted.dt,
            every=wanted.every,
            record=asked.record,
            device=self._device,
            precision=self.options.precision,
        )

    def _results(
        self, asked: Request, outputs: Mapping[str, Data], device: Device, **more: Any
    ) -> Results:
        if asked.members:
            more["axes"] = (Axis("batch", asked.members), *more.get("axes", ()))
        units = units_of(self.document)
        more = {"loops": {}, "units": units, **more}
        return Results(outputs, device=device.name, precision=self.options.precision, **more)

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
        write_whole(target, lambda stream: stream.write(proto.SerializeToString()))
        return proto

    def to_onnx(self, inputs: Mapping[str, Any] | None = None) -> Any:
        """The model as an `onnx.ModelProto`; importing that gives this MDF model back.

        Not if it computes in float32: the model that would come back computes in float64.
        """
        from mdf_loop.emit import portable, to_onnx
        from mdf_loop.importing.origin import with_origin

        program = read(self.document, inputs or {}, options=self.options)
        proto = to_onnx(runnable(program, self.options))
        made = portable(proto, stated_shapes(self.document))
        return with_origin(made, self.document) if self.options.precision == "float64" else made


def _report(loop: Loop, made: Mapping[str, Data]) -> LoopReport:
    limit = StoppedBy.MAX_ITERATIONS if loop.trip_count is None else StoppedBy.TRIP_COUNT
    last = made.get(f"{loop.name}.condition")
    goes_on = loop.condition is None or (last is not None and bool(last))
    stopped_by = limit if goes_on else StoppedBy.CONDITION
    return LoopReport(int(made[f"{loop.name}.iterations"]), stopped_by)
