"""Random programs of one loop over whole arrays: reductions, movement and broadcasting of elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from mdf_loop.build import Builder
from mdf_loop.ir import Shape, Value, is_fixed
from tests.strategies.native_loops import EXACT, Case, Kind, LoopProgramBuilder
from tests.strategies.native_wholes import OF_ALL, OF_NUMBERS

SUMMED = ("float64", "float32", "int64", "int32")
SHAPES: tuple[Shape, ...] = ((3,), (2, 3), (2, 1), (4,), (3, 3), (2, 3, 2), (9,), (5, 17))
STEPS = Kind(EXACT.calls, lanes=SHAPES)


class ArrayProgramBuilder(LoopProgramBuilder):
    """Builder of statements on arrays of all shapes, as long as they are small."""

    def __init__(
        self, draw: st.DrawFn, kind: Kind = STEPS, shapes: Sequence[Shape] = SHAPES
    ) -> None:
        super().__init__(draw, kind)
        self.others = draw(st.lists(st.sampled_from([*shapes, ()]), max_size=2))

    def outermost(self, b: Builder, pool: list[Value]) -> list[Value]:
        more = [self.input(b, self.dtype(), shape, "more") for shape in self.others]
        return super().outermost(b, [*pool, *more])

    def op(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        """Append an elementwise operation or an operation on whole arrays."""
        if self.draw(st.integers(0, 3)):
            return self.whole_array(b, pool)
        shape = self.pick(pool).shape or ()
        small = [v for v in pool if fits(v.shape or (), shape)]
        return super().op(b, small, depth)

    def fit(self, b: Builder, pool: Sequence[Value], dtype: str, shape: Shape) -> Value:
        """Return a recent value, expanded to the shape if necessary."""
        late = [v for v in pool[-4:] if v.shape and v.dtype == dtype]
        value = self.pick(late) if late and self.draw(st.booleans()) else None
        if value is None or not fits(value.shape or (), shape or ()):
            return super().fit(b, pool, dtype, shape)
        shape_value = b.constant(np.array(shape, np.int64))
        return value if value.shape == shape else b.op("Expand", value, shape_value)

    def keeps(self, value: Value) -> bool:
        return is_fixed(value.shape) and np.prod(value.shape) < 200

    def whole_array(self, b: Builder, pool: list[Value]) -> list[Value]:
        arrays = [v for v in pool if v.shape]
        if not arrays:
            return []
        x = self.pick(arrays)
        assert is_fixed(x.shape)
        axis = self.draw(st.integers(0, len(x.shape) - 1))
        wholes = (*OF_ALL, *OF_NUMBERS) if x.dtype in SUMMED else OF_ALL
        if self.draw(st.booleans()):
            array = self.draw(st.sampled_from(wholes))(self.draw, b, x, axis)
            return [array] if self.keeps(array) else []
        kinds = ["Transpose", "Slice", "Gather", "Concat", "Reshape", "Reversed"]
        if x.dtype in ("int64", "int32"):
            kinds += ["ReduceSum", "ReduceMin", "ReduceMax"]  # of floats ONNX Runtime forgets nan
        kind = self.draw(st.sampled_from(kinds))
        ends = [axis in (0, len(x.shape) - 1)]
        if kind.startswith("Reduce") and not all(ends):
            axis = 0
        one = lambda *numbers: b.constant(np.array(numbers, np.int64))  # noqa: E731
        extent = x.shape[axis]
        match kind:
            case "Transpose":
                array = b.op(
                    "Transpose", x, perm=tuple(self.draw(st.permutations(range(len(x.shape)))))
                )
            case "Slice":
                begin = self.draw(st.integers(0, extent - 1))
                end = self.draw(st.integers(begin + 1, extent))
                array = b.op("Slice", x, one(begin), one(end), one(axis))
            case "Reversed":
                array = b.op("Slice", x, one(-1), one(-(2**62)), one(axis), one(-1))
            case "Gather":
                places = self.draw(
                    st.lists(st.integers(-extent, extent - 1), min_size=1, max_size=3)
                )
                array = b.op("Gather", x, one(*places), axis=axis)
            case "Concat":
                other = self.pick([v for v in arrays if (v.dtype, v.shape) == (x.dtype, x.shape)])
                array = b.op("Concat", x, other, axis=axis)
            case "Reshape":
                array = b.op("Reshape", x, one(*reversed(x.shape)))
            case "ReduceSum":
                array = b.op("ReduceSum", x, one(axis), keepdims=self.draw(st.integers(0, 1)))
            case _:
                array = b.op(kind, x, axes=(axis,), keepdims=self.draw(st.integers(0, 1)))
        return [array] if self.keeps(array) else []


def fits(one: tuple[int | str, ...], other: tuple[int | str, ...]) -> bool:
    """Return True if one shape can be broadcast to the other shape."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return len(one) <= len(other) and all(a in (1, b) for a, b in pairs)


@st.composite
def native_steps(draw: st.DrawFn) -> Case:
    """Draw a program and its input arrays."""
    return ArrayProgramBuilder(draw).case()
