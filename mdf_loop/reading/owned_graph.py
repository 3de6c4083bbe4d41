"""Lookup of graphs that functions own (loop bodies and branches), with paths and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.document.bodies import WrittenBody
from mdf_loop.document.document import Document, graph_by_id
from mdf_loop.document.loading import graph_of
from mdf_loop.document.parts import FunctionOrParameter, Graph
from mdf_loop.errors import ModelError, SignatureError


class Role(Struct, frozen=True):
    """Words that name a loop body or branch in error messages."""

    argument: str = "body"
    part_name: str = "body"
    owner: str = "the loop"
    owner_kind: str = "loop"

    @property
    def description(self) -> str:
        """Name of the graph in error messages, such as `the body of the loop`."""
        part_text = self.part_name if self.part_name[-1].isdigit() else f"the {self.part_name}"
        return f"{part_text} of {self.owner}"

    @property
    def noun(self) -> str:
        """Noun for the graph in error messages: body or branch."""
        return "body" if self.part_name == "body" else "branch"


LOOP_BODY = Role()
"""Role of the body of a loop."""


class OwnedGraph(Struct, frozen=True):
    """Graph that a function owns, with its inputs, outputs and metadata.

    Metadata next to the graph's name override metadata in the graph.

    Attributes:
        graph: Graph of the document.
        where: Path of the graph.
        role: Words for the graph in errors.
        metadata: Metadata of the graph.
        input_names: Names of the inputs, or None if they are not stated.
        output_names: Names of the outputs, or None if they are not stated.
        is_strict: True if the graph captures only declared values.
        shape_rule: 'strict', 'dynamic' or None.
    """

    graph: Graph
    where: str
    role: Role
    metadata: Mapping[str, Any]
    input_names: tuple[str, ...] | None
    output_names: tuple[str, ...] | None
    is_strict: bool
    shape_rule: str | None


def find_owned_graph(
    written: WrittenBody, item: FunctionOrParameter, where: str, role: Role, document: Document
) -> OwnedGraph:
    """Look up the graph that an argument of the function `item` contains or names.

    Raises:
        ModelError: If the graph is missing, is not a graph, contains itself, or has wrong metadata.
        SignatureError: If its inputs or outputs are not lists of names.
    """
    graph, graph_path = _find_graph_and_path(
        written, _format_graph_path(written, item, where, role.argument), role, document
    )
    outer_metadata = {
        metadata_key: stated_content
        for metadata_key, stated_content in (written.signature or {}).items()
        if stated_content is not None
    }
    metadata = {**(graph.metadata or {}), **outer_metadata}
    input_names, output_names = (
        _read_stated_names(metadata, metadata_key, role, graph_path)
        for metadata_key in ("inputs", "outputs")
    )
    is_strict = metadata.get("strict", False)
    if not isinstance(is_strict, bool):
        raise ModelError(
            f"the {role.noun}'s metadata.strict is true or false, not {is_strict!r}", graph_path
        )
    shape_rule = metadata.get("shapes")
    if shape_rule not in (None, "strict", "dynamic"):
        raise ModelError(
            f"the {role.noun}'s metadata.shapes is strict or dynamic, not {shape_rule!r}",
            graph_path,
        )
    return OwnedGraph(
        graph, graph_path, role, metadata, input_names, output_names, is_strict, shape_rule
    )


def _format_graph_path(
    written: WrittenBody, item: FunctionOrParameter, where: str, argument: str
) -> str:
    """Return the document path of a loop body or branch, or of the argument that names it."""
    argument_path = f"{where}.args.{argument}"
    if written.parameter_ids:
        node_path = where.removesuffix(f".functions['{item.id}']")
        node_path = node_path.removesuffix(f".parameters['{item.id}']")
        argument_path = f"{node_path}.parameters['{written.parameter_ids[-1]}'].value"
    return argument_path if written.signature is None else f"{argument_path}.graph"


def _find_graph_and_path(
    written: WrittenBody, path: str, role: Role, document: Document
) -> tuple[Graph, str]:
    """Return the graph that an argument contains or names by id, and the graph's document path.

    Raise ModelError if the argument is not a graph.
    """
    graph_or_id = written.graph_or_id
    if graph_or_id is None:
        raise ModelError(
            f"{role.owner} has no {role.part_name}",
            path,
            f"add '{role.argument}' to its args: a graph, or {{graph: id}}",
        )
    if isinstance(graph_or_id, str):
        graph = graph_by_id(graph_or_id, path, document, role.owner_kind, role.noun)
        return graph, document.path_of_graph(graph_or_id)
    if isinstance(graph_or_id, list | tuple | int | float | np.ndarray):
        raise ModelError(
            f"a {role.owner_kind} {role.noun} is a graph, not {type(graph_or_id).__name__} ({graph_or_id})",
            path,
            "write the graph here, or {graph: id of another graph}",
        )
    return graph_of(graph_or_id, path), path


def _read_stated_names(
    metadata: Mapping[str, Any], key: str, role: Role, where: str
) -> tuple[str, ...] | None:
    """Return the names of inputs or outputs in a graph's metadata, or None if they are not stated."""
    stated_names, field_text = metadata.get(key), f"the {role.noun}'s metadata.{key}"
    if stated_names is None:
        return None
    if isinstance(stated_names, Mapping):
        stated_names = list(stated_names)
    if isinstance(stated_names, str):
        stated_names = [name.strip() for name in stated_names.split(",") if name.strip()]
    if not isinstance(stated_names, list | tuple) or not all(
        isinstance(name, str) for name in stated_names
    ):
        has_truth_values = isinstance(stated_names, list | tuple) and any(
            isinstance(name, bool) for name in stated_names
        )
        raise SignatureError(
            f"{field_text} must be a list of names, not {stated_names!r}",
            where,
            "YAML reads on, off, yes and no as truth values: put such a name in quotes"
            if has_truth_values
            else "",
        )
    repeated_names = [name for k, name in enumerate(stated_names) if name in stated_names[:k]]
    if repeated_names and key == "inputs":
        raise SignatureError(f"{field_text} name '{repeated_names[0]}' twice", where)
    return tuple(stated_names)
