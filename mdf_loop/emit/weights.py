"""Constant weights that ONNX Runtime packs when it loads a model.

A kernel such as that of MatMul reads its constant right factor in an order of its own. ONNX Runtime
brings the weight into this order once (`PrePack`), also for the body of a loop of the main graph. It does
not for a body two graphs below the weight, as in a branch of an If (ONNX Runtime 1.32): there each
iteration packs the weight again. A gated recurrence of 192 units took 1.9 times as long.
"""

from __future__ import annotations

from collections.abc import Callable

from mdf_loop.ir import Array, Loop, Op, Value, reads, walk
from mdf_loop.onnx_writer import oir
from mdf_loop.ops.packed_weights import packs

LARGE = 1 << 20
"""Bytes from which a constant stands apart from the model: only the main graph can have such ones."""


def has_large_weight(loop: Loop, known: Callable[[Value], Array | None]) -> bool:
    """Return True if the body of a loop reads a packed weight that only the main graph can have.

    Args:
        loop: the loop, with all bodies within it.
        known: returns the array of a value that is a constant of the main graph, and None for others.
    """
    for op in (operation for operation in walk(loop.ops) if isinstance(operation, Op)):
        for array in map(known, reads(op)):
            if array is not None and array.nbytes >= LARGE and _is_packed(op.op_type, array):
                return True
    return False


def take_weights(body: oir.Graph, fresh: Callable[[str], str]) -> list[oir.Value]:
    """Let a body read its packed weights under new names; return them as constants to be declared.

    Args:
        body: the graph whose nodes, and those of graphs within it, read constants of the main graph.
        fresh: returns a name like the given one that no value has.
    """
    copies: dict[str, oir.Value] = {}
    for node in body.all_nodes():
        for position, weight in enumerate(node.inputs):
            tensor = None if weight is None else weight.const_value
            if weight is None or tensor is None or not _is_packed(node.op_type, tensor.numpy()):
                continue
            name = str(weight.name)
            if name not in copies:
                copy = oir.Value(name=fresh(name), type=weight.type, shape=weight.shape)
                copy.const_value = oir.Tensor(tensor.numpy(), name=copy.name)
                copies[name] = copy
            node.replace_input_with(position, copies[name])
    return list(copies.values())


def _is_packed(op_type: str, array: Array) -> bool:
    """Return True if the kernel of an operator packs a constant array."""
    return packs(op_type, array.dtype.name, array.ndim)
