"""Checks of the graphs of an ONNX file: each name has one producer, and each node is valid.

The nodes of a graph may have any order in the file. This module sorts the nodes topologically.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import CycleError as GraphCycleError
from graphlib import TopologicalSorter

import onnx

from mdf_loop.errors import CycleError, ModelError, ScopeError
from mdf_loop.importing.onnx_library import Library, function_path, library_of_function
from mdf_loop.importing.onnx_nodes import check_node
from mdf_loop.importing.onnx_paths import body_path, path_of_node
from mdf_loop.importing.onnx_tensors import check_dtype

_MAX_NESTING = 100


def check_graph(graph: onnx.GraphProto, library: Library) -> None:
    """Check the graph, all bodies and all functions of an ONNX model, and sort their nodes."""
    _check_graph(graph, frozenset(), library, "$.graph", 0)
    for function in library.functions.values():
        function_path_text = function_path(function)
        function_library = library_of_function(library, function, function_path_text)
        value_names = _check_and_sort(
            function.node, frozenset(function.input), function_library, function_path_text, 0
        )
        _check_outputs(function.output, value_names, function_path_text)


def _check_graph(
    graph: onnx.GraphProto, outer: frozenset[str], library: Library, where: str, depth: int
) -> None:
    if depth > _MAX_NESTING:
        raise ModelError(f"bodies are nested more than {_MAX_NESTING} levels deep", where)
    for input_or_output, graph_values in (("input", graph.input), ("output", graph.output)):
        for value in graph_values:
            _check_type(value.type, value.name, f"{where}.{input_or_output}['{value.name}']")
    for value in graph.value_info:
        _check_type(value.type, value.name, f"{where}.value_info['{value.name}']")
    input_names = [value.name for value in graph.input]
    _check_unique(input_names, f"{where}.input")
    _check_unique([tensor.name for tensor in graph.initializer], f"{where}.initializer")
    local_names = {*input_names, *(tensor.name for tensor in graph.initializer)}
    local_names.update(sparse_tensor.values.name for sparse_tensor in graph.sparse_initializer)
    if graph.sparse_initializer:
        raise ModelError("sparse initializers are not supported", f"{where}.sparse_initializer")
    value_names = _check_and_sort(graph.node, frozenset(local_names), library, where, depth, outer)
    _check_outputs((value.name for value in graph.output), value_names | outer, where)


def _check_type(type_proto: onnx.TypeProto, name: str, where: str) -> None:
    type_kind_name = type_proto.WhichOneof("value")
    while type_kind_name in ("sequence_type", "optional_type"):
        type_proto = getattr(type_proto, type_kind_name).elem_type
        type_kind_name = type_proto.WhichOneof("value")
    if type_kind_name is None:
        return
    if type_kind_name != "tensor_type":
        raise ModelError(
            f"'{name}' is a {type_kind_name.removesuffix('_type')}, not a tensor", where
        )
    if type_proto.tensor_type.elem_type:
        check_dtype(type_proto.tensor_type.elem_type, where, f"'{name}'")
    for dim in type_proto.tensor_type.shape.dim:
        if dim.dim_value < -1:
            raise ModelError(f"'{name}' has a negative extent: {dim.dim_value}", where)
        if dim.dim_value == -1:  # some exporters write -1 for an unknown extent
            dim.Clear()


def _check_unique(names: Iterable[str], where: str) -> None:
    earlier_names: set[str] = set()
    for name in names:
        if name in earlier_names:
            raise ScopeError(f"'{name}' is listed twice", where)
        if not name:
            raise ModelError("a value without a name", where)
        earlier_names.add(name)


def _check_and_sort(
    nodes: onnx.GraphProto.node, local_names: frozenset[str], library: Library, graph_path: str, depth: int,
    outer: frozenset[str] = frozenset(),
) -> frozenset[str]:  # fmt: skip
    """Check the nodes of a graph, sort them topologically, and return all value names of the graph."""
    producer_index_by_name = _find_producers(nodes, local_names, graph_path)
    visible_names = local_names | producer_index_by_name.keys()
    producer_indices_by_node: dict[int, list[int]] = {}
    for node_index, node in enumerate(nodes):
        node_path = path_of_node(graph_path, node, node_index)
        check_node(node, library, node_path)
        names_read = list(_names_read(node))
        for name in names_read:
            if name not in visible_names and name not in outer:
                raise ScopeError(
                    f"node reads '{name}', which nothing makes",
                    node_path,
                    "values made inside a body are not visible outside of it",
                )
        producer_indices_by_node[node_index] = [
            producer_index_by_name[name] for name in names_read if name in producer_index_by_name
        ]
        for attribute in node.attribute:
            for body in _bodies_of(attribute):
                _check_graph(
                    body,
                    visible_names | outer,
                    library,
                    body_path(node_path, attribute.name),
                    depth + 1,
                )
    _sort_nodes(nodes, producer_indices_by_node, graph_path)
    return visible_names


def _find_producers(
    nodes: Iterable[onnx.NodeProto], local_names: frozenset[str], where: str
) -> dict[str, int]:
    producer_index_by_name: dict[str, int] = {}
    for node_index, node in enumerate(nodes):
        for name in node.output:
            if name in producer_index_by_name or name in local_names:
                raise ScopeError(
                    f"'{name}' is made twice; in ONNX every value has one maker",
                    path_of_node(where, node, node_index),
                )
            if name:
                producer_index_by_name[name] = node_index
    return producer_index_by_name


def _bodies_of(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def _names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names of values that a node reads, including outer values that its bodies read."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in _bodies_of(attribute):
            local_names = {value.name for value in graph.input}
            local_names.update(tensor.name for tensor in graph.initializer)
            local_names.update(name for body_node in graph.node for name in body_node.output)
            for body_node in graph.node:
                yield from (name for name in _names_read(body_node) if name not in local_names)
            yield from (
                graph_output.name
                for graph_output in graph.output
                if graph_output.name not in local_names
            )


def _sort_nodes(
    nodes: onnx.GraphProto.node, producer_indices_by_node: dict[int, list[int]], where: str
) -> None:
    if all(
        producer_index < node_index
        for node_index, producer_indices in producer_indices_by_node.items()
        for producer_index in producer_indices
    ):
        return
    sorter = TopologicalSorter(producer_indices_by_node)
    try:
        node_order = list(sorter.static_order())
    except GraphCycleError as cycle:
        cycle_text = " -> ".join(
            f"'{_display_name(nodes[node_index], node_index)}'" for node_index in cycle.args[1]
        )
        raise CycleError(f"nodes wait for each other in a circle: {cycle_text}", where) from None
    sorted_nodes = [nodes[node_index] for node_index in node_order]
    del nodes[:]
    nodes.extend(sorted_nodes)


def _display_name(node: onnx.NodeProto, index: int) -> str:
    return str(node.name) or f"{node.op_type}_{index}"


def _check_outputs(names: Iterable[str], known_names: frozenset[str], where: str) -> None:
    for name in names:
        if name not in known_names:
            raise ScopeError(f"the output '{name}' is made by no node", where)
