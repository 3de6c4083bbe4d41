"""Derivatives that go back through the last iterations only, or not through a port (R6.08)."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError, UnknownNameError
from mdf_loop.run.gradient import in_chunks


def power(nodes, edges=None):
    """`s = 1; 5 times: s = w * s`, whatever the nodes of its body are."""
    body = {
        "step": {
            "metadata": {"inputs": ["i", "go_in", "s"], "outputs": ["go", "s_next"]},
            "nodes": nodes,
            "edges": edges or {},
        }
    }
    node = {
        "parameters": {"w": {"value": 2.0}, "one": {"value": 1.0}},
        "functions": {
            "loop": {
                "function": "onnx::Loop",
                "args": {"M": 5, "v_initial": "(one,)", "body": body},
            }
        },
        "output_ports": {"s": {"value": "loop[0]"}},
    }
    return {"graph": {"nodes": {"n": node}}}


PLAIN = power(
    {
        "b": {
            "input_ports": {"s": {}, "w": {}},
            "output_ports": {"s_next": {"value": "w*s"}, "go": {"value": "True"}},
        }
    }
)
CUT = power(
    {
        "cut": {"input_ports": {"s": {}}, "output_ports": {"y": {"value": "s"}}},
        "b": {
            "input_ports": {"s": {}, "w": {}, "c": {}, "i": {}},
            "output_ports": {
                "s_next": {"value": "w*(c if i == 2 else s)"},
                "go": {"value": "True"},
            },
        },
    },
    {"e": {"sender": "cut", "sender_port": "y", "receiver": "b", "receiver_port": "c"}},
)


@pytest.mark.parametrize("native", ["auto", "off"])
@pytest.mark.parametrize(
    ("truncate", "by_w", "by_one"),
    [(None, 80, 32), (1, 16, 0), (2, 32, 0), (5, 80, 32), (9, 80, 32)],
)
def test_theano_truncated_gradient(native, truncate, by_w, by_one):
    """R6.08: the last two of five give 32, all 80."""
    model = mdf_loop.compile(PLAIN, native=native)
    made = model.gradient({"n.s": "sum"}, ["n.w", "n.one"], truncate=truncate)
    assert (made.value, made["n.w"], made["n.one"]) == (32, by_w, by_one)


@pytest.mark.parametrize("native", ["auto", "off"])
def test_tf_grad_cut_in_loop(native):
    """R6.08: a value that is a constant in one iteration."""
    model = mdf_loop.compile(CUT, native=native)
    assert model.gradient({"n.s": "sum"}, ["n.w"])["n.w"] == 80
    cut = model.gradient({"n.s": "sum"}, ["n.w"], stop=["cut.y"])
    assert (cut.value, cut["n.w"]) == (32, 48)


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
    made = model.gradient({"b.z": "sum"}, ["a.p", "b.q"], stop=["a.y"])
    assert dict(made) == {"a.p": 0, "b.q": 9}


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
    """`dx/dk` where the state `truncate` steps before the end is a constant; also by its beginning."""
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
        monkeypatch.setattr(in_chunks, "AT_ONCE", at_once)
    drive = np.full(100, 0.25)
    made = mdf_loop.compile(DECAY).gradient(
        {"n.y": "last"},
        ["n.k", "n.x", "drive"],
        inputs={"drive": drive},
        steps=100,
        truncate=truncate,
    )
    x, by_k, by_start = by_hand(100, truncate)
    if truncate >= 100:
        by_start = 0.5**100
    assert np.isclose(made.value, x, rtol=1e-12)
    assert np.isclose(made["n.k"], by_k, rtol=1e-12)
    assert np.isclose(made["n.x"], by_start, rtol=1e-12)
    by_drive = 0.5 ** np.arange(99, -1, -1.0)
    by_drive[: max(100 - truncate, 0)] = 0
    assert np.allclose(made["drive"], by_drive, rtol=1e-12)


@pytest.mark.parametrize("truncate", [0, -1, 1.5, "two", True])
def test_what_is_no_number_of_iterations_is_refused(truncate):
    with pytest.raises(InputError, match="truncate is how many iterations"):
        mdf_loop.compile(PLAIN).gradient({"n.s": "sum"}, ["n.w"], truncate=truncate)


@pytest.mark.parametrize("name", ["cut.z", "b.y", "cut"])
def test_ports_that_are_none_are_refused(name):
    with pytest.raises(UnknownNameError, match=f"stop names '{name}'"):
        mdf_loop.compile(CUT).gradient({"n.s": "sum"}, ["n.w"], stop=[name])


def test_a_truncated_run_over_time_is_no_file(tmp_path):
    made = mdf_loop.compile(DECAY).differentiate({"n.y": "last"}, ["n.k"], steps=10, truncate=2)
    with pytest.raises(InputError, match="no truncated derivatives"):
        made.save(tmp_path / "g.onnx")
