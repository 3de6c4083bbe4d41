"""What a program means: plain numpy, one iteration after the other, no cleverness.

This is the oracle that every engine is compared with; it shares no composition with what is
emitted. Plain operations are computed by numpy (`onnx_ops.evaluate`), those of sequences in
`sequences`; loops and choices are computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mdf_loop import onnx_ops
from mdf_loop.errors import RecordShapeError
from mdf_loop.ir import Array, Constant, Data, If, Loop, Op, Operation, Program, Recorded, Value
from mdf_loop.onnx_types import is_tensor, numpy_dtype
from mdf_loop.run import sequences


def interpret(program: Program, arrays: Mapping[str, Data]) -> dict[str, Data]:
    """The program's outputs by name, for inputs by name."""
    given = ((entry.value, arrays[entry.value.name]) for entry in program.inputs)
    values = {v: np.asarray(data) if is_tensor(v.dtype) else data for v, data in given}
    _run(program.ops, values)
    return {name: values[value] for name, value in program.outputs}


def _run(ops: Iterable[Operation], values: dict[Value, Data]) -> None:
    for operation in ops:
        if isinstance(operation, Constant):
            values[operation.value] = operation.array
        elif isinstance(operation, Op):
            _run_op(operation, values)
        elif isinstance(operation, Loop):
            _run_loop(operation, values)
        else:
            _run_choice(operation, values)


def _run_op(op: Op, values: dict[Value, Data]) -> None:
    arrays = [None if value is None else values[value] for value in op.inputs]
    if sequences.is_about_sequences(op):
        values[op.outputs[0]] = sequences.evaluate(op, arrays)
        return
    made = onnx_ops.evaluate(op.op_type, arrays, op.attributes, len(op.outputs))
    values.update(zip(op.outputs, made, strict=True))


def _run_choice(choice: If, values: dict[Value, Data]) -> None:
    branch = choice.then if values[choice.condition] else choice.otherwise
    inside = dict(values)
    _run(branch.ops, inside)
    values.update((o, inside[leaf]) for o, leaf in zip(choice.outputs, branch.leaves, strict=True))


def _run_loop(loop: Loop, values: dict[Value, Data]) -> None:
    limit = None if loop.trip_count is None else int(values[loop.trip_count])
    if limit is None:
        limit = loop.bound
    go = True if loop.condition is None else bool(values[loop.condition])
    last = go
    entering = [values[carried.initial] for carried in loop.carried]
    rows: list[list[Array]] = [[] for _ in loop.recorded]
    i = 0
    while (limit is None or i < limit) and (loop.condition is None or go):
        inside = dict(values)
        inside[loop.iteration] = np.array(i, np.int64)
        inside[loop.condition_in] = np.array(go)
        inside.update((c.enter, array) for c, array in zip(loop.carried, entering, strict=True))
        _run(loop.ops, inside)
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


def _stacked(rows: list[Array], recorded: Recorded, loop: Loop) -> Array:
    """The rows on a new axis 0; no rows give length 0 and the declared row shape."""
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
