"""Sequences, optional values and bfloat16 in a run: inputs, results, files, time."""

import json

import ml_dtypes
import numpy as np
import pytest

import mdf_loop
from mdf_loop.cli.text import results_as_text
from mdf_loop.errors import InputError, LoopError, RunError, UnsupportedError
from mdf_loop.ir import Input, Op, Output, Program, Value
from mdf_loop.run.interpret import interpret
from mdf_loop.run.states import load_state, save_state
from mdf_loop.verification.comparison import compare_members

PASSED_MODEL = """
nodes:
  n:
    input_ports:
      s: {type: sequence(float32)}
      o: {type: optional(float32)}
      p: {type: optional(sequence(int64))}
      x: {type: float32, default_value: 1.5}
    output_ports: {s: {value: s}, o: {value: o}, p: {value: p}, x: {value: x}}
"""


@pytest.fixture(scope="module")
def passed_model(mdf):
    return mdf_loop.compile(mdf(PASSED_MODEL), device="cpu")


def test_results_are_lists_and_none(passed_model):
    results = passed_model.run({"s": [[1.0, 2.0], 3.0], "o": None})
    assert [row.tolist() for row in results["s"]] == [[1.0, 2.0], 3.0]
    assert results["n.o"] is None
    assert results["p"] is None
    assert repr(results) == (
        "Results(n.s: [float32[2], float32[]], n.o: absent, n.p: absent, n.x: float32[])"
    )


def test_present_optional_values(passed_model):
    results = passed_model.run({"o": 2, "p": [[1, 2]]})
    assert (results["o"].dtype, float(results["o"])) == (np.dtype("float32"), 2.0)
    assert [row.tolist() for row in results["p"]] == [[1, 2]]


def test_json_distinguishes_sequences_and_absent_values(passed_model):
    written = json.loads(passed_model.run({"s": [[1.0, float("nan")]], "p": []}).to_json())[
        "outputs"
    ]
    assert written["n.s"] == {
        "dtype": "sequence(float32)",
        "data": [{"dtype": "float32", "shape": [2], "data": [1.0, "nan"]}],
    }
    assert written["n.o"] is None
    assert written["n.p"] == {"dtype": "sequence(int64)", "data": []}
    assert written["n.x"] == {"dtype": "float32", "shape": [], "data": 1.5}


def test_printed_results_show_the_members_of_sequences(passed_model):
    text = results_as_text(passed_model.run({"s": [[1.0, 2.0], 3.0], "p": []}), "asked for")
    assert "n.s: sequence(float32) of 2 members" in text
    assert "  n.s[0]: float32[2]\n    [1., 2.]\n  n.s[1]: float32[]\n    3." in text
    assert "n.o: optional(float32), absent" in text
    assert "n.p: sequence(int64) of 0 members" in text


def test_printed_long_sequences_are_abbreviated(passed_model):
    text = results_as_text(passed_model.run({"s": [[float(k)] for k in range(100)]}), "asked for")
    assert "n.s: sequence(float32) of 100 members" in text
    assert "n.s[0]" in text
    assert "n.s[99]" in text
    assert "n.s[50]" not in text
    assert len(text.splitlines()) < 40


@pytest.mark.parametrize("suffix", ["npz", "csv", "h5", "nc"])
def test_other_formats_than_json_refuse_sequences(passed_model, tmp_path, suffix):
    results = passed_model.run({"s": [[1.0]]})
    with pytest.raises(InputError) as caught:
        results.save(tmp_path / f"results.{suffix}")
    assert "the output 'n.s' is a sequence of arrays, which only JSON can hold" in str(caught.value)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="only JSON can hold"):
        results.to_xarray()
    results.save(tmp_path / "results.json")
    assert json.loads((tmp_path / "results.json").read_text()) == results.to_dict()


def test_one_session_serves_all_lengths(passed_model):
    first = passed_model.prepare({"s": [[1.0]]})[2]
    assert passed_model.prepare({"s": [[1.0, 2.0], [3.0]], "o": 1.0})[2] is first


def test_input_lists_are_not_modified(passed_model):
    members = [np.ones(2, np.float32)]
    passed_model.run({"s": members})
    assert len(members) == 1
    assert members[0].tolist() == [1, 1]


# --- every dtype ----------------------------------------------------------------------------------

DTYPES = [
    *("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32"),
    *("uint16", "uint8", "bool", "string"),
]
EVERY_DTYPE = """
nodes:
  n:
    input_ports: {{s: {{type: sequence({dtype})}}, o: {{type: optional({dtype})}}, k: {{type: int}}}}
    functions:
      joined: {{function: onnx::ConcatFromSequence, args: {{input_sequence: s, axis: 0}}}}
      parts: {{function: onnx::SplitToSequence, args: {{input: joined, split: 2}}}}
      erased: {{function: onnx::SequenceErase, args: {{input_sequence: parts, position: k}}}}
      grown: {{function: onnx::SequenceInsert, args: {{input_sequence: erased, tensor: "s[0]"}}}}
      there: {{function: onnx::OptionalHasElement, args: {{input: o}}}}
    output_ports: {{grown: {{value: grown}}, joined: {{value: joined}}, there: {{value: there}}}}
"""


@pytest.mark.parametrize("dtype", DTYPES)
def test_sequences_of_every_dtype(run_everywhere, dtype):
    numbers = np.array([0, 1, 1, 0, 1])
    data = numbers.astype(str).astype(object) if dtype == "string" else numbers.astype(dtype)
    inputs = {"s": [data[:3], data[3:]], "k": 1, "o": data[0]}
    results = run_everywhere(EVERY_DTYPE.format(dtype=dtype), inputs, engine=False)
    assert results["joined"].tolist() == data.tolist()
    expected = [data[:2], data[4:], data[:3]]
    assert [row.tolist() for row in results["grown"]] == [row.tolist() for row in expected]
    assert {row.dtype for row in results["grown"]} == {data.dtype}
    assert results["there"]


# --- bfloat16 -------------------------------------------------------------------------------------

RANGE = """
nodes:
  n:
    input_ports:
      start: {type: bfloat16, default_value: 1}
      delta: {type: bfloat16, default_value: 2}
      count: {type: int, default_value: 2}
    functions:
      range:
        function: onnx::Loop
        args:
          M: count
          v_initial: start
          body:
            step:
              metadata: {inputs: [i, go, value], outputs: [go, next, value]}
              nodes:
                add:
                  input_ports: {value: {}, delta: {}}
                  output_ports: {next: {value: value + delta}}
    output_ports: {last: {value: "range[0]"}, values: {value: "range[1]"}}
"""


@pytest.mark.parametrize("count", [0, 2, 9])
def test_bfloat16_is_carried_and_recorded(run_everywhere, count):
    results = run_everywhere(RANGE, {"count": count, "delta": 0.3}, engine=False)
    value, values = np.array(1, ml_dtypes.bfloat16), []
    for _ in range(count):
        values.append(float(value))
        value = value + np.array(0.3, ml_dtypes.bfloat16)
    assert results["values"].dtype == results["last"].dtype == ml_dtypes.bfloat16
    assert results["values"].astype(float).tolist() == values
    assert float(results["last"]) == float(value)
    assert results.to_dict()["outputs"]["n.last"]["dtype"] == "bfloat16"


def test_bfloat16_inputs_are_not_rounded_again(run_everywhere):
    number = np.array(1.0078125, ml_dtypes.bfloat16)
    results = run_everywhere(RANGE, {"start": number, "count": 1}, engine=False)
    assert float(results["values"][0]) == 1.0078125


def test_files_keep_bfloat16(mdf):
    model = mdf_loop.compile(mdf(RANGE)).to_onnx()
    assert {value.type.tensor_type.elem_type for value in model.graph.output} == {16}


# --- refused uses ---------------------------------------------------------------------------------

STORED_OVER_TIME = """
nodes:
  a:
    input_ports: {x: {type: float32}}
    PARAMETER
    functions:
      e: {function: onnx::SequenceEmpty, args: {dtype: float32}}
      g: {function: onnx::SequenceInsert, args: {input_sequence: e, tensor: x}}
    output_ports: {n: {value: "KEPT"}}
"""


@pytest.mark.parametrize(
    ("value", "recording", "sentence"),
    [
        (
            "len(h)",
            "parameters: {h: {value: h, default_initial_value: e}}",
            "'h' of node 'a' is sequence(float32), which cannot be kept from one step",
        ),
        ("g", "", "the recorded value 'a.n' is a sequence, which cannot be recorded"),
    ],
)
def test_sequences_over_time_are_refused_by_name(mdf, value, recording, sentence):
    with pytest.raises(UnsupportedError) as caught:
        mdf_loop.compile(
            mdf(STORED_OVER_TIME.replace("KEPT", value).replace("PARAMETER", recording))
        ).run({"x": 1.0}, steps=3)
    assert sentence in str(caught.value)


def test_a_sequence_may_be_read_in_every_step(mdf):
    text = "nodes: {n: {input_ports: {s: {type: sequence(float32)}, k: {type: int}}, "
    text += "output_ports: {y: {value: 'k + len(s)'}}}}"
    results = mdf_loop.compile(mdf(text)).run({"s": [[1.0], [2.0]], "k": [1, 2, 3]}, steps=3)
    assert results["y"].tolist() == [3, 4, 5]


@pytest.mark.parametrize("swept", [{"s": [[[1.0]], [[2.0]]]}, {"x": [1.0, 2.0]}])
def test_a_sweep_of_sequences_is_refused(mdf, swept):
    text = PASSED_MODEL.replace("x: {value: x}", "x: {value: x}, y: {value: 's[0] + x'}")
    with pytest.raises(LoopError):
        mdf_loop.compile(mdf(text)).run({"s": [[1.0]]} if "x" in swept else {}, sweep=swept)


CONDITIONAL_NODE = """
nodes:
  a:
    input_ports: {x: {type: float32, default_value: 2}}
    functions: {f: {function: onnx::SequenceConstruct, args: {inputs: x}}}
    output_ports: {s: {value: f}}
  b:
    input_ports: {s: {type: sequence(float32)}}
    output_ports: {count: {value: len(s)}}
edges: {e: {sender: a, sender_port: s, receiver: b, receiver_port: s}}
conditions:
  node_specific:
    a: {type: EveryNCalls, kwargs: {dependencies: b, n: 2}}
    b: {type: Always}
"""


def test_a_port_without_a_value_holds_an_empty_sequence(run_everywhere):
    """Run `b` twice before `a` sends its first value."""
    assert run_everywhere(CONDITIONAL_NODE, {}, engine=False)["count"] == 0


# --- the interpreter's own operators ---------------------------------------------------------------


def interpreted(op_type, operands, **attributes):
    """Return the result of one operation in the interpreter."""
    dtypes = [
        "float64" if isinstance(data, np.ndarray) else "sequence(float64)" for data in operands
    ]
    values = [Value(f"x{k}", dtype, None) for k, dtype in enumerate(dtypes)]
    output = Value("made", "sequence(float64)", None)
    op = Op(op_type, tuple(values), (output,), attributes, "$.there")
    program = Program("one", tuple(map(Input, values)), (op,), (Output("made", output),))
    return interpret(program, {f"x{k}": data for k, data in enumerate(operands)})


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes", "sentence"),
    [
        ("SequenceErase", [[]], {}, "nothing can be erased from an empty sequence"),
        ("SequenceAt", [[], np.array(0)], {}, "no position 0 in a sequence of 0"),
        ("SplitToSequence", [np.ones(3), np.array([1, 1])], {}, "do not make up an axis of 3"),
        ("ConcatFromSequence", [[np.ones(2), np.ones((1, 1))]], {"axis": 0}, "cannot be joined"),
        ("OptionalGetElement", [None], {}, "an optional value is taken that is absent"),
    ],
)
def test_errors_of_the_interpreter(op_type, operands, attributes, sentence):
    with pytest.raises(RunError) as caught:
        interpreted(op_type, operands, **attributes)
    assert sentence in str(caught.value)
    assert "$.there" in str(caught.value)


# --- verification ---------------------------------------------------------------------------------

DOUBLED = """
nodes:
  n:
    input_ports: {s: {type: sequence(float32)}}
    functions:
      map:
        function: onnx::SequenceMap
        args:
          input_sequence: s
          body:
            each:
              metadata: {inputs: [a], outputs: [twice]}
              nodes: {d: {input_ports: {a: {}}, output_ports: {twice: {value: a * 2}}}}
    output_ports: {twice: {value: map}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 2])
def test_verify_compares_members_of_sequences(mdf, count):
    report = mdf_loop.verify(mdf(DOUBLED), {"s": [[1.0, 2.0]] * count}, device="cpu")
    names = [comparison.name for comparison in report.comparisons]
    assert report.equal
    assert names == [f"n.twice[{k}]" for k in range(count)] or (count, names) == (0, ["n.twice"])


@pytest.mark.parametrize(
    ("ours", "theirs", "types"),
    [
        ([], [np.ones(1)], ("sequence of 0", "sequence of 1")),
        (None, [], ("absent", "sequence of 0")),
        ([np.ones(1)], np.ones(1), ("sequence of 1", "float64")),
        (None, None, ("absent", "absent")),
    ],
)
def test_sequences_that_differ_in_length_are_different(ours, theirs, types):
    (difference,) = compare_members("n.s", "interpreter", ours, theirs, 1e-12)
    assert difference.types == types
    assert difference.equal == (types[0] == types[1])


# --- bfloat16 in files ----------------------------------------------------------------------------

STATE = """
nodes:
  n:
    input_ports: {h: {type: bfloat16, default_value: 1.5}}
    parameters: {p: {default_initial_value: h, value: p * h}}
    output_ports: {y: {value: p}}
"""


@pytest.mark.parametrize("suffix", ["npz", "csv", "h5", "nc", "json"])
def test_files_hold_bfloat16_exactly(mdf, tmp_path, suffix):
    results = mdf_loop.compile(mdf(STATE)).run({}, steps=3)
    assert str(results["y"].dtype) == "bfloat16"
    results.save(tmp_path / f"r.{suffix}")
    if suffix == "npz":
        with np.load(tmp_path / "r.npz") as saved:
            assert saved["n.y"].tolist() == results["y"].astype(float).tolist()


def test_a_state_of_bfloat16_is_resumed_from_a_file(mdf, tmp_path):
    compiled = mdf_loop.compile(mdf(STATE))
    unbroken_run = compiled.run({}, steps=5)["y"]
    save_state(tmp_path / "s.npz", compiled.run({}, steps=3).state)
    second_part = compiled.run({}, steps=2, state=load_state(tmp_path / "s.npz"))["y"]
    assert second_part.astype(float).tolist() == unbroken_run[3:].astype(float).tolist()
    state = {**compiled.run({}, steps=3).state, "parameter n.p": np.float64(0.1)}
    with pytest.raises(InputError, match="but this model carries bfloat16"):
        compiled.run({}, steps=2, state=state)
