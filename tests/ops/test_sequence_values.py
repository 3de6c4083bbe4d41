"""Types of sequences, optional values, text and bfloat16 in exported ONNX."""

from itertools import starmap

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import mdf_loop
from mdf_loop.build import Builder
from mdf_loop.emit import portable, to_onnx
from mdf_loop.errors import RunError, UnsupportedError
from mdf_loop.ir import Input, Output, Program
from mdf_loop.ir.types import TypeAttribute, type_of
from mdf_loop.pipeline import LEGAL, ONNXRUNTIME, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.ops.op_running import program_of
from tests.placements import STANDARD

BFLOAT16 = ml_dtypes.bfloat16
HALVES = {"bfloat16": BFLOAT16, "float16": np.float16}

CHOICE_MODEL = """
nodes:
  n:
    input_ports:
      s: {type: sequence(float32)}
      o: {type: optional(sequence(float32))}
      k: {type: int, default_value: 3}
    functions:
      grown:
        function: onnx::Loop
        args:
          M: k
          v_initial: (s, o)
          body:
            b:
              metadata: {inputs: [i, go, rows, kept], outputs: [go, more, kept]}
              nodes:
                put:
                  input_ports: {rows: {}, s: {}}
                  functions:
                    f: {function: onnx::SequenceInsert, args: {input_sequence: rows, tensor: "s[0]"}}
                  output_ports: {more: {value: f}}
      either:
        function: onnx::If
        args:
          cond: k > 2
          then_branch:
            t: {metadata: {outputs: [s]}, nodes: {}}
          else_branch:
            e:
              metadata: {outputs: [none]}
              nodes:
                n:
                  functions: {f: {function: onnx::SequenceEmpty, args: {dtype: float32}}}
                  output_ports: {none: {value: f}}
    output_ports: {rows: {value: "grown[0]"}, kept: {value: "grown[1]"}, either: {value: either}}
"""
INPUTS = {"s": [[1.0], [2.0, 3.0]], "o": [[4.0]], "k": 3}


@pytest.fixture(scope="module")
def model(mdf):
    return mdf_loop.compile(mdf(CHOICE_MODEL)).to_onnx(INPUTS)


def type_names(values):
    return {value.name: type_of(value.type)[0] for value in values}


def test_inputs_and_outputs_keep_their_types(model):
    input_types = {"s": "sequence(float32)", "o": "optional(sequence(float32))", "k": "int64"}
    assert type_names(model.graph.input) == input_types
    assert type_names(model.graph.output) == {
        "n.rows": "sequence(float32)",
        "n.kept": "optional(sequence(float32))",
        "n.either": "sequence(float32)",
    }


def test_bodies_keep_their_types(model):
    bodies = {
        node.op_type: [attribute.g for attribute in node.attribute if attribute.HasField("g")]
        for node in model.graph.node
    }
    (body,) = bodies["Loop"]
    carried = ["sequence(float32)", "optional(sequence(float32))"]
    assert [*type_names(body.input).values()][2:4] == carried
    assert [type_of(value.type)[0] for value in body.output[1:3]] == carried
    for branch in bodies["If"]:
        assert [*type_names(branch.output).values()] == ["sequence(float32)"]


def test_the_exported_file_is_valid_and_runs_on_onnx_runtime(model):
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {"s": [np.float32([1.0])], "o": None, "k": np.array(1)}
    rows, records, either = session.run(["n.rows", "n.kept", "n.either"], feeds)
    assert [row.tolist() for row in rows] == [[1.0], [1.0]]
    assert (records, either) == (None, [])


def test_results_are_those_of_the_interpreter(run_everywhere, mdf):
    results = run_everywhere(CHOICE_MODEL, INPUTS, engine=False)
    assert [row.tolist() for row in results["rows"]] == [[1], [2, 3], [1], [1], [1]]
    assert [row.tolist() for row in results["kept"]] == [[4]]
    assert run_everywhere(CHOICE_MODEL, {"s": INPUTS["s"]}, engine=False)["kept"] is None


def test_passes_keep_sequences_and_optional_values(model, mdf):
    program = mdf_loop.read(mdf(CHOICE_MODEL), INPUTS)
    assert prepare(program, LEGAL) is program
    again = portable(model)
    assert type_names(again.graph.output) == type_names(model.graph.output)


def test_a_type_is_written_as_an_attribute():
    b = Builder()
    absent = b.op("Optional", type=TypeAttribute("sequence(int64)"))
    program = Program("p", (), tuple(b.ops), (Output("y", absent),))
    (node,) = (n for n in to_onnx(program).graph.node if n.op_type == "Optional")
    assert type_of(helper.get_node_attr_value(node, "type")) == ("sequence(int64)", None)
    assert "type=sequence(int64)" in str(program)
    assert Session(program, STANDARD).run({})["y"] is interpret(program, {})["y"] is None


def test_constants_may_be_text():
    b = Builder()
    x = b.new("int64", (), "x")
    words_ = b.constant(np.array([["ä", "b"], ["", "d e"]], object))
    results = {"y": b.op("Gather", words_, x), "z": b.op("Identity", b.constant(np.array("ß")))}
    outputs = tuple(starmap(Output, results.items()))
    program = Program("p", (Input(x),), tuple(b.ops), outputs)
    results = Session(prepare(program, ONNXRUNTIME), STANDARD).run({"x": np.array(1)})
    assert results["y"].tolist() == ["", "d e"]
    assert results["z"].tolist() == "ß"


TEXTS = np.array([f"t{k}" for k in range(12)], object).reshape(2, 3, 2)
MOVES = [
    *[("Gather", [TEXTS, np.array(k)], {"axis": axis}) for axis in (0, 1, 2, -2) for k in (1, -1)],
    ("Gather", [TEXTS, np.array([[1, 0], [-1, 0]])], {"axis": 1}),
    ("Gather", [TEXTS[0, 0], np.array([1, 0, 1])], {"axis": 0}),
    ("GatherElements", [TEXTS[0], np.array([[0], [1], [0]])], {"axis": 1}),
    ("GatherND", [TEXTS, np.array([[0, 1], [1, 2]])], {}),
    ("Slice", [TEXTS, np.array([2]), np.array([-4]), np.array([1]), np.array([-1])], {}),
    ("Concat", [TEXTS, TEXTS], {"axis": 1}),
    ("Transpose", [TEXTS], {"perm": (2, 0, 1)}),
    ("Tile", [TEXTS, np.array([2, 1, 2])], {}),
    ("Expand", [TEXTS[0, :1], np.array([2, 3, 2])], {}),
    ("Where", [np.array([[[True]], [[False]]]), TEXTS, TEXTS[::-1]], {}),
    ("Reshape", [TEXTS, np.array([4, -1])], {}),
    ("ScatterElements", [TEXTS[0], np.array([[0, 1]]), TEXTS[1, :1]], {"axis": 0}),
    ("ScatterND", [TEXTS, np.array([[1]]), TEXTS[:1]], {}),
    ("Compress", [TEXTS, np.array([True, False, True])], {"axis": 1}),
    ("ReverseSequence", [TEXTS[0], np.array([2, 1])], {"batch_axis": 1, "time_axis": 0}),
]


@pytest.mark.parametrize(("op_type", "arrays", "attributes"), MOVES)
def test_text_is_moved_as_onnx_says(op_type, arrays, attributes):
    """Move texts without the Gather of ONNX Runtime, which copies only the first text of each row."""
    program = program_of(op_type, arrays, **attributes)
    feeds = {f"x{k}": array for k, array in enumerate(arrays)}
    moved_text = Session(prepare(program, ONNXRUNTIME), STANDARD).run(feeds)["y0"]
    assert moved_text.tolist() == interpret(program, feeds)["y0"].tolist()


def test_text_of_an_unknown_number_of_axes_is_refused():
    program = program_of("Gather", [TEXTS, np.array(0)], shapes=[None, ()])
    with pytest.raises(UnsupportedError, match="onnx::Gather of text needs a known number of axes"):
        prepare(program, LEGAL)


# --- split of small integers ----------------------------------------------------------------------

NUMBERS = np.arange(-5, 7).reshape(3, 4)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint64"])
@pytest.mark.parametrize("known", [(), (1,)])
@pytest.mark.parametrize(
    ("split", "attributes"),
    [
        (None, {}),
        (None, {"keepdims": 0, "axis": -1}),
        (np.array(2), {"axis": 1}),
        (np.array(3, np.int32), {"axis": 1}),
        (np.array([3, 0, 1]), {"axis": -1}),
        (np.array([1, 2], np.int32), {}),
    ],
)
def test_split_of_small_integers(dtype, known, split, attributes):
    arrays = [NUMBERS.astype(dtype)] + ([] if split is None else [split])
    known = known if split is not None else ()
    program = program_of("SplitToSequence", arrays, constant=known, **attributes)
    feeds = {f"x{k}": array for k, array in enumerate(arrays) if k not in known}
    parts = Session(prepare(program, ONNXRUNTIME), STANDARD).run(feeds)["y0"]
    meant = interpret(program, feeds)["y0"]
    assert [part.tolist() for part in parts] == [part.tolist() for part in meant]
    assert {part.dtype for part in parts} == {np.dtype(dtype)}


def test_a_split_of_another_total_fails():
    arrays = [NUMBERS.astype(np.int8), np.array([1, 1])]
    session = Session(prepare(program_of("SplitToSequence", arrays), ONNXRUNTIME), STANDARD)
    with pytest.raises(
        RunError, match="the parts of onnx::SplitToSequence do not make up its axis"
    ):
        session.run({"x0": arrays[0], "x1": arrays[1]})


# --- bfloat16 and float16 -------------------------------------------------------------------------


def _all_values(dtype, seed):
    """Return all values of the dtype in random order."""
    bits = np.random.default_rng(seed).permutation(np.arange(2**16, dtype=np.uint16))
    return bits.view(HALVES[dtype])


@pytest.mark.parametrize("dtype", sorted(HALVES))
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Less", "Mod"])
def test_two_halves_give_the_exact_result_rounded_once(dtype, op_type):
    x, y = _all_values(dtype, 1), _all_values(dtype, 2)
    attributes = {"fmod": 1} if op_type == "Mod" else {}
    _check_rounded_once(program_of(op_type, [x, y], **attributes), [x, y])


@pytest.mark.parametrize("dtype", sorted(HALVES))
@pytest.mark.parametrize("op_type", ["Sqrt", "Reciprocal", "Neg", "Abs", "Ceil", "Floor", "Relu"])
def test_one_half_gives_the_exact_result_rounded_once(dtype, op_type):
    x = _all_values(dtype, 3)
    _check_rounded_once(program_of(op_type, [x]), [x])


def _check_rounded_once(program, arrays):
    """Compare the results with onnx's reference, which computes in float32 and rounds once."""
    feeds = {f"x{k}": array for k, array in enumerate(arrays)}
    rounded = Session(prepare(program, ONNXRUNTIME), STANDARD).run(feeds)["y0"]
    meant = interpret(program, feeds)["y0"]
    assert rounded.dtype == meant.dtype
    with np.errstate(invalid="ignore"):  # nan is expected.
        np.testing.assert_array_equal(rounded.astype(np.float64), meant.astype(np.float64))


def test_sums_of_bfloat16_are_correctly_rounded():
    """Compare with exact arithmetic: the nearest bfloat16, also for ties."""
    rng = np.random.default_rng(4)
    x, y = (rng.normal(size=5000).astype(BFLOAT16) for _ in range(2))
    program = program_of("Mul", [x, y])
    sums = Session(prepare(program, ONNXRUNTIME), STANDARD).run({"x0": x, "x1": y})["y0"]
    exact = x.astype(np.float64) * y.astype(np.float64)
    steps = [np.nextafter(sums, np.array(side, BFLOAT16)) for side in (-np.inf, np.inf)]
    error = abs(sums.astype(np.float64) - exact)
    for other in steps:
        assert np.all(error <= abs(other.astype(np.float64) - exact))


@pytest.mark.parametrize("op_type", ["Exp", "Tanh", "Log", "Sigmoid", "ReduceSum", "Erf"])
def test_operations_with_other_rounding_are_refused(op_type):
    program = program_of(op_type, [np.ones(3, BFLOAT16)])
    with pytest.raises(UnsupportedError) as caught:
        prepare(program, LEGAL)
    message = str(caught.value)
    assert f"onnx::{op_type} of bfloat16 has no kernel" in message
    assert "cast to float32 before it, and back after it" in message
    assert "$.here" in message


def test_products_of_matrices_of_bfloat16_are_refused():
    x = np.ones((2, 2), BFLOAT16)
    with pytest.raises(UnsupportedError, match="onnx::MatMul of bfloat16 has no kernel"):
        prepare(program_of("MatMul", [x, x]), LEGAL)
