"""The sample of the ONNX Loop document as an MDF model (R1.20 to R1.23)."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.ir import StopReason

SAMPLE = """
nodes:
  predict:
    input_ports: {a: {}, b: {}, most: {TYPED}, keepgoing: {}}
    functions:
      sample:
        function: onnx::Loop
        args:
          M: most
          cond: keepgoing
          v_initial: b
          body:
            body_net:
              metadata:
                inputs: [i, going, b_in]
                outputs: [goes_on, b_next, val]
              nodes:
                locals:
                  input_ports: {a: {}, b_in: {}}
                  output_ports: {my: {value: a + b_in}, difference: {value: a - b_in}}
                results:
                  input_ports: {b_in: {}, my: {}, difference: {}}
                  output_ports:
                    b_next: {value: difference}
                    goes_on: {value: my > difference}
                    val: {value: b_in + b_in}
              edges:
                e1: {sender: locals, sender_port: my, receiver: results, receiver_port: my}
                e2: {sender: locals, sender_port: difference, receiver: results, receiver_port: difference}
    output_ports:
      b_final: {value: "sample[0]"}
      vals: {value: "sample[1]"}
      keepgoing_out: {value: sample.condition}
      times: {value: sample.iterations}
      reason: {value: sample.stopped_by}
"""
TYPED = SAMPLE.replace("{TYPED}", "{type: int}")

POINTS = [
    ((3, 6, 10, 1), 6, [12, -6], False),
    ((3, 6, 1, 1), -3, [12], True),
    ((3, 6, 0, 1), 6, [], True),
    ((3, 6, 10, 0), 6, [], False),
    ((5, 2, 10, 1), 2, [4, 6] * 5, True),
    ((1, -3, 4, 1), 4, [-6], False),
    ((10, 1, 7, 1), 9, [2, 18, 2, 18, 2, 18, 2], True),
    ((0, 1, 10, 1), 1, [2, -2], False),
    ((0, 0, 10, 1), 0, [0], False),
    ((3, 6, 2, 1), 6, [12, -6], False),
]
"""Inputs (a, b, M, keepgoing) with b_final, vals and the last condition (section 1.1 of the requirements)."""


def c_program(a, b, most, keepgoing):
    """Compute the sample as its C code does."""
    vals, i = [], 0
    while i < most and keepgoing:
        my, difference = a + b, a - b
        vals.append(b + b)
        b, keepgoing = difference, my > difference
        i += 1
    return b, vals, bool(keepgoing)


@pytest.mark.parametrize(("arguments", "b_final", "vals", "keepgoing"), POINTS)
def test_r1_20_all_points_by_hand(run_everywhere, arguments, b_final, vals, keepgoing):
    assert c_program(*arguments) == (b_final, vals, keepgoing)
    results = run_everywhere(
        TYPED, dict(zip(("a", "b", "most", "keepgoing"), arguments, strict=True))
    )
    assert results["b_final"] == b_final
    assert results["vals"].tolist() == vals
    assert results["vals"].dtype == results["b_final"].dtype == np.int64
    report = results.loops["predict.sample"]
    assert report.iterations == results["times"] == len(vals)
    stopped = StopReason.TRIP_COUNT if keepgoing else StopReason.CONDITION
    assert report.stopped_by is stopped
    assert results["reason"] == stopped.code


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_r1_20_in_other_dtypes(run_everywhere, dtype):
    results = run_everywhere(TYPED, {"a": dtype(3), "b": dtype(6), "most": 10, "keepgoing": True})
    assert results["b_final"] == 6
    assert results["vals"].tolist() == [12, -6]
    assert results["vals"].dtype == results["b_final"].dtype == dtype


def test_r1_20_the_shared_sample(run_everywhere, shared):
    results = run_everywhere((shared / "models" / "doc_sample.yaml").read_text())
    assert results["loop_node.b_final"] == 6
    assert results["loop_node.user_defined_vals"].tolist() == [12, -6]


@pytest.mark.parametrize(("arguments", "b_final", "vals", "keepgoing"), POINTS)
def test_r1_21_the_condition_is_available_after_the_loop(
    run_everywhere, arguments, b_final, vals, keepgoing
):
    results = run_everywhere(
        TYPED, dict(zip(("a", "b", "most", "keepgoing"), arguments, strict=True))
    )
    assert results["keepgoing_out"].dtype == np.bool_
    assert results["keepgoing_out"] == keepgoing


def test_r1_21_the_condition_is_carried_a_second_time(run_everywhere):
    """Carry the condition a second time, so that its last value is an output."""
    model = (
        TYPED.replace("v_initial: b\n", "v_initial: (keepgoing == 1, b)\n")
        .replace("[i, going, b_in]", "[i, going, kept, b_in]")
        .replace("[goes_on, b_next, val]", "[goes_on, goes_on, b_next, val]")
        .replace('"sample[1]"', '"sample[2]"')
        .replace('"sample[0]"', '"sample[1]"')
        .replace("sample.condition", '"sample[0]"')
    )
    results = run_everywhere(model, {"a": 3, "b": 6, "most": 10, "keepgoing": 1})
    assert (bool(results["keepgoing_out"]), results["b_final"]) == (False, 6)
    assert results["vals"].tolist() == [12, -6]


@pytest.mark.parametrize("word", ["int32", "tensor(int32)", "int", "int64", "INT32"])
def test_r1_22_a_body_that_declares_its_iteration_number(run_everywhere, word):
    model = TYPED.replace(
        "{a: {}, b_in: {}}", f"{{a: {{}}, b_in: {{}}, i: {{type: {word}}}}}"
    ).replace("difference: {value: a - b_in}", "difference: {value: a - b_in + 0 * i}")
    arguments = {name: np.int32(value) for name, value in (("a", 3), ("b", 6))}
    if word in ("int", "int64"):
        arguments = {name: int(value) for name, value in arguments.items()}
    results = run_everywhere(model, {**arguments, "most": 10, "keepgoing": 1})
    assert results["b_final"] == 6
    assert results["vals"].tolist() == [12, -6]


CONSTANT = """
nodes:
  predict:
    parameters:
      a: {value: 3}
      b: {value: 6}
      max_trip_count: {value: 10}
      keepgoing: {value: 1}
    functions:
      sample:
        function: onnx::Loop
        args:
          M: max_trip_count
          cond: keepgoing
          v_initial: [b]
          body:
            body_net:
              metadata: {inputs: [i, going, b_in], outputs: [goes_on, b_out, val]}
              nodes:
                all:
                  input_ports: {a: {}, b_in: {}}
                  functions:
                    my: {function: "onnx::Add", args: {A: a, B: b_in}}
                    b_out: {function: "onnx::Sub", args: {A: a, B: b_in}}
                    goes_on: {function: "onnx::Greater", args: {A: my, B: b_out}}
                    val: {function: "onnx::Add", args: {A: b_in, B: b_in}}
                  output_ports: {b_out: {value: b_out}, goes_on: {value: goes_on}, val: {value: val}}
    output_ports: {b: {value: "sample[0]"}, vals: {value: "sample[1]"}}
"""


def test_r1_23_all_arguments_are_constant(run_everywhere):
    results = run_everywhere(CONSTANT)
    assert results["b"] == 6
    assert results["vals"].tolist() == [12, -6]
    assert results.loops["predict.sample"].iterations == 2


def test_r1_23_a_static_trip_count_fixes_the_shape(mdf):
    """Check that a `for` loop with a constant trip count has a known number of rows."""
    program = mdf_loop.read(mdf(CONSTANT.replace("cond: keepgoing", "cond:")))
    shapes = {o.name: o.value.shape for o in program.outputs}
    assert shapes["predict.vals"] == (10,)


NAMES = {"M": "most"}


@pytest.mark.parametrize(
    ("case", "outputs"),
    [("doc_sample", ["b_final", "vals"]), ("doc_sample_int32_iter", ["b_final", "vals"])],
)
def test_stored_numbers(check_stored, case, outputs):
    check_stored(case, TYPED, outputs, NAMES)
