"""Recurrent layers are differentiated through the loops of their decompositions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.ir import Input, Output, Program
from mdf_loop.passes.gradient.differentiate import cotangent_name, differentiate
from mdf_loop.run.interpret import interpret
from tests.ops.derivatives.differentiating import STEP

TIME, BATCH, INPUTS, HIDDEN = 3, 2, 2, 2
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def layer(op_type: str, lengths: bool, attributes: dict[str, Any]) -> Program:
    """Return a program whose scalar result depends on all results of a layer."""
    b = Builder()
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[op_type] * HIDDEN
    shapes = {
        "x": (TIME, BATCH, INPUTS),
        "w": (directions, rows, INPUTS),
        "r": (directions, rows, HIDDEN),
        "bias": (directions, 2 * rows),
    }
    values = [b.new("float64", shape, name) for name, shape in shapes.items()]
    ends = [b.constant(np.array([3, 1], np.int32))] if lengths else []
    outputs = b.multi(
        op_type,
        *values,
        *ends,
        output_count=3 if op_type == "LSTM" else 2,
        hidden_size=HIDDEN,
        **attributes,
    )
    flat = [b.op("Reshape", y, b.constant(np.array([-1]))) for y in outputs]
    whole = b.op("Concat", *flat, axis=0)
    number = b.op("ReduceSum", b.op("Mul", whole, b.op("Cos", whole)), keepdims=0)
    return Program("p", tuple(map(Input, values)), tuple(b.ops), (Output("number", number),))


@pytest.mark.parametrize(
    ("op_type", "lengths", "attributes"),
    [
        ("RNN", False, {}),
        ("RNN", True, {"direction": "reverse"}),
        ("LSTM", False, {}),
        ("GRU", False, {"linear_before_reset": 1}),
        ("GRU", True, {"direction": "bidirectional"}),
    ],
)
def test_a_layer_has_the_gradient_of_its_loop(
    op_type: str, lengths: bool, attributes: dict[str, Any]
) -> None:
    program = layer(op_type, lengths, attributes)
    names = [entry.value.name for entry in program.inputs]
    derived = differentiate(program, "number", names)
    rng = np.random.default_rng(3)
    arrays = {e.value.name: rng.normal(size=e.value.shape) for e in program.inputs}
    along = {name: rng.normal(size=array.shape) for name, array in arrays.items()}
    gradients = interpret(derived, arrays)
    for name in names:
        sides = (
            interpret(derived, {**arrays, name: arrays[name] + sign * STEP * along[name]})["number"]
            for sign in (1, -1)
        )
        slope = np.subtract(*sides) / (2 * STEP)
        np.testing.assert_allclose(
            np.sum(gradients[cotangent_name(name)] * along[name]), slope, rtol=1e-6
        )
