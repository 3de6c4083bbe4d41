"""A small program with one loop, as a base for the tests of passes."""

from __future__ import annotations

from itertools import starmap

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Input, Loop, Output, Program, Recorded, Value
from mdf_loop.ir.check import check
from mdf_loop.passes import Pass
from mdf_loop.run.interpret import interpret


class Sketch:
    """Program with one loop `x' = x + a*b` over three inputs, which tests extend."""

    def __init__(self) -> None:
        self.b = Builder()
        self.n = self.b.new("int64", (), "n")
        self.x0 = self.b.new("float64", (2,), "x0")
        self.a = self.b.new("float64", (2,), "a")
        self.body = self.b.body()
        self.i = self.body.new("int64", (), "i")
        self.go_in = self.body.new("bool", (), "go_in")
        self.x = self.body.new("float64", (2,), "x")
        self.true = self.b.constant(np.array(True), name="true")

    def loop(self, leave: Value, *rows: Value, **fields: object) -> Loop:
        final = self.b.new("float64", (2,), "final")
        carried = [Carried(self.x0, self.x, leave, final), *fields.pop("more", [])]  # type: ignore[misc]
        recorded = [
            Recorded(row, self.b.new(row.dtype, ("t", *(row.shape or ())), f"trace{k}"))
            for k, row in enumerate(rows)
        ]
        settings: dict[str, object] = {
            "name": "A.f",
            "trip_count": self.n,
            "condition": None,
            "iteration": self.i,
            "condition_in": self.go_in,
            "condition_out": self.true,
            "carried": tuple(carried),
            "recorded": tuple(recorded),
            "ops": tuple(self.body.ops),
            "iteration_count": self.b.new("int64", (), "count"),
            "last_condition": self.b.new("bool", (), "last"),
            **fields,
        }
        return self.b.append(Loop(**settings))  # type: ignore[arg-type]

    def program(self, *more: Value, **outputs: Value) -> Program:
        inputs = tuple(Input(v) for v in (self.n, self.x0, self.a, *more))
        program = Program("p", inputs, tuple(self.b.ops), tuple(starmap(Output, outputs.items())))
        assert not check(program)
        return program


def text(program: Program) -> list[str]:
    return str(program).splitlines()


SPECIAL = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 5e-324])
"""Special numbers: zeros of both signs, infinities, nan and subnormal numbers."""


def straight(b: Builder, inputs: tuple[Value, ...], /, **outputs: Value) -> Program:
    """Return the operations of a builder as a program without loops."""
    program = Program(
        "p", tuple(map(Input, inputs)), tuple(b.ops), tuple(starmap(Output, outputs.items()))
    )
    assert not check(program)
    return program


def same_bits(apply: Pass, program: Program, **arrays: np.ndarray) -> None:
    """Check that a pass keeps all bits, including signs of zeros, and changes nothing when applied again."""
    transformed = apply(program)
    assert not check(transformed)
    actual, expected = interpret(transformed, arrays), interpret(program, arrays)
    for name, array in expected.items():
        assert (actual[name].dtype, actual[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(actual[name], array)
        if array.dtype.kind == "f":
            numbers = ~np.isnan(array)
            assert (np.signbit(actual[name]) == np.signbit(array))[numbers].all()
    assert apply(transformed) is transformed
