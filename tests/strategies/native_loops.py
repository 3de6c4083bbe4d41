"""Random programs of one outermost loop that machine code supports, with input arrays.

A program has all features that native code supports: single numbers and lanes of any shape, and extents
known only at run time. Loops end in all ways, and scan rows from both ends. Bodies have choices, inner
loops, and guards that fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Branch,
    Carried,
    If,
    Input,
    Loop,
    Output,
    Program,
    Recorded,
    Scanned,
    Shape,
    Value,
)
from mdf_loop.ir.types import element_type
from tests.strategies.native_operations import DTYPES, Call, calls, hard

FIXED = ((2,), (3,), (7,), (8,), (33,), (1000,), (2, 3), (1, 5), (4, 1), (0,))
NAMED = (("n",), ("n",), ("n",), (2, "n"), ("n", "m"), (1, "n"), ("n", 1))
EXTENTS = (0, 2, 3, 7, 8, 33, 1000)
"""Number of elements of symbolic extents. `Where` in ONNX Runtime may pick another zero for one lane."""

COMMON = ("float64", "float64", "float32", "int64", "int32", "bool")
"""Dtypes with a larger probability."""

LONG_EXTENT = 100_003
MOST_ROWS = 6
"""Maximum number of iterations of the outermost loop."""

LOOP_KINDS = ("for", "for", "for", "for-while", "while", "bounded", "endless")


@dataclass(frozen=True)
class Kind:
    """Kind of random loops: their operations, smoothness and number of lanes."""

    calls: Sequence[Call] = field(repr=False)
    smooth: bool = False
    lanes: Sequence[Shape] = (*FIXED, *NAMED, (), ())
    dtypes: Sequence[str] = (*COMMON, *DTYPES)


class Case:
    """A program with input arrays; `checked` enables bounds checks in the kernel, in half of the cases."""

    def __init__(self, program: Program, arrays: Mapping[str, np.ndarray], checked: bool) -> None:
        self.program = program
        self.arrays = arrays
        self.checked = checked

    def __repr__(self) -> str:
        return f"{self.program}\n{dict(self.arrays)}\n{'checked' if self.checked else 'unchecked'}"


# --- numbers ----------------------------------------------------------------------------------


def numbers(seed: int, dtype: str, shape: tuple[int, ...], hardness: float) -> np.ndarray:
    """Draw small numbers, some of them difficult."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.startswith("float"):
        plain = rng.uniform(-2, 2, shape).astype(dtype)
    else:
        plain = rng.integers(-9, 10, shape).astype(dtype)
    chosen = rng.choice(hard(dtype), shape)
    return np.asarray(np.where(rng.random(shape) < hardness, chosen, plain), dtype)


# --- programs ---------------------------------------------------------------------------------


class LoopProgramBuilder:
    """Builder of statements that hypothesis draws."""

    def __init__(self, draw: st.DrawFn, kind: Kind) -> None:
        self.draw = draw
        self.kind = kind
        self.checked = draw(st.booleans())
        self.lanes: Shape = draw(st.sampled_from(kind.lanes))
        self.extents = {
            name: draw(st.sampled_from(EXTENTS)) for name in self.lanes or () if name in ("n", "m")
        }
        if list(self.extents) == ["n"] and draw(st.integers(0, 40)) == 0:
            self.extents["n"] = LONG_EXTENT
        self.dtypes = draw(st.lists(st.sampled_from(kind.dtypes), min_size=1, max_size=3))
        self.hardness = 0.0 if kind.smooth else draw(st.sampled_from([0.0, 0.05, 0.5]))
        self.inputs: list[Value] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.changing: set[Value] = set()
        self.checks = 0

    # --- what is given ------------------------------------------------------------------------

    def input(self, b: Builder, dtype: str, shape: Shape, name: str, array: object = None) -> Value:
        """Return a new input of the program."""
        value = b.new(dtype, shape, name)
        extents = {**self.extents, "time": MOST_ROWS}
        fixed_shape = tuple(extents.get(extent, extent) for extent in shape or ())
        if array is None:
            seed = self.draw(st.integers(0, 2**32 - 1))
            array = numbers(seed, dtype, fixed_shape, self.hardness)
        self.inputs.append(value)
        self.arrays[value.name] = np.asarray(array, dtype)
        return value

    def case(self) -> Case:
        """Build the whole program."""
        b = Builder()
        b.where = "$.model"
        pool = [b.constant(np.array(self.draw(st.sampled_from(list(hard("int64")[:10])))))]
        for dtype in self.dtypes:
            single = self.draw(st.sampled_from([(), (), (1,)]))
            pool.append(self.input(b, dtype, single, "s"))
            if self.lanes:
                pool.append(self.input(b, dtype, self.lanes, "x"))
        outputs = self.outermost(b, pool)
        named = (Output(f"y{k}", value) for k, value in enumerate(outputs))
        program = Program("p", tuple(map(Input, self.inputs)), tuple(b.ops), tuple(named))
        return Case(program, self.arrays, self.checked)

    # --- the outermost loop -------------------------------------------------------------------

    def outermost(self, b: Builder, pool: list[Value]) -> list[Value]:
        """Append a loop over values of the pool, and return its results."""
        draw = self.draw
        ends, most = (
            draw(st.sampled_from(LOOP_KINDS)),
            draw(st.sampled_from([0, 1, 2, 3, MOST_ROWS])),
        )
        trip = self.whole(b, most, "trip") if ends in ("for", "for-while") else None
        condition = self.flag(b, pool) if ends not in ("for", "endless") else None
        begin = draw(st.sampled_from([0, 0, -5, 9]))
        first = self.whole(b, begin, "first") if begin else None
        inside = b.body()
        i, go = inside.new("int64", (), "i"), inside.new("bool", (), "go")
        scanned = [self.scanned(b, inside) for _ in range(draw(st.integers(0, 2)))]
        initials = [self.pick(pool) for _ in range(draw(st.integers(1, 4)))]
        enters = [self.entering(inside, v) for v in initials]
        around = [*pool, i, go, *enters, *(each.row for each in scanned)]
        body_values = self.grow(inside, around, 2, draw(st.integers(1, 6)))
        leaves = [self.leaving(inside, body_values, v) for v in enters]
        rows = [self.pick(body_values[-6:]) for _ in range(draw(st.integers(0, 2)))]
        out = None
        if condition is not None or draw(st.integers(0, 3)) == 0:
            out = self.flag(inside, body_values)
        if ends == "while":
            assert out is not None
            may_continue = inside.op("Less", i, b.constant(np.array(begin + most - 1)))
            out = inside.op("And", out, may_continue)
        number = most if ends == "for" and trip not in self.inputs else "rows"
        stacks = [Recorded(v, b.new(v.dtype, (number, *(v.shape or ())), "stack")) for v in rows]
        finals = [self.ending(b, v) for v in enters]
        count = b.new("int64", (), "count") if draw(st.booleans()) else None
        last = b.new("bool", (), "last") if out is not None and draw(st.booleans()) else None
        b.append(
            Loop(
                "A.f",
                trip,
                condition,
                i,
                go,
                out,
                tuple(map(Carried, initials, enters, leaves, finals)),
                tuple(stacks),
                tuple(inside.ops),
                tuple(scanned),
                first,
                most if ends in ("bounded", "endless") else None,
                iteration_count=count,
                last_condition=last,
                where="$.loop",
                has_dynamic_shapes=any(v in self.changing for v in enters),
            )
        )
        reports = [value for value in (count, last) if value is not None]
        return [*finals, *(r.stack for r in stacks), *reports]

    def entering(self, inside: Builder, initial: Value) -> Value:
        """Return the carried value at the start of an iteration."""
        return inside.new(initial.dtype, initial.shape, "enter")

    def leaving(self, inside: Builder, values: Sequence[Value], enter: Value) -> Value:
        """Return the carried value at the end of an iteration."""
        return self.fit(inside, values, enter.dtype, enter.shape)

    def ending(self, b: Builder, enter: Value) -> Value:
        """Return the final value of a carried value."""
        return b.new(enter.dtype, enter.shape, "final")

    def whole(self, b: Builder, number: int, name: str) -> Value:
        """Return an integer, either a constant or a new input."""
        if self.draw(st.booleans()):
            return b.constant(np.array(number))
        return self.input(b, "int64", (), name, number)

    def scanned(self, b: Builder, inside: Builder) -> Scanned:
        shape = self.draw(st.sampled_from([self.lanes, ()])) or ()
        count = self.draw(st.sampled_from([MOST_ROWS, MOST_ROWS + 1, "time"]))
        axis = self.draw(st.integers(0, len(shape)))
        rows = self.input(b, self.dtype(), (*shape[:axis], count, *shape[axis:]), "rows")
        row = inside.new(rows.dtype, shape, "row")
        return Scanned(rows, row, axis, self.draw(st.booleans()))

    # --- bodies -------------------------------------------------------------------------------

    def grow(self, b: Builder, around: Sequence[Value], depth: int, least: int) -> list[Value]:
        """Append a few statements, and return all values that can be read."""
        pool = list(around)
        kinds = [self.op] * 8 + [self.constant, self.moved]
        if not self.kind.smooth:
            kinds += [self.guard]
        if depth:
            kinds += [self.choice, self.choice, self.inner]
        for _ in range(self.draw(st.integers(least, least + 3))):
            pool += self.draw(st.sampled_from(kinds))(b, pool, depth)
        return pool

    def dtype(self) -> str:
        return self.draw(st.sampled_from(self.dtypes))

    def pick(self, pool: Sequence[Value]) -> Value:
        return self.draw(st.sampled_from(list(pool)))

    def operand(self, b: Builder, pool: Sequence[Value], dtype: str) -> Value:
        """Return any value of a dtype."""
        value = self.pick([v for v in pool if v.dtype == dtype] or pool)
        return self.converted(b, value, dtype)

    def converted(self, b: Builder, value: Value, dtype: str) -> Value:
        if dtype == "uint32" and value.dtype.startswith("float"):  # what does not fit is open
            value = b.op("Cast", value, to=element_type("int64"))
        return value if value.dtype == dtype else b.op("Cast", value, to=element_type(dtype))

    def fit(self, b: Builder, pool: Sequence[Value], dtype: str, shape: Shape) -> Value:
        """Return a value of a dtype and shape, mostly a recent value."""
        alike = [value for value in pool if value.shape == shape]
        if not alike:
            return self.filled(b, pool, dtype, shape)
        best = [value for value in alike if value.dtype == dtype]
        return self.converted(b, self.pick((best or alike)[-4:]), dtype)

    def filled(self, b: Builder, pool: Sequence[Value], dtype: str, shape: Shape) -> Value:
        """Return a single number expanded to another shape."""
        single = next(value for value in pool if value.shape in ((), (1,)))  # at least a constant
        shape_value = b.constant(np.array(shape, np.int64))
        op_type = "Reshape" if shape in ((), (1,)) else "Expand"
        return self.converted(b, b.op(op_type, single, shape_value), dtype)

    def flag(self, b: Builder, pool: Sequence[Value]) -> Value:
        """Return a boolean."""
        single = [v for v in pool if v.shape == ()]
        number = self.pick(single)
        if self.kind.smooth:  # no last bit decides
            return b.constant(np.array(self.draw(st.booleans())))
        if number.dtype == "bool":
            return number
        least = 0 if number.dtype.startswith("u") else -3
        limit = b.constant(np.array(self.draw(st.integers(least, 3)), number.dtype))
        return b.op(self.draw(st.sampled_from(["Less", "GreaterOrEqual"])), number, limit)

    # --- statements ---------------------------------------------------------------------------

    def op(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        call = self.draw(st.sampled_from(self.kind.calls))
        operands = self.operands(b, pool, call)
        if self.kind.smooth:
            operands = [tamed(b, value) for value in operands]
        if call.divides and self.draw(st.integers(0, 9)):
            nothing = b.constant(np.zeros((), call.dtypes[1]))
            one = b.constant(np.ones((), call.dtypes[1]))
            operands[1] = b.op("Where", b.op("Equal", operands[1], nothing), one, operands[1])
        if call.raises_integers and self.draw(st.integers(0, 9)):
            nothing = b.constant(np.zeros((), call.dtypes[1]))
            operands[1] = b.op("Where", b.op("Less", operands[1], nothing), nothing, operands[1])
        self.checks += 1
        with b.at(f"$.ops[{self.checks}]"):
            computed = call.append_to(b, *operands)
        return [computed] if self.keeps(computed) else []

    def operands(self, b: Builder, pool: list[Value], call: Call) -> list[Value]:
        """Draw operands for an operation, independently or to fit the first operand."""
        chosen_operands: list[Value] = []
        for index, dtype in zip(call.places, call.dtypes, strict=True):
            fits = pool
            if chosen_operands and call.is_shaped_by_first:
                shapes = [()] if call.is_single(index) else [(), chosen_operands[0].shape]
                fits = [value for value in pool if value.shape in shapes]
            chosen_operands.append(self.operand(b, fits, dtype))
        return chosen_operands

    def keeps(self, value: Value) -> bool:
        """Return True if the loop may have values of this shape."""
        return (value.shape or ()) in ((), (1,)) or _ends_with(value.shape, self.lanes)

    def constant(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        dtype, shapes = self.dtype(), [(), (1,)]
        if self.lanes and not self.extents:
            shapes.append(self.lanes)
        shape = self.draw(st.sampled_from(shapes))
        seed = self.draw(st.integers(0, 2**32 - 1))
        return [b.constant(numbers(seed, dtype, shape, self.hardness))]

    def moved(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        """Return the same elements in another shape."""
        value = self.pick(pool)
        if value.shape == () or (value.shape == self.lanes and self.draw(st.booleans())):
            return [b.op("Unsqueeze", value, b.constant(np.array([0])))]
        if value.shape and value.shape[0] == 1 and value.shape != self.lanes:
            return [b.op("Squeeze", value, b.constant(np.array([0])))]
        return [b.op("Identity", value)]

    def guard(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        """Append a guard whose condition is often, but not always, true."""
        ok = self.flag(b, pool)
        if self.draw(st.integers(0, 4)):
            ok = b.op("Or", ok, b.op("Not", ok))
        self.checks += 1
        with b.at(f"$.ops[{self.checks}]"):
            return [b.guard(self.pick(pool), ok, f"check {self.checks} is none")]

    def choice(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        chosen_values = [self.pick(pool) for _ in range(self.draw(st.integers(1, 2)))]
        branches = []
        condition = self.flag(b, pool)
        for _ in range(2):
            inside = b.body()
            branch_values = self.grow(inside, pool, depth - 1, 0)
            leaves = tuple(self.fit(inside, branch_values, v.dtype, v.shape) for v in chosen_values)
            branches.append(Branch(tuple(inside.ops), leaves))
        outputs = tuple(b.new(v.dtype, v.shape, "chosen") for v in chosen_values)
        b.append(If(b.name("choice"), condition, *branches, outputs, "$.choice"))
        return list(outputs)

    def inner(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        """Append an inner loop: counted, with a condition, or both."""
        initials = [self.pick(pool) for _ in range(self.draw(st.integers(1, 2)))]
        counted, has_condition = self.draw(
            st.sampled_from([(True, False), (False, True), (True, True)])
        )
        trip = b.constant(np.array(self.draw(st.integers(0, 3)))) if counted else None
        condition = self.flag(b, pool) if has_condition else None
        inside = b.body()
        j, go = inside.new("int64", (), "j"), inside.new("bool", (), "go")
        enters = [self.entering(inside, v) for v in initials]
        body_values = self.grow(inside, [*pool, j, go, *enters], depth - 1, 1)
        leaves = [self.leaving(inside, body_values, v) for v in enters]
        out = None
        if has_condition:
            most = b.constant(np.array(self.draw(st.integers(0, 3))))
            out = inside.op("And", self.flag(inside, body_values), inside.op("Less", j, most))
        finals = [self.ending(b, v) for v in enters]
        carried = tuple(map(Carried, initials, enters, leaves, finals))
        count = b.new("int64", (), "count") if self.draw(st.booleans()) else None
        ops, name = tuple(inside.ops), b.name("inner")
        b.append(
            Loop(
                *(name, trip, condition, j, go, out, carried, (), ops),
                iteration_count=count,
                where="$.inner",
                has_dynamic_shapes=any(v in self.changing for v in enters),
            )
        )
        return finals if count is None else [*finals, count]


def _ends_with(shape: Shape, lanes: Shape) -> bool:
    """Return True if a shape equals that of the lanes, except for leading axes of one element."""
    front = len(shape or ()) - len(lanes or ())
    return (
        bool(lanes)
        and 0 <= front <= 2
        and (shape or ())[front:] == lanes
        and all(extent == 1 for extent in (shape or ())[:front])
    )


def tamed(b: Builder, x: Value) -> Value:
    """Return `1.5 + x / (1 + |x|)`, where all functions are smooth and not steep."""
    one, more = (b.constant(np.array(number, x.dtype)) for number in (1.0, 1.5))
    return b.op("Add", more, b.op("Div", x, b.op("Add", one, b.op("Abs", x))))


# --- kinds ------------------------------------------------------------------------------------


FIXED_BITS = Kind(calls(lambda call: call.is_fixed and not call.is_open))
EXACT = Kind(calls(lambda call: call.is_exact and not (call.is_open or call.loses_signs)))
SINGLE = Kind(calls(lambda c: c.is_exact or "float32" not in c.dtypes), lanes=[()])
"""Loops of single numbers, whose float64 functions equal those of ONNX Runtime."""

_JUMPS = ("Ceil", "Floor", "Round", "Mod", "Sign", "Where", "ThresholdedRelu", "Shrink")
_STEEP = ("Tan", "Asin", "Acos", "Acosh", "Atanh")
SMOOTH = Kind(
    calls(
        lambda c: (
            set(c.dtypes) == {"float64"} and c.name not in (*_JUMPS, *_STEEP) and c.gives_floats
        )
    ),
    smooth=True,
    dtypes=("float64",),
)
"""Float64 operations that do not amplify differences of their operands."""


@st.composite
def native_loops(draw: st.DrawFn, kind: Kind) -> Case:
    """Draw a program of a kind and its input arrays."""
    return LoopProgramBuilder(draw, kind).case()
