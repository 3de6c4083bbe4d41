"""Sessions: errors of the runtime in the modeller's words; one session per set of types."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError, RunError
from mdf_loop.run.control.stopping import Stopping


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


def test_a_guard_speaks_its_own_sentence() -> None:
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
    found: dict[int, float] = {}

    def run(k: int) -> None:
        found[k] = float(compiled.run({"x": float(k)})["y"])

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == pytest.approx({k: 2 * np.sin(k) for k in range(8)})


def test_watching_for_interrupts_leaves_signals_as_they_were() -> None:
    import signal

    before = signal.set_wakeup_fd(-1)
    try:
        with Stopping():
            assert signal.set_wakeup_fd(-1) != -1
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert signal.set_wakeup_fd(-1) == -1
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.set_wakeup_fd(before)


def test_a_model_without_outputs_asks_for_names() -> None:
    graph = {"g": {"nodes": {"A": {"functions": {"p": {"value": "1 + 2"}}}}, "edges": {}}}
    compiled = mdf_loop.compile(graph)
    with pytest.raises(LoopError, match="has no output ports"):
        compiled.run()
    with pytest.raises(LoopError, match="has no output ports"):
        compiled.to_onnx()
    assert compiled.run(record=["A.p"])["p"] == 3
