"""Upgrade or downgrade of a whole ONNX model by one opset.

Up:   opset v - 1 -> v, by the table UPGRADES.
Down: opset v -> v - 1. First, operators that do not exist at v - 1 (or not for these types)
are replaced by their definition. Then the table DOWNGRADES is applied.
An operator without an entry has the same form in both opsets, or keeps a newer form that the older
opset cannot express.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import onnx
from onnx import defs

from mdf_loop.errors import UnsupportedError
from mdf_loop.importing.onnx_paths import body_path, path_of_node
from mdf_loop.importing.opsets.facts import Facts, infer_types
from mdf_loop.importing.opsets.functions import definition_of, inline_call
from mdf_loop.importing.opsets.names import NameGenerator
from mdf_loop.importing.opsets.rewrite import Rewrite
from mdf_loop.importing.opsets.table import DOWNGRADES, EXPANSION_CONDITIONS, UPGRADES
from mdf_loop.importing.opsets.weights import graphs_of
from mdf_loop.ir import OPSET

NodeList = list[onnx.NodeProto]
NodeConversion = Callable[[Rewrite], NodeList | None]

_MAX_NODES = 1_000_000


def opset_of(model: onnx.ModelProto) -> int:
    """Return the version of the standard ONNX operators, or the package's opset if the model uses none."""
    return next(
        (
            int(opset_import.version)
            for opset_import in model.opset_import
            if opset_import.domain == ""
        ),
        OPSET,
    )


def set_opset(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """Set the opset of the model, and return the model."""
    for opset_import in model.opset_import:
        if opset_import.domain == "":
            opset_import.version = version
    return model


def upgrade(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model upgraded by one opset."""
    next_version = opset_of(model) + 1
    converted_model = _convert_nodes(
        model,
        lambda node: (node.op_type, next_version) in UPGRADES,
        _upgrade_by_table(next_version),
    )
    return set_opset(converted_model or model, next_version)


def downgrade(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model downgraded by one opset."""
    current_version = opset_of(model)
    while (
        expanded_model := _convert_nodes(
            model,
            lambda node: _is_definition_new(node, current_version),
            _expand_definition(current_version),
        )
    ) is not None:
        model = expanded_model
    model = (
        _convert_nodes(
            model,
            lambda node: _is_definition_new(node, current_version),
            _downgrade_by_table(current_version),
        )
        or model
    )
    return set_opset(model, current_version - 1)


def _upgrade_by_table(version: int) -> NodeConversion:
    def convert(rewrite: Rewrite) -> NodeList | None:
        conversion = UPGRADES.get((rewrite.node.op_type, version))
        if conversion is None:
            return None
        conversion(rewrite)
        return rewrite.replacement

    return convert


def _downgrade_by_table(version: int) -> NodeConversion:
    def convert(rewrite: Rewrite) -> NodeList | None:
        conversion = DOWNGRADES.get((rewrite.node.op_type, version))
        if conversion is not None:
            conversion(rewrite)
            return rewrite.replacement
        return None

    return convert


def _expand_definition(version: int) -> NodeConversion:
    def convert(rewrite: Rewrite) -> NodeList | None:
        downgrade_key = (rewrite.node.op_type, version)
        if downgrade_key in EXPANSION_CONDITIONS:
            is_expanded = EXPANSION_CONDITIONS[downgrade_key](rewrite)
        elif downgrade_key in DOWNGRADES or not _is_definition_new(rewrite.node, version):
            return None
        else:
            is_expanded = not _exists(rewrite.node.op_type, version - 1) or _uses_new_features(
                rewrite, version
            )
        function_definition = (
            definition_of(rewrite.node, version, rewrite.facts) if is_expanded else None
        )
        return (
            inline_call(function_definition, rewrite.node, rewrite.name_generator)
            if function_definition is not None
            else None
        )

    return convert


def _is_definition_new(node: onnx.NodeProto, version: int) -> bool:
    """Return True if the operator's definition changed at this opset."""
    return node.domain == "" and definition_opset(node.op_type, version) == version


@functools.cache
def definition_opset(op_type: str, version: int) -> int:
    """Return the opset in which the operator's definition at `version` was introduced, or 0 if unknown."""
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


def _uses_new_features(rewrite: Rewrite, version: int) -> bool:
    """Return True if a node uses attributes, inputs or types that the previous opset lacks."""
    previous_schema = defs.get_schema(rewrite.node.op_type, version - 1, "")
    return (
        any(
            attribute.name not in previous_schema.attributes for attribute in rewrite.node.attribute
        )
        or len(rewrite.node.input) > previous_schema.max_input
        or len(rewrite.node.output) > previous_schema.max_output
        or _has_new_type(rewrite, version)
    )


def _has_new_type(rewrite: Rewrite, version: int) -> bool:
    op_type = rewrite.node.op_type
    for inputs_or_outputs, value_names in (
        ("inputs", rewrite.node.input),
        ("outputs", rewrite.node.output),
    ):
        for parameter_index, value_name in enumerate(value_names):
            added_types = _added_types(op_type, version, inputs_or_outputs, parameter_index)
            type_proto = rewrite.facts.type(value_name) if value_name and added_types else None
            if type_proto is not None and _type_word(type_proto) in added_types:
                return True
    return False


@functools.cache
def _added_types(op_type: str, version: int, inputs_or_outputs: str, index: int) -> frozenset[str]:
    current_types, previous_types = (
        _allowed_types(op_type, opset_version, inputs_or_outputs, index)
        for opset_version in (version, version - 1)
    )
    return current_types - previous_types if previous_types else frozenset()


def _allowed_types(op_type: str, version: int, side: str, index: int) -> frozenset[str]:
    if not _exists(op_type, version):
        return frozenset()
    formal_parameters = getattr(defs.get_schema(op_type, version, ""), side)
    if not formal_parameters:
        return frozenset()
    return frozenset(formal_parameters[min(index, len(formal_parameters) - 1)].types)


def _type_word(type_proto: onnx.TypeProto) -> str:
    if type_proto.HasField("sequence_type"):
        return f"seq({_type_word(type_proto.sequence_type.elem_type)})"
    if type_proto.HasField("optional_type"):
        return f"optional({_type_word(type_proto.optional_type.elem_type)})"
    type_name = onnx.TensorProto.DataType.Name(type_proto.tensor_type.elem_type).lower()
    return f"tensor({type_name})"


def _convert_nodes(
    model: onnx.ModelProto, is_affected: Callable[[onnx.NodeProto], bool], convert: NodeConversion
) -> onnx.ModelProto | None:
    """Return a model with the nodes selected by `is_affected` converted, or None if unchanged."""
    if not any(is_affected(node) for graph in graphs_of(model.graph) for node in graph.node):
        return None
    typed_model = infer_types(model)
    converter = _GraphConverter(
        opset_of(model), is_affected, convert, NameGenerator(typed_model.graph)
    )
    converter.convert_graph(typed_model.graph, None, "$.graph")
    return typed_model if converter.has_changed else None


class _GraphConverter:
    """Converter of the nodes of a graph and of its bodies."""

    def __init__(
        self,
        version: int,
        is_affected: Callable[[onnx.NodeProto], bool],
        convert: NodeConversion,
        names: NameGenerator,
    ) -> None:
        self.version, self.is_affected, self.convert, self.name_generator = (
            version,
            is_affected,
            convert,
            names,
        )
        self.has_changed = False
        self.count = 0

    def convert_graph(self, graph: onnx.GraphProto, outer: Facts | None, where: str) -> None:
        """Convert the nodes of one graph, and of its bodies first."""
        graph_facts = Facts(graph, self.version, outer)
        converted_nodes: NodeList = []
        for node_index, node in enumerate(graph.node):
            node_path = path_of_node(where, node, node_index)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    self.convert_graph(
                        attribute.g, graph_facts, body_path(node_path, attribute.name)
                    )
            converted_nodes.extend(self._convert_node(node, graph_facts, node_path))
        del graph.node[:]
        graph.node.extend(converted_nodes)
        self.count += len(converted_nodes)
        if self.count > _MAX_NODES:
            raise UnsupportedError(f"the model has more than {_MAX_NODES} nodes", where)

    def _convert_node(self, node: onnx.NodeProto, facts: Facts, node_path: str) -> NodeList:
        if not self.is_affected(node):
            return [node]
        replacement_nodes = self.convert(
            Rewrite(node, facts, self.name_generator, self.version, node_path)
        )
        if replacement_nodes is None:
            return [node]
        self.has_changed = True
        return replacement_nodes
