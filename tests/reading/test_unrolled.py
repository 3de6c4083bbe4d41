"""Unrolling of loops with a constant number of iterations."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.errors import CarryTypeError, InputError, RecordShapeError, TripCountError
from mdf_loop.importing.opening import open_document
from mdf_loop.ir import Loop, walk
from mdf_loop.lower.builder import Options
from mdf_loop.pipeline import SIMPLIFY, prepare
from mdf_loop.reading import bind
from mdf_loop.run.interpret import interpret
from tests.strategies.terms import TERMS

BODY = {
    "metadata": {"inputs": ["i", "go", "x", "k"], "outputs": ["on", "x_next", "k_next", "row"]},
    "nodes": {
        "step": {
            "input_ports": {"x": {}, "k": {}, "i": {}, "gain": {}},
            "output_ports": {
                "x_next": {"value": "numpy.tanh(gain * x + numpy.sin(0.1 * i)) / 3 + k"},
                "k_next": {"value": "k + 2"},
                "row": {"value": "x * numpy.exp(0.3 * k)"},
                "on": {"value": "True"},
            },
        }
    },
}
OUTPUTS = {
    "x": {"value": "f[0]"},
    "k": {"value": "f[1]"},
    "rows": {"value": "f[2]"},
    "count": {"value": "f.iterations"},
    "last": {"value": "f.condition"},
    "why": {"value": "f.stopped_by"},
}


def model(body: Any = BODY, outputs: Any = OUTPUTS, **loop: Any) -> dict[str, Any]:
    args = {"M": 4, "v_initial": "(x0, 0)", "body": {"b": body}, **loop}
    node = {
        "input_ports": {"x0": {"default_value": 0.3}, "gain": {"default_value": 0.5}},
        "functions": {
            "f": {
                "function": "onnx::Loop",
                "args": {k: v for k, v in args.items() if v is not None},
            }
        },
        "output_ports": outputs,
    }
    return {"g": {"nodes": {"A": node}, "edges": {}}}


def body_with(condition: str, **ports: str) -> dict[str, Any]:
    """Return the body with another condition and other outputs."""
    body = copy.deepcopy(BODY)
    written = body["nodes"]["step"]["output_ports"]
    written["on"] = {"value": condition}
    written |= {name: {"value": value} for name, value in ports.items()}
    return body


def is_unrolled(source: Any, unroll: int = 64) -> bool:
    """Return True if no loop is left, and check that unrolling changes no bit of the results."""
    loop = mdf_loop.compile(source, device="cpu").run()
    compiled = mdf_loop.compile(source, device="cpu", unroll=unroll)
    straight = compiled.run()
    assert list(straight) == list(loop)
    for name in loop:
        left, right = np.asarray(straight[name]), np.asarray(loop[name])
        assert (left.dtype, left.shape) == (right.dtype, right.shape), name
        assert left.tobytes() == right.tobytes(), name
    arrays = bind(open_document(source), {}, compiled.options).arrays
    program = compiled.program
    meaning = interpret(program, arrays)
    for name, array in interpret(prepare(program, SIMPLIFY), arrays).items():
        np.testing.assert_array_equal(array, meaning[name])
        np.testing.assert_allclose(np.asarray(straight[name]), array, rtol=1e-13)
    return not any(isinstance(op, Loop) for op in walk(program.ops))


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_a_trip_count(count: int) -> None:
    assert is_unrolled(model(M=count))


def test_known_trip_counts_and_conditions_are_unrolled() -> None:
    assert is_unrolled(model(cond=True))
    assert is_unrolled(model(body_with("k < 5"), M=None, cond=True))
    assert is_unrolled(model(body_with("k < 5"), M=20, cond=True))
    assert is_unrolled(model(body_with("k < 5"), M=3, cond=True))
    assert is_unrolled(model(body_with("x > 99")))


@pytest.mark.parametrize(
    "source",
    [
        model(M=0),
        model(M=-3),
        model(cond=False),
        model(M="int(gain * 4)"),
        model(body_with("x > 0.1"), cond=True),
        model(body_with("x > 0.1"), M=None, cond=True),
        model(body_with("k < 5"), M=None, cond="x0 < 1"),
        model(exit="middle"),
        model(delays={"old": {"of": "x_next", "initial": "x0"}}),
    ],
)
def test_other_loops_stay_loops(source: Any) -> None:
    assert not is_unrolled(source)


@pytest.mark.parametrize(
    "recordings",
    [
        {"row": {"reverse": True}},
        {"row": {"keep": "last"}},
        {"row": {"length": 9, "pad": 0.0}},
    ],
)
def test_recordings(recordings: Any) -> None:
    assert is_unrolled(model(recordings=recordings))


def test_slices() -> None:
    body = body_with("True", row="x * part")
    body["nodes"]["step"]["input_ports"]["part"] = {}
    source = model(body, M=None, slices={"part": "table"})
    source["g"]["nodes"]["A"]["parameters"] = {"table": {"value": [1.5, 2.5, -1.0]}}
    assert is_unrolled(source)


def test_one_number_that_becomes_an_array() -> None:
    body = body_with("True", x_next="x + numpy.array([0.1, 0.2])", row="2.0 * k")
    assert is_unrolled(model(body))
    assert is_unrolled(model(body, M=1))


def test_loops_in_loops() -> None:
    inner = {
        "metadata": {"inputs": ["j", "on", "t"], "outputs": ["on", "t_next"]},
        "nodes": {
            "cell": {
                "input_ports": {"t": {}, "i": {}, "j": {}},
                "output_ports": {"t_next": {"value": "numpy.sin(t) + i * j"}},
            }
        },
    }
    nested = {"M": "i", "v_initial": "x", "body": {"inner": inner}}
    body = {
        "metadata": {"inputs": ["i", "go", "x", "k"], "outputs": ["go", "x_next", "k", "x_next"]},
        "nodes": {
            "row": {
                "input_ports": {"x": {}, "i": {}},
                "functions": {"g": {"function": "onnx::Loop", "args": nested}},
                "output_ports": {"x_next": {"value": "g"}},
            }
        },
    }
    source = model(body)
    straight = mdf_loop.read(source, options=Options(unroll=64))
    assert sum(isinstance(op, Loop) for op in walk(straight.ops)) == 1  # i is 0: no iterations
    assert not is_unrolled(source)
    nested["M"] = 3
    assert is_unrolled(model(body))
    nested["M"] = 65
    with pytest.raises(TripCountError, match="'g' has 65 iterations, unroll allows 64"):
        mdf_loop.compile(model(body), unroll=64).run()


def test_unrolled_loops_may_change_shapes() -> None:
    body = {
        "metadata": {"inputs": ["i", "go", "x"], "outputs": ["go", "x_next"]},
        "nodes": {
            "grow": {
                "input_ports": {"x": {}},
                "output_ports": {"x_next": {"value": "numpy.expand_dims(x, 0) * 2"}},
            }
        },
    }
    outputs = {"x": {"value": "f"}}
    source = model(body, outputs, v_initial="x0", M=3)
    straight = mdf_loop.compile(source, unroll=3)
    assert straight.run()["A.x"].tolist() == [[[2.4]]]
    assert straight.run({"x0": [1.0, 2.0]})["A.x"].tolist() == [[[[8.0, 16.0]]]]
    body["metadata"]["outputs"].append("x_next")
    source = model(body, {"x": {"value": "f[0]"}, "r": {"value": "f[1]"}}, v_initial="x0", M=3)
    with pytest.raises(
        RecordShapeError, match=r"is float64.1. at first, but float64.1, 1. in iter"
    ):
        mdf_loop.compile(source, unroll=3).run()


def test_the_iteration_number_indexes_a_list() -> None:
    body = body_with("True", row="numpy.reshape(numpy.sum(parts[i]), ())", x_next="x * (i + 1)")
    step = body["nodes"]["step"]
    step["parameters"] = {"sizes": {"value": [2, 3, 4, 5]}}
    step["output_ports"]["row"] = {"value": "numpy.sum(numpy.ones(sizes[i]) * (i + 1))"}
    compiled = mdf_loop.compile(model(body), unroll=4)
    assert compiled.run()["A.rows"].tolist() == [2.0, 6.0, 12.0, 20.0]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (model(M=3000), "the loop 'f' has 3000 iterations, unroll allows 64"),
        (model(M=65, cond=True), "the loop 'f' has up to 65 iterations, unroll allows 64"),
        (
            model(body_with("k < 900"), M=None, cond=True),
            "the loop 'f' has more than 64 iterations, unroll allows 64",
        ),
    ],
)
def test_too_many_iterations(source: Any, sentence: str) -> None:
    with pytest.raises(TripCountError, match=sentence) as caught:
        mdf_loop.compile(source, unroll=64).run()
    assert caught.value.findings[0].where == "$.graphs[0].nodes['A'].functions['f']"


def test_the_dtype_stays() -> None:
    with pytest.raises(CarryTypeError, match=r"'k_next' is int64.. before iteration 0 and float64"):
        mdf_loop.compile(model(body_with("True", k_next="k + 0.5")), unroll=64).run()


def test_a_choice_between_a_plain_number_and_an_array_keeps_the_dtype() -> None:
    body = body_with("True", x_next="2 if i < 2 else x * 1.5", row="7 if i < 1 else x")
    assert is_unrolled(model(body))


@pytest.mark.parametrize("unroll", [-1, 1.5, True, "8"])
def test_invalid_unroll_options_are_refused(unroll: Any) -> None:
    with pytest.raises(InputError, match="unroll must"):
        mdf_loop.compile(model(), unroll=unroll)


def test_over_time() -> None:
    loop = mdf_loop.compile(model()).run(steps=5)
    straight = mdf_loop.compile(model(), unroll=9).run(steps=5)
    np.testing.assert_array_equal(straight["A.rows"], loop["A.rows"])


@pytest.mark.slow
@settings(max_examples=25)
@given(TERMS, TERMS, st.integers(1, 4))
def test_random_bodies(update: str, row: str, count: int) -> None:
    body = body_with("k < 5", x_next=f"numpy.tanh({update}) * 1.0", row=f"1.0 * ({row})")
    assert is_unrolled(model(body, M=count))
    assert is_unrolled(model(body, M=count, cond=True))
