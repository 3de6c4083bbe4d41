"""What of a run over time is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mdf_loop.errors import InputError
from mdf_loop.reading.document import Document
from mdf_loop.reading.names import Chosen, Item, find_item, named_items
from mdf_loop.run.labels import length_names
from mdf_loop.run.recording.lengths import OpenRows


@dataclass(frozen=True, slots=True)
class Keeping:
    """Rows of the `traces`, and what to `reduce` all rows of others to.

    A row is kept of every `every`-th step, if what is called `when` is true in it. `open` are those
    whose rows may have other shapes in other steps.
    """

    traces: tuple[str, ...]
    every: int = 1
    when: str | None = None
    reduce: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    open: OpenRows = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that is kept, as results call it."""
        reduced = (f"{name}.{word}" for name, words in self.reduce.items() for word in words)
        return (*self.traces, *reduced)

    @property
    def lengths(self) -> dict[str, str]:
        """For traces with rows of different lengths what these are called."""
        return length_names((name for name in self.traces if name in self.open), self.names)

    @property
    def columns(self) -> tuple[str, ...]:
        """Everything of which there is something in each row."""
        return (*self.traces, *self.lengths.values())

    def expected(self, first: int, steps: int) -> int | None:
        """How many rows so many steps from number `first` on give; None if that is not known."""
        if self.when is not None:
            return None
        return len(range(first + -first % self.every, first + steps, self.every))


def kept(
    document: Document,
    chosen: Chosen,
    every: int,
    when: str | None,
    reduce: Mapping[str, tuple[str, ...]],
) -> tuple[Chosen, Keeping]:
    """What a model must give for what is to be kept, and what is kept of that.

    Raises:
        UnknownNameError: something is named that the model does not have.
        InputError: nothing is kept.
    """
    needed = (*chosen.record, *reduce, *(() if when is None else (when,)))
    items = named_items(document, Chosen(needed, chosen.only))
    shown = {item: name for name, item in reversed(items.items())}
    _refuse_twice(document, reduce)
    named = {find_item(document, name) for name in (*(chosen.only or ()), *chosen.record)}
    reduced = {find_item(document, name): words for name, words in reduce.items()}
    if chosen.only is None:
        named |= {item for item in named_items(document).values() if item not in reduced}
    traces = tuple(name for name, item in items.items() if item in named)
    if chosen.only is not None and not traces and not reduced:
        raise InputError(
            "nothing of the run is kept: `only` names nothing", hint="name an output, or reduce one"
        )
    keeping = Keeping(
        traces,
        every,
        None if when is None else shown[find_item(document, when)],
        {shown[item]: words for item, words in reduced.items()},
    )
    return Chosen(needed, chosen.only, chosen.watch), keeping


def _refuse_twice(document: Document, reduce: Iterable[str]) -> None:
    names: dict[Item, str] = {}
    for name in reduce:
        item = find_item(document, name)
        if (other := names.setdefault(item, name)) != name:
            raise InputError(
                f"reduce: '{other}' and '{name}' are the same output",
                hint=f"give all that is wanted of it at once: {{'{name}': ['mean', 'max']}}",
            )
