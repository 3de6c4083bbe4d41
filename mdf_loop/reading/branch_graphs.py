"""Branches of an `onnx::If` or `case_of`: lookup of a branch graph, its outputs, its name in errors."""

from __future__ import annotations

from mdf_loop.document.bodies import WrittenBody
from mdf_loop.document.document import Document
from mdf_loop.document.parts import FunctionOrParameter
from mdf_loop.errors import ArityError, SignatureError
from mdf_loop.reading.owned_graph import OwnedGraph, Role, find_owned_graph
from mdf_loop.reading.signature import find_end_ports


def describe_branch(name: str, argument: str) -> Role:
    """Return the words that name a branch of an `onnx::If` or `case_of` in error messages.

    `argument` is `then_branch` or `branches[1]`, for example.
    """
    branch_text = argument.removesuffix("]").replace("branches[", "branch ").replace("_", " ")
    return Role(argument, branch_text, f"'{name}'", "choice")


def find_branch_graph(
    written: WrittenBody, item: FunctionOrParameter, where: str, role: Role, document: Document
) -> OwnedGraph:
    """Look up the graph of a branch, and check that the graph has no inputs.

    Raises:
        ModelError: If the branch is missing or is not a graph.
        SignatureError: If the branch has inputs.
    """
    owned_graph = find_owned_graph(written, item, where, role, document)
    if owned_graph.input_names:
        raise SignatureError(
            f"{role.description} names metadata.inputs, but a branch is given nothing",
            owned_graph.where,
            "leave them out: its ports read the values of the node that owns it by their names",
        )
    return owned_graph


def find_branch_outputs(owned: OwnedGraph) -> tuple[str, ...]:
    """Return the output names of a branch: the stated names, or the only output port that feeds no edge.

    Raises:
        SignatureError: If the outputs are not stated and the branch has several terminal ports.
        ArityError: If the outputs are not stated and the branch has no terminal port.
    """
    if owned.output_names is not None:
        return owned.output_names
    end_ports, branch_text = find_end_ports(owned.graph), owned.role.description
    if not end_ports:
        raise ArityError(
            f"{branch_text} gives nothing", owned.where, "write metadata: {outputs: [...]}"
        )
    if len(end_ports) > 1:
        output_names = [port.id for _, port in end_ports]
        raise SignatureError(
            f"the order of the outputs of {branch_text} is not written: it may give {output_names}",
            owned.where,
            "write metadata: {outputs: [...]}",
        )
    return tuple(f"{node.id}.{port.id}" for node, port in end_ports)
