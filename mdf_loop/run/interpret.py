"""Reference interpreter of programs in plain NumPy, iteration by iteration.

The interpreter is the reference for tests of every engine, and shares no operator decompositions with the
ONNX writer. NumPy computes operations (`ops.meaning`). Loops and branches are computed here.
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
from mdf_loop.ops.meaning import evaluate

_GoOn: TypeAlias = Callable[[], None]
"""Function called before each iteration. An exception from this function ends the computation."""


def interpret(
    program: Program, arrays: Mapping[str, Data], go_on: _GoOn = lambda: None
) -> dict[str, Data]:
    """Compute the outputs of a program by name from its inputs by name.

    Raises:
        RunError: An operation cannot be computed. The message names the operation and its place.
    """
    feeds = ((entry.value, arrays[entry.value.name]) for entry in program.inputs)
    values = {v: np.asarray(data) if is_tensor(v.dtype) else data for v, data in feeds}
    _run(program.ops, values, go_on)
    return {output.name: values[output.value] for output in program.outputs}


def _run(ops: Iterable[Operation], values: dict[Value, Data], go_on: _GoOn) -> None:
    for operation in ops:
        if isinstance(operation, Constant):
            values[operation.value] = operation.array
        elif isinstance(operation, Op):
            _run_op(operation, values)
        elif isinstance(operation, Guard):
            _run_guard(operation, values)
        elif isinstance(operation, Loop):
            run = _run_loop if operation.members is None else _run_members
            run(operation, values, go_on)
        else:
            _run_choice(operation, values, go_on)


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
    if not values[guard.ok]:
        raise RunError(guard.sentence, guard.where)
    values[guard.output] = values[guard.value]


def _run_choice(choice: If, values: dict[Value, Data], go_on: _GoOn) -> None:
    branch = choice.then if values[choice.condition] else choice.otherwise
    inside = dict(values)
    _run(branch.ops, inside, go_on)
    values.update((o, inside[leaf]) for o, leaf in zip(choice.outputs, branch.leaves, strict=True))


def _run_loop(loop: Loop, values: dict[Value, Data], go_on: _GoOn) -> None:
    limit = None if loop.trip_count is None else int(values[loop.trip_count])
    if limit is None:
        limit = loop.bound
    go = True if loop.condition is None else bool(values[loop.condition])
    last = go
    first = 0 if loop.first is None else int(values[loop.first])
    entering = [values[carried.initial] for carried in loop.carried]
    rows: list[list[Array]] = [[] for _ in loop.recorded]
    i = 0
    while (limit is None or i < limit) and (loop.condition is None or go):
        go_on()
        inside = dict(values)
        inside[loop.iteration] = np.array(first + i, np.int64)
        inside[loop.condition_in] = np.array(go)
        inside.update((c.enter, array) for c, array in zip(loop.carried, entering, strict=True))
        inside.update((scanned.row, _row(values, scanned, i, loop)) for scanned in loop.scanned)
        _run(loop.ops, inside, go_on)
        entering = [inside[carried.leave] for carried in loop.carried]
        for stack, recorded in zip(rows, loop.recorded, strict=True):
            stack.append(inside[recorded.row])
        if loop.condition_out is not None:
            last = bool(inside[loop.condition_out])
            go = go if loop.condition is None else last
        i += 1
    values.update((c.final, array) for c, array in zip(loop.carried, entering, strict=True))
    for stack, recorded in zip(rows, loop.recorded, strict=True):
        values[recorded.stack] = _stacked(stack, recorded, loop)
    if loop.count is not None:
        values[loop.count] = np.array(i, np.int64)
    if loop.last_condition is not None:
        values[loop.last_condition] = np.array(last)


def _run_members(loop: Loop, values: dict[Value, Data], go_on: _GoOn) -> None:
    """Run a loop of a batch whose members have individual termination conditions."""
    limit = loop.bound if loop.trip_count is None else int(values[loop.trip_count])
    assert loop.condition is not None
    assert loop.condition_out is not None
    going = np.array(values[loop.condition])
    counts = np.zeros(going.shape, np.int64)
    first = 0 if loop.first is None else int(values[loop.first])
    entering = [values[carried.initial] for carried in loop.carried]
    read = captures(loop)
    rows: list[list[Array]] = [[] for _ in loop.recorded]
    i = 0
    while (limit is None or i < limit) and going.any():
        go_on()
        inside = dict(values)
        inside.update((c.enter, array) for c, array in zip(loop.carried, entering, strict=True))
        inside.update((scanned.row, _row(values, scanned, i, loop)) for scanned in loop.scanned)
        inner_values = (*read, *(c.enter for c in loop.carried), *(s.row for s in loop.scanned))
        inside.update(
            (value, _of_going(value, inside[value], going, loop)) for value in inner_values
        )
        inside[loop.iteration] = np.array(first + i, np.int64)
        inside[loop.condition_in] = going
        _run(loop.ops, inside, go_on)
        leaving = [inside[carried.leave] for carried in loop.carried]
        pairs = zip(entering, leaving, strict=True)
        entering = [np.where(_along(going, 0, old), new, old) for old, new in pairs]
        for stack, recorded in zip(rows, loop.recorded, strict=True):
            stack.append(inside[recorded.row])
        counts = counts + going
        going = going & inside[loop.condition_out]
        i += 1
    values.update((c.final, array) for c, array in zip(loop.carried, entering, strict=True))
    for stack, recorded in zip(rows, loop.recorded, strict=True):
        values[recorded.stack] = _stacked(stack, recorded, loop)
    if loop.count is not None:
        values[loop.count] = counts
    if loop.last_condition is not None:
        values[loop.last_condition] = going


def _of_going(value: Value, array: Data, going: Array, loop: Loop) -> Data:
    """Replace the values of each finished member by the values of the first running member."""
    if loop.members not in (value.shape or ()):
        return array
    axis = (value.shape or ()).index(loop.members)
    first = np.take(array, [int(np.argmax(going))], axis)
    return np.where(_along(going, axis, array), array, first)


def _along(going: Array, axis: int, array: Array) -> Array:
    """Reshape a mask of members so that it broadcasts along an axis of an array."""
    return going.reshape(*(1,) * axis, -1, *(1,) * (np.ndim(array) - axis - 1))


def _row(values: Mapping[Value, Data], scanned: Scanned, i: int, loop: Loop) -> Array:
    """Return the row of a scanned array for one iteration."""
    rows = np.asarray(values[scanned.rows])
    count = rows.shape[scanned.axis]
    if i >= count:
        raise RunError(f"iteration {i} has no row: '{scanned.rows.name}' has {count}", loop.where)
    row: Array = np.take(rows, -1 - i if scanned.backward else i, scanned.axis)
    return np.asarray(row, rows.dtype)


def _stacked(rows: list[Array], recorded: Recorded, loop: Loop) -> Array:
    """Stack the recorded rows along a new axis 0, which has length 0 without rows."""
    if not rows:
        shape = tuple(d if isinstance(d, int) else 0 for d in recorded.row.shape or ())
        return np.zeros((0, *shape), numpy_dtype(recorded.row.dtype))
    for position, row in enumerate(rows):
        if row.shape != rows[0].shape:
            raise RecordShapeError(
                f"the recorded value '{recorded.name or recorded.row.name}' has shape "
                f"{list(rows[0].shape)} at first, but {list(row.shape)} in iteration {position}",
                loop.where,
                "a recorded value must have one shape in all iterations",
            )
    return np.stack(rows)
