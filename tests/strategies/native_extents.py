"""Random programs of one loop whose arrays have extents that are known only at run time.

Extents are symbolic names, or are computed: parts of arrays, and recorded rows of inner loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from hypothesis import strategies as st

from mdf_loop.build import Builder
from mdf_loop.errors import OperandError
from mdf_loop.ir import Carried, Loop, Recorded, Shape, Value, is_fixed
from tests.strategies.native_loops import EXACT, Case, Kind
from tests.strategies.native_steps import ArrayProgramBuilder, fits

SHAPES: tuple[Shape, ...] = (
    *(("n",), ("m",), ("n", 3), (3, "n"), ("n", "m"), (2, "n", 3), ("n", 1), (1, "n")),
    *((3,), (2, 3), ("n", 3, 3)),
)
RUNTIME_EXTENTS = Kind(EXACT.calls, lanes=SHAPES)
EXTENTS = (0, 1, 2, 3, 8, 17, 100)
MAX_ELEMENTS = 3000
"""Approximate maximum number of elements."""


class RuntimeExtentsBuilder(ArrayProgramBuilder):
    """Builder of statements on arrays of any shape, as long as they are small."""

    def __init__(self, draw: st.DrawFn) -> None:
        super().__init__(draw, RUNTIME_EXTENTS, SHAPES)
        self.extents = {name: draw(st.sampled_from(EXTENTS)) for name in ("n", "m")}

    def keeps(self, value: Value) -> bool:
        """Return True if an array has few enough axes and elements; unknown extents count as 10."""
        sizes = [e if isinstance(e, int) else self.extents.get(e, 10) for e in value.shape or ()]
        return (
            value.shape is not None and len(sizes) <= 4 and np.prod(sizes, initial=1) < MAX_ELEMENTS
        )

    def fit(self, b: Builder, pool: Sequence[Value], dtype: str, shape: Shape) -> Value:
        """Return a value of the shape, or one expanded to the shape of an input."""
        if is_fixed(shape):
            return super().fit(b, pool, dtype, shape)
        alike = [value for value in pool[-8:] if value.shape == shape]
        if alike and self.draw(st.integers(0, 4)):
            return self.converted(b, self.pick(alike), dtype)
        like = next(value for value in pool if value.shape == shape)
        single = next(value for value in pool if value.shape == ())
        return self.converted(b, b.op("Expand", single, b.op("Shape", like)), dtype)

    def grow(self, b: Builder, around: Sequence[Value], depth: int, least: int) -> list[Value]:
        """Append more statements than the base class."""
        return super().grow(b, around, depth, least + 2 * depth)

    def choice(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        """Append an inner loop or a choice, with a larger probability for the loop."""
        return (
            super().choice(b, pool, depth)
            if self.draw(st.booleans())
            else self.inner(b, pool, depth)
        )

    def inner(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        """Append an inner loop that records as many rows as a number or a condition determines."""
        if self.draw(st.booleans()):
            return super().inner(b, pool, depth)
        body = b.body()
        j, go = body.new("int64", (), "j"), body.new("bool", (), "go")
        initial = self.pick(pool)
        enter = self.entering(body, initial)
        body_values = self.grow(body, [*pool, j, go, enter], depth - 1, 1)
        leave = self.leaving(body, body_values, enter)
        row = self.pick(body_values[-4:])
        counted = self.draw(st.booleans())
        number = self.small(b, pool)
        increased = body.op("Less", body.op("Add", j, b.constant(np.array(1))), number)
        begins = None if counted else b.op("Greater", number, b.constant(np.array(0)))
        final = self.ending(b, enter)
        stack = b.new(row.dtype, (b.name("rows"), *(row.shape or ())), "stack")
        count = b.new("int64", (), "count") if self.draw(st.booleans()) else None
        b.append(
            Loop(
                *(b.name("inner"), number if counted else None, begins, j, go),
                *(None if counted else increased, (Carried(initial, enter, leave, final),)),
                *((Recorded(row, stack),), tuple(body.ops)),
                iteration_count=count,
                where="$.inner",
                has_dynamic_shapes=enter in self.changing,
            )
        )
        loop_values = [final, *([stack] if self.keeps(stack) else [])]
        return loop_values if count is None else [*loop_values, count]

    def entering(self, inside: Builder, initial: Value) -> Value:
        """Return a carried value, sometimes with extents that may change."""
        names = tuple(inside.name("e") for _ in initial.shape or ())
        if not names or not self.draw(st.booleans()):
            return super().entering(inside, initial)
        enter = inside.new(initial.dtype, names, "enter")
        self.changing.add(enter)
        return enter

    def leaving(self, inside: Builder, values: Sequence[Value], enter: Value) -> Value:
        """Return a value with the rank of the carried value, if its extents may change."""
        rank = len(enter.shape or ())
        fitting = [v for v in values if v.dtype == enter.dtype and len(v.shape or ()) == rank]
        if enter in self.changing and fitting:
            return self.pick(fitting)
        return super().leaving(inside, values, enter)

    def ending(self, b: Builder, enter: Value) -> Value:
        """Return a final value with extents of its own."""
        if enter not in self.changing:
            return super().ending(b, enter)
        return b.new(enter.dtype, tuple(b.name("f") for _ in enter.shape or ()), "final")

    def small(self, b: Builder, pool: Sequence[Value]) -> Value:
        """Return an integer from 0 to 4, mostly the same in all iterations."""
        sizes = [v for v in self.inputs if v.dtype == "int64" and v.shape == ()]
        varies = [v for v in pool if v.dtype == "int64" and v.shape == ()]
        number = self.pick(varies if not sizes or not self.draw(st.integers(0, 3)) else sizes)
        return b.op("Mod", number, b.constant(np.array(5)))

    def whole_array(self, b: Builder, pool: list[Value]) -> list[Value]:
        """Append an operation on one or two whole arrays."""
        arrays = [v for v in pool if v.shape and v.dtype != "bool"]
        if not arrays:
            return []
        x = self.pick(arrays)
        rank = len(x.shape or ())
        axis = self.draw(st.integers(0, rank - 1))
        kinds = [self.moved_array, self.cut, self.joined, self.reshaped, self.chosen, self.as_wide]
        if x.dtype.startswith("int"):
            kinds += [self.reduced, self.reduced, self.multiplied]
        self.checks += 1
        computed: list[Value] = []
        with b.at(f"$.ops[{self.checks}]"), suppress(OperandError):  # nothing fits no elements
            computed = self.draw(st.sampled_from(kinds))(b, pool, x, axis)
        return [value for value in computed if self.keeps(value)]

    # --- operations on whole arrays -----------------------------------------------------------

    def moved_array(self, b: Builder, pool: list[Value], x: Value, axis: int) -> list[Value]:
        rank = len(x.shape or ())
        kind = self.draw(st.sampled_from(["Transpose", "Unsqueeze", "Squeeze", "Flatten"]))
        match kind:
            case "Transpose":
                order = tuple(self.draw(st.permutations(range(rank))))
                return [b.op("Transpose", x, perm=order)]
            case "Unsqueeze":
                return [b.op("Unsqueeze", x, b.constant(np.array([axis])))]
            case "Flatten":
                return [b.op("Flatten", x, axis=axis)]
            case _:
                ones = [k for k, extent in enumerate(x.shape or ()) if extent == 1]
                return [b.op("Squeeze", x, b.constant(np.array(ones)))] if ones else []

    def cut(self, b: Builder, pool: list[Value], x: Value, axis: int) -> list[Value]:
        bounds = [self.draw(st.integers(-4, 4)), self.draw(st.sampled_from([-2, 1, 3, 2**62]))]
        step = self.draw(st.sampled_from([1, 1, 2, -1, -2]))
        if step < 0:
            bounds[1] = -(2**62)
        numbers = [b.constant(np.array([number])) for number in (*bounds, axis, step)]
        if not self.draw(st.integers(0, 3)):
            one = b.constant(np.array([1]))
            numbers[0] = b.op("Reshape", self.small(b, pool), one)
        return [b.op("Slice", x, *numbers)]

    def joined(self, b: Builder, pool: list[Value], x: Value, axis: int) -> list[Value]:
        rank = len(x.shape or ())
        others = [
            v
            for v in pool
            if v.dtype == x.dtype
            and len(v.shape or ()) == rank
            and all(
                a == c or k == axis
                for k, (a, c) in enumerate(zip(v.shape or (), x.shape or (), strict=True))
            )
        ]
        return [b.op("Concat", x, self.pick(others), axis=axis)]

    def reshaped(self, b: Builder, pool: list[Value], x: Value, axis: int) -> list[Value]:
        """Return the array flattened, with its extents in reverse order, or with all later axes merged."""
        shape = b.op("Shape", x)
        kind = self.draw(st.integers(0, 2))
        if kind == 0:
            return [b.op("Reshape", x, b.constant(np.array([-1])))]
        if kind == 1:
            order = b.constant(np.arange(len(x.shape or ()))[::-1].copy())
            shape_value = b.op("Gather", shape, order, axis=0)
            return [b.op("Reshape", x, shape_value, allowzero=1)]
        part = b.op("Shape", x, start=0, end=1)
        shape_value = b.op("Concat", part, b.constant(np.array([-1])), axis=0)
        return [b.op("Reshape", x, shape_value)]

    def chosen(self, b: Builder, pool: list[Value], x: Value, axis: int) -> list[Value]:
        """Return elements at one or several positions, constant or computed."""
        kind = self.draw(st.integers(0, 2))
        if kind == 0:
            numbers = self.draw(st.sampled_from([0, -1, 1, [0, -1], [0, 0, 0], [[0], [-1]]]))
            return [b.op("Gather", x, b.constant(np.array(numbers)), axis=axis)]
        if kind == 1:
            return [b.op("Gather", x, self.small(b, pool), axis=axis)]
        counts = [v for v in pool if v.dtype in ("int64", "int32") and len(v.shape or ()) == 1]
        if not counts:
            return []
        index = self.pick(counts)
        index = b.op("Mod", index, b.constant(np.array(3, index.dtype)))
        return [b.op("Gather", x, index, axis=axis)]

    def as_wide(self, b: Builder, pool: list[Value], x: Value, axis: int) -> list[Value]:
        """Return the value expanded to the shape of another array."""
        others = [v for v in pool if v.shape and fits(x.shape or (), v.shape)]
        return [b.op("Expand", x, b.op("Shape", self.pick(others)))]

    def reduced(self, b: Builder, pool: list[Value], x: Value, axis: int) -> list[Value]:
        keeps = self.draw(st.integers(0, 1))
        axes = self.draw(st.sampled_from([(axis,), tuple(range(axis + 1)), None]))
        kind = self.draw(st.sampled_from(["ReduceSum", "ReduceMax", "ReduceMin"]))
        if kind == "ReduceSum":
            along = () if axes is None else (b.constant(np.array(axes)),)
            return [b.op(kind, x, *along, keepdims=keeps)]
        return [b.op(kind, x, keepdims=keeps, **({} if axes is None else {"axes": axes}))]

    def multiplied(self, b: Builder, pool: list[Value], x: Value, axis: int) -> list[Value]:
        inner = (x.shape or ())[-1]
        if not isinstance(inner, int):
            return []
        shape = self.draw(st.sampled_from([(inner,), (inner, 2), (inner, 1), (inner, 5)]))
        weights = np.arange(np.prod(shape)).reshape(shape) - 3
        others = [v for v in pool if v.dtype == x.dtype and (v.shape or ())[-2:-1] == (inner,)]
        other = b.constant(weights.astype(x.dtype))
        if others and self.draw(st.booleans()):
            other = self.pick(others)
        return [b.op("MatMul", x, other)]


@st.composite
def native_extents(draw: st.DrawFn) -> Case:
    """Draw a program and its input arrays."""
    return RuntimeExtentsBuilder(draw).case()
