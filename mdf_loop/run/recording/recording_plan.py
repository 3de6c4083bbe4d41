"""Plan of which outputs and which steps a run over time records."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.document.document import Document
from mdf_loop.errors import InputError
from mdf_loop.reading.names import Item, find_item, named_items
from mdf_loop.run.recording.labels import length_names
from mdf_loop.run.recording.lengths import VaryingRanks
from mdf_loop.specification import Selection


class RecordingPlan(Struct, frozen=True):
    """Plan of which outputs a run records row by row (`traces`), and which as reductions.

    `selection` is the user's selection with full output names. `varying_ranks` has the outputs whose row shape may
    vary between steps.
    """

    traces: tuple[str, ...]
    selection: Selection
    varying_ranks: VaryingRanks = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all recorded arrays in the results."""
        reduction_names = (
            f"{name}.{statistic}"
            for name, statistics in self.selection.reduce.items()
            for statistic in statistics
        )
        return (*self.traces, *reduction_names)

    @property
    def last_only(self) -> bool:
        """True if the run only records the last values of outputs."""
        return not self.traces and {*self.selection.reduce.values()} == {("last",)}

    @property
    def length_array_names(self) -> dict[str, str]:
        """Names of the arrays that contain the lengths of rows, by output name."""
        return length_names(
            (name for name in self.traces if name in self.varying_ranks), self.names
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all arrays that have one entry for each recorded step."""
        return (*self.traces, *self.length_array_names.values())

    def count_recorded_rows(self, first: int, steps: int) -> int | None:
        """Return how many of `steps` steps from `first` on are recorded, or None if unknown."""
        if self.selection.when is not None:
            return None
        stride = self.selection.every
        return len(range(first + -first % stride, first + steps, stride))


def plan_recording(document: Document, selection: Selection) -> RecordingPlan:
    """Return the plan of what a run of a model records, from the user's selection.

    Raises:
        UnknownNameError: The selection names an item that the model does not have.
        InputError: The selection records nothing.
    """
    output_items = named_items(document)
    item_by_name = (
        output_items if selection.records_only_outputs else named_items(document, selection)
    )
    name_by_item = {item: name for name, item in reversed(item_by_name.items())}
    _refuse_duplicates(document, selection.reduce)
    items_to_record = {
        find_item(document, name) for name in (*(selection.only or ()), *selection.record)
    }
    statistics_by_item = {
        find_item(document, name): statistics for name, statistics in selection.reduce.items()
    }
    if selection.only is None:
        items_to_record |= {
            item for item in output_items.values() if item not in statistics_by_item
        }
    trace_names = tuple(name for name, item in item_by_name.items() if item in items_to_record)
    if selection.only is not None and not trace_names and not statistics_by_item:
        raise InputError(
            "nothing of the run is kept: `only` names nothing", hint="name an output, or reduce one"
        )
    condition_name = (
        None if selection.when is None else name_by_item[find_item(document, selection.when)]
    )
    statistics_by_name = {
        name_by_item[item]: statistics for item, statistics in statistics_by_item.items()
    }
    return RecordingPlan(
        trace_names, replace(selection, when=condition_name, reduce=statistics_by_name)
    )


def _refuse_duplicates(document: Document, reduce: Iterable[str]) -> None:
    name_by_output: dict[Item, str] = {}
    for name in reduce:
        output_item = find_item(document, name)
        if (earlier_name := name_by_output.setdefault(output_item, name)) != name:
            raise InputError(
                f"reduce: '{earlier_name}' and '{name}' are the same output",
                hint=f"give all that is wanted of it at once: {{'{name}': ['mean', 'max']}}",
            )
