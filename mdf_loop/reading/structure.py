"""The skeleton of an MDF document: mappings where MDF has mappings, names that are text.

modeci_mdf loads much that it cannot run, such as nodes in a list, and says what it refuses in the
words of its libraries. So this is looked at first, on the plain mappings of the document.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from mdf_loop.errors import Finding, ModelError

MOST_ALIASED = 100_000
"""Parts that aliases may stand for; a document that really writes more is read."""

_DEEPEST = 200

_PARTS = {
    "input_ports": "input port",
    "functions": "function",
    "parameters": "parameter",
    "output_ports": "output port",
}
_ENDS = ("sender", "sender_port", "receiver", "receiver_port")
_NESTED = (
    "put its nodes into the graph itself, with the edges that lead to them and from them "
    "(PsyNeuLink leaves those out)"
)
_EXAMPLE = {"input_ports": "{}", "functions": "{function: ..., args: {...}}"}


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


def model_findings(document: Any) -> Iterator[Finding]:
    """What is wrong with the skeleton of a model, `{name: {graphs: ...}}`."""
    if not isinstance(document, Mapping):
        return  # modeci_mdf says it
    if not document:
        yield _finding("the document is empty", "$", "write {name: {graphs: ...}}")
        return
    content = document if "id" in document else next(iter(document.values()))
    if not isinstance(content, Mapping):
        what = f"the document is not an MDF model: its content is {_said(content)}"
        yield _finding(what, "$", "write {name: {graphs: ...}}")
        return
    for k, (graph_id, graph) in enumerate(_named(content.get("graphs", {}), "graph", "$.graphs")):
        if isinstance(graph, Finding):
            yield graph
        else:
            yield from graph_findings(graph_id, graph, f"$.graphs[{k}]")


def graph_findings(graph_id: str, graph: Any, where: str) -> Iterator[Finding]:
    """What is wrong with the skeleton of one graph."""
    yield from _metadata(graph, f"the graph '{graph_id}'", where)
    for node_id, node in _named(graph.get("nodes", {}), "node", f"{where}.nodes"):
        if isinstance(node, Finding):
            yield node
        elif node.get("nodes"):
            what = f"the node '{node_id}' is a graph with nodes of its own, which MDF does not have"
            yield Finding("UnsupportedError", what, f"{where}.nodes['{node_id}']", _NESTED)
        else:
            yield from _node_findings(node_id, node, f"{where}.nodes['{node_id}']")
    for edge_id, edge in _named(graph.get("edges", {}), "edge", f"{where}.edges"):
        if isinstance(edge, Finding):
            yield edge
        else:
            yield from _edge_findings(edge_id, edge, f"{where}.edges['{edge_id}']")


def _edge_findings(edge_id: str, edge: Mapping[str, Any], where: str) -> Iterator[Finding]:
    missing = [end for end in _ENDS if end not in edge]
    if missing:
        yield _finding(
            f"the edge '{edge_id}' has no {', no '.join(missing)}",
            where,
            f"an edge names its {', '.join(_ENDS)}",
        )
    yield from _metadata(edge, f"the edge '{edge_id}'", where)
    if not _may_be_mapping(edge.get("parameters")):
        yield _no_mapping("parameters", edge["parameters"], where)


def _node_findings(node_id: str, node: Mapping[str, Any], where: str) -> Iterator[Finding]:
    yield from _metadata(node, f"the node '{node_id}'", where)
    for section, kind in _PARTS.items():
        for part_id, part in _named(node.get(section, {}), kind, f"{where}.{section}"):
            if isinstance(part, Finding):
                yield part
            else:
                there = f"{where}.{section}['{part_id}']"
                yield from _metadata(part, f"the {kind} '{part_id}'", there)
                yield from _part_findings(part, there)


def _part_findings(part: Mapping[str, Any], where: str) -> Iterator[Finding]:
    if not _may_be_mapping(part.get("args")):
        yield _no_mapping("args", part["args"], where)
    function = part.get("function")
    if isinstance(function, Mapping):
        named = len(function) == 1 and all(isinstance(key, str) for key in function)
        arguments = next(iter(function.values()), None)
        if not named:
            yield _finding("a function has one name", where, "write function: name, args: {...}")
        elif not _may_be_mapping(arguments):
            yield _no_mapping("function", arguments, where)
    yield from _condition_findings(part.get("conditions"), where)
    shape = part.get("shape")
    sizes = shape if isinstance(shape, list | tuple) else [None]
    if shape is not None and not all(_is_extent(n) for n in sizes):
        yield _finding(f"a shape is a list of whole numbers, not {shape!r}", where, "e.g. [2, 3]")


_CONDITIONS = "write conditions: {name: {test: ..., value: ...}}"


def _condition_findings(conditions: Any, where: str) -> Iterator[Finding]:
    """What is wrong with a parameter's conditions, which are a mapping or a list of mappings."""
    listed = list(conditions.values()) if isinstance(conditions, Mapping) else conditions
    if listed is None:
        return
    if not isinstance(listed, list | tuple):
        yield _finding(f"'conditions' is {_said(conditions)}", where, _CONDITIONS)
        return
    for part in listed:
        if not isinstance(part, Mapping) and not hasattr(part, "test"):
            yield _finding(f"a condition is {_said(part)}", where, _CONDITIONS)


def _is_extent(written: Any) -> bool:
    """Whether it is a whole number of at most 63 bits, also as text."""
    text = str(written)[:40]
    return text.lstrip("-").isdecimal() and abs(int(text)) < 2**63


def _metadata(part: Mapping[str, Any], what: str, where: str) -> Iterator[Finding]:
    if not _may_be_mapping(part.get("metadata")):
        yield _finding(
            f"the metadata of {what} is {_said(part['metadata'])}", where, "write a mapping"
        )


def _named(section: Any, kind: str, where: str) -> Iterator[tuple[str, Any]]:
    """The parts of a section by name; what is none comes as a finding."""
    if isinstance(section, list) and not section:
        return
    if not isinstance(section, Mapping):
        name = where.rsplit(".", 1)[-1]
        advice = f"leave '{name}' out" if section is None else "write a mapping of names to parts"
        yield "", _finding(f"'{name}' is {_said(section)}", where, advice)
        return
    example = _EXAMPLE.get(where.rsplit(".", 1)[-1], "{...}")
    for name, part in section.items():
        if not isinstance(name, str):
            advice = f'write it in quotes: "{name}"'
            yield "", _finding(f"the name {name!r} of a {kind} is not text", where, advice)
        elif not isinstance(part, Mapping):
            said = f"the {kind} '{name}' is {_said(part)}"
            yield name, _finding(said, f"{where}['{name}']", f"write {name}: {example}")
        else:
            yield name, part


def _may_be_mapping(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)


def _no_mapping(key: str, value: Any, where: str) -> Finding:
    return _finding(f"'{key}' is {_said(value)}", where, f"write {key}: {{name: ...}}")


def _said(value: Any) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return f"a truth value, {str(value).lower()}"
        case int() | float():
            return f"a number, {str(value)[:20]}"
        case str():
            return f"text, '{value[:40]}'"
        case list() | tuple():
            return "a list"
    return f"of type {type(value).__name__}"


def _finding(what: str, where: str, hint: str) -> Finding:
    return Finding("ModelError", what, where, hint)
