"""Check that all rows of a recorded loop output have the same shape.

    raw = Loop(... row)                 raw, shapes = Loop(... row, Shape(row))
    stack = raw                   ->    other = the first of `shapes` that differs from the first
                                        stack = Reshape(raw, [n (+ 1 if there is one), *other])

If all shapes are equal, the Reshape changes nothing and copies nothing. If one differs, the Reshape fails,
and the runtime's message contains both shapes. Only rows whose shape is unknown before the loop begins are
compared, so ordinary recordings cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from mdf_loop.emit.scope import NodeRegistry
from mdf_loop.errors import RecordShapeError
from mdf_loop.ir import Loop, Recorded, reads
from mdf_loop.onnx_writer import oir

AppendInt64Node: TypeAlias = Callable[..., oir.Value]
"""Function that appends a node with one int64 output; its arguments are op type, inputs and attributes."""


def records_to_compare(loop: Loop) -> tuple[Recorded, ...]:
    """Return the recorded outputs whose rows may differ in shape between iterations.

    An extent is the same in all iterations if an outer value that the loop reads has this extent.
    """
    outer_extents = {extent for value in reads(loop) for extent in value.shape or ()}
    return tuple(
        recording
        for recording in loop.recorded
        if recording.row.shape is None
        or any(
            isinstance(extent, str) and extent not in outer_extents
            for extent in recording.row.shape
        )
    )


def append_shape_check(
    append_int64_node: AppendInt64Node,
    zero: oir.Value,
    one: oir.Value,
    raw_stack: oir.Value,
    recorded_shapes: oir.Value,
) -> oir.Value:
    """Append nodes that compute the shape of stacked rows, or an impossible shape if rows differ in shape.

    The impossible shape contains the first row shape that differs.

    Args:
        append_int64_node: Appends a node.
        zero: The constant [0].
        one: The constant [1].
        raw_stack: The stack of rows.
        recorded_shapes: The stack of the shapes of the rows.
    """
    row_count = append_int64_node("Shape", raw_stack, end=1)
    first_row_shape = append_int64_node(
        "Unsqueeze", append_int64_node("Shape", raw_stack, start=1), zero
    )
    row_shapes = append_int64_node(
        "Concat", recorded_shapes, first_row_shape, axis=0
    )  # never empty
    summed_extent_differences = append_int64_node(
        "ReduceSum",
        append_int64_node("Abs", append_int64_node("Sub", row_shapes, first_row_shape)),
        one,
        keepdims=0,
    )
    farthest_row_shape = append_int64_node(
        "Gather",
        row_shapes,
        append_int64_node("ArgMax", summed_extent_differences, axis=0, keepdims=0),
        axis=0,
    )
    shape_difference = append_int64_node(
        "Min", append_int64_node("ReduceMax", summed_extent_differences), one
    )
    # If all rows are empty, an extent of 0 would fit any shape.
    row_extents = append_int64_node("Max", farthest_row_shape, shape_difference)
    return append_int64_node(
        "Concat", append_int64_node("Add", row_count, shape_difference), row_extents, axis=0
    )


# --- the runtime's messages -------------------------------------------------------------------

_RESHAPE_MESSAGE = re.compile(r"Input shape:\{\d+,?([\d,]*)\}, requested shape:\{\d+,?([\d,]*)\}")
_SIZE_MESSAGE = re.compile(
    r"Inconsistent shape in loop output.*Expected:\{([\d,]*)\} Got:\{([\d,]*)\}"
)


def row_shape_error(
    message: str, node_name: str, mdf_path: str, node_registry: NodeRegistry
) -> RecordShapeError | None:
    """Convert a runtime error about row shapes to a readable error, or return None.

    Args:
        message: The message.
        node_name: The name of the node that failed.
        mdf_path: The path in the model that the name contains.
        node_registry: Operations of the program by names of nodes.
    """
    possible_recordings: tuple[Recorded, ...] = ()
    if node_name in node_registry.recording_by_node_name:
        loop, recording = node_registry.recording_by_node_name[node_name]
        shape_match, mdf_path, possible_recordings = (
            _RESHAPE_MESSAGE.search(message),
            loop.where,
            (recording,),
        )
    else:
        shape_match = _SIZE_MESSAGE.search(message)
        if node_name in node_registry.loop_by_node_name:
            possible_recordings = records_to_compare(node_registry.loop_by_node_name[node_name])
    if shape_match is None:
        return None
    first_shape, other_shape = (
        f"[{extent_text.replace(',', ', ')}]" for extent_text in shape_match.groups()
    )
    return build_row_shape_error(
        [recording.name or recording.row.name for recording in possible_recordings],
        first_shape,
        other_shape,
        mdf_path,
    )


def build_row_shape_error(
    names: Sequence[str], first_shape: str, other_shape: str, where: str
) -> RecordShapeError:
    """Return the error for recorded rows that differ in shape between iterations.

    `names` are the recorded outputs that may have these rows.
    """
    record_text = (
        f"the recorded value {' or '.join(map(repr, names))}" if names else "a recorded value"
    )
    return RecordShapeError(
        f"{record_text} has shape {first_shape} at first, but {other_shape} in a later iteration",
        where,
        "a recorded value must have one shape in all iterations",
    )
