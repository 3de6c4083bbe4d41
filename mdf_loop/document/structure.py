"""Checks of the structure of an MDF document: mappings, names that are text, known keys.

modeci_mdf loads content that it cannot run, such as nodes in a list. It drops unknown keys, and reports
errors by messages of its libraries. Therefore the plain mappings of a document are checked first. The objects
of a model in memory are checked as mappings of their fields.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from mdf_loop.document.keys import (
    unread_edge_parameters,
    unread_keys,
    unread_time_unit,
    unread_top_level_keys,
)
from mdf_loop.document.parts import Part
from mdf_loop.document.stated_types import type_advice
from mdf_loop.durations import SECONDS, UNIT_HINT, UNITS
from mdf_loop.errors import Finding

TIME_UNIT_KEY = "time_unit"
"""Metadata key of a graph for its unit of time."""

DIMS_KEY = "dims"
"""Metadata key of a part for the names of its axes."""

RESERVED_DIMS = ("time", "step", "batch", "trial")
"""Names of the leading axes of results."""

_NODE_SECTIONS = {
    "input_ports": "input port",
    "functions": "function",
    "parameters": "parameter",
    "output_ports": "output port",
}
_EDGE_ENDS = ("sender", "sender_port", "receiver", "receiver_port")
_NESTED_GRAPH_HINT = (
    "put its nodes into the graph itself, with the edges that lead to them and from them "
    "(PsyNeuLink leaves those out)"
)
_SECTION_EXAMPLES = {"input_ports": "{}", "functions": "{function: ..., args: {...}}"}


def model_findings(model_document: Any) -> Iterator[Finding]:
    """Report errors in the structure of a model: `{name: {graphs: ...}}`, or a Model."""
    if hasattr(model_document, "graphs"):
        model_document = {model_document.id: as_mapping(model_document)}
    if not isinstance(model_document, Mapping):
        return  # modeci_mdf reports it
    if not model_document:
        yield _create_finding("the document is empty", "$", "write {name: {graphs: ...}}")
        return
    model_name = str(model_document["id"] if "id" in model_document else next(iter(model_document)))
    model_content = (
        model_document if "id" in model_document else next(iter(model_document.values()))
    )
    if not isinstance(model_content, Mapping):
        fault_statement = (
            f"the document is not an MDF model: its content is {_describe_value(model_content)}"
        )
        yield _create_finding(fault_statement, "$", "write {name: {graphs: ...}}")
        return
    if model_content is not model_document:
        yield from unread_top_level_keys(model_document)
    yield from unread_keys("model", model_content, model_name, "$")
    for k, (graph_id, graph_content) in enumerate(
        _iterate_named_parts(model_content.get("graphs", {}), "graph", "$.graphs")
    ):
        if isinstance(graph_content, Finding):
            yield graph_content
        else:
            yield from graph_findings(graph_id, graph_content, f"$.graphs[{k}]")


def graph_findings(graph_id: str, graph: Any, where: str) -> Iterator[Finding]:
    """Report errors in the structure of one graph and of the graphs inside it."""
    graph = as_mapping(graph)
    yield from _common_findings("graph", graph_id, graph, where)
    yield from _time_unit_findings(graph_id, graph.get("metadata"), where)
    yield from _graph_condition_findings(graph.get("conditions"), f"{where}.conditions")
    for node_id, node_content in _iterate_named_parts(
        graph.get("nodes", {}), "node", f"{where}.nodes"
    ):
        node_path = f"{where}.nodes['{node_id}']"
        if isinstance(node_content, Finding):
            yield node_content
        elif "nodes" in node_content:  # modeci_mdf would load this entry as an empty node
            fault_statement = (
                f"the node '{node_id}' is a graph with nodes of its own, which MDF does not have"
            )
            yield Finding("UnsupportedError", fault_statement, node_path, _NESTED_GRAPH_HINT)
            yield from graph_findings(node_id, node_content, node_path)
        else:
            yield from _node_findings(node_id, node_content, node_path)
    for edge_id, edge_content in _iterate_named_parts(
        graph.get("edges", {}), "edge", f"{where}.edges"
    ):
        if isinstance(edge_content, Finding):
            yield edge_content
        else:
            yield from _edge_findings(edge_id, edge_content, f"{where}.edges['{edge_id}']")


def as_mapping(part: Any) -> Any:
    """Return a part or an object of modeci_mdf as a mapping of its fields, and any other object unchanged."""
    field_names = _find_field_names(type(part))  # type: ignore[arg-type]
    return part if field_names is None else {name: getattr(part, name) for name in field_names}


@functools.cache
def _find_field_names(part_type: type[Any]) -> tuple[str, ...] | None:
    import attr

    if issubclass(part_type, Part):
        return part_type.__struct_fields__
    is_modeci_type = attr.has(part_type)
    return tuple(field.name for field in attr.fields(part_type)) if is_modeci_type else None


def _common_findings(
    part_kind: str, name: str, part: Mapping[str, Any], where: str
) -> Iterator[Finding]:
    """Report errors in the keys and in the metadata of a node, port or other MDF object."""
    yield from unread_keys(part_kind, part, name, where)
    if not _may_be_mapping(part.get("metadata")):
        fault_statement = (
            f"the metadata of the {part_kind} '{name}' is {_describe_value(part['metadata'])}"
        )
        yield _create_finding(fault_statement, where, "write a mapping")


def _time_unit_findings(graph_id: str, metadata: Any, where: str) -> Iterator[Finding]:
    """Report errors in the unit of time of a graph."""
    if not isinstance(metadata, Mapping):
        return
    yield from unread_time_unit(graph_id, metadata, TIME_UNIT_KEY, where)
    if TIME_UNIT_KEY not in metadata:
        return
    stated_unit = metadata[TIME_UNIT_KEY]
    if not isinstance(stated_unit, str) or stated_unit not in UNITS:
        yield _create_finding(
            f"'{TIME_UNIT_KEY}' of the graph '{graph_id}' is {_describe_value(stated_unit)}, which is no unit of time",
            f"{where}.metadata",
            f"{UNIT_HINT}; without '{TIME_UNIT_KEY}' it is {SECONDS}",
        )


def _edge_findings(edge_id: str, edge: Mapping[str, Any], where: str) -> Iterator[Finding]:
    missing_end_keys = [edge_end for edge_end in _EDGE_ENDS if edge_end not in edge]
    if missing_end_keys:
        yield _create_finding(
            f"the edge '{edge_id}' has no {', no '.join(missing_end_keys)}",
            where,
            f"an edge names its {', '.join(_EDGE_ENDS)}",
        )
    yield from _common_findings("edge", edge_id, edge, where)
    if not _may_be_mapping(edge.get("parameters")):
        yield _create_mapping_finding("parameters", edge["parameters"], where)
    yield from unread_edge_parameters(edge.get("parameters"), edge_id, where)


def _node_findings(node_id: str, node: Mapping[str, Any], where: str) -> Iterator[Finding]:
    yield from _common_findings("node", node_id, node, where)
    for section, part_kind in _NODE_SECTIONS.items():
        for part_id, part_content in _iterate_named_parts(
            node.get(section, {}), part_kind, f"{where}.{section}"
        ):
            if isinstance(part_content, Finding):
                yield part_content
            else:
                part_path = f"{where}.{section}['{part_id}']"
                yield from _common_findings(part_kind, part_id, part_content, part_path)
                yield from _dims_findings(part_kind, part_id, part_content, part_path)
                yield from _part_findings(part_content, part_path)
                if type_hint := type_advice(part_content.get("type")):
                    fault_statement = (
                        f"the type '{part_content['type']}' of the {part_kind} '{part_id}'"
                    )
                    yield _create_finding(
                        f"{fault_statement} is none that there is", part_path, type_hint
                    )


def _dims_findings(
    part_kind: str, name: str, part: Mapping[str, Any], where: str
) -> Iterator[Finding]:
    """Report errors in the axis names that metadata state.

    A list without any text does not contain axis names.

    If the metadata state a shape, the list describes the shape's open extents. In this case, a name may occur
    twice, and extents may be numbers.
    """
    metadata = part.get("metadata")
    stated_axis_names = metadata.get(DIMS_KEY) if isinstance(metadata, Mapping) else None
    if part.get("shape") is not None:
        return
    if not isinstance(stated_axis_names, list | tuple) or not any(
        isinstance(axis_name, str) for axis_name in stated_axis_names
    ):
        return
    for k, dim in enumerate(stated_axis_names):
        fault_statement = f"'{DIMS_KEY}' of the {part_kind} '{name}' is to name axes, but "
        if not isinstance(dim, str):
            fault_statement += f"one of them is {_describe_value(dim)}"
        elif not dim.strip() or not dim.isprintable():
            fault_statement += f"{dim[:40]!r} is no name"
        elif dim in RESERVED_DIMS:
            fault_statement += f"'{dim}' is the name of an axis that results have in front"
        elif dim in stated_axis_names[:k]:
            fault_statement += f"'{dim[:40]}' is there twice"
        else:
            continue
        yield _create_finding(
            fault_statement,
            f"{where}.metadata",
            f"a name for each axis: {DIMS_KEY}: [cell, synapse]",
        )


def _part_findings(part: Mapping[str, Any], where: str) -> Iterator[Finding]:
    if not _may_be_mapping(part.get("args")):
        yield _create_mapping_finding("args", part["args"], where)
    function_name_or_mapping = part.get("function")
    if isinstance(function_name_or_mapping, Mapping):
        has_one_name = len(function_name_or_mapping) == 1 and all(
            isinstance(key, str) for key in function_name_or_mapping
        )
        function_arguments = next(iter(function_name_or_mapping.values()), None)
        if not has_one_name:
            yield _create_finding(
                "a function has one name", where, "write function: name, args: {...}"
            )
        elif not _may_be_mapping(function_arguments):
            yield _create_mapping_finding("function", function_arguments, where)
    yield from _parameter_condition_findings(part.get("conditions"), where)
    yield from _owned_graph_findings(part, where)
    declared_shape = part.get("shape")
    declared_extents = declared_shape if isinstance(declared_shape, list | tuple) else [None]
    if declared_shape is not None and not all(_is_extent(extent) for extent in declared_extents):
        yield _create_finding(
            f"a shape is a list of whole numbers, not {declared_shape!r}", where, "e.g. [2, 3]"
        )


# --- graphs inside ------------------------------------------------------------------------------

SIGNATURE_KEYS = {"graph", "inputs", "outputs"}
"""Keys of a mapping with a graph and its signature."""


def _owned_graph_findings(part: Mapping[str, Any], where: str) -> Iterator[Finding]:
    """Report errors in the graphs inside the arguments or the value of a function or parameter."""
    function_arguments = part.get("args")
    function_mapping = part.get("function")
    if isinstance(function_mapping, Mapping):
        function_arguments = next(iter(function_mapping.values()), None)
    argument_by_path = (
        {
            f"args.{argument_name}": argument
            for argument_name, argument in function_arguments.items()
        }
        if isinstance(function_arguments, Mapping)
        else {}
    )
    for value_path, value_content in {**argument_by_path, "value": part.get("value")}.items():
        for graph_id, graph_content, graph_path in _find_graphs(
            value_content, f"{where}.{value_path}"
        ):
            yield from graph_findings(graph_id, graph_content, graph_path)


def _find_graphs(value: Any, where: str) -> Iterator[tuple[str, Any, str]]:
    """Yield the id, the content and the path of each graph in a function's argument."""
    if isinstance(value, list | tuple):
        list_of_graphs = value if value and isinstance(as_mapping(value[0]), Mapping) else ()
        for k, list_element in enumerate(list_of_graphs):
            yield from _find_graphs(list_element, f"{where}[{k}]")
        return
    value = as_mapping(value)
    if not isinstance(value, Mapping) or not value:
        return
    if "graph" in value and set(value) <= SIGNATURE_KEYS:
        yield from _find_graphs(value["graph"], f"{where}.graph")
    elif isinstance(value.get("nodes"), Mapping | list):
        yield str(value.get("id", "body")), value, where
    elif len(value) == 1:
        graph_id, graph_content = next(iter(value.items()))
        graph_content = as_mapping(graph_content)
        if isinstance(graph_content, Mapping) and isinstance(
            graph_content.get("nodes"), Mapping | list
        ):
            yield str(graph_id), graph_content, where


# --- conditions ---------------------------------------------------------------------------------


def _graph_condition_findings(conditions: Any, where: str) -> Iterator[Finding]:
    """Report errors in the keys of a graph's conditions."""
    conditions = as_mapping(conditions)
    if not isinstance(conditions, Mapping):
        return  # modeci_mdf reports it
    yield from unread_keys("set of conditions", conditions, "", where)
    for condition_section in ("node_specific", "termination"):
        conditions_by_name = conditions.get(condition_section)
        for condition_key, condition in (
            conditions_by_name.items() if isinstance(conditions_by_name, Mapping) else ()
        ):
            yield from _scheduler_condition_findings(
                condition, f"{where}.{condition_section}['{condition_key}']"
            )


def _scheduler_condition_findings(condition: Any, where: str) -> Iterator[Finding]:
    """Report errors in the keys of one condition and of its inner conditions."""
    condition = as_mapping(condition)
    if not isinstance(condition, Mapping):
        return
    yield from unread_keys("condition", condition, str(condition.get("type", "")), where)
    condition_arguments = condition.get("kwargs")
    for argument_name, argument in (
        condition_arguments.items() if isinstance(condition_arguments, Mapping) else ()
    ):
        is_argument_list = isinstance(argument, list | tuple)
        for k, nested_condition in enumerate(argument if is_argument_list else [argument]):
            nested_condition = as_mapping(nested_condition)
            if isinstance(nested_condition, Mapping) and "type" in nested_condition:
                argument_path = f"{argument_name}[{k}]" if is_argument_list else argument_name
                yield from _scheduler_condition_findings(
                    _normalize_nested_condition(nested_condition), f"{where}.{argument_path}"
                )


def _normalize_nested_condition(condition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an inner condition with its unknown keys as arguments, as modeci_mdf reads them."""
    condition_fields = {
        key: value for key, value in condition.items() if key in ("type", "kwargs", "metadata")
    }
    if isinstance(condition.get("args"), Mapping):
        condition_fields["args"] = condition["args"]
    extra_fields = {key: value for key, value in condition.items() if key not in condition_fields}
    condition_arguments = condition_fields.get("kwargs")
    return {
        **condition_fields,
        "kwargs": {
            **extra_fields,
            **(condition_arguments if isinstance(condition_arguments, Mapping) else {}),
        },
    }


_CONDITIONS_HINT = "write conditions: {name: {test: ..., value: ...}}"


def _parameter_condition_findings(conditions_by_name: Any, where: str) -> Iterator[Finding]:
    """Report errors in the conditions of a parameter, which are a mapping or a list of mappings."""
    if conditions_by_name is None:
        return
    if isinstance(conditions_by_name, list | tuple):
        conditions_by_name = dict(enumerate(conditions_by_name))
    if not isinstance(conditions_by_name, Mapping):
        yield _create_finding(
            f"'conditions' is {_describe_value(conditions_by_name)}", where, _CONDITIONS_HINT
        )
        return
    for condition_name, condition in conditions_by_name.items():
        condition_fields = as_mapping(condition)
        if isinstance(condition_fields, Mapping):
            yield from unread_keys(
                "parameter's condition",
                condition_fields,
                condition_fields.get("id", condition_name),
                where,
            )
        else:
            yield _create_finding(
                f"a condition is {_describe_value(condition_fields)}", where, _CONDITIONS_HINT
            )


# --- helpers ------------------------------------------------------------------------------------


def _is_extent(extent: Any) -> bool:
    """Return True if `extent` is an integer of at most 63 bits, or the text of one."""
    extent_text = str(extent)[:40]
    return extent_text.lstrip("-").isdecimal() and abs(int(extent_text)) < 2**63


def _iterate_named_parts(section: Any, part_kind: str, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a section such as `nodes` by name, and an error for an invalid entry."""
    if isinstance(section, list) and all(hasattr(part, "id") for part in section):
        yield from ((part.id, as_mapping(part)) for part in section)
        return
    if not isinstance(section, Mapping):
        section_name = where.rsplit(".", 1)[-1]
        section_correction = (
            f"leave '{section_name}' out"
            if section is None
            else "write a mapping of names to parts"
        )
        yield (
            "",
            _create_finding(
                f"'{section_name}' is {_describe_value(section)}", where, section_correction
            ),
        )
        return
    part_example = _SECTION_EXAMPLES.get(where.rsplit(".", 1)[-1], "{...}")
    for part_name, part in section.items():
        if not isinstance(part_name, str):
            name_correction = f'write it in quotes: "{part_name}"'
            yield (
                "",
                _create_finding(
                    f"the name {part_name!r} of a {part_kind} is not text",
                    where,
                    name_correction,
                ),
            )
        elif not isinstance(part, Mapping):
            fault_statement = f"the {part_kind} '{part_name}' is {_describe_value(part)}"
            yield (
                part_name,
                _create_finding(
                    fault_statement,
                    f"{where}['{part_name}']",
                    f"write {part_name}: {part_example}",
                ),
            )
        else:
            yield part_name, part


def _may_be_mapping(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)


def _create_mapping_finding(key: str, value: Any, where: str) -> Finding:
    return _create_finding(
        f"'{key}' is {_describe_value(value)}", where, f"write {key}: {{name: ...}}"
    )


def _describe_value(value: Any) -> str:
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


def _create_finding(statement: str, where: str, hint: str) -> Finding:
    return Finding("ModelError", statement, where, hint)
