"""Unrolled loops: equal results, and more shapes and constants that are known (R4.02, R4.06, R4.07)."""

from __future__ import annotations

from typing import Any

import pytest

import mdf_loop
from mdf_loop.errors import LoopError, TripCountError
from mdf_loop.ir import loops

COUNT = """
nodes:
  A:
    functions:
      f:
        function: onnx::Loop
        args:
          M: {count}
          cond: {condition}
          v_initial: (0, 2)
          body:
            b:
              metadata: {{inputs: [i, go, x, y], outputs: [more, x_next, y]}}
              nodes:
                step:
                  input_ports: {{x: {{}}, y: {{}}}}
                  output_ports: {{x_next: {{value: x + 1}}, more: {{value: x + 1 < 3 * 1}}}}
    output_ports: {{sum: {{value: "f[0] + f[1]"}}}}
"""


@pytest.mark.parametrize(("count", "condition"), [("3", "null"), ("null", "true"), ("9", "true")])
def test_r4_02_an_unrolled_loop_equals_the_loop(mdf: Any, count: str, condition: str) -> None:
    model = mdf(COUNT.format(count=count, condition=condition))
    loop, straight = mdf_loop.compile(model), mdf_loop.compile(model, unroll=8)
    assert loop.run()["sum"] == straight.run()["sum"] == 5
    assert len(loops(loop.program)) == 1
    assert not loops(straight.program)


def test_r4_02_the_error_of_unrolling_states_the_count(mdf: Any) -> None:
    model = mdf(COUNT.format(count="1000", condition="null"))
    with pytest.raises(TripCountError, match="'f' has 1000 iterations, unroll allows 100"):
        mdf_loop.compile(model, unroll=100).run()


SHAPES = """
nodes:
  A:
    input_ports: {x: {shape: [1], default_value: [1.5]}}
    functions:
      f:
        function: onnx::Loop
        args:
          M: 3
          v_initial: x
          body:
            b:
              metadata: {inputs: [i, go, out], outputs: [go, out_next]}
              nodes:
                step:
                  input_ports: {out: {}}
                  output_ports: {out_next: {value: "numpy.expand_dims(out, -1)"}}
    output_ports: {out: {value: f}}
"""


def test_r4_07_shapes_may_change_in_an_unrolled_loop(mdf: Any) -> None:
    with pytest.raises(LoopError):
        mdf_loop.compile(mdf(SHAPES)).run()
    assert mdf_loop.compile(mdf(SHAPES), unroll=3).run()["out"].tolist() == [[[[1.5]]]]


SIZES = """
nodes:
  A:
    parameters: {sizes: {value: [4, 1, 2]}}
    functions:
      f:
        function: onnx::Loop
        args:
          M: 3
          v_initial: (0.0,)
          body:
            b:
              metadata: {inputs: [i, go, s], outputs: [go, s_next]}
              nodes:
                step:
                  input_ports: {s: {}, i: {}, sizes: {}}
                  output_ports: {s_next: {value: "10 * s + numpy.sum(numpy.ones(sizes[i]))"}}
    output_ports: {s: {value: f}}
"""


def test_r4_06_a_list_indexed_by_the_iteration_number_is_constant_in_an_unrolled_loop(
    mdf: Any,
) -> None:
    assert mdf_loop.compile(mdf(SIZES), unroll=3).run()["s"] == 412
