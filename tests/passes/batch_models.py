"""Small models for the tests of `batch`: inputs to batch, and loops over them."""

from __future__ import annotations

from itertools import starmap
from typing import Any

import numpy as np
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Input, Loop, Output, Program, Recorded, Scanned, Value
from mdf_loop.ir.check import check
from tests.passes.batch_running import assert_same

V = np.array([[0.5, -1.0], [2.0, 0.25], [1.5, 3.0]])
S = np.array([0.3, -0.7, 1.1])


class Model:
    """Program with the inputs v[2], w[2], s[] and the integer n[], built by the tests."""

    def __init__(self) -> None:
        self.b = Builder()
        self.b.where = "$.graphs[0]"
        self.v = self.b.new("float64", (2,), "v")
        self.w = self.b.new("float64", (2,), "w")
        self.s = self.b.new("float64", (), "s")
        self.n = self.b.new("int64", (), "n")

    def program(self, **outputs: Value) -> Program:
        inputs = tuple(map(Input, (self.v, self.w, self.s, self.n)))
        program = Program("p", inputs, tuple(self.b.ops), tuple(starmap(Output, outputs.items())))
        assert not check(program)
        return program

    def truth(self, value: bool) -> Value:
        return self.b.constant(np.array(value))


class LoopBuilder:
    """Builder of a loop over `x` and further values, in a model or in a body."""

    def __init__(self, b: Builder, trip_count: Value | None, name: str = "A.f") -> None:
        self.b, self.body, self.trip, self.name = b, b.body(), trip_count, name
        self.i = self.body.new("int64", (), "i")
        self.go = self.body.new("bool", (), "go")
        self.carried: list[Carried] = []
        self.recorded: list[Recorded] = []
        self.scanned: list[Scanned] = []

    def scan(self, rows: Value, name: str, axis: int = 0, backward: bool = False) -> Value:
        shape = rows.shape or ()
        row = self.body.new(rows.dtype, (*shape[:axis], *shape[axis + 1 :]), name)
        self.scanned.append(Scanned(rows, row, axis, backward))
        return row

    def carry(self, initial: Value, name: str) -> Value:
        enter = self.body.new(initial.dtype, initial.shape, name)
        final = self.b.new(initial.dtype, initial.shape, f"{name}_end")
        self.carried.append(Carried(initial, enter, enter, final, name))
        return enter

    def leave(self, *values: Value) -> None:
        pairs = zip(self.carried, values, strict=True)
        self.carried = [replace(carried, body_output=value) for carried, value in pairs]

    def record(self, row: Value, name: str) -> None:
        stack = self.b.new(row.dtype, ("time", *(row.shape or ())), name)
        self.recorded.append(Recorded(row, stack, name))

    def done(self, **fields: Any) -> Loop:
        settings: dict[str, Any] = {"condition": None, "condition_out": None, **fields}
        return self.b.append(
            Loop(
                name=self.name,
                trip_count=self.trip,
                iteration=self.i,
                condition_in=self.go,
                carried=tuple(self.carried),
                recorded=tuple(self.recorded),
                scanned=tuple(self.scanned),
                ops=tuple(self.body.ops),
                where="$.graphs[0].nodes['A'].functions['f']",
                **settings,
            )
        )


def arrays(**batched: np.ndarray) -> dict[str, np.ndarray]:
    defaults = {"v": V[0], "w": np.array([2.0, -3.0]), "s": S[0], "n": np.array(4)}
    return {**defaults, **batched}


def checked_batch(program: Program, *names: str, **changes: np.ndarray) -> Program:
    """Return the batched program, after comparing it with single runs."""
    batched_feeds = {"v": V, "s": S, "w": V[::-1] * 2, "n": np.array([1, 2, 3])}
    feeds = arrays(**{name: batched_feeds[name] for name in names}, **changes)
    return assert_same(program, feeds, names)


def text(program: Program) -> list[str]:
    return str(program).splitlines()
