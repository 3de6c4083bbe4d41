"""Break, continue and nested control flow as models (R4.30), compared with the programs in Python.

`break` is the body's condition; `continue` and `if` are a choice whose other branch passes values
through; `elif` is a choice in a branch, or a case_of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.models.control import Graph, body, case, choose, give, model, repeat

Program = tuple[dict[str, Any], Callable[..., Any], list[dict[str, Any]], Any]


def nested_branch(choice: Any, **functions: Any) -> Graph:
    """Return a branch whose output is the output of `choice`."""
    return Graph({"r": "inner"}, {**functions, "inner": choice})


# --- the programs: model, Python, inputs, results worked out by hand ----------------------------------


def break_at_a_limit() -> Program:
    """Return the program `for i in range(n): x += i; if x > limit: break`."""

    def python(x: Any, n: int, limit: float) -> Any:
        for i in range(n):
            x += i
            if x > limit:
                break
        return x

    step = body("i go x", {"more": "next <= limit", "y": "next"}, next="x + i")
    m = model({"y": "loop"}, loop=repeat(step, ["x"], M="n", cond=True))
    return m, python, [{"x": 0, "n": 100, "limit": 40}, {"x": 5, "n": 3, "limit": 40}], [45, 8]


def break_before_the_update() -> Program:
    """Return the program `while True: if x * 2 > limit: break; x = x * 2`."""

    def python(x: Any, limit: Any) -> Any:
        while True:
            if x * 2 > limit:
                break
            x = x * 2
        return x

    step = body(
        "i go x", {"stay": "stay", "y": "kept"}, stay="x * 2 <= limit",
        kept=choose("stay", give(r="x * 2"), give("x")),
    )  # fmt: skip
    m = model({"y": "loop"}, loop=repeat(step, ["x"], cond=True))
    return m, python, [{"x": 3, "limit": 100}, {"x": 7.0, "limit": 5.0}], [96, 7]


def continue_over_odd_numbers() -> Program:
    """Return the program `for i in range(n): if i % 2: continue; s += i`."""

    def python(n: int) -> Any:
        s = 0
        for i in range(n):
            if i % 2:
                continue
            s += i
        return s

    step = body(
        "i go s", {"go": "go", "t": "kept"}, kept=choose("i % 2", give("s"), give(r="s + i"))
    )
    m = model({"y": "loop"}, loop=repeat(step, [0], M="n"))
    return m, python, [{"n": 10}, {"n": 0}], [20, 0]


def continue_and_break() -> Program:
    """Return `for i in range(20): if i % 3 == 0: continue; if s > limit: break; s += i`."""

    def python(limit: int) -> Any:
        s = 0
        for i in range(20):
            if i % 3 == 0:
                continue
            if s > limit:
                break
            s += i
        return s

    step = body(
        "i go s",
        {"more": "kept[1]", "t": "kept[0]"},
        yes="i >= 0",
        kept=choose(
            "i % 3 == 0",
            give("s", "yes"),
            Graph(
                {"r": "c", "on": "s <= limit"},
                {"c": choose("s > limit", give("s"), give(r="s + i"))},
            ),
        ),
    )
    m = model({"y": "loop"}, loop=repeat(step, [0], M=20, cond=True))
    return m, python, [{"limit": 15}, {"limit": 1000}], [19, 127]


def if_elif_else() -> Program:
    """Return `if x > 10: x - 10; elif x > 5: x * 2; elif x > 0: x + 100; else: -x`."""

    def python(x: float) -> Any:
        if x > 10:
            return x - 10
        if x > 5:
            return x * 2
        return x + 100 if x > 0 else -x

    third = nested_branch(choose("x > 0", give(r="x + 100"), give(r="-x")))
    second = nested_branch(choose("x > 5", give(r="x * 2"), third))
    m = model({"y": "pick"}, pick=choose("x > 10", give(r="x - 10"), second))
    arguments: list[dict[str, Any]] = [{"x": x} for x in (12.0, 7.0, 2.0, -3.0)]
    return m, python, arguments, [2, 14, 102, 3]


def elif_in_a_for() -> Program:
    """Return a loop of 6 iterations that selects x += 1, x *= 2 or x -= 3 by i % 3."""

    def python(x: int) -> Any:
        for i in range(6):
            if i % 3 == 0:
                x += 1
            elif i % 3 == 1:
                x *= 2
            else:
                x -= 3
        return x

    ways = [give(r="x + 1"), give(r="x * 2"), give(r="x - 3")]
    step = body("i go x", {"go": "go", "y": "pick"}, pick=case("i % 3", ways))
    return model({"y": "loop"}, loop=repeat(step, ["x"], M=6)), python, [{"x": 4}], [13]


def while_in_for() -> Program:
    """Return the program `for i in range(4): j = 0; while j < i: s += i * j; j += 1`."""

    def python(s: int) -> Any:
        for i in range(4):
            j = 0
            while j < i:
                s += i * j
                j += 1
        return s

    inner = repeat(
        body("n go j s", {"more": "j + 1 < i", "k": "j + 1", "t": "s + i * j"}), [0, "s"],
        cond="i > 0",
    )  # fmt: skip
    step = body("i go s", {"go": "go", "t": "inner[1]"}, inner=inner)
    return model({"y": "loop"}, loop=repeat(step, ["s"], M=4)), python, [{"s": 1}], [12]


def for_in_while() -> Program:
    """Return the program `while x < limit: for i in range(3): x += i + 1`."""

    def python(x: int, limit: int) -> Any:
        while x < limit:
            for i in range(3):
                x += i + 1
        return x

    inner = repeat(body("i go x", {"go": "go", "y": "x + i + 1"}), ["x"], M=3)
    step = body("n go x", {"more": "inner < limit", "y": "inner"}, inner=inner)
    m = model({"y": "loop"}, loop=repeat(step, ["x"], cond="x < limit"))
    return m, python, [{"x": 0, "limit": 20}, {"x": 30, "limit": 20}], [24, 30]


def break_of_the_inner_loop_only() -> Program:
    """Return the program `for i in range(5): for j in range(5): if j > i: break; s += 1`."""

    def python(s: int) -> Any:
        for i in range(5):
            for j in range(5):
                if j > i:
                    break
                s += 1
        return s

    inner = repeat(
        body(
            "j go s",
            {"more": "j <= i", "t": "kept"},
            kept=choose("j > i", give("s"), give(r="s + 1")),
        ),
        ["s"],
        M=5,
        cond=True,
    )
    step = body("i go s", {"go": "go", "t": "inner"}, inner=inner)
    return model({"y": "loop"}, loop=repeat(step, ["s"], M=5)), python, [{"s": 0}], [15]


def break_of_both_loops() -> Program:
    """Return a search for i * j == product, in which the first match ends both loops."""

    def python(product: int) -> Any:
        for i in range(1, 8):
            for j in range(1, 8):
                if i * j == product:
                    return 10 * i + j
        return 0

    inner = repeat(
        body(
            "b go pair",
            {"more": "found == 0", "p": "found"},
            found=choose("a * (b + 1) == product", give(r="10 * a + b + 1"), give("pair")),
        ),
        ["pair"],
        M=7,
        cond=True,
    )
    step = body("i go pair", {"more": "inner == 0", "p": "inner"}, a="i + 1", inner=inner)
    m = model({"y": "loop"}, loop=repeat(step, [0], M=7, cond=True))
    return m, python, [{"product": 12}, {"product": 49}, {"product": 50}], [26, 77, 0]


def while_in_if() -> Program:
    """Return the program `if x < 0: while x < 0: x += step; else: while x > step: x -= step`."""

    def python(x: float, step: float) -> Any:
        if x < 0:
            while x < 0:
                x += step
        else:
            while x > step:
                x -= step
        return x

    up = repeat(body("i go x", {"more": "n < 0", "y": "n"}, n="x + step"), ["x"], cond="x < 0")
    down = repeat(
        body("i go x", {"more": "n > step", "y": "n"}, n="x - step"), ["x"], cond="x > step"
    )
    m = model({"y": "pick"}, pick=choose("x < 0", nested_branch(up), nested_branch(down)))
    arguments: list[dict[str, Any]] = [{"x": x, "step": 2.0} for x in (-5.0, 5.0, 1.0)]
    return m, python, arguments, [1, 1, 1]


def early_return() -> Program:
    """Return the first i in 10 iterations of x = x * 0.5 + 1 with |x - 2| < tolerance, else -1."""

    def python(x: float, tolerance: float) -> Any:
        for i in range(10):
            x = x * 0.5 + 1
            if abs(x - 2) < tolerance:
                return i
        return -1

    step = body(
        "i go x at",
        {"more": "at_next < 0", "x_next": "n", "at_out": "at_next"},
        n="x * 0.5 + 1",
        at_next=choose("abs(n - 2) < tolerance", give("i"), give("at")),
    )
    m = model({"y": "loop[1]"}, loop=repeat(step, ["x", -1], M=10, cond=True))
    return m, python, [{"x": 10.0, "tolerance": 0.3}, {"x": 10.0, "tolerance": 1e-9}], [4, -1]


def sum_after_a_flag() -> Program:
    """Return a program that sums i after the first iteration with i * i > limit."""

    def python(n: int, limit: int) -> Any:
        s, flag = 0, False
        for i in range(n):
            if flag:
                s += i
            elif i * i > limit:
                flag = True
        return s

    step = body(
        "i go s flag",
        {"go": "go", "t": "kept[0]", "saw": "kept[1]"},
        kept=choose("flag", give(t="s + i", saw="flag"), give(t="s", saw="i * i > limit")),
    )
    m = model({"y": "loop[0]"}, loop=repeat(step, [0, False], M="n"))
    return m, python, [{"n": 8, "limit": 10}, {"n": 3, "limit": 10}], [18, 0]


def two_values_swap() -> Program:
    """Return the greatest common divisor, `while b: a, b = b, a % b`."""

    def python(a: int, b: int) -> Any:
        while b:
            a, b = b, a % b
        return a

    step = body("i go a b", {"more": "r > 0", "b_out": "b", "r_out": "r"}, r="a % b")
    m = model({"y": "loop[0]"}, loop=repeat(step, ["a", "b"], cond="b"))
    return m, python, [{"a": 48, "b": 36}, {"a": 7, "b": 0}], [12, 7]


def collatz_peak() -> Program:
    """Return the largest x of the Collatz iteration `x = x // 2 if even else 3 x + 1`."""

    def python(x: int) -> Any:
        peak = x
        while x != 1:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            peak = max(peak, x)
        return peak

    step = body(
        "i go x peak",
        {"more": "n != 1", "x_next": "n", "p": "top"},
        n=choose("x % 2 == 0", give(r="x // 2"), give(r="3 * x + 1")),
        top=choose("n > peak", give("n"), give("peak")),
    )
    m = model({"y": "loop[1]"}, loop=repeat(step, ["x", "x"], cond="x != 1"))
    return m, python, [{"x": 7}, {"x": 1}], [52, 1]


PROGRAMS = (
    break_at_a_limit,
    break_before_the_update,
    continue_over_odd_numbers,
    continue_and_break,
    if_elif_else,
    elif_in_a_for,
    while_in_for,
    for_in_while,
    break_of_the_inner_loop_only,
    break_of_both_loops,
    while_in_if,
    early_return,
    sum_after_a_flag,
    two_values_swap,
    collatz_peak,
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_r4_30_break_continue_and_nested_control_flow(run_everywhere, program: Any) -> None:
    m, python, inputs, expected = program()
    for arguments, result in zip(inputs, expected, strict=True):
        assert python(**arguments) == result
        assert run_everywhere(m, arguments)["m.y"] == result
