"""One loop as a program that runs some further iterations of it (see `split_into_segments`).

    loop %i < %n                        loop %i < %most after %done
      carry %x from %b to %y     ->       carry %x from %x_before to %y
      scan %row of %rows                  scan %row of %rows_of_chunk
      %y = Add(%x, %row)                  %y = Add(%x, %row)

What it gives enters it again; of what is scanned it is given the rows of its iterations. Keeps:
results bit for bit, names and places.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Carried,
    Constant,
    Input,
    Loop,
    Operation,
    Output,
    Program,
    Recorded,
    Scanned,
    Shape,
    Value,
    body_outputs,
    is_fixed,
    reads,
    results,
)
from mdf_loop.ir.types import element_type, kind_of
from mdf_loop.ops.words import ints


class LoopSegment(Struct, frozen=True, eq=False):
    """Some further iterations of a loop.

    Attributes:
        loop: as the whole program has it.
        program: the loop alone. Its outputs are finals, stacks, and what follows here.
        captured: inputs that are the same in every run of the segment.
        most: the input that says how many iterations there may be.
        done: the input that says which number the first has; None where none needs its number.
        condition: the input that is the condition so far, of each member; None for a loop without one.
        carried: the inputs that enter, in the order of `loop.carried`.
        rows: the inputs of which rows are scanned, in the order of `loop.scanned`.
        count: how many iterations were run; None without a condition, where it is `most`.
        last_condition: the condition after them; None where it cannot change or is not asked for.
        watched: floats of every iteration, in the order in which they are computed.
    """

    loop: Loop
    program: Program
    captured: tuple[Value, ...]
    most: Value
    done: Value | None
    condition: Value | None
    carried: tuple[Value, ...]
    rows: tuple[Value, ...]
    count: Value | None
    last_condition: Value | None
    watched: Mapping[str, Value]


def loop_segment(b: Builder, program: Program, loop: Loop, watch: bool) -> LoopSegment:
    """The piece of a loop; `program` has the constants and the inputs that it captures."""
    with b.at(loop.where):
        return _Maker(b, loop, watch).segment(program)


class _Maker:
    """Makes the piece of one loop."""

    def __init__(self, b: Builder, loop: Loop, watch: bool) -> None:
        self.b = b.body()  # whose constants come before the loop
        self.root = b
        self.loop = loop
        self.most = b.new("int64", (), "most")
        own = () if loop.members is None else (loop.members,)
        self.condition = b.new("bool", own, "condition_before") if loop.condition else None
        self.carried = tuple(_entering(b, carried) for carried in loop.carried)
        self.rows = tuple(_rows(b, scanned) for scanned in loop.scanned)
        self.done = b.new("int64", (), "done") if _is_numbered(loop) else None
        self.count = (loop.count or b.new("int64", own, "count")) if loop.condition else None
        self.last_condition = self._last_condition(own)
        self.watched: dict[str, Value] = {}
        self.extra: list[Recorded] = []
        if watch:
            self._watch()

    def segment(self, program: Program) -> LoopSegment:
        captured = program.inputs
        own = (self.most, self.done, self.condition, *self.carried, *self.rows)
        loop = self._chunk()
        outputs = dict.fromkeys(results(loop))
        return LoopSegment(
            self.loop,
            replace(
                program,
                inputs=(*captured, *(Input(value) for value in own if value is not None)),
                ops=(*program.ops, *self._new_constants(), loop),
                outputs=tuple(Output(value.name, value) for value in outputs),
            ),
            tuple(entry.value for entry in captured),
            self.most,
            self.done,
            self.condition,
            self.carried,
            self.rows,
            self.count,
            self.last_condition,
            self.watched,
        )

    def _new_constants(self) -> list[Operation]:
        made = [op for op in self.root.ops if isinstance(op, Constant)]
        read = {value for operation in self.b.ops for value in reads(operation)}
        return [constant for constant in made if constant.value in read]

    def _chunk(self) -> Loop:
        loop = self.loop
        entering = zip(loop.carried, self.carried, strict=True)
        scanning = zip(loop.scanned, self.rows, strict=True)
        return replace(
            loop,
            trip_count=self.most,
            bound=None,
            condition=self.condition,
            first=self.done,
            carried=tuple(replace(old, initial=value) for old, value in entering),
            recorded=(*loop.recorded, *self.extra),
            scanned=tuple(replace(old, rows=value) for old, value in scanning),
            ops=(*loop.ops, *self.b.ops),
            count=self.count,
            last_condition=self.last_condition,
        )

    def _last_condition(self, shape: Shape) -> Value | None:
        loop = self.loop
        if loop.condition_out is None or not (loop.condition or loop.last_condition):
            return None
        return loop.last_condition or self.b.new("bool", shape, "last_condition")

    # --- what is watched ------------------------------------------------------------------------

    def _watch(self) -> None:
        """Give the floats of every iteration, each once."""
        stacks = {recorded.row: recorded.stack for recorded in self.loop.recorded}
        made = [value for operation in self.loop.ops for value in results(operation)]
        order = {value: at for at, value in enumerate(made)}
        names = {r.row: r.name or r.row.name for r in self.loop.recorded}
        names |= {c.leave: c.name or c.leave.name for c in self.loop.carried}
        floats = [value for value in names if kind_of(value.dtype) == "f" and value in order]
        for value in sorted(floats, key=order.__getitem__):
            stack = (None if self.loop.members else stacks.get(value)) or self._stack(value)
            label = f"{self.loop.name}.{names[value]}"
            self.watched[label if label not in self.watched else value.name] = stack

    def _stack(self, value: Value) -> Value:
        """The values of every iteration; of one whose shape may change, whether it is finite."""
        row = value if is_fixed(value.shape) else self._mark(self._of_going(value))
        stack = self.b.new(row.dtype, ("iterations", *(row.shape or ())), f"{value.name}_watched")
        self.extra.append(Recorded(row, stack, value.name))
        return stack

    def _of_going(self, value: Value) -> Value:
        """The value, with 0 in the place of members that have stopped: what is there is nobody's."""
        members, shape = self.loop.members, value.shape or ()
        if members not in shape:
            return value
        with self.b.at(value.where, value.name):
            if value.dtype not in ("float64", "float32"):
                value = self.b.op("Cast", value, to=element_type("float32"))
            going, behind = self.loop.condition_in, range(1, len(shape) - shape.index(members))
            mask = self.b.op("Unsqueeze", going, ints(self.b, *behind)) if behind else going
            return self.b.op("Where", mask, value, self.b.constant(np.array(0.0, value.dtype)))

    def _mark(self, value: Value) -> Value:
        """0.0, or nan if something is not finite: `sum(0.0 * value)`."""
        with self.b.at(value.where, value.name):
            wide = "float64" if value.dtype == "float64" else "float32"
            if value.dtype != wide:
                value = self.b.op("Cast", value, to=element_type(wide))
            zeros = self.b.op("Mul", value, self.b.constant(np.array(0.0, wide)))
            return self.b.op("ReduceSum", zeros, keepdims=0)


def _is_numbered(loop: Loop) -> bool:
    """Whether an iteration needs its number."""
    read = {value for operation in loop.ops for value in reads(operation)}
    return loop.iteration in read or loop.iteration in body_outputs(loop)


def _rows(b: Builder, scanned: Scanned) -> Value:
    """An input for the rows of some iterations."""
    rows, shape = scanned.rows, scanned.rows.shape
    if shape is not None:
        extent = b.name("iterations")
        shape = (*shape[: scanned.axis], extent, *shape[scanned.axis + 1 :])
    return b.new(rows.dtype, shape, f"{rows.name}_of_chunk")


def _entering(b: Builder, carried: Carried) -> Value:
    """An input for what enters: at first the initial value, then what left the last iteration."""
    shape = _covering(b, carried.initial.shape, carried.leave.shape)
    return b.new(carried.enter.dtype, shape, f"{carried.enter.name}_before")


def _covering(b: Builder, initial: Shape, leave: Shape) -> Shape:
    """A shape that both have."""
    if initial is None or leave is None or len(initial) != len(leave):
        return None
    pairs = zip(initial, leave, strict=True)
    return tuple(p if p == q else b.name("extent") for p, q in pairs)
