"""What reading the model tells beyond the document: dtypes, shapes, fixed values.

Where the model cannot be read, there are no annotations and the reasons are notes; where it can,
notes are what its modeller should know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from mdf_loop.document.document import Document
from mdf_loop.errors import LoopError
from mdf_loop.ir import Array, Constant, Loop, Value, always_true, is_true, walk
from mdf_loop.lower.builder import Options
from mdf_loop.reading import read_annotated
from mdf_loop.reading.binding import Bound
from mdf_loop.reading.inputs import bind_types
from mdf_loop.reading.over_time import read_over_time
from mdf_loop.reading.parameters import integrates
from mdf_loop.reading.schedule.arguments import node_id
from mdf_loop.reading.schedule.conditions import counts_in
from mdf_loop.reading.schedule.plan import Schedule
from mdf_loop.specification import RunSpecification


class Annotations(Struct, frozen=True):
    """Types by MDF path, loops by MDF path, fixed values, notes, and what conditions have counted."""

    types: Mapping[str, Any] = field(default_factory=dict)
    loops: Mapping[str, Loop] = field(default_factory=dict)
    constants: Mapping[Value, Array] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()

    def type_of(self, path: str, port: Any = None) -> str:
        """The type of what stands at a path; else what the port itself states."""
        found = self.types.get(path)
        return found.type if isinstance(found, Value) else stated_type(port)

    def fixed(self, value: Value | None) -> Any | None:
        """The value, if it is fixed by the model; a large one stays an array."""
        array = None if value is None else self.constants.get(value)
        return array if array is None or array.size > _SHOWN else array.tolist()

    def always_true(self, loop: Loop) -> bool:
        """Whether a loop's condition is true before the first and after every iteration."""
        return always_true(loop, {v for v, array in self.constants.items() if is_true(array)})


_SHOWN = 64
"""Up to so many numbers of a fixed value are looked at."""


def stated_type(port: Any) -> str:
    """The type that a port states in the document: `float[2, 3]`."""
    word = str(getattr(port, "type", None) or "")
    shape = _dims(port) or getattr(port, "shape", None)
    if not shape:
        return word
    return f"{word or 'any'}[{', '.join(map(str, shape))}]"


def _dims(port: Any) -> Any:
    """The extents with their names, where the port's metadata give them."""
    dims = (getattr(port, "metadata", None) or {}).get("dims")
    return dims if isinstance(dims, list | tuple) else None


def annotate(document: Document) -> Annotations:
    """The annotations of a document, as far as it can be read."""
    try:
        reading = read_annotated(document, options=Options(max_iterations=1))
    except LoopError as error:
        return Annotations(notes=tuple(dict.fromkeys(f.what for f in error.findings)))
    except Exception as error:  # noqa: BLE001 - a model that breaks the reader can still be shown
        return Annotations(notes=(f"types are not known: {type(error).__name__}: {error}",))
    operations = list(walk(reading.program.ops))
    return Annotations(
        types=reading.types,
        loops={op.where: op for op in operations if isinstance(op, Loop)},
        constants={op.value: op.array for op in operations if isinstance(op, Constant)},
        notes=tuple(note.what for note in reading.notes),
    )


def annotate_over_time(document: Document) -> Annotations:
    """What holds in every time step: types are those of the loop, not those it begins with.

    A model that cannot be read over time has the notes of one evaluation.
    """
    notes = annotate(document).notes
    options = Options(max_iterations=1)
    asked = RunSpecification(steps=2, dt=1.0 if integrates(document) else None)
    try:
        bound = Bound.of(bind_types(document, {}, options))
        made = read_over_time(document, bound, options, asked)
    except LoopError:
        return Annotations(notes=notes)
    except Exception:  # noqa: BLE001 - as above
        return Annotations(notes=notes)
    operations = list(walk(made.later.ops))
    return Annotations(
        types=made.types,
        loops={op.where: op for op in operations if isinstance(op, Loop)},
        constants={op.value: op.array for op in operations if isinstance(op, Constant)},
        notes=notes,
        counted=tuple(_counted(document, made.schedule)),
    )


def _counted(document: Document, schedule: Schedule) -> Iterator[str]:
    """What the written conditions have counted, each once."""
    given = document.graph.conditions
    written = {str(node_id(node)) for node in getattr(given, "node_specific", None) or {}}
    asked = [schedule.conditions[node] for node in written if node in schedule.conditions]
    if getattr(given, "termination", None):
        asked.append(schedule.termination)
    counts = {str(count) for key in asked for count in counts_in(key)}
    yield from sorted(text.replace("environment state update", "the evaluation") for text in counts)
