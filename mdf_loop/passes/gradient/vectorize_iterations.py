"""What is computed in each iteration of a loop, computed for all of them.

%y = Mul(%x, %w)   ->   %ys: float64[tape, n] = Mul(%xs, %w)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Constant, Input, Operation, Output, Program, Value, reads, results
from mdf_loop.ops.words import rank
from mdf_loop.passes.batching.batch import batch
from mdf_loop.passes.copying import copy_operations
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code

Rows = Mapping[Value, Value]
"""By a value of one iteration that of all, with their axis in front."""


def vectorize_iterations(
    b: Builder, ops: Sequence[Operation], wanted: Iterable[Value], rows: Rows, extent: str
) -> tuple[dict[Value, Value], set[Value]]:
    """Append what operations give in all iterations, for values that differ from one to the next.

    Args:
        b: where it is appended.
        ops: those of one iteration.
        wanted: what of it is wanted.
        rows: what differs, of all iterations.
        extent: the name of how many there are.

    Returns:
        What is wanted, and which of it has the axis: all else is the same in all iterations.

    Raises:
        UnsupportedError: something cannot be computed for many values at once.
    """
    wanted = tuple(dict.fromkeys(wanted))
    program = _program(b, ops, wanted)
    names = [e.value.name for e in program.inputs if e.value in rows]
    made = batch(program, names, extent)
    if len(made.outputs) > len(wanted):
        raise UnsupportedError(
            "inner loops record as many rows as they have iterations, which is not the same each time",
            b.where,
        )
    pairs = list(zip(program.inputs, made.inputs, strict=True))
    given = {new.value: rows.get(old.value, old.value) for old, new in pairs}
    axes = {str((new.value.shape or ("",))[0]) for old, new in pairs if old.value in rows}
    own, new = copy_operations(b, made.ops, given, dict.fromkeys(axes, extent))
    b.ops += own
    found: dict[Value, Value] = {}
    along: set[Value] = set()
    for value, output in zip(wanted, made.outputs, strict=True):
        result = new.get(output.value) or given.get(output.value, output.value)
        if output.members == 1:
            result = _turned(b, result, next(iter(rows.values())))
        found[value] = result
        along.update({value} if output.members is not None else ())
    return found, along


def _turned(b: Builder, recorded: Value, like: Value) -> Value:
    """What an inner loop has recorded, with the axis of all iterations in front, as in `like`.

    An inner loop of no iterations has no rows, but there are as many outer ones.
    """
    turned = b.op("Transpose", recorded, perm=(1, 0, *range(2, rank(recorded))))
    inner = b.op("Shape", turned, start=1)
    shape = b.op("Concat", b.op("Shape", like, start=0, end=1), inner, axis=0)
    return b.op("Reshape", turned, shape, allowzero=1)


def _program(b: Builder, ops: Sequence[Operation], wanted: Sequence[Value]) -> Program:
    """Operations of one iteration as a program, given all that they read from outside."""
    made = {value for operation in ops for value in results(operation)}
    read = dict.fromkeys(v for operation in ops for v in reads(operation) if v not in made)
    read |= dict.fromkeys(v for v in wanted if v not in made)
    known = {v: array for v in read if (array := b.constant_of(v)) is not None}
    constants = [Constant(value, array) for value, array in known.items()]
    inputs = tuple(Input(value) for value in read if value not in known)
    outputs = tuple(Output(f"wanted {k}", value) for k, value in enumerate(wanted))
    return eliminate_dead_code(Program("", inputs, (*constants, *ops), outputs))
