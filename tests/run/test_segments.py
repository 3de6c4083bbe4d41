"""Models whose loops run in chunks equal the whole run bit for bit, or return the partial results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Carried, Input, Loop, Output, Program, Value, loops
from mdf_loop.lower.builder import Options
from mdf_loop.passes.batching.batch import batch
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from tests.models import stored_cases as cases
from tests.models.control import body, choose, give, model, repeat
from tests.models.growing import CONCAT, RANK, RANKS
from tests.models.loops import loop_model
from tests.run.segment_running import CHAIN, NEWTON, cut, opened, ready, same
from tests.soak import times
from tests.strategies.loops import graph
from tests.strategies.loops import loops as random_loops
from tests.strategies.loops import opened as opened_for_many
from tests.strategies.nested_control import blocks, document


def check_segments(source: Any, options: Options | None = None, **inputs: Any) -> None:
    """Check that the model can be split and has the same bits in chunks of any lengths."""
    program, arrays = opened(source, options, **inputs)
    for seed in range(4):
        assert same(program, arrays, seed, breaks=seed > 1)


# --- the same bits --------------------------------------------------------------------------------

MODELS = {
    "the iteration number is carried": (
        {"M": 17, "v_initial": "(0.0,)"}, {"x_next": "x + i * 0.1"}, {"carried": "x"},
    ),
    "the iteration number is recorded": ({"M": 9}, {"y": "i"}, {"recorded": "y"}),
    "a capture, and two records": (
        {"M": 12, "v_initial": "(a, a)"},
        {"x_next": "y", "y_next": "x + numpy.sin(a)", "r": "x * 1", "q": "i * x"},
        {"carried": "x y", "recorded": "r q", "port_values": {"a": [0.5, -2.0, 7.0]}},
    ),
    "a trip count and a condition": (
        {"M": 30, "cond": True, "v_initial": "(1.0,)"},
        {"x_next": "x * 1.5", "y": "i + x"},
        {"carried": "x", "recorded": "y", "go": "x < 50"},
    ),
    "the trip count comes first": (
        {"M": 5, "cond": True, "v_initial": "(1.0,)"}, {"x_next": "x * 1.5"},
        {"carried": "x", "go": "x < 50"},
    ),
    "a condition of the iteration number": (
        {"cond": True, "v_initial": "(1.0,)"}, {"x_next": "x + 1", "y": "x * i"},
        {"carried": "x", "recorded": "y", "go": "i < 7"},
    ),
    "nothing is carried": (
        {"cond": True}, {"y": "i * 0.5"}, {"recorded": "y", "go": "i < 7"},
    ),
    "no iteration": (
        {"M": "m", "v_initial": "(1.0,)"}, {"x_next": "x + 1", "y": "x * numpy.array([1.0, 2.0])"},
        {"carried": "x", "recorded": "y", "port_values": {"m": 0}},
    ),
    "less than none": (
        {"M": "m", "v_initial": "(1.0,)"}, {"x_next": "x + 1", "y": "x * i"},
        {"carried": "x", "recorded": "y", "port_values": {"m": -3}},
    ),
    "it does not begin": (
        {"M": 4, "cond": "a > 1", "v_initial": "(1.0,)"}, {"x_next": "x + 1", "y": "x * 1"},
        {"carried": "x", "recorded": "y", "port_values": {"a": 0.5}},
    ),
    "slices from both ends, and from within": (
        {
            "M": 11, "v_initial": "(0.1,)",
            "slices": {
                "u": "us",
                "w": {"of": "us", "start": -1, "end": 0, "stride": -1},
                "q": {"of": "us", "start": 1, "stride": 2},
                "p": {"of": "us", "part_size": 2},
            },
        },
        {"x_next": "numpy.tanh(x + u * w)", "y": "u + numpy.sin(q)", "z": "p * 1"},
        {"carried": "x", "recorded": "y z", "port_values": {"us": [0.3 * k - 2 for k in range(23)]}},
    ),
    "rows of a slice": (
        {"v_initial": "(0.1,)", "slices": {"u": {"of": "us", "axis": 1}}},
        {"x_next": "numpy.tanh(x + numpy.sum(u))", "y": "numpy.sin(u)"},
        {
            "carried": "x", "recorded": "y",
            "port_values": {"us": [[0.1 * k - j for k in range(9)] for j in range(5)]},
        },
    ),
    "slices and delays": (
        {"M": 11, "delays": {"before": {"of": "y", "initial": 0.25}}},
        {"y": "before * 0.5 + i"},
        {"recorded": "y"},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_models_of_one_loop(name: str, precision: str) -> None:
    args, formulas, more = MODELS[name]
    check_segments(loop_model(args, formulas, **more), Options(precision))


def test_a_loop_without_a_trip_count() -> None:
    check_segments(NEWTON)
    check_segments(NEWTON, Options(max_iterations=3))


def test_rows_of_every_rank() -> None:
    for n in (-2, 0, 1, 7):
        check_segments(RANKS, n=n)


@pytest.mark.parametrize("source", [CONCAT, RANK])
def test_carried_values_that_change_their_shape(source: str) -> None:
    for n in (0, 1, 5):
        check_segments(source, Options(shapes="dynamic"), n=n)


NESTED = model(
    {"y": "c[0]", "n": "c.iterations"},
    c=repeat(
        body(
            "i go x",
            {"more": "x < 1000", "x_next": "inner"},
            inner=repeat(
                body("j g z", {"g_next": "True", "z_next": "z + i * j + 1"}), ["x"], M="i"
            ),
        ),
        ["x"],
        M=20,
        cond=True,
    ),
)
CHOOSING = model(
    {"y": "c[0]"},
    c=repeat(
        body(
            "i go x",
            {"more": "True", "x_next": "choice"},
            choice=choose("x > 3", give(r="x / 2"), give(r="x * 3 + i")),
        ),
        ["x"],
        M=25,
    ),
)


@pytest.mark.parametrize("source", [NESTED, CHOOSING])
def test_loops_that_hold_loops_and_choices(source: Any) -> None:
    check_segments(source, x=1.0)


def test_loops_in_a_row() -> None:
    check_segments(CHAIN)
    program, _ = opened(CHAIN)
    segments = cut(program)
    assert segments is not None
    assert [type(p).__name__ for p in segments.segments].count("LoopSegment") == 2


def with_a_loop(b: Builder, over: Value, step: str) -> Value:
    """Append a loop that applies the operation `step` to `over` 5 times."""
    inner = b.body()
    i, go = inner.new("int64", (), "i"), inner.new("bool", (), "go")
    enter = inner.new(over.dtype, over.shape, "x")
    leave = inner.op(step, inner.op("Abs", inner.op("Add", enter, over)))
    carried = Carried(over, enter, leave, b.new(over.dtype, over.shape, "end"))
    five = b.constant(np.array(5))
    b.append(Loop("A.f", five, None, i, go, None, (carried,), (), tuple(inner.ops)))
    return carried.final


def test_fused_operations_are_not_split() -> None:
    b = Builder()
    a, w = b.new("float32", (4, 3000), "a"), b.new("float32", (3000, 5), "w")
    bias = b.new("float32", (5,), "bias")
    product = b.op("MatMul", a, w)
    end = with_a_loop(b, bias, "Sqrt")
    ends = {"y": b.op("Add", product, bias), "z": b.op("Add", product, end), "end": end}
    outputs = tuple(starmap(Output, ends.items()))
    arrays = {"a": (4, 3000), "w": (3000, 5), "bias": (5,)}
    rng = np.random.default_rng(0)
    inputs = {name: rng.normal(size=shape).astype(np.float32) for name, shape in arrays.items()}
    for chosen in (outputs[::2], outputs[1:]):
        program = Program("p", tuple(map(Input, (a, w, bias))), tuple(b.ops), chosen)
        assert same(ready(program), inputs, 0)


def test_a_piece_computes_on_as_many_threads_as_the_whole() -> None:
    b = Builder()
    large, x = b.new("float64", (60_000,), "large"), b.new("float64", (50_000,), "x")
    end = with_a_loop(b, b.op("Mul", x, b.op("ReduceMax", large, keepdims=0)), "Log")
    program = Program("p", (Input(large), Input(x)), tuple(b.ops), (Output("y", end),))
    rng = np.random.default_rng(0)
    inputs = {"large": rng.uniform(1, 2, 60_000), "x": rng.uniform(1, 9, 50_000)}
    assert same(ready(program), inputs, 0)


@pytest.mark.slow
@pytest.mark.soak
@settings(max_examples=times(15, 1500), suppress_health_check=[HealthCheck.too_slow])
@given(random_loops(), st.integers(0, 2**32 - 1), st.sampled_from(["float64", "float32"]))
def test_random_loops(loop: dict[str, object], seed: int, precision: str) -> None:
    program, arrays = opened(graph(loop), Options(precision))
    assert same(program, arrays, seed, breaks=seed % 3 == 0) or not loops(program)


@pytest.mark.slow
@pytest.mark.soak
@settings(max_examples=times(8, 600), suppress_health_check=[HealthCheck.too_slow])
@given(blocks, st.integers(-5, 9), st.integers(-5, 9), st.integers(0, 2**32 - 1))
def test_random_control(block: Sequence[Any], a: int, b: int, seed: int) -> None:
    program, arrays = opened(document(block), a=a, b=b)
    same(program, arrays, seed, breaks=seed % 3 == 0)


@pytest.mark.slow
@pytest.mark.soak
@settings(max_examples=times(8, 600), suppress_health_check=[HealthCheck.too_slow])
@given(random_loops(), st.sampled_from(["a", "b", "x_0"]), st.integers(0, 2**32 - 1))
def test_random_loops_for_many_values(loop: dict[str, object], name: str, seed: int) -> None:
    program, arrays = opened_for_many(loop)
    many = np.random.default_rng(seed).uniform(-2, 2, (3, *arrays[name].shape))
    try:
        program = prepare(batch(program, {name}), ONNXRUNTIME)
    except UnsupportedError:
        return
    arrays = {entry.value.name: arrays[entry.value.name] for entry in program.inputs}
    assert same(program, {**arrays, name: many}, seed) or not loops(program)


@pytest.mark.slow
@pytest.mark.skipif(not cases.CASES.exists(), reason="the stored cases are not here")
@pytest.mark.parametrize("path", cases.stored(), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_stored_cases(path: Path, tmp_path: Path) -> None:
    runs = cases.runs(json.loads(path.read_text()))
    for number, one in enumerate(r for r in runs if not isinstance(r["expected"], dict)):
        inputs = {name: cases.value(entry) for name, entry in one["inputs"].items()}
        program, arrays = opened(cases.imported(path, tmp_path).document, **inputs)
        same(program, arrays, number, breaks=number % 2 == 1)
