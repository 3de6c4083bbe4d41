"""Exit conditions in the middle of a body: operations before the test run once more than later ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.errors import CarryTypeError, ModelError, UnsupportedError
from mdf_loop.ir import If, loops
from mdf_loop.run.interpret import interpret

STEP = {
    "P": {
        "input_ports": {"s": {}, "x": {}},
        "output_ports": {"p": {"value": "s + x"}, "beside": {"value": "10 * s"}},
    },
    "T": {
        "input_ports": {"p": {}, "limit": {}},
        "output_ports": {"go": {"value": "p < limit"}},
    },
    "Q": {
        "input_ports": {"p": {}, "i": {}},
        "output_ports": {"s_next": {"value": "2 * p"}, "q": {"value": "p + 100 * i"}},
    },
}
EDGES = {
    "e1": {"sender": "P", "sender_port": "p", "receiver": "T", "receiver_port": "p"},
    "e2": {"sender": "P", "sender_port": "p", "receiver": "Q", "receiver_port": "p"},
}


def model(rows=(), *, nodes=STEP, edges=EDGES, leaf="s_next", constants=None, **args):
    """Return the loop: s = 0; while True: p = s + x; if not p < limit: break; s = 2 * p."""
    body = {
        "metadata": {"inputs": ["i", "c", "s"], "outputs": ["go", leaf, *rows]},
        "nodes": nodes,
        "edges": edges,
    }
    names = {k: {"value": f"loop[{n}]" if rows else "loop"} for n, k in enumerate(["s", *rows])}
    named = {"n": "iterations", "last": "condition", "why": "stopped_by"}
    node = {
        "input_ports": {
            k: {"default_value": v}
            for k, v in {"x": 1.0, "limit": 20.0, "s0": 0.0, **(constants or {})}.items()
        },
        "functions": {
            "loop": {
                "function": "onnx::Loop",
                "args": {"v_initial": "(s0,)", "exit": "middle", **args, "body": {"b": body}},
            }
        },
        "output_ports": {**names, **{k: {"value": f"loop.{v}"} for k, v in named.items()}},
    }
    return {"model": {"format": "ModECI MDF v0.4", "graphs": {"graph": {"nodes": {"A": node}}}}}


def expected_rows(x, limit, s=0.0, most=None):
    """Compute s, the rows of p, beside and q, and the number of full rounds."""
    ps, besides, qs, n = [], [], [], 0
    while most is None or n < most:
        p = s + x
        ps.append(p)
        besides.append(10 * s)
        if not p < limit:
            break
        qs.append(p + 100 * n)
        s = 2 * p
        n += 1
    return s, ps, besides, qs, n


@pytest.mark.parametrize(
    ("x", "limit", "s", "n"), [(1.0, 20.0, 30.0, 4), (3.0, 2.0, 0.0, 0), (0.5, 100.0, 127.0, 7)]
)
def test_operations_of_the_condition_run_once_more(run_everywhere, x, limit, s, n):
    results = run_everywhere(model(["p", "beside", "q"]), {"x": x, "limit": limit})
    _, ps, besides, qs, _ = expected_rows(x, limit)
    assert (results["s"], results["n"], results["last"], results["why"]) == (s, n, False, 1)
    assert results["p"].tolist() == ps
    assert results["beside"].tolist() == besides
    assert results["q"].tolist() == qs


@pytest.mark.parametrize("most", [0, 1, 3, 4, 5, 9])
def test_with_a_trip_count(run_everywhere, most):
    results = run_everywhere(model(["p", "q"], M=most))
    s, ps, _, qs, n = expected_rows(1.0, 20.0, most=most)
    assert (results["s"], results["n"]) == (s, n)
    assert (results["p"].tolist(), results["q"].tolist()) == (ps, qs)
    assert results["why"] == (0 if most < 5 else 1)


def test_the_last_value_before_the_test(run_everywhere):
    described = {"p": {"keep": "last"}}
    results = run_everywhere(model(["p"], recordings=described))
    assert (results["p"], results["s"], results["n"]) == (31.0, 30.0, 4)


def test_the_last_value_after_the_test(run_everywhere):
    described = {"q": {"keep": "last"}}
    document = model(["q"], recordings=described)
    assert run_everywhere(document)["q"] == 315.0
    with pytest.raises(
        mdf_loop.LoopError, match="last row of 'q' is asked for, but the loop had no"
    ):
        mdf_loop.compile(document).run({"x": 30.0})


def test_body_inputs_are_available_before_the_test(run_everywhere):
    results = run_everywhere(model(["i"]))
    assert results["i"].tolist() == [0, 1, 2, 3, 4]


def test_a_start_condition(run_everywhere):
    document = model(["p", "q"], cond="x < 5")
    assert run_everywhere(document)["n"] == 4
    results = run_everywhere(document, {"x": 7.0})
    assert (results["n"], results["s"], results["p"].shape) == (0, 0.0, (0,))


def test_operations_after_the_exit_do_not_run(run_everywhere):
    """Check that an invalid index after the exit is not read."""
    nodes = {
        **STEP,
        "Q": {
            **STEP["Q"],
            "output_ports": {"s_next": {"value": "2 * p"}, "q": {"value": "table[i]"}},
        },
    }
    nodes["Q"]["input_ports"] = {"p": {}, "i": {}, "table": {}}
    document = model(["q"], nodes=nodes, constants={"table": [1.0, 2.0, 3.0, 4.0]})
    assert run_everywhere(document)["q"].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_with_slices_and_delays(run_everywhere):
    nodes = {
        "P": {"input_ports": {"s": {}, "x_t": {}}, "output_ports": {"p": {"value": "s + x_t"}}},
        "T": STEP["T"],
        "Q": {
            "input_ports": {"p": {}, "before": {}},
            "output_ports": {"s_next": {"value": "1 * p"}, "q": {"value": "1 * before"}},
        },
    }
    document = model(
        ["p", "q"],
        nodes=nodes,
        constants={"xs": [5.0, 6.0, 7.0, 8.0, 9.0]},
        slices={"x_t": "xs"},
        delays={"before": {"of": "s_next", "back": 2, "initial": [-1.0, -2.0]}},
    )
    results = run_everywhere(document)
    assert (results["s"], results["n"]) == (18.0, 3)
    assert results["p"].tolist() == [5.0, 11.0, 18.0, 26.0]
    assert results["q"].tolist() == [-1.0, -2.0, 5.0]
    results = run_everywhere(document, {"limit": 1000.0})
    assert (results["s"], results["n"], results["why"]) == (35.0, 5, 0)
    assert results["p"].tolist() == [5.0, 11.0, 18.0, 26.0, 35.0]


def test_a_carried_value_that_the_condition_needs_changes_in_full_rounds_only(run_everywhere):
    """Check that a carried `p` keeps its value of the last full round.

    The exit test computes `p` once more.
    """
    results = run_everywhere(model(leaf="p"))
    assert (results["s"], results["n"]) == (19.0, 19)


def test_rows_of_an_extent_known_only_at_run_time(run_everywhere):
    nodes = {
        **STEP,
        "Q": {
            "input_ports": {"p": {}, "v": {}},
            "output_ports": {"s_next": {"value": "2 * p"}, "q": {"value": "p * v"}},
        },
    }
    document = model(["q"], nodes=nodes, constants={"w": [1.0, 2.0, 3.0], "m": 2}, v="w[:m]")
    assert run_everywhere(document, {"limit": 5.0})["q"].tolist() == [[1.0, 2.0], [3.0, 6.0]]


def test_recordings_of_unknown_shape_after_the_test_are_refused():
    nodes = {
        **STEP,
        "Q": {
            "input_ports": {"p": {}, "i": {}},
            "output_ports": {"s_next": {"value": "2 * p"}, "q": {"value": "numpy.arange(i + 1)"}},
        },
    }
    with pytest.raises(UnsupportedError, match="shape of what follows the test must be known"):
        mdf_loop.compile(model(["q"], nodes=nodes)).run()


def test_a_dtype_that_changes():
    nodes = {
        **STEP,
        "Q": {"input_ports": {"p": {}}, "output_ports": {"s_next": {"value": "p > 0"}}},
    }
    with pytest.raises(CarryTypeError, match="must keep their dtype, but 's': float64"):
        mdf_loop.compile(model(nodes=nodes)).run()


def test_operations_after_the_test_are_in_one_branch():
    (loop,) = loops(mdf_loop.read(model(["p", "q"])))
    assert [type(op) for op in loop.ops].count(If) == 1


@pytest.mark.parametrize("word", ["start", True, 1, ["middle"]])
def test_unknown_exit_words_are_refused(word):
    with pytest.raises(ModelError, match="a loop's exit is 'end' or 'middle'"):
        mdf_loop.compile(model(exit=word)).run()


@pytest.mark.slow
@settings(max_examples=25)
@drawn(st.floats(-1, 3), st.floats(-5, 40), st.one_of(st.none(), st.integers(0, 6)))
def test_random_exits(x, limit, most):
    bound = 8 if most is None else most
    compiled = mdf_loop.compile(model(["p", "q"], M=bound))
    inputs = {"x": np.float64(x), "limit": np.float64(limit)}
    s, ps, _, qs, n = expected_rows(x, limit, most=bound)
    arrays, program, _ = compiled.prepare(inputs)
    for outputs in (compiled.run(inputs), interpret(program, arrays)):
        arrays_of_port = {k.removeprefix("A."): v for k, v in outputs.items()}
        np.testing.assert_allclose(arrays_of_port["s"], s)
        assert arrays_of_port["n"] == n
        np.testing.assert_allclose(arrays_of_port["p"], ps)
        np.testing.assert_allclose(arrays_of_port["q"], qs)
