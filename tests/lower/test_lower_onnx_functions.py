"""Every operator of ONNX as MDF function `onnx::X`, by the names of its schema."""

import numpy as np
import pytest
from onnx import defs

from mdf_loop import ir
from mdf_loop.errors import LoopError, OperandError, UnknownFunctionError, UnsupportedError
from mdf_loop.lower import lower_function
from mdf_loop.lower.onnx_functions import UNSUPPORTED_OPERATORS
from mdf_loop.lower.terms import OperatorResults
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.numpy_evaluation import evaluate
from mdf_loop.ops.registry import rows
from tests.lower.lower_machine import Lowered, assert_same
from tests.ops.operator_samples import SAMPLES, F

RANDOM_OPS = {row.name for row in rows() if row.is_random}

VARIADIC = defs.OpSchema.FormalParameterOption.Variadic
IMAGE = np.arange(16.0).reshape(1, 1, 4, 4)
NO_REFERENCE = {
    **dict.fromkeys(RANDOM_OPS, "gives other numbers each time"),
    **dict.fromkeys(("GlobalLpPool", "MaxRoiPool", "MaxUnpool"), "has none in onnx.reference"),
    **dict.fromkeys(("StringConcat", "StringNormalizer", "StringSplit"), "gives text"),
    "AffineGrid": "is float32 in onnx.reference",
    "DequantizeLinear": "has none for opset 17",
    "LayerNormalization": "gives mean and deviation in the dtype of x",
    "MaxPool": "gives wrong indices",
    "MeanVarianceNormalization": "mixes float64 with float32",
    "NonMaxSuppression": "needs its optional inputs",
    "OneHot": "needs a depth without axes",
}
"""Operators that onnx's reference cannot compute."""
ABOUT_SEQUENCES = {
    name
    for name in onnx_schema.operator_names()
    if name.startswith(("Sequence", "Optional")) or name.endswith(("FromSequence", "ToSequence"))
}
"""Operators with tests of their own, in `test_sequences`."""
CALLABLE = sorted(set(onnx_schema.operator_names()) - set(UNSUPPORTED_OPERATORS) - ABOUT_SEQUENCES)


def lower_call(function, args, precision="float64", **inputs):
    return Lowered(lambda b, scope: lower_function(b, function, args, scope), inputs, precision)


def _sample(name):
    """Return arguments by name, and arrays, float64 if the schema allows it."""
    schema, sample = onnx_schema.schema(name), SAMPLES[name]
    dtype = "uint64" if name == "BitShift" else "float64"
    formals = list(schema.inputs)
    args, arrays = dict(sample.attributes), {}
    for k, operand in enumerate(sample.inputs):
        if operand is None:
            continue
        formal = formals[min(k, len(formals) - 1)]
        key = formal.name if formal.option != VARIADIC else f"{formal.name}_{k}"
        allowed = "tensor(double)" in formal.types or name == "BitShift"
        array = (
            operand.array(dtype if allowed else "float32")
            if isinstance(operand, F)
            else np.asarray(operand)
        )
        args[key] = f"in_{key}"
        arrays[f"in_{key}"] = array
    return (
        args,
        {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in args.items()
        },
        arrays,
    )


@pytest.mark.parametrize("name", CALLABLE)
def test_every_operator_can_be_called(name):
    """Check that the call becomes one operation with the results of onnx's reference."""
    _, args, arrays = _sample(name)
    program = lower_call(f"onnx::{name}", args, **arrays)
    if name == "Constant":
        assert program.b.constant_of(program.term).tolist() == [1.5, 2.0]
        return
    if name in ("Shape", "Size"):  # a program is made for the shapes of its inputs
        expected = evaluate(name, list(arrays.values()), SAMPLES[name].attributes, 1)
        assert program.b.constant_of(program.term).tolist() == expected[0].tolist()
        return
    if name in RANDOM_OPS:
        assert any(op.op_type == "Draw" for op in program.b.ops if isinstance(op, ir.Op))
        assert len(program.outputs()) == _expected_count(name)
        return
    ops = [op for op in program.b.ops if isinstance(op, ir.Op) and op.op_type == name]
    if not arrays:
        assert not ops
    else:
        (op,) = ops
        assert op.attributes.keys() >= SAMPLES[name].attributes.keys()
    outputs = program.outputs()
    assert len(outputs) == _expected_count(name)
    if name in NO_REFERENCE:
        return
    results = program.interpret()
    feeds = [None if v is None else _input_arrays(program, v) for v in op.inputs]
    expected = evaluate(name, feeds, dict(op.attributes), len(outputs))
    assert_same(results, expected)


def _input_arrays(program, value):
    known = program.b.constant_of(value)
    if known is not None:
        return known
    named = {v: k for k, v in program.values.items()}
    return program.arrays[named[value]]


def _expected_count(name):
    special = {"Split": 2, "BatchNormalization": 1}
    return special.get(name, len(onnx_schema.schema(name).outputs))


def test_other_operators_are_refused_with_a_reason():
    assert set(CALLABLE) <= set(SAMPLES)
    for name, (why, hint) in UNSUPPORTED_OPERATORS.items():
        assert name in onnx_schema.operator_names()
        with pytest.raises(UnsupportedError) as caught:
            lower_call(f"onnx::{name}", {"x": "x"}, x=1.0)
        assert f"'onnx::{name}' {why}: it cannot be compiled" in str(caught.value)
        assert hint in str(caught.value)


# --- how many results ------------------------------------------------------------------------------

RESULTS = [
    ("Split", {"input": "x", "split": [1, 3]}, {"x": np.arange(4.0)}, 2),
    ("Split", {"input": "x", "split": "parts"}, {"x": np.arange(6.0)}, 3),
    ("Split", {"input": "x"}, {"x": np.arange(4.0)}, 1),
    ("Split", {"input": "x", "split": [2, 2], "axis": 1}, {"x": np.ones((2, 4))}, 2),
    ("TopK", {"X": "x", "K": 2}, {"x": np.arange(4.0)}, 2),
    (
        "BatchNormalization",
        {"X": "x", "scale": "v", "B": "v", "input_mean": "v", "input_var": "v", "training_mode": 0},
        {"x": IMAGE, "v": np.ones(1)},
        1,
    ),
    (
        "BatchNormalization",
        {"X": "x", "scale": "v", "B": "v", "input_mean": "v", "input_var": "v", "training_mode": 1},
        {"x": IMAGE, "v": np.ones(1)},
        3,
    ),
    ("Dropout", {"data": "x"}, {"x": IMAGE}, 2),
    ("MaxPool", {"X": "x", "kernel_shape": [2, 2]}, {"x": IMAGE}, 2),
    ("Unique", {"X": "x"}, {"x": np.array([1.0, 2.0, 1.0])}, 4),
    (
        "RNN",
        {"X": "x", "W": "w", "R": "r", "hidden_size": 2},
        {"x": np.ones((2, 1, 3)), "w": np.ones((1, 2, 3)), "r": np.ones((1, 2, 2))},
        2,
    ),
    (
        "GRU",
        {"X": "x", "W": "w", "R": "r", "hidden_size": 2},
        {"x": np.ones((2, 1, 3)), "w": np.ones((1, 6, 3)), "r": np.ones((1, 6, 2))},
        2,
    ),
    (
        "LSTM",
        {"X": "x", "W": "w", "R": "r", "hidden_size": 2},
        {"x": np.ones((2, 1, 3)), "w": np.ones((1, 8, 3)), "r": np.ones((1, 8, 2))},
        3,
    ),
]


@pytest.mark.parametrize(("name", "args", "inputs", "count"), RESULTS)
def test_the_number_of_results_is_that_of_the_mdf_engine(name, args, inputs, count):
    parts = np.array([1, 2, 3])
    inputs = {**inputs, "parts": parts} if "parts" in args.values() else inputs
    program = lower_call(f"onnx::{name}", args, **inputs)
    assert len(program.outputs()) == count
    if args.get("split") == "parts":
        return
    engine = pytest.importorskip("modeci_mdf.functions.onnx")
    arguments = {k: inputs.get(v, v) if isinstance(v, str) else v for k, v in args.items()}
    for key in ("K", "split"):
        arguments |= {key: np.atleast_1d(arguments[key])} if key in arguments else {}
    if name == "Split" and "split" in args:  # the engine asks ONNX Runtime for one part only
        return
    results = getattr(engine, name.lower())(**arguments)
    expected = list(results) if isinstance(results, tuple) else [results]
    ours_all = program.run() if name == "MaxPool" else program.interpret()
    for ours, theirs in zip(ours_all, expected, strict=True):
        assert ours.shape == np.shape(theirs)
        # The engine computes in float32.
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_call_returns_the_first_of_optional_results():
    pool = lower_call("onnx::MaxPool", {"X": "x", "kernel_shape": [2, 2]}, x=IMAGE)
    assert isinstance(pool.term, OperatorResults)
    relu = Lowered(
        lambda b, scope: lower_function(
            b,
            "onnx::Relu",
            {"X": "pool"},
            _with(
                scope,
                pool=lower_function(b, "onnx::MaxPool", {"X": "x", "kernel_shape": [2, 2]}, scope),
            ),
        ),
        {"x": IMAGE},
    )
    assert relu.interpret()[0].shape == (1, 1, 3, 3)


def _with(scope, **terms):
    inner = scope.inner(terms)
    inner.is_node = True
    return inner


# --- how arguments can be written ---------------------------------------------------------------------

A, B = np.array([1.0, 5.0]), np.array([4.0, 2.0])
WRITTEN = [
    ("Max", {"data_0": "[a, b]"}, [4, 5]),
    ("Max", {"data_0": ["a", "b"]}, [4, 5]),
    ("Max", {"data_0": "(a, b, 4.5)"}, [4.5, 5]),
    ("Max", {"data_0": "['a', 'b']"}, [4, 5]),
    ("Max", {"x": "a", "y": "b"}, [4, 5]),
    ("Max", {"data_0": "a"}, [1, 5]),
    ("Sum", {"data_0": "a", "data_1": "2 * b", "data_2": 1}, [10, 10]),
    ("Concat", {"inputs": "[a, b]", "axis": 0}, [1, 5, 4, 2]),
    ("Concat", {"inputs": ["a", "b"], "axis": "zero"}, [1, 5, 4, 2]),
    ("Einsum", {"Inputs": "[a, b]", "equation": "i,i->"}, 14),
    ("Add", {"A": "a", "B": 1}, [2, 6]),
    ("Add", {"A": "a", "B": [1, 2]}, [2, 7]),
    ("Add", {"A": "a", "B": np.array([1.0, 2.0])}, [2, 7]),
    ("Max", {"data_0": "a", "data_1": np.array([0.0, 6.0])}, [1, 6]),
    ("Clip", {"input": "a", "min": np.array(2.0)}, [2, 5]),
    ("ReduceSum", {"data": "a", "axes": np.array([0]), "keepdims": 0}, 6),
    ("Concat", {"inputs": ["a", "b"], "axis": np.array(0)}, [1, 5, 4, 2]),
    ("Mul", {"A": "a + b", "B": "b"}, [20, 14]),
    ("Sub", {"A": "a"}, [-9, -5]),
    ("Clip", {"input": "a", "min": 2}, [2, 5]),
    ("Clip", {"input": "a", "min": "", "max": 2.5}, [1, 2.5]),
    ("Clip", {"input": "a", "min": None, "max": 2.5}, [1, 2.5]),
    ("ReduceSum", {"data": "a", "axes": 0, "keepdims": 0}, 6),
    ("ReduceSum", {"data": "a", "keepdims": False}, 6),
    ("ReduceMax", {"data": "a", "axes": "zero", "keepdims": "zero"}, 5),
    ("ReduceMax", {"data": "a", "axes": [-1], "keepdims": 2 - 1}, [5]),
    ("Reshape", {"data": "a", "shape": [[2, 1]]}, [[1], [5]]),
    ("Unsqueeze", {"data": "a", "axes": 0}, [[1, 5]]),
    ("LeakyRelu", {"X": "-a", "alpha": 0.5}, [-0.5, -2.5]),
    ("LeakyRelu", {"X": "-a", "alpha": "slope"}, [-0.5, -2.5]),
    ("Cast", {"input": "a * 1.5", "to": 7}, [1, 7]),
    ("ConstantOfShape", {"input": [2], "value": [3.0]}, [3, 3]),
    ("ConstantOfShape", {"input": 2, "value": 3}, [3, 3]),
    ("Constant", {"value": [1.0, 2.0]}, [1, 2]),
    ("Constant", {"value_float": 2.0}, 2),
    ("Pad", {"data": "a", "pads": [1, 0], "mode": "edge"}, [1, 1, 5]),
    ("Pad", {"data": "a", "pads": [1, 0], "mode": "'reflect'"}, [5, 1, 5]),
    ("Pad", {"data": "a", "pads": [1, 0], "constant_value": 7}, [7, 1, 5]),
    ("TopK", {"X": "a", "K": 1}, [[5], [1]]),
    ("Range", {"start": 0, "limit": 3, "delta": 1}, [0, 1, 2]),
    ("Where", {"condition": "a > b", "X": "a", "Y": 0}, [0, 5]),
    ("Exp", {"input": 0}, 1),
]


@pytest.mark.parametrize(("name", "args", "expected"), WRITTEN, ids=lambda v: str(v)[:40])
def test_spellings_of_arguments(name, args, expected):
    def lower(b, scope):
        terms = {"zero": b.constant(np.array(0)), "slope": b.constant(np.array(0.5))}
        if name == "Sub":
            terms["B"] = scope.find("c")  # taken from the node's values
        return lower_function(b, f"onnx::{name}", args, _with(scope, **terms))

    program = Lowered(lower, {"a": A, "b": B, "c": np.array(10.0)})
    results = program.interpret()
    expected = expected if len(results) > 1 else [expected]
    for ours, theirs in zip(results, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_texts_and_lists_of_texts():
    image = np.arange(4.0).reshape(1, 1, 2, 2)
    args = {"X": "x", "scales": [1, 1, 2, 2], "mode": "nearest"}
    assert lower_call("onnx::Resize", args, x=image).interpret()[0].shape == (1, 1, 4, 4)
    args = {"X": "x", "kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}
    assert lower_call("onnx::AveragePool", args, x=IMAGE).interpret()[0].shape == (1, 1, 4, 4)
    rnn = {"X": "x", "W": "w", "R": "r", "hidden_size": 2}
    arrays = {"x": np.ones((2, 1, 3)), "w": np.ones((1, 2, 3)), "r": np.ones((1, 2, 2))}
    for written in (["Tanh"], "Tanh", "[Tanh]", "['Tanh']"):
        program = lower_call("onnx::RNN", {**rnn, "activations": written}, **arrays)
        (op,) = (op for op in program.b.ops if isinstance(op, ir.Op) and op.op_type == "RNN")
        assert op.attributes["activations"] == ("Tanh",)


def test_attributes_may_be_values_of_the_node():
    def lower(b, scope):
        attributes = {
            "kernel_shape": b.constant(np.array([2, 2])),
            "strides": b.constant(np.array([2, 2])),
        }
        return lower_function(b, "onnx::MaxPool", {"X": "x"}, _with(scope, **attributes))

    assert Lowered(lower, {"x": IMAGE}).interpret()[0].tolist() == [[[[5, 7], [13, 15]]]]

    def constant(b, scope):
        return lower_function(
            b, "onnx::Constant", {}, _with(scope, value=b.constant(np.array([3])))
        )

    program = Lowered(constant, {"x": IMAGE})
    assert program.b.constant_of(program.term).tolist() == [3]


@pytest.mark.parametrize(
    ("name", "args", "kind", "sentence"),
    [
        (
            "Relu",
            {},
            OperandError,
            "onnx::Relu needs the argument 'X'\n  hint: add 'X' to the args of the function",
        ),
        ("Relu", {"X": "a", "alpah": 1}, OperandError, "onnx::Relu has no argument 'alpah'"),
        ("LeakyRelu", {"X": "a", "alpah": 1}, OperandError, "hint: did you mean 'alpha'?"),
        ("relu", {"X": "a"}, UnknownFunctionError, "did you mean 'onnx::"),
        ("Foo", {"X": "a"}, UnknownFunctionError, "ONNX has no operator 'Foo' in opset 17"),
        (
            "LeakyRelu",
            {"X": "a", "alpha": "a[0]"},
            OperandError,
            "the attribute 'alpha' of onnx::LeakyRelu must be known when the model is compiled, not 'a[0]'",
        ),
        (
            "LeakyRelu",
            {"X": "a", "alpha": [1, 2]},
            OperandError,
            "the attribute 'alpha' of onnx::LeakyRelu is one number",
        ),
        (
            "Concat",
            {"inputs": "[a, b]", "axis": 0.5},
            OperandError,
            "the attribute 'axis' of onnx::Concat is a whole number, not 0.5",
        ),
        (
            "Pad",
            {"data": "a", "pads": [1, 0], "mode": 5},
            OperandError,
            "the attribute 'mode' of onnx::Pad is a text, not 5",
        ),
        ("Max", {}, OperandError, "onnx::Max needs at least one argument"),
        ("Constant", {}, OperandError, "onnx::Constant takes one value, got 0"),
        (
            "Add",
            {"A": "a", "B": "n"},
            OperandError,
            "onnx::Add needs values of one dtype, got float64[2], int64[2]",
        ),
        (
            "Add",
            {"A": "n", "B": 0.5},
            OperandError,
            "use onnx::Cast, or write whole numbers with a point (2.0)",
        ),
        (
            "Add",
            {"A": "a", "B": "m"},
            OperandError,
            "onnx::Add cannot take (A: float64[2], B: float64[3])",
        ),
        ("MatMul", {"A": "a", "B": "m"}, OperandError, "onnx::MatMul cannot take"),
        ("Not", {"X": "a"}, OperandError, "onnx::Not cannot take (X: float64[2])"),
        ("Split", {"input": "a", "split": "a > 0"}, LoopError, "onnx::Split cannot take"),
    ],
)
def test_invalid_calls_are_refused(name, args, kind, sentence):
    with pytest.raises(kind) as caught:
        lower_call(f"onnx::{name}", args, a=A, b=B, n=np.array([1, 2]), m=np.ones(3))
    assert sentence in str(caught.value)
