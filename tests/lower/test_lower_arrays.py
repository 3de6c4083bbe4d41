"""Array functions of `numpy.`: reductions, shapes, products, order, creation; against numpy.

The families `arrays`, `ordering`, `products`, `reductions` and `shapes`.
"""

import numpy as np
import pytest

from mdf_loop.errors import LoopError, OperandError
from mdf_loop.lower import Scope, lower_expression
from mdf_loop.lower.functions import function_names, register_as
from tests.lower.lower_machine import (
    Lowered,
    assert_like_python,
    assert_same,
    flat,
    lowered,
    lowered_unless,
    python_value,
)

RNG = np.random.default_rng(1)
INPUTS = {
    "x": np.array([3.0, -1.5, 2.0, 7.25]),
    "y": np.array([0.5, 2.0, -1.0, 4.0]),
    "m": RNG.normal(size=(3, 4)),
    "s": RNG.normal(size=(3, 3)),
    "t": RNG.normal(size=(2, 3, 4)),
    "n": np.array([4, -2, 7, 4]),
    "w": np.array([[1, 2, 3], [-4, 5, 6]]),
    "k": np.array([True, False, True, True]),
    "i": np.array([1, 200], np.uint8),
    "h": np.array([-3, 100, 100], np.int16),
    "j": np.array([2, 0, -1]),
    "f": np.array([1.5, 2.5, 4.0], np.float32),
    "z": np.array([2.0, np.nan, 5.0, np.inf, np.nan, -np.inf]),
    "c": np.float64(2.5),
    "q": np.int64(3),
    "u": np.array([[1.0], [2.0]]),
}

REDUCTIONS = [
    "sum",
    "prod",
    "mean",
    "std",
    "var",
    "max",
    "min",
    "amax",
    "amin",
    "ptp",
    "any",
    "all",
    "count_nonzero",
    "average",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    for operand in ("x", "n", "m", "t", "c", "f", "w"):
        assert_like_python(f"numpy.{name}({operand})", **INPUTS)
    for options in ("axis=0", "axis=-1", "1", "axis=(0, 2)", "axis=(-1, 0)"):
        assert_like_python(f"numpy.{name}(t, {options})", **INPUTS)
    if name != "average":
        assert_like_python(f"numpy.{name}(m, axis=1, keepdims=True)", **INPUTS)
        assert_like_python(f"numpy.{name}(m, keepdims=True)", **INPUTS)
    if name not in ("ptp",):
        assert_like_python(f"numpy.{name}(k)", **INPUTS)
    if name not in ("std", "var", "mean", "average"):
        assert_like_python(f"numpy.{name}(i)", **INPUTS)
        assert_like_python(f"numpy.{name}(h)", **INPUTS)


@pytest.mark.parametrize(
    "text",
    [
        "numpy.max(z)",
        "numpy.min(z[:1])",
        "numpy.max([z, z], axis=0)",
        "numpy.argmax(z)",
        "numpy.argmin(z[2:4])",
        "numpy.sort(z)",
        "numpy.argsort(z)",
        "numpy.median(z)",
        "numpy.median(z[2:4])",
        "numpy.any(z)",
        "numpy.sum(z)",
    ],
)
def test_nan_propagates(text):
    assert_like_python(text, **INPUTS)


REDUCING = """
numpy.std(x, ddof=1) | numpy.var(m, axis=0, ddof=1) | numpy.sum(n, dtype=float) | numpy.mean(w, dtype=numpy.float32)
numpy.mean(w, axis=0) | numpy.average(x, weights=y) | numpy.average(m, 0) | numpy.linalg.norm(x) | numpy.linalg.norm(m, axis=1)
numpy.cumsum(x) | numpy.cumsum(m) | numpy.cumsum(m, axis=0) | numpy.cumsum(m, axis=-1) | numpy.cumsum(k) | numpy.cumsum(i)
numpy.argmax(x) | numpy.argmin(m) | numpy.argmax(m, axis=0) | numpy.argmax(m, axis=-1, keepdims=True) | numpy.argmax(k) | numpy.argmin(n)
numpy.sum((c, 2.0, 3)) | numpy.max([c, q]) | numpy.sum([x, y], axis=0) | numpy.sum(5) | numpy.max(2.5) | numpy.sum([1, 2]) | numpy.sum(m > 0)
sum(x) | sum([c, 1, 2]) | sum(n, 10) | max(c, 1) | min(c, 7.5) | max([c, 3.0]) | max(x) | min(n) | max(1, 2, 3) | len(m) | len((c, q)) | abs(n) | abs(-c)
round(c) | round(c, 1) | round(2.675, 2) | round(q) | round(q, 2) | round(-0.5) | int(c) | int(-c) | int(3.9) | float(q) | bool(q) | bool(0) | pow(c, 2) | pow(2, 10)
"""
SHAPING = """
numpy.reshape(m, (4, 3)) | numpy.reshape(m, -1) | numpy.reshape(t, [2, -1]) | numpy.reshape(x, (2, q - 1)) | numpy.ravel(t) | numpy.squeeze(u) | numpy.squeeze(u, axis=1)
numpy.squeeze(x) | numpy.expand_dims(x, 0) | numpy.expand_dims(m, (0, -1)) | numpy.atleast_1d(c) | numpy.atleast_2d(x) | numpy.atleast_1d(m)
numpy.transpose(m) | numpy.transpose(x) | numpy.transpose(c) | m.T | t.shape[1] | t.T.shape | m.size + t.ndim | numpy.transpose(t) | numpy.transpose(t, (1, 0, 2)) | numpy.transpose(t, axes=(-1, 0, 1)) | numpy.swapaxes(t, 0, -1) | numpy.moveaxis(t, 0, 2) | numpy.moveaxis(t, -1, 0)
numpy.concatenate((x, y)) | numpy.concatenate([x, n]) | numpy.concatenate((m, s), axis=1) | numpy.concatenate((m, x), axis=None) | numpy.concatenate(m) | numpy.concatenate((x, [1.0]))
numpy.stack((x, y)) | numpy.stack([x, y], axis=1) | numpy.stack((x, n), -1) | numpy.hstack((x, y)) | numpy.hstack((m, s)) | numpy.hstack((c, 1)) | numpy.vstack((x, y)) | numpy.vstack((m, x))
numpy.column_stack((x, y)) | numpy.append(x, 5.0) | numpy.append(x, y) | numpy.append(m, m, axis=0) | numpy.tile(x, 2) | numpy.tile(m, (2, 1)) | numpy.tile(x, (2, 3)) | numpy.tile(t, 2)
numpy.repeat(x, 2) | numpy.repeat(m, 2, axis=0) | numpy.repeat(m, 3, axis=1) | numpy.repeat(c, 3) | numpy.repeat(x, 0) | numpy.flip(m) | numpy.flip(m, 0) | numpy.flip(m, axis=(0, 1)) | numpy.flipud(m) | numpy.fliplr(m) | numpy.flip(c)
numpy.roll(x, 1) | numpy.roll(x, -6) | numpy.roll(m, 2) | numpy.roll(m, 1, axis=1) | numpy.roll(x, q) | numpy.diff(x) | numpy.diff(m, axis=0) | numpy.diff(x, n=2) | numpy.diff(k) | numpy.diff(n)
numpy.take(x, [0, -1]) | numpy.take(m, 1) | numpy.take(m, [2, 0], axis=1) | numpy.size(m) | numpy.size(m, 0) | numpy.ndim(t) | numpy.shape(t) | numpy.shape(m)[1] * 2 | numpy.shape(c)
numpy.broadcast_to(x, (3, 4)) | numpy.array([x, y]) | numpy.array([c, 1]) | numpy.array([1, 2.5]) | numpy.array([n, 1 * k]) | numpy.asarray(x) | numpy.array(c, dtype=numpy.float32) | numpy.array(1, dtype=float)
"""
PRODUCTS = """
numpy.dot(x, y) | numpy.dot(m, x) | numpy.dot(s, m) | numpy.dot(t, x) | numpy.dot(2.0, x) | numpy.dot(c, q) | numpy.dot(n, n) | numpy.matmul(s, m) | s @ m | m @ x | t @ x | w @ w[0] | numpy.vdot(m, m)
numpy.inner(x, y) | numpy.inner(m, m) | numpy.inner(c, x) | numpy.outer(x, y) | numpy.outer(m, n) | numpy.outer(c, x) | numpy.einsum('ij,j->i', m, x) | numpy.einsum('ij, kj -> ik', m, m) | numpy.einsum('i,i', n, n)
numpy.tril(s) | numpy.triu(s) | numpy.triu(m, 1) | numpy.tril(s, k=-1) | numpy.trace(s) | numpy.diag(x) | numpy.diag(s) | numpy.diag(n) | numpy.linalg.det(s) | k @ k | f @ f | i @ i
"""
ORDER = """
numpy.sort(x) | numpy.sort(n) | numpy.sort(m, axis=0) | numpy.sort(m, axis=None) | numpy.sort(k) | numpy.sort(h) | numpy.argsort(x) | numpy.argsort(m) | numpy.argsort(m, axis=0) | numpy.argsort(h)
numpy.median(x) | numpy.median(m) | numpy.median(m, axis=0) | numpy.median(s, axis=1) | numpy.median(n) | numpy.searchsorted([1.0, 2.0, 3.0], x) | numpy.searchsorted([1, 4, 7], n, side='right') | numpy.searchsorted([1, 2, 3], 2)
"""
CREATION = """
numpy.zeros(3) | numpy.zeros((2, 3)) | numpy.ones(2, dtype=int) | numpy.zeros((2,), numpy.float32) | numpy.full(3, 7) | numpy.full((2, 2), c) | numpy.full(2, 1, dtype=float) | numpy.full(2, 0.5) | numpy.zeros(())
numpy.zeros_like(m) | numpy.ones_like(n) | numpy.full_like(x, 2) | numpy.full_like(n, 2.7) | numpy.zeros_like(n, dtype=float) | numpy.eye(3) | numpy.eye(2, 3) | numpy.eye(3, k=1) | numpy.identity(2) | numpy.eye(2, dtype=int)
numpy.arange(4) | numpy.arange(1, 4) | numpy.arange(0, 1, 0.25) | numpy.arange(5, 0, -2) | numpy.arange(q) | numpy.arange(1, q, 1) | numpy.arange(3.0) | numpy.arange(0.0, numpy.exp(0.0) + 1, 0.5) | numpy.linspace(0, numpy.exp(0.0), 3) | numpy.arange(q, dtype=float) | numpy.arange(2, dtype=float)
numpy.linspace(0, 1, 5) | numpy.linspace(0, c * 0 + 1, 3) * 0 if False else numpy.linspace(-1, 1, num=4, endpoint=False) | numpy.logspace(0, 2, 3) | numpy.geomspace(1, 8, 4) | numpy.zeros(0)
numpy.float64(n) | numpy.int64(x) | numpy.float32(x) | numpy.int32(x) | numpy.uint8(n + 2) | numpy.bool_(n) | numpy.bool(0) | numpy.int8(3) | numpy.float16(x) | numpy.int64(2.9) | numpy.float64(2) * f | f * 2.0 | f * float(c)
"""
ROWS = [
    row.strip()
    for table in (REDUCING, SHAPING, PRODUCTS, ORDER, CREATION)
    for row in table.replace("\n", "|").split("|")
    if row.strip()
]


@pytest.mark.parametrize("text", [row for row in ROWS if "c * 0 + 1" not in row])
def test_array_functions_equal_numpy(text):
    assert_like_python(text, **INPUTS)


NEED_EXTENTS = (
    "must be known",
    "is not known",
    "needs a known",
    "of known length",
    "do not fit",
    "both one shape",
    "list of arrays",
    "square matrix",
    "cannot be spread",
)


@pytest.mark.parametrize("text", [row for row in ROWS if "c * 0 + 1" not in row])
def test_array_functions_for_extents_known_only_at_run_time(text):
    program = lowered_unless(NEED_EXTENTS, text, dynamic=True, **INPUTS)
    if program is not None:
        assert_same(program.interpret(), flat(python_value(text, INPUTS)), hint=text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "numpy.sum(x, axis=1)",
            "axis 1 does not exist: float64[4] has 1 axes (in 'numpy.sum(x, axis=1)')\n  hint: axes are numbered -1 to 0",
        ),
        ("numpy.sum(m, axis=(0, -2))", "an axis is given twice in (0, -2)"),
        (
            "numpy.sum(m, axis=q)",
            "the argument 'axis' of numpy.sum must be known when the model is compiled",
        ),
        ("numpy.sum(m, axis=0.5)", "must be one whole number or several, not float64[]"),
        (
            "numpy.sum(m, keepdims=1)",
            "the argument 'keepdims' of numpy.sum must be True or False, not int64[]",
        ),
        (
            "numpy.sum(m, dtype=q)",
            "the argument 'dtype' of numpy.sum must be a dtype such as float or numpy.int64, not int64[]",
        ),
        ("numpy.sum(m, dtype='complex')", "not 'complex'"),
        ("numpy.max(numpy.zeros(0))", "numpy.max needs at least one element, not float64[0]"),
        ("numpy.argmax(m, keepdims=True)", "needs an axis"),
        ("numpy.average(m, weights=x)", "weights are float64[4], but the values float64[3, 4]"),
        ("numpy.reshape(x, (3, 3))", "float64[4] has 4 elements, which do not fill float64[3, 3]"),
        (
            "numpy.reshape(x, 2.0)",
            "the argument 'shape' of numpy.reshape must be whole numbers, not float64[]",
        ),
        ("numpy.squeeze(x, axis=0)", "onnx::Squeeze cannot take"),
        ("numpy.transpose(t, (0, 1))", "the axes (0, 1) are not those of float64[2, 3, 4]"),
        ("numpy.concatenate((m, x))", "onnx::Concat cannot take"),
        (
            "numpy.concatenate(c)",
            "the argument 'arrays' of numpy.concatenate must be a list of arrays, not float64[]",
        ),
        ("numpy.dot(x, t)", "write numpy.einsum or numpy.matmul"),
        (
            "numpy.einsum(m, x)",
            "the argument 'subscripts' of numpy.einsum must be a text in quotes",
        ),
        ("m @ m", "onnx::MatMul cannot take"),
        ("c @ x", "'@' needs arrays, got float64[] and float64[4]"),
        ("2 @ 3", "'@' needs arrays"),
        ("numpy.diag(m)", "needs a list or a square matrix, not float64[3, 4]"),
        ("numpy.trace(x)", "numpy.trace needs a matrix, not float64[4]"),
        ("numpy.searchsorted(m, 1)", "needs a list"),
        (
            "numpy.searchsorted(x, 1, side='up')",
            "the side of numpy.searchsorted is 'left' or 'right', not 'up'",
        ),
        ("numpy.full((2, -1), 1)", "a shape has no negative extents: (2, -1)"),
        ("numpy.arange(0, 1, 0)", "the step of numpy.arange is 0"),
        ("numpy.arange(10**12)", "numpy.arange would make 1000000000000 numbers"),
        ("numpy.eye(10**9)", "numpy.eye would make"),
        ("numpy.linspace(0, 1, 10**9)", "numpy.linspace would make"),
        ("numpy.linspace(0, 1, -1)", "numpy.linspace makes -1 numbers"),
        ("numpy.arange(c)", "numpy.arange needs whole numbers, or numbers known"),
        ("numpy.repeat(x, -1)", "numpy.repeat cannot repeat -1 times"),
        ("numpy.tile(x, -1)", "one whole number of repetitions"),
        ("numpy.diff(x, -1)", "takes differences -1 times"),
        ("numpy.take(x, 0.5)", "numpy.take needs whole numbers"),
        ("numpy.broadcast_to(x, (3,))", "onnx::Expand cannot take"),
        ("numpy.broadcast_to(m, (4,))", "cannot be spread to (4,)"),
        ("numpy.stack(())", "needs at least one array"),
        (
            "numpy.empty(3)",
            "'numpy.empty' has no defined value, so it cannot be compiled (in 'numpy.empty(3)')\n  hint: write numpy.zeros",
        ),
        ("numpy.split(x, 2)", "write slices"),
        (
            "max(x, y)",
            "'max' compares numbers, not float64[4] (in 'max(x, y)')\n  hint: write numpy.maximum(a, b)",
        ),
        ("max(m)", "hint: write numpy.max(x)"),
        ("min()", "'min' needs at least one number"),
        ("sum(m)", "'sum' adds a list of numbers"),
        ("len(c)", "'len' needs a list, not one number"),
        ("int(x)", "'int' makes one number, not float64[4]"),
        ("int(1e300)", "does not fit into 64 bits"),
    ],
)
def test_unsupported_calls_are_refused(text, sentence):
    with pytest.raises(LoopError) as caught:
        lowered(text, **INPUTS)
    assert sentence in str(caught.value)
    assert len(caught.value.findings) == 1


def test_empty_arrays_have_no_mean():
    for text in ("numpy.mean(x)", "numpy.var(x)"):
        for dynamic in (False, True):
            (mean,) = lowered(text, dynamic=dynamic, x=np.zeros(0)).interpret()
            assert np.isnan(mean)
    assert_like_python("numpy.any(x)", x=np.zeros(0))
    assert_like_python("numpy.all(x)", x=np.zeros(0))
    assert_like_python("numpy.sum(x, axis=0)", x=np.zeros((0, 3)))


def _with_unknown_axes(text):
    def lower(b, scope):
        shape = b.op("Cast", scope.find("s"), to=7)
        free = b.op("Reshape", scope.find("x"), shape)
        assert free.shape is None
        return lower_expression(b, text, Scope({"free": free}))

    return Lowered(lower, {"x": np.arange(6.0), "s": np.array([2.0, 3.0])}, dynamic=True)


def test_all_elements_of_unknown_axes():
    for text, expected in (("sum", 15), ("mean", 2.5), ("max", 5), ("any", 1), ("size", 6)):
        assert _with_unknown_axes(f"numpy.{text}(free)").interpret()[0] == expected
    with pytest.raises(OperandError, match=r"the number of axes of '.*' must be known here"):
        _with_unknown_axes("numpy.transpose(free)")


def test_the_registry_lists_all_functions_by_module():
    known = function_names()
    assert len(known) > 250
    assert {name.split(".")[0] for name in known if "." in name} == {"numpy", "math", "random"}
    with pytest.raises(ValueError, match="the function 'abs' is defined twice"):
        register_as("abs")(lambda b: None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max(x[:1], y[:1], -1 * x[:1])", [3.0]),
        ("min(x[:1], y[:1])", [0.5]),
        ("max([x[:1], y[:1]])", [3.0]),
        ("max(m[:1, :1] * 0, y[:1])", [[0.5]]),
        ("min(x[:1], 10)", [3.0]),
        ("max(x[:1], n[:1])", [4.0]),
    ],
)
def test_arrays_of_one_element_are_compared_as_numbers(text, expected):
    """Check that the result has the broadcast shape; in Python it has the shape of the selected operand."""
    assert_same(lowered(text, **INPUTS).interpret(), [np.array(expected)])


@pytest.mark.parametrize(
    "text", ["numpy.sum([x, c])", "numpy.array([x, x[:2]])", "numpy.max((m, x))"]
)
def test_a_list_of_different_shapes_is_no_array(text):
    with pytest.raises(OperandError, match="is no array: its parts have different shapes"):
        lowered(text, **INPUTS)
