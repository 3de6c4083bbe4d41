"""A program of one loop: what tests of native loops begin with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Carried,
    Input,
    Loop,
    Output,
    Program,
    Recorded,
    Scanned,
    Shape,
    Value,
)
from mdf_loop.pipeline import ONNXRUNTIME, prepare


class Sketch:
    """A program of one loop, of which a test says what is special."""

    def __init__(self) -> None:
        self.b = Builder()
        self.inside = self.b.body()
        self.i = self.inside.new("int64", (), "i")
        self.go = self.inside.new("bool", (), "go")
        self.inputs: list[Value] = []
        self.carried: list[Carried] = []
        self.recorded: list[Recorded] = []
        self.scanned: list[Scanned] = []

    def given(self, dtype: str = "float64", shape: Shape = (), name: str = "x") -> Value:
        self.inputs.append(self.b.new(dtype, shape, name))
        return self.inputs[-1]

    def carry(
        self, initial: Value, step: Callable[[Value], Value], enter: Shape = None, **more: Any
    ) -> Value:
        inner = self.inside.new(initial.dtype, enter or initial.shape, "enter")
        final = self.b.new(initial.dtype, more.get("final", inner.shape), "final")
        self.carried.append(Carried(initial, inner, step(inner), final))
        return final

    def record(self, row: Value, extent: int | str = 3) -> Value:
        stack = self.b.new(row.dtype, (extent, *(row.shape or ())), "stack")
        self.recorded.append(Recorded(row, stack))
        return stack

    def varied(self, x: Value) -> Value:
        """Other numbers in each iteration."""
        code = {"float64": 11, "int64": 7}[x.dtype]
        return self.inside.op("Add", x, self.inside.op("Cast", self.i, to=code))

    def scan(self, rows: Value, shape: Shape = (), axis: int = 0) -> Value:
        row = self.inside.new(rows.dtype, shape, "row")
        self.scanned.append(Scanned(rows, row, axis))
        return row

    def program(self, *made: Value, **more: Any) -> Program:
        trip = self.b.constant(np.array(3))
        parts = (tuple(self.carried), tuple(self.recorded), tuple(self.inside.ops))
        plain = {"condition": None, "condition_out": None, "trip_count": trip, **more}
        self.b.append(
            Loop(
                *("A.f", plain.pop("trip_count"), plain.pop("condition"), self.i, self.go),
                *(plain.pop("condition_out"), *parts, tuple(self.scanned)),
                **plain,
            )
        )
        inputs = tuple(map(Input, self.inputs))
        outputs = tuple(Output(f"y{k}", value) for k, value in enumerate(made))
        raw = Program("p", inputs, tuple(self.b.ops), outputs)
        return prepare(raw, ONNXRUNTIME)
