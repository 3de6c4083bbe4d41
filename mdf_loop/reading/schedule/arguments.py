"""Type and arguments of a scheduler condition, under all names that they may have.

What compiles conditions and what puts them into words read them here alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

ABOUT = ("dependency", "dependencies", "node", "args")
"""Names of the argument that says which node, or which nodes, a condition is about."""

COMPOSITE = frozenset({"All", "And", "Any", "Or"})
"""Types of conditions that are made of others, under any names."""

INSIDE = "condition"
"""The argument of `Not` and `NWhen`: the condition that they are made of."""


class Arguments(Struct, frozen=True, eq=False, kw_only=True):
    """The type of a condition, and its arguments as they are written.

    `unread` are the names of arguments that were asked for.
    """

    type: str
    arguments: Mapping[str, Any]
    unread: dict[str, None] = field(default_factory=dict)

    def get(self, *names: str) -> Any:
        """Return the argument of the first of these names that exists, or None."""
        for name in names:
            self.unread[name] = None
            if self.arguments.get(name) is not None:
                return self.arguments[name]
        return None

    def about(self) -> list[Any]:
        """Return the nodes of the condition."""
        return _listed(self.get(*ABOUT))

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield the parts of a composite condition, each with its place in the condition."""
        for name, value in self.arguments.items():
            self.unread[name] = None
            for k, part in enumerate(_listed(value)):
                yield f"{name}[{k}]" if isinstance(value, list | tuple) else name, part


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


def type_and_arguments(written: Any) -> tuple[str | None, Mapping[str, Any]]:
    """Type and arguments of a condition, however it is held; no type if that is no text."""
    if isinstance(written, Mapping):
        kind, arguments = written.get("type"), written.get("kwargs")
    else:
        kind, arguments = getattr(written, "type", None), getattr(written, "kwargs", None)
    named = dict(arguments) if isinstance(arguments, Mapping) else {}
    return kind if isinstance(kind, str) else None, named


def node_id(value: Any) -> Any:
    """Return the id of a node in an argument, which is a modeci_mdf Node or the id itself."""
    return getattr(value, "id", value)


def scale_name(scale: Any) -> str:
    """Return the name of a time scale in any spelling: `TimeScale.LIFE`, `life`, the enum itself."""
    return str(getattr(scale, "name", scale)).rpartition(".")[2].upper()
