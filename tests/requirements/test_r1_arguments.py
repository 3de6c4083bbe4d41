"""Types of M, cond and v_initial, and the arguments of the body (R1.06 to R1.08)."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import ConditionError, RunError, TripCountError

GROWTH = """
nodes:
  colony:
    input_ports:
      hours: {}
      alive: {}
      cells: {default_value: 1.0}
      room: {default_value: 20.0}
    functions:
      grow:
        function: onnx::Loop
        args:
          M: hours
          cond: alive
          v_initial: cells
          body:
            one_hour:
              metadata:
                inputs: [hour, alive, n]
                outputs: [has_room, doubled, doubled]
              nodes:
                division:
                  input_ports: {n: {}, room: {}}
                  functions:
                    doubled: {value: n * 2}
                  output_ports:
                    doubled: {value: doubled}
                    has_room: {value: doubled < room}
    output_ports:
      cells: {value: "grow[0]"}
      history: {value: "grow[1]"}
"""

THREE = [2.0, 4.0, 8.0]
FIVE = [2.0, 4.0, 8.0, 16.0, 32.0]


@pytest.mark.parametrize(
    "hours",
    [
        np.int64(3),
        np.int32(3),
        np.int16(3),
        np.uint8(3),
        np.array([3]),
        np.array([3], np.int32),
        np.array([[3]]),
        3,
        3.0,
        np.float32(3),
        [3],
    ],
    ids=lambda v: f"{np.asarray(v).dtype}{list(np.shape(v))}",
)
@pytest.mark.parametrize(
    "alive",
    [True, np.True_, 1, np.int64(1), np.int32(7), np.array([True]), [1], 1.0],
    ids=lambda v: f"{np.asarray(v).dtype}{list(np.shape(v))}",
)
def test_r1_06_trip_count_and_condition_in_every_type(run_everywhere, hours, alive):
    results = run_everywhere(GROWTH, {"hours": hours, "alive": alive})
    assert results["history"].tolist() == THREE
    assert results["cells"] == 8.0


@pytest.mark.parametrize("alive", [False, 0, np.int64(0), np.array([False]), [0], 0.0])
def test_r1_06_false_in_every_type(run_everywhere, alive):
    results = run_everywhere(GROWTH, {"hours": 3, "alive": alive})
    assert results["history"].shape == (0,)
    assert results["cells"] == 1.0


@pytest.mark.parametrize("hours", [9, [9], 9.0])
def test_r1_06_the_condition_ends_the_loop_before_the_trip_count(run_everywhere, hours):
    results = run_everywhere(GROWTH, {"hours": hours, "alive": [True]})
    assert results["history"].tolist() == FIVE
    assert results["cells"] == 32.0


@pytest.mark.parametrize("hours", [-1, [-1], -1.0])
def test_r1_06_minus_one_at_run_time_is_no_trip_count(run_everywhere, hours):
    results = run_everywhere(GROWTH, {"hours": hours, "alive": True})
    assert results["history"].tolist() == FIVE


@pytest.mark.parametrize(
    "written", ["3", "'3'", "3.0", "'3.0'", "[3]", "'[3]'", "(3,)", "1 + 2", "2**2 - 1"]
)
def test_r1_06_trip_count_written_in_the_document(run_everywhere, written):
    model = GROWTH.replace("M: hours", f"M: {written}")
    assert run_everywhere(model, {"alive": True, "hours": 0})["history"].tolist() == THREE


@pytest.mark.parametrize("alive", [True, None])
def test_r1_06_minus_one_at_run_time_keeps_the_iteration_bound(run_everywhere, alive):
    model = GROWTH if alive else GROWTH.replace("cond: alive", "cond:")
    inputs = {"hours": -1, "alive": True, "room": 1e9}
    results = run_everywhere(model, inputs, max_iterations=6, engine=False)
    assert results["cells"] == 64.0


@pytest.mark.parametrize("hours", [2**63, 2**64 - 1, 2**64 - 7])
def test_r1_06_a_trip_count_beyond_63_bits_is_refused(mdf, hours):
    with pytest.raises(RunError, match="trip count of 'grow' is too large"):
        mdf_loop.compile(mdf(GROWTH), device="cpu").run({"hours": np.uint64(hours), "alive": 1})


@pytest.mark.parametrize("written", ["-1", "'-1'", "-1.0", "0 - 1"])
def test_r1_06_minus_one_in_the_document_is_no_trip_count(run_everywhere, written):
    model = GROWTH.replace("M: hours", f"M: {written}")
    assert run_everywhere(model, {"alive": True, "hours": 0})["history"].tolist() == FIVE


@pytest.mark.parametrize("hours", [[2, 3], [], [[1, 2]], True])
def test_r1_06_a_trip_count_of_several_elements_is_refused(run_everywhere, hours):
    with pytest.raises(TripCountError, match="trip count of 'grow' must be one whole number, not "):
        run_everywhere(GROWTH, {"hours": hours, "alive": True})


@pytest.mark.parametrize("alive", [[True, False], [], [[1, 1]]])
def test_r1_06_a_condition_of_several_elements_is_refused(run_everywhere, alive):
    with pytest.raises(ConditionError, match="condition of 'grow' must be one truth value, not "):
        run_everywhere(GROWTH, {"hours": 3, "alive": alive})


# --- arguments of the body ----------------------------------------------------------------------

ITERATION_ONLY = """
nodes:
  lists:
    input_ports: {n: {type: int}}
    functions:
      count_up:
        function: onnx::Loop
        args:
          M: n
          body:
            nothing_carried:
              metadata: {inputs: [k, go], outputs: [go, number, square]}
              nodes:
                show:
                  input_ports: {k: {}}
                  output_ports: {number: {value: k}, square: {value: k * k}}
    output_ports: {numbers: {value: "count_up[0]"}, squares: {value: "count_up[1]"}}
"""


@pytest.mark.parametrize("n", [4, 1, 0])
def test_r1_07_iteration_number_without_carried_values(run_everywhere, n):
    results = run_everywhere(ITERATION_ONLY, {"n": n})
    assert results["numbers"].dtype == np.int64
    assert results["numbers"].tolist() == list(range(n))
    assert results["squares"].tolist() == [k * k for k in range(n)]


WEIGHTED_SUM = """
nodes:
  sum:
    input_ports: {start: {default_value: 100}, n: {default_value: 5}}
    functions:
      adding:
        function: onnx::Loop
        args:
          M: n
          v_initial: (start,)
          body:
            add:
              metadata: {inputs: [iteration, c, s], outputs: [c, s_next, s_next]}
              nodes:
                add: {input_ports: {iteration: {}, s: {}}, output_ports: {s_next: {value: iteration + s}}}
    output_ports: {total: {value: "adding[0]"}, partial: {value: "adding[1]"}}
"""


def test_r1_07_iteration_number_in_arithmetic(run_everywhere):
    results = run_everywhere(WEIGHTED_SUM)
    assert results["total"] == 110
    assert results["partial"].tolist() == [100, 101, 103, 106, 110]
    assert results["partial"].dtype == np.int64


@pytest.mark.parametrize(
    "x", [0.5, np.float32(0.5), 2, np.int32(2)], ids=lambda x: type(x).__name__
)
def test_r1_07_iteration_number_with_operands_of_other_dtypes(run_everywhere, x):
    """Check that int64 and float32 are promoted as in NumPy, never silently narrowed."""
    model = """
    nodes:
      ramp:
        input_ports: {x: {}}
        functions:
          ramp:
            function: onnx::Loop
            args:
              M: 4
              body:
                b:
                  metadata: {inputs: [i, go], outputs: [go, y]}
                  nodes: {scale: {input_ports: {i: {}, x: {}}, output_ports: {y: {value: i * x}}}}
        output_ports: {ys: {value: ramp}}
    """
    results = run_everywhere(model, {"x": x})
    expected = np.arange(4) * np.asarray(x)
    assert results["ys"].tolist() == expected.tolist()
    assert results["ys"].dtype == expected.dtype


CONDITION_ARGUMENT = """
nodes:
  watch:
    input_ports: {limit: {default_value: 3}}
    functions:
      watching:
        function: onnx::Loop
        args:
          M: 10
          cond: true
          body:
            b:
              metadata: {inputs: [i, was_true, ], outputs: [next, seen, next]}
              nodes:
                look:
                  input_ports: {was_true: {}, i: {}, limit: {}}
                  output_ports: {seen: {value: was_true}, next: {value: i < limit}}
    output_ports: {seen: {value: "watching[0]"}, told: {value: "watching[1]"}}
"""


def test_r1_08_the_body_receives_the_previous_condition(run_everywhere):
    results = run_everywhere(CONDITION_ARGUMENT)
    assert results["seen"].tolist() == [True] * 4
    assert results["told"].tolist() == [True, True, True, False]
    assert results["seen"].dtype == np.bool_


def test_r1_08_without_a_condition_the_body_receives_true(run_everywhere):
    results = run_everywhere(CONDITION_ARGUMENT.replace("cond: true", "cond: null"))
    assert results["seen"].tolist() == [True] * 10
    assert results["told"].tolist() == [k < 3 for k in range(10)]


# --- ways to write the initial values -----------------------------------------------------------

PAIR = """
nodes:
  pair:
    input_ports: {p: {default_value: 1.0}, q: {default_value: 10.0}}
    functions:
      first: {value: p + 0}
      steps:
        function: onnx::Loop
        args:
          M: 3
          V_INITIAL
          body:
            b:
              metadata: {inputs: [i, go, u, v], outputs: [go, u_next, v_next]}
              nodes:
                n:
                  input_ports: {u: {}, v: {}}
                  output_ports: {u_next: {value: u + v}, v_next: {value: v - 1}}
    output_ports: {u: {value: "steps[0]"}, v: {value: "steps[1]"}}
"""


@pytest.mark.parametrize(
    "written",
    [
        "v_initial: (p, q)",
        "v_initial: p, q",
        "v_initial: [p, q]",
        "v_initial: '[p, q]'",
        "v_initial: [p, 10.0]",
        "v_initial: (first, q)",
        "v_initial: (p * 1, 2 * q - q)",
        "v_initial: {u: p, v: q}",
        "v_initial: {v: q, u: p}",
        "v_initial: 'dict(v=q, u=p)'",
        'v_initial: \'{"u": p, "v": q}\'',
        "{v_initial: p, arg_q: q}",
        "v_initial: [1.0, q]",
    ],
)
def test_r1_10_every_way_to_write_two_initial_values(run_everywhere, written):
    if written.startswith("{"):
        written = "\n          ".join(written.strip("{}").split(", "))
    results = run_everywhere(PAIR.replace("V_INITIAL", written))
    assert results["u"] == 28.0
    assert results["v"] == 7.0


def test_r1_10_initial_values_may_use_subscripts_and_conditionals(run_everywhere):
    model = PAIR.replace("p + 0", "'numpy.array([p, q])'").replace(
        "V_INITIAL", "v_initial: (first[0] if p > 0 else q, first[1])"
    )
    results = run_everywhere(model)
    assert (results["u"], results["v"]) == (28.0, 7.0)


# --- stored numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["trip_int32", "cond_int64", "trip_cond_1d"])
def test_stored_numbers(check_stored, case):
    names = {"M": "hours", "cond": "alive", "x": "cells", "lim": "room"}
    check_stored(case, GROWTH, ["cells", "history"], names)
