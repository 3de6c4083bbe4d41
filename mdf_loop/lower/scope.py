"""Scopes that map the names in an expression to values of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mdf_loop.errors import UnknownNameError
from mdf_loop.lower.operators import Term
from mdf_loop.name_suggestions import suggest


class Scope:
    """Mapping from the names that an expression may read to values, with an enclosing scope.

    Names of a node or a body hide equal names of the enclosing scope.

    An entry may be a function that computes the term on access. `texts` are the parameters of a
    node that are plain text in the document.
    """

    def __init__(
        self,
        entries: Mapping[str, Term | Callable[[], Term]] | None = None,
        parent: Scope | None = None,
        *,
        is_node: bool = False,
    ) -> None:
        self._definitions: dict[str, Term | Callable[[], Term]] = dict(entries or {})
        self.parent = parent
        self.is_node = is_node
        self.texts: Mapping[str, Callable[[], Any]] = {}

    def define(self, name: str, term: Term | Callable[[], Term]) -> None:
        """Bind a name to a value, or to a function that computes the value on access."""
        self._definitions[name] = term

    def find(self, name: str) -> Term | None:
        """Return the value of a name in this scope or an enclosing one, or None if unknown."""
        definition = self._definitions.get(name)
        if definition is None:
            return self.parent.find(name) if self.parent else None
        return definition() if callable(definition) else definition

    def find_in_node(self, name: str) -> Term | None:
        """Return the value of a name that is defined inside the MDF node, or None if unknown."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._definitions:
                return scope.find(name)
            scope = None if scope.is_node else scope.parent
        return None

    def is_in_node(self, name: str) -> bool:
        """Return True if the name is defined inside the node, without computing its value."""
        scope: Scope | None = self
        while scope is not None and name not in scope._definitions:
            scope = None if scope.is_node else scope.parent
        return scope is not None

    def text_in_node(self, name: str) -> Any | None:
        """Return the text, or list of texts, of the MDF node's parameter `name`, else None."""
        scope: Scope | None = self
        while scope is not None and not scope.is_node:
            scope = scope.parent
        return scope.texts[name]() if scope is not None and name in scope.texts else None

    def __contains__(self, name: object) -> bool:
        is_local = name in self._definitions
        return is_local or (self.parent is not None and name in self.parent)

    def inner(self, entries: Mapping[str, Term | Callable[[], Term]] | None = None) -> Scope:
        """Return a new scope that is enclosed by this scope."""
        return Scope(entries, self)

    def names(self) -> tuple[str, ...]:
        """Return all names that are defined in this scope and its enclosing scopes."""
        outer_names = self.parent.names() if self.parent else ()
        return (
            *self._definitions,
            *(name for name in outer_names if name not in self._definitions),
        )

    def get(self, name: str) -> Term:
        """Return the value of a name, or raise an error that suggests a known name."""
        term = self.find(name)
        if term is None:
            raise unknown_name(name, self.names())
        return term


def unknown_name(name: str, known_names: Iterable[str]) -> UnknownNameError:
    """Return the error for an unknown name in an expression, with suggestions."""
    known_names = list(known_names)
    known_names_text = ", ".join(
        f"'{known_name}'" for known_name in known_names[:_MAX_LISTED_NAMES]
    )
    hint = suggest(name, known_names) or (
        f"known here: {known_names_text}, ..." if known_names else ""
    )
    return UnknownNameError(f"unknown name '{name}'", hint=hint)


_MAX_LISTED_NAMES = 8
"""Maximum number of known names that an error lists."""
