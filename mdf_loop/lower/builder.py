"""Builder of the operations of an MDF model, with marks for the reason why a value is constant.

Three properties of values decide which operations may be computed at compile time:

- `weak`: a Python number of the document, which takes the dtype of the other operand, as in numpy.
- `unrolled`: a constant that is known only because a loop is unrolled.
- `shape_dependent`: a constant that is known only because the shapes of inputs are.

Constants derived from unrolled or shape-dependent ones must have the bits that a run would compute.
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
    """Options of a compilation, such as the floating-point precision and an iteration limit.

    Derivatives treat the ports in `constant_ports` as constants.
    """

    precision: str = "float64"
    shapes: str = "strict"
    max_iterations: int | None = None
    unroll: int | None = None
    constant_ports: frozenset[str] = frozenset()


class ModelCallSite(Struct, frozen=True):
    """Call site in the MDF model (graph, item, call), which names a stream of random numbers.

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
    def stream_name(self) -> str:
        """Name of a stream of random numbers: path and call number, as in `graph.node.item#0`."""
        return f"{self.graph_path}.{self.item_path}#{self.call_index}"


class _SharedState(ProgramState):
    """State that all builders of one MDF model share, such as compile options and errors found."""

    options: Options = field(default_factory=Options)
    weak_values: set[Value] = field(default_factory=set)
    unrolled_constants: set[Value] = field(default_factory=set)
    shape_constants: set[Value] = field(default_factory=set)
    shape_queries: dict[Value, str] = field(default_factory=dict)
    values_by_path: dict[str, Any] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)
    broadcast_sources: dict[Value, tuple[Value, ...]] = field(default_factory=dict)
    stated_shapes: dict[Value, Shape] = field(default_factory=dict)
    notes: dict[Finding, None] = field(default_factory=dict)


class ModelBuilder(Builder):
    """Builder that appends the operations of an MDF model to a program or a loop body.

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
        self.call_site: ModelCallSite = parent.call_site if parent else ModelCallSite()
        self.in_loop: bool = parent.in_loop if parent else False

    @contextmanager
    def at_call_site(self, **parts: Any) -> Iterator[None]:
        """Return a context manager that temporarily sets the current MDF graph, item or call."""
        outer_call_site = self.call_site
        self.call_site = replace(outer_call_site, **parts)
        try:
            yield
        finally:
            self.call_site = outer_call_site

    def part(self, name: str) -> AbstractContextManager[None]:
        """Return a context manager that appends `name` to the path of the current MDF item.

        The path names streams of random numbers. An empty name changes nothing.
        """
        return (
            self.at_call_site(item_path=f"{self.call_site.item_path}.{name}")
            if name
            else nullcontext()
        )

    def loop_body(self) -> Self:
        """Return a builder for the body of a loop.

        The pass index of the current place is 0 in the body.
        """
        body = self.body()
        body.call_site = replace(body.call_site, pass_index=0, pass_count=1)
        body.in_loop = True
        return body

    # --- the model ----------------------------------------------------------------------------------

    @property
    def options(self) -> Options:
        """Options with which the caller compiles the model."""
        return self._model_state.options

    @property
    def float_dtype(self) -> str:
        """Dtype of floats, which is the precision of the compilation."""
        return self.options.precision

    @property
    def findings(self) -> Findings:
        """Errors found in the model so far."""
        return self._model_state.findings

    @property
    def notes(self) -> tuple[Finding, ...]:
        """Remarks to the author of the model, which are not errors."""
        return tuple(self._model_state.notes)

    def note(self, remark: str, where: str) -> None:
        """Add a remark to the author of the model, unless an equal remark exists."""
        self._model_state.notes[Finding("Note", remark, where)] = None

    @property
    def values_by_path(self) -> dict[str, Any]:
        """Mapping from MDF paths to values of the program, or to tuples of values."""
        return self._model_state.values_by_path

    @property
    def stated_shapes(self) -> dict[Value, Shape]:
        """Input shapes that the model declares, independent of the arrays of a run."""
        return self._model_state.stated_shapes

    @property
    def broadcast_sources(self) -> dict[Value, tuple[Value, ...]]:
        """Mapping from each broadcast value to the values that it was broadcast from.

        See `reading.possible_shapes`.
        """
        return self._model_state.broadcast_sources

    @property
    def shape_queries(self) -> Mapping[Value, str]:
        """Mapping from each value whose shape the model reads to the MDF path of the reader."""
        return self._model_state.shape_queries

    # --- plain numbers ------------------------------------------------------------------------------

    def is_weak(self, value: Value) -> bool:
        """Return True if the value is weakly typed, like a Python number in an expression."""
        return value in self._model_state.weak_values

    def mark_weak(self, value: Value) -> Value:
        """Mark a value as weakly typed, like a Python number in an expression."""
        constant_array = self.constant_of(value)
        if constant_array is not None and self.is_unrolled_constant(value):
            return self.constant(
                constant_array,
                weak=True,
                unrolled=True,
                shape_dependent=self.is_shape_constant(value),
            )
        self._model_state.weak_values.add(value)
        return value

    # --- constants ----------------------------------------------------------------------------------

    def constant(
        self,
        array: Any,
        *,
        weak: bool = False,
        unrolled: bool = False,
        shape_dependent: bool = False,
        name: str = "",
    ) -> Value:
        """Return a constant of the program that holds `array`.

        Equal constants with equal flags share one value in the whole program.
        """
        mark_flags = {"weak": weak, "unrolled": unrolled, "shape_dependent": shape_dependent}
        pooled_constant = self._pooled(
            array,
            name,
            tuple(flag_name for flag_name, is_flag_set in mark_flags.items() if is_flag_set),
        )
        shared_state = self._model_state
        for is_flag_set, flagged_values in (
            (weak, shared_state.weak_values),
            (unrolled, shared_state.unrolled_constants),
            (shape_dependent, shared_state.shape_constants),
        ):
            if is_flag_set:
                flagged_values.add(pooled_constant)
        return pooled_constant

    def record_broadcast(self, value: Value, *sources: Value) -> Value:
        """Record that a value is a broadcast of `sources`, and keep it from constant folding.

        Return the value, or a copy that is not known to be a constant. So operations on it are not folded before
        `reading.possible_shapes` has found those that depend on the shape before the broadcast.
        """
        if self.constant_of(value) is not None:
            (value,) = self._append_op("Identity", (value,), {}, [(value.dtype, value.shape)])
        self.broadcast_sources[value] = sources
        return value

    def unrolled_constant(self, array: Array) -> Value:
        """Return a constant that is marked `unrolled`: known only because a loop is unrolled."""
        return self.constant(array, unrolled=True)

    def is_unrolled_constant(self, value: Value | None) -> bool:
        """Return True if a constant is known only because a loop is unrolled."""
        return value in self._model_state.unrolled_constants

    def shape_constant(self, value: Value, extents: Array) -> Value:
        """Return known extents of `value` as a constant that is marked as dependent on input shapes."""
        self.record_shape_query(value)
        return self.constant(extents, shape_dependent=True)

    def record_shape_query(self, value: Value) -> None:
        """Record that the model reads the shape of a value at the current MDF path."""
        self._model_state.shape_queries[value] = self.where

    def is_shape_constant(self, value: Value | None) -> bool:
        """Return True if a constant is known only because the shapes of inputs are known."""
        return value in self._model_state.shape_constants

    def mark_unrolled_if(self, selector: Value, value: Value) -> Value:
        """Copy the mark `unrolled` (known only due to loop unrolling) from `selector` to `value`.

        Other values are returned unchanged.
        """
        constant_array = self.constant_of(value)
        if constant_array is None or not self.is_unrolled_constant(selector):
            return value
        return self.constant(
            constant_array,
            weak=self.is_weak(value),
            unrolled=True,
            shape_dependent=self.is_shape_constant(value),
        )

    def derived_constant(self, array: Array, sources: Iterable[Value | None]) -> Value:
        """Return a constant computed from other constants, with their `unrolled` and shape marks.

        The marks `unrolled` and `shape_dependent` are set if one of the other constants has them.
        """
        operands = tuple(sources)
        is_unrolled = any(map(self.is_unrolled_constant, operands))
        is_shape_dependent = any(map(self.is_shape_constant, operands))
        return self.constant(array, unrolled=is_unrolled, shape_dependent=is_shape_dependent)
