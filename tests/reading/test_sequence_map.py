"""`onnx::SequenceMap`: one body per sequence member, its signature and its captured values."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import ArityError, LoopError, OperandError, RunError, SignatureError
from mdf_loop.ir import Loop, loops

MODEL = """
nodes:
  scale:
    input_ports:
      xs: {{type: sequence(float32)}}
      ys: {{type: sequence(float32)}}
      z: {{type: float32, shape: [2], default_value: [10, 20]}}
    functions:
      map:
        function: onnx::SequenceMap
        args:
          input_sequence: xs
          {more}
          body:
            each:
              metadata: {{{signature}}}
              nodes:
                add:
                  input_ports: {{{ports}}}
                  output_ports: {{sum: {{value: {value}}}, same: {{value: a}}}}
    output_ports: {{y: {{value: "{output}"}}}}
"""
GIVEN = {"xs": [[1, 2], [3, 4]], "ys": [[1], [5, 6]]}


def model(
    *,
    more="additional_inputs: [ys]",
    signature="inputs: [a, b], outputs: [sum]",
    ports="a: {}, b: {}",
    value="a + b",
    output="map",
):
    return MODEL.format(more=more, signature=signature, ports=ports, value=value, output=output)


ROWS = [
    ({}, [[2, 3], [8, 10]]),
    ({"more": "additional_inputs: ys"}, [[2, 3], [8, 10]]),
    ({"more": "additional_inputs: '[ys]'"}, [[2, 3], [8, 10]]),
    ({"more": "additional_inputs: [z]"}, [[11, 22], [13, 24]]),
    (
        {
            "more": "additional_inputs: [z, ys]",
            "signature": "inputs: [a, b, c], outputs: [sum]",
            "ports": "a: {}, b: {}, c: {}",
            "value": "a + b * c",
        },
        [[11, 22], [53, 124]],
    ),
    (
        {
            "more": "",
            "signature": "inputs: [a], outputs: [sum]",
            "ports": "a: {}, z: {}",
            "value": "a - z",
        },
        [[-9, -18], [-7, -16]],
    ),
    (
        {
            "more": "w: z * 2",
            "signature": "inputs: [a], outputs: [sum]",
            "ports": "a: {}, w: {}",
            "value": "a + w",
        },
        [[21, 42], [23, 44]],
    ),
    ({"signature": "inputs: [a, b], outputs: [same, sum]", "output": "map[1]"}, [[2, 3], [8, 10]]),
    ({"signature": "inputs: [a, b], outputs: [b]"}, [[1], [5, 6]]),
]


@pytest.mark.parametrize(("changes", "expected"), ROWS)
def test_every_member_goes_through_the_body(run_everywhere, changes, expected):
    y = run_everywhere(model(**changes), GIVEN, engine=False)["y"]
    assert [member.tolist() for member in y] == expected
    assert {member.dtype for member in y} == {np.dtype("float32")}


def test_an_empty_sequence_gives_an_empty_one(run_everywhere):
    assert run_everywhere(model(), {"xs": [], "ys": []}, engine=False)["y"] == []


def test_sequence_map_compiles_to_a_loop(mdf):
    program = mdf_loop.read(mdf(model()), GIVEN)
    (loop,) = loops(program)
    assert isinstance(loop, Loop)
    assert loop.name == "scale.map"
    kinds = [op.op_type for op in loop.ops]
    assert kinds == ["SequenceAt", "SequenceAt", "Add", "SequenceInsert"]
    assert [carried.body_input.dtype for carried in loop.carried] == ["sequence(float32)"]


def test_a_sequence_that_is_too_short_fails_when_it_runs(mdf):
    with pytest.raises(RunError, match="outside of its sequence") as caught:
        mdf_loop.compile(mdf(model())).run({**GIVEN, "ys": [[1]]})
    assert "nodes['scale'].functions['map']" in str(caught.value)


@pytest.mark.parametrize("count", [0, 3])
def test_a_sequence_map_in_a_loop_body(run_everywhere, count):
    text = f"""
nodes:
  again:
    input_ports: {{xs: {{type: sequence(float32)}}}}
    functions:
      rounds:
        function: onnx::Loop
        args:
          M: {count}
          v_initial: xs
          body:
            round:
              metadata: {{inputs: [i, go, rows], outputs: [go, next]}}
              nodes:
                double:
                  input_ports: {{rows: {{}}}}
                  functions:
                    map:
                      function: onnx::SequenceMap
                      args:
                        input_sequence: rows
                        body:
                          each:
                            metadata: {{inputs: [row], outputs: [twice]}}
                            nodes:
                              n: {{input_ports: {{row: {{}}}}, output_ports: {{twice: {{value: row * 2}}}}}}
                  output_ports: {{next: {{value: map}}}}
    output_ports: {{y: {{value: rounds}}}}
"""
    y = run_everywhere(text, {"xs": [[1.0], [2.0, 3.0]]}, engine=False)["y"]
    assert [row.tolist() for row in y] == [[2.0**count], [2 * 2.0**count, 3 * 2.0**count]]


REFUSED = [
    (
        {"signature": "inputs: [a], outputs: [sum]"},
        ArityError,
        "'scale.map' has 2 inputs, but metadata.inputs of its body names 1: ['a']",
    ),
    ({"signature": "outputs: [sum]"}, SignatureError, "in which order its inputs stand"),
    ({"signature": "inputs: [a, b]"}, SignatureError, "in which order its outputs stand"),
    (
        {"signature": "inputs: [a, b], outputs: [total]"},
        LoopError,
        "the body of 'scale.map' has no output port 'total'",
    ),
    ({"ports": "a: {}, b: {}, c: {}"}, LoopError, "in the body of 'scale.map' is bound to nothing"),
    (
        {"signature": "inputs: [a, b], outputs: [xs]"},
        OperandError,
        "the output 'xs' of the body of 'scale.map' must be a tensor, but 'xs' is a sequence",
    ),
]


@pytest.mark.parametrize(("changes", "error", "sentence"), REFUSED)
def test_a_wrong_body_is_refused(mdf, changes, error, sentence):
    with pytest.raises(error) as caught:
        mdf_loop.read(mdf(model(**changes)), GIVEN)
    assert sentence in str(caught.value)


def test_the_first_input_must_be_a_sequence(mdf):
    text = model().replace("input_sequence: xs", "input_sequence: z")
    with pytest.raises(OperandError, match=r"'z' is a tensor, .*: a sequence is needed"):
        mdf_loop.read(mdf(text), GIVEN)
    with pytest.raises(OperandError, match="needs the argument 'input_sequence'"):
        mdf_loop.read(mdf(text.replace("input_sequence: z", "")), GIVEN)
