"""Operators, subscripts and the language of expressions, against Python's own `eval`.

Among them the family `builtins`.
"""

import operator
from contextlib import nullcontext, suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from mdf_loop.errors import (
    ArityError,
    ExpressionError,
    LoopError,
    OperandError,
    RunError,
    UnknownNameError,
)
from mdf_loop.lower import Scope, lower_expression, names_in
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.syntax import MAX_EXPRESSION_CHARACTERS, parse_number
from tests.lower.lower_machine import (
    assert_like_python,
    assert_same,
    flat,
    lowered,
    lowered_unless,
    python_value,
)
from tests.soak import times
from tests.strategies.expressions import expressions

DTYPES = [
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bool",
]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^"]
COMPUTE = dict(
    zip(
        OPERATORS,
        (
            *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
            *(operator.mod, operator.pow, operator.lt, operator.le, operator.gt, operator.ge),
            *(operator.eq, operator.ne, operator.and_, operator.or_, operator.xor),
        ),
        strict=True,
    )
)
REFUSED_BITS = "combines truth values here"


def _array(dtype):
    return np.array([1, 0, 1] if dtype == "bool" else [7, 3, 5], dtype)


@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("left", DTYPES)
def test_promotion_of_arrays_and_plain_numbers(symbol, left):
    for right in ("2", "2.5", "True", "y8", "y16", "f32", "i64", "k"):
        inputs = {
            "x": _array(left),
            "y8": _array("int8"),
            "y16": _array("float16"),
            "f32": _array("float32"),
            "i64": _array("int64"),
            "k": np.array([True, True, True]),
        }
        text = f"x {symbol} {right}"
        try:
            expected = python_value(text, inputs)
        except TypeError:
            with pytest.raises(LoopError):
                lowered(text, **inputs)
            continue
        program = lowered_unless([REFUSED_BITS], text, **inputs)
        if program is None:
            continue
        (ours,) = program.interpret()
        if np.dtype(left).kind == "b" and right in ("True", "k") and symbol in ("//", "%", "**"):
            ours = ours.astype(np.int8)  # numpy computes truth values in 8 bits
        if left == "bool" and symbol == "**":
            ours = ours.astype(expected.dtype)
        if left == "bool" and symbol == "/" and right in ("y8", "y16", "f32"):
            expected = expected.astype(ours.dtype)
        tolerance = 4e-15 if expected.dtype != np.float16 else 1e-3
        assert_same([ours], [np.asarray(expected)], rtol=tolerance, hint=text)


X = {
    "x": 2.5,
    "y": -1.5,
    "n": 7,
    "k": True,
    "z": 0.0,
    "m": np.arange(12.0).reshape(3, 4) - 5,
    "v": np.array([-7, -1, 0, 3, 8]),
    "w": np.array([2, -3, 5, -2, 3]),
    "f": np.array([-7.5, -1.0, 0.0, 3.25, 8.5]),
    "g": np.array([2.0, -0.75, 5.5, -2.0, 3.0]),
    "t": np.arange(24.0).reshape(2, 3, 4),
    "i": np.array([2, 0]),
    "j": np.array([1, -1]),
    "p": 1,
    "a": np.array([0.5]),
    "u8": np.array([200, 100], np.uint8),
    "c": np.array([True, False, True]),
}
SCALARS = """
x + y | x - 2 | 2 * x | x / y | n / 2 | n // 2 | -n // 2 | n % 3 | -n % 3 | x % y | x // y | y % x | y // x | x ** 2 | 2 ** x | n ** 2 | -x ** 2 | -x | +x | not x | not z
x < y | x <= 2.5 | n == 7 | n != 7.0 | -2 < y < 0 < x | x > y > 0 | 1 < n <= 7 != 8 | x if x > y else y | 1 if n else 2 | x if n > 10 else 0.5 | (n if k else 3) * 2
x and y | z and x | x or y | z or x | x > 0 and y > 0 | x > 0 or y > 0 | z or 5.5 | 0 or x | 1 and x | 0 and unknown | 5 or unknown | k and n > 3 | not (x > y) | not k
k + k | k * 3 | k - k | -k | k + 1.5 | abs(y) | (x > 0) + (y > 0) | 1 * (x > 0) | (x > 0) & (y < 0) | (x > 0) | (y > 0) | (x > 0) ^ (y > 0) | ~n | x == k
"""
PLAIN = """
2 + 3 * 4 | 7 / 2 | -7 // 2 | -7 % 3 | 7.5 % -2 | 2 ** 10 | 2 ** -1 | 2 ** 0.5 | 1e3 | 1_000 + 1 | 0x1f | 5 & 3 | 5 | 2 ^ 3 | 1 << 4 | -17 >> 2 | ~5 | +True | -True | not 0 | 1 < 2 < 3 | 3 > 2 > 2
(1, 2)[1] | [1, 2, 3][-1] | [1, 2, 3][p] | 2 if 1 > 0 else 3 | abs(-3) | max(1, 2.5) | 10 ** 18 | 2 ** 62 | (-1) ** 1001 | 0 ** 0 | 1.5e308 * 1 | True and 5 | 0 or 7 | (2, 3 * 4) | round(7 / 2)
"""
ARRAYS = """
v // w | v % w | v // 3 | v % -3 | f // g | f % g | f // 2 | f % -2.5 | f // 0.0 | v / w | v * 1.5 | v ** 2 | f ** 2 | f ** 0.5 | 2.0 ** v | v - w | -v | -f | abs(f) | v < w | v == 3 | v != w | 0 < f
u8 + 1 | u8 + u8 | u8 * 2 | -u8 | u8 > 300 | u8 != -1 | u8 == 200 | ~u8 | ~c | c & (x > 0) | c | ~c | c ^ c | c + c | c * c | (v > 0) * f | 1 * (v > 0) + 2 * (v < 0) | m @ t[0, 0] | t @ m[0] | f + x | x * v + y
a and x * a | a or z * a | a > 0 and a < 1 | -1 < a < 1 | a if a > 0 else z * a | numpy.array([x, y, 1]) | numpy.array([[x, 1], [n, 2]]) | (x, f) | v * [1, 2, 3, 4, 5] | f + numpy.array([1, 2, 3, 4, 5]) | f if x > 0 else g
"""
SUBSCRIPTS = """
v[0] | v[-1] | v[p] | v[-p] | v[1:3] | v[:2] | v[-2:] | v[::2] | v[::-1] | v[3:0:-1] | v[3:-1:-1] | v[-2::-2] | v[10:] | v[:-10] | v[5:2] | v[:] | v[p:] | v[:p + 2] | v[p:p + 2] | v[-100:100] | v[4:100:-1]
m[1] | m[1, 2] | m[-1, -1] | m[1][2] | m[:, 1] | m[1, :] | m[:, 1:3] | m[::-1, ::2] | m[..., 0] | m[0, ...] | m[...] | t[..., 1:, 0] | t[1, ..., 2] | m[None] | m[:, None] | m[None, :, None, 0] | m[numpy.newaxis, 1] | v[None, ..., None]
v[[0, 2]] | v[[-1]] | v[i] | m[i] | m[:, i] | m[i, 1] | m[1, i] | m[[[0, 1], [2, 0]]] | m[i, j] | m[[0, 1], [1, -1]] | t[i * 0, j] | t[i * 0, i, j] | m[[[0], [2]], [0, 1]] | t[:, :, i] | t[:, 1, i] | t[1, i] | m[i[0], j[1]]
v[v > 0] | m[m > 0] | m[c] | m[:, [True, False, False, True]] | f[f != f] | m[n // 7, p] | numpy.sum(m[:, 0]) + m[0, 0] | (x, y)[0] | (x, y, n)[-1] | [x, v[1]][1] | t[0][1][2] | (x, y, n)[:2] | (x, y, n)[::-1] | m[p][p] | v[True * 1]
"""


def rows(table):
    """Return the rows of a table, separated by ' | ' or line ends; `|` inside a row has no spaces."""
    return [row.strip() for line in table.strip().splitlines() for row in line.split(" | ")]


@pytest.mark.parametrize("text", [*rows(SCALARS), *rows(PLAIN), *rows(ARRAYS), *rows(SUBSCRIPTS)])
def test_expressions_equal_python(text):
    assert_like_python(text, **X)


@pytest.mark.parametrize("text", rows(SUBSCRIPTS))
def test_subscripts_for_extents_known_only_at_run_time(text):
    assert_same(
        lowered(text, dynamic=True, **X).interpret(), flat(python_value(text, X)), hint=text
    )


def test_bitwise_operators_of_booleans_and_python_numbers():
    for text in ("(x > 0)|(y > 0)", "c|~c", "5|2", "(f > 0)|(g > 0)"):
        assert_like_python(text, **X)


def test_documents_may_contain_numbers_lists_and_texts():
    b, scope = ModelBuilder(), Scope()
    for value, expected in [
        (5, 5),
        (2.5, 2.5),
        (True, True),
        ([1, 2], [1, 2]),
        ([[1.0], [2.0]], [[1.0], [2.0]]),
        ("5", 5),
        ("-5", -5),
        (" 1e-3", 0.001),
        ("1_000", 1000),
        (np.float32(2), np.float32(2)),
        ([], []),
        (".5", 0.5),
        ("[1, 2]", [1, 2]),
        ((1, 2), [1, 2]),
    ]:
        value = b.constant_of(lower_expression(b, value, scope))
        assert_same([value], [np.asarray(expected)])
    assert isinstance(lower_expression(b, ["1", "2 * 3"], scope), tuple)
    assert parse_number("inf") is None
    assert parse_number("e") is None


def test_exact_names_have_precedence():
    b = ModelBuilder()
    scope = Scope(
        {"x.3": b.constant(3), "5": b.constant(4), "a/b": b.constant(5), "lambda": b.constant(6)}
    )
    for name, number in (("x.3", 3), ("5", 4), ("a/b", 5), ("lambda", 6), (" a/b ", 5)):
        assert b.constant_of(lower_expression(b, name, scope)) == number


def test_the_names_of_an_expression_are_listed():
    assert names_in("a + b[c] * numpy.exp(x.y)") >= {"a", "b", "c", "x", "numpy.exp"}
    assert names_in("5") == set()
    assert names_in(5) == set()
    assert names_in(["a", ["b + c"]]) >= {"a", "b", "c"}
    assert names_in("a +") == {"a +"}
    assert names_in(None) == set()


def test_long_sums_do_not_exceed_the_nesting_limit():
    text = " + ".join(["x"] * 900)
    assert lowered(text, x=np.float64(0.5)).interpret()[0] == 450.0
    text = "abs(" * 100 + "x" + ")" * 100
    assert lowered(text, x=np.float64(-0.5)).interpret()[0] == 0.5


HOSTILE = [
    ("__import__('os')", "unknown function '__import__'"),
    ("__import__('os').system('true')", "'__import__('os').system' is not a function"),
    ("().__class__.__bases__", "values have no attributes: '.__bases__' is not allowed"),
    ("x.__class__", "values have no attributes: '.__class__'"),
    (
        "x.real",
        "values have no attributes: '.real' is not allowed",
    ),
    ("x.sum()", "'x.sum' is a value, not a function (in 'x.sum()')\n  hint: write 'numpy.sum(x)'"),
    ("x(3)", "'x' is a value, not a function"),
    ("numpy.load('f')", "unknown function 'numpy.load'"),
    ("numpy.linalg.__dict__", "unknown name 'numpy.linalg.__dict__'"),
    ("open('/etc/passwd')", "unknown function 'open'"),
    ("exec('1')", "unknown function 'exec'"),
    ("(lambda: 1)()", "'lambda: 1' is not a function"),
    ("lambda: 1", "a function of its own (lambda) is not allowed in a value expression (column 1)"),
    ("[q for q in x]", "a comprehension (for ... in ...) is not allowed"),
    ("{q: 1 for q in x}", "a comprehension"),
    ("sum(q for q in x)", "a comprehension"),
    ("(y := 5)", "an assignment (:=) is not allowed in a value expression (column 2)"),
    ("f'{x}'", "a text with values in it is not allowed"),
    ("'text'", "'text' is not a number or truth value"),
    ("b'1'", "is not a number or truth value"),
    ("1j", "1j is not a number or truth value"),
    ("None", "None is not a number or truth value"),
    ("...", "is not a number or truth value"),
    ("{1: 2}", "a dictionary is not allowed"),
    ("{1, 2}", "a set is not allowed"),
    ("numpy.maximum(*v)", "a list spread with '*' is not allowed"),
    ("numpy.exp(**v)", "'**' is not allowed in a call"),
    (
        "x in v",
        "the comparison 'in' is not allowed in a value expression (column 1) (in 'x in v')\n  hint: write numpy.any(list == x)",
    ),
    ("x is None", "the comparison 'is' is not allowed"),
    ("await x", "'Await' is not allowed"),
    ("9**9**9", "the result is too large for a number"),
    ("9**9**9**9", "the result is too large"),
    ("2.0**10**9", "the result is too large"),
    ("10**30", "the result is too large"),
    (
        "10**19",
        "a whole number of 64 bits does not fit into 64 bits (in '10**19')\n  hint: give it a point",
    ),
    ("1 << 10**15", "the result is too large"),
    ("1 << -1", "negative shift count (for 1, -1)"),
    ("1 / 0", "division by zero"),
    ("5 % 0", "division by zero"),
    ("0.0 ** -1", "division by zero"),
    ("(-8) ** 0.5", "the result is a complex number"),
    ("1e400 * 2 if False else 1e308 ** 2", "the result is too large"),
    ("9" * 5000, "cannot read the expression"),
    ("x +", "cannot read the expression 'x +'"),
    ("x = 3", "cannot read the expression"),
    ("", "the expression is empty"),
    ("   ", "the expression is empty"),
    ("x y", "cannot read the expression 'x y' at column"),
    ("import os", "cannot read the expression 'import os' at column 1\n  hint: expressions are"),
    (
        "2 * lambda",
        "at column 5: 'lambda' is a Python keyword and cannot be a name\n  hint: rename",
    ),
    ("(in, 2)", "wherever it is used, e.g. to 'in_'"),
    ("in + lambda", "'in' is a Python keyword and cannot be a name"),
    ("in + x y", "cannot read the expression 'in + x y' at column 1\n  hint: expressions are"),
    ("+".join(["in"] * 20_000), "cannot read the expression"),
    ("x\x00y", "cannot read the expression"),
    ("-" * 100_000 + "x", "nested too deeply"),
    ("x" + ".y" * 100_000, "nested too deeply"),
    ("x if x else " * 20_000 + "x", "nested too deeply"),
    ("+".join(["x"] * 400_000), "nested too deeply"),
    ("x" * (10 * MAX_EXPRESSION_CHARACTERS), "an expression of 10000000 characters is too long"),
    ("[" * 5000 + "]" * 5000, "cannot read the expression"),
    ("gian * x", "unknown name 'gian' (in 'gian * x')\n  hint: did you mean 'gain'?"),
    ("pi * x", "unknown name 'pi' (in 'pi * x')\n  hint: write 'numpy.pi'"),
    ("exp(x)", "unknown function 'exp' (in 'exp(x)')\n  hint: write 'numpy.exp'"),
    ("np.exp(x)", "unknown function 'np.exp' (in 'np.exp(x)')\n  hint: write 'numpy.exp'"),
    ("numpy.exq(x)", "hint: did you mean 'numpy.exp"),
    ("numpy.pie", "unknown name 'numpy.pie'"),
]


@pytest.mark.parametrize(("text", "sentence"), HOSTILE, ids=[text[:30] for text, _ in HOSTILE])
def test_malicious_and_invalid_expressions_are_refused(text, sentence):
    with pytest.raises(LoopError) as caught:
        lowered(text, x=np.float64(2), v=np.array([1, 2]), gain=1.0)
    assert sentence in str(caught.value)
    assert len(caught.value.findings) == 1
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        (
            "v[5]",
            OperandError,
            "subscript 5 is outside of axis 0 of int64[5] (in 'v[5]')\n  hint: subscripts go from -5 to 4",
        ),
        ("m[0, -5]", OperandError, "subscript -5 is outside of axis 1 of float64[3, 4]"),
        ("m[[0, 7]]", OperandError, "subscript 7 is outside of axis 0"),
        ("m[[0, 3], [0, 0]]", OperandError, "subscript 3 is outside of axis 0"),
        (
            "v[1.0]",
            OperandError,
            "a subscript is a whole number, not float64[] (in 'v[1.0]')\n  hint: round it first, e.g. x[int(i)]",
        ),
        ("v[x]", OperandError, "a subscript is a whole number"),
        ("v[True]", OperandError, "the truth values bool[] cannot choose from int64[5]"),
        ("v[c]", OperandError, "the truth values bool[3] do not fit int64[5]"),
        ("t[:, m > 0]", OperandError, "cannot choose from"),
        ("v[0, 0]", OperandError, "int64[5] has 1 axes, but 2 subscripts"),
        ("x[1]", OperandError, "float64[] has 0 axes, but 1 subscripts"),
        ("v[::0]", ExpressionError, "the step of a slice must be a whole number other than 0"),
        ("v[::p]", ExpressionError, "known when compiled"),
        ("v[x:]", OperandError, "the ends of a slice are whole numbers, not float64[]"),
        ("v[..., ...]", ExpressionError, "more than one '...'"),
        ("t[i, :, j]", ExpressionError, "several index arrays must stand first"),
        ("t[1, :, i]", ExpressionError, "on both sides of a slice"),
        ("m[c, i]", ExpressionError, "truth values cannot choose together"),
        ("(x, y)[2]", ArityError, "result 2 does not exist: there are 2 results (numbered 0 to 1)"),
        ("(x, y)[0.5]", OperandError, "a subscript is a whole number, not 0.5"),
        ("(x, y)[p:]", ExpressionError, "which results are meant must be known"),
        (
            "v if v > 0 else w",
            OperandError,
            "the truth of bool[5] is ambiguous: a condition has one element",
        ),
        ("v and w", OperandError, "reduce it first, e.g. numpy.max(...) or numpy.all(...)"),
        ("0 < v < 5", OperandError, "the truth of bool[5] is ambiguous"),
        (
            "v if x > 0 else x",
            OperandError,
            "the two sides of 'if ... else' have different shapes: int64[5] and float64[]",
        ),
        ("c - c", OperandError, "'-' has no meaning for truth values"),
        ("-c", OperandError, "'-' has no meaning for truth values"),
        ("~f", OperandError, "'~' has no meaning for float64[5]"),
        (
            "v & w",
            ExpressionError,
            "'&' combines truth values here, not int64[5] and int64[5] (in 'v & w')\n  hint: compare first, e.g. (a > 0) & (b > 0)",
        ),
        (
            "v << 2",
            ExpressionError,
            "'<<' works on plain numbers only (in 'v << 2')\n  hint: write 'x * 2**n'",
        ),
        (
            "v ** -1",
            OperandError,
            "whole numbers cannot be raised to negative whole powers (in 'v ** -1')\n  hint: make the base a number with a point",
        ),
        ("u8 + 300", OperandError, "the number 300 does not fit into uint8"),
        ("u8 - (-1)", OperandError, "the number -1 does not fit into uint8"),
        (
            "[1, 2] * 2",
            ExpressionError,
            "Python would join or repeat the list here instead of calculating",
        ),
        ("[1] + [2]", ExpressionError, "hint: write numpy.array([...])"),
        ("m + v", OperandError, "onnx::Add cannot take (A: float64[3, 4], B: float64[5])"),
        ("[[1], [2, 3]]", LoopError, "rows have different lengths"),
    ],
)
def test_unsupported_expressions_are_refused(text, kind, sentence):
    with pytest.raises(kind) as caught:
        lowered(text, **X)
    assert sentence in str(caught.value)
    assert len(caught.value.findings) == 1


def test_invalid_document_values_are_refused():
    b = ModelBuilder()
    nested = [1.0]
    for _ in range(3000):
        nested = [nested]
    deep = "x"
    for _ in range(3000):
        deep = [deep]
    for value, sentence in [
        (None, "there is no value here"),
        ({"a": 1}, "a dict is not a value"),
        ([[1], [2, 3]], "is ragged: its rows have different lengths"),
        (10**30, "does not fit into 64 bits"),
        (10**6000, "does not fit into 64 bits"),
        ([10**6000], "is not a number"),
        (object(), "is not a number, truth value or list of numbers"),
        (1j, "is not a number"),
        (deep, "a list is nested too deeply"),
    ]:
        with pytest.raises(LoopError, match=sentence.replace("(", r"\(")):
            lower_expression(b, value, Scope())


def test_a_run_time_power_is_guarded():
    program = lowered("v ** p", v=np.array([2, 3]), p=np.array(-1))
    with pytest.raises(AssertionError, match="negative whole powers"):
        program.interpret()
    assert_like_python("v ** q", v=np.array([2, 3], np.int8), q=np.array([2, 4], np.uint8))


def test_unknown_names_raise_an_unknown_name_error():
    with pytest.raises(UnknownNameError, match="known here: 'a', 'b'"):
        lowered("zz", a=1, b=2)


def test_without_a_similar_name_some_names_are_listed():
    batched_feeds = {f"p{k}": k for k in range(20)}
    with pytest.raises(UnknownNameError, match=r"known here: 'p0', 'p1', .*'p7', \.\.\.$"):
        lowered("tau_w + 1", **batched_feeds)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("20.0mV", "value: 20.0, metadata: {units: mV}"),
        ("-1.5e-3 uS/cm2", "value: -1.5e-3, metadata: {units: uS/cm2}"),
        ("50 %", "value: 50, metadata: {units: '%'}"),
    ],
)
def test_a_number_with_a_unit_gets_a_hint(text, hint):
    with pytest.raises(ExpressionError, match="cannot read the expression") as error:
        lowered(text)
    assert hint in str(error.value)


# --- random expressions ---------------------------------------------------------------------------


RANDOM = {
    "x": np.float64(2.5),
    "y": np.float64(-1.5),
    "n": np.int64(7),
    "m": X["m"],
    "v": X["v"],
    "w": X["w"],
    "f": X["f"],
    "g": X["g"],
}


@pytest.mark.soak
@settings(
    derandomize=True,
    deadline=None,
    max_examples=times(30, 1500),
    suppress_health_check=list(HealthCheck),
)
@given(expressions())
def test_random_expressions(text):
    try:
        expected = flat(python_value(text, RANDOM))
    except (ZeroDivisionError, OverflowError, np.exceptions.AxisError):
        with pytest.raises(LoopError):
            lowered(text, **RANDOM)
        return
    refusals = ["no meaning for truth values", "division by zero", "too large"]
    program = lowered_unless(refusals, text, **RANDOM)
    if program is None:
        return
    divides = any(sign in text for sign in ("//", "%", "divmod"))
    # NumPy returns 0 for an integer divided by zero.
    with suppress(RunError) if divides else nullcontext():
        compare(program, expected, text)


def compare(program, expected, text):
    interpreted = program.interpret()
    if expected[0].dtype.kind in "iu":
        assert_same(interpreted, expected, hint=text)
    else:
        assert_same(interpreted, expected, rtol=1e-11, atol=1e-12, hint=text)
