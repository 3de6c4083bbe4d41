"""Plan of the outputs and steps that a run over time records."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.document.document import Document
from mdf_loop.errors import InputError
from mdf_loop.reading.names import Item, find_item, named_items
from mdf_loop.run.recording.labels import length_names
from mdf_loop.run.recording.lengths import OpenRows
from mdf_loop.specification import Selection


class RecordingPlan(Struct, frozen=True):
    """Recorded values of each step: rows of the `traces`, and reductions of other outputs.

    `selection` is the user's selection with full output names. `open` has the outputs whose row shape may
    vary between steps.
    """

    traces: tuple[str, ...]
    selection: Selection
    open: OpenRows = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all recorded values in results."""
        reduced = (
            f"{name}.{word}" for name, words in self.selection.reduce.items() for word in words
        )
        return (*self.traces, *reduced)

    @property
    def last_only(self) -> bool:
        """True if the plan only records last rows, and no rows of other steps."""
        return not self.traces and {*self.selection.reduce.values()} == {("last",)}

    @property
    def lengths(self) -> dict[str, str]:
        """Names of the arrays of lengths, by the name of the trace."""
        return length_names((name for name in self.traces if name in self.open), self.names)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all arrays with an entry for each recorded row."""
        return (*self.traces, *self.lengths.values())

    def count_recorded_rows(self, first: int, steps: int) -> int | None:
        """Return the number of recorded rows of `steps` steps from step `first` on, or None if unknown."""
        if self.selection.when is not None:
            return None
        every = self.selection.every
        return len(range(first + -first % every, first + steps, every))


def plan_recording(document: Document, selection: Selection) -> RecordingPlan:
    """Return the recording plan of a model for a selection.

    Raises:
        UnknownNameError: The selection names an item that the model does not have.
        InputError: The selection records nothing.
    """
    outputs = named_items(document)
    items = outputs if selection.names_outputs else named_items(document, selection)
    name_of = {item: name for name, item in reversed(items.items())}
    _refuse_duplicates(document, selection.reduce)
    selected = {find_item(document, name) for name in (*(selection.only or ()), *selection.record)}
    reduced = {find_item(document, name): words for name, words in selection.reduce.items()}
    if selection.only is None:
        selected |= {item for item in outputs.values() if item not in reduced}
    traces = tuple(name for name, item in items.items() if item in selected)
    if selection.only is not None and not traces and not reduced:
        raise InputError(
            "nothing of the run is kept: `only` names nothing", hint="name an output, or reduce one"
        )
    when = None if selection.when is None else name_of[find_item(document, selection.when)]
    words = {name_of[item]: words for item, words in reduced.items()}
    return RecordingPlan(traces, replace(selection, when=when, reduce=words))


def _refuse_duplicates(document: Document, reduce: Iterable[str]) -> None:
    names: dict[Item, str] = {}
    for name in reduce:
        item = find_item(document, name)
        if (other := names.setdefault(item, name)) != name:
            raise InputError(
                f"reduce: '{other}' and '{name}' are the same output",
                hint=f"give all that is wanted of it at once: {{'{name}': ['mean', 'max']}}",
            )
