"""`compile`: a model made ready to run, one session for each set of input types."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop import arguments
from mdf_loop.arguments import flag, names, text, word
from mdf_loop.build import Options
from mdf_loop.choices import Choices
from mdf_loop.emit.legalise import runnable
from mdf_loop.errors import InputError
from mdf_loop.files import checked_place, write_whole
from mdf_loop.ir import Array, Data, Program
from mdf_loop.memory_limit import limited
from mdf_loop.passes import drop_unused, report_loops
from mdf_loop.passes.batch import batch
from mdf_loop.paths import noting, path_of
from mdf_loop.reading import Document, Source, open_document, read
from mdf_loop.reading.names import Chosen, stated_shapes
from mdf_loop.reading.over_time import What, read_over_time
from mdf_loop.reading.program import read_once
from mdf_loop.reading.units import units_of
from mdf_loop.recent import Recent
from mdf_loop.request import Request, checked_reduce, request
from mdf_loop.run.device import DEVICES, Device
from mdf_loop.run.engine import ENGINES
from mdf_loop.run.once import Once
from mdf_loop.run.over_time import TimedSession
from mdf_loop.run.overseeing.overseer import NAN, checked_oversight
from mdf_loop.run.overseeing.progress import Callback
from mdf_loop.run.results import Results
from mdf_loop.run.session import Session
from mdf_loop.running import run

SESSIONS = 64
"""For how many sets of input types a model is kept ready; the one not used for longest goes."""

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
        device: `cpu`, `cuda`, or `auto` (the faster one, found by a race where CUDA can be used).
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
        word(value, what, allowed)
    for what, number in (("max_iterations", max_iterations), ("unroll", unroll)):
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if number is not None and (not whole or number > np.iinfo(np.int64).max):
            raise InputError(f"{what} must be a whole number of 64 bits, not {number!r}")
        if number is not None and number < 0:
            raise InputError(f"{what} must not be negative, but is {number}")
    return Options(precision, shapes, max_iterations, unroll)


class Compiled:
    """A model ready to run; sessions are made once for each set of input types.

    Those of the last 64 sets are kept.

    It may be used from several threads at once.
    """

    def __init__(self, document: Document, device: str, options: Options) -> None:
        self.document = document
        self.options = options
        self.wanted_device = device
        self._once: Recent[tuple[Program, Once]] = Recent(SESSIONS)
        self._timed: Recent[TimedSession] = Recent(SESSIONS)
        self._lock = threading.Lock()
        self._latest: tuple[Program, Once] | None = None
        self._taken: Device | None = None

    # --- made ready ---------------------------------------------------------------------------

    def once(self, asked: Request) -> tuple[Program, Once]:
        """The program of one evaluation for what is asked, and that program ready to run."""
        with self._lock:
            ready = self._once.get(asked.key)
            if ready is None:
                program = read_once(
                    self.document, asked.given, asked.settings, asked.chosen, asked.options
                ).program
                swept = asked.swept
                batched = batch(drop_unused(program), swept) if swept else report_loops(program)
                ready = program, Once(runnable(batched, asked.options), self.wanted_device)
                self._once.put(asked.key, ready)
            self._latest = ready
            self._taken = None  # told by what will have run
            return ready

    def over_time(self, asked: Request, *, has_dt: bool, executed: bool) -> TimedSession:
        """The model over time for what is asked, ready to run."""
        key = (asked.key, has_dt, executed)
        with self._lock:
            session = self._timed.get(key)
            if session is None:
                what = What(
                    self.document,
                    asked.given,
                    asked.settings,
                    asked.chosen,
                    asked.options,
                    has_dt,
                    executed,
                )
                session = TimedSession(
                    read_over_time(what), asked.options, self.wanted_device, asked.swept
                )
                self._timed.put(key, session)
            return session

    @cached_property
    def units(self) -> Mapping[str, str]:
        """The unit of every `node.item` that has one."""
        return units_of(self.document)

    def ran_on(self, device: Device) -> None:
        """Note where the last run was."""
        self._taken = device

    def prepare(
        self, inputs: Mapping[str, Any], record: Sequence[str] = ()
    ) -> tuple[dict[str, Data], Program, Session]:
        """The arrays of all inputs, the program for their types, and its session."""
        asked = self._request(inputs, record)
        program, once = self.once(asked)
        return asked.arrays, program, once.session

    def _request(self, inputs: Mapping[str, Any], record: Sequence[str] = ()) -> Request:
        chosen = Chosen(names(record, "record"))
        given = arguments.inputs(inputs)
        return request(self.document, self.options, inputs=given, chosen=chosen)

    @property
    def program(self) -> Program:
        """The program that was evaluated last (at first: for the model's own defaults)."""
        return (self._latest or self.once(self._request({})))[0]

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
        return self._taken or (self._latest or self.once(self._request({})))[1].device

    # --- running ------------------------------------------------------------------------------

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        record: Sequence[str] = (),
        only: Sequence[str] | None = None,
        set: Mapping[str, Any] | None = None,
        sweep: Mapping[str, Any] | None = None,
        steps: int | None = None,
        dt: float | None = None,
        every: int = 1,
        when: str | None = None,
        reduce: Mapping[str, str | Sequence[str]] | None = None,
        state: Mapping[str, Array] | None = None,
        execution_list: bool = False,
        engine: str = "onnxruntime",
        time_limit: float | str | None = None,
        nan: str = "ignore",
        progress: bool | Callback | None = None,
        output: str | Path | None = None,
        overwrite: bool = False,
        checkpoint: str | Path | None = None,
        checkpoint_every: float | str | None = None,
        resume: str | Path | None = None,
        memory_limit: float | str | None = None,
    ) -> Results:
        """One evaluation of the model, or (with `steps`) the model over time.

        A run that is stopped (Ctrl-C, `time_limit`, `nan`, a full disk or memory) gives what it has reached,
        and says why in `results.stopped_by`.

        Args:
            inputs: values by port id (`node.port` where ambiguous); the rest have their defaults.
                Over time a value holds in every step, or has a row for each in front.
            record: `node.port`, `node.parameter` or `node.function` to give besides the outputs.
            only: give these instead of the model's outputs.
            set: parameters by `node.parameter`; of one that keeps a state, what it starts from.
            sweep: lists of values for parameters or inputs: all runs at once, an axis in front.
            steps: how often the model is evaluated; every output then has an axis of time in
                front, one row for each evaluation.
            dt: the time in seconds between one evaluation and the next; none passes before the
                first. Without it no time passes.
            every: keep a row of every `every`-th evaluation only, the first among them.
            when: keep only the rows in which this is true: `node.port` and so on.
            reduce: `mean`, `last`, `min` or `max` (or several) of an output over all evaluations,
                given as `node.port.mean` instead of its rows.
            state: `results.state` of an earlier run: go on where it ended.
            execution_list: over time, say in `results.execution_list` which nodes ran also where
                that is decided while running (it then takes a call of ONNX Runtime for each step).
            engine: `onnxruntime`, or `modeci` for modeci_mdf's own engine.
            time_limit: the run is stopped after so many seconds, or after e.g. `"10min"`.
            nan: what happens when a value of the model becomes nan or infinite: `ignore`; `stop`
                the run there; `error`, which raises with what was reached in `error.results`.
            progress: None for a bar on stderr if that is a terminal, True for one always, False for
                none; or a function that is called with a `Progress`, and may return False to stop
                the run.
            output: where to save the results. Rows are written to a `.zarr` folder while they are
                computed, and are then not kept in memory; other files are written at the end.
            overwrite: whether a `.zarr` folder that another run has finished may be replaced.
            checkpoint: a file to which is written, again and again, all that is needed to go on.
            checkpoint_every: how often: seconds, or e.g. `"5min"`; a minute if nothing is said.
            resume: go on from such a file, with the same model and arguments. It is written to
                further, if `checkpoint` names no other.
            memory_limit: how much memory this process may have: bytes, or e.g. `"4GB"`; three
                quarters of that of the machine or its container if nothing is said. What is known
                to take more is refused; a run that comes to it is stopped, which raises with what
                was reached in `error.results`.

        Raises:
            LoopError: an input does not fit, or the model failed; the sentence names the place.
        """
        chosen = Chosen(
            names(record, "record"),
            None if only is None else names(only, "only"),
            word(nan, "nan", NAN) != "ignore",
        )
        choices = Choices(
            inputs=arguments.inputs(inputs),
            chosen=chosen,
            set=arguments.settings(set),
            sweep=arguments.mapping(sweep, "sweep", "sweep={'node.parameter': [0.1, 0.2]}"),
            steps=steps,
            dt=dt,
            every=every,
            when=None if when is None else text(when, "when", "when='node.port'"),
            reduce=checked_reduce(reduce),
            state=state,
            execution_list=flag(execution_list, "execution_list"),
            engine=word(engine, "engine", ENGINES),
            output=output,
            overwrite=flag(overwrite, "overwrite"),
        )
        oversight = checked_oversight(
            time_limit, nan, progress, checkpoint, checkpoint_every, resume, memory_limit
        )
        with limited(oversight.memory_limit), noting(self.document.files):
            return run(self, choices, oversight)

    def save(
        self, path: str | Path, inputs: Mapping[str, Any] | None = None, *, origin: bool = True
    ) -> Any:
        """Write a standard `.onnx` file that plain ONNX Runtime and OpenVINO run.

        Args:
            path: the file.
            inputs: values that fix dtypes and shapes of the file's inputs; they are not stored.
            origin: keep this MDF model in the file, so that importing it gives the model back.

        Returns the `onnx.ModelProto` that was written.
        """
        target = path_of(path, "the ONNX file")
        if target.suffix.lower() != ".onnx":
            raise InputError(f"'{target.name}' does not end in .onnx", hint="name it model.onnx")
        with noting(self.document.files):
            checked_place(target)
        proto = self.to_onnx(inputs, origin=origin)
        write_whole(target, lambda stream: stream.write(proto.SerializeToString()))
        return proto

    def to_onnx(self, inputs: Mapping[str, Any] | None = None, *, origin: bool = True) -> Any:
        """The model as an `onnx.ModelProto`; with its `origin`, importing that gives it back.

        Not if it computes in float32: the model that would come back computes in float64.
        """
        from mdf_loop.emit import portable, to_onnx
        from mdf_loop.importing.origin import add_origin

        program = read(self.document, inputs, options=self.options)
        proto = to_onnx(runnable(program, self.options))
        made = portable(proto, stated_shapes(self.document))
        if origin and self.options.precision == "float64":
            add_origin(made, self.document)
        return made
