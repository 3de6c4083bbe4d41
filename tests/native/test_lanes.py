"""Vectorized loops over any number of lanes, also none, in one or several parts."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.errors import RunError
from mdf_loop.ir import Carried, Input, Loop, Output, Program, Shape
from mdf_loop.native import lanes, machine
from mdf_loop.native.kernel import compile_kernel
from mdf_loop.native.loop_text import MAX_SHARES
from mdf_loop.native.support import signature_of
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.onnxruntime import session
from mdf_loop.run.onnxruntime.session import Session
from tests.native.one_loop import Sketch
from tests.placements import REQUIRED, STANDARD


def doubled(shape: Shape) -> Program:
    """Return a loop that doubles an array of lanes and a single number in each iteration."""
    sketch = Sketch()
    x, scalar = sketch.input(shape=shape, name="x"), sketch.input(name="s")
    trip_count = sketch.input("int64", name="trip")
    final_values = [
        sketch.carry(initial, lambda value: sketch.inside.op("Add", value, value))
        for initial in (x, scalar)
    ]
    stacks = [sketch.record(carried.body_output, "rows") for carried in sketch.carried]
    iteration_count = sketch.b.new("int64", (), "count")
    return sketch.program(
        *final_values,
        *stacks,
        iteration_count,
        trip_count=trip_count,
        iteration_count=iteration_count,
    )


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 15, 31, 32, 33, 1000])
@pytest.mark.parametrize("known", [True, False])
def test_any_number_of_lanes(count: int, known: bool) -> None:
    """Compare native and standard loops for any number of lanes; none leaves only single numbers."""
    program = doubled((count if known else "n",))
    inputs = {"x": np.arange(count) - 2.5, "s": np.array(0.75), "trip": np.array(3)}
    outputs = Session(program, REQUIRED).run(inputs)
    expected = Session(program, STANDARD).run(inputs)
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name], array, strict=True)
    assert outputs["y1"] == 6.0


@pytest.mark.parametrize("count", [1, 7, 95, 96, 97, 1000, 5003])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("threads", [1, 3])
def test_parts_have_the_same_bits(
    count: int, known: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the bits depend on neither the number of parts nor the number of threads."""
    program = doubled((count if known else "n",))
    inputs = {"x": np.arange(count) / 3, "s": np.array(0.75), "trip": np.array(5)}
    expected = Session(program, REQUIRED).run(inputs)
    monkeypatch.setattr(lanes, "MIN_SHARE_OPERATIONS", 1)
    monkeypatch.setattr(session, "MAX_THREADS", threads)
    threaded_session = Session(program, REQUIRED)
    for _ in range(20):
        outputs = threaded_session.run(inputs)
        for name, array in expected.items():
            np.testing.assert_array_equal(outputs[name], array, strict=True)


def test_the_number_of_parts_grows_with_the_work() -> None:
    signature = signature_of(next(op for op in doubled(("n",)).ops if isinstance(op, Loop)), {})
    kernel = compile_kernel(signature)
    assert kernel.share_count_address is not None
    count_shares = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
        kernel.share_count_address
    )
    vector_width = machine.vector_width()
    endless_trip_count, block_size = 2**62, vector_width * (8 if vector_width == 4 else 6)

    def parts(trip: int, count: int) -> int:
        return count_shares(trip, ctypes.addressof(ctypes.c_int64(count)))

    assert parts(1000, 1000) == parts(0, 10**6) == parts(-5, 10**6) == 1
    assert parts(10**6, 1) == parts(endless_trip_count, block_size) == 1
    assert parts(endless_trip_count, 3 * block_size) == 3
    assert parts(lanes.MIN_SHARE_OPERATIONS // 2, 10 * block_size) == min(10 * block_size, 10)
    assert parts(endless_trip_count, 2**40) == MAX_SHARES


def test_a_failure_of_any_part_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "MIN_SHARE_OPERATIONS", 1)
    monkeypatch.setattr(session, "MAX_THREADS", 3)
    b = Builder()
    initial_value, trip_count = b.new("int64", (900,), "k"), b.new("int64", (), "trip")
    body = b.body()
    i, condition_in = body.new("int64", (), "i"), body.new("bool", (), "go")
    enter_value, final_value = body.new("int64", (900,), "enter"), b.new("int64", (900,), "final")
    with body.at("$.here"):
        decremented_value = body.op("Sub", enter_value, body.constant(np.array(1)))
        leave_value = body.op(
            "Add", decremented_value, body.op("Div", body.constant(np.array(7)), decremented_value)
        )
    carried_values, ops = (
        (Carried(initial_value, enter_value, leave_value, final_value),),
        tuple(body.ops),
    )
    b.append(Loop("A.f", trip_count, None, i, condition_in, None, carried_values, (), ops))
    program = Program(
        "p",
        tuple(map(Input, (initial_value, trip_count))),
        tuple(b.ops),
        (Output("y", final_value),),
    )
    threaded_session = Session(prepare(program, ONNXRUNTIME), REQUIRED)
    inputs = {"k": np.full(900, 100), "trip": np.array(3)}
    assert (threaded_session.run(inputs)["y"] == 97).all()
    inputs["k"][613] = 1
    with pytest.raises(RunError, match="divided by zero") as error:
        threaded_session.run(inputs)
    assert error.value.findings[0].where == "$.here"
