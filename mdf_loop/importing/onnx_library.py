"""Operators that a model may use: the ONNX operators of the model's opset, and functions of the file."""

from __future__ import annotations

import difflib
from graphlib import CycleError as GraphCycleError
from graphlib import TopologicalSorter

import onnx
from msgspec import Struct
from onnx import defs

from mdf_loop.errors import CycleError, ModelError, UnsupportedError

FunctionKey = tuple[str, str, str]
_MAX_INLINED_NODES = 1_000_000


class Library(Struct, frozen=True):
    """Operators that a model may use: the opset version of each domain, and the functions of the file."""

    opset_versions: dict[str, int]  # version of each domain
    functions: dict[FunctionKey, onnx.FunctionProto]

    @staticmethod
    def of(model: onnx.ModelProto) -> Library:
        """Build the `Library` of the operators that an ONNX model may use."""
        opset_versions = _opsets_of(model, "$.opset_import")
        functions_by_key = {
            (_normalized_domain(function.domain), function.name, function.overload): function
            for function in model.functions
        }
        if len(functions_by_key) != len(model.functions):
            raise ModelError("two functions of the file have the same name", "$.functions")
        return Library(opset_versions, functions_by_key)

    def function(self, node: onnx.NodeProto) -> onnx.FunctionProto | None:
        """Return the model-local ONNX function that a node calls, or None for an operator."""
        return self.functions.get((_normalized_domain(node.domain), node.op_type, node.overload))

    def schema(self, node: onnx.NodeProto, where: str) -> defs.OpSchema:
        """Return ONNX's definition of the operator of a node."""
        domain = _normalized_domain(node.domain)
        if domain not in self.opset_versions:
            raise UnsupportedError(
                f"operator '{node.op_type}' belongs to the domain '{domain}', for which the "
                "model names no opset",
                where,
            )
        opset_version = self.opset_versions[domain]
        try:
            return defs.get_schema(node.op_type, opset_version, domain)
        except defs.SchemaError:
            raise self._unknown_operator_error(node, domain, opset_version, where) from None

    def _unknown_operator_error(
        self, node: onnx.NodeProto, domain: str, version: int, where: str
    ) -> UnsupportedError:
        if domain:
            return UnsupportedError(
                f"operator '{node.op_type}' belongs to the domain '{domain}'; only ONNX's own "
                "operators can be imported",
                where,
                "export the model with plain ONNX operators",
            )
        operator_names = {
            operator_schema.name
            for operator_schema in defs.get_all_schemas()
            if not operator_schema.domain
        }
        similar_names = difflib.get_close_matches(node.op_type, sorted(operator_names), n=1)
        return UnsupportedError(
            f"ONNX has no operator '{node.op_type}' in opset {version}",
            where,
            f"did you mean '{similar_names[0]}'?"
            if similar_names and similar_names[0] != node.op_type
            else "",
        )


def _normalized_domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _opsets_of(owner: onnx.ModelProto | onnx.FunctionProto, where: str) -> dict[str, int]:
    opset_versions: dict[str, int] = {}
    for opset_import in owner.opset_import:
        domain = _normalized_domain(opset_import.domain)
        if opset_versions.setdefault(domain, opset_import.version) != opset_import.version:
            raise ModelError(f"domain '{domain or 'ai.onnx'}' has two opsets", where)
    newest_version = defs.onnx_opset_version()
    if isinstance(owner, onnx.ModelProto) and not opset_versions:
        raise ModelError("the model names no opset", where, "is it an ONNX model?")
    if opset_versions.get("", 1) < 1:
        raise ModelError(f"there is no opset {opset_versions['']}", where)
    if opset_versions.get("", 1) > newest_version:
        raise UnsupportedError(
            f"the model speaks opset {opset_versions['']}; the onnx package installed here knows opsets "
            f"up to {newest_version}",
            where,
            "install a newer onnx, or export with an older opset",
        )
    return opset_versions


def library_of_function(library: Library, function: onnx.FunctionProto, where: str) -> Library:
    """Return the `Library` of the operators that an ONNX function may use."""
    return Library(
        _opsets_of(function, f"{where}.opset_import") or library.opset_versions, library.functions
    )


def check_functions(library: Library) -> None:
    """Raise an error if functions call each other in a cycle, or become too large when inlined."""
    called_keys_by_function_key: dict[FunctionKey, list[FunctionKey]] = {}
    for function_key, function in library.functions.items():
        nodes = [node for top_level_node in function.node for node in _nested_nodes(top_level_node)]
        called_function_keys = [
            (_normalized_domain(node.domain), node.op_type, node.overload) for node in nodes
        ]
        called_keys_by_function_key[function_key] = [
            called_function_key
            for called_function_key in called_function_keys
            if called_function_key in library.functions
        ]
    try:
        function_order = list(TopologicalSorter(called_keys_by_function_key).static_order())
    except GraphCycleError as cycle:
        cycle_text = " -> ".join(f"'{function_key[1]}'" for function_key in cycle.args[1])
        raise CycleError(
            f"functions of the file call each other: {cycle_text}", "$.functions"
        ) from None
    inlined_node_counts: dict[FunctionKey, int] = {}
    for function_key in function_order:
        node_count = len(library.functions[function_key].node)
        inlined_node_counts[function_key] = node_count + sum(
            inlined_node_counts[called_function_key]
            for called_function_key in called_keys_by_function_key[function_key]
        )
        if inlined_node_counts[function_key] > _MAX_INLINED_NODES:
            raise UnsupportedError(
                f"function '{function_key[1]}' written out has more than {_MAX_INLINED_NODES} nodes",
                f"$.functions['{function_key[1]}']",
            )


def _nested_nodes(root: onnx.NodeProto) -> list[onnx.NodeProto]:
    nested_nodes, pending_nodes = [], [root]
    while pending_nodes:
        node = pending_nodes.pop()
        nested_nodes.append(node)
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                pending_nodes.extend(graph.node)
    return nested_nodes


def function_path(function: onnx.FunctionProto) -> str:
    """Return the path of a function in the ONNX file, for error messages."""
    return f"$.functions['{function.name}']"
