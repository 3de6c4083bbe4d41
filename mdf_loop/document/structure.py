"""The skeleton of an MDF document: mappings where MDF has mappings, names that are text, known keys.

modeci_mdf loads much that it cannot run, such as nodes in a list, drops what it does not know, and
says what it refuses in the words of its libraries. So this is looked at first, on the plain
mappings of the document. A model in memory is looked at in the same way: its objects are taken as
mappings of their fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mdf_loop.document.keys import unread_entries, unread_keys, unread_time_unit, unread_weights
from mdf_loop.document.stated_types import type_advice
from mdf_loop.durations import SECONDS, UNIT_HINT, UNITS
from mdf_loop.errors import Finding

TIME_UNIT = "time_unit"
"""The key of a graph's metadata that states the unit of its time."""

DIMS = "dims"
"""The key of a part's metadata that names its axes."""

TAKEN = ("time", "step", "batch", "trial")
"""Names of axes that results have in front."""

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


def model_findings(document: Any) -> Iterator[Finding]:
    """What is wrong with the skeleton of a model: `{name: {graphs: ...}}`, or a Model."""
    if hasattr(document, "graphs"):
        document = {document.id: fields(document)}
    if not isinstance(document, Mapping):
        return  # modeci_mdf says it
    if not document:
        yield _finding("the document is empty", "$", "write {name: {graphs: ...}}")
        return
    name = str(document["id"] if "id" in document else next(iter(document)))
    content = document if "id" in document else next(iter(document.values()))
    if not isinstance(content, Mapping):
        what = f"the document is not an MDF model: its content is {_said(content)}"
        yield _finding(what, "$", "write {name: {graphs: ...}}")
        return
    if content is not document:
        yield from unread_entries(document)
    yield from unread_keys("model", content, name, "$")
    for k, (graph_id, graph) in enumerate(_named(content.get("graphs", {}), "graph", "$.graphs")):
        if isinstance(graph, Finding):
            yield graph
        else:
            yield from graph_findings(graph_id, graph, f"$.graphs[{k}]")


def graph_findings(graph_id: str, graph: Any, where: str) -> Iterator[Finding]:
    """What is wrong with the skeleton of one graph, and of those inside it."""
    graph = fields(graph)
    yield from _common("graph", graph_id, graph, where)
    yield from _time_unit_findings(graph_id, graph.get("metadata"), where)
    yield from _schedule_findings(graph.get("conditions"), f"{where}.conditions")
    for node_id, node in _named(graph.get("nodes", {}), "node", f"{where}.nodes"):
        there = f"{where}.nodes['{node_id}']"
        if isinstance(node, Finding):
            yield node
        elif "nodes" in node:  # modeci_mdf makes an empty node of it
            what = f"the node '{node_id}' is a graph with nodes of its own, which MDF does not have"
            yield Finding("UnsupportedError", what, there, _NESTED)
            yield from graph_findings(node_id, node, there)
        else:
            yield from _node_findings(node_id, node, there)
    for edge_id, edge in _named(graph.get("edges", {}), "edge", f"{where}.edges"):
        if isinstance(edge, Finding):
            yield edge
        else:
            yield from _edge_findings(edge_id, edge, f"{where}.edges['{edge_id}']")


def fields(part: Any) -> Any:
    """An object of modeci_mdf as a mapping of its fields; anything else as it is."""
    import attr

    if not attr.has(type(part)):
        return part
    return {field.name: getattr(part, field.name) for field in attr.fields(type(part))}


def _common(kind: str, name: str, part: Mapping[str, Any], where: str) -> Iterator[Finding]:
    """What is wrong with keys, and with the metadata."""
    yield from unread_keys(kind, part, name, where)
    if not _may_be_mapping(part.get("metadata")):
        said = f"the metadata of the {kind} '{name}' is {_said(part['metadata'])}"
        yield _finding(said, where, "write a mapping")


def _time_unit_findings(graph_id: str, metadata: Any, where: str) -> Iterator[Finding]:
    """What is wrong with the unit of time that a graph states."""
    if not isinstance(metadata, Mapping):
        return
    yield from unread_time_unit(graph_id, metadata, TIME_UNIT, where)
    if TIME_UNIT not in metadata:
        return
    unit = metadata[TIME_UNIT]
    if not isinstance(unit, str) or unit not in UNITS:
        yield _finding(
            f"'{TIME_UNIT}' of the graph '{graph_id}' is {_said(unit)}, which is no unit of time",
            f"{where}.metadata",
            f"{UNIT_HINT}; without '{TIME_UNIT}' it is {SECONDS}",
        )


def _edge_findings(edge_id: str, edge: Mapping[str, Any], where: str) -> Iterator[Finding]:
    missing = [end for end in _ENDS if end not in edge]
    if missing:
        yield _finding(
            f"the edge '{edge_id}' has no {', no '.join(missing)}",
            where,
            f"an edge names its {', '.join(_ENDS)}",
        )
    yield from _common("edge", edge_id, edge, where)
    if not _may_be_mapping(edge.get("parameters")):
        yield _no_mapping("parameters", edge["parameters"], where)
    yield from unread_weights(edge.get("parameters"), edge_id, where)


def _node_findings(node_id: str, node: Mapping[str, Any], where: str) -> Iterator[Finding]:
    yield from _common("node", node_id, node, where)
    for section, kind in _PARTS.items():
        for part_id, part in _named(node.get(section, {}), kind, f"{where}.{section}"):
            if isinstance(part, Finding):
                yield part
            else:
                there = f"{where}.{section}['{part_id}']"
                yield from _common(kind, part_id, part, there)
                yield from _dims_findings(kind, part_id, part, there)
                yield from _part_findings(part, there)
                if advice := type_advice(part.get("type")):
                    said = f"the type '{part['type']}' of the {kind} '{part_id}'"
                    yield _finding(f"{said} is none that there is", there, advice)


def _dims_findings(kind: str, name: str, part: Mapping[str, Any], where: str) -> Iterator[Finding]:
    """What is wrong with the names of axes; a list without any text is none of ours.

    Beside a stated shape they name its open extents, of which two may be one, and others are numbers.
    """
    metadata = part.get("metadata")
    stated = metadata.get(DIMS) if isinstance(metadata, Mapping) else None
    if part.get("shape") is not None:
        return
    if not isinstance(stated, list | tuple) or not any(isinstance(dim, str) for dim in stated):
        return
    for k, dim in enumerate(stated):
        said = f"'{DIMS}' of the {kind} '{name}' is to name axes, but "
        if not isinstance(dim, str):
            said += f"one of them is {_said(dim)}"
        elif not dim.strip() or not dim.isprintable():
            said += f"{dim[:40]!r} is no name"
        elif dim in TAKEN:
            said += f"'{dim}' is the name of an axis that results have in front"
        elif dim in stated[:k]:
            said += f"'{dim[:40]}' is there twice"
        else:
            continue
        yield _finding(said, f"{where}.metadata", f"a name for each axis: {DIMS}: [cell, synapse]")


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
    yield from _owned_findings(part, where)
    shape = part.get("shape")
    sizes = shape if isinstance(shape, list | tuple) else [None]
    if shape is not None and not all(_is_extent(n) for n in sizes):
        yield _finding(f"a shape is a list of whole numbers, not {shape!r}", where, "e.g. [2, 3]")


# --- graphs inside ------------------------------------------------------------------------------

BESIDE = {"graph", "inputs", "outputs"}
"""Keys of a mapping that holds a graph with its signature beside it."""


def _owned_findings(part: Mapping[str, Any], where: str) -> Iterator[Finding]:
    """What is wrong with the graphs that the arguments or the value of a part hold."""
    args = part.get("args")
    function = part.get("function")
    if isinstance(function, Mapping):
        args = next(iter(function.values()), None)
    places = {f"args.{k}": v for k, v in args.items()} if isinstance(args, Mapping) else {}
    for place, value in {**places, "value": part.get("value")}.items():
        for graph_id, graph, there in _graphs_in(value, f"{where}.{place}"):
            yield from graph_findings(graph_id, graph, there)


def _graphs_in(value: Any, where: str) -> Iterator[tuple[str, Any, str]]:
    """The graphs that are written for an argument: their ids, content, paths."""
    if isinstance(value, list | tuple):
        graphs = value if value and isinstance(fields(value[0]), Mapping) else ()
        for k, part in enumerate(graphs):
            yield from _graphs_in(part, f"{where}[{k}]")
        return
    value = fields(value)
    if not isinstance(value, Mapping) or not value:
        return
    if "graph" in value and set(value) <= BESIDE:
        yield from _graphs_in(value["graph"], f"{where}.graph")
    elif isinstance(value.get("nodes"), Mapping | list):
        yield str(value.get("id", "body")), value, where
    elif len(value) == 1:
        graph_id, inner = next(iter(value.items()))
        inner = fields(inner)
        if isinstance(inner, Mapping) and isinstance(inner.get("nodes"), Mapping | list):
            yield str(graph_id), inner, where


# --- conditions ---------------------------------------------------------------------------------


def _schedule_findings(conditions: Any, where: str) -> Iterator[Finding]:
    """What is wrong with the keys of a graph's conditions."""
    conditions = fields(conditions)
    if not isinstance(conditions, Mapping):
        return  # modeci_mdf says it
    yield from unread_keys("set of conditions", conditions, "", where)
    for section in ("node_specific", "termination"):
        listed = conditions.get(section)
        for name, condition in listed.items() if isinstance(listed, Mapping) else ():
            yield from _scheduler_findings(condition, f"{where}.{section}['{name}']")


def _scheduler_findings(condition: Any, where: str) -> Iterator[Finding]:
    """The same for one condition, and for those that it is made of."""
    condition = fields(condition)
    if not isinstance(condition, Mapping):
        return
    yield from unread_keys("condition", condition, str(condition.get("type", "")), where)
    given = condition.get("kwargs")
    for key, value in given.items() if isinstance(given, Mapping) else ():
        several = isinstance(value, list | tuple)
        for k, part in enumerate(value if several else [value]):
            part = fields(part)
            if isinstance(part, Mapping) and "type" in part:
                place = f"{key}[{k}]" if several else key
                yield from _scheduler_findings(_inner(part), f"{where}.{place}")


def _inner(condition: Mapping[str, Any]) -> Mapping[str, Any]:
    """A condition inside another one: modeci_mdf takes its further keys for arguments, too."""
    own = {key: value for key, value in condition.items() if key in ("type", "kwargs", "metadata")}
    if isinstance(condition.get("args"), Mapping):
        own["args"] = condition["args"]
    further = {key: value for key, value in condition.items() if key not in own}
    given = own.get("kwargs")
    return {**own, "kwargs": {**further, **(given if isinstance(given, Mapping) else {})}}


_CONDITIONS = "write conditions: {name: {test: ..., value: ...}}"


def _condition_findings(conditions: Any, where: str) -> Iterator[Finding]:
    """What is wrong with a parameter's conditions, which are a mapping or a list of mappings."""
    if conditions is None:
        return
    if isinstance(conditions, list | tuple):
        conditions = dict(enumerate(conditions))
    if not isinstance(conditions, Mapping):
        yield _finding(f"'conditions' is {_said(conditions)}", where, _CONDITIONS)
        return
    for name, condition in conditions.items():
        part = fields(condition)
        if isinstance(part, Mapping):
            yield from unread_keys("parameter's condition", part, part.get("id", name), where)
        else:
            yield _finding(f"a condition is {_said(part)}", where, _CONDITIONS)


# --- words --------------------------------------------------------------------------------------


def _is_extent(written: Any) -> bool:
    """Whether it is a whole number of at most 63 bits, also as text."""
    text = str(written)[:40]
    return text.lstrip("-").isdecimal() and abs(int(text)) < 2**63


def _named(section: Any, kind: str, where: str) -> Iterator[tuple[str, Any]]:
    """The parts of a section by name; what is none comes as a finding."""
    if isinstance(section, list) and all(hasattr(part, "id") for part in section):
        yield from ((part.id, fields(part)) for part in section)
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
