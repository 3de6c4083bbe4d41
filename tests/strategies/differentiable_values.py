"""Random operations that can be differentiated, on numbers, vectors and matrices.

Values stay small, so that they do not overflow in loops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops.build_helpers import cast, ints, scalar

SHAPES: list[tuple[int, ...]] = [(), (3,), (3,), (2, 3), (3, 3)]

Stack: TypeAlias = "tuple[Value, Value]"
"""A recorded value and its number of rows."""


@dataclass(slots=True)
class Scope:
    """Values that can be read at the place where operations are appended.

    Attributes:
        values: Floats.
        wholes: Nonnegative integers.
        places: Integers from 0 to 2, which are valid indices.
        stacks: Recorded rows of loops.
    """

    b: ModelBuilder
    values: list[Value]
    wholes: list[Value] = field(default_factory=list)
    places: list[Value] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)

    def inside(self, b: ModelBuilder) -> Scope:
        """Return the values that a body of this scope can read."""
        return Scope(b, [*self.values], [*self.wholes], [*self.places], [*self.stacks])


class OperationBuilder:
    """Builder of random operations from a seed; each method returns the value that it appended."""

    kinds = ("smooth", "pair", "pair", "product", "product", "select", "safe", "reduced", "softmax")
    kinds += ("sliced", "moved", "gathered", "guarded", "numbered")

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, *words: str) -> str:
        return str(self.rng.choice(words))

    def below(self, count: int) -> int:
        return int(self.rng.integers(count))

    def pick(self, s: Scope) -> Value:
        """Return a value, more often a recent one."""
        return s.values[-1 - min(int(self.rng.geometric(0.3)) - 1, len(s.values) - 1)]

    def of_shape(self, s: Scope, shape: tuple[int, ...]) -> Value:
        """Return a value of a shape, built from another value if there is none."""
        alike = [value for value in s.values if value.shape == shape]
        if alike and self.below(4):
            return alike[-1 - min(int(self.rng.geometric(0.3)) - 1, len(alike) - 1)]
        return self.shaped(s.b, self.pick(s), shape)

    def shaped(self, b: ModelBuilder, value: Value, shape: tuple[int, ...]) -> Value:
        """Return the value, or numbers of this shape that depend on all of its elements."""
        if value.shape == shape:
            return value
        total = b.op("ReduceMean", value, keepdims=0) if value.shape else value
        return b.op("Mul", total, b.constant(self.rng.uniform(-1, 1, shape)))

    def beside(self, b: ModelBuilder, x: Value, y: Value) -> Value:
        """Return the second value, or its mean if it cannot be broadcast with the first one."""
        try:
            np.broadcast_shapes(x.shape, y.shape)  # type: ignore[arg-type]
        except ValueError:
            return self.shaped(b, y, ())
        return y

    def number(self, b: ModelBuilder, number: float) -> Value:
        return b.constant(np.array(number))

    # --- element by element ---------------------------------------------------------------------

    def smooth(self, s: Scope) -> Value:
        return s.b.op(self.one("Sin", "Tanh", "Sigmoid", "Cos", "Softplus", "Atan"), self.pick(s))

    def pair(self, s: Scope) -> Value:
        """Return two values whose shapes broadcast."""
        b, word = s.b, self.one("Add", "Sub", "Mul", "Max", "Min", "Div", "Abs", "Pow")
        x, y = self.pick(s), self.pick(s)
        if word == "Abs":
            return b.op("Abs", b.op("Sub", x, self.number(b, 0.371)))
        y = self.beside(b, x, y)
        if word == "Pow":
            x = b.op("Add", b.op("Mul", x, x), self.number(b, 0.5))
            y = b.op("Tanh", y)
        if word == "Div":
            y = b.op("Add", b.op("Mul", y, y), self.number(b, 1.5))
        return b.op("Tanh", b.op(word, x, y))

    def select(self, s: Scope) -> Value:
        x, y, z = (self.of_shape(s, (3,)) for _ in range(3))
        condition = s.b.op(self.one("Less", "Greater"), x, y)
        return s.b.op("Where", condition, self.beside(s.b, x, self.pick(s)), z)

    def safe(self, s: Scope) -> Value:
        """Return a selection whose unselected operand is undefined, or has no finite slope."""
        b, x = s.b, self.of_shape(s, SHAPES[self.below(5)])
        condition = b.op("Greater", x, self.number(b, 0.05))
        word = self.one("Sqrt", "Log", "Reciprocal", "Pow", "Exp")
        if word == "Exp":  # infinite where x is not taken
            x = b.op("Mul", b.op("Sub", self.number(b, 0.05), x), self.number(b, 1e4))
            curve = b.op("Exp", x)
        elif word == "Pow":
            curve = b.op("Pow", x, self.number(b, 0.7))
        else:
            curve = b.op(word, x)
        return b.op("Where", condition, b.op("Tanh", curve), self.shaped(b, self.pick(s), (3,)))

    def guarded(self, s: Scope) -> Value:
        b, x = s.b, self.pick(s)
        ok = b.op("Less", b.op("ReduceSum", x, keepdims=0), self.number(b, 1e9))
        return b.guard(self.pick(s), ok, "never said")

    def numbered(self, s: Scope) -> Value:
        """Return a value that depends on an integer such as the iteration number."""
        if not s.wholes:
            return self.smooth(s)
        whole = cast(s.b, s.wholes[self.below(len(s.wholes))], "float64")
        return s.b.op("Sin", s.b.op("Mul", whole, self.pick(s)))

    # --- products, sums, rows -------------------------------------------------------------------

    def matrix(self, s: Scope) -> Value:
        fixed = s.b.constant(self.rng.uniform(-1, 1, (3, 3)))
        return fixed if self.below(3) == 0 else self.of_shape(s, (3, 3))

    def product(self, s: Scope) -> Value:
        """Return a product with a matrix on the left, on the right, or transposed, or of vectors."""
        b, m = s.b, self.matrix(s)
        if self.below(3) == 0:
            m = b.op("Transpose", m, perm=(1, 0))
        x = self.of_shape(s, (3,))
        match self.one("left", "right", "rows", "both", "vectors", "gemm"):
            case "left":
                product = b.op("MatMul", m, x)
            case "right":
                product = b.op("MatMul", x, m)
            case "rows":
                product = b.op("MatMul", self.of_shape(s, (2, 3)), m)
            case "both":
                product = b.op("MatMul", m, self.matrix(s))
            case "vectors":
                product = b.op("MatMul", x, self.of_shape(s, (3,)))
            case _:
                product = b.op(
                    "Gemm", self.of_shape(s, (2, 3)), m, x, alpha=0.5, beta=2.0, transB=1
                )
        return b.op("Tanh", b.op("Mul", product, self.number(b, 0.5)))

    def reduced(self, s: Scope) -> Value:
        b, x = s.b, self.of_shape(s, SHAPES[1 + self.below(4)])
        axes = (self.below(len(x.shape or ())),) if self.below(3) else None
        words = {"keepdims": self.below(2)}
        word = self.one("Sum", "Mean", "Max", "Min", "LogSumExp", "SumSquare", "Prod")
        if word == "Sum":
            reduced = b.op("ReduceSum", x, ints(b, *axes) if axes else None, **words)
        else:
            reduced = b.op(f"Reduce{word}", x, **words, **({"axes": axes} if axes else {}))
        return b.op("Tanh", reduced)

    def softmax(self, s: Scope) -> Value:
        x = self.of_shape(s, SHAPES[1 + self.below(4)])
        axis = self.below(len(x.shape or ())) - self.below(2) * len(x.shape or ())
        return s.b.op(self.one("Softmax", "LogSoftmax"), x, axis=axis)

    def sliced(self, s: Scope) -> Value:
        """Return three of six numbers, or three of several rows or columns."""
        b, axis = s.b, 0
        if self.below(2):
            parts = [self.of_shape(s, (3,)) for _ in range(2)]
        else:
            axis = self.below(2)
            parts = [self.matrix(s), self.matrix(s)]
        joined, start = b.op("Concat", *parts, axis=axis), self.below(4)
        if self.below(2):
            return b.op("Slice", joined, ints(b, start), ints(b, start + 3), ints(b, axis))
        return b.op("Slice", joined, ints(b, 5), ints(b, -7), ints(b, axis), ints(b, -2))

    def moved(self, s: Scope) -> Value:
        b, m = s.b, self.matrix(s)
        match self.one("turned", "running", "gathered", "flat", "apart", "padded", "spread"):
            case "turned":
                return b.op("Transpose", m, perm=(1, 0))
            case "running":
                words = {"exclusive": self.below(2), "reverse": self.below(2)}
                sums = b.op("CumSum", m, scalar(b, self.below(2), "int64"), **words)
                return b.op("Mul", sums, self.number(b, 0.5))
            case "gathered":
                return b.op("Gather", m, b.constant(np.array([2, 0, -3])), axis=self.below(2))
            case "flat":
                return b.op("Slice", b.op("Reshape", m, ints(b, -1)), ints(b, 2), ints(b, 5))
            case "apart":
                return b.multi("Split", m, ints(b, 1, 2), output_count=2, axis=0)[1]
            case "padded":
                x = self.of_shape(s, (3,))
                return b.op("Slice", b.op("Pad", x, ints(b, 2, 1)), ints(b, 1), ints(b, 4))
            case _:
                return b.op("Expand", self.of_shape(s, (3,)), ints(b, 2, 3))

    def gathered(self, s: Scope) -> Value:
        """Return a row or a column at a position that may be the iteration number."""
        b = s.b
        if s.places and self.below(2):
            place = s.places[-1 - min(self.below(2), len(s.places) - 1)]
        elif s.wholes:
            whole = s.wholes[self.below(len(s.wholes))]
            place = b.op("Mod", whole, scalar(b, 3, "int64"))
        else:
            place = scalar(b, self.below(3), "int64")
        return b.op("Gather", self.matrix(s), place, axis=self.below(2))
