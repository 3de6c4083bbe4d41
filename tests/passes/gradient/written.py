"""Small programs written by functions of a vector and a matrix; the objective is the sum of sines of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Program, Value
from mdf_loop.lower.builder import ModelBuilder
from tests.models.choices import program

X, W = np.array([0.5, -1.0, 2.0]), np.array([[0.5, -0.25, 0.1], [0.3, 0.2, -0.6], [0.7, 0.1, 0.4]])
ARRAYS = {"x": X, "w": W}
WriteOutputs = Callable[[ModelBuilder, Value, Value], Sequence[Value]]


def number(b: Builder, value: float) -> Value:
    return b.constant(np.array(value))


def objective_program(written: WriteOutputs) -> Program:
    """Add the sum of the sines of the result as the objective."""
    b = ModelBuilder()
    x, w = b.new("float64", (3,), "x"), b.new("float64", (3, 3), "w")
    parts = [b.op("ReduceSum", b.op("Sin", y), keepdims=0) for y in written(b, x, w)]
    return program(b, [x, w], value=b.op("Sum", *parts))


def step(b: Builder, x: Value, w: Value) -> Value:
    return b.op("Tanh", b.op("MatMul", x, w))
