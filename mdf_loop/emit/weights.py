"""Constant weights that ONNX Runtime packs when it loads a model.

Some kernels, such as that of MatMul, read their constant right factor in a special memory layout. ONNX
Runtime packs the weight into this layout once (`PrePack`), also for the body of a loop of the main graph. For
a body two graphs below the weight, as in a branch of an If, each iteration packs the weight again (ONNX
Runtime 1.32). A gated recurrence of 192 units took 1.9 times as long.
"""

from __future__ import annotations

from collections.abc import Callable

from mdf_loop.ir import Array, Loop, Op, Value, reads, walk
from mdf_loop.onnx_writer import oir
from mdf_loop.ops.packed_weights import packs

LARGE_CONSTANT_BYTES = 1 << 20
"""Minimum size in bytes of a constant that is stored outside of the model, which only the main graph can read."""


def has_large_weight(loop: Loop, constant_array: Callable[[Value], Array | None]) -> bool:
    """Return True if a loop reads a weight of 1 MiB or more that ONNX Runtime repacks for a kernel.

    Packing is a copy into a kernel's memory layout. A weight of this size is too large to copy.

    Args:
        loop: The loop, with all bodies within it.
        constant_array: Returns the array of a constant of the main graph, and None for other values.
    """
    for op in (operation for operation in walk(loop.ops) if isinstance(operation, Op)):
        for weight_array in map(constant_array, reads(op)):
            if weight_array is None or weight_array.nbytes < LARGE_CONSTANT_BYTES:
                continue
            if _is_packed(op.op_type, weight_array):
                return True
    return False


def copy_packed_weights(body: oir.Graph, fresh: Callable[[str], str]) -> list[oir.Value]:
    """Give a body graph its own copies of weights that ONNX Runtime packs. Return the copies.

    Args:
        body: The graph, in which nodes (also those of graphs within it) read constants of the main graph.
        fresh: Function that returns an unused name that begins with its argument.
    """
    copy_by_name: dict[str, oir.Value] = {}
    for node in body.all_nodes():
        for input_index, weight in enumerate(node.inputs):
            weight_tensor = None if weight is None else weight.const_value
            if (
                weight is None
                or weight_tensor is None
                or not _is_packed(node.op_type, weight_tensor.numpy())
            ):
                continue
            weight_name = str(weight.name)
            if weight_name not in copy_by_name:
                weight_copy = oir.Value(
                    name=fresh(weight_name), type=weight.type, shape=weight.shape
                )
                weight_copy.const_value = oir.Tensor(weight_tensor.numpy(), name=weight_copy.name)
                copy_by_name[weight_name] = weight_copy
            node.replace_input_with(input_index, copy_by_name[weight_name])
    return list(copy_by_name.values())


def _is_packed(op_type: str, array: Array) -> bool:
    """Return True if the kernel of an operator packs this constant array."""
    return packs(op_type, array.dtype.name, array.ndim)
