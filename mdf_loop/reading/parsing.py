"""Files of MDF -> their plain content: mappings, lists, numbers, text. A key twice is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

from mdf_loop.errors import ModelError

MOST_ALIASED = 100_000
"""Parts that aliases may stand for; a document that really writes more is read."""

_DEEPEST = 200


def parse(path: Path) -> Any:
    """The plain content of a JSON, YAML or BSON file; a key twice in one mapping is an error."""
    if path.suffix.lower() == ".bson":
        import bson

        return bson.decode(path.read_bytes())
    with path.open(encoding="utf-8") as file:
        if path.suffix.lower() == ".json":
            return json.load(file, object_pairs_hook=_unique)
        return _parse_yaml(file)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _twice(next(key for k, key in enumerate(keys) if key in keys[:k]))
    return content


def _parse_yaml(file: TextIO) -> Any:
    """By the parser in C, where it is there; what that one refuses, the other one says better."""
    import yaml

    quick = getattr(yaml, "CSafeLoader", None)
    text = file.read()
    if quick is not None:
        try:
            if _is_shallow(text, quick):
                return _content(quick(text))
        except yaml.YAMLError:
            pass
    file.seek(0)
    return _content(yaml.SafeLoader(file))


def _is_shallow(text: str, loader: Any) -> bool:
    """Whether no part is nested too deep for a parser that goes down by recursion in C."""
    import yaml

    depth = 0
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                return False
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return True


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
    import yaml

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
                    raise _twice(key.value, f", again in line {line}")
                seen.add(named)


def _twice(key: str, line: str = "") -> ModelError:
    return ModelError(
        f"'{key}' is written twice in one mapping{line}", hint="rename one, or remove it"
    )
