"""What reading the model tells beyond the document: dtypes, shapes, fixed values.

Where the model cannot be read, there are no annotations and the reasons are notes; where it can,
notes are what its modeller should know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mdf_loop.document.document import Document
from mdf_loop.errors import LoopError
from mdf_loop.ir import Array, Constant, Loop, Value, always_true, is_true, walk
from mdf_loop.lower.builder import Options
from mdf_loop.reading import read_annotated


@dataclass(frozen=True, slots=True)
class Annotations:
    """Types by MDF path, loops by MDF path, fixed values, and notes."""

    types: Mapping[str, Any] = field(default_factory=dict)
    loops: Mapping[str, Loop] = field(default_factory=dict)
    constants: Mapping[Value, Array] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

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
    """What holds in every time step: nothing that only the first evaluation tells."""
    return Annotations(notes=annotate(document).notes)
