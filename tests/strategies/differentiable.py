"""Random differentiable programs: nested choices and loops on arrays of a few shapes.

Programs come from a seed instead of hypothesis, whose search would find kinks, where differences are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdf_loop.ir import Carried, Loop, Program, Recorded, Scanned, Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import choose
from mdf_loop.ops.build_helpers import ints, scalar
from tests.models.choices import program
from tests.strategies.differentiable_values import SHAPES, OperationBuilder, Scope

GIVEN = {
    "x0": np.array([0.5, -1.0, 2.0]),
    "x1": np.array([1.5, 0.25, -0.75]),
    "w": np.array([[0.5, -0.25, 0.1], [0.3, 0.2, -0.6], [0.7, 0.1, 0.4]]),
    "s": np.array(0.4),
}


@dataclass(frozen=True, slots=True)
class _Frame:
    """Exit of a loop and its scans: a trip count, a condition, or both."""

    kind: str
    trip: Value | None
    start: Value | None
    scanned: tuple[Scanned, ...]


class ProgramBuilder(OperationBuilder):
    """Builder of random differentiable operations, choices and loops from a seed."""

    def grow(self, s: Scope, depth: int) -> None:
        """Append a few operations, choices and loops."""
        for _ in range(self.rng.integers(2, 5)):
            deep = ["choice", "loop", "loop"] * (3 if depth > 1 else depth)
            kind = self.one(*self.kinds, *deep)
            if kind in deep:
                getattr(self, kind)(s, depth)
            else:
                s.values.append(getattr(self, kind)(s))

    def less(self, s: Scope) -> Value:
        b = s.b
        x, y = (b.op("ReduceSum", self.pick(s), keepdims=0) for _ in range(2))
        return b.op("Less", x, b.op("Add", y, self.number(b, 0.25)))

    def choice(self, s: Scope, depth: int) -> None:
        shapes = [SHAPES[self.below(5)] for _ in range(2)]

        def branch(b: ModelBuilder) -> Sequence[Value]:
            inner = s.inside(b)
            self.grow(inner, depth - 1)
            return [self.of_shape(inner, shape) for shape in shapes]

        if s.wholes and self.below(2):
            even = s.b.op("Mod", s.wholes[self.below(len(s.wholes))], scalar(s.b, 2, "int64"))
            condition = s.b.op("Equal", even, scalar(s.b, 0, "int64"))
        else:
            condition = self.less(s)
        s.values += choose(s.b, condition, branch, branch, "choice")

    # --- loops ----------------------------------------------------------------------------------

    def loop(self, s: Scope, depth: int) -> None:
        """Append a loop that carries, scans and records random values."""
        b, body = s.b, s.b.body()
        frame = self.frame(s, body)
        number, go = body.new("int64", (), "i"), body.new("bool", (), "go")
        initials = [self.pick(s) for _ in range(1 + self.below(3))]
        counted = [self.whole(s)] if self.below(2) else []
        first = self.whole(s) if self.below(3) == 0 else None
        enters = [body.new(v.dtype, v.shape, "enter") for v in (*initials, *counted)]
        wholes = enters[len(initials) :]
        inner = s.inside(body)
        inner.values += [*(each.row for each in frame.scanned), *enters[: len(initials)]]
        inner.wholes += [number, *wholes]
        if frame.kind == "for" and first is None:
            inner.places.append(number)
        half, condition = (
            self.condition(inner, enters[0]) if frame.start is not None else (None, None)
        )
        self.grow(inner, depth - 1)
        leaves = [self.shaped(body, self.pick(inner), e.shape or ()) for e in enters]
        leaves[len(initials) :] = [body.op("Add", whole, number) for whole in wholes]
        leaves[:1] = [half] if half is not None else leaves[:1]
        rows = [self.pick(inner) for _ in range(self.below(3))]
        known = b.constant_of(frame.trip) if frame.kind == "for" else None
        extent = b.name("rows") if known is None else int(known)
        stacks = [b.new(row.dtype, (extent, *(row.shape or ())), "stack") for row in rows]
        finals = [b.new(e.dtype, e.shape, "final") for e in enters]
        count = b.new("int64", (), "count") if frame.kind != "for" or self.below(3) == 0 else None
        loop = Loop(
            name="loop",
            trip_count=frame.trip,
            condition=frame.start,
            iteration=number,
            condition_in=go,
            condition_out=condition,
            carried=tuple(
                Carried(*each)
                for each in zip((*initials, *counted), enters, leaves, finals, strict=True)
            ),
            recorded=tuple(map(Recorded, rows, stacks)),
            ops=tuple(body.ops),
            scanned=frame.scanned,
            first_iteration=first,
            iteration_count=count,
            where="$.l",
        )
        b.append(loop)
        s.wholes += [*finals[len(initials) :], *([count] if count is not None else [])]
        s.values += finals[: len(initials)]
        has_run = frame.trip if count is None else count
        assert has_run is not None
        for stack in stacks:
            s.values.append(self.used(s, stack))
            s.stacks.append((stack, has_run))

    def frame(self, s: Scope, inside: ModelBuilder) -> _Frame:
        b, kind = s.b, self.one("for", "for", "for-while", "while")
        start = None if kind == "for" else self.started(s)
        if kind == "while":
            return _Frame(kind, None, start, ())
        if s.stacks and self.below(2):  # what another loop has recorded
            rows, trip = s.stacks[-1]
            return _Frame(kind, trip, start, (self.scan(inside, rows, 0),))
        trip = scalar(b, self.below(4), "int64")
        if s.wholes and self.below(2):
            increased = b.op("Add", s.wholes[self.below(len(s.wholes))], trip)
            trip = b.op("Mod", increased, scalar(b, 4, "int64"))
        many = range(self.below(3))
        scanned = [self.scan(inside, self.of_shape(s, (3, 3)), self.below(2)) for _ in many]
        return _Frame(kind, trip, start, tuple(scanned))

    def scan(self, inside: ModelBuilder, rows: Value, axis: int) -> Scanned:
        """Scan the rows of a value, forward or backward."""
        extents = list(rows.shape or ())
        del extents[axis]
        row = inside.new(rows.dtype, tuple(extents), "row")
        return Scanned(rows, row, axis, bool(self.below(2)))

    def started(self, s: Scope) -> Value:
        return s.b.constant(np.array(True)) if self.below(4) else self.less(s)

    def condition(self, s: Scope, enter: Value) -> tuple[Value, Value]:
        """Return a value that decreases in each iteration, and the condition that the value is above a limit."""
        b = s.b
        half_value = b.op("Mul", enter, self.number(b, 0.5))
        size = b.op("ReduceSum", b.op("Mul", half_value, half_value), keepdims=0)
        s.values.append(half_value)
        return half_value, b.op("Greater", size, self.number(b, 0.01))

    def whole(self, s: Scope) -> Value:
        if s.wholes and self.below(2):
            return s.wholes[self.below(len(s.wholes))]
        return scalar(s.b, self.below(6), "int64")

    def used(self, s: Scope, stack: Value) -> Value:
        """Reduce zero or more rows to one value."""
        b, axis = s.b, ints(s.b, 0)
        way = self.one("total", "squares", "running", "last", "backward")
        if way == "squares" and len(stack.shape or ()) == 2:
            product = b.op("MatMul", b.op("Transpose", stack, perm=(1, 0)), stack)
            return b.op("Tanh", product)
        if way == "running":
            stack = b.op("Sin", b.op("CumSum", stack, scalar(b, 0, "int64")))
        elif way == "last":
            stack = b.op("Slice", stack, ints(b, -2), ints(b, 9), axis)
        elif way == "backward":
            stack = b.op("Slice", stack, ints(b, -1), ints(b, -9), axis, ints(b, -1))
            stack = b.op("CumSum", stack, scalar(b, 0, "int64"), exclusive=1)
        return b.op("Tanh", b.op("ReduceSum", stack, axis, keepdims=0))


def differentiable(seed: int) -> Program:
    """Return a random program whose output `value` is a number that depends on the inputs `GIVEN`."""
    grower, b = ProgramBuilder(seed), ModelBuilder()
    inputs = [b.new("float64", array.shape, name) for name, array in GIVEN.items()]
    s = Scope(b, [*inputs])
    grower.grow(s, 2)
    parts = [b.op("Mul", v, b.op("Cos", v)) for v in s.values[-4:]]
    return program(b, inputs, value=b.op("Sum", *(b.op("ReduceSum", p, keepdims=0) for p in parts)))
