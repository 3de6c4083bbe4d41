"""The builder of those who read a model: what they know of values, what they found, what was asked.

`weak` values are plain numbers of the document, which take the dtype of what they are combined with, as
Python's numbers do in numpy. `late` constants are known only because a loop is written out, `measured`
ones only because shapes of inputs are: what is calculated of them now must have the bits that it would
have at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.build import Builder, Shared
from mdf_loop.errors import Finding, Findings
from mdf_loop.ir import Array, Shape, Value


class Options(Struct, frozen=True):
    """What the caller decides about a compilation; `stops` are ports that derivatives take for constants."""

    precision: str = "float64"
    shapes: str = "strict"
    max_iterations: int | None = None
    unroll: int | None = None
    stops: frozenset[str] = frozenset()


class SitePlace(Struct, frozen=True):
    """What is read now, by ids alone: what streams of random numbers are named by.

    `graph` is the graph, with all that it stands in; `item` the part of a node in it, and what of that
    part; `call` the number of a call in its expression. `turn` is how many passes, or iterations that are
    written out, come before in one turn of the loop that they stand in, of so many `turns` at least.
    """

    graph: str = ""
    item: str = ""
    call: int = 0
    turn: int = 0
    turns: int = 1

    @property
    def site(self) -> str:
        """`graph.node.item#k`."""
        return f"{self.graph}.{self.item}#{self.call}"


class _Reading(Shared):
    """What all builders of one model share."""

    options: Options = field(default_factory=Options)
    weak: set[Value] = field(default_factory=set)
    late: set[Value] = field(default_factory=set)
    measured: set[Value] = field(default_factory=set)
    asked: dict[Value, str] = field(default_factory=dict)
    types: dict[str, Any] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)
    stand_for: dict[Value, tuple[Value, ...]] = field(default_factory=dict)
    stated: dict[Value, Shape] = field(default_factory=dict)
    notes: dict[Finding, None] = field(default_factory=dict)


class ModelBuilder(Builder):
    """Appends the operations of a model to one scope.

    `read` is whether Python would read the part of an expression that is lowered now (None: always):
    elsewhere it must not fail. `in_loop` is true inside of loops as the model has them: also where one is
    written out, in each evaluation of a run over time, and where members are computed together.
    """

    def __init__(self, options: Options | None = None, parent: ModelBuilder | None = None) -> None:
        super().__init__(parent)
        if parent is None:
            self._shared = self._known = _Reading(options=options or Options())
        else:
            self._known = parent._known
        self.read: Value | None = parent.read if parent else None
        self.place: SitePlace = parent.place if parent else SitePlace()
        self.in_loop: bool = parent.in_loop if parent else False

    @contextmanager
    def placed(self, **parts: Any) -> Iterator[None]:
        """What is read inside stands at this place; what is not said of it stays."""
        old = self.place
        self.place = replace(old, **parts)
        try:
            yield
        finally:
            self.place = old

    def part(self, name: str) -> AbstractContextManager[None]:
        """The same for a part of what is read now; for no part, if its name is empty."""
        return self.placed(item=f"{self.place.item}.{name}") if name else nullcontext()

    def loop_body(self) -> Self:
        """A builder for the body of a loop inside this scope, which takes turns of its own."""
        inside = self.body()
        inside.place = replace(inside.place, turn=0, turns=1)
        inside.in_loop = True
        return inside

    # --- the model ----------------------------------------------------------------------------------

    @property
    def options(self) -> Options:
        """The caller's decisions."""
        return self._known.options

    @property
    def float_dtype(self) -> str:
        """The dtype of numbers with a point."""
        return self.options.precision

    @property
    def findings(self) -> Findings:
        """Where errors of this model are collected."""
        return self._known.findings

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What a modeller should know of how the model was read; nothing is wrong with it."""
        return tuple(self._known.notes)

    def note(self, what: str, where: str) -> None:
        """Say something that a modeller should know; said twice, it is one note."""
        self._known.notes[Finding("Note", what, where)] = None

    @property
    def types(self) -> dict[str, Any]:
        """What each place of the model became: MDF path -> value, or tuple of values."""
        return self._known.types

    @property
    def stated(self) -> dict[Value, Shape]:
        """The shapes of inputs as the model states them, whatever the run is given."""
        return self._known.stated

    @property
    def stand_for(self) -> dict[Value, tuple[Value, ...]]:
        """Values that were spread to another shape: made -> of what (see `reading.widened`)."""
        return self._known.stand_for

    @property
    def asked(self) -> Mapping[Value, str]:
        """The values whose shapes a model asks for, and where."""
        return self._known.asked

    # --- plain numbers ------------------------------------------------------------------------------

    def is_weak(self, value: Value) -> bool:
        """Whether the value is a plain number of the document."""
        return value in self._known.weak

    def mark_weak(self, value: Value) -> Value:
        """Say that a value behaves like a plain Python number."""
        known = self.constant_of(value)
        if known is not None and self.is_late(value):
            return self.constant(known, weak=True, late=True, measured=self.is_measured(value))
        self._known.weak.add(value)
        return value

    # --- constants ----------------------------------------------------------------------------------

    def constant(
        self,
        array: Any,
        *,
        weak: bool = False,
        late: bool = False,
        measured: bool = False,
        name: str = "",
    ) -> Value:
        """A constant of the whole program; equal constants of one kind are one value."""
        words = {"weak": weak, "late": late, "measured": measured}
        made = self._pooled(array, name, tuple(word for word, said in words.items() if said))
        known = self._known
        for said, values in ((weak, known.weak), (late, known.late), (measured, known.measured)):
            if said:
                values.add(made)
        return made

    def late(self, array: Array) -> Value:
        """A constant that would not be known but for a loop that is written out."""
        return self.constant(array, late=True)

    def is_late(self, value: Value | None) -> bool:
        """Whether the value is known only because a loop is written out."""
        return value in self._known.late

    def measured(self, value: Value, extents: Array) -> Value:
        """What a model asks of the shape of a value, which is known as programs have fixed ones."""
        self._known.asked[value] = self.where
        return self.constant(extents, measured=True)

    def is_measured(self, value: Value | None) -> bool:
        """Whether a constant is known only because the shapes of inputs are."""
        return value in self._known.measured

    def chosen(self, by: Value, value: Value) -> Value:
        """A value that was chosen by one known now: known as late as that."""
        known = self.constant_of(value)
        if known is None or not self.is_late(by):
            return value
        return self.constant(
            known, weak=self.is_weak(value), late=True, measured=self.is_measured(value)
        )

    def derived(self, array: Array, sources: Iterable[Value | None]) -> Value:
        """A constant that is what an operation gives for others: known as late as these."""
        read = tuple(sources)
        late, measured = any(map(self.is_late, read)), any(map(self.is_measured, read))
        return self.constant(array, late=late, measured=measured)
