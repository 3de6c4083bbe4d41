"""A builder of programs with a single loop, for the tests of native loops."""

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
    """A builder of a program with one loop; a test adds the inputs, carried arrays, rows and operations."""

    def __init__(self) -> None:
        self.b = Builder()
        self.inside = self.b.body()
        self.i = self.inside.new("int64", (), "i")
        self.go = self.inside.new("bool", (), "go")
        self.inputs: list[Value] = []
        self.carried: list[Carried] = []
        self.recorded: list[Recorded] = []
        self.scanned: list[Scanned] = []

    def input(self, dtype: str = "float64", shape: Shape = (), name: str = "x") -> Value:
        """Add an input of the program and return its value."""
        self.inputs.append(self.b.new(dtype, shape, name))
        return self.inputs[-1]

    def carry(
        self, initial: Value, step: Callable[[Value], Value], enter: Shape = None, **more: Any
    ) -> Value:
        """Add a carried array, updated by `step` in each iteration, and return its final value."""
        enter_value = self.inside.new(initial.dtype, enter or initial.shape, "enter")
        final_value = self.b.new(initial.dtype, more.get("final", enter_value.shape), "final")
        self.carried.append(Carried(initial, enter_value, step(enter_value), final_value))
        return final_value

    def record(self, row: Value, extent: int | str = 3) -> Value:
        """Record `row` in each iteration and return the stacked rows."""
        stack = self.b.new(row.dtype, (extent, *(row.shape or ())), "stack")
        self.recorded.append(Recorded(row, stack))
        return stack

    def varied(self, x: Value) -> Value:
        """Return `x` plus the iteration number, so that no pass hoists the value out of the loop."""
        onnx_dtype = {"float64": 11, "int64": 7}[x.dtype]
        return self.inside.op("Add", x, self.inside.op("Cast", self.i, to=onnx_dtype))

    def scan(self, rows: Value, shape: Shape = (), axis: int = 0) -> Value:
        """Scan `rows` along `axis` and return the row of the current iteration."""
        row = self.inside.new(rows.dtype, shape, "row")
        self.scanned.append(Scanned(rows, row, axis))
        return row

    def program(self, *output_values: Value, **more: Any) -> Program:
        """Return the prepared program with outputs `y0`, `y1`, ...; `more` overrides fields of the loop."""
        trip_count = self.b.constant(np.array(3))
        loop_parts = (tuple(self.carried), tuple(self.recorded), tuple(self.inside.ops))
        loop_fields = {"condition": None, "condition_out": None, "trip_count": trip_count, **more}
        self.b.append(
            Loop(
                *(
                    "A.f",
                    loop_fields.pop("trip_count"),
                    loop_fields.pop("condition"),
                    self.i,
                    self.go,
                ),
                *(loop_fields.pop("condition_out"), *loop_parts, tuple(self.scanned)),
                **loop_fields,
            )
        )
        inputs = tuple(map(Input, self.inputs))
        outputs = tuple(Output(f"y{k}", value) for k, value in enumerate(output_values))
        unprepared_program = Program("p", inputs, tuple(self.b.ops), outputs)
        return prepare(unprepared_program, ONNXRUNTIME)
