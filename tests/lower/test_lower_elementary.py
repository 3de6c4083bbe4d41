"""Functions of one and two numbers: `numpy.` and `math.`, against Python.

The families `elementary`, `logic`, `python_math` and `rounding`.
"""

import math

import numpy as np
import pytest

from mdf_loop.errors import LoopError, OperandError, UnsupportedError
from tests.lower.lower_machine import assert_like_python, lowered, python_value

NAN, INF = math.nan, math.inf
REAL = np.array(
    [-INF, -750.0, -3.5, -1.0, -1e-9, -0.0, 0.0, 1e-300, 1e-9, 0.3, 1.0, 2.5, 40.0, 709.0, INF, NAN]
)
UNIT = np.array([-1.0, -0.999, -1e-9, 0.0, 1e-12, 0.4, 1.0, NAN, 2.0])
HALF = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.49, NAN, INF, -7.2])
WHOLE = np.array([-3, -1, 0, 1, 2, 7])
PAIRS = [
    (p, q)
    for p in (-INF, -2.5, -0.0, 0.0, 1.0, 3e200, INF, NAN)
    for q in (-INF, -1.5, 0.0, 2.0, 3e200, INF, NAN)
]
LEFT, RIGHT = (np.array(side) for side in zip(*PAIRS, strict=True))

UNARY = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "cbrt",
    "square",
    "reciprocal",
    "sinh",
    "cosh",
    "tanh",
    "sinc",
    "degrees",
    "radians",
    "rad2deg",
    "deg2rad",
]
TRIGONOMETRIC = [
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "arcsinh",
    "arccosh",
    "arctanh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
]
ROUNDING = [
    "floor",
    "ceil",
    "trunc",
    "fix",
    "rint",
    "round",
    "around",
    "fabs",
    "abs",
    "absolute",
    "positive",
    "sign",
    "isnan",
    "isinf",
    "isfinite",
    "isposinf",
    "isneginf",
    "signbit",
    "nan_to_num",
    "negative",
]
BINARY = [
    "hypot",
    "arctan2",
    "atan2",
    "copysign",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "heaviside",
    "fmod",
    "mod",
    "remainder",
    "floor_divide",
    "divide",
    "true_divide",
    "add",
    "subtract",
    "multiply",
    "float_power",
    "power",
    "pow",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "equal",
    "not_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "isclose",
    "logaddexp",
]


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name):
    assert_like_python(f"numpy.{name}(x)", x=REAL)
    assert_like_python(f"numpy.{name}(x)", x=np.geomspace(1e-300, 1e300, 50))
    assert_like_python(f"numpy.{name}(x)", x=REAL.astype(np.float32))


@pytest.mark.parametrize("name", TRIGONOMETRIC)
def test_functions_of_angles(name):
    assert_like_python(f"numpy.{name}(x)", x=UNIT)


@pytest.mark.parametrize("name", ROUNDING)
def test_rounding_and_signs(name):
    assert_like_python(f"numpy.{name}(x)", x=HALF)
    assert_like_python(f"numpy.{name}(x)", x=np.float64(-1.5))


@pytest.mark.parametrize("name", [*UNARY, *ROUNDING])
def test_functions_of_integers(name):
    x = np.array([1, 2, 7]) if name == "reciprocal" else WHOLE
    assert_like_python(f"numpy.{name}(x)", x=x)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name):
    assert_like_python(f"numpy.{name}(x, y)", x=LEFT, y=RIGHT)
    if name in ("power", "pow"):
        assert_like_python(f"numpy.{name}(x, 3)", x=WHOLE)
        return
    assert_like_python(f"numpy.{name}(x, 2.5)", x=HALF)
    assert_like_python(f"numpy.{name}(x, 2)", x=WHOLE)
    assert_like_python(f"numpy.{name}(7, x)", x=np.array([-3, -1, 2, 5]))


def test_logarithms_of_exact_powers_are_integers():
    twos, tens = (
        2.0 ** np.arange(-1070, 1024),
        np.array([float(f"1e{k}") for k in range(-300, 309)]),
    )
    for text, x in (("numpy.log2(x)", twos), ("numpy.log10(x)", tens)):
        (logarithms,) = lowered(text, x=x).interpret()
        np.testing.assert_array_equal(logarithms, np.rint(logarithms))
        np.testing.assert_array_equal(logarithms, python_value(text, {"x": x}))


def test_angles_of_signed_zeros():
    x, y = np.array([0.0, -0.0, 0.0, -0.0]), np.array([0.0, 0.0, -0.0, -0.0])
    for text in ("numpy.arctan2(y, x)", "numpy.copysign(2.0, x)", "numpy.signbit(x)"):
        (results,) = lowered(text, x=x, y=y).interpret()
        expected = python_value(text, {"x": x, "y": y})
        np.testing.assert_array_equal(results, expected)
        np.testing.assert_array_equal(np.signbit(results), np.signbit(expected))


@pytest.mark.parametrize(
    "text",
    [
        "numpy.clip(x, -1, 1)",
        "numpy.clip(x, None, 2.0)",
        "numpy.clip(x, a_min=0.5, a_max=None)",
        "numpy.clip(x, min=-1.0, max=y)",
        "numpy.where(x > 0, x, y)",
        "numpy.where(x > 0, 1, 0)",
        "numpy.where(x, 1.5, n)",
        "numpy.round(x, 2)",
        "numpy.round(x * 1000, decimals=-2)",
        "numpy.round(n * 37, -1)",
        "numpy.nan_to_num(x, nan=7.0, posinf=1.0, neginf=-1.0)",
        "numpy.modf(x)",
        "numpy.divmod(x, y)",
        "divmod(n, 4)",
        "numpy.isclose(x, y, rtol=0.5, equal_nan=True)",
        "numpy.allclose(x, x)",
        "numpy.allclose(x, x, equal_nan=True)",
        "numpy.array_equal(n, n)",
        "numpy.array_equal(n, x)",
        "numpy.array_equal(n, n[:2])",
        "numpy.logical_not(x)",
        "numpy.invert(n)",
        "numpy.invert(n > 0)",
        "numpy.maximum(n > 0, n < -1)",
        "numpy.sinc(n)",
        "numpy.exp(1.0) * numpy.pi + numpy.e - numpy.euler_gamma + math.tau",
        "numpy.maximum(x, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])",
    ],
)
def test_functions_with_keyword_arguments(text):
    assert_like_python(
        text, x=HALF, y=HALF[::-1].copy(), n=np.array([-3, 0, 1, 2, 4, 5, 6, 7, 8, 9])
    )


MATH_ONE = [
    "exp",
    "expm1",
    "exp2",
    "log1p",
    "log2",
    "log10",
    "log",
    "sqrt",
    "cbrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "atanh",
    "degrees",
    "radians",
    "fabs",
    "isnan",
    "isinf",
    "isfinite",
    "floor",
    "ceil",
    "trunc",
    "modf",
]
MATH_TWO = ["pow", "atan2", "copysign", "fmod", "hypot", "isclose", "log"]


@pytest.mark.parametrize("name", [n for n in MATH_ONE if n != "exp2"])
def test_math_functions_of_one_number(name):
    assert_like_python(f"math.{name}(x)", x=np.float64(0.625))
    assert_like_python(f"math.{name}(0.5)")
    if name != "trunc":  # numpy's float32 has none
        assert_like_python(f"math.{name}(y * 1.0)", y=np.float32(0.25))


@pytest.mark.parametrize("name", MATH_TWO)
def test_math_functions_of_two_numbers(name):
    assert_like_python(f"math.{name}(x, y)", x=np.float64(2.5), y=np.float64(7.25))
    assert_like_python(f"math.{name}(2.5, 3)")


@pytest.mark.parametrize(
    "text",
    [
        "math.acosh(x + 1)",
        "math.floor(-x)",
        "math.hypot(x, 2, n)",
        "math.prod([2, 3, n])",
        "math.prod([1.5, 2], start=x)",
        "math.fsum([0.1, 0.2, 0.3])",
        "math.factorial(10)",
        "math.gcd(12, 18) + math.comb(5, 2) + math.perm(4, 2) + math.lcm(4, 6)",
        "math.gamma(4.5) + math.lgamma(3.5) + math.erfc(0.3)",
        "math.isclose(x, x + 1e-12)",
        "math.isclose(x, x + 1e-3, rel_tol=0.0, abs_tol=0.01)",
        "math.pi * math.inf",
        "v * math.sin(0.5)",
        "v * math.sin(x)",
        "v * float(n)",
        "v * int(x)",
        "v + round(x)",
        "v * bool(x)",
        "small * int(x)",
    ],
)
def test_math_functions_return_python_numbers(text):
    assert_like_python(
        text,
        x=np.float64(1.75),
        n=np.int64(3),
        v=np.array([1, 2.5], np.float32),
        small=np.array([1, 2], np.int8),
    )


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        (
            "math.exp(v)",
            OperandError,
            "'math.exp' takes one number, not float64[2] (in 'math.exp(v)')\n  hint: write numpy.exp",
        ),
        ("math.gamma(x)", UnsupportedError, "'math.gamma' can only be compiled for numbers known"),
        ("math.erfc(x)", UnsupportedError, "give it plain numbers"),
        ("math.fsum([x, x])", UnsupportedError, "hint: write numpy.sum(x), or sum(x)"),
        ("math.factorial(2.5)", LoopError, "cannot be interpreted as an integer"),
        ("math.factorial(10**9)", LoopError, "too large"),
        ("math.sqrt(-1)", LoopError, "math domain error (for -1)"),
        ("math.erf(v)", OperandError, "takes one number"),
        ("numpy.sign(v > 0)", OperandError, "no meaning for truth values"),
        ("numpy.clip(v, 0, 1, 2, 3)", LoopError, "numpy.clip: too many positional arguments"),
        (
            "numpy.clip(v, 0, 1, 2, 3)",
            LoopError,
            "hint: write numpy.clip(a, a_min=None, a_max=None, *, min=None, max=None)",
        ),
        ("numpy.exp()", LoopError, "numpy.exp: missing a required argument: 'x'"),
        ("numpy.exp(v, base=2)", LoopError, "got an unexpected keyword argument 'base'"),
        (
            "numpy.round(v, x)",
            OperandError,
            "the argument 'decimals' of numpy.round must be known when the model is compiled",
        ),
        ("numpy.round(v, 1.5)", OperandError, "must be one whole number, not float64[]"),
        (
            "numpy.exp(None)",
            OperandError,
            "the argument 'x' of numpy.exp must be a value, not nothing",
        ),
        ("numpy.exp('a')", OperandError, "must be a value, not 'a'"),
        ("numpy.power(n, -1)", OperandError, "negative whole powers"),
        ("numpy.int8(300)", OperandError, "the number 300 does not fit into int8"),
        ("numpy.interp(x, v, v)", UnsupportedError, "is no operation of ONNX"),
        (
            "numpy.random.default_rng(1)",
            UnsupportedError,
            "'numpy.random.default_rng' makes a generator, so it cannot be compiled",
        ),
    ],
)
def test_unsupported_calls_are_refused(text, kind, sentence):
    with pytest.raises(kind) as caught:
        lowered(text, x=1.5, v=np.ones(2), n=np.array([1, 2]))
    assert sentence in str(caught.value)
    assert len(caught.value.findings) == 1


def test_erf_rounds_in_onnx_reference_only():
    (error_function,) = lowered("math.erf(x)", x=0.625).interpret()
    assert error_function == pytest.approx(math.erf(0.625), rel=1e-7)
    (error_function,) = lowered("math.erf(0.625)", x=0.625).interpret()
    assert error_function == math.erf(0.625)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "uint64"])
def test_integers_are_converted_to_the_precision(dtype):
    for precision in ("float64", "float32"):
        (powers,) = lowered("numpy.exp(n)", precision, n=np.array([0, 1], dtype)).interpret()
        assert powers.dtype == precision
        np.testing.assert_allclose(powers, [1, math.e], rtol=1e-7)


def test_the_precision_of_python_numbers():
    program = lowered("numpy.exp(n) + 0.1 * math.sin(1.0) + 1 / n", "float32", n=np.array([1, 2]))
    (sums,) = program.interpret()
    assert sums.dtype == np.float32
