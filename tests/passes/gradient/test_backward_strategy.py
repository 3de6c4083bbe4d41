"""Regression tests of reverse mode with loops that random programs found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mdf_loop.build import Builder
from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from tests.models.choices import repeat
from tests.passes.gradient.all_forms import assert_all_forms, assert_on_runtime
from tests.passes.gradient.written import ARRAYS, WriteOutputs, objective_program, step


def recorded_beside_carried(b: ModelBuilder, x: Value, w: Value) -> Sequence[Value]:
    """Append an inner loop with two results: the outer loop carries one and only records the other."""

    def body(b: ModelBuilder, i: Value, v: Sequence[Value]) -> Sequence[Value]:
        finals, _ = repeat(
            b, 2, [v[0], x], lambda b, j, u: [step(b, u[0], w), b.op("Mul", u[1], x)]
        )
        return finals

    finals, stacks = repeat(b, 3, [x], body, 1)  # type: ignore[arg-type]
    return [*finals, *stacks]


def without_iterations(b: ModelBuilder, x: Value, w: Value) -> Sequence[Value]:
    """Append an inner loop without iterations that reads a carried value."""

    def body(b: Builder, i: Value, v: Sequence[Value]) -> Sequence[Value]:
        finals, _ = repeat(b, 0, [x], lambda b, j, u: [b.op("Mul", u[0], v[0])])
        return [b.op("Tanh", finals[0]), b.op("Mul", finals[0], v[1])]

    return repeat(b, 3, [x, x], body)[0]


WRITTEN = [recorded_beside_carried, without_iterations]


@pytest.mark.parametrize("written", WRITTEN, ids=lambda f: f.__name__)
def test_all_backward_forms_agree(written: WriteOutputs) -> None:
    assert_all_forms(objective_program(written), ARRAYS, ["x", "w"])


@pytest.mark.parametrize("written", WRITTEN, ids=lambda f: f.__name__)
def test_the_gradient_on_onnx_runtime(written: WriteOutputs) -> None:
    assert_on_runtime(objective_program(written), ARRAYS, ["x", "w"])
