"""`If` -> ONNX If.

- A branch has no inputs. What it gives is made in it: an outer value, a constant and a value
  given twice leave it as copies.
- Where the shapes of the two branches differ, each declares its own, and the node's output
  what they share.
"""

from __future__ import annotations

from mdf_loop.emit.scope import OnnxScope, WriteOps
from mdf_loop.ir import Branch, If, Value
from mdf_loop.onnx_writer import oir


def write_if(outer: OnnxScope, choice: If, write: WriteOps) -> None:
    """Append the choice to the scope that it stands in; one that gives nothing is left out."""
    if not choice.outputs:
        return
    branches = {
        "then_branch": _graph(outer, choice, choice.then, write),
        "else_branch": _graph(outer, choice, choice.otherwise, write),
    }
    condition = outer.writer.values[choice.condition]
    outputs = [outer.define(value) for value in choice.outputs]
    outer.node("If", [condition], outputs, branches, choice.where)


def _graph(outer: OnnxScope, choice: If, branch: Branch, write: WriteOps) -> oir.Graph:
    inside = OnnxScope(outer.writer, ())
    write(inside, branch.ops)
    outputs: list[oir.Value] = []
    given: set[Value] = set()
    for leaf in branch.leaves:
        outputs.append(inside.returned(leaf, given))
        given.add(leaf)
    name = outer.writer.fresh(choice.name or "branch")
    return oir.Graph([], outputs, nodes=inside.nodes, name=name)
