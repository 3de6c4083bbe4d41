"""Fast parser of YAML text with the results of PyYAML's `SafeLoader`.

If libyaml is available, documents of numbers, texts, lists and mappings are read from libyaml's events, which
is fast for long lists of numbers. All other content (aliases, tags, merged mappings, very deep nesting,
errors) is read from PyYAML's nodes, which have line numbers.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any, TextIO

import yaml

from mdf_loop.errors import ModelError

MAX_ALIASED_PARTS = 100_000
"""Maximum number of parts that aliases expand to. The number of written parts is not limited."""

_MAX_NESTING = 200
"""Maximum nesting for libyaml, which recurses in C."""

_C_LOADER: Any = getattr(yaml, "CSafeLoader", None)


def read_yaml(file: TextIO) -> Any:
    """Parse YAML text to Python dicts, lists, numbers and strings.

    Raises:
        ModelError: A key is duplicate or no text, or aliases expand to too many parts.
        yaml.YAMLError: The text is not valid YAML.
    """
    yaml_text = file.read()
    if _C_LOADER is not None:
        # Errors are raised below, because the parser in Python has better messages.
        with contextlib.suppress(yaml.YAMLError, _TooDeep):
            return _read_from_events(yaml_text)
    return _read_from_nodes(yaml.SafeLoader(yaml_text))


def _read_from_events(text: str) -> Any:
    try:
        return _EventReader(text).read_document()
    except _NodesNeeded:
        _refuse_deep_nesting(text)
        return _read_from_nodes(_C_LOADER(text))


# --- reading of events ------------------------------------------------------------------------


class _NodesNeeded(Exception):  # noqa: N818 - no error: the document is read through nodes
    """Exception for YAML content that the event reader cannot read, so that PyYAML reads it."""


_NUMBER_PATTERN = re.compile(
    r"([-+]?(?:0|[1-9][0-9]{0,99}))|[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?"
)
"""Integers and floats whose notation is the same in YAML 1.1 and in Python."""

_TYPED_SCALAR_STARTS = frozenset(yaml.SafeLoader.yaml_implicit_resolvers)
"""First characters of unquoted scalars that may be other values than texts."""

_UNSUPPORTED_TAGS = ("tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")


class _EventReader:
    """Reader of YAML that builds the content of a document from the parser's events."""

    def __init__(self, text: str) -> None:
        self._loader = _C_LOADER(text)
        self._next_event = self._loader.get_event
        self._content_by_scalar: dict[str, Any] = {}

    def read_document(self) -> Any:
        """Parse the text, which has a single YAML document, and return its content."""
        try:
            self._next_event()  # the stream begins
            if not isinstance(self._next_event(), yaml.DocumentStartEvent):
                return None
            document_content = self._read_value(self._next_event(), 0)
            self._next_event()  # the document ends
            if not isinstance(self._next_event(), yaml.StreamEndEvent):
                raise _NodesNeeded
            return document_content
        finally:
            self._loader.dispose()

    def _read_value(self, event: Any, depth: int) -> Any:
        event_type = type(event)
        if event_type is yaml.AliasEvent or event.anchor is not None or event.tag is not None:
            raise _NodesNeeded
        if event_type is yaml.ScalarEvent:
            return self._read_scalar(event)
        if depth == _MAX_NESTING:
            raise _NodesNeeded
        return (self._read_list if event_type is yaml.SequenceStartEvent else self._read_mapping)(
            depth + 1
        )

    def _read_list(self, depth: int) -> list[Any]:
        list_members: list[Any] = []
        next_event, append_member, scalar_event_type, match_number = (
            self._next_event,
            list_members.append,
            yaml.ScalarEvent,
            _NUMBER_PATTERN.fullmatch,
        )
        while type(event := next_event()) is not yaml.SequenceEndEvent:
            if type(event) is scalar_event_type and event.implicit[0] and event.anchor is None:
                number_match = match_number(event.value)
                if number_match is not None:
                    append_member(
                        int(event.value) if number_match.lastindex else float(event.value)
                    )
                    continue
            append_member(self._read_value(event, depth))
        return list_members

    def _read_mapping(self, depth: int) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        while type(event := self._next_event()) is not yaml.MappingEndEvent:
            if type(event) is not yaml.ScalarEvent or event.anchor or event.tag:
                raise _NodesNeeded
            mapping_key = self._read_scalar(event)
            if mapping_key in mapping:
                raise _NodesNeeded
            mapping[mapping_key] = self._read_value(self._next_event(), depth)
        return mapping

    def _read_scalar(self, event: Any) -> Any:
        """Return the string, number, bool, null or date that an unquoted YAML scalar denotes."""
        scalar_text: str = event.value
        if not event.implicit[0] or (scalar_text[:1] not in _TYPED_SCALAR_STARTS):
            return scalar_text
        if scalar_text not in self._content_by_scalar:
            self._content_by_scalar[scalar_text] = self._resolve_scalar(scalar_text)
        return self._content_by_scalar[scalar_text]

    def _resolve_scalar(self, scalar_text: str) -> Any:
        yaml_tag = self._loader.resolve(yaml.ScalarNode, scalar_text, (True, False))
        if yaml_tag in _UNSUPPORTED_TAGS:
            raise _NodesNeeded
        try:
            return self._loader.construct_object(yaml.ScalarNode(yaml_tag, scalar_text))
        except (ValueError, OverflowError, yaml.YAMLError):  # e.g. a date that does not exist
            raise _NodesNeeded from None


# --- reading of nodes -------------------------------------------------------------------------


class _TooDeep(Exception):  # noqa: N818 - no error: the parser in Python does not recurse in C
    """Exception for YAML content that is nested too deep for libyaml."""


def _refuse_deep_nesting(text: str) -> None:
    nesting_depth = 0
    for event in yaml.parse(text, _C_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            nesting_depth += 1
            if nesting_depth > _MAX_NESTING:
                raise _TooDeep
        elif isinstance(event, yaml.CollectionEndEvent):
            nesting_depth -= 1


def _read_from_nodes(loader: Any) -> Any:
    try:
        root_node = loader.get_single_node()
        if root_node is None:
            return None
        _refuse_large_aliases(root_node)
        _refuse_duplicate_keys(root_node)  # YAML's loader would silently use the last one
        return loader.construct_document(root_node)
    finally:
        loader.dispose()


def _refuse_large_aliases(root: Any) -> None:
    """Raise an error for recursive aliases, or for aliases that expand to too many parts."""
    expanded_size_by_node_id: dict[int, int] = {}
    ancestor_node_ids: set[int] = set()
    pending_nodes = [(root, False)]
    while pending_nodes:
        node, are_children_visited = pending_nodes.pop()
        child_nodes = _list_child_nodes(node)
        if are_children_visited:
            ancestor_node_ids.discard(id(node))
            expanded_size_by_node_id[id(node)] = 1 + sum(
                expanded_size_by_node_id[id(child_node)] for child_node in child_nodes
            )
        elif id(node) in ancestor_node_ids:
            line_number = node.start_mark.line + 1
            raise ModelError(
                f"what begins in line {line_number} contains itself: its alias is inside it"
            )
        elif id(node) not in expanded_size_by_node_id:
            ancestor_node_ids.add(id(node))
            pending_nodes.append((node, True))
            pending_nodes.extend((child_node, False) for child_node in child_nodes)
    if expanded_size_by_node_id[id(root)] - len(expanded_size_by_node_id) > MAX_ALIASED_PARTS:
        raise ModelError(
            f"the document's aliases spell out to more than {MAX_ALIASED_PARTS} parts",
            hint="write an alias for a small part only",
        )


def _list_child_nodes(node: Any) -> list[Any]:
    """Return the child nodes of a YAML node."""
    if isinstance(node.value, str):
        return []
    child_groups = (
        list_member if isinstance(list_member, tuple) else (list_member,)
        for list_member in node.value
    )
    return [child_node for child_group in child_groups for child_node in child_group]


def _refuse_duplicate_keys(root: Any) -> None:
    pending_nodes, visited_ids = [root], set()
    while pending_nodes:
        node = pending_nodes.pop()
        if id(node) in visited_ids:
            continue
        visited_ids.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            pending_nodes.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            pending_nodes.extend(value_node for _, value_node in node.value)
            earlier_keys: set[tuple[str, str]] = set()
            for key_node, _ in node.value:
                line_number = key_node.start_mark.line + 1
                if not isinstance(key_node, yaml.ScalarNode):
                    raise ModelError(
                        f"a name in line {line_number} is not text, but a list or a mapping"
                    )
                tag_and_text = (key_node.tag, str(key_node.value))
                if tag_and_text in earlier_keys:
                    raise duplicate_key_error(key_node.value, f", again in line {line_number}")
                earlier_keys.add(tag_and_text)


def duplicate_key_error(key: str, line: str = "") -> ModelError:
    """Return the error for a duplicate key of a mapping."""
    return ModelError(
        f"'{key}' is written twice in one mapping{line}", hint="rename one, or remove it"
    )
