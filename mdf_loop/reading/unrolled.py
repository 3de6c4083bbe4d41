"""A loop with a constant number of iterations, written out: `compile(..., unroll=64)`.

    loop i < 3: x = f(x, i); record x     ->     a = f(x, 0); b = f(a, 1); c = f(b, 2)
                                                  finals (c,), recording stack(a, b, c)

The results are those of the loop, bit for bit: numbers that are known only because it is written
out are calculated before the run only where every runtime gives the same bits (`ModelBuilder.late`).
The iteration number is a constant, so it may choose from a list or be a shape; carried values may
change their shape (not their dtype). A condition counts as long as it is known while reading: one
that is not leaves the loop a loop. So do delays, and an exit in the middle of the body.

Source: MindSpore, network in graph mode, which unrolls constant loops; its limit is a call depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from mdf_loop.errors import CarryTypeError, RecordShapeError, TripCountError
from mdf_loop.ir import StopReason, Value
from mdf_loop.lower import Term
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.terms import fits_dtype
from mdf_loop.ops.build_helpers import cast, ints, kind
from mdf_loop.reading.body import BodyInputs, ReadBody, UnrolledIteration, read_body
from mdf_loop.reading.delays import RowType
from mdf_loop.reading.loop_writer import LoopWriter
from mdf_loop.reading.readers import Reading
from mdf_loop.reading.recordings import arranged


def unrolled(writer: LoopWriter) -> Reading | None:
    """Return the results of the unrolled loop, or None if it stays a loop.

    Raises:
        TripCountError: it has more iterations than may be written out.
    """
    limit = writer.b.options.unroll
    if limit is None or _stays(writer):
        return None
    return _Unroller(writer, limit).write()


def _stays(writer: LoopWriter) -> bool:
    """Return True if the loop cannot be unrolled, for example since its number of iterations is not constant."""
    arguments, b = writer.arguments, writer.b
    count, condition = (b.constant_of(v) for v in (arguments.trip_count, arguments.condition))
    variable = (arguments.trip_count is not None and count is None) or (
        arguments.condition is not None and condition is None
    )
    endless = arguments.trip_count is None and arguments.condition is None
    none = bool((count is not None and count <= 0) or (condition is not None and not condition))
    optional = any(value.dtype.startswith("optional") for value in arguments.initial)
    return variable or endless or none or optional or writer.form.mid_exit or bool(arguments.delays)


class _Unroller:
    """Reads the body once for every iteration."""

    def __init__(self, writer: LoopWriter, limit: int) -> None:
        self.b = writer.b
        self.writer = writer
        self.limit = limit
        self.form = writer.form
        self.conditional = writer.arguments.condition is not None
        known = self.b.constant_of(writer.arguments.trip_count)
        self.count = None if known is None else int(known)

    def write(self) -> Reading | None:
        """Append all iterations and give their results; None if the condition is not known."""
        if self.count is not None and self.count > self.limit and not self.conditional:
            raise self._refused(f"{self.count}")
        initial = [_entering(self.b, value) for value in self.writer.arguments.initial]
        rounds = self._rounds(initial)
        if rounds is None:
            return None
        wider = self._spread(initial, rounds[0])
        if wider is not None:
            again = self._rounds(wider)
            if again is not None and _settled(wider, again):
                rounds = again
        for body in rounds:
            self.b.ops.extend(body.ops)
        with self.b.at(self.form.where, self.writer.name):
            finals = rounds[-1].leaves
            rows = [self._row(k, rounds) for k in range(len(rounds[0].rows))]
        results = (*finals, *rows)
        return Reading(results[0] if len(results) == 1 else results, self._others(rounds))

    def _rounds(self, entering: Sequence[Value]) -> list[ReadBody] | None:
        rounds: list[ReadBody] = []
        going = True
        while going and (self.count is None or len(rounds) < self.count):
            if len(rounds) == self.limit:
                up_to = f"up to {self.count}" if self.count else f"more than {self.limit}"
                raise self._refused(up_to)
            body = self._read(len(rounds), entering)
            known = self.b.constant_of(body.condition_out)
            if self.conditional and known is None:
                return None
            going = not self.conditional or bool(known)
            entering = body.leaves
            rounds.append(body)
        return rounds

    def _refused(self, iterations: str) -> TripCountError:
        return TripCountError(
            f"the loop '{self.form.name}' has {iterations} iterations, unroll allows {self.limit}",
            self.form.where,
            "leave unroll out, or allow more (--unroll); a loop of many iterations is faster",
        )

    def _read(self, k: int, entering: Sequence[Value]) -> ReadBody:
        writer, b = self.writer, self.b
        known = UnrolledIteration(
            k,
            self.count or self.limit,
            b.late(np.array(k)),
            b.late(np.array(True)),
            tuple(entering),
        )
        types = tuple(RowType(value.dtype, value.shape) for value in entering)
        entering_values = BodyInputs(types, writer.arguments.slices, {}, (), known)
        body = read_body(
            b, self.form, writer.signature, entering_values, writer.scopes, writer.document
        )
        pairs = zip(entering, body.leaves, strict=True)
        body = replace(body, leaves=tuple(_like(b, *pair) for pair in pairs))
        for name, before, after in zip(body.leave_names, entering, body.leaves, strict=True):
            if before.dtype != after.dtype:
                raise CarryTypeError(
                    f"carried values must keep their dtype, but '{name}' is {before.type} before "
                    f"iteration {k} and {after.type} after it",
                    self.form.where,
                    "cast one of them",
                )
        return body

    def _spread(self, initial: Sequence[Value], first: ReadBody) -> list[Value] | None:
        """Return initial values that are single numbers as arrays of the loop's shapes, or None if none is."""
        wider = list(initial)
        for k, (value, leaf) in enumerate(zip(initial, first.leaves, strict=True)):
            known = leaf.shape and all(isinstance(extent, int) for extent in leaf.shape)
            if value.shape == () and known and not self.writer.dynamic:
                wider[k] = self.b.op("Expand", value, self.b.constant(np.array(leaf.shape)))
                self.b.spread_sources[wider[k]] = (value,)
        return wider if wider != list(initial) else None

    def _row(self, k: int, rounds: Sequence[ReadBody]) -> Value:
        """Return a recording of the rows of all iterations."""
        b, name = self.b, rounds[0].row_names[k]
        strong = [body.rows[k] for body in rounds if not b.is_weak(body.rows[k])]
        rows = [_like(b, (strong or [body.rows[k]])[0], body.rows[k]) for body in rounds]
        form = self.form.recordings.get(name)
        if form is not None and form.last:
            return rows[-1]
        for position, row in enumerate(rows):
            if row.shape != rows[0].shape and None not in (row.shape, rows[0].shape):
                raise RecordShapeError(
                    f"the recorded value '{name}' is {rows[0].type} at first, but {row.type} in "
                    f"iteration {position}",
                    self.form.where,
                    "a recorded value must have one shape in all iterations",
                )
        stack = b.op("Concat", *(b.op("Unsqueeze", row, ints(b, 0)) for row in rows), axis=0)
        return stack if form is None else arranged(b, form, stack, self.writer.scopes.node)

    def _others(self, rounds: Sequence[ReadBody]) -> dict[str, Callable[[], Term]]:
        b, last = self.b, rounds[-1].condition_out
        known = b.constant_of(last)
        ended = self.conditional and known is not None and not known
        reason = StopReason.CONDITION if ended else StopReason.TRIP_COUNT
        return {
            "iterations": lambda: b.constant(np.array(len(rounds))),
            "condition": lambda: last,
            "stopped_by": lambda: b.constant(np.array(reason.code)),
        }


def _entering(b: ModelBuilder, value: Value) -> Value:
    """Return an initial value as in a loop: never a plain number, whose dtype adapts to others."""
    known = b.constant_of(value)
    if known is not None:
        return b.late(known)
    return b.op("Identity", value) if b.is_weak(value) else value


def _like(b: ModelBuilder, other: Value, value: Value) -> Value:
    """Return the value. A plain number that a choice gave has the dtype of the other value."""
    plain = b.is_weak(value) and value.dtype != "string" and fits_dtype(b, value, other.dtype)
    wide = kind(other) == "f" or kind(value) in "biu"
    return cast(b, value, other.dtype) if plain and wide else value


def _settled(initial: Sequence[Value], rounds: Sequence[ReadBody]) -> bool:
    """Return True if every carried value keeps its initial shape."""
    pairs = (pair for body in rounds for pair in zip(initial, body.leaves, strict=True))
    return all(before.shape == after.shape for before, after in pairs)
