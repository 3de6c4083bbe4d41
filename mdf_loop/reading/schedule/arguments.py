"""Access to the type and arguments of scheduler conditions in a document.

Both the compilation and the text of conditions read arguments with this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from mdf_loop.document.parts import DocumentValue

NODE_ARGUMENTS = ("dependency", "dependencies", "node", "args")
"""Names of the argument with the node or nodes that a condition refers to."""

COMPOSITE_TYPES = frozenset({"All", "And", "Any", "Or"})
"""Types of conditions whose arguments, under any names, are other conditions."""

INNER_CONDITION = "condition"
"""Name of the argument of `Not` and `NWhen` with their inner condition."""


class Arguments(Struct, frozen=True, eq=False, kw_only=True):
    """Type and arguments of a scheduler condition, as written in the document.

    Attributes:
        type: Type of the condition.
        arguments: Arguments by name.
        names_read: Names of the arguments that were read so far.
    """

    type: str
    arguments: Mapping[str, DocumentValue]
    names_read: dict[str, None] = field(default_factory=dict)

    def get(self, *names: str) -> DocumentValue:
        """Return an argument's value under the first of several names, or None if it is absent."""
        for argument_name in names:
            self.names_read[argument_name] = None
            if self.arguments.get(argument_name) is not None:
                return self.arguments[argument_name]
        return None

    def node_arguments(self) -> list[DocumentValue]:
        """Return the nodes in the arguments of a scheduler condition."""
        return _to_list(self.get(*NODE_ARGUMENTS))

    def parts(self) -> Iterator[tuple[str, DocumentValue]]:
        """Yield the inner conditions of a composite condition, each with its path in the arguments."""
        for argument_name, argument_value in self.arguments.items():
            self.names_read[argument_name] = None
            for k, element in enumerate(_to_list(argument_value)):
                yield (
                    f"{argument_name}[{k}]"
                    if isinstance(argument_value, list | tuple)
                    else argument_name,
                    element,
                )


def _to_list(value: DocumentValue) -> list[DocumentValue]:
    """Convert an argument to a list: None to an empty list, a single value to a list of one."""
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


def type_and_arguments(condition: DocumentValue) -> tuple[str | None, Mapping[str, DocumentValue]]:
    """Return the type and arguments of a scheduler condition, which is a mapping or an object.

    The type is None if it is not a text.
    """
    if isinstance(condition, Mapping):
        condition_type, arguments = condition.get("type"), condition.get("kwargs")
    else:
        condition_type, arguments = (
            getattr(condition, "type", None),
            getattr(condition, "kwargs", None),
        )
    argument_by_name = dict(arguments) if isinstance(arguments, Mapping) else {}
    return condition_type if isinstance(condition_type, str) else None, argument_by_name


def node_id(value: DocumentValue) -> DocumentValue:
    """Return the id of a node that is given as a modeci_mdf Node or as an id."""
    return getattr(value, "id", value)


def scale_name(scale: DocumentValue) -> str:
    """Return the name of a time scale that is given as `TimeScale.LIFE`, `life` or an enum member."""
    return str(getattr(scale, "name", scale)).rpartition(".")[2].upper()
