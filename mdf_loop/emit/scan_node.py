"""Conversion of counted loops to ONNX `Scan`, which runs faster than `Loop`.

    loop %i < trip                          if 0 < trip <= MAX_SCAN_ITERATIONS, and there are as many rows:
      carry %x ...                            finals, stacks = Scan(initials, Range(0, trip), rows)
      scan %row of %rows               ->   else:
      record %y                               finals, stacks = Loop(trip, True, initials)

The results are equal bit for bit. The names of nodes and the way to interrupt a run stay the same. A `Loop`
keeps every row and stacks all rows at the end. A `Scan` writes each row into the stack. A `Scan` needs less
time for every carried and every recorded value, and half of the memory or less.

A `Scan` cannot stop early, change shapes or run zero times, and it allocates all its memory at once (ONNX
Runtime 1.31). So other loops are written as `Loop`. Loops that record nothing need no memory that grows with
the trip count, and are written as `Loop`, too. The same holds for loops in bodies.

A row that a `Scan` reads or writes begins where the row before it ends. Vectorized kernels compute the
elements before and behind the full vectors one by one, with other last bits (Tanh, Sin, Exp). These elements
depend on the address of the array. So a row of floats is copied, with two exceptions: all written rows
have the same alignment, or the readers of a row compute the same bits at every address.

A `Scan` runs once for every row, so all its scanned inputs have the same number of rows. An input that has
more rows is sliced, which copies the rows. An input with a constant number of rows equal to the trip count
is read without a copy. Iteration numbers are a scanned input, too, if an iteration reads its number. They
begin with `Loop.first_iteration`.

The runtime packs a constant weight once, when it loads a model. For a body within a branch of an If the
runtime would pack the weight again in each iteration. So the branch has its own constants for the weights of
its body (see `weights`).

Source: ONNX operators, Scan-16; measured in docs/benchmarks.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from mdf_loop.emit.loop_node import LoopParts, append_loop, copied_inputs, write_loop
from mdf_loop.emit.scope import ModelWriter, OnnxScope, WriteOps, tensor_shape
from mdf_loop.emit.weights import copy_packed_weights, has_large_weight
from mdf_loop.ir import (
    Array,
    Loop,
    Op,
    Recorded,
    Scanned,
    Value,
    body_outputs,
    is_fixed,
    reads,
    walk,
)
from mdf_loop.ir.types import is_tensor, numpy_dtype
from mdf_loop.onnx_writer import oir
from mdf_loop.ops.registry import Reproducibility, row_of

MAX_SCAN_ITERATIONS = 10_000_000
"""Maximum number of iterations of a Scan, for which the array of iteration numbers takes 80 MB."""

ALIGNMENT_BYTES = 64
"""Alignment in bytes of the arrays that ONNX Runtime allocates."""


def write_scan(outer_scope: OnnxScope, loop: Loop, write: WriteOps) -> None:
    """Append a loop as an If that chooses between a Scan and a Loop, or as a Loop alone."""
    loop_parts = LoopParts(outer_scope, loop)
    if not _can_scan(
        loop, loop_parts.recorded_rows.stacked_recordings, outer_scope.writer.constant_array
    ):
        write_loop(outer_scope, loop, write)
        return
    scan_condition = _append_scan_condition(outer_scope, loop_parts)
    if_outputs = loop_parts.define_outputs()
    used_names = set(outer_scope.writer.used_names)
    scan_branch = _build_scan_branch(outer_scope, loop_parts, write, if_outputs)
    outer_scope.writer.used_names = used_names  # both branches use the same names
    loop_branch = _build_loop_branch(outer_scope, loop_parts, write, if_outputs)
    branches = {"then_branch": scan_branch, "else_branch": loop_branch}
    outer_scope.append_node("If", [scan_condition], if_outputs, branches, loop.where)
    loop_parts.append_postprocessing()


# --- loops that a Scan can execute ------------------------------------------------------------


def _can_scan(
    loop: Loop,
    stacked_recordings: tuple[Recorded, ...],
    constant_array: Callable[[Value], Array | None],
) -> bool:
    """Return True if an ONNX Scan can compute the loop for a suitable trip count.

    The loop is counted, records rows, and its values keep their shapes. A loop with a weight that is too large
    for a copy in the branch is written as `Loop`.
    """
    if (
        loop.condition is not None
        or not stacked_recordings
        or has_large_weight(loop, constant_array)
    ):
        return False
    carried_pairs = (
        (carried_value.body_input, carried_value.body_output) for carried_value in loop.carried
    )
    have_fixed_shapes = all(
        _is_fixed_numeric(carried_output) and carried_input.shape == carried_output.shape
        for carried_input, carried_output in carried_pairs
    )
    have_known_ranks = all(
        scanned_input.rows.shape is not None and _is_numeric(scanned_input.rows)
        for scanned_input in loop.scanned
    )
    return (
        have_fixed_shapes
        and have_known_ranks
        and all(_is_fixed_numeric(recording.row) for recording in stacked_recordings)
    )


def _is_fixed_numeric(value: Value) -> bool:
    """Return True if a value is a numeric array of a known shape."""
    return _is_numeric(value) and is_fixed(value.shape)


def _is_numeric(value: Value) -> bool:
    """Return True if a value is an array of numbers or booleans."""
    return is_tensor(value.dtype) and value.dtype != "string"


def _append_scan_condition(outer_scope: OnnxScope, loop_parts: LoopParts) -> oir.Value:
    """Append nodes that decide at run time whether a Scan can execute all iterations."""
    writer, trip_count = outer_scope.writer, loop_parts.trip_count
    is_trip_positive = outer_scope.append_bool_node(
        "Greater", trip_count, writer.constant(np.array(0))
    )
    iteration_limit = writer.constant(np.array(MAX_SCAN_ITERATIONS))
    is_below_limit = outer_scope.append_bool_node("LessOrEqual", trip_count, iteration_limit)
    scan_condition = outer_scope.append_bool_node("And", is_trip_positive, is_below_limit)
    for scanned_input in loop_parts.loop.scanned:
        if not _has_row_per_iteration(writer, scanned_input, trip_count):
            row_extent = outer_scope.append_int64_node(
                "Shape",
                writer.onnx_values[scanned_input.rows],
                start=scanned_input.axis,
                end=scanned_input.axis + 1,
            )
            row_count = outer_scope.append_int64_node("Squeeze", row_extent)
            has_enough_rows = outer_scope.append_bool_node("LessOrEqual", trip_count, row_count)
            scan_condition = outer_scope.append_bool_node("And", scan_condition, has_enough_rows)
    return scan_condition


def _has_row_per_iteration(writer: ModelWriter, scanned: Scanned, trip_count: oir.Value) -> bool:
    """Return True if the number of scanned rows is known to equal the trip count."""
    rows, constant_trip_count = scanned.rows, trip_count.const_value
    if constant_trip_count is None or rows.shape is None:
        return False
    return bool(rows.shape[scanned.axis] == constant_trip_count.numpy())


# --- the branches -----------------------------------------------------------------------------


def _build_scan_branch(
    outer_scope: OnnxScope, loop_parts: LoopParts, write: WriteOps, outputs: list[oir.Value]
) -> oir.Graph:
    """Build the branch graph of the If that executes the loop as a Scan.

    The Scan reads the scanned rows, and the iteration numbers if the body reads them.
    """
    loop, writer = loop_parts.loop, outer_scope.writer
    branch_scope = OnnxScope(writer, ())
    reads_iteration_number = _reads_iteration(loop) or not loop.scanned
    scan_body = _build_body(writer, loop_parts, write, reads_iteration_number)
    scanned_rows = (
        [_append_iteration_numbers(branch_scope, loop_parts)] if reads_iteration_number else []
    )
    scanned_rows += [
        _slice_rows(branch_scope, scanned_input, loop_parts.trip_count)
        for scanned_input in loop.scanned
    ]
    branch_outputs = _new_branch_outputs(writer, loop_parts, outputs)
    scan_attributes = {
        "num_scan_inputs": len(scanned_rows),
        "scan_input_axes": [
            *([0] * reads_iteration_number),
            *(scanned_input.axis for scanned_input in loop.scanned),
        ],
        "scan_input_directions": [
            *([0] * reads_iteration_number),
            *(int(scanned_input.is_backward) for scanned_input in loop.scanned),
        ],
        "body": scan_body,
    }
    branch_scope.append_node(
        "Scan",
        [*loop_parts.initial_values(), *scanned_rows],
        branch_outputs,
        scan_attributes,
        loop.where,
    )
    graph_name = writer.new_name(f"{loop.name} scan")
    copied_weights = copy_packed_weights(scan_body, writer.new_name)
    return oir.Graph(
        [],
        branch_outputs,
        nodes=branch_scope.onnx_nodes,
        initializers=copied_weights,
        name=graph_name,
    )


def _reads_iteration(loop: Loop) -> bool:
    """Return True if the body of a loop reads or returns the iteration number."""
    values_read = {value for operation in loop.ops for value in reads(operation)}
    return loop.iteration in values_read or loop.iteration in body_outputs(loop)


def _append_iteration_numbers(scope: OnnxScope, loop_parts: LoopParts) -> oir.Value:
    """Append a Range of all iteration numbers, which begins with `Loop.first_iteration`."""
    writer, first_iteration = scope.writer, loop_parts.loop.first_iteration
    start_number, end_number = writer.constant(np.array(0)), loop_parts.trip_count
    if first_iteration is not None:
        start_number = writer.onnx_values[first_iteration]
        end_number = scope.append_int64_node("Add", start_number, loop_parts.trip_count)
    return scope.append_int64_node("Range", start_number, end_number, writer.constant(np.array(1)))


def _slice_rows(scope: OnnxScope, scanned: Scanned, trip_count: oir.Value) -> oir.Value:
    """Return the rows of a scanned input, sliced to one row for each iteration."""
    writer, onnx_rows = scope.writer, scope.writer.onnx_values[scanned.rows]
    if _has_row_per_iteration(writer, scanned, trip_count):
        return onnx_rows
    row_axis = writer.constant(np.array([scanned.axis]))
    trip_count_vector = scope.append_int64_node(
        "Unsqueeze", trip_count, writer.constant(np.array([0]))
    )
    start_row, end_row = writer.constant(np.array([0])), trip_count_vector
    if scanned.is_backward:
        start_row = scope.append_int64_node("Neg", trip_count_vector)
        end_row = writer.constant(np.array([np.iinfo(np.int64).max]))
    sliced_shape = [*(scanned.rows.shape or ())]
    sliced_shape[scanned.axis] = writer.new_name("iterations")
    rows_name = writer.new_name(scanned.rows.name)
    sliced_rows = oir.Value(
        name=rows_name, type=onnx_rows.type, shape=tensor_shape(tuple(sliced_shape))
    )
    scope.append_node("Slice", [onnx_rows, start_row, end_row, row_axis], [sliced_rows])
    return sliced_rows


def _build_body(
    writer: ModelWriter, loop_parts: LoopParts, write: WriteOps, has_iteration_number: bool
) -> oir.Graph:
    """Build the body graph of a Scan node."""
    loop = loop_parts.loop
    carried_inputs = tuple(carried_value.body_input for carried_value in loop.carried)
    state_inputs = [writer.define_value(value) for value in carried_inputs]
    defined_values = [*carried_inputs, *([loop.iteration] if has_iteration_number else [])]
    iteration_inputs = [writer.define_value(loop.iteration)] if has_iteration_number else []
    writer.onnx_values[loop.condition_in] = writer.constant(np.array(True))
    body_scope = OnnxScope(writer, defined_values)
    row_inputs = list(_define_rows(body_scope, loop))
    write(body_scope, loop.ops)
    body_inputs = [
        *state_inputs,
        *loop_parts.extra_carried.body_inputs(),
        *iteration_inputs,
        *row_inputs,
    ]
    return oir.Graph(
        body_inputs,
        list(_define_outputs(body_scope, loop_parts, body_inputs)),
        nodes=body_scope.onnx_nodes,
        name=writer.new_name(loop.name or "body"),
    )


def _define_rows(body_scope: OnnxScope, loop: Loop) -> Iterator[oir.Value]:
    """Yield the input rows of a Scan's body. Copy each row whose alignment can affect results."""
    writer = body_scope.writer
    for scanned_input in loop.scanned:
        row_value = body_scope.define_value(scanned_input.row)
        yield row_value
        if _is_float_array(scanned_input.row) and not _has_address_independent_readers(
            loop, scanned_input.row
        ):
            writer.onnx_values[scanned_input.row] = body_scope.append_copy(row_value)


def _has_address_independent_readers(loop: Loop, row: Value) -> bool:
    """Return True if all readers of a row compute the same bits at every memory address."""
    row_readers = [op for op in walk(loop.ops) if row in reads(op)]
    return all(isinstance(op, Op) and _has_address_independent_bits(op) for op in row_readers)


def _has_address_independent_bits(op: Op) -> bool:
    """Return True if the results of an operation do not depend on memory addresses."""
    operator_row = row_of(op.op_type)
    return operator_row.onnx_decomposition is not None or (
        operator_row.is_elementwise and operator_row.reproducibility is Reproducibility.FIXED
    )


def _define_outputs(
    body_scope: OnnxScope, loop_parts: LoopParts, body_input_values: list[oir.Value]
) -> Iterator[oir.Value]:
    """Yield the outputs of the body of a Scan, as copies where ONNX Runtime requires copies.

    An output that is also an input or another output is copied, because ONNX Runtime loses its value. Rows that
    are not aligned are also copied.
    """
    loop, returned_values = loop_parts.loop, set(body_input_values)
    body_outputs = [
        body_scope.graph_output(carried_value.body_output, copied_inputs(loop))
        for carried_value in loop.carried
    ]
    body_outputs += loop_parts.extra_carried.body_outputs(body_scope)
    state_count = len(body_outputs)
    stacked_recordings = loop_parts.recorded_rows.stacked_recordings
    body_outputs += [
        body_scope.graph_output(recording.row, copied_inputs(loop))
        for recording in stacked_recordings
    ]
    copy_flags = [False] * state_count + [
        _is_unaligned(recording.row) for recording in stacked_recordings
    ]
    for output, is_copied in zip(body_outputs, copy_flags, strict=True):
        unshared_output = (
            body_scope.append_copy(output) if is_copied or output in returned_values else output
        )
        returned_values.add(unshared_output)
        yield unshared_output


def _is_unaligned(row: Value) -> bool:
    """Return True if stacked rows of floats do not all begin at a multiple of `ALIGNMENT_BYTES`."""
    assert is_fixed(row.shape)
    row_bytes = math.prod(row.shape) * numpy_dtype(row.dtype).itemsize
    return _is_float_array(row) and row_bytes % ALIGNMENT_BYTES != 0


def _is_float_array(row: Value) -> bool:
    """Return True if a row may be a float array with several elements."""
    may_have_several_elements = not is_fixed(row.shape) or math.prod(row.shape) > 1
    return may_have_several_elements and numpy_dtype(row.dtype).kind not in "biu"


def _build_loop_branch(
    outer_scope: OnnxScope, loop_parts: LoopParts, write: WriteOps, outputs: list[oir.Value]
) -> oir.Graph:
    """Build the branch of an If that executes the loop as an ONNX Loop, not as a Scan."""
    writer = outer_scope.writer
    branch_scope = OnnxScope(writer, ())
    branch_outputs = _new_branch_outputs(writer, loop_parts, outputs)
    append_loop(branch_scope, loop_parts, write, branch_outputs)
    graph_name = writer.new_name(f"{loop_parts.loop.name} loop")
    return oir.Graph([], branch_outputs, nodes=branch_scope.onnx_nodes, name=graph_name)


def _new_branch_outputs(
    writer: ModelWriter, loop_parts: LoopParts, outputs: list[oir.Value]
) -> list[oir.Value]:
    """Return new ONNX values for the outputs of a branch, with the types of `outputs`.

    The number of rows is a new extent, because a segment of a loop has fewer rows than the loop.
    """
    branch_outputs = [writer.new_like(value) for value in outputs]
    recorded_outputs = zip(
        reversed(branch_outputs),
        reversed(loop_parts.recorded_rows.stacked_recordings),
        strict=False,
    )
    for branch_output, recording in recorded_outputs:
        row_extents = recording.row.shape or ()
        branch_output.shape = tensor_shape((writer.new_name("iterations"), *row_extents))
    return branch_outputs
