"""Reference interpreter of programs in plain NumPy.

The interpreter is the reference for tests of every engine, and shares no operator decompositions with the
ONNX writer. NumPy computes operations (`ops.numpy_evaluation`). Loops and branches are computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import numpy as np

from mdf_loop.errors import LoopError, RecordShapeError, RunError
from mdf_loop.ir import (
    Array,
    Constant,
    Data,
    Guard,
    If,
    Loop,
    Op,
    Operation,
    Program,
    Recorded,
    Scanned,
    Value,
    captures,
)
from mdf_loop.ir.types import is_tensor, numpy_dtype
from mdf_loop.ops.numpy_evaluation import evaluate

_CheckTermination: TypeAlias = Callable[[], None]
"""Function called before each iteration. An exception from this function ends the computation."""


def interpret(
    program: Program,
    arrays: Mapping[str, Data],
    check_termination: _CheckTermination = lambda: None,
) -> dict[str, Data]:
    """Compute the outputs of a program in plain NumPy, from its inputs by name.

    Raises:
        RunError: An operation cannot be computed. The message names the operation and its place.
    """
    feeds = (
        (program_input.value, arrays[program_input.value.name]) for program_input in program.inputs
    )
    values = {value: np.asarray(data) if is_tensor(value.dtype) else data for value, data in feeds}
    _run_operations(program.ops, values, check_termination)
    return {output.name: values[output.value] for output in program.outputs}


def _run_operations(
    ops: Iterable[Operation], values: dict[Value, Data], check_termination: _CheckTermination
) -> None:
    for operation in ops:
        if isinstance(operation, Constant):
            values[operation.value] = operation.array
        elif isinstance(operation, Op):
            _run_op(operation, values)
        elif isinstance(operation, Guard):
            _run_guard(operation, values)
        elif isinstance(operation, Loop):
            run_loop = _run_loop if operation.member_axis is None else _run_members
            run_loop(operation, values, check_termination)
        else:
            _run_branch(operation, values, check_termination)


def _run_op(op: Op, values: dict[Value, Data]) -> None:
    arrays = [None if value is None else values[value] for value in op.inputs]
    try:
        outputs = evaluate(op.op_type, arrays, op.attributes, len(op.outputs))
    except LoopError as error:
        finding = error.findings[0]
        raise RunError(finding.what, op.where, finding.hint) from None
    except Exception as error:  # noqa: BLE001 - numpy and onnx's reference raise anything
        message = " ".join(str(error).split()) or type(error).__name__
        raise RunError(f"onnx::{op.op_type} cannot be computed: {message}", op.where) from None
    values.update(zip(op.outputs, outputs, strict=True))


def _run_guard(guard: Guard, values: dict[Value, Data]) -> None:
    if not values[guard.condition]:
        raise RunError(guard.message, guard.where)
    values[guard.output] = values[guard.value]


def _run_branch(
    choice: If, values: dict[Value, Data], check_termination: _CheckTermination
) -> None:
    branch = choice.then if values[choice.condition] else choice.otherwise
    branch_values = dict(values)
    _run_operations(branch.ops, branch_values, check_termination)
    values.update(
        (output, branch_values[branch_output])
        for output, branch_output in zip(choice.outputs, branch.outputs, strict=True)
    )


def _run_loop(loop: Loop, values: dict[Value, Data], check_termination: _CheckTermination) -> None:
    max_iterations = None if loop.trip_count is None else int(values[loop.trip_count])
    if max_iterations is None:
        max_iterations = loop.max_iterations
    condition = True if loop.condition is None else bool(values[loop.condition])
    last_condition = condition
    first_iteration = 0 if loop.first_iteration is None else int(values[loop.first_iteration])
    carried_arrays = [values[carried_value.initial] for carried_value in loop.carried]
    recorded_rows: list[list[Array]] = [[] for _ in loop.recorded]
    i = 0
    while (max_iterations is None or i < max_iterations) and (loop.condition is None or condition):
        check_termination()
        body_values = dict(values)
        body_values[loop.iteration] = np.array(first_iteration + i, np.int64)
        body_values[loop.condition_in] = np.array(condition)
        body_values.update(
            (carried_value.body_input, array)
            for carried_value, array in zip(loop.carried, carried_arrays, strict=True)
        )
        body_values.update(
            (scanned_input.row, _read_scanned_row(values, scanned_input, i, loop))
            for scanned_input in loop.scanned
        )
        _run_operations(loop.ops, body_values, check_termination)
        carried_arrays = [body_values[carried_value.body_output] for carried_value in loop.carried]
        for stack, recorded_value in zip(recorded_rows, loop.recorded, strict=True):
            stack.append(body_values[recorded_value.row])
        if loop.condition_out is not None:
            last_condition = bool(body_values[loop.condition_out])
            condition = condition if loop.condition is None else last_condition
        i += 1
    values.update(
        (carried_value.final, array)
        for carried_value, array in zip(loop.carried, carried_arrays, strict=True)
    )
    for stack, recorded_value in zip(recorded_rows, loop.recorded, strict=True):
        values[recorded_value.stack] = _stack_rows(stack, recorded_value, loop)
    if loop.iteration_count is not None:
        values[loop.iteration_count] = np.array(i, np.int64)
    if loop.last_condition is not None:
        values[loop.last_condition] = np.array(last_condition)


def _run_members(
    loop: Loop, values: dict[Value, Data], check_termination: _CheckTermination
) -> None:
    """Run a batched loop in which each batch member has a separate termination condition."""
    max_iterations = (
        loop.max_iterations if loop.trip_count is None else int(values[loop.trip_count])
    )
    assert loop.condition is not None
    assert loop.condition_out is not None
    is_running = np.array(values[loop.condition])
    iteration_counts = np.zeros(is_running.shape, np.int64)
    first_iteration = 0 if loop.first_iteration is None else int(values[loop.first_iteration])
    carried_arrays = [values[carried_value.initial] for carried_value in loop.carried]
    captured_values = captures(loop)
    recorded_rows: list[list[Array]] = [[] for _ in loop.recorded]
    i = 0
    while (max_iterations is None or i < max_iterations) and is_running.any():
        check_termination()
        body_values = dict(values)
        body_values.update(
            (carried_value.body_input, array)
            for carried_value, array in zip(loop.carried, carried_arrays, strict=True)
        )
        body_values.update(
            (scanned_input.row, _read_scanned_row(values, scanned_input, i, loop))
            for scanned_input in loop.scanned
        )
        inner_values = (
            *captured_values,
            *(carried_value.body_input for carried_value in loop.carried),
            *(scanned_input.row for scanned_input in loop.scanned),
        )
        body_values.update(
            (value, _replace_finished_members(value, body_values[value], is_running, loop))
            for value in inner_values
        )
        body_values[loop.iteration] = np.array(first_iteration + i, np.int64)
        body_values[loop.condition_in] = is_running
        _run_operations(loop.ops, body_values, check_termination)
        new_arrays = [body_values[carried_value.body_output] for carried_value in loop.carried]
        array_pairs = zip(carried_arrays, new_arrays, strict=True)
        carried_arrays = [
            np.where(_align_mask(is_running, 0, old_array), new_array, old_array)
            for old_array, new_array in array_pairs
        ]
        for stack, recorded_value in zip(recorded_rows, loop.recorded, strict=True):
            stack.append(body_values[recorded_value.row])
        iteration_counts = iteration_counts + is_running
        is_running = is_running & body_values[loop.condition_out]
        i += 1
    values.update(
        (carried_value.final, array)
        for carried_value, array in zip(loop.carried, carried_arrays, strict=True)
    )
    for stack, recorded_value in zip(recorded_rows, loop.recorded, strict=True):
        values[recorded_value.stack] = _stack_rows(stack, recorded_value, loop)
    if loop.iteration_count is not None:
        values[loop.iteration_count] = iteration_counts
    if loop.last_condition is not None:
        values[loop.last_condition] = is_running


def _replace_finished_members(value: Value, array: Data, running: Array, loop: Loop) -> Data:
    """Replace a value's elements of finished members by those of the first running member."""
    if loop.member_axis not in (value.shape or ()):
        return array
    axis = (value.shape or ()).index(loop.member_axis)
    running_member = np.take(array, [int(np.argmax(running))], axis)
    return np.where(_align_mask(running, axis, array), array, running_member)


def _align_mask(mask: Array, axis: int, array: Array) -> Array:
    """Reshape a mask over batch members so that it broadcasts along an axis of an array."""
    return mask.reshape(*(1,) * axis, -1, *(1,) * (np.ndim(array) - axis - 1))


def _read_scanned_row(
    values: Mapping[Value, Data], scanned_input: Scanned, i: int, loop: Loop
) -> Array:
    """Return the row of a scanned array that iteration `i` of a loop reads."""
    rows = np.asarray(values[scanned_input.rows])
    row_count = rows.shape[scanned_input.axis]
    if i >= row_count:
        raise RunError(
            f"iteration {i} has no row: '{scanned_input.rows.name}' has {row_count}", loop.where
        )
    row: Array = np.take(rows, -1 - i if scanned_input.is_backward else i, scanned_input.axis)
    return np.asarray(row, rows.dtype)


def _stack_rows(rows: list[Array], recorded_value: Recorded, loop: Loop) -> Array:
    """Stack the rows that a loop has recorded along a new axis 0.

    Without rows, the axis has length 0.
    """
    if not rows:
        shape = tuple(
            extent if isinstance(extent, int) else 0 for extent in recorded_value.row.shape or ()
        )
        return np.zeros((0, *shape), numpy_dtype(recorded_value.row.dtype))
    for position, row in enumerate(rows):
        if row.shape != rows[0].shape:
            raise RecordShapeError(
                f"the recorded value '{recorded_value.name or recorded_value.row.name}' has shape "
                f"{list(rows[0].shape)} at first, but {list(row.shape)} in iteration {position}",
                loop.where,
                "a recorded value must have one shape in all iterations",
            )
    return np.stack(rows)
