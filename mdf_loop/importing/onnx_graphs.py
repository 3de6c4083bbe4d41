"""Graphs of an ONNX file: every name is made once and before it is read, every node is whole.

Nodes of a graph may stand in any order in the file; they are put in order here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import CycleError as Circle
from graphlib import TopologicalSorter

import onnx

from mdf_loop.errors import CycleError, ModelError, ScopeError
from mdf_loop.importing.onnx_library import Library, of_function, place_of_function
from mdf_loop.importing.onnx_nodes import check_node
from mdf_loop.importing.onnx_places import in_body, node_place
from mdf_loop.importing.onnx_tensors import check_dtype

_DEEPEST = 100


def check_graph(graph: onnx.GraphProto, library: Library) -> None:
    """Check and order the main graph, its bodies and the functions of the file."""
    _graph(graph, frozenset(), library, "$.graph", 0)
    for function in library.functions.values():
        where = place_of_function(function)
        own = of_function(library, function, where)
        made = _ordered(function.node, frozenset(function.input), own, where, 0)
        _defined(function.output, made, where)


def _graph(
    graph: onnx.GraphProto, outer: frozenset[str], library: Library, where: str, depth: int
) -> None:
    if depth > _DEEPEST:
        raise ModelError(f"bodies are nested more than {_DEEPEST} levels deep", where)
    for word, values in (("input", graph.input), ("output", graph.output)):
        for value in values:
            _type(value.type, value.name, f"{where}.{word}['{value.name}']")
    for value in graph.value_info:
        _type(value.type, value.name, f"{where}.value_info['{value.name}']")
    given = [value.name for value in graph.input]
    _once(given, f"{where}.input")
    _once([tensor.name for tensor in graph.initializer], f"{where}.initializer")
    own = {*given, *(tensor.name for tensor in graph.initializer)}
    own.update(sparse.values.name for sparse in graph.sparse_initializer)
    if graph.sparse_initializer:
        raise ModelError("sparse initializers are not supported", f"{where}.sparse_initializer")
    made = _ordered(graph.node, frozenset(own), library, where, depth, outer)
    _defined((value.name for value in graph.output), made | outer, where)


def _type(found: onnx.TypeProto, name: str, where: str) -> None:
    kind = found.WhichOneof("value")
    while kind in ("sequence_type", "optional_type"):
        found = getattr(found, kind).elem_type
        kind = found.WhichOneof("value")
    if kind is None:
        return
    if kind != "tensor_type":
        raise ModelError(f"'{name}' is a {kind.removesuffix('_type')}, not a tensor", where)
    if found.tensor_type.elem_type:
        check_dtype(found.tensor_type.elem_type, where, f"'{name}'")
    for dim in found.tensor_type.shape.dim:
        if dim.dim_value < -1:
            raise ModelError(f"'{name}' has a negative extent: {dim.dim_value}", where)
        if dim.dim_value == -1:  # said by some exporters where an extent is unknown
            dim.Clear()


def _once(names: Iterable[str], where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ScopeError(f"'{name}' is listed twice", where)
        if not name:
            raise ModelError("a value without a name", where)
        seen.add(name)


def _ordered(
    nodes: onnx.GraphProto.node, given: frozenset[str], library: Library, where: str, depth: int,
    outer: frozenset[str] = frozenset(),
) -> frozenset[str]:  # fmt: skip
    """Check the nodes, put them in order; all names of the graph."""
    makers = _makers(nodes, given, where)
    visible = given | makers.keys()
    waits: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        place = node_place(where, node, index)
        check_node(node, library, place)
        reads = list(_reads(node))
        for name in reads:
            if name not in visible and name not in outer:
                raise ScopeError(
                    f"node reads '{name}', which nothing makes",
                    place,
                    "values made inside a body are not visible outside of it",
                )
        waits[index] = [makers[name] for name in reads if name in makers]
        for attribute in node.attribute:
            for inner in _graphs(attribute):
                _graph(inner, visible | outer, library, in_body(place, attribute.name), depth + 1)
    _put_in_order(nodes, waits, where)
    return visible


def _makers(nodes: Iterable[onnx.NodeProto], given: frozenset[str], where: str) -> dict[str, int]:
    makers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.output:
            if name in makers or name in given:
                raise ScopeError(
                    f"'{name}' is made twice; in ONNX every value has one maker",
                    node_place(where, node, index),
                )
            if name:
                makers[name] = index
    return makers


def _graphs(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads, its bodies included (names that they do not make themselves)."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in _graphs(attribute):
            own = {value.name for value in graph.input}
            own.update(tensor.name for tensor in graph.initializer)
            own.update(name for inner in graph.node for name in inner.output)
            for inner in graph.node:
                yield from (name for name in _reads(inner) if name not in own)
            yield from (v.name for v in graph.output if v.name not in own)


def _put_in_order(nodes: onnx.GraphProto.node, waits: dict[int, list[int]], where: str) -> None:
    if all(before < index for index, befores in waits.items() for before in befores):
        return
    sorter = TopologicalSorter(waits)
    try:
        order = list(sorter.static_order())
    except Circle as circle:
        names = " -> ".join(f"'{_title(nodes[index], index)}'" for index in circle.args[1])
        raise CycleError(f"nodes wait for each other in a circle: {names}", where) from None
    kept = [nodes[index] for index in order]
    del nodes[:]
    nodes.extend(kept)


def _title(node: onnx.NodeProto, index: int) -> str:
    return str(node.name) or f"{node.op_type}_{index}"


def _defined(names: Iterable[str], known: frozenset[str], where: str) -> None:
    for name in names:
        if name not in known:
            raise ScopeError(f"the output '{name}' is made by no node", where)
