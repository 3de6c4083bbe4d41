"""Native loops as operators of ONNX Runtime: shape errors, stopping, threads and memory."""

from __future__ import annotations

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.errors import LoopError, RunError
from mdf_loop.ir import (
    Carried,
    Input,
    Loop,
    Output,
    Program,
    Scanned,
    Shape,
    StopReason,
    Value,
)
from mdf_loop.memory_limit import resident_bytes
from mdf_loop.native import machine, operator
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.control.stopping import Stopped, Stopping
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import REQUIRED, STANDARD
from tests.soak import times

LONG_TRIP_COUNT = 2**62
MEGABYTE = 1 << 20


def adding(shape: Shape = ("n",), by: float = 1.0, *, endless: bool = False) -> Program:
    """Return a loop that adds `by` to `x` `trip` times, or endlessly while the input `f` is true."""
    b = Builder()
    x, trip_count, flag = (
        b.new("float64", shape, "x"),
        b.new("int64", (), "trip"),
        b.new("bool", (), "f"),
    )
    body_builder = b.body()
    i, condition_in = body_builder.new("int64", (), "i"), body_builder.new("bool", (), "go")
    enter_value = body_builder.new("float64", shape, "enter")
    leave_value = body_builder.op("Add", enter_value, b.constant(np.array(by)))
    condition = (
        body_builder.op("Or", flag, body_builder.op("Less", i, trip_count)) if endless else None
    )
    final_value = b.new("float64", shape, "final")
    b.append(
        Loop(
            "A.f",
            None if endless else trip_count,
            flag if endless else None,
            i,
            condition_in,
            condition,
            (Carried(x, enter_value, leave_value, final_value),),
            (),
            tuple(body_builder.ops),
            where="$.loop",
        )
    )
    return prepared_program(b, [x, trip_count, flag], final_value)


def scanning(rows: Shape) -> Program:
    """Return a loop whose final value is the last of `trip` scanned rows."""
    b = Builder()
    all_rows, trip_count = b.new("float64", rows, "rows"), b.new("int64", (), "trip")
    x = b.new("float64", (rows or ())[1:], "x")
    body_builder = b.body()
    i, condition_in = body_builder.new("int64", (), "i"), body_builder.new("bool", (), "go")
    enter_value, row = (
        body_builder.new("float64", x.shape, "enter"),
        body_builder.new("float64", x.shape, "row"),
    )
    leave_value = body_builder.op(
        "Add", body_builder.op("Mul", enter_value, b.constant(np.array(0.0))), row
    )
    final_value = b.new("float64", x.shape, "final")
    carried_values, ops = (
        (Carried(x, enter_value, leave_value, final_value),),
        tuple(body_builder.ops),
    )
    b.append(
        Loop(
            "A.f",
            trip_count,
            None,
            i,
            condition_in,
            None,
            carried_values,
            (),
            ops,
            (Scanned(all_rows, row),),
        )
    )
    return prepared_program(b, [all_rows, trip_count, x], final_value)


def prepared_program(b: Builder, inputs: list[Value], final: Value) -> Program:
    unprepared_program = Program(
        "p", tuple(map(Input, inputs)), tuple(b.ops), (Output("y", final),)
    )
    return prepare(unprepared_program, ONNXRUNTIME)


def feeds(program: Program, **arrays: object) -> dict[str, np.ndarray]:
    arrays_by_name = {"x": np.zeros(3), "trip": 2, "f": True, **arrays}
    return {
        program_input.value.name: np.asarray(arrays_by_name[program_input.value.name])
        for program_input in program.inputs
    }


# --- arrays of wrong shapes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "arrays"),
    [
        (adding((3,)), {"x": np.zeros(2)}),
        (adding((3,)), {"x": np.zeros(1)}),
        (adding((3,)), {"x": np.zeros((3, 3))}),
        (adding((2, "n")), {"x": np.zeros(7)}),
        (adding(()), {"x": np.zeros(5)}),
        (scanning((4, "n")), {"rows": np.zeros((4, 3)), "x": np.zeros(2)}),
        (scanning((4, "n")), {"rows": np.zeros((3, 2)), "x": np.zeros(2)}),
        (scanning(("t", "n")), {"rows": np.zeros((1, 7)), "x": np.zeros(9)}),
        (scanning(("t", "n")), {"rows": np.zeros((2, 2, 2)), "x": np.zeros(2)}),
    ],
)
def test_arrays_of_an_undeclared_shape_are_refused(
    program: Program, arrays: dict[str, np.ndarray]
) -> None:
    session = Session(program, REQUIRED)
    with pytest.raises(LoopError):
        session.run(feeds(program, **arrays))


@pytest.mark.parametrize("rows", [(4,), (4, 3), ("t", "n")])
@pytest.mark.parametrize("trip", [0, 3, 4, 5, 100, LONG_TRIP_COUNT])
def test_more_iterations_than_rows_are_an_error(rows: Shape, trip: int) -> None:
    program = scanning(rows)
    shape = (4, 3)[: len(rows or ())]
    inputs = feeds(
        program,
        rows=np.arange(12.0)[: np.prod(shape)].reshape(shape),
        trip=trip,
        x=np.ones(shape[1:]),
    )
    native_session, standard_session = Session(program, REQUIRED), Session(program, STANDARD)
    if trip > 4:
        with pytest.raises(RunError, match="the loop has more iterations than 'rows' has rows"):
            native_session.run(inputs)
        with pytest.raises(LoopError):
            standard_session.run(inputs)
    else:
        np.testing.assert_array_equal(
            native_session.run(inputs)["y"], standard_session.run(inputs)["y"], strict=True
        )


@pytest.mark.parametrize("trip", [-1, -(2**63)])
def test_a_negative_trip_count_runs_no_iteration(trip: int) -> None:
    program = adding()
    inputs = feeds(program, x=np.array([1.0, 2.0]), trip=trip)
    np.testing.assert_array_equal(Session(program, REQUIRED).run(inputs)["y"], inputs["x"])


# --- stopping -------------------------------------------------------------------------------------


def seconds_to_stop(session: Session, inputs: dict[str, np.ndarray]) -> float:
    """Return the seconds between the request to stop a run and its end."""
    request_time = [0.0]

    def ask() -> None:
        request_time[0] = time.monotonic()
        stopping.request_stop(StopReason.INTERRUPTED)

    with Stopping() as stopping:
        timer = threading.Timer(0.02, ask)
        timer.start()
        with pytest.raises(Stopped):
            session.run(inputs, stopping)
        end_time = time.monotonic()
        timer.join()
    return end_time - request_time[0]


@pytest.mark.parametrize("endless", [False, True])
@pytest.mark.parametrize("lanes", [(), (1000,), (100_003,)])
def test_a_long_run_stops_on_request(endless: bool, lanes: tuple[int, ...]) -> None:
    """Check that a run stops within 0.2 s; one of three attempts suffices on a busy machine."""
    program = adding(lanes, endless=endless)
    session = Session(program, REQUIRED)
    inputs = feeds(program, x=np.zeros(lanes), trip=LONG_TRIP_COUNT)
    assert any(seconds_to_stop(session, inputs) < 0.2 for _ in range(3))
    assert session.run(feeds(program, x=np.zeros(lanes), trip=2, f=False)) is not None


def test_a_stop_request_ends_only_its_own_run() -> None:
    program = adding()
    session = Session(program, REQUIRED)
    with ThreadPoolExecutor(2) as pool, Stopping() as first_stopping, Stopping() as second_stopping:
        futures = [
            pool.submit(session.run, feeds(program, trip=trip_count), stopping)
            for trip_count, stopping in (
                (LONG_TRIP_COUNT, first_stopping),
                (20_000_000, second_stopping),
            )
        ]
        first_stopping.request_stop(StopReason.INTERRUPTED)
        with pytest.raises(Stopped):
            futures[0].result()
        np.testing.assert_array_equal(futures[1].result()["y"], np.full(3, 2e7))


# --- threads --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_threads_compile_and_run() -> None:
    def one(number: int) -> None:
        program = adding(by=float(number))
        session = Session(program, REQUIRED)
        for trip_count in range(5):
            y = session.run(feeds(program, trip=trip_count))["y"]
            np.testing.assert_array_equal(y, np.full(3, float(number * trip_count)))

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(one, [*range(40), *range(40)]):
            pass


@pytest.mark.slow
def test_threads_run_one_session() -> None:
    program = adding()
    session = Session(program, REQUIRED)

    def one(trip: int) -> None:
        lane_count = trip % 50
        y = session.run(feeds(program, x=np.full(lane_count, 0.5), trip=trip))["y"]
        np.testing.assert_array_equal(y, np.full(lane_count, trip + 0.5))

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(one, range(500)):
            pass


# --- memory leaks ---------------------------------------------------------------------------------


def open_and_close(number: float) -> None:
    program = adding(by=number)
    Session(program, REQUIRED).run(feeds(program))


@pytest.mark.slow
@pytest.mark.soak
def test_sessions_leak_no_memory() -> None:
    for _ in range(50):
        open_and_close(1.0)
    gc.collect()
    memory_before = resident_bytes()
    for _ in range(times(500, 10_000)):
        open_and_close(1.0)
    gc.collect()
    assert resident_bytes() - memory_before < 10 * MEGABYTE
    assert len(operator._RELEASED_DOMAINS) <= 1


@pytest.mark.slow
@pytest.mark.soak
def test_the_memory_of_compiled_code_is_bounded() -> None:
    """Bound the memory of compiled code.

    The cache holds the code of the last 256 texts, 90 kB each. llvmlite keeps 2 to 4 kB per compilation.
    """
    for number in range(10):
        open_and_close(float(number))
    gc.collect()
    memory_before, session_count = resident_bytes(), times(150, 10_000)
    for number in range(session_count):
        open_and_close(10.5 + number)
    gc.collect()
    assert (
        resident_bytes() - memory_before
        < min(session_count, 256) * 120_000 + session_count * 10_000
    )
    assert len(operator._RELEASED_DOMAINS) <= 1


def test_released_code_frees_its_memory() -> None:
    """Check for a leak of compiled code; llvmlite used to keep 50 kB of each compilation."""
    session_count = 60
    for number in range(2 * session_count):
        if number == session_count:
            gc.collect()
            memory_before = resident_bytes()
        machine.compile_llvm(machine.SAMPLE_CODE, ("sample",))
    gc.collect()
    assert resident_bytes() - memory_before < session_count * 10_000


def test_a_session_that_fails_to_open_leaks_no_operator() -> None:
    gc.collect()
    program = adding()
    with pytest.raises(LoopError):
        Session(program, type(REQUIRED)("none", native="require"))
    open_and_close(1.0)
