"""Sequences and optional values as functions of a node: results and refusals."""

import re

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError, LoopError, ModelError, OperandError, RunError
from mdf_loop.lower.onnx_functions import UNSUPPORTED_OPERATORS
from mdf_loop.ops.onnx_schema import operator_names

MODEL = """
nodes:
  n:
    input_ports:
      s: {{type: sequence(float32)}}
      o: {{type: optional(float32)}}
      x: {{type: float32, shape: [2], default_value: [1, 2]}}
      k: {{type: int, default_value: 0}}
    functions:
      f: {{function: "onnx::{function}", args: {args}}}
    output_ports: {{y: {{value: f}}}}
"""
MEMBERS = [[1.0, 2.0], [3.0]]


def members(*lists):
    return [np.array(one, np.float32) for one in lists]


@pytest.fixture(scope="module")
def apply(run_everywhere):
    def run(function, args, **inputs):
        model = MODEL.format(function=function, args="{" + args + "}")
        return run_everywhere(model, inputs, engine=False)["y"]

    return run


def assert_equal_data(results, expected):
    if isinstance(expected, list):
        assert len(results) == len(expected)
        for first, second in zip(results, expected, strict=True):
            assert_equal_data(first, second)
        return
    assert results.dtype == expected.dtype
    np.testing.assert_array_equal(results, expected, strict=True)


ROWS = [
    ("SequenceConstruct", "inputs: [x, x]", {}, members([1, 2], [1, 2])),
    ("SequenceConstruct", "a: x, b: 2.0", {}, members([1, 2], 2)),
    ("SequenceEmpty", "", {}, []),
    ("SequenceEmpty", "dtype: int64", {}, []),
    ("SequenceAt", "input_sequence: s, position: k", {"k": 1}, members([3])[0]),
    ("SequenceAt", "input_sequence: s, position: -2", {}, members([1, 2])[0]),
    ("SequenceAt", "input_sequence: '[x, x * 2]', position: 1", {}, members([2, 4])[0]),
    ("SequenceInsert", "input_sequence: s, tensor: x", {}, members([1, 2], [3], [1, 2])),
    ("SequenceInsert", "input_sequence: s, tensor: 7, position: k", {}, members(7, [1, 2], [3])),
    (
        "SequenceInsert",
        "input_sequence: s, tensor: x, position: -1",
        {},
        members([1, 2], [1, 2], [3]),
    ),
    ("SequenceErase", "input_sequence: s", {}, members([1, 2])),
    ("SequenceErase", "input_sequence: s, position: 0", {}, members([3])),
    ("SequenceLength", "input_sequence: s", {}, np.array(2)),
    ("ConcatFromSequence", "input_sequence: s, axis: 0", {}, members([1, 2, 3])[0]),
    (
        "ConcatFromSequence",
        "input_sequence: '[x, x]', axis: 0, new_axis: 1",
        {},
        members([[1, 2]] * 2)[0],
    ),
    ("SplitToSequence", "input: x", {}, members([1], [2])),
    ("SplitToSequence", "input: x, keepdims: 0", {}, members(1, 2)),
    ("SplitToSequence", "input: x, split: 2", {}, members([1, 2])),
    ("SplitToSequence", "input: x, split: [2, 0]", {}, members([1, 2], [])),
    ("OptionalHasElement", "input: o", {}, np.array(False)),
    ("OptionalHasElement", "input: o", {"o": 1.5}, np.array(True)),
    ("OptionalHasElement", "input: x", {}, np.array(True)),
    ("OptionalHasElement", "", {}, np.array(False)),
    ("OptionalGetElement", "input: o", {"o": 1.5}, members(1.5)[0]),
    ("OptionalGetElement", "input: s", {}, members(*MEMBERS)),
    ("Optional", "input: s", {}, members(*MEMBERS)),
    ("Optional", "input: o", {"o": [1.0]}, members([1])[0]),
    ("Identity", "input: s", {}, members(*MEMBERS)),
]


@pytest.mark.parametrize(("function", "args", "inputs", "expected"), ROWS)
def test_functions_of_sequences_as_in_onnx(apply, function, args, inputs, expected):
    assert_equal_data(apply(function, args, s=MEMBERS, **inputs), expected)


def test_every_sequence_operator_has_a_row():
    operators = {name for name in operator_names() if "Sequence" in name or "Optional" in name}
    assert operators - set(UNSUPPORTED_OPERATORS) - {"ReverseSequence"} == {
        row[0] for row in ROWS
    } - {"Identity"}


@pytest.mark.parametrize("word", ["float32", "sequence(float32)", "sequence(string)"])
def test_an_optional_value_may_be_absent(apply, word):
    assert apply("Optional", f"type: {word}", s=[]) is None


@pytest.mark.parametrize(("value", "expected"), [("s[k]", [3.0]), ("len(s)", 2)])
def test_indices_and_lengths_are_written_as_in_python(run_everywhere, value, expected):
    text = MODEL.format(function="Identity", args="{input: s}").replace(
        "value: f", f'value: "{value}"'
    )
    results = run_everywhere(text, {"s": MEMBERS, "k": -1}, engine=False)["y"]
    assert results.tolist() == expected


# --- what is refused -------------------------------------------------------------------------------

EXPRESSIONS = [
    *(
        "s + 1",
        "1 - s",
        "s * x",
        "x / s",
        "x // s",
        "s % 2",
        "s ** 2",
        "x @ s",
        "-s",
        "~s",
        "s == s",
    ),
    *(
        "s < 1",
        "s and x",
        "not s",
        "s if s else x",
        "s if k > 0 else x",
        "s[0:1]",
        "s[0, 0]",
        "x[s]",
    ),
    *("numpy.sum(s)", "numpy.exp(s)", "numpy.clip(s, 0, 1)", "numpy.where(k > 0, s, x)", "s.T"),
    *("numpy.concatenate((s, x))", "numpy.zeros(s)", "numpy.full(2, s)"),
    *("numpy.float32(s)", "float(s)", "max(s, x)", "sum(s)", "abs(s)", "round(s)", "math.sin(s)"),
    *("(s, x)", "numpy.shape(s)", "numpy.dot(s, x)", "numpy.minimum(s, x)", "numpy.mod(s, 2)"),
]


@pytest.mark.parametrize("name", ["s", "o"])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_arithmetic_on_sequences_and_optional_values_is_refused(mdf, expression, name):
    """Check that no TypeError of numpy or onnx escapes."""
    text = MODEL.format(function="Identity", args="{input: x}")
    words = re.sub(r"\bs\b", name, expression)
    model = mdf(text.replace("value: f", f'value: "{words}"'))
    with pytest.raises(OperandError) as caught:
        mdf_loop.read(model, {"s": MEMBERS})
    message = str(caught.value)
    assert "sequence(float32)" in message if name == "s" else "optional(float32)" in message


WRONG = [
    (
        "Add",
        "A: s, B: x",
        "'A' of onnx::Add must be a tensor, but 's' is a sequence, sequence(float32)",
        "take a member with onnx::SequenceAt, or join all with onnx::ConcatFromSequence",
    ),
    (
        "Add",
        "A: x, B: o",
        "'B' of onnx::Add must be a tensor, but 'o' is an optional value, optional(float32)",
        "take what it holds with onnx::OptionalGetElement",
    ),
    (
        "SequenceAt",
        "input_sequence: x, position: 0",
        "'x' is a tensor, float32[2]: a sequence is needed",
        "make one with onnx::SequenceConstruct or onnx::Optional",
    ),
    (
        "SequenceLength",
        "input_sequence: o",
        "'o' is an optional value, optional(float32): a sequence is needed",
        "take what it holds with onnx::OptionalGetElement",
    ),
    (
        "SequenceInsert",
        "input_sequence: s, tensor: k",
        "'s' is sequence(float32), but 'k', which is put into it, is int64[]",
        "all members of a sequence have one dtype: use onnx::Cast",
    ),
    (
        "SequenceInsert",
        "input_sequence: s, tensor: s",
        "'tensor' of onnx::SequenceInsert must be a tensor, but 's' is a sequence",
        "take a member with onnx::SequenceAt",
    ),
    ("Optional", "type: float", "the attribute 'type' of onnx::Optional is a type", "e.g. float32"),
    ("SequenceEmpty", "dtype: number", "the attribute 'dtype' of onnx::SequenceEmpty", ""),
    ("SequenceConstruct", "", "onnx::SequenceConstruct needs at least one argument", ""),
    ("SequenceAt", "input_sequence: s", "onnx::SequenceAt needs the argument 'position'", ""),
    ("SequenceMap", "input_sequence: s", "'n.f' has no body", "add 'body' to its args"),
]


@pytest.mark.parametrize(("function", "args", "sentence", "hint"), WRONG)
def test_a_wrong_argument_is_named(mdf, function, args, sentence, hint):
    model = mdf(MODEL.format(function=function, args="{" + args + "}"))
    with pytest.raises(LoopError) as caught:
        mdf_loop.read(model, {"s": MEMBERS})
    assert sentence in str(caught.value)
    assert hint in str(caught.value)
    assert "functions['f']" in str(caught.value)


RUNNING = [
    ("SequenceAt", "input_sequence: s, position: k", 2, "outside of its sequence"),
    ("SequenceErase", "input_sequence: s, position: k", -3, "outside of its sequence"),
    ("SequenceInsert", "input_sequence: s, position: k, tensor: x", 3, "outside of its sequence"),
    ("OptionalGetElement", "input: o", 0, "ask onnx::OptionalHasElement before"),
]


@pytest.mark.parametrize(("function", "args", "k", "hint"), RUNNING)
def test_run_time_errors_state_the_place(mdf, function, args, k, hint):
    from mdf_loop.run.interpret import interpret

    compiled = mdf_loop.compile(mdf(MODEL.format(function=function, args="{" + args + "}")))
    arrays, program, _ = compiled.prepare({"s": MEMBERS, "k": k})
    with pytest.raises(RunError, match=hint) as caught:
        compiled.run({"s": MEMBERS, "k": k})
    assert "$.graphs[0].nodes['n'].functions['f']" in str(caught.value)
    with pytest.raises(RunError, match=r"position|absent"):
        interpret(program, arrays)


PORTS = [
    ("sequence(float32)", 3, InputError, "the input 's' must be a list of arrays, not 3"),
    ("sequence(float32)", None, InputError, "must be a list of arrays, not nothing"),
    ("sequence(float32)", [[1.0], ["a"]], InputError, "member 1 of the input 's' must be a number"),
    ("sequence(int64)", [[1.5]], InputError, "member 0 of the input 's' must be int64"),
    ("optional(float32)", "a", InputError, "the input 's' must be a number"),
    ("sequence(what)", [], ModelError, "the type 'sequence(what)' of the input port 's' is none"),
    ("sequence(sequence(float32))", [], ModelError, "is none that there is"),
    ("sequence(bfloat16)", [], ModelError, "is none that there is"),
    ("float32", [[1.0], [1.0, 2.0]], InputError, "say so: type: sequence(float32)"),
]


@pytest.mark.parametrize(("word", "value", "error", "sentence"), PORTS)
def test_a_port_refuses_values_of_another_type(mdf, word, value, error, sentence):
    text = MODEL.format(function="Identity", args="{input: s}")
    with pytest.raises(error) as caught:
        mdf_loop.read(mdf(text.replace("type: sequence(float32)", f"type: {word}")), {"s": value})
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("word", "default", "expected"),
    [
        ("sequence(float)", None, []),
        ("sequence(float)", "[[1, 2], [3]]", [np.array([1.0, 2.0]), np.array([3.0])]),
        ("optional(float)", None, None),
        ("optional(sequence(int32))", "[[1]]", [np.array([1], np.int32)]),
        ("optional(double)", "2", np.array(2.0)),
        ("string", None, np.array("", object)),
    ],
)
def test_defaults_of_ports(run_everywhere, word, default, expected):
    port = f"type: {word}" + (f", default_value: {default}" if default else "")
    text = f"nodes: {{n: {{input_ports: {{s: {{{port}}}}}, output_ports: {{y: {{value: s}}}}}}}}"
    results = run_everywhere(text, {}, engine=False)["y"]
    if expected is None:
        assert results is None
    else:
        assert_equal_data(results, expected)
