"""Cached programs and sessions of a document for each set of input types."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.cached_property import cached_property
from mdf_loop.document.dims import dims_of
from mdf_loop.document.document import Document
from mdf_loop.document.units import units_of
from mdf_loop.emit.loop_node import MAX_TRIP_COUNT
from mdf_loop.errors import LoopError
from mdf_loop.ir import InputRole, Loop, OutputRole, Program, loops
from mdf_loop.ir.types import is_tensor
from mdf_loop.locks import ForkSafeLock
from mdf_loop.lower.builder import Options
from mdf_loop.lru_cache import LRUCache
from mdf_loop.reading.binding import BoundValues, InputBinder
from mdf_loop.reading.inputs import bind_types, create_placeholders, open_ports
from mdf_loop.reading.model_units import ModelUnits
from mdf_loop.reading.names import refuse_without_outputs
from mdf_loop.reading.over_time import read_over_time
from mdf_loop.reading.program import read_once
from mdf_loop.run.backend import PROGRAM_BACKENDS
from mdf_loop.run.device import Device, Placement
from mdf_loop.run.single_run import SingleRun
from mdf_loop.run.time_session import TimeSession
from mdf_loop.specification import RunSpecification, Selection, Values

SESSIONS = 64
"""Number of sets of input types whose sessions are cached; the least recently used set is discarded."""


class Evaluation(Struct, frozen=True):
    """One evaluation of a model for some input types: its program and its session.

    Attributes:
        program: Program as read from the document.
        run: Session of the prepared program.
        loops: Loops of the program as read, for which results have reports.
        counts: Name of the session output with the iteration count, by loop.
        conditions: Name of the session output with the last condition, by loop.
        apart: Names of the loops with per-member early exit.
        lengths: Name of the session output with the number of rows of each member, by output.
        flags: Name of the session output that is true if the output's node has run, by output.
        dtypes: Dtypes of the outputs that are no tensors.
    """

    program: Program
    run: SingleRun
    loops: tuple[Loop, ...]
    counts: Mapping[str, str]
    conditions: Mapping[str, str]
    apart: frozenset[str]
    lengths: Mapping[str, str]
    flags: Mapping[str, str]
    dtypes: Mapping[str, str]

    @classmethod
    def of(cls, program: Program, run: SingleRun) -> Evaluation:
        """Return the evaluation of a program."""
        session_program = run.session.program
        return cls(
            program,
            run,
            tuple(loops(program)),
            session_program.output_names(OutputRole.ITERATIONS),
            session_program.output_names(OutputRole.CONDITION),
            frozenset(
                o.owner_name
                for o in session_program.outputs
                if o.role is OutputRole.ITERATIONS and o.member_axis == 0
            ),
            session_program.output_names(OutputRole.LENGTH),
            program.output_names(OutputRole.HAS_RUN),
            {o.name: o.value.dtype for o in program.outputs if not is_tensor(o.value.dtype)},
        )


class Prepared:
    """Document with the device and options of its compilation, and a cache of programs and sessions.

    Several threads may use one object at once. A pickled copy in another process has an empty cache.

    Attributes:
        document: The model.
        placement: Device, native code and number of threads of runs.
        options: Options of the compilation.
        jacobians: Cached Jacobians by `DifferentiatedNames.key`.
    """

    def __init__(self, document: Document, placement: Placement, options: Options) -> None:
        self.document = document
        self.placement = placement
        self.options = options
        self._inputs = InputBinder(document, options)
        self._evaluations: LRUCache[Evaluation] = LRUCache(SESSIONS)
        self._over_time: LRUCache[TimeSession] = LRUCache(SESSIONS)
        self._lock = ForkSafeLock()
        self.jacobians: LRUCache[object] = LRUCache(SESSIONS)
        self._latest: Evaluation | None = None
        self._last_device: Device | None = None

    def __reduce__(self) -> tuple[type[Prepared], tuple[Document, Placement, Options]]:
        return Prepared, (self.document, self.placement, self.options)

    def bound(self, specification: RunSpecification) -> BoundValues:
        """Return the values of a run, bound to the model's inputs.

        Raises:
            InputError: A name is unknown or occurs twice, a value does not fit, or a sweep is invalid.
        """
        return self._inputs.bind(specification.values, specification.steps)

    def evaluation(self, specification: RunSpecification, bound: BoundValues) -> Evaluation:
        """Return the cached or new evaluation for the types of bound values."""
        options = self._options(specification)
        key = _build_cache_key(specification, bound, options)
        with self._lock:
            ready = self._evaluations.get(key)
            if ready is None:
                selection = specification.selection
                program = read_once(self.document, bound, options, selection).program
                refuse_without_outputs(self.document, program.outputs)
                backend = PROGRAM_BACKENDS[specification.engine]
                swept = bound.inputs_with_members(program)
                run = SingleRun(program, self.placement, swept, backend)
                ready = Evaluation.of(program, run)
                self._evaluations.put(key, ready)
            self._latest = ready
            self._last_device = None  # the run will determine the device
            return ready

    def over_time(self, specification: RunSpecification, bound: BoundValues) -> TimeSession:
        """Return the cached or new session over time for the types of bound values."""
        options = self._options(specification)
        key = _build_cache_key(specification, bound, options)
        with self._lock:
            session = self._over_time.get(key)
            if session is None:
                programs = read_over_time(self.document, bound, options, specification)
                refuse_without_outputs(self.document, programs.recorded_names)
                backend = PROGRAM_BACKENDS[specification.engine]
                swept = bound.inputs_with_members(programs.later_program)
                session = TimeSession(programs, options, self.placement, swept, backend)
                self._over_time.put(key, session)
            return session

    def _options(self, specification: RunSpecification) -> Options:
        """Return the compilation options, which allow endless loops in a run with a time limit."""
        if specification.controls.time_limit is None or self.options.max_iterations is not None:
            return self.options
        return replace(self.options, max_iterations=int(MAX_TRIP_COUNT))

    def of_own_values(self, *, over_time: bool) -> Program:
        """Return the program for the default inputs of the model, without running it."""
        spec = self._of_defaults(steps=2 if over_time else None)
        bound = self.bound(spec)
        if over_time:
            return read_over_time(self.document, bound, self.options, spec).later_program
        return read_once(self.document, bound, self.options, spec.selection).program

    def program_of(self, selection: Selection) -> Program:
        """Return the program of one evaluation for the types in the document. Unknown extents are names.

        Raises:
            LoopError: A name of the selection cannot be recorded, or the model cannot be evaluated.
        """
        bound = BoundValues.of(bind_types(self.document, {}, self.options))
        return read_once(self.document, bound, self.options, selection).program

    def remembers(self) -> bool:
        """Return True if an evaluation over time reads states of the previous evaluation."""
        spec = replace(self._of_defaults(steps=2), dt=1.0)
        with suppress(LoopError):  # the model cannot be run over time
            programs = read_over_time(self.document, self.bound(spec), self.options, spec)
            return bool(programs.later_program.input_names(InputRole.STATE))
        return False

    def _of_defaults(self, steps: int | None = None) -> RunSpecification:
        """Return the specification of a run with default inputs, and placeholders for required inputs."""
        inputs = create_placeholders(self.document, self.options.precision)
        return RunSpecification(Values(inputs=inputs), steps=steps)

    @cached_property
    def units(self) -> Mapping[str, str]:
        """Units of every `node.item` that has one, of all input names, and of `time`."""
        known = units_of(self.document)
        called: dict[str, set[str]] = {}
        for port in open_ports(self.document):
            for name in port.names:
                called.setdefault(name, set()).add(known.get(port.full_name, ""))
        alike = {name: min(units) for name, units in called.items() if len(units) == 1}
        return {name: unit for name, unit in {**alike, **known}.items() if unit}

    @cached_property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the axes of every `node.item` whose axes the model names."""
        return dims_of(self.document)

    @cached_property
    def step_parameters(self) -> Mapping[str, Any]:
        """Values of the parameters called `dt`, by `node.dt`."""
        return {
            f"{node.id}.{parameter.id}": parameter.value
            for node in self.document.graph.nodes
            for parameter in node.parameters
            if parameter.id == "dt"
        }

    @cached_property
    def model_units(self) -> ModelUnits:
        """Units of the model, to which values of users are converted."""
        return ModelUnits(self.document)

    def time_step(self, dt: Any) -> Any:
        """Return a time step in the model's unit of time; see `ModelUnits.convert_time_step`."""
        return self.model_units.convert_time_step(dt)

    # --- the last run ---------------------------------------------------------------------------

    @property
    def latest(self) -> Evaluation:
        """Last evaluation. Before the first run, the evaluation of the default inputs."""
        if self._latest is None:
            spec = self._of_defaults()
            return self.evaluation(spec, self.bound(spec))
        return self._latest

    def ran_on(self, device: Device) -> None:
        """Record the device of the last run."""
        self._last_device = device

    @property
    def device(self) -> Device:
        """Device of the last run, or the device of the next run before the first one."""
        return self._last_device or self.latest.run.device


def _build_cache_key(
    specification: RunSpecification, bound: BoundValues, options: Options
) -> Hashable:
    """Return the cache key of a run: everything that determines its program and its session."""
    return (bound.types, options.max_iterations, specification.reading, specification.engine)
