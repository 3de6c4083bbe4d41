"""Sessions: errors of the runtime in terms of the model, and one session per set of dtypes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError, LoopError, RunError
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.onnxruntime import session as session_module


def node(expression: str, **ports: dict[str, object]) -> dict[str, object]:
    body = {"input_ports": ports, "output_ports": {"y": {"value": expression}}}
    return {"g": {"nodes": {"A": body}, "edges": {}}}


def test_a_failure_names_the_place_in_the_model() -> None:
    compiled = mdf_loop.compile(node("x[n]", x={}, n={}))
    with pytest.raises(RunError) as caught:
        compiled.run({"x": [1.0, 2.0], "n": 5})
    (finding,) = caught.value.findings
    assert finding.where == "$.graphs[0].nodes['A'].output_ports['y']"
    assert "subscript" in finding.hint


def test_division_of_whole_numbers_by_zero_is_said_plainly() -> None:
    compiled = mdf_loop.compile(node("7 // n", n={}))
    assert compiled.run({"n": 2})["y"] == 3
    with pytest.raises(RunError) as caught:
        compiled.run({"n": 0})
    assert "divided by zero" in caught.value.findings[0].what


def test_a_guard_has_its_own_message() -> None:
    compiled = mdf_loop.compile(node("2 ** n", n={}))
    assert compiled.run({"n": 5})["y"] == 32
    with pytest.raises(RunError, match="whole numbers cannot be raised to negative whole powers"):
        compiled.run({"n": -1})


def test_one_session_for_each_set_of_types() -> None:
    compiled = mdf_loop.compile(node("x * 2", x={}))
    sessions = {id(compiled.prepare({"x": x})[2]) for x in (1.0, 2.0, 3.5)}
    assert len(sessions) == 1
    sessions |= {id(compiled.prepare({"x": x})[2]) for x in (1, [1.0], [1.0, 2.0])}
    assert len(sessions) == 4
    assert compiled.run({"x": [1, 2]})["y"].tolist() == [2, 4]


def test_inputs_are_never_changed() -> None:
    x = np.array([1.0, 2.0])
    mdf_loop.compile(node("x * 2", x={})).run({"x": x})
    assert x.tolist() == [1.0, 2.0]


def test_a_session_runs_from_several_threads() -> None:
    compiled = mdf_loop.compile(node("numpy.sin(x) * 2", x={}))
    compiled.prepare({"x": 0.0})
    outputs: dict[int, float] = {}

    def run(k: int) -> None:
        outputs[k] = float(compiled.run({"x": float(k)})["y"])

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == pytest.approx({k: 2 * np.sin(k) for k in range(8)})


def test_signal_handlers_are_restored_after_a_run() -> None:
    import signal

    state_before = signal.set_wakeup_fd(-1)
    try:
        with Stopping():
            assert signal.set_wakeup_fd(-1) != -1
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert signal.set_wakeup_fd(-1) == -1
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.set_wakeup_fd(state_before)


def test_a_model_without_outputs_requires_record_names() -> None:
    graph = {"g": {"nodes": {"A": {"functions": {"p": {"value": "1 + 2"}}}}, "edges": {}}}
    compiled = mdf_loop.compile(graph)
    with pytest.raises(LoopError, match="has no output ports"):
        compiled.run()
    with pytest.raises(LoopError, match="has no output ports"):
        compiled.to_onnx()
    assert compiled.run(record=["A.p"])["p"] == 3


# --- threads ----------------------------------------------------------------------------------------


@pytest.fixture
def options(monkeypatch) -> list:
    """Return the list of the options of all sessions created during the test."""
    collected: list = []
    original_function = session_module._make_options

    def collecting(*arguments):
        collected.append(original_function(*arguments))
        return collected[-1]

    monkeypatch.setattr(session_module, "_make_options", collecting)
    monkeypatch.setattr(session_module, "_count_cores", lambda: 8)
    return collected


def cells(extent: int) -> dict[str, object]:
    """Return a model of `extent` decaying numbers, which native code computes as vector lanes."""
    parameters = {
        "x": {"default_initial_value": [1.0] * extent, "time_derivative": "-numpy.tanh(x)"}
    }
    body = {"parameters": parameters, "output_ports": {"y": {"value": "x"}}}
    return {"g": {"nodes": {"A": body}, "edges": {}}}


LARGE = node("numpy.sin(x)", x={"shape": [60_000], "type": "float64"})


@pytest.mark.parametrize(("threads", "expected"), [(None, 0), (1, 1), (3, 3), (99, 8)])
def test_large_values_are_computed_by_at_most_so_many_threads(
    threads, expected, options, monkeypatch
) -> None:
    monkeypatch.setattr(session_module, "MAX_THREADS", 0)
    mdf_loop.compile(LARGE, threads=threads).run({"x": np.zeros(60_000)})
    assert {each.intra_op_num_threads for each in options} == {expected}


@pytest.mark.native
@pytest.mark.parametrize(("threads", "expected"), [(None, 8), (1, 1), (3, 3)])
def test_lanes_are_shared_by_at_most_so_many_threads(threads, expected, options) -> None:
    results = mdf_loop.compile(cells(600), native="require", threads=threads).run(steps=3, dt=0.1)
    assert results.native == {"time": "native"}
    assert max(each.intra_op_num_threads for each in options) == expected


def test_no_session_spins_when_its_run_is_over(options) -> None:
    mdf_loop.compile(LARGE).run({"x": np.zeros(60_000)})
    mdf_loop.compile(cells(600), native="off").run(steps=3, dt=0.1)
    spins = {int(each.get_session_config_entry(SPIN)) for each in options}
    assert spins == {session_module.SPIN_MICROSECONDS}
    assert session_module.SPIN_MICROSECONDS < 100


SPIN = "session.intra_op.spin_duration_us"


def test_a_product_of_small_matrices_that_takes_long_is_computed_by_several_threads(
    options,
) -> None:
    compiled = mdf_loop.compile(node("x @ x", x={}))
    compiled.run({"x": np.zeros((100, 100))})
    compiled.run({"x": np.zeros((10, 10))})
    assert [each.intra_op_num_threads for each in options] == [0, 1]


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_other_numbers_of_threads_are_refused(threads) -> None:
    with pytest.raises(InputError, match="threads must be a whole number above 0"):
        mdf_loop.compile(LARGE, threads=threads)
