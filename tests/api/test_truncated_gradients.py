"""Derivatives through the last iterations only, or with a stopped port."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError, UnknownNameError
from mdf_loop.run.gradient import in_chunks
from tests.models.powers import CUT, PLAIN


def test_a_port_of_the_model_stops_derivatives():
    nodes = {
        "a": {"parameters": {"p": {"value": 3.0}}, "output_ports": {"y": {"value": "p*p"}}},
        "b": {
            "input_ports": {"x": {}},
            "parameters": {"q": {"value": 2.0}},
            "output_ports": {"z": {"value": "q*x"}},
        },
    }
    edges = {"e": {"sender": "a", "sender_port": "y", "receiver": "b", "receiver_port": "x"}}
    model = mdf_loop.compile({"graph": {"nodes": nodes, "edges": edges}})
    assert dict(model.gradient({"b.z": "sum"}, ["a.p", "b.q"])) == {"a.p": 12, "b.q": 9}
    gradient = model.gradient({"b.z": "sum"}, ["a.p", "b.q"], stop=["a.y"])
    assert dict(gradient) == {"a.p": 0, "b.q": 9}


DECAY = {
    "graph": {
        "nodes": {
            "n": {
                "input_ports": {"drive": {"default_value": 0.25}},
                "parameters": {
                    "k": {"value": 0.5},
                    "x": {"default_initial_value": 2.0, "value": "k * x + drive"},
                },
                "output_ports": {"y": {"value": "x"}},
            }
        }
    }
}


def by_hand(steps, truncate):
    """Return the state with its derivatives by k and by the start value, truncated before the end.

    The state `truncate` steps before the end counts as a constant.
    """
    x, by_k, by_start = 2.0, 0.0, 1.0
    for step in range(steps):
        if step == steps - truncate:
            by_k, by_start = 0.0, 0.0
        x, by_k, by_start = 0.5 * x + 0.25, x + 0.5 * by_k, 0.5 * by_start
    return x, by_k, by_start


@pytest.mark.parametrize("at_once", [None, 1])
@pytest.mark.parametrize("truncate", [1, 3, 70, 99, 100, 300])
def test_over_time_the_last_steps(truncate, at_once, monkeypatch):
    if at_once is not None:
        monkeypatch.setattr(in_chunks, "CHUNK_STATE_BYTES", at_once)
    drive = np.full(100, 0.25)
    gradient = mdf_loop.compile(DECAY).gradient(
        {"n.y": "last"},
        ["n.k", "n.x", "drive"],
        inputs={"drive": drive},
        steps=100,
        truncate=truncate,
    )
    x, by_k, by_start = by_hand(100, truncate)
    if truncate >= 100:
        by_start = 0.5**100
    assert np.isclose(gradient.value, x, rtol=1e-12)
    assert np.isclose(gradient["n.k"], by_k, rtol=1e-12)
    assert np.isclose(gradient["n.x"], by_start, rtol=1e-12)
    by_drive = 0.5 ** np.arange(99, -1, -1.0)
    by_drive[: max(100 - truncate, 0)] = 0
    assert np.allclose(gradient["drive"], by_drive, rtol=1e-12)


@pytest.mark.parametrize("truncate", [0, -1, 1.5, "two", True])
def test_invalid_iteration_counts_are_refused(truncate):
    with pytest.raises(InputError, match="truncate is how many iterations"):
        mdf_loop.compile(PLAIN).gradient({"n.s": "sum"}, ["n.w"], truncate=truncate)


@pytest.mark.parametrize("name", ["cut.z", "b.y", "cut"])
def test_unknown_ports_are_refused(name):
    with pytest.raises(UnknownNameError, match=f"stop names '{name}'"):
        mdf_loop.compile(CUT).gradient({"n.s": "sum"}, ["n.w"], stop=[name])


def test_a_truncated_run_over_time_is_no_file(tmp_path):
    gradient = mdf_loop.compile(DECAY).differentiate({"n.y": "last"}, ["n.k"], steps=10, truncate=2)
    with pytest.raises(InputError, match="no truncated derivatives"):
        gradient.save(tmp_path / "g.onnx")
