"""Every operator in every dtype has a kernel, an exact decomposition, or a named refusal."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mdf_loop.build import Builder
from mdf_loop.errors import OperandError, UnsupportedError
from mdf_loop.ir import Input, Op, Output, Program, walk
from mdf_loop.ops import row_of
from mdf_loop.ops.kernels import has_kernel
from mdf_loop.ops.numpy_evaluation import evaluate
from mdf_loop.ops.registry import qualified_name, rows
from mdf_loop.pipeline import LEGAL, prepare
from tests.ops.op_running import float32_run, legal_run, only_op, program_of, run
from tests.ops.operator_samples import SAMPLES, WHOLE, F

SMALL = ("int8", "uint8", "int16", "uint16", "uint32", "float16")
OTHERS = ("int64", "int32", "bool", *SMALL)
CONSTANT = {"Col2Im": (1, 2), "Resize": (2,)}
"""Positions of inputs that a decomposition needs as constants."""
NOT_EXACT_IN_ONNX = {"Erf", "GridSample", "HardSwish", "LRN"}
"""Operators that onnx.reference computes with float32 rounding, or (LRN) with other windows."""
DOMAIN_OPERATIONS = {
    row.name for row in rows() if row.schema is not None and row.onnx_decomposition is None
}
DECOMPOSED_IN_FLOAT32 = {"Mod", "OneHot", "Hardmax", *DOMAIN_OPERATIONS}
"""Operators whose float32 ONNX Runtime refuses or gets wrong, and operators that ONNX lacks.

Operators that are expanded when a model is written are left out.
"""
NOT_FOR_INTEGERS = {"QuantizeLinear"}
"""Operators that ONNX defines for integers, and ONNX Runtime for floats only."""


def sample(op_type: str, dtype: str):
    """Return (program, arrays) of the sample in a dtype, or None if ONNX does not define it."""
    entry = SAMPLES[op_type]
    arrays = [x.array(dtype) if isinstance(x, F) else x for x in entry.inputs]
    arrays = [None if a is None else np.asarray(a) for a in arrays]
    attributes = entry.attributes
    if np.dtype(dtype).kind in "iu":
        attributes = WHOLE.get(op_type, attributes)
    known = CONSTANT.get(op_type, ())
    try:
        program = program_of(op_type, arrays, entry.output_count, constant=known, **attributes)
    except OperandError:
        return None
    return program, arrays, attributes


def expected(op_type, arrays, attributes, output_count):
    """Compute by onnx's reference, or by ONNX Runtime in float32 if the reference lacks it or is wrong."""
    if op_type not in NOT_EXACT_IN_ONNX:
        try:
            return evaluate(op_type, arrays, attributes, output_count), 1e-13
        except Exception:  # noqa: BLE001 - The reference lacks the operator or the dtype.
            pass
    return float32_run(op_type, arrays, output_count, **attributes), 2e-6


@pytest.mark.parametrize("op_type", sorted(SAMPLES))
def test_float64_is_run_decomposed_or_refused_by_name(op_type):
    case = sample(op_type, "float64")
    if case is None:  # ONNX defines no float64.
        assert op_type in {"BitShift", "Celu", "QuantizeLinear"}
        return
    program, arrays, attributes = case
    if op_type == "Constant":  # Constant has no inputs.
        return
    op = only_op(program, op_type)
    name = re.escape(qualified_name(op_type))
    refused = row_of(op_type).undecomposed_reason
    assert has_kernel(op) + bool(refused) == 1 or row_of(op_type).decomposition is not None
    if refused:
        with pytest.raises(UnsupportedError, match=f"{name}: {refused}"):
            prepare(program, LEGAL)
        return
    legal = prepare(program, LEGAL)
    assert all(has_kernel(o) for o in walk(legal.ops) if isinstance(o, Op))
    if legal is not program and op_type != "OneHot":  # OneHot is tested below.
        count = SAMPLES[op_type].output_count
        reference, tolerance = expected(op_type, arrays, attributes, count)
        for actual, want in zip(run(legal, arrays), reference, strict=True):
            assert actual.shape == want.shape
            np.testing.assert_allclose(actual, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op_type", sorted(SAMPLES))
def test_float32_lacks_nothing_but_what_onnx_runtime_refuses_itself(op_type):
    case = sample(op_type, "float32")
    if case is None:
        return
    program = case[0]
    if op_type in DECOMPOSED_IN_FLOAT32 and row_of(op_type).undecomposed_reason:
        return  # Float64 is tested above.
    assert (prepare(program, LEGAL) is program) is (op_type not in DECOMPOSED_IN_FLOAT32)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", OTHERS)
def test_other_dtypes_wrap_as_in_numpy(dtype):
    n_compared = 0
    for op_type in SAMPLES:
        case = sample(op_type, dtype)
        if case is None:
            continue
        program, arrays, attributes = case
        if op_type in NOT_FOR_INTEGERS and dtype == "int32":
            with pytest.raises(UnsupportedError, match=f"no int32 kernel for onnx::{op_type}"):
                prepare(program, LEGAL)
            continue
        legal = prepare(program, LEGAL)
        if legal is program or op_type == "OneHot":  # The reference refuses float16 indices.
            continue
        n_compared += 1
        assert all(has_kernel(o) for o in walk(legal.ops) if isinstance(o, Op))
        outputs = run(legal, arrays)
        try:
            reference = evaluate(op_type, arrays, attributes, len(outputs))
        except Exception:  # noqa: BLE001 - The reference lacks the operator.
            continue
        for actual, want in zip(outputs, reference, strict=True):
            tolerance = 2e-3 if dtype == "float16" else 0
            # The reference adds convolutions in float16, and rounding errors remain where terms cancel.
            least = tolerance if op_type == "Conv" else 0
            np.testing.assert_allclose(actual, want, rtol=tolerance, atol=least, err_msg=op_type)
    assert n_compared >= 3


@pytest.mark.slow
@pytest.mark.parametrize("dtype", SMALL[:4])
@given(data=st.data())
def test_arithmetic_of_small_integers_wraps(dtype, data):
    elements = hnp.arrays(dtype, 4, elements=hnp.from_dtype(np.dtype(dtype)))
    x, y = data.draw(elements), data.draw(elements)
    functions = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum}
    op_type = data.draw(st.sampled_from(sorted(functions)))
    np.testing.assert_array_equal(legal_run(op_type, [x, y])[0], functions[op_type](x, y))


def test_uint64_is_computed_as_int64():
    x = np.array([2**63 + 1, 5], np.uint64)
    chosen = legal_run("Where", [np.array([True, False]), x, x[::-1].copy()])[0]
    assert chosen.tolist() == [2**63 + 1, 2**63 + 1]


# --- exact parameters ------------------------------------------------------------------------

X = np.array([-3.0, -0.7, -0.0, 0.05, 0.3, 4.0])
THIRD = 1 / 3  # The number is not a float32.

EXACT = {
    "LeakyRelu": ({"alpha": 0.1}, np.where(X < 0, 0.1 * X, X)),
    "Elu": ({"alpha": 0.1}, np.where(X < 0, 0.1 * np.expm1(X), X)),
    "Selu": ({"alpha": 0.1, "gamma": THIRD}, THIRD * np.where(X < 0, 0.1 * np.expm1(X), X)),
    "ThresholdedRelu": ({"alpha": 0.3}, np.where(X > 0.3, X, 0)),
    "HardSigmoid": ({"alpha": 0.3, "beta": THIRD}, np.clip(0.3 * X + THIRD, 0, 1)),
    "Shrink": (
        {"bias": 0.1, "lambd": 0.7},
        np.where(X < -0.7, X + 0.1, np.where(X > 0.7, X - 0.1, 0)),
    ),
    "HardSwish": ({}, X * np.clip(X / 6 + 0.5, 0, 1)),
    "Softsign": ({}, X / (1 + np.abs(X))),
    "Mish": ({}, X * np.tanh(np.logaddexp(0, X))),
}


@pytest.mark.parametrize("op_type", EXACT)
def test_parameters_are_not_rounded_to_float32(op_type):
    attributes, expected = EXACT[op_type]
    (actual,) = legal_run(op_type, [X], **attributes)
    np.testing.assert_allclose(actual, expected, rtol=1e-15, atol=1e-17)


def test_a_kernel_is_kept_where_float32_holds_the_parameter():
    matrix = np.eye(3)
    program = program_of("Gemm", [matrix, matrix], alpha=0.25)
    changed = program_of("Gemm", [matrix, matrix], alpha=0.1)
    in_float32 = program_of("Gemm", [matrix.astype(np.float32)] * 2, alpha=0.1)
    assert prepare(program, LEGAL) is program
    assert prepare(changed, LEGAL) is not changed
    assert prepare(in_float32, LEGAL) is in_float32


def test_default_parameters_are_those_of_onnx():
    actual = legal_run("HardSigmoid", [X])[0]
    expected = evaluate("HardSigmoid", [X], {}, 1)[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-15, atol=1e-17)


def test_gelu_with_tanh_approximation():
    """Check `Gelu` in float64 against exact constants; the kernel of ONNX Runtime rounds them to float32."""
    (actual,) = legal_run("Gelu", [X], approximate="tanh")
    part = np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3))
    np.testing.assert_allclose(actual, 0.5 * X * (1 + part), rtol=1e-15, atol=1e-15)


def test_functions_expanded_in_old_opsets_are_decomposed():
    """Combine a decomposed function with `BitCast`, which raises the opset of the whole model."""
    b = Builder()
    x, slope = b.new("float64", (3,), "x0"), b.new("float64", (), "x1")
    results = [b.op("LeakyRelu", x, alpha=0.25), b.op("PRelu", x, slope), b.op("BitCast", x, to=7)]
    outputs = tuple(Output(f"y{k}", value) for k, value in enumerate(results))
    program = Program("p", (Input(x), Input(slope)), tuple(b.ops), outputs)
    arrays = [np.array([-2.0, 0.5, np.nan]), np.array(np.inf)]
    leaky, sloped, bits = run(prepare(program, LEGAL), arrays)
    np.testing.assert_array_equal(leaky, [-0.5, 0.5, np.nan])
    np.testing.assert_array_equal(sloped, [-np.inf, 0.5, np.nan])
    np.testing.assert_array_equal(bits, arrays[0].view(np.int64))


def test_mish_of_large_negative_numbers():
    """Check that `Mish` of a large negative number is 0, as ONNX defines."""
    (actual,) = legal_run("Mish", [np.array([-40.0])])
    np.testing.assert_allclose(actual, -40 * np.exp(-40.0), rtol=1e-15)


def test_activations_at_infinity():
    x = np.array([np.inf, -np.inf, np.nan])
    assert legal_run("LeakyRelu", [x], alpha=0.1)[0].tolist()[:2] == [np.inf, -np.inf]
    assert legal_run("Selu", [x], alpha=0.1, gamma=2.0)[0].tolist()[:2] == [np.inf, -0.2]
    assert legal_run("HardSigmoid", [x])[0].tolist()[:2] == [1.0, 0.0]
    for op_type in ("LeakyRelu", "Elu", "Selu", "HardSigmoid", "HardSwish", "Softplus"):
        assert np.isnan(
            legal_run(op_type, [x], **({"alpha": 0.1} if "LU" in op_type else {}))[0][2]
        )


# --- arithmetic -------------------------------------------------------------------------------

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_mod_equals_numpy(dtype):
    x = np.array([5.5, -5.5, 5.5, -5.5, 6.0, -6.0, 0.3, 5.0, -5.0], dtype)
    y = np.array([2.0, 2.0, -2.0, -2.0, 2.0, 2.0, 0.1, np.inf, np.inf], dtype)
    np.testing.assert_array_equal(legal_run("Mod", [x, y])[0], np.mod(x, y))


@pytest.mark.slow
@given(
    x=hnp.arrays(np.float64, 3, elements=NUMBERS),
    y=hnp.arrays(np.float64, 3, elements=NUMBERS.filter(bool)),
)
def test_mod_is_exact(x, y):
    np.testing.assert_array_equal(legal_run("Mod", [x, y])[0], np.mod(x, y))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("exponent", ["uint8", "uint32", "uint64", "int8"])
def test_powers_of_floats_with_whole_exponents(dtype, exponent):
    x = np.array([1.5, -2.0, 3.0], dtype)
    n = np.array([4, 5, 6], exponent)
    (powers,) = legal_run("Pow", [x, n])
    expected = np.power(x.astype(np.float64), n.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(powers, expected, rtol=1e-3 if dtype == "float16" else 1e-6)
    assert powers.dtype == dtype


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_gemm(trans_a, trans_b):
    a, b, c = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4), np.arange(4)
    left, right = a.T.copy() if trans_a else a, b.T.copy() if trans_b else b
    flags = {"transA": trans_a, "transB": trans_b}
    (actual,) = legal_run("Gemm", [left, right, c], **flags, alpha=2.0, beta=3.0)
    np.testing.assert_array_equal(actual, 2 * a @ b + 3 * c)
    floats = [m.astype(float) for m in (left, right)]
    (actual,) = legal_run("Gemm", floats, **flags, alpha=0.1)
    np.testing.assert_allclose(actual, 0.1 * (a @ b), rtol=1e-14)


def test_fractional_parameters_of_integers_are_refused():
    x = np.eye(2, dtype=np.int64)
    with pytest.raises(UnsupportedError, match=r"Gemm of whole numbers cannot have alpha=0\.5"):
        legal_run("Gemm", [x, x], alpha=0.5)
    with pytest.raises(
        UnsupportedError, match=r"Shrink of whole numbers cannot have the bias 0\.5"
    ):
        legal_run("Shrink", [x], bias=0.5)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_determinants(n, batch):
    rng = np.random.default_rng(n)
    x = rng.normal(size=(*batch, n, n))
    x[..., :1, :1] = 0.0  # A zero requires pivoting.
    np.testing.assert_allclose(legal_run("Det", [x])[0], np.linalg.det(x), rtol=1e-12)


def test_determinants_of_singular_matrices():
    x = np.array([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [1.0, 2.0]], [[0.0, 1.0], [1.0, 0.0]]])
    assert legal_run("Det", [x])[0].tolist() == [0.0, 0.0, -1.0]


def test_determinants_of_large_matrices_are_refused():
    with pytest.raises(UnsupportedError, match="matrices up to 32 x 32, not 40 x 40"):
        legal_run("Det", [np.eye(40)])
    with pytest.raises(UnsupportedError, match="known extents"):
        legal_run("Det", [np.eye(3)], shapes=[("n", "n")])


# --- selection --------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [-1, 0, 1, 2, -2])
@pytest.mark.parametrize("dtype", ["float64", "int32", "bool"])
def test_one_hot(axis, dtype):
    index = np.array([[0, 2], [-1, 5]])
    values = np.array([0, 1]).astype(dtype)
    (actual,) = legal_run("OneHot", [index, np.array(3), values], axis=axis)
    marks = (index % 3)[..., None] == np.arange(3)
    marks[1, 1] = False  # The index 5 is outside.
    np.testing.assert_array_equal(actual, np.moveaxis(marks.astype(dtype), -1, axis))


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_hardmax(axis):
    x = np.array([[1.0, 3.0, 3.0], [5.0, 2.0, 1.0]])
    (actual,) = legal_run("Hardmax", [x], axis=axis, shapes=[("a", "b")])
    np.testing.assert_array_equal(actual, evaluate("Hardmax", [x], {"axis": axis}, 1)[0])


def test_nonzero():
    x = np.array([[0.0, 1e-300, np.nan], [-0.0, -2.0, 0.0]])
    np.testing.assert_array_equal(legal_run("NonZero", [x])[0], np.nonzero(x))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(mode):
    x = np.arange(2 * 8 * 2 * 3).reshape(2, 8, 2, 3)
    (actual,) = legal_run("DepthToSpace", [x], blocksize=2, mode=mode)
    expected = float32_run("DepthToSpace", [x.astype(float)], blocksize=2, mode=mode)[0]
    np.testing.assert_array_equal(actual, expected)
    if mode == "DCR":
        np.testing.assert_array_equal(legal_run("SpaceToDepth", [actual], blocksize=2)[0], x)


RESIZES = {
    "nearest": [{}, {"nearest_mode": "ceil"}, {"coordinate_transformation_mode": "asymmetric"}],
    "linear": [{}, {"coordinate_transformation_mode": "align_corners"}],
    "cubic": [{}, {"cubic_coeff_a": -0.5}],
}


@pytest.mark.parametrize(("mode", "more"), [(m, o) for m, all_ in RESIZES.items() for o in all_])
@pytest.mark.parametrize("scales", [(1, 1, 2, 1.5), (1, 1, 0.6, 3)])
def test_resize(mode, more, scales):
    x = np.random.default_rng(1).normal(size=(1, 2, 5, 4))
    arrays = [x, None, np.array(scales, np.float32)]
    (actual,) = legal_run("Resize", arrays, constant=(2,), mode=mode, **more)
    (expected,) = float32_run("Resize", arrays, mode=mode, **more)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_resize_to_sizes_and_refused_arguments():
    x = np.arange(6.0).reshape(1, 1, 2, 3)
    sizes = np.array([1, 1, 4, 3])
    (actual,) = legal_run("Resize", [x, None, None, sizes], constant=(3,), mode="nearest")
    np.testing.assert_array_equal(actual, np.repeat(x, 2, axis=2))
    with pytest.raises(UnsupportedError, match="scales or sizes that are known"):
        legal_run("Resize", [x, None, None, sizes], mode="nearest")


# --- normalization ----------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_layer_normalization_with_an_exact_epsilon(axis):
    x = np.random.default_rng(2).normal(size=(2, 3, 4))
    shape = x.shape[axis:]
    scale, bias = np.full(shape, 1.5), np.full(shape, 0.25)
    y, mean, inverse = legal_run("LayerNormalization", [x, scale, bias], 3, axis=axis, epsilon=0.1)
    axes = tuple(range(axis % 3, 3))
    centred = x - x.mean(axes, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axes, keepdims=True) + 0.1)
    np.testing.assert_allclose(y, centred / deviation * 1.5 + 0.25, rtol=1e-14)
    np.testing.assert_allclose(mean, x.mean(axes, keepdims=True), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(inverse, 1 / deviation, rtol=1e-6)


@pytest.mark.parametrize("training", [0, 1])
def test_batch_normalization_with_an_exact_epsilon(training):
    x = np.random.default_rng(3).normal(size=(2, 3, 4))
    scale, bias, mean, var = (np.array([1.0, 2.0, 3.0]) * k for k in (1, 0.5, 0.1, 2))
    flags = {"epsilon": 0.1, "momentum": 0.7, "training_mode": training}
    outputs = legal_run(
        "BatchNormalization", [x, scale, bias, mean, var], 3 if training else 1, **flags
    )
    fresh_mean, fresh_var = (x.mean((0, 2)), x.var((0, 2))) if training else (mean, var)
    wide = (slice(None), None)
    expected = (x - fresh_mean[wide]) / np.sqrt(fresh_var[wide] + 0.1) * scale[wide] + bias[wide]
    np.testing.assert_allclose(outputs[0], expected, rtol=1e-13)
    if training:
        np.testing.assert_allclose(outputs[1], 0.7 * mean + 0.3 * fresh_mean, rtol=1e-13)
        np.testing.assert_allclose(outputs[2], 0.7 * var + 0.3 * fresh_var, rtol=1e-13)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_local_response_normalization(size):
    x = np.random.default_rng(4).normal(size=(1, 6, 2, 2))
    actual = legal_run("LRN", [x], size=size, alpha=0.5, beta=0.75, bias=1.5)[0]
    expected = float32_run("LRN", [x], size=size, alpha=0.5, beta=0.75, bias=1.5)[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_means():
    x, y = np.array([1.0, 2.0]), np.array([[3.0], [5.0]])
    np.testing.assert_array_equal(legal_run("Mean", [x, y])[0], (x + y) / 2)
    np.testing.assert_array_equal(legal_run("Mean", [x])[0], x)


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization"])
def test_arrays_without_spatial_axes_are_refused(op_type):
    arrays = [np.ones((2, 3)), np.ones(3), np.ones(3)]
    program = program_of(op_type, arrays[: 3 if op_type.startswith("I") else 1])
    sentence = rf"onnx::{op_type} needs an array of three axes .* but got float64\[2, 3\]"
    with pytest.raises(UnsupportedError, match=sentence):
        prepare(program, LEGAL)
