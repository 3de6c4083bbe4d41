"""A whole model, one opset up or down.

Up:   opset v - 1 -> v, by the table OLDER.
Down: opset v -> v - 1. First, operators that do not exist at v - 1 (or not for these types)
are replaced by their definition; then the table NEWER.
What the table does not list kept its form between the two opsets, or stays in a newer form that
no older one equals.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import onnx
from onnx import defs

from mdf_loop.errors import UnsupportedError
from mdf_loop.importing.onnx_places import in_body, node_place
from mdf_loop.importing.opsets.facts import Facts, infer
from mdf_loop.importing.opsets.functions import function_of, instance
from mdf_loop.importing.opsets.names import Names
from mdf_loop.importing.opsets.rewrite import Rewrite
from mdf_loop.importing.opsets.table import DEFINED, NEWER, OLDER
from mdf_loop.importing.opsets.weights import graphs_of
from mdf_loop.ir import OPSET

Nodes = list[onnx.NodeProto]
Change = Callable[[Rewrite], Nodes | None]

_MOST_NODES = 1_000_000


def version_of(model: onnx.ModelProto) -> int:
    """The opset of ONNX's own operators; ours if none is used."""
    return next((int(o.version) for o in model.opset_import if o.domain == ""), OPSET)


def stamped(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """The model with another opset number."""
    for opset in model.opset_import:
        if opset.domain == "":
            opset.version = version
    return model


def up(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model one opset later."""
    version = version_of(model) + 1
    changed = _changed(model, lambda node: (node.op_type, version) in OLDER, _older(version))
    return stamped(changed or model, version)


def down(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model one opset earlier."""
    version = version_of(model)
    while (made := _changed(model, lambda n: _is_new(n, version), _defined(version))) is not None:
        model = made
    model = _changed(model, lambda node: _is_new(node, version), _newer(version)) or model
    return stamped(model, version - 1)


def _older(version: int) -> Change:
    def change(r: Rewrite) -> Nodes | None:
        step = OLDER.get((r.node.op_type, version))
        if step is None:
            return None
        step(r)
        return r.made

    return change


def _newer(version: int) -> Change:
    def change(r: Rewrite) -> Nodes | None:
        step = NEWER.get((r.node.op_type, version))
        if step is not None:
            step(r)
            return r.made
        return None

    return change


def _defined(version: int) -> Change:
    def change(r: Rewrite) -> Nodes | None:
        key = (r.node.op_type, version)
        if key in DEFINED:
            wanted = DEFINED[key](r)
        elif key in NEWER or not _is_new(r.node, version):
            return None
        else:
            wanted = not _exists(r.node.op_type, version - 1) or _is_strange(r, version)
        body = function_of(r.node, version, r.facts) if wanted else None
        return instance(body, r.node, r.names) if body is not None else None

    return change


def _is_new(node: onnx.NodeProto, version: int) -> bool:
    """Whether the operator has another definition at this opset than one before."""
    return node.domain == "" and since(node.op_type, version) == version


@functools.cache
def since(op_type: str, version: int) -> int:
    """The opset in which the operator got the form that it has at `version`; 0: unknown."""
    try:
        return int(defs.get_schema(op_type, version, "").since_version)
    except defs.SchemaError:
        return 0


@functools.cache
def _exists(op_type: str, version: int) -> bool:
    try:
        return not defs.get_schema(op_type, version, "").deprecated
    except defs.SchemaError:
        return False


def _is_strange(r: Rewrite, version: int) -> bool:
    """Whether the node says what its operator did not have one opset before."""
    formals = defs.get_schema(r.node.op_type, version - 1, "")
    return (
        any(attribute.name not in formals.attributes for attribute in r.node.attribute)
        or len(r.node.input) > formals.max_input
        or len(r.node.output) > formals.max_output
        or _has_new_type(r, version)
    )


def _has_new_type(r: Rewrite, version: int) -> bool:
    op_type = r.node.op_type
    for place, names in (("inputs", r.node.input), ("outputs", r.node.output)):
        for index, name in enumerate(names):
            added = _added_types(op_type, version, place, index)
            found = r.facts.type(name) if name and added else None
            if found is not None and _type_word(found) in added:
                return True
    return False


@functools.cache
def _added_types(op_type: str, version: int, place: str, index: int) -> frozenset[str]:
    now, before = (_types(op_type, v, place, index) for v in (version, version - 1))
    return now - before if before else frozenset()


def _types(op_type: str, version: int, place: str, index: int) -> frozenset[str]:
    if not _exists(op_type, version):
        return frozenset()
    formals = getattr(defs.get_schema(op_type, version, ""), place)
    if not formals:
        return frozenset()
    return frozenset(formals[min(index, len(formals) - 1)].types)


def _type_word(found: onnx.TypeProto) -> str:
    if found.HasField("sequence_type"):
        return f"seq({_type_word(found.sequence_type.elem_type)})"
    if found.HasField("optional_type"):
        return f"optional({_type_word(found.optional_type.elem_type)})"
    name = onnx.TensorProto.DataType.Name(found.tensor_type.elem_type).lower()
    return f"tensor({name})"


def _changed(
    model: onnx.ModelProto, touches: Callable[[onnx.NodeProto], bool], change: Change
) -> onnx.ModelProto | None:
    """The model with all nodes changed, None if nothing was to do."""
    if not any(touches(node) for graph in graphs_of(model.graph) for node in graph.node):
        return None
    inferred = infer(model)
    walk = _Walk(version_of(model), touches, change, Names(inferred.graph))
    walk.graph(inferred.graph, None, "$.graph")
    return inferred if walk.found else None


class _Walk:
    """Changes the nodes of a graph and of its bodies."""

    def __init__(
        self, version: int, touches: Callable[[onnx.NodeProto], bool], change: Change, names: Names
    ) -> None:
        self.version, self.touches, self.change, self.names = version, touches, change, names
        self.found = False
        self.count = 0

    def graph(self, graph: onnx.GraphProto, outer: Facts | None, where: str) -> None:
        """Replace the nodes of one graph, bodies first."""
        facts = Facts(graph, self.version, outer)
        made: Nodes = []
        for index, node in enumerate(graph.node):
            place = node_place(where, node, index)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    self.graph(attribute.g, facts, in_body(place, attribute.name))
            made.extend(self._node(node, facts, place))
        del graph.node[:]
        graph.node.extend(made)
        self.count += len(made)
        if self.count > _MOST_NODES:
            raise UnsupportedError(f"the model has more than {_MOST_NODES} nodes", where)

    def _node(self, node: onnx.NodeProto, facts: Facts, place: str) -> Nodes:
        if not self.touches(node):
            return [node]
        made = self.change(Rewrite(node, facts, self.names, self.version, place))
        if made is None:
            return [node]
        self.found = True
        return made
