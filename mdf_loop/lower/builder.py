"""Builder of the operations of a model. All builders of one model share a state.

Three properties of values decide which operations may be computed at compile time:

- `weak`: a Python number of the document, which takes the dtype of the other operand, as in numpy.
- `late`: a constant that is known only because a loop is unrolled.
- `measured`: a constant that is known only because the shapes of inputs are.

Constants derived from late or measured ones must have the bits that a run would compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.build import Builder, ProgramState
from mdf_loop.errors import Finding, Findings
from mdf_loop.ir import Array, Shape, Value


class Options(Struct, frozen=True):
    """Compilation options of the caller. Derivatives treat the ports in `constant_ports` as constants."""

    precision: str = "float64"
    shapes: str = "strict"
    max_iterations: int | None = None
    unroll: int | None = None
    constant_ports: frozenset[str] = frozenset()


class SitePlace(Struct, frozen=True):
    """Current place in the model, from which streams of random numbers get their names.

    Attributes:
        graph_path: Path of the graph.
        item_path: Path of an item in the graph, such as a parameter of a node.
        call_index: Number of a call in its expression.
        pass_index: Number of earlier passes or unrolled iterations in one iteration of the enclosing loop.
        pass_count: Total number of such passes or iterations, or a lower bound of the total number.
    """

    graph_path: str = ""
    item_path: str = ""
    call_index: int = 0
    pass_index: int = 0
    pass_count: int = 1

    @property
    def site(self) -> str:
        """Name of the site, `graph.node.item#k`."""
        return f"{self.graph_path}.{self.item_path}#{self.call_index}"


class _SharedState(ProgramState):
    """State that all builders of one model share."""

    options: Options = field(default_factory=Options)
    weak_values: set[Value] = field(default_factory=set)
    late_values: set[Value] = field(default_factory=set)
    measured_values: set[Value] = field(default_factory=set)
    shape_queries: dict[Value, str] = field(default_factory=dict)
    values_by_path: dict[str, Any] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)
    spread_sources: dict[Value, tuple[Value, ...]] = field(default_factory=dict)
    stated_shapes: dict[Value, Shape] = field(default_factory=dict)
    notes: dict[Finding, None] = field(default_factory=dict)


class ModelBuilder(Builder):
    """Builder that appends the operations of a model to one scope.

    `read_condition` is the condition under which Python would evaluate the current part of an expression
    (None: always). If the condition is false, the part must not fail. `in_loop` is True inside the
    loops of the model, also inside unrolled loops, and in each evaluation of a run over time.
    """

    def __init__(self, options: Options | None = None, parent: ModelBuilder | None = None) -> None:
        super().__init__(parent)
        if parent is None:
            self._shared = self._model_state = _SharedState(options=options or Options())
        else:
            self._model_state = parent._model_state
        self.read_condition: Value | None = parent.read_condition if parent else None
        self.place: SitePlace = parent.place if parent else SitePlace()
        self.in_loop: bool = parent.in_loop if parent else False

    @contextmanager
    def at_place(self, **parts: Any) -> Iterator[None]:
        """Set some fields of the current place inside a `with` block."""
        outer_place = self.place
        self.place = replace(outer_place, **parts)
        try:
            yield
        finally:
            self.place = outer_place

    def part(self, name: str) -> AbstractContextManager[None]:
        """Append a name, if it is not empty, to the path of the current item inside a `with` block."""
        return self.at_place(item_path=f"{self.place.item_path}.{name}") if name else nullcontext()

    def loop_body(self) -> Self:
        """Return a builder for a loop body inside this scope, with the pass index reset to 0."""
        body = self.body()
        body.place = replace(body.place, pass_index=0, pass_count=1)
        body.in_loop = True
        return body

    # --- the model ----------------------------------------------------------------------------------

    @property
    def options(self) -> Options:
        """Compilation options of the caller."""
        return self._model_state.options

    @property
    def float_dtype(self) -> str:
        """Dtype of floats: the compilation's precision."""
        return self.options.precision

    @property
    def findings(self) -> Findings:
        """Errors of this model."""
        return self._model_state.findings

    @property
    def notes(self) -> tuple[Finding, ...]:
        """Remarks for the modeller about constructs that are not errors."""
        return tuple(self._model_state.notes)

    def note(self, remark: str, where: str) -> None:
        """Add a remark for the modeller; an equal remark is added once."""
        self._model_state.notes[Finding("Note", remark, where)] = None

    @property
    def values_by_path(self) -> dict[str, Any]:
        """Program value, or tuple of values, for each MDF path of the document."""
        return self._model_state.values_by_path

    @property
    def stated_shapes(self) -> dict[Value, Shape]:
        """Shapes of inputs as stated in the model, independent of the arrays of a run."""
        return self._model_state.stated_shapes

    @property
    def spread_sources(self) -> dict[Value, tuple[Value, ...]]:
        """Sources of values that were broadcast: result -> operands (see `reading.possible_shapes`)."""
        return self._model_state.spread_sources

    @property
    def shape_queries(self) -> Mapping[Value, str]:
        """Values whose shapes the model reads, with the path in the document."""
        return self._model_state.shape_queries

    # --- plain numbers ------------------------------------------------------------------------------

    def is_weak(self, value: Value) -> bool:
        """Return True if the value is weakly typed: a Python number of the document."""
        return value in self._model_state.weak_values

    def mark_weak(self, value: Value) -> Value:
        """Mark a value as weakly typed, like a Python number."""
        constant_array = self.constant_of(value)
        if constant_array is not None and self.is_late(value):
            return self.constant(
                constant_array, weak=True, late=True, measured=self.is_measured(value)
            )
        self._model_state.weak_values.add(value)
        return value

    # --- constants ----------------------------------------------------------------------------------

    def constant(
        self,
        array: Any,
        *,
        weak: bool = False,
        late: bool = False,
        measured: bool = False,
        broadcast: bool = False,
        name: str = "",
    ) -> Value:
        """Return a constant of the whole program. Equal constants with equal flags share one value."""
        flags = {"weak": weak, "late": late, "measured": measured, "broadcast": broadcast}
        pooled_constant = self._pooled(
            array, name, tuple(flag_name for flag_name, is_set in flags.items() if is_set)
        )
        shared_state = self._model_state
        for is_set, marked_values in (
            (weak, shared_state.weak_values),
            (late, shared_state.late_values),
            (measured, shared_state.measured_values),
        ):
            if is_set:
                marked_values.add(pooled_constant)
        return pooled_constant

    def record_broadcast(self, value: Value, *sources: Value) -> Value:
        """Record that a value was broadcast from `sources`, and return the value that replaces it.

        A broadcast constant is not shared with equal constants of the model, and operations on it are not folded.
        `reading.possible_shapes` then finds all operations that depend on the shape before the broadcast.
        """
        array = self.constant_of(value)
        if array is not None:
            value = self.constant(
                array,
                weak=self.is_weak(value),
                late=self.is_late(value),
                measured=self.is_measured(value),
                broadcast=True,
            )
        self.spread_sources[value] = (*self.spread_sources.get(value, ()), *sources)
        return value

    def foldable_constant_of(self, value: Value | None) -> Array | None:
        """Return the array of a constant, or None for a broadcast constant and for other values."""
        return None if value in self.spread_sources else self.constant_of(value)

    def late(self, array: Array) -> Value:
        """Return `array` as a constant that is marked as known only because a loop is unrolled."""
        return self.constant(array, late=True)

    def is_late(self, value: Value | None) -> bool:
        """Return True if the value is known only because a loop is unrolled."""
        return value in self._model_state.late_values

    def measured(self, value: Value, extents: Array) -> Value:
        """Return `extents`, which depend on the shapes of inputs, as a constant for the shape of `value`."""
        self.record_shape_query(value)
        return self.constant(extents, measured=True)

    def record_shape_query(self, value: Value) -> None:
        """Record that the model reads the shape of a value (see `reading.possible_shapes`)."""
        self._model_state.shape_queries[value] = self.where

    def is_measured(self, value: Value | None) -> bool:
        """Return True if a constant is known only because the shapes of inputs are known."""
        return value in self._model_state.measured_values

    def mark_late_if(self, selector: Value, value: Value) -> Value:
        """Return `value`, marked as late if `value` is a constant and the constant `selector` is late."""
        constant_array = self.constant_of(value)
        if constant_array is None or not self.is_late(selector):
            return value
        return self.constant(
            constant_array, weak=self.is_weak(value), late=True, measured=self.is_measured(value)
        )

    def derived(self, array: Array, sources: Iterable[Value | None]) -> Value:
        """Return a computed array as a constant, late or measured if an operand is late or measured."""
        operands = tuple(sources)
        is_late, is_measured = (
            any(map(self.is_late, operands)),
            any(map(self.is_measured, operands)),
        )
        return self.constant(array, late=is_late, measured=is_measured)
