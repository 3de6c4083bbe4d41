"""Conversion of an `If` to an ONNX If node.

- A branch has no inputs. Each output of a branch is the result of a node in the branch: an outer value, a
  constant and a value that is returned twice are returned as copies.
- If the shapes of the two branches differ, each branch declares its own shape. The node's output declares
  the extents that both have in common.
"""

from __future__ import annotations

from mdf_loop.emit.scope import OnnxScope, WriteOps
from mdf_loop.ir import Branch, If, Value
from mdf_loop.onnx_writer import oir


def write_if(outer: OnnxScope, choice: If, write: WriteOps) -> None:
    """Append an ONNX If node with its two branch graphs to a scope.

    An If without outputs is omitted.
    """
    if not choice.outputs:
        return
    branches = {
        "then_branch": _build_branch(outer, choice, choice.then, write),
        "else_branch": _build_branch(outer, choice, choice.otherwise, write),
    }
    condition = outer.writer.onnx_values[choice.condition]
    if_outputs = [outer.define_value(value) for value in choice.outputs]
    outer.append_node("If", [condition], if_outputs, branches, choice.where)


def _build_branch(outer: OnnxScope, choice: If, branch: Branch, write: WriteOps) -> oir.Graph:
    """Return the ONNX graph of one branch of an If."""
    branch_scope = OnnxScope(outer.writer, ())
    write(branch_scope, branch.ops)
    graph_outputs: list[oir.Value] = []
    branch_outputs_so_far: set[Value] = set()
    for branch_output in branch.outputs:
        graph_outputs.append(branch_scope.graph_output(branch_output, branch_outputs_so_far))
        branch_outputs_so_far.add(branch_output)
    graph_name = outer.writer.new_name(choice.name or "branch")
    return oir.Graph([], graph_outputs, nodes=branch_scope.onnx_nodes, name=graph_name)
