"""Parsing of document arguments: lists of expressions, and mappings of names to fields.

v_initial: (a, b + 1)             ->   "a", "b + 1"
slices: {x_t: {of: x, axis: 1}}   ->   NamedEntry("x_t", {"of": "x", "axis": 1})
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from msgspec import Struct

from mdf_loop.document.parts import DocumentValue
from mdf_loop.errors import ModelError
from mdf_loop.lower.syntax import parse_number
from mdf_loop.name_suggestions import suggest

MAX_INTEGER = 2**62
"""Maximum absolute value of an integer in the document. Sums with extents still fit into 64 bits."""


class NamedEntry(Struct, frozen=True):
    """Named entry of a mapping in the document, such as one delay, with its fields and path."""

    name: str
    fields: Mapping[str, DocumentValue]
    where: str

    def integer(self, key: str, default: int) -> int:
        """Return a field of the entry as an integer, or `default` if the entry lacks the field.

        An expression is refused.
        """
        field_value = self.fields.get(key)
        number = parse_number(field_value) if isinstance(field_value, str) else field_value
        if number is None and field_value is None:
            return default
        if isinstance(number, bool) or not isinstance(number, int):
            raise ModelError(
                f"'{key}' of '{self.name}' must be a whole number, not {field_value!r}", self.where
            )
        if abs(number) > MAX_INTEGER:
            raise ModelError(
                f"'{key}' of '{self.name}' does not fit into 64 bits: {str(number)[:40]}",
                self.where,
            )
        return number

    def boolean(self, key: str) -> bool:
        """Return a field of the entry as a bool, which is False if the entry lacks the field."""
        field_value = self.fields.get(key, False)
        if not isinstance(field_value, bool):
            raise ModelError(
                f"'{key}' of '{self.name}' must be true or false, not {field_value!r}", self.where
            )
        return field_value

    def expression(self, key: str) -> DocumentValue:
        """Return a required field of the entry as an expression."""
        field_value = self.fields.get(key)
        if field_value is None or (isinstance(field_value, str) and not field_value.strip()):
            raise ModelError(
                f"'{self.name}' has no '{key}'", self.where, f"write {self.name}: {{{key}: ...}}"
            )
        return field_value


def parse_entries(
    value: DocumentValue, where: str, keys: Iterable[str], short_key: str = ""
) -> tuple[NamedEntry, ...]:
    """Parse an argument that is a mapping of names to fields, such as `delays`.

    `keys` are the allowed keys of each entry.

    If `short_key` names a key, an entry may be the bare value of this key instead of a mapping.

    Raises:
        ModelError: If the argument is not a mapping, or an entry has an unknown key.
    """
    argument_name = where.rsplit(".", 1)[-1]
    if value is None or value == "":
        return ()
    if not isinstance(value, Mapping):
        raise ModelError(
            f"'{argument_name}' maps names of the body to what they are, but this is {value!r}",
            where,
            f"write {argument_name}: {{name: {{...}}}}",
        )
    return tuple(
        _parse_entry(str(name), entry, where, tuple(keys), short_key)
        for name, entry in value.items()
    )


def _parse_entry(
    name: str, entry: DocumentValue, where: str, keys: tuple[str, ...], short_key: str
) -> NamedEntry:
    """Parse one entry (a name with fields) of a mapping.

    Raise ModelError if the entry has an unknown key.
    """
    entry_path = f"{where}['{name}']"
    if short_key and not isinstance(entry, Mapping):
        entry = {short_key: entry}
    if not isinstance(entry, Mapping):
        raise ModelError(
            f"'{name}' is written as {{{', '.join(f'{key}: ...' for key in keys)}}}, "
            f"but this is {entry!r}",
            entry_path,
        )
    for key in entry:
        if key not in keys:
            raise ModelError(f"'{name}' has a key '{key}'", entry_path, suggest(str(key), keys))
    return NamedEntry(name, dict(entry), entry_path)


def split_literal(text: str) -> list[str] | None:
    """Split the text of a tuple or list, such as `(a, b)`, into expressions.

    Return None for any other text.
    """
    try:
        expression = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None
    if isinstance(expression, ast.Tuple | ast.List):
        return [ast.unparse(element) for element in expression.elts]
    return None


def list_expressions(value: DocumentValue) -> tuple[DocumentValue, ...]:
    """Return the expressions of a list, or of a text such as `(x, y)`, and no expressions for None."""
    if isinstance(value, list | tuple):
        return tuple(value)
    if value is None or value == "":
        return ()
    literal_elements = split_literal(value) if isinstance(value, str) else None
    return (value,) if literal_elements is None else tuple(literal_elements)
