"""Gradients of MindSpore's and TensorFlow's control flow (R4.20 to R4.29), with derivatives calculated by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mdf_loop
from tests.models.control import Graph, body, choose, give, model, repeat
from tests.models.derivatives import derivatives

P = np.arange(8.0).reshape(2, 2, 2)
"""The weight in the tests of MindSpore."""


def test_r4_20_gradient_by_a_value_that_determines_the_iteration_count() -> None:
    """Differentiate `while x < 10: x = x * x + 1` at 1.1, with the numbers of TensorFlow."""
    step = body("i go x", {"more": "new < 10", "n": "new"}, new="x * x + 1")
    m = model({"z": "loop"}, loop=repeat(step, ["x"], cond="x < 10"))
    assert mdf_loop.compile(m).run({"x": 1.1})["z"] == pytest.approx(35.62263281, rel=1e-9)
    assert derivatives(m, {"x": 1.1})["x"] == pytest.approx(114.4339768, rel=1e-9)


def test_r4_20_gradient_by_both_sides_of_the_condition() -> None:
    """Differentiate one iteration of `while x < y: x = x * x + y` at (1.1, 8)."""
    step = body("i go x", {"more": "new < y", "n": "new"}, new="x * x + y")
    m = model({"z": "loop"}, loop=repeat(step, ["x"], cond="x < y"))
    assert derivatives(m, {"x": 1.1, "y": 8.0}) == {"x": pytest.approx(2.2), "y": 1.0}


def test_r4_21_gradient_by_a_value_that_every_iteration_adds() -> None:
    """Differentiate `while idx < 3: out = out + p`, then `out + p`, by p: 4 for each element."""
    step = body("idx go out", {"more": "idx + 1 < end", "n": "out + p"})
    m = model({"z": "loop + p"}, loop=repeat(step, ["0 * p"], cond="end > 0"))
    assert derivatives(m, {"p": P, "end": 3})["p"] == np.full((2, 2, 2), 4.0).tolist()


def test_r4_21_gradient_by_a_value_that_every_iteration_multiplies() -> None:
    """Differentiate `while idx < 3: out = out * p`, then `out + p`, by p: 3 p^2 + 1."""
    step = body("idx go out", {"more": "idx + 1 < end", "n": "out * p"})
    m = model({"z": "loop + p"}, loop=repeat(step, ["0 * p + 1"], cond="end > 0"))
    gradient = np.array(derivatives(m, {"p": P, "end": 3})["p"])
    assert gradient.ravel().tolist() == [1, 4, 13, 28, 49, 76, 109, 148]


def test_r4_22_gradient_of_a_for_loop() -> None:
    """Differentiate `for i in range(3): y = y * x` at x = 3: 3 x^2."""
    m = model({"z": "loop"}, loop=repeat(body("i go y", {"go": "go", "n": "y * x"}), ["1.0"], M=3))
    assert derivatives(m, {"x": 3.0}) == {"x": pytest.approx(27.0, rel=1e-14)}


def test_r4_22_gradient_with_the_iteration_number_as_a_factor() -> None:
    """Differentiate `for i in range(5): s = s + i x` by x: 0 + 1 + 2 + 3 + 4."""
    m = model(
        {"z": "loop"}, loop=repeat(body("i go s", {"go": "go", "n": "s + i * x"}), ["0.0"], M=5)
    )
    assert derivatives(m, {"x": 3.0}) == {"x": 10.0}


def test_r4_23_gradient_of_a_choice_in_a_while_loop() -> None:
    """Differentiate a choice in a loop by p: 2 + 1 + 1 + 1.

    `while idx < 3: out = out + 2 p if max(out) < max(x) else out + p`, then `out + p`.
    """
    pick = choose("numpy.max(out) < numpy.max(x)", give(r="out + 2 * p"), give(r="out + p"))
    step = body("idx go out", {"more": "idx < 2", "n": "pick"}, pick=pick)
    m = model({"z": "loop + p"}, loop=repeat(step, ["0 * p"], cond=True))
    gradient = derivatives(m, {"p": P, "x": np.full((2, 2, 2), 3.0)})
    assert gradient == {"p": np.full((2, 2, 2), 5.0).tolist(), "x": np.zeros((2, 2, 2)).tolist()}


@pytest.mark.parametrize(
    ("a", "b", "by_p", "by_x"), [(0, 4, 4.0, 1.0), (4, 4, 3.0, 3.0), (4, 0, 0.0, 0.0)]
)
def test_r4_24_gradient_of_consecutive_choices(a: int, b: int, by_p: float, by_x: float) -> None:
    """Check that unselected branches contribute nothing to the gradient.

    `if a < b: out += x + 4 p; if a == b: out += 3 x + 3 p`.
    """
    m = model(
        {"z": "second"},
        zero="0 * p",
        first=choose("a < b", give(r="zero + x + 4 * p"), give("zero")),
        second=choose("a == b", give(r="first + 3 * x + 3 * p"), give("first")),
    )
    gradient = derivatives(m, {"a": a, "b": b, "x": P + 1, "p": P})
    assert gradient == {n: np.full((2, 2, 2), v).tolist() for n, v in (("x", by_x), ("p", by_p))}


@pytest.mark.parametrize(
    ("a", "b", "expected"), [(0, 4, (1.0, 1.0)), (4, 4, (0.0, 2.0)), (4, 0, (0.0, 3.0))]
)
def test_r4_24_gradient_of_returns_inside_of_choices(
    a: int, b: int, expected: tuple[float, float]
) -> None:
    """Differentiate `if a < b: return x + p; if a == b: return 2 p; return 3 p`."""
    rest = Graph({"r": "inner"}, {"inner": choose("a == b", give(r="2 * p"), give(r="3 * p"))})
    m = model({"z": "first"}, first=choose("a < b", give(r="x + p"), rest))
    gradient = derivatives(m, {"a": a, "b": b, "x": 1.5, "p": 2.5})
    assert (gradient["x"], gradient["p"]) == expected


def test_r4_25_gradient_of_a_loop_with_break() -> None:
    """Differentiate `for i in range(100): x = x * p; if x > 50: break` at x = 1, p = 3: 4 p^3."""
    step = body("i go x", {"more": "new <= 50", "n": "new"}, new="x * p")
    m = model({"z": "loop"}, loop=repeat(step, ["x0"], M=100, cond=True))
    assert derivatives(m, {"p": 3.0, "x0": 1.0}) == {"p": 108.0, "x0": 81.0}


def test_r4_25_gradient_of_a_break_before_the_update() -> None:
    """Differentiate five iterations of `while True: if x * p > 100: break; x = x * p`."""
    choice = choose("new <= 100", give("new"), give("x"))
    step = body("i go x", {"more": "new <= 100", "n": "kept"}, new="x * p", kept=choice)
    m = model({"z": "loop"}, loop=repeat(step, ["x0"], cond=True))
    assert derivatives(m, {"p": 2.0, "x0": 3.0}) == {"p": 3 * 5 * 2.0**4, "x0": 32.0}


def test_r4_26_gradient_of_a_loop_with_continue() -> None:
    """Differentiate `for i in range(10): if i % 2: continue; s = s + i x * x`: 20 * 2 x."""
    choice = choose("i % 2", give("s"), give(r="s + i * x * x"))
    m = model(
        {"z": "loop"},
        loop=repeat(body("i go s", {"go": "go", "n": "kept"}, kept=choice), ["0.0"], M=10),
    )
    assert derivatives(m, {"x": 3.0}) == {"x": pytest.approx(120.0)}


@pytest.mark.parametrize(("outer", "inner", "times"), [(4, 4, 16), (2, 4, 8), (3, 0, 0)])
def test_r4_27_gradient_of_a_while_loop_in_a_for_loop(outer: int, inner: int, times: int) -> None:
    """Differentiate `for _ in range(outer): j = 0; while j < inner: out = out + p` by p."""
    turn = body("j go_in out", {"more": "j + 1 < inner", "n": "out + p"})
    turns = body("i go out", {"go": "go", "n": "all"}, all=repeat(turn, ["out"], cond="inner > 0"))
    m = model({"z": "loop"}, loop=repeat(turns, ["0 * p"], M="outer"))
    gradient = derivatives(m, {"p": P, "outer": outer, "inner": inner})
    assert gradient["p"] == np.full((2, 2, 2), float(times)).tolist()


def test_r4_27_gradient_of_three_nested_loops_with_a_choice() -> None:
    """Differentiate nested loops of `x = x + p if x < 5 else x * q`, compared with Python."""
    pick = choose("x < 5", give(r="x + p"), give(r="x * q"))
    third = body("k g3 x", {"go": "g3", "n": "pick"}, pick=pick)
    second = body("j g2 x", {"go": "g2", "n": "c"}, c=repeat(third, ["x"], M=2))
    first = body("i g1 x", {"go": "g1", "n": "b"}, b=repeat(second, ["x"], M=3))
    gradient = derivatives(
        model({"z": "a"}, a=repeat(first, ["x"], M=2)), {"x": 0.5, "p": 0.75, "q": 1.1}
    )
    x, by = 0.5, np.array([1.0, 0.0, 0.0])
    for _ in range(12):
        if x < 5:
            x, by = x + 0.75, by + np.array([0, 1, 0])
        else:
            x, by = x * 1.1, by * 1.1 + np.array([0, 0, x])
    np.testing.assert_allclose([gradient["x"], gradient["p"], gradient["q"]], by, rtol=1e-12)


IN_PLACE = """
<ir_version: 8, opset_import: ["" : 17]>
g (double[2,2,2] x, double[2,2,1] y) => (double[2,2,2] z) {
  M = Constant<value = int64 {2}>()
  z = Loop (M, "", x) <body = b (int64 i, bool go_in, double[2,2,2] a) => (bool go, double[2,2,2] c) {
    go = Identity(go_in)
    part = Gather<axis = 0>(a, i)
    most = ReduceMax<keepdims = 1>(part)
    row = Gather<axis = 0>(y, i)
    grown = Add(row, most)
    once = Constant<value = int64[2] {1, 1}>()
    place = Reshape(i, once)
    wide = Constant<value = int64[2] {2, 2}>()
    flat = Expand(grown, wide)
    at = Constant<value = int64[1] {0}>()
    put = Unsqueeze(flat, at)
    c = ScatterND(a, place, put)
  }>
}
"""


def test_r4_28_gradient_of_writing_in_place(tmp_path: Path) -> None:
    """Differentiate `x[i] = max(x[i]) + y[i]`, where the maximum of each x[i] counts four times."""
    path = tmp_path / "in_place.onnx"
    onnx.save(onnx.parser.parse_model(IN_PLACE), path)
    (z,) = mdf_loop.compile(path).program.outputs
    gradient = derivatives(path, {"x": P, "y": np.zeros((2, 2, 1))}, of=z.name)
    assert gradient["x"] == [[[0.0, 0.0], [0.0, 4.0]], [[0.0, 0.0], [0.0, 4.0]]]
    assert gradient["y"] == np.full((2, 2, 1), 2.0).tolist()


def test_r4_29_gradient_of_loops_and_branches_that_do_not_run() -> None:
    """Check a loop without iterations: 1 for `out + p` after the loop, 0 for values inside."""
    step = body("idx go out", {"more": "idx < end", "n": "out * q + p"})
    m = model({"z": "loop + p"}, loop=repeat(step, ["x"], cond="end > 0"))
    gradient: dict[str, Any] = derivatives(m, {"p": P, "x": P, "q": 2.0, "end": 0})
    ones = np.ones((2, 2, 2)).tolist()
    assert gradient == {"p": ones, "x": ones, "q": 0.0}
