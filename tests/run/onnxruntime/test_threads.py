"""Use of one compiled model in many threads at once equals sequential use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest

import mdf_loop
from mdf_loop.run.onnxruntime.session import Session

THREADS = 8

T = TypeVar("T")

GRAPH = {
    "g": {
        "nodes": {
            "A": {
                "input_ports": {"x": {}},
                "parameters": {
                    "gain": {"value": 0.3},
                    "sum": {"value": "sum * 0.9 + gain * numpy.sin(x)", "default_initial_value": 0},
                },
                "output_ports": {"total": {"value": "sum"}, "y": {"value": "numpy.exp(x) * gain"}},
            }
        },
        "edges": {},
    }
}
"""A model whose input may have any type, and which keeps a state over time."""


def run_in_threads(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run each task in its own thread from a common start and return the results in order."""
    results: list[Any] = [None] * len(tasks)
    barrier = threading.Barrier(len(tasks))

    def do(place: int, task: Callable[[], T]) -> None:
        barrier.wait(30)
        try:
            results[place] = task()
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread of the test
            results[place] = error

    threads = [threading.Thread(target=do, args=pair) for pair in enumerate(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def inputs_of(place: int) -> list[np.ndarray]:
    """Return inputs of several types, in a different order for each thread."""
    numbers = np.linspace(-1, 1, 6) * (place + 1)
    kinds = [
        numbers,
        numbers[:3],
        numbers.reshape(2, 3),
        numbers[:1],
        np.arange(6) + place,
        np.arange(4, dtype=np.int32) + place,
    ]
    return kinds[place % 6 :] + kinds[: place % 6]


def evaluations(compiled: mdf_loop.CompiledModel, place: int) -> list[dict[str, np.ndarray]]:
    return [dict(compiled.run({"x": x})) for x in inputs_of(place)]


def over_time(compiled: mdf_loop.CompiledModel, place: int) -> list[dict[str, np.ndarray]]:
    """Run over several lengths, with and without a time step, with `every` and from a state."""
    steps = 5 + place
    kinds = [np.array(place / 8), np.array(place), np.linspace(-1, 1, steps)]
    result_sets = []
    for x in kinds[place % 3 :] + kinds[: place % 3]:
        dt = 0.1 if x.ndim else None
        first = compiled.run({"x": x}, steps=steps, dt=dt)
        more = compiled.run({"x": 0.5}, steps=3, dt=dt, state=first.state)
        thinned = compiled.run({"x": x}, steps=steps, dt=dt, every=2)
        result_sets += [dict(first), dict(more), dict(thinned)]
    return result_sets


def swept(compiled: mdf_loop.CompiledModel, place: int) -> list[dict[str, np.ndarray]]:
    gains = np.linspace(0, 1, 4 + place)
    once = compiled.run({"x": 0.5}, sweep={"A.gain": gains})
    later = compiled.run({"x": 0.5}, sweep={"A.gain": gains}, steps=4 + place)
    return [dict(once), dict(later)]


def run_all_parts(compiled: mdf_loop.CompiledModel, place: int) -> list[dict[str, np.ndarray]]:
    """Run all parts, starting with a different part in each thread."""
    parts = [evaluations, over_time, swept]
    turn = place % 3
    results_of_part = {part: part(compiled, place) for part in parts[turn:] + parts[:turn]}
    return [results for part in parts for results in results_of_part[part]]


def assert_same_bits(result_sets: list[dict[str, np.ndarray]], expected: list[Any]) -> None:
    assert len(result_sets) == len(expected)
    for first, second in zip(result_sets, expected, strict=True):
        assert first.keys() == second.keys()
        for name in first:
            assert first[name].dtype == second[name].dtype
            assert first[name].shape == second[name].shape
            assert first[name].tobytes() == second[name].tobytes(), name


@pytest.fixture
def sessions(monkeypatch) -> list[Session]:
    """Return the list of all sessions created during the test."""
    created: list[Session] = []
    original_function = Session.__init__

    def counting(self: Session, *arguments: Any, **more: Any) -> None:
        created.append(self)
        original_function(self, *arguments, **more)

    monkeypatch.setattr(Session, "__init__", counting)
    return created


@pytest.mark.slow
@pytest.mark.parametrize("part", [evaluations, over_time, swept, run_all_parts])
def test_threads_equal_sequential_calls(part, sessions: list[Session]) -> None:
    alone = mdf_loop.compile(GRAPH)
    expected = [part(alone, place) for place in range(THREADS)]
    needed = len(sessions)
    sessions.clear()
    shared = mdf_loop.compile(GRAPH)
    result_lists = run_in_threads(
        [lambda place=place: part(shared, place) for place in range(THREADS)]
    )
    for results, expected_results in zip(result_lists, expected, strict=True):
        assert_same_bits(results, expected_results)
    assert len(sessions) == needed, "a session was made twice for one set of types"


def test_threads_that_ask_for_the_same_make_one_session(sessions: list[Session]) -> None:
    shared = mdf_loop.compile(GRAPH)
    results = run_in_threads([lambda: shared.run({"x": np.arange(3.0)})] * THREADS)
    assert len(sessions) == 1
    assert len({result["y"].tobytes() for result in results}) == 1
    sessions.clear()
    run_in_threads([lambda: shared.run({"x": 0.5}, steps=4)] * THREADS)
    assert len(sessions) == 2  # the first evaluation, and the loop over the others


@pytest.mark.slow
def test_each_thread_may_compile_for_itself() -> None:
    """Check that the caches shared by all models are thread-safe."""

    def task(place: int) -> list[dict[str, np.ndarray]]:
        return run_all_parts(mdf_loop.compile(GRAPH), place)

    expected = [task(place) for place in range(THREADS)]
    result_lists = run_in_threads([lambda place=place: task(place) for place in range(THREADS)])
    for results, expected_results in zip(result_lists, expected, strict=True):
        assert_same_bits(results, expected_results)


def test_an_error_in_one_thread_does_not_affect_others() -> None:
    whole = {
        "g": {
            "nodes": {
                "A": {
                    "input_ports": {"x": {"shape": [2], "type": "int64"}},
                    "output_ports": {"y": {"value": "7 % x"}},
                }
            },
            "edges": {},
        }
    }
    compiled = mdf_loop.compile(whole)

    def task(place: int) -> str:
        try:
            return str(compiled.run({"x": [place % 2, 2]})["y"].tolist())
        except mdf_loop.LoopError as error:
            return error.findings[0].what

    words = ["a whole number was divided by zero", "[0, 1]"]
    tasks = [lambda place=place: task(place) for place in range(THREADS)]
    assert run_in_threads(tasks) == [words[place % 2] for place in range(THREADS)]
