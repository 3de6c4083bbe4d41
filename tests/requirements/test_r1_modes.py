"""The five operating modes of ONNX Loop, as MDF nodes (R1.01 to R1.05, R1.23)."""

import threading
import time
from contextlib import suppress

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import EndlessLoopError
from mdf_loop.ir import StopReason
from mdf_loop.run.control.stopping import Stopped, Stopping

DOUBLING = """
nodes:
  doubler:
    input_ports:
      trips: {type: int}
      go: {type: bool}
      x: {}
      limit: {}
    functions:
      doubling:
        function: onnx::Loop
        args:
          LIMITS
          v_initial: x
          body:
            double:
              metadata:
                inputs: [step, going, value]
                outputs: [below, twice, seen]
              nodes:
                times_two:
                  input_ports: {value: {}, limit: {}}
                  parameters: {doubled: {value: value + value}}
                  output_ports:
                    twice: {value: doubled}
                    seen: {value: doubled}
                    below: {value: doubled < limit}
    output_ports:
      last: {value: "doubling[0]"}
      history: {value: "doubling[1]"}
"""
"""A model that doubles a value as long as the doubled value is below the limit."""


def doubling(**limits):
    """Return the model with the given texts of `M` and `cond`."""
    lines = [f"{key}: {value}" for key, value in limits.items()] or ["# neither M nor cond"]
    return DOUBLING.replace("LIMITS", "\n          ".join(lines))


POWERS = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0]


@pytest.mark.parametrize("absent", ["", "null", "omitted"])
@pytest.mark.parametrize(
    ("go", "x", "limit", "expected"),
    [
        (True, 1.0, 20.0, POWERS[:5]),
        (False, 1.0, 20.0, []),
        (True, 1.0, 2.0, [2.0]),
    ],
)
def test_r1_02_while_tests_the_condition_before_the_first_iteration(
    run_everywhere, absent, go, x, limit, expected
):
    arguments = {"cond": "go"} if absent == "omitted" else {"M": absent or "''", "cond": "go"}
    results = run_everywhere(doubling(**arguments), {"go": go, "x": x, "limit": limit})
    assert results["history"].tolist() == expected
    assert results["last"] == (expected or [x])[-1]
    report = results.loops["doubler.doubling"]
    assert report.iterations == len(expected)
    assert report.stopped_by is StopReason.CONDITION


@pytest.mark.parametrize("always", ["true", "1", "'True'", "'true'", "3 > 2"])
@pytest.mark.parametrize(
    ("x", "limit", "expected"), [(1.0, 20.0, POWERS[:5]), (50.0, 20.0, [100.0])]
)
def test_r1_03_do_while_runs_the_body_at_least_once(run_everywhere, always, x, limit, expected):
    results = run_everywhere(doubling(cond=always), {"x": x, "limit": limit})
    assert results["history"].tolist() == expected
    assert results["last"] == expected[-1]


@pytest.mark.parametrize("absent", ["", "null", "omitted"])
@pytest.mark.parametrize(
    ("trips", "limit", "expected"),
    [(6, 1e9, POWERS), (6, 5.0, POWERS), (0, 5.0, []), (-3, 5.0, []), (1, 0.0, [2.0])],
)
def test_r1_04_for_ignores_the_body_condition(run_everywhere, absent, trips, limit, expected):
    arguments = {"M": "trips"} if absent == "omitted" else {"M": "trips", "cond": absent or "''"}
    results = run_everywhere(doubling(**arguments), {"trips": trips, "x": 1.0, "limit": limit})
    assert results["history"].tolist() == expected
    assert results["history"].shape == (len(expected),)
    assert results["last"] == (expected or [1.0])[-1]
    report = results.loops["doubler.doubling"]
    assert report.iterations == len(expected)
    assert report.stopped_by is StopReason.TRIP_COUNT


SUMMING = """
nodes:
  adder:
    input_ports: {upto: {type: int}}
    functions:
      adding:
        function: onnx::Loop
        args:
          M: upto
          v_initial: 0
          body:
            add_one_more:
              metadata: {inputs: [k, going, so_far], outputs: [going, total]}
              nodes:
                plus:
                  input_ports: {k: {}, so_far: {}}
                  output_ports: {total: {value: so_far + k}}
    output_ports: {total: {value: adding}}
"""


@pytest.mark.slow
def test_r1_04_a_million_iterations_are_exact(mdf):
    compiled = mdf_loop.compile(mdf(SUMMING), device="cpu")
    results = compiled.run({"upto": 1_000_000})
    assert results["total"] == 499_999_500_000
    assert results["total"].dtype == np.int64
    assert results.loops["adder.adding"].iterations == 1_000_000


@pytest.mark.parametrize(
    ("trips", "go", "limit", "expected", "reason"),
    [
        (10, True, 20.0, POWERS[:5], StopReason.CONDITION),
        (3, True, 20.0, POWERS[:3], StopReason.TRIP_COUNT),
        (10, False, 20.0, [], StopReason.CONDITION),
        (4, True, 16.0, POWERS[:4], StopReason.CONDITION),
        (0, True, 20.0, [], StopReason.TRIP_COUNT),
    ],
)
def test_r1_05_both_limits(run_everywhere, trips, go, limit, expected, reason):
    inputs = {"trips": trips, "go": go, "x": 1.0, "limit": limit}
    results = run_everywhere(doubling(M="trips", cond="go"), inputs)
    assert results["history"].tolist() == expected
    assert results["last"] == (expected or [1.0])[-1]
    assert results.loops["doubler.doubling"].stopped_by is reason


COUNTED_WHILE = """
nodes:
  search:
    input_ports: {most: {type: int}, x: {}, limit: {}}
    functions:
      below: {function: onnx::Less, args: {A: x, B: limit}}
      doubling:
        function: onnx::Loop
        args:
          M: most
          cond: below
          v_initial: [x, 0]
          body:
            step:
              metadata: {inputs: [i, go, a, k], outputs: [again, twice, next_k]}
              nodes:
                update:
                  input_ports: {a: {}, k: {}, limit: {}}
                  parameters: {twice: {value: a + a}}
                  output_ports:
                    twice: {value: twice}
                    next_k: {value: k + 1}
                    again: {value: twice < limit}
    output_ports: {x_final: {value: "doubling[0]"}, times: {value: "doubling[1]"}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("most", "limit", "x_final", "times"),
    [(100, 10.0, 16.0, 4), (2, 10.0, 4.0, 2), (100, 1.0, 1.0, 0), (0, 10.0, 1.0, 0)],
)
def test_r1_05_iterations_counted_in_the_body(run_everywhere, most, limit, x_final, times):
    results = run_everywhere(COUNTED_WHILE, {"most": most, "x": 1.0, "limit": limit})
    assert results["x_final"] == x_final
    assert results["times"] == times
    assert results["times"].dtype == np.int64


# --- endless ------------------------------------------------------------------------------------


def test_r1_01_an_endless_loop_needs_a_bound(mdf):
    with pytest.raises(EndlessLoopError, match=r"neither a trip count .* nor a condition"):
        mdf_loop.read(mdf(doubling()))


@pytest.mark.parametrize("bound", [0, 1, 7, 40])
def test_r1_01_only_the_bound_ends_an_endless_loop(run_everywhere, bound):
    inputs = {"x": 1.0, "limit": 5.0}
    results = run_everywhere(doubling(), inputs, engine=False, max_iterations=bound)
    assert results["last"] == 2.0**bound
    assert results["history"].tolist() == [2.0 ** (k + 1) for k in range(bound)]
    report = results.loops["doubler.doubling"]
    assert report.iterations == bound
    assert report.stopped_by is StopReason.MAX_ITERATIONS


ENDLESS = """
nodes:
  clock:
    functions:
      ticking:
        function: onnx::Loop
        args:
          v_initial: 0
          body:
            tick:
              metadata: {inputs: [i, go, t], outputs: [stop, later]}
              nodes:
                plus: {input_ports: {t: {}}, output_ports: {later: {value: t + 1}, stop: {value: t < 5}}}
    output_ports: {time: {value: ticking}}
"""


def test_r1_01_an_endless_run_can_be_cancelled_from_another_thread(mdf):
    """Stop a run from another thread; `tests/traps` tests Ctrl-C with a real signal."""
    compiled = mdf_loop.compile(mdf(ENDLESS), device="cpu", max_iterations=2**62)
    _, _, session = compiled.prepare({})
    outcome = {}
    stopping = Stopping()

    def run():
        with stopping, suppress(Stopped):
            session.run({}, stopping)
        outcome["interrupted"] = time.perf_counter()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    time.sleep(0.2)
    assert thread.is_alive(), "an endless loop ended by itself"
    request_time = time.perf_counter()
    stopping.request_stop(StopReason.INTERRUPTED)
    thread.join(10)
    assert outcome["interrupted"] - request_time < 5


# --- stored numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "model", "names", "outputs"),
    [
        ("mode_cond_only_while", doubling(cond="go"), {"cond": "go", "lim": "limit"}, None),
        ("mode_trip_only_for", doubling(M="trips"), {"M": "trips", "lim": "limit"}, None),
        (
            "while_with_iteration_limit",
            COUNTED_WHILE,
            {"M": "most", "lim": "limit"},
            ["x_final", "times"],
        ),
    ],
)
def test_stored_numbers(check_stored, case, model, names, outputs):
    check_stored(case, model, outputs or ["last", "history"], names)
