"""Hand-written ONNX models with loops, with the results of the ONNX specification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mdf_loop import LoopError
from tests.importing.round_trips import check, compile_by_yaml, parse_graph


def f(*numbers: Any) -> Any:
    return np.array(numbers[0] if len(numbers) == 1 else numbers, np.float32)


def d(numbers: Any) -> Any:
    return np.array(numbers, np.float64)


def i(*numbers: Any) -> Any:
    return np.array(numbers[0] if len(numbers) == 1 else numbers, np.int64)


def i32(numbers: Any) -> Any:
    return np.array(numbers, np.int32)


def b(truth: Any) -> Any:
    return np.array(truth, bool)


def s(*texts: Any) -> Any:
    return np.array(texts[0] if len(texts) == 1 else texts, object)


WHILE = """g (int64 M, bool cond, float x, float lim) => (float xf, float[n] xs) {
    xf, xs = Loop (%s, x) <body = bd (int64 it, bool c_in, float x_in) => (bool c_out, float x_out, float x_scan) {
        two = Constant<value = float {2.0}>()
        x_out = Mul(x_in, two)
        c_out = Less(x_out, lim)
        x_scan = Identity(x_out)
    }> }"""
SAMPLE = """g (int32 a, int32 b, bool keepgoing, int64 M) => (int32 b_out, bool kept, int32[n] vals) {
    b_out, kept, vals = Loop (M, keepgoing, b, keepgoing) <body = body
        (int64 i, bool keepgoing_in, int32 b_in, bool k) => (bool keepgoing_out, int32 b_new, bool kk, int32 val) {
        my_local = Add(a, b_in)
        b_new = Sub(a, b_in)
        keepgoing_out = Greater(my_local, b_new)
        kk = Identity(keepgoing_out)
        val = Add(b_in, b_in)
    }> }"""

MODES: dict[str, tuple[str, list[tuple[dict[str, Any], list[Any]]]]] = {
    "mode_cond_true_dowhile": (
        WHILE.replace("bool cond, ", "").replace("int64 M, ", "").replace(
            "    xf, xs", "    t = Constant<value = bool {1}>()  xf, xs"
        ) % '"", t',
        [
            ({"x": f(1.0), "lim": f(20.0)}, [f(32.0), f([2, 4, 8, 16, 32])]),
            ({"x": f(50.0), "lim": f(20.0)}, [f(100.0), f([100])]),
        ],
    ),
    "mode_trip_and_cond": (
        WHILE % "M, cond",
        [
            ({"M": i(10), "cond": b(1), "x": f(1.0), "lim": f(20.0)}, [f(32.0), f([2, 4, 8, 16, 32])]),
            ({"M": i(3), "cond": b(1), "x": f(1.0), "lim": f(20.0)}, [f(8.0), f([2, 4, 8])]),
            ({"M": i(10), "cond": b(0), "x": f(1.0), "lim": f(20.0)}, [f(1.0), f([])]),
            ({"M": i(4), "cond": b(1), "x": f(1.0), "lim": f(16.0)}, [f(16.0), f([2, 4, 8, 16])]),
            ({"M": i(0), "cond": b(1), "x": f(1.0), "lim": f(16.0)}, [f(1.0), f([])]),
            ({"M": i(-2), "cond": b(1), "x": f(1.0), "lim": f(16.0)}, [f(1.0), f([])]),
        ],
    ),
    "outer_cond_constant_false": (
        """g (float x) => (float y, float z) {
            no = Constant<value = bool {0}>()  yes = Constant<value = bool {1}>()
            five = Constant<value = int64 {5}>()
            y = Loop (five, no, x) <body = b1 (int64 i, bool c, float a) => (bool c, float a2) { a2 = Add(a, a) }>
            z = Loop (five, yes, x) <body = b2 (int64 i, bool c, float a) => (bool c, float a2) { a2 = Add(a, a) }> }""",
        [({"x": f(1.0)}, [f(1.0), f(32.0)]), ({"x": f(2.0)}, [f(2.0), f(64.0)])],
    ),
    "captured condition and trip count": (
        """g (float x, float lim, int64[2] n) => (float y) {
            zero = Constant<value = int64 {0}>()
            m = Gather(n, zero)  c0 = Less(x, lim)
            y = Loop (m, c0, x) <body = bd (int64 i, bool c, float a) => (bool c2, float a3) {
                yes = Less(a, lim)
                a3 = Loop (m, yes, a) <body = bi (int64 j, bool cj, float q) => (bool cj2, float q2) {
                    q2 = Add(q, x)  cj2 = Less(q2, lim) }>
                c2 = Identity(c0) }> }""",
        [({"x": f(1.0), "lim": f(9.0), "n": i(3, 1)}, [f(9.0)]), ({"x": f(9.0), "lim": f(9.0), "n": i(3, 1)}, [f(9.0)])],
    ),
    "large_trip_count": (
        """g (int64 M, int64 x) => (int64 y) {
            y = Loop (M, "", x) <body = bd (int64 i, bool c, int64 a) => (bool c2, int64 a2) {
                c2 = Identity(c)  a2 = Add(a, i) }> }""",
        [({"M": i(1_000_000), "x": i(0)}, [i(499999500000)])],
    ),
    "trip and cond of shape [1] and []": (
        """g (int64[1] M, bool[1] cond, float x) => (float y, float[k] r) {
            y, r = Loop (M, cond, x) <body = bd (int64[1] i, bool[1] c, float a) => (bool[1] c2, float a2, float a3) {
                five = Constant<value = float[1] {5.0}>()  shape = Constant<value_ints = [0]>()
                empty = ConstantOfShape<value = int64[1] {1}>(shape)
                a2 = Add(a, a)  a3 = Identity(a)
                wide = Reshape(a2, empty)  c2 = Less(a2, five) }> }""".replace(
            "shape = Constant<value_ints = [0]>()\n                empty = ConstantOfShape<value = int64[1] {1}>(shape)", ""
        ).replace("wide = Reshape(a2, empty)  ", ""),
        [({"M": i([7]), "cond": b([1]), "x": f(1.0)}, [f(8.0), f([1, 2, 4])])],
    ),
    "iter_number_in_math": (
        """g (int64 M, int64 x) => (int64 y) {
            y = Loop (M, "", x) <body = bd (int64 i, bool c, int64 a) => (bool c2, int64 a2) {
                c2 = Identity(c)  a2 = Add(a, i) }> }""",
        [({"M": i(5), "x": i(100)}, [i(110)])],
    ),
    "the iteration number itself is carried and recorded": (
        """g (int64 M, int64 x) => (int64 y, int64[n] r) {
            y, r = Loop (M, "", x) <body = bd (int64 i, bool c, int64 a) => (bool c, int64 i, int64 i2) { i2 = Identity(i) }> }""",
        [({"M": i(5), "x": i(100)}, [i(4), i([0, 1, 2, 3, 4])]), ({"M": i(0), "x": i(100)}, [i(100), i([])])],
    ),
    "cond_in_value": (
        """g (int64 M, bool cond) => (bool[n] r) {
            r = Loop (M, cond) <body = bd (int64 i, bool c) => (bool c2, bool r) {
                three = Constant<value = int64 {3}>()
                c2 = Less(i, three)  r = Identity(c) }> }""",
        [({"M": i(9), "cond": b(1)}, [b([1, 1, 1, 1])])],
    ),
    "doc_sample_keepgoing_out": (
        SAMPLE,
        [
            ({"a": i32(3), "b": i32(6), "keepgoing": b(1), "M": i(10)}, [i32(6), b(0), i32([12, -6])]),
            ({"a": i32(3), "b": i32(6), "keepgoing": b(1), "M": i(1)}, [i32(-3), b(1), i32([12])]),
            ({"a": i32(3), "b": i32(6), "keepgoing": b(0), "M": i(10)}, [i32(6), b(0), i32([])]),
            ({"a": i32(5), "b": i32(2), "keepgoing": b(1), "M": i(10)}, [i32(2), b(1), i32([4, 6] * 5)]),
        ],
    ),
    "doc_sample_all_constant": (
        """g (int32 a, int32 b) => (int32 b_out, int32[n] vals) {
            M = Constant<value_int = 10>()  one = Constant<value_int = 1>()  keepgoing = Cast<to = 9>(one)
            b_out, vals = Loop (M, keepgoing, b) <body = body (int64 i, bool keepgoing_in, int32 b_in) =>
                (bool keepgoing_out, int32 b_new, int32 val) {
                my_local = Add(a, b_in)  b_new = Sub(a, b_in)
                keepgoing_out = Greater(my_local, b_new)  val = Add(b_in, b_in) }> }""",
        [({"a": i32(3), "b": i32(6)}, [i32(6), i32([12, -6])])],
    ),
}  # fmt: skip

CARRIED: dict[str, tuple[str, list[tuple[dict[str, Any], list[Any]]]]] = {
    "carried_swap": (
        """g (int64 M, float x, float y) => (float xf, float yf) {
            xf, yf = Loop (M, "", x, y) <body = bd (int64 i, bool c, float a, float b) => (bool c2, float b2, float a2) {
                c2 = Identity(c)  b2 = Identity(b)  a2 = Identity(a) }> }""",
        [({"M": i(3), "x": f(1.0), "y": f(2.0)}, [f(2.0), f(1.0)]), ({"M": i(4), "x": f(1.0), "y": f(2.0)}, [f(1.0), f(2.0)])],
    ),
    "carried_swap without nodes": (
        """g (int64 M, float x, float y) => (float xf, float yf) {
            xf, yf = Loop (M, "", x, y) <body = bd (int64 i, bool c, float a, float b) => (bool c, float b, float a) { }> }""",
        [({"M": i(3), "x": f(1.0), "y": f(2.0)}, [f(2.0), f(1.0)]), ({"M": i(4), "x": f(1.0), "y": f(2.0)}, [f(1.0), f(2.0)])],
    ),
    "a body without nodes records its inputs": (
        """g (int64 M, float x) => (float xf, float[n] xs, int64[n] ns, bool[n] cs) {
            xf, xs, ns, cs = Loop (M, "", x) <body = bd (int64 i, bool c, float a) => (bool c, float a, float a, int64 i, bool c) { }> }""",
        [({"M": i(3), "x": f(1.5)}, [f(1.5), f([1.5] * 3), i([0, 1, 2]), b([1] * 3)])],
    ),
    "carried_initial_value_kept": (
        """g (int64 M, float[2] x) => (float[2] xf, float[2] y) {
            xf = Loop (M, "", x) <body = bd (int64 i, bool c, float[2] a) => (bool c2, float[2] a2) {
                c2 = Identity(c)  a2 = Add(a, a) }>
            y = Identity(x) }""",
        [({"M": i(3), "x": f([1.0, 2.0])}, [f([8.0, 16.0]), f([1.0, 2.0])])],
    ),
    "carried_rank_grows": (
        """g (int64 M, float[2] x) => (float[...] xf) {
            xf = Loop (M, "", x) <body = bd (int64 i, bool c, float[...] a) => (bool c2, float[...] a2) {
                c2 = Identity(c)  last = Constant<value_ints = [-1]>()  a2 = Unsqueeze(a, last) }> }""".replace("[...]", ""),
        [({"M": i(3), "x": f([1.0, 2.0])}, [f([1.0, 2.0]).reshape(2, 1, 1, 1)]), ({"M": i(0), "x": f([1.0, 2.0])}, [f([1.0, 2.0])])],
    ),
    "carried_dtypes": (
        """g (int64 M, double a, float16 b, int8 c, bool d, uint8 e) => (double af, float16 bf, int8 cf, bool df, uint8 ef) {
            af, bf, cf, df, ef = Loop (M, "", a, b, c, d, e) <body = bd
                (int64 i, bool k, double a0, float16 b0, int8 c0, bool d0, uint8 e0) =>
                (bool k2, double a1, float16 b1, int8 c1, bool d1, uint8 e1) {
                k2 = Identity(k)  a1 = Add(a0, a0)  b1 = Add(b0, b0)  two = Constant<value = int8 {2}>()
                c1 = Mul(c0, two)  d1 = Not(d0)  ee = Constant<value = uint8 {80}>()  e1 = Add(e0, ee) }> }""",
        [(
            {"M": i(3), "a": d(1.5), "b": np.float16(1.5), "c": np.int8(3), "d": b(1), "e": np.uint8(80)},
            [d(12.0), np.array(12.0, np.float16), np.array(24, np.int8), b(0), np.array(64, np.uint8)],
        )],
    ),
    "carried_string": (
        """g (int64 M, string[2] x) => (string[2] xf) {
            xf = Loop (M, "", x) <body = bd (int64 i, bool c, string[2] a) => (bool c2, string[2] a2) {
                c2 = Identity(c)  turn = Constant<value_ints = [1, 0]>()  a2 = Gather<axis = 0>(a, turn) }> }""",
        [({"M": i(3), "x": s("one", "two")}, [s("two", "one")]), ({"M": i(2), "x": s("one", "two")}, [s("one", "two")])],
    ),
    "carried_only_first_final": (
        """g (int64 M, float x, float y) => (float xf) {
            xf, yf = Loop (M, "", x, y) <body = bd (int64 i, bool c, float a, float b) => (bool c2, float a2, float b2) {
                c2 = Identity(c)  one = Constant<value = float {1.0}>()  a2 = Add(a, b)  b2 = Add(b, one) }> }""",
        [({"M": i(3), "x": f(1.0), "y": f(1.0)}, [f(7.0)])],
    ),
    "bfloat16": (
        """g (int64 M, bfloat16 x) => (bfloat16 xf, bfloat16[n] xs) {
            xf, xs = Loop (M, "", x) <body = bd (int64 i, bool c, bfloat16 a) => (bool c2, bfloat16 a2, bfloat16 a3) {
                c2 = Identity(c)  a2 = Add(a, a)  a3 = Identity(a2) }> }""",
        [({"M": i(3), "x": np.array(1.5, ml_dtypes.bfloat16)}, [np.array(12, ml_dtypes.bfloat16), np.array([3, 6, 12], ml_dtypes.bfloat16)])],
    ),
    "carried_sequence_ragged": (
        """g (int64 M, float x) => (seq(float[n]) out) {
            empty = SequenceEmpty<dtype = 1>()
            zero = Constant<value = int64[1] {0}>()  big = Constant<value = float[3] {1.0, 2.0, 3.0}>()
            out = Loop (M, "", empty) <body = bd (int64 i, bool c, seq(float[n]) q) => (bool c2, seq(float[n]) q2) {
                c2 = Identity(c)  one = Constant<value = int64 {1}>()  i1 = Add(i, one)  axes = Constant<value_ints = [0]>()
                end = Unsqueeze(i1, axes)  part = Slice(big, zero, end)  q2 = SequenceInsert(q, part) }> }""",
        [({"M": i(3), "x": f(1.0)}, [[f([1.0]), f([1.0, 2.0]), f([1.0, 2.0, 3.0])]]), ({"M": i(0), "x": f(1.0)}, [[]])],
    ),
    "tf_tensorarray_write_any_order": (
        """g (int64[m] order) => (float[4] out) {
            z = Constant<value = float[4] {0.0, 0.0, 0.0, 0.0}>()  vals = Constant<value = float[3] {10.0, 20.0, 30.0}>()
            M = Size(order)
            out = Loop (M, "", z) <body = bd (int64 i, bool c, float[4] a) => (bool c2, float[4] a2) {
                c2 = Identity(c)  axes = Constant<value_ints = [0]>()
                w = Gather(order, i)  wi = Reshape(w, two)  v = Gather(vals, i)  vi = Unsqueeze(v, axes)
                a2 = ScatterND(a, wi, vi)  two = Constant<value_ints = [1, 1]>() }> }""",
        [({"order": i(2, 1, 0)}, [f([30.0, 20.0, 10.0, 0.0])]), ({"order": i([3])}, [f([0.0, 0.0, 0.0, 10.0])])],
    ),
    "zero-size carried value": (
        """g (int64 M, float[0,3] x) => (float[0,3] y, float[n,0,3] r) {
            y, r = Loop (M, "", x) <body = bd (int64 i, bool c, float[0,3] a) => (bool c, float[0,3] a2, float[0,3] a3) {
                a2 = Add(a, a)  a3 = Neg(a2) }> }""",
        [({"M": i(2), "x": np.zeros((0, 3), np.float32)}, [np.zeros((0, 3), np.float32), np.zeros((2, 0, 3), np.float32)])],
    ),
    "equal initial values, several names for one value": (
        """g (int64 M, float x) => (float p, float q, float x) {
            p, q = Loop (M, "", x, x) <body = bd (int64 i, bool c, float a, float b) => (bool c, float s, float s) {
                s = Add(a, b) }> }""",
        [({"M": i(2), "x": f(1.0)}, [f(4.0), f(4.0), f(1.0)])],
    ),
}  # fmt: skip

RECORDED: dict[str, tuple[str, list[tuple[dict[str, Any], list[Any]]]]] = {
    "scan_ranks": (
        """g (int64 M, float x) => (float[n] a, float[n,2] b, float[n,2,3] c, float[n,1,1,1] d) {
            a, b, c, d = Loop (M, "") <body = bd (int64 i, bool k) => (bool k2, float a, float[2] b, float[2,3] c, float[1,1,1] d) {
                k2 = Identity(k)  a = Identity(x)  s2 = Constant<value_ints = [2]>()  s3 = Constant<value_ints = [2, 3]>()
                s1 = Constant<value_ints = [1, 1, 1]>()  b = Expand(x, s2)  c = Expand(x, s3)  d = Expand(x, s1) }> }""",
        [
            ({"M": i(3), "x": f(2.0)}, [np.full((3, *shape), 2.0, np.float32) for shape in ((), (2,), (2, 3), (1, 1, 1))]),
            ({"M": i(0), "x": f(2.0)}, [np.full((0, *shape), 2.0, np.float32) for shape in ((), (2,), (2, 3), (1, 1, 1))]),
        ],
    ),
    "one iteration of a row that would change its shape": (
        """g (int64 M, float[n] x) => (float[m] y, float[k,l] r) {
            y, r = Loop (M, "", x) <body = bd (int64 i, bool c, float[p] a) => (bool c2, float[q] a2, float[q] row) {
                c2 = Identity(c)  a2 = Concat<axis = 0>(a, a)  row = Identity(a2) }> }""",
        [({"M": i(1), "x": f([1.0])}, [f([1.0, 1.0]), f([[1.0, 1.0]])])],
    ),
    "the same value recorded twice": (
        """g (int64 M, float x) => (float y, float[n] r, float[n] q) {
            y, r, q = Loop (M, "", x) <body = bd (int64 i, bool c, float a) => (bool c, float s, float s, float s) {
                s = Add(a, a) }> }""",
        [({"M": i(2), "x": f(1.0)}, [f(4.0), f([2.0, 4.0]), f([2.0, 4.0])])],
    ),
    "loop_chain_trip_from_loop": (
        """g (int64 M, int64 x) => (int64[n] r) {
            k = Loop (M, "", x) <body = b1 (int64 i, bool c, int64 a) => (bool c2, int64 a2) {
                c2 = Identity(c)  two = Constant<value = int64 {2}>()  a2 = Add(a, two) }>
            r = Loop (k, "") <body = b2 (int64 i, bool c) => (bool c2, int64 row) {
                c2 = Identity(c)  row = Mul(i, i) }> }""",
        [({"M": i(3), "x": i(0)}, [i([0, 1, 4, 9, 16, 25])]), ({"M": i(0), "x": i(0)}, [i([])])],
    ),
}  # fmt: skip


MILLION = pytest.param("large_trip_count", marks=pytest.mark.slow)
DOCUMENTED = [MILLION if n == MILLION.values[0] else n for n in (*MODES, *CARRIED, *RECORDED)]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_loop_has_the_results_of_the_specification(name: str, tmp_path: Path) -> None:
    graph, runs = {**MODES, **CARRIED, **RECORDED}[name]
    for inputs, expected in runs:
        feeds = {key: np.asarray(value) for key, value in inputs.items()}
        check(parse_graph(graph), feeds, expected, tmp_path)


ENDLESS = """g (float x) => (float xf) { xf = Loop ("", "", x) <body = bd (int64 it, bool c, float a) => (bool c2, float a2) {
    one = Constant<value = float {1.0}>()  a2 = Add(a, one)  c2 = Less(a2, a) }> }"""


def test_an_endless_loop_ends_at_the_bound(tmp_path: Path) -> None:
    check(parse_graph(ENDLESS), {"x": f(0.0)}, [f(7.0)], tmp_path, max_iterations=7)


REFUSED = {
    "trip_two_elements": (
        """g (int64[2] M, float x) => (float y) {
            y = Loop (M, "", x) <body = bd (int64 i, bool c, float a) => (bool c, float a2) { a2 = Add(a, a) }> }""",
        {"M": i(2, 3), "x": f(1.0)}, "trip count",
    ),
    "scan_shape_changes_error": (
        """g (int64 M, float[n] x) => (float[m] y, float[k,l] r) {
            y, r = Loop (M, "", x) <body = bd (int64 i, bool c, float[p] a) => (bool c2, float[q] a2, float[q] row) {
                c2 = Identity(c)  a2 = Concat<axis = 0>(a, a)  row = Identity(a2) }> }""",
        {"M": i(2), "x": f([1.0])}, "row",
    ),
    "text is not recorded": (
        """g (int64 M, string[2] x) => (string[n,2] r) {
            r = Loop (M, "") <body = bd (int64 i, bool c) => (bool c2, string[2] row) {
                c2 = Identity(c)  row = Identity(x) }> }""",
        {"M": i(2), "x": s("one", "two")}, "'row' is text",
    ),
    "body_value_not_visible": (
        """g (int64 M, float x) => (float my_local) {
            y = Loop (M, "", x) <body = bd (int64 i, bool c, float a) => (bool c2, float a2) {
                c2 = Identity(c)  my_local = Add(a, a)  a2 = Identity(my_local) }> }""",
        {"M": i(2), "x": f(1.0)}, "my_local",
    ),
    "arity_too_few_body_inputs": (
        """g (int64 M, float x, float y) => (float xf, float yf) {
            xf, yf = Loop (M, "", x, y) <body = bd (int64 i, bool c, float a) => (bool c2, float a2, float b2) {
                c2 = Identity(c)  a2 = Add(a, a)  b2 = Neg(a) }> }""",
        {"M": i(2), "x": f(1.0), "y": f(1.0)}, "4 inputs",
    ),
    "missing_cond_output": (
        """g (int64 M, float x) => (float xf) {
            xf = Loop (M, "", x) <body = bd (int64 i, bool c, float a) => (float a2) { a2 = Add(a, a) }> }""",
        {"M": i(2), "x": f(1.0)}, "condition",
    ),
    "carried_dtype_change": (
        """g (int64 M, float x) => (int64 xf) {
            xf = Loop (M, "", x) <body = bd (int64 i, bool c, float a) => (bool c2, int64 a2) {
                c2 = Identity(c)  a2 = Cast<to = 7>(a) }> }""",
        {"M": i(2), "x": f(1.0)}, "float32.* int64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_loops_are_refused(name: str, tmp_path: Path) -> None:
    graph, inputs, sentence = REFUSED[name]
    with pytest.raises(LoopError, match=f"(?s){sentence}"):
        compile_by_yaml(parse_graph(graph), tmp_path).run(inputs)
