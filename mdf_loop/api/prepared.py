"""Cache of the programs and ONNX Runtime sessions of a model for each set of input types."""

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

MAX_CACHED_SESSIONS = 64
"""Number of sets of input types whose sessions are cached; the least recently used set is discarded."""


class Evaluation(Struct, frozen=True):
    """Compiled program and ONNX Runtime session for one evaluation with certain input types.

    Attributes:
        program: Program as read from the document.
        single_run: Session of the prepared program.
        loops: Loops of the program as read, for which results have reports.
        iteration_count_names: Name of the session output with the iteration count, by loop.
        condition_names: Name of the session output with the last condition, by loop.
        early_exit_loops: Names of the loops with per-member early exit.
        row_count_names: Name of the session output with the number of rows of each member, by output.
        has_run_flag_names: Name of the session output that is true if the output's node has run, by output.
        non_tensor_dtypes: Dtypes of the outputs that are no tensors.
    """

    program: Program
    single_run: SingleRun
    loops: tuple[Loop, ...]
    iteration_count_names: Mapping[str, str]
    condition_names: Mapping[str, str]
    early_exit_loops: frozenset[str]
    row_count_names: Mapping[str, str]
    has_run_flag_names: Mapping[str, str]
    non_tensor_dtypes: Mapping[str, str]

    @classmethod
    def of(cls, program: Program, single_run: SingleRun) -> Evaluation:
        """Return a program with its ONNX Runtime session and the names of the session's outputs."""
        session_program = single_run.session.program
        return cls(
            program,
            single_run,
            tuple(loops(program)),
            session_program.output_names(OutputRole.ITERATIONS),
            session_program.output_names(OutputRole.CONDITION),
            frozenset(
                output.owner_name
                for output in session_program.outputs
                if output.role is OutputRole.ITERATIONS and output.member_axis == 0
            ),
            session_program.output_names(OutputRole.LENGTH),
            program.output_names(OutputRole.HAS_RUN),
            {
                output.name: output.value.dtype
                for output in program.outputs
                if not is_tensor(output.value.dtype)
            },
        )


class PreparedModel:
    """Model with its compilation options, device, and cache of programs and sessions.

    Several threads may use one object at once. A pickled copy in another process has an empty cache.

    Attributes:
        document: The model.
        placement: Device, native code and number of threads of runs.
        options: Options of the compilation.
        jacobians: Cached Jacobians by `DifferentiatedNames.cache_key`.
    """

    def __init__(self, document: Document, placement: Placement, options: Options) -> None:
        self.document = document
        self.placement = placement
        self.options = options
        self._input_binder = InputBinder(document, options)
        self._evaluations: LRUCache[Evaluation] = LRUCache(MAX_CACHED_SESSIONS)
        self._time_sessions: LRUCache[TimeSession] = LRUCache(MAX_CACHED_SESSIONS)
        self._lock = ForkSafeLock()
        self.jacobians: LRUCache[object] = LRUCache(MAX_CACHED_SESSIONS)
        self._latest_evaluation: Evaluation | None = None
        self._last_device: Device | None = None

    def __reduce__(self) -> tuple[type[PreparedModel], tuple[Document, Placement, Options]]:
        return PreparedModel, (self.document, self.placement, self.options)

    def bind(self, specification: RunSpecification) -> BoundValues:
        """Return the arrays for the program's inputs, from the checked values of a run.

        Raises:
            InputError: A name is unknown or occurs twice, a value does not fit, or a sweep is invalid.
        """
        return self._input_binder.bind(specification.values, specification.steps)

    def evaluation(self, specification: RunSpecification, bound_values: BoundValues) -> Evaluation:
        """Return the program and session for the inputs' dtypes and shapes, cached if possible."""
        options = self._options(specification)
        cache_key = _build_cache_key(specification, bound_values, options)
        with self._lock:
            evaluation = self._evaluations.get(cache_key)
            if evaluation is None:
                recording_selection = specification.selection
                program = read_once(
                    self.document, bound_values, options, recording_selection
                ).program
                refuse_without_outputs(self.document, program.outputs)
                backend = PROGRAM_BACKENDS[specification.engine]
                swept_inputs = bound_values.inputs_with_members(program)
                single_run = SingleRun(program, self.placement, swept_inputs, backend)
                evaluation = Evaluation.of(program, single_run)
                self._evaluations.put(cache_key, evaluation)
            self._latest_evaluation = evaluation
            self._last_device = None  # the run will determine the device
            return evaluation

    def over_time(self, specification: RunSpecification, bound_values: BoundValues) -> TimeSession:
        """Return the session of a run over time for its input dtypes and shapes, cached if possible."""
        options = self._options(specification)
        cache_key = _build_cache_key(specification, bound_values, options)
        with self._lock:
            time_session = self._time_sessions.get(cache_key)
            if time_session is None:
                programs = read_over_time(self.document, bound_values, options, specification)
                refuse_without_outputs(self.document, programs.recorded_names)
                backend = PROGRAM_BACKENDS[specification.engine]
                swept_inputs = bound_values.inputs_with_members(programs.later_program)
                time_session = TimeSession(programs, options, self.placement, swept_inputs, backend)
                self._time_sessions.put(cache_key, time_session)
            return time_session

    def _options(self, specification: RunSpecification) -> Options:
        """Return the compilation options of a run. A time limit permits endless loops."""
        if specification.controls.time_limit is None or self.options.max_iterations is not None:
            return self.options
        return replace(self.options, max_iterations=int(MAX_TRIP_COUNT))

    def default_program(self, *, over_time: bool) -> Program:
        """Return the program of the model for its default inputs."""
        spec = self._default_specification(steps=2 if over_time else None)
        bound_values = self.bind(spec)
        if over_time:
            return read_over_time(self.document, bound_values, self.options, spec).later_program
        return read_once(self.document, bound_values, self.options, spec.selection).program

    def program_of(self, selection: Selection) -> Program:
        """Return the program of one evaluation for the input types stated in the document.

        Unknown extents are names.

        Raises:
            LoopError: A name of the selection cannot be recorded, or the model cannot be evaluated.
        """
        bound_values = BoundValues.of(bind_types(self.document, {}, self.options))
        return read_once(self.document, bound_values, self.options, selection).program

    def reads_states(self) -> bool:
        """Return True if evaluations in a run over time read states of the previous evaluation."""
        spec = replace(self._default_specification(steps=2), dt=1.0)
        with suppress(LoopError):  # the model cannot be run over time
            programs = read_over_time(self.document, self.bind(spec), self.options, spec)
            return bool(programs.later_program.input_names(InputRole.STATE))
        return False

    def _default_specification(self, steps: int | None = None) -> RunSpecification:
        """Return the specification of a run with default or placeholder inputs."""
        placeholder_inputs = create_placeholders(self.document, self.options.precision)
        return RunSpecification(Values(inputs=placeholder_inputs), steps=steps)

    @cached_property
    def units(self) -> Mapping[str, str]:
        """Units of ports, parameters and functions by `node.item`, and of inputs and time by name."""
        stated_units = units_of(self.document)
        units_by_input: dict[str, set[str]] = {}
        for port in open_ports(self.document):
            for name in port.names:
                units_by_input.setdefault(name, set()).add(stated_units.get(port.full_name, ""))
        unambiguous_units = {
            name: min(units) for name, units in units_by_input.items() if len(units) == 1
        }
        return {name: unit for name, unit in {**unambiguous_units, **stated_units}.items() if unit}

    @cached_property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the axes of ports, parameters and functions, by `node.item`."""
        return dims_of(self.document)

    @cached_property
    def step_parameters(self) -> Mapping[str, Any]:
        """Values of the parameters with the id `dt`, by `node.dt`."""
        return {
            f"{node.id}.{parameter.id}": parameter.value
            for node in self.document.graph.nodes
            for parameter in node.parameters
            if parameter.id == "dt"
        }

    @cached_property
    def model_units(self) -> ModelUnits:
        """Units of the model's values, to which Quantities of users are converted."""
        return ModelUnits(self.document)

    def time_step(self, dt: Any) -> Any:
        """Convert a time step to the model's unit of time."""
        return self.model_units.convert_time_step(dt)

    # --- the last run ---------------------------------------------------------------------------

    @property
    def latest_evaluation(self) -> Evaluation:
        """Program and session of the last evaluation, or at first for the default inputs."""
        if self._latest_evaluation is None:
            spec = self._default_specification()
            return self.evaluation(spec, self.bind(spec))
        return self._latest_evaluation

    def record_device(self, device: Device) -> None:
        """Record the device on which the last run was computed."""
        self._last_device = device

    @property
    def device(self) -> Device:
        """Device of the last run, or the expected device before the first run."""
        return self._last_device or self.latest_evaluation.single_run.device


def _build_cache_key(
    specification: RunSpecification, bound_values: BoundValues, options: Options
) -> Hashable:
    """Return the cache key of the program and the session of a run."""
    return (
        bound_values.input_types,
        options.max_iterations,
        specification.program_options,
        specification.engine,
    )
