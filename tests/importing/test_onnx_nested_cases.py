"""ONNX models with branches, scans, sequences and nested bodies, with their expected results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdf_loop import LoopError
from tests.importing.round_trips import check, compile_by_yaml, parse_graph


def f(*numbers: Any) -> Any:
    return np.array(numbers[0] if len(numbers) == 1 else numbers, np.float32)


def i(*numbers: Any) -> Any:
    return np.array(numbers[0] if len(numbers) == 1 else numbers, np.int64)


def b(truth: Any) -> Any:
    return np.array(truth, bool)


COLLATZ = """g (int64[n] starts) => (int64[n] steps) {
    yes = Constant<value = bool {1}>()  zero = Constant<value = int64 {0}>()  N = Size(starts)
    steps = Loop (N, "") <body = outer (int64 i, bool c) => (bool c2, int64 count) {
        c2 = Identity(c)  start = Gather(starts, i)  one = Constant<value = int64 {1}>()
        c0 = Greater(start, one)
        last, count = Loop ("", c0, start, zero) <body = inner (int64 j, bool k, int64 v, int64 n) =>
            (bool k2, int64 v2, int64 n2) {
            two = Constant<value = int64 {2}>()  r = Mod(v, two)  odd = Equal(r, one)
            v2 = If (odd) <
                then_branch = up () => (int64 u) { three = Constant<value = int64 {3}>()  t = Mul(v, three)  u = Add(t, one) },
                else_branch = down () => (int64 h) { h = Div(v, two) }>
            n2 = Add(n, one)  k2 = Greater(v2, one) }> }> }"""
BRANCH_LOOPS = """g (bool up, float x) => (float y) {
    y = If (up) <
        then_branch = t () => (float p) { four = Constant<value = int64 {4}>()
            p = Loop (four, "", x) <body = b1 (int64 i, bool c, float a) => (bool c, float a2) { five = Constant<value = float {5.0}>() a2 = Add(a, five) }> },
        else_branch = e () => (float q) { three = Constant<value = int64 {3}>()  one = Constant<value = float {1.0}>()
            q = Loop (three, "", one) <body = b2 (int64 i, bool c, float a) => (bool c, float a2) { five = Constant<value = float {5.0}>() a2 = Mul(a, five) }> }> }"""
RNN = """g (float[t,2] x, float[3,2] W, float[3,3] R, float[3] h0, float[2,3] V, float[2] g0) => (float[3] h, float[2] k, float[t,2] out) {
    T0 = Shape(x)  zero = Constant<value = int64 {0}>()  T = Gather(T0, zero)
    h, S1 = Loop (T, "", h0) <body = l1 (int64 i, bool c, float[3] s) => (bool c2, float[3] s2, float[3] row) {
        c2 = Identity(c)  xt = Gather(x, i)  a = MatMul(W, xt)  r = MatMul(R, s)  ar = Add(a, r)  s2 = Tanh(ar)  row = Identity(s2) }>
    half = Constant<value = float {0.5}>()  one = Constant<value = float {1.0}>()
    m = Mul(S1, half)  p = Add(m, one)  relu = Relu(p)
    k, out = Loop (T, "", g0) <body = l2 (int64 i, bool c, float[2] s) => (bool c2, float[2] s2, float[2] row) {
        c2 = Identity(c)  xt = Gather(relu, i)  a = MatMul(V, xt)  ar = Add(a, s)  s2 = Tanh(ar)  row = Identity(s2) }> }"""
PIECEWISE = """g (float x) => (float y) {
    zero = Constant<value = float {0.0}>()  one = Constant<value = float {1.0}>()  two = Constant<value = float {2.0}>()
    neg = Less(x, zero)
    y = If (neg) <
        then_branch = a () => (float zero) { },
        else_branch = r () => (float y1) { small = Less(x, one)
            y1 = If (small) <
                then_branch = m () => (float x) { },
                else_branch = n () => (float y2) { middle = Less(x, two)
                    y2 = If (middle) <
                        then_branch = o () => (float q) { half = Constant<value = float {0.5}>()  d = Sub(x, one)  e = Mul(d, half)  q = Add(e, one) },
                        else_branch = p () => (float h) { h = Constant<value = float {1.5}>() }> }> }> }"""
TAPS = """g (int64 n, float[4] history) => (float[m] rows) {
    last, rows = Loop (n, "", history) <body = bd (int64 i, bool c, float[4] h) => (bool c, float[4] h2, float new) {
        zero = Constant<value = int64 {0}>()  two = Constant<value = float {2.0}>()  o = Gather(h, zero)  new = Add(o, two)
        one = Constant<value_ints = [1]>()  four = Constant<value_ints = [4]>()  axes = Constant<value_ints = [0]>()
        tail = Slice(h, one, four)  n1 = Unsqueeze(new, axes)  h2 = Concat<axis = 0>(tail, n1) }> }"""
MID_EXIT = """g (float x, float lim) => (float pf, float sf, int64 n) {
    two = Constant<value = float {2.0}>()  s0 = Constant<value = float {0.0}>()  n0 = Constant<value = int64 {0}>()
    one = Constant<value = int64 {1}>()
    p0 = Add(s0, x)  c0 = Less(p0, lim)
    pf, sf, n = Loop ("", c0, p0, s0, n0) <body = b (int64 i, bool ci, float p, float s, int64 k) => (bool co, float p1, float s1, int64 k1) {
        s1 = Mul(p, two)  p1 = Add(s1, x)  k1 = Add(k, one)  co = Less(p1, lim) }> }"""
POW = """g (float x, float y) => (float out) {
    one = Constant<value = float {1.0}>()  n0 = Constant<value = int64 {0}>()  five = Constant<value = int64 {5}>()  yes = Constant<value = bool {1}>()
    z, n = Loop ("", yes, one, n0) <body = b (int64 i, bool c, float z, int64 k) => (bool co, float z1, int64 k1) {
        u = Constant<value = int64 {1}>()  z1 = Mul(z, y)  k1 = Add(k, u)  co = Less(k1, five) }>
    out = Mul(x, z) }"""
DEEP = """g (int64 M, float x, float w) => (float y) {
    deep = Add(w, w)
    y = Loop (M, "", x) <body = b1 (int64 i, bool c, float a) => (bool c2, float a2) {
        c2 = Identity(c)  mine = Mul(a, w)
        a2 = Loop (M, "", mine) <body = b2 (int64 j, bool d, float q) => (bool d2, float q3) {
            d2 = Identity(d)  k = Add(i, j)  kf = Cast<to = 1>(k)  yes = Less(kf, deep)
            q3 = If (yes) <
                then_branch = t () => (float r) { u = Add(q, deep)  r = Add(u, a) },
                else_branch = e () => (float q) { }> }> }> }"""


def deep(m: int, x: float, w: float) -> float:
    for outer in range(m):
        q = x * w
        for inner in range(m):
            q = q + 2 * w + x if outer + inner < 2 * w else q
        x = q
    return x


CASES: dict[str, tuple[str, list[tuple[dict[str, Any], list[Any] | None]]]] = {
    "nested_while_with_if_collatz": (
        COLLATZ, [({"starts": i(1, 2, 3, 6, 7, 27)}, [i(0, 1, 7, 8, 16, 111)]), ({"starts": i([])}, [i([])])],
    ),
    "loop_inside_if_branches": (
        BRANCH_LOOPS, [({"up": b(1), "x": f(0.0)}, [f(20.0)]), ({"up": b(0), "x": f(0.0)}, [f(125.0)])],
    ),
    "wavefront_two_layer_rnn": (
        RNN,
        [({"x": f(np.linspace(-1, 1, 10).reshape(5, 2)), "W": f(np.linspace(-1, 1, 6).reshape(3, 2)), "R": f(np.eye(3) / 2),
           "h0": f([0.0] * 3), "V": f(np.linspace(-1, 1, 6).reshape(2, 3)), "g0": f([0.0, 0.5])}, None)],
    ),
    "case_of_piecewise": (
        PIECEWISE, [({"x": f(x)}, [f(y)]) for x, y in ((-1.0, 0.0), (0.76, 0.76), (1.226, 1.113), (2.1, 1.5))],
    ),
    "theano_output_taps_minus4": (TAPS, [({"n": i(6), "history": f(0, 2, 4, 6)}, [f(2, 4, 6, 8, 4, 6)]), ({"n": i(0), "history": f(0, 2, 4, 6)}, [f([])])]),
    "mid_exit_rotated": (
        MID_EXIT, [({"x": f(1.0), "lim": f(20.0)}, [f(31.0), f(30.0), i(4)]), ({"x": f(3.0), "lim": f(2.0)}, [f(3.0), f(0.0), i(0)])],
    ),
    "while_pow_scale": (POW, [({"x": f(0.34), "y": f(1.11)}, [f(0.572919773)])]),
    "captures two and three levels deep": (
        DEEP, [({"M": i(m), "x": f(1.0), "w": f(w)}, [f(deep(m, 1.0, w))]) for m, w in ((0, 1.0), (2, 1.0), (3, 1.5))],
    ),
    "branches of nothing but captured values and constants": (
        """g (bool c, float[2] x, float[2] y) => (float[2] p, float[2] q, float[2] k) <float[2] w = {7.0, 8.0}> {
            p, q, k = If (c) <then_branch = t () => (float[2] x, float[2] y, float[2] w) { },
                else_branch = e () => (float[2] y, float[2] x, float[2] v) <float[2] v = {1.0, 2.0}> { }> }""",
        [({"c": b(1), "x": f(1, 2), "y": f(3, 4)}, [f(1, 2), f(3, 4), f(7, 8)]), ({"c": b(0), "x": f(1, 2), "y": f(3, 4)}, [f(3, 4), f(1, 2), f(1, 2)])],
    ),
    "a branch without captures": (
        """g (bool c) => (float p, int64[2] n) {
            p, n = If (c) <then_branch = t () => (float a, int64[2] m) { a = Constant<value = float {1.0}>()  m = Constant<value_ints = [1, 2]>() },
                else_branch = e () => (float a, int64[2] m) { a = Constant<value_float = 2.5>()  m = Constant<value = int64[2] {3, 4}>() }> }""",
        [({"c": b(1)}, [f(1.0), i(1, 2)]), ({"c": b(0)}, [f(2.5), i(3, 4)])],
    ),
    "a condition of shape [1], branches of other shapes": (
        """g (bool[1] c, float[n] x) => (float y) {
            y = If (c) <then_branch = t () => (float a) { a = Concat<axis = 0>(x, x) }, else_branch = e () => (float b) { b = ReduceSum<keepdims = 0>(x) }> }""",
        [({"c": b([1]), "x": f(1, 2)}, [f(1, 2, 1, 2)]), ({"c": b([0]), "x": f(1, 2)}, [f(3.0)])],
    ),
    "sequences through If and Loop": (
        """g (bool c, seq(float[n]) given, float[n] x) => (seq(float[n]) out, int64 count) {
            s = If (c) <then_branch = t () => (seq(float[n]) a) { a = SequenceInsert(given, x) }, else_branch = e () => (seq(float[n]) given) { }>
            two = Constant<value = int64 {2}>()
            out = Loop (two, "", s) <body = bd (int64 i, bool k, seq(float[n]) q) => (bool k2, seq(float[n]) q2) {
                k2 = Identity(k)  fi = Cast<to = 1>(i)  y = Add(x, fi)  q2 = SequenceInsert(q, y) }>
            count = SequenceLength(out) }""",
        [({"c": b(1), "given": [f(0, 0)], "x": f(1, 2)}, [[f(0, 0), f(1, 2), f(1, 2), f(2, 3)], i(4)]),
         ({"c": b(0), "given": [f(0, 0)], "x": f(1, 2)}, [[f(0, 0), f(1, 2), f(2, 3)], i(3)])],
    ),
    "a sequence read in a loop": (
        """g (seq(float[n]) given) => (float[k] lengths, float total) {
            N = SequenceLength(given)  zero = Constant<value = float {0.0}>()
            total, lengths = Loop (N, "", zero) <body = bd (int64 i, bool k, float t) => (bool k2, float t2, float len) {
                k2 = Identity(k)  part = SequenceAt(given, i)  sum = ReduceSum<keepdims = 0>(part)  t2 = Add(t, sum)
                n = Size(part)  len = Cast<to = 1>(n) }> }""",
        [({"given": [f(1, 2), f([5.0]), f([])]}, [f(2, 1, 0), f(8.0)]), ({"given": [f([1.5])]}, [f([1.0]), f(1.5)])],
    ),
    "scan with negative axes and both directions": (
        """g (float[2,3] x, float[3,2] y, float[2] s0) => (float[2] s, float[2,3] r, float[3,2] q) {
            s, r, q = Scan <num_scan_inputs = 2, scan_input_axes = [-1, 0], scan_input_directions = [1, 0],
                scan_output_axes = [-1, 0], scan_output_directions = [0, 1],
                body = bd (float[2] s, float[2] a, float[2] b) => (float[2] s2, float[2] r, float[2] q) {
                    t = Add(s, a)  s2 = Mul(t, b)  r = Identity(s2)  q = Sub(a, b) }> (s0, x, y) }""",
        [({"x": f(np.arange(6).reshape(2, 3)), "y": f(np.arange(6).reshape(3, 2) / 4 + 1), "s0": f(1, 2)}, None)],
    ),
    "scan of nothing but rows, one of them captured": (
        """g (float[n,2] x, float[2] w) => (float[n,2] a, float[n,2] b, float[n,2] c) {
            a, b, c = Scan <num_scan_inputs = 1, body = bd (float[2] row) => (float[2] twice, float[2] row, float[2] w) { twice = Add(row, row) }> (x) }""",
        [({"x": f([[1, 2], [3, 4]]), "w": f(5, 6)}, [f([[2, 4], [6, 8]]), f([[1, 2], [3, 4]]), f([[5, 6], [5, 6]])])],
    ),
    "a scan of no rows": (
        """g (float[n,2] x, float[2] w) => (float[2] s, float[n,2] a) {
            s, a = Scan <num_scan_inputs = 1, body = bd (float[2] s, float[2] row) => (float[2] s2, float[2] twice) { s2 = Add(s, row)  twice = Add(row, row) }> (w, x) }""",
        [({"x": np.zeros((0, 2), np.float32), "w": f(5, 6)}, [f(5, 6), np.zeros((0, 2), np.float32)])],
    ),
    "a scan in a loop in a branch": (
        """g (bool c, int64 M, float[3,2] x) => (float[2] y) {
            zero = Constant<value = float[2] {0.0, 0.0}>()
            y = If (c) <then_branch = t () => (float[2] r) {
                r = Loop (M, "", zero) <body = bd (int64 i, bool k, float[2] s) => (bool k, float[2] s2) {
                    s2, rows = Scan <num_scan_inputs = 1, body = sc (float[2] a, float[2] row) => (float[2] a2, float[2] a3) {
                        fi = Cast<to = 1>(i)  t1 = Mul(row, fi)  a2 = Add(a, t1)  a3 = Identity(a2) }> (s, x) }> },
                else_branch = e () => (float[2] zero) { }> }""",
        [({"c": b(1), "M": i(3), "x": f([[1, 2], [3, 4], [5, 6]])}, [f(27, 36)]), ({"c": b(0), "M": i(3), "x": f([[1, 2], [3, 4], [5, 6]])}, [f(0, 0)])],
    ),
    "a loop of unknown extents and rank": (
        """g (int64 M, float x) => (float y, float r) {
            y, r = Loop (M, "", x) <body = bd (int64 i, bool c, float a) => (bool c2, float a2, float row) {
                c2 = Identity(c)  a2 = Add(a, a)  row = ReduceSum<keepdims = 0>(a2) }> }""".replace("float x)", "float[n,m] x)").replace("=> (float y, float r)", "=> (float[n,m] y, float[k] r)"),
        [({"M": i(2), "x": f([[1, 2, 3]])}, [f([[4, 8, 12]]), f(12, 24)]), ({"M": i(2), "x": np.zeros((0, 3), np.float32)}, [np.zeros((0, 3), np.float32), f(0, 0)])],
    ),
    "optional values through branches": (
        """g (bool c, float[2] x) => (float[2] y, bool has) {
            o = If (c) <then_branch = t () => (optional(float[2]) a) { a = Optional(x) }, else_branch = e () => (optional(float[2]) b) { n = Neg(x)  b = Optional(n) }>
            y = OptionalGetElement(o)  has = OptionalHasElement(o) }""",
        [({"c": b(1), "x": f(1, 2)}, [f(1, 2), b(1)]), ({"c": b(0), "x": f(1, 2)}, [f(-1, -2), b(1)])],
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_nested_bodies_have_the_results_of_the_specification(name: str, tmp_path: Path) -> None:
    graph, runs = CASES[name]
    for inputs, expected in runs:
        feeds = {k: v if isinstance(v, list) else np.asarray(v) for k, v in inputs.items()}
        check(parse_graph(graph, 16), feeds, expected, tmp_path)


REFUSED = {
    "branches of two dtypes": (
        """g (bool c, float x) => (float y) {
            y = If (c) <then_branch = t () => (float a) { a = Neg(x) }, else_branch = e () => (int64 b) { b = Cast<to = 7>(x) }> }""",
        {"c": b(1), "x": f(1.0)}, "float32.*int64",
    ),
    "a scan of two lengths": (
        """g (float[n] x, float[m] y) => (float[n] r) {
            r = Scan <num_scan_inputs = 2, body = bd (float a, float b) => (float c) { c = Add(a, b) }> (x, y) }""",
        {"x": f(1, 2), "y": f(1, 2, 3)}, "different lengths",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_nested_bodies_are_refused(name: str, tmp_path: Path) -> None:
    graph, inputs, sentence = REFUSED[name]
    with pytest.raises(LoopError, match=f"(?s){sentence}"):
        compile_by_yaml(parse_graph(graph), tmp_path).run(inputs)
