"""Annotations of an MDF document by the compiler's front end: types, constants and notes.

If the model cannot be read, there are no annotations, and the notes are the reasons. Otherwise the notes
are remarks for the modeller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from mdf_loop.document.document import Document
from mdf_loop.document.parts import DocumentValue, InputPort, OutputPort
from mdf_loop.errors import LoopError
from mdf_loop.ir import Array, Constant, Loop, Value, always_true, is_true, walk
from mdf_loop.lower.builder import Options
from mdf_loop.reading import read_annotated
from mdf_loop.reading.binding import BoundValues
from mdf_loop.reading.inputs import bind_types
from mdf_loop.reading.over_time import read_over_time
from mdf_loop.reading.parameters import integrates
from mdf_loop.reading.schedule.arguments import node_id
from mdf_loop.reading.schedule.conditions import find_counts
from mdf_loop.reading.schedule.plan import Schedule
from mdf_loop.specification import RunSpecification


class Annotations(Struct, frozen=True):
    """Types, constants and notes about an MDF document, determined by the compiler's front end.

    Attributes:
        program_value_by_path: Program value of each port, parameter and function.
        program_loops: Program loop of each function that owns one.
        constants: Arrays of values that the model fixes.
        notes: Reasons why the model cannot be read, or remarks.
        counted_events: Events that the written conditions count.
    """

    program_value_by_path: Mapping[str, Any] = field(default_factory=dict)
    program_loops: Mapping[str, Loop] = field(default_factory=dict)
    constants: Mapping[Value, Array] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    counted_events: tuple[str, ...] = ()

    def type_of(self, path: str, port: InputPort | OutputPort | None = None) -> str:
        """Return the type of the value at a document path, or else the type that `port` declares."""
        program_value = self.program_value_by_path.get(path)
        return program_value.type if isinstance(program_value, Value) else stated_type(port)

    def fixed_value(self, value: Value | None) -> Any | None:
        """Return the array of a constant value (as lists if small), or None for a varying value."""
        array = None if value is None else self.constants.get(value)
        return array if array is None or array.size > _MAX_LISTED_ELEMENTS else array.tolist()

    def always_true(self, loop: Loop) -> bool:
        """Return True if a loop's condition is true before the first and after every iteration."""
        return always_true(
            loop,
            {program_value for program_value, array in self.constants.items() if is_true(array)},
        )


_MAX_LISTED_ELEMENTS = 64
"""Maximum number of elements of a fixed array that is returned as lists."""


def stated_type(port: InputPort | OutputPort | None) -> str:
    """Return the type that a port declares in the MDF document, such as `float[2, 3]`."""
    if port is None:
        return ""
    dtype, shape = port.type or "", _named_extents(port) or port.shape
    if not shape:
        return dtype
    return f"{dtype or 'any'}[{', '.join(map(str, shape))}]"


def _named_extents(
    port: InputPort | OutputPort,
) -> list[DocumentValue] | tuple[DocumentValue, ...] | None:
    """Return the names of a port's dimensions in its metadata, or None without names."""
    extent_names = (port.metadata or {}).get("dims")
    return extent_names if isinstance(extent_names, list | tuple) else None


def annotate(document: Document) -> Annotations:
    """Compile an MDF document and return its types, constants and notes (messages to the user).

    If the document is invalid, the result has only notes.
    """
    try:
        reading = read_annotated(document, options=Options(max_iterations=1))
    except LoopError as error:
        return Annotations(notes=tuple(dict.fromkeys(finding.what for finding in error.findings)))
    except Exception as error:  # noqa: BLE001 - a model that breaks the reader can still be shown
        return Annotations(notes=(f"types are not known: {type(error).__name__}: {error}",))
    operations = list(walk(reading.program.ops))
    return Annotations(
        program_value_by_path=reading.terms_by_path,
        program_loops={
            operation.where: operation for operation in operations if isinstance(operation, Loop)
        },
        constants={op.value: op.array for op in operations if isinstance(op, Constant)},
        notes=tuple(note.what for note in reading.notes),
    )


def annotate_over_time(document: Document) -> Annotations:
    """Return types, constants and notes of an MDF document that hold in every time step of a run.

    The types of carried values are those in the loop, not those of the initial values.

    A model that cannot be read over time has only the notes of one evaluation.
    """
    evaluation_notes = annotate(document).notes
    options = Options(max_iterations=1)
    spec = RunSpecification(steps=2, dt=1.0 if integrates(document) else None)
    try:
        bound_inputs = BoundValues.of(bind_types(document, {}, options))
        reading = read_over_time(document, bound_inputs, options, spec)
    except LoopError:
        return Annotations(notes=evaluation_notes)
    except Exception:  # noqa: BLE001 - as in `annotate`
        return Annotations(notes=evaluation_notes)
    operations = list(walk(reading.later_program.ops))
    return Annotations(
        program_value_by_path=reading.terms_by_path,
        program_loops={
            operation.where: operation for operation in operations if isinstance(operation, Loop)
        },
        constants={op.value: op.array for op in operations if isinstance(op, Constant)},
        notes=evaluation_notes,
        counted_events=tuple(_counted_events(document, reading.schedule)),
    )


def _counted_events(document: Document, schedule: Schedule) -> Iterator[str]:
    """Yield the distinct events that the scheduler's conditions count, in alphabetical order."""
    graph = document.graph
    conditioned_nodes = {str(node_id(node)) for node in graph.node_conditions}
    condition_keys = [
        schedule.conditions[node] for node in conditioned_nodes if node in schedule.conditions
    ]
    if graph.termination_conditions:
        condition_keys.append(schedule.termination)
    event_texts = {
        str(event_count)
        for condition_key in condition_keys
        for event_count in find_counts(condition_key)
    }
    yield from sorted(
        text.replace("environment state update", "the evaluation") for text in event_texts
    )
