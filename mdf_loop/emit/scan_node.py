"""Counted loops that record, as ONNX Runtime's CPU provider runs them faster: `Scan` for `Loop`.

    loop %i < trip                          if 0 < trip <= MOST, and there are as many rows:
      carry %x ...                            finals, stacks = Scan(initials, Range(0, trip), rows)
      scan %row of %rows               ->   else:
      record %y                               finals, stacks = Loop(trip, True, initials)

Keeps: results bit for bit, names of nodes, the way to interrupt a run. A `Loop` keeps every row
and stacks them at the end, a `Scan` writes them where they belong: less time for every carried
and every recorded value, and half of the memory or less. It cannot stop early, change shapes or
run zero times, and it takes all its memory at once (ONNX Runtime 1.31). So other loops stay as
they are; so do loops that record nothing, which need no memory that grows with the trip count,
and loops in bodies.

A row that a `Scan` reads or writes begins where the one before it ends. Kernels compute several
elements at once, and those before and behind them one by one, with other last bits (Tanh, Sin,
Exp); which these are depends on where an array begins. So a row of floats is a copy, unless all
that are written begin alike, or what reads it has the same bits wherever it begins.

A `Scan` runs once for every row, and all that it reads has as many rows. What has more is cut, a
copy; where as many are known to be there, it is read as it is. Iteration numbers are rows, too,
where an iteration reads its number: they begin with `Loop.first`.

The runtime packs a constant weight once, when it loads a model, but not for a body within a branch
of an If: there it would pack the weight again in each iteration. So the branch has constants of its
own for the weights of its body (see `weights`).

Source: ONNX operators, Scan-16; measured in docs/benchmarks.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from mdf_loop.emit.loop_node import Parts, append_loop, numbering, write_loop
from mdf_loop.emit.scope import OnnxScope, WriteOps, Writer, tensor_shape
from mdf_loop.emit.weights import has_large_weight, take_weights
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
from mdf_loop.ops.registry import Bits, row_of

MOST = 10_000_000
"""The most iterations of a Scan: their numbers are 80 MB."""

ALIGNMENT = 64
"""Bytes: where the runtime's own memory begins."""


def write_scan(outer: OnnxScope, loop: Loop, write: WriteOps) -> None:
    """Append a loop of the main graph: as a choice between Scan and Loop if it can be one."""
    parts = Parts(outer, loop)
    if not _can_scan(loop, parts.rows.kept, outer.writer.known):
        write_loop(outer, loop, write)
        return
    fits = _fits(outer, parts)
    outputs = parts.outputs()
    taken = set(outer.writer.taken)
    then = _scan(outer, parts, write, outputs)
    outer.writer.taken = taken  # both branches call their values alike
    otherwise = _same(outer, parts, write, outputs)
    branches = {"then_branch": then, "else_branch": otherwise}
    outer.node("If", [fits], outputs, branches, loop.where)
    parts.finish()


# --- which loops ------------------------------------------------------------------------------


def _can_scan(
    loop: Loop, recorded: tuple[Recorded, ...], known: Callable[[Value], Array | None]
) -> bool:
    """Return True if a loop counts, records, and keeps the shapes of its values.

    A loop with a weight that is too large for a copy in the branch stays a loop.
    """
    if loop.condition is not None or not recorded or has_large_weight(loop, known):
        return False
    carried = ((c.enter, c.leave) for c in loop.carried)
    alike = all(_is_known(leave) and enter.shape == leave.shape for enter, leave in carried)
    rows = all(s.rows.shape is not None and _is_numbers(s.rows) for s in loop.scanned)
    return alike and rows and all(_is_known(each.row) for each in recorded)


def _is_known(value: Value) -> bool:
    """Whether it is an array of numbers of a known shape."""
    return _is_numbers(value) and is_fixed(value.shape)


def _is_numbers(value: Value) -> bool:
    return is_tensor(value.dtype) and value.dtype != "string"


def _fits(outer: OnnxScope, parts: Parts) -> oir.Value:
    """Whether a Scan can run as often as the loop would."""
    writer, trip = outer.writer, parts.trip
    some = outer.truth("Greater", trip, writer.constant(np.array(0)))
    few = outer.truth("LessOrEqual", trip, writer.constant(np.array(MOST)))
    fits = outer.truth("And", some, few)
    for scanned in parts.loop.scanned:
        if not _has_as_many(writer, scanned, trip):
            extent = outer.whole(
                "Shape", writer.values[scanned.rows], start=scanned.axis, end=scanned.axis + 1
            )
            count = outer.whole("Squeeze", extent)
            fits = outer.truth("And", fits, outer.truth("LessOrEqual", trip, count))
    return fits


def _has_as_many(writer: Writer, scanned: Scanned, trip: oir.Value) -> bool:
    """Whether there are surely as many rows as iterations."""
    rows, known = scanned.rows, trip.const_value
    if known is None or rows.shape is None:
        return False
    return bool(rows.shape[scanned.axis] == known.numpy())


# --- what they become -------------------------------------------------------------------------


def _scan(outer: OnnxScope, parts: Parts, write: WriteOps, outputs: list[oir.Value]) -> oir.Graph:
    """The loop as a Scan over its rows, and its iteration numbers where they are read."""
    loop, writer = parts.loop, outer.writer
    inside = OnnxScope(writer, ())
    numbered = _is_numbered(loop) or not loop.scanned
    body = _body(writer, parts, write, numbered)
    rows = [_numbers(inside, parts)] if numbered else []
    rows += [_cut(inside, scanned, parts.trip) for scanned in loop.scanned]
    made = _results(writer, parts, outputs)
    attributes = {
        "num_scan_inputs": len(rows),
        "scan_input_axes": [*([0] * numbered), *(scanned.axis for scanned in loop.scanned)],
        "scan_input_directions": [*([0] * numbered), *(int(s.backward) for s in loop.scanned)],
        "body": body,
    }
    inside.node("Scan", [*parts.initial(), *rows], made, attributes, loop.where)
    name = writer.fresh(f"{loop.name} scan")
    weights = take_weights(body, writer.fresh)
    return oir.Graph([], made, nodes=inside.nodes, initializers=weights, name=name)


def _is_numbered(loop: Loop) -> bool:
    """Whether an iteration reads its number."""
    read = {value for operation in loop.ops for value in reads(operation)}
    return loop.iteration in read or loop.iteration in body_outputs(loop)


def _numbers(scope: OnnxScope, parts: Parts) -> oir.Value:
    """The numbers of all iterations."""
    writer, first = scope.writer, parts.loop.first
    start, end = writer.constant(np.array(0)), parts.trip
    if first is not None:
        start = writer.values[first]
        end = scope.whole("Add", start, parts.trip)
    return scope.whole("Range", start, end, writer.constant(np.array(1)))


def _cut(scope: OnnxScope, scanned: Scanned, trip: oir.Value) -> oir.Value:
    """As many rows as there are iterations: the first ones, or the last ones backward."""
    writer, rows = scope.writer, scope.writer.values[scanned.rows]
    if _has_as_many(writer, scanned, trip):
        return rows
    axis = writer.constant(np.array([scanned.axis]))
    count = scope.whole("Unsqueeze", trip, writer.constant(np.array([0])))
    start, end = writer.constant(np.array([0])), count
    if scanned.backward:
        start = scope.whole("Neg", count)
        end = writer.constant(np.array([np.iinfo(np.int64).max]))
    shape = [*(scanned.rows.shape or ())]
    shape[scanned.axis] = writer.fresh("iterations")
    name = writer.fresh(scanned.rows.name)
    made = oir.Value(name=name, type=rows.type, shape=tensor_shape(tuple(shape)))
    scope.node("Slice", [rows, start, end, axis], [made])
    return made


def _body(writer: Writer, parts: Parts, write: WriteOps, numbered: bool) -> oir.Graph:
    loop = parts.loop
    enters = tuple(carried.enter for carried in loop.carried)
    given = [writer.define(value) for value in enters]
    inside = [*enters, *([loop.iteration] if numbered else [])]
    numbers = [writer.define(loop.iteration)] if numbered else []
    writer.values[loop.condition_in] = writer.constant(np.array(True))
    body = OnnxScope(writer, inside)
    rows = list(_rows(body, loop))
    write(body, loop.ops)
    inputs = [*given, *parts.extra.body_inputs(), *numbers, *rows]
    return oir.Graph(
        inputs,
        list(_outputs(body, parts, inputs)),
        nodes=body.nodes,
        name=writer.fresh(loop.name or "body"),
    )


def _rows(body: OnnxScope, loop: Loop) -> Iterator[oir.Value]:
    """The rows that the body is given; it reads floats from a copy."""
    writer = body.writer
    for scanned in loop.scanned:
        row = body.define(scanned.row)
        yield row
        if _is_wide(scanned.row) and not _is_read_anywhere(loop, scanned.row):
            writer.values[scanned.row] = body.copy(row)


def _is_read_anywhere(loop: Loop, row: Value) -> bool:
    """Return True if all that reads a row has the same bits wherever the row begins in memory."""
    readers = [op for op in walk(loop.ops) if row in reads(op)]
    return all(isinstance(op, Op) and _has_same_bits(op) for op in readers)


def _has_same_bits(op: Op) -> bool:
    """Return True if an operation gives new arrays, whose bits no address changes."""
    known = row_of(op.op_type)
    return known.onnx_form is not None or (known.elementwise and known.bits is Bits.FIXED)


def _outputs(body: OnnxScope, parts: Parts, inputs: list[oir.Value]) -> Iterator[oir.Value]:
    """What an iteration gives; ONNX Runtime loses what is an input or given twice.

    Rows that begin anywhere in memory are copies, too.
    """
    loop, taken = parts.loop, set(inputs)
    made = [body.returned(carried.leave, numbering(loop)) for carried in loop.carried]
    made += parts.extra.body_outputs(body)
    lasting = len(made)
    made += [body.returned(recorded.row, numbering(loop)) for recorded in parts.rows.kept]
    anywhere = [False] * lasting + [_begins_anywhere(recorded.row) for recorded in parts.rows.kept]
    for value, moves in zip(made, anywhere, strict=True):
        own = body.copy(value) if moves or value in taken else value
        taken.add(own)
        yield own


def _begins_anywhere(row: Value) -> bool:
    """Whether rows behind each other do not all begin where the processor likes to."""
    assert is_fixed(row.shape)
    size = math.prod(row.shape) * numpy_dtype(row.dtype).itemsize
    return _is_wide(row) and size % ALIGNMENT != 0


def _is_wide(row: Value) -> bool:
    """Whether a row is several numbers with a point."""
    several = not is_fixed(row.shape) or math.prod(row.shape) > 1
    return several and numpy_dtype(row.dtype).kind not in "biu"


def _same(outer: OnnxScope, parts: Parts, write: WriteOps, outputs: list[oir.Value]) -> oir.Graph:
    """The loop as it is, with results of its own."""
    writer = outer.writer
    inside = OnnxScope(writer, ())
    made = _results(writer, parts, outputs)
    append_loop(inside, parts, write, made)
    return oir.Graph([], made, nodes=inside.nodes, name=writer.fresh(f"{parts.loop.name} loop"))


def _results(writer: Writer, parts: Parts, outputs: list[oir.Value]) -> list[oir.Value]:
    """Values like the outputs; a chunk of a loop has other numbers of rows than the loop has."""
    made = [writer.like(value) for value in outputs]
    for value, recorded in zip(reversed(made), reversed(parts.rows.kept), strict=False):
        extents = recorded.row.shape or ()
        value.shape = tensor_shape((writer.fresh("iterations"), *extents))
    return made
