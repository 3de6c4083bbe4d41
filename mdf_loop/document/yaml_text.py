"""YAML text -> its plain content, as PyYAML's `SafeLoader` reads it; a key twice is an error.

What a document of numbers, texts, lists and mappings says is taken from the events of libyaml,
where that is there: a list of numbers costs little more than its text. Everything else (aliases,
tags, merged mappings, what is nested very deep, what is wrong) is read by way of PyYAML's nodes,
which know their lines.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any, TextIO

import yaml

from mdf_loop.errors import ModelError

MOST_ALIASED = 100_000
"""Parts that aliases may stand for; a document that really writes more is read."""

_DEEPEST = 200
"""How deep libyaml is let go down, which it does by recursion in C."""

_QUICK: Any = getattr(yaml, "CSafeLoader", None)


def read_yaml(file: TextIO) -> Any:
    """The content of a document.

    Raises:
        ModelError: a mapping has a key twice or one that is no text, aliases spell out to a flood.
        yaml.YAMLError: it is no YAML.
    """
    text = file.read()
    if _QUICK is not None:
        with contextlib.suppress(yaml.YAMLError, _TooDeep):  # the parser in Python says it better
            return _read_quickly(text)
    return _content(yaml.SafeLoader(text))


def _read_quickly(text: str) -> Any:
    try:
        return _Events(text).document()
    except _Unusual:
        _refuse_deep(text)
        return _content(_QUICK(text))


# --- from events ------------------------------------------------------------------------------


class _Unusual(Exception):  # noqa: N818 - no error: there is another way
    """Something is there that events alone do not say."""


_NUMBER = re.compile(r"([-+]?(?:0|[1-9][0-9]{0,99}))|[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?")
"""Whole numbers and those with a point, as YAML 1.1 has them and Python reads them."""

_FIRST = frozenset(yaml.SafeLoader.yaml_implicit_resolvers)
"""The first characters of everything that is not simply a text."""

_NO_VALUES = ("tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")


class _Events:
    """The content that is made of a document's events, one after the other."""

    def __init__(self, text: str) -> None:
        self._loader = _QUICK(text)
        self._next = self._loader.get_event
        self._words: dict[str, Any] = {}

    def document(self) -> Any:
        """The one document of the text."""
        try:
            self._next()  # the stream begins
            if not isinstance(self._next(), yaml.DocumentStartEvent):
                return None
            content = self._value(self._next(), 0)
            self._next()  # the document ends
            if not isinstance(self._next(), yaml.StreamEndEvent):
                raise _Unusual
            return content
        finally:
            self._loader.dispose()

    def _value(self, event: Any, depth: int) -> Any:
        kind = type(event)
        if kind is yaml.AliasEvent or event.anchor is not None or event.tag is not None:
            raise _Unusual
        if kind is yaml.ScalarEvent:
            return self._scalar(event)
        if depth == _DEEPEST:
            raise _Unusual
        return (self._list if kind is yaml.SequenceStartEvent else self._mapping)(depth + 1)

    def _list(self, depth: int) -> list[Any]:
        made: list[Any] = []
        read, append, scalar, number = self._next, made.append, yaml.ScalarEvent, _NUMBER.fullmatch
        while type(event := read()) is not yaml.SequenceEndEvent:
            if type(event) is scalar and event.implicit[0] and event.anchor is None:
                found = number(event.value)
                if found is not None:
                    append(int(event.value) if found.lastindex else float(event.value))
                    continue
            append(self._value(event, depth))
        return made

    def _mapping(self, depth: int) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        while type(event := self._next()) is not yaml.MappingEndEvent:
            if type(event) is not yaml.ScalarEvent or event.anchor or event.tag:
                raise _Unusual
            key = self._scalar(event)
            if key in made:
                raise _Unusual
            made[key] = self._value(self._next(), depth)
        return made

    def _scalar(self, event: Any) -> Any:
        """A text, or what YAML takes for something else where it stands without quotes."""
        text: str = event.value
        if not event.implicit[0] or (text[:1] not in _FIRST):
            return text
        if text not in self._words:
            self._words[text] = self._resolved(text)
        return self._words[text]

    def _resolved(self, text: str) -> Any:
        tag = self._loader.resolve(yaml.ScalarNode, text, (True, False))
        if tag in _NO_VALUES:
            raise _Unusual
        try:
            return self._loader.construct_object(yaml.ScalarNode(tag, text))
        except (ValueError, OverflowError, yaml.YAMLError):  # a day that no month has
            raise _Unusual from None


# --- by way of nodes --------------------------------------------------------------------------


class _TooDeep(Exception):  # noqa: N818 - no error: the parser in Python does not go down in C
    """A part is nested too deep for libyaml."""


def _refuse_deep(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, _QUICK):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise _TooDeep
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _content(loader: Any) -> Any:
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _refuse_endless(root)
        _refuse_equal_keys(root)  # YAML's loader would silently keep the last
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _refuse_endless(root: Any) -> None:
    """Refuse an alias inside what it names, and aliases of aliases that spell out to a flood."""
    sizes: dict[int, int] = {}
    begun: set[int] = set()
    waiting = [(root, False)]
    while waiting:
        node, whole = waiting.pop()
        parts = _parts(node)
        if whole:
            begun.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(part)] for part in parts)
        elif id(node) in begun:
            line = node.start_mark.line + 1
            raise ModelError(f"what begins in line {line} contains itself: its alias is inside it")
        elif id(node) not in sizes:
            begun.add(id(node))
            waiting.append((node, True))
            waiting.extend((part, False) for part in parts)
    if sizes[id(root)] - len(sizes) > MOST_ALIASED:
        raise ModelError(
            f"the document's aliases spell out to more than {MOST_ALIASED} parts",
            hint="write an alias for a small part only",
        )


def _parts(node: Any) -> list[Any]:
    """The nodes that a YAML node holds."""
    if isinstance(node.value, str):
        return []
    pairs = (part if isinstance(part, tuple) else (part,) for part in node.value)
    return [part for pair in pairs for part in pair]


def _refuse_equal_keys(root: Any) -> None:
    waiting, visited = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            waiting.extend(value for _, value in node.value)
            seen: set[tuple[str, str]] = set()
            for key, _ in node.value:
                line = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode):
                    raise ModelError(f"a name in line {line} is not text, but a list or a mapping")
                named = (key.tag, str(key.value))
                if named in seen:
                    raise key_twice(key.value, f", again in line {line}")
                seen.add(named)


def key_twice(key: str, line: str = "") -> ModelError:
    """The error about a key that is in a mapping twice."""
    return ModelError(
        f"'{key}' is written twice in one mapping{line}", hint="rename one, or remove it"
    )
