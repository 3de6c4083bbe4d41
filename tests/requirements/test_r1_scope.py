"""Names in scope inside of a body, and names that are local to it (R1.09, R1.18, R1.19, R1.24)."""

import numpy as np
import pytest

from mdf_loop.errors import ScopeError, UnknownNameError

WEIGHTS = """
nodes:
  source:
    input_ports: {w: {default_value: [1.0, 10.0]}}
    output_ports: {w_out: {value: w}}
  neuron:
    input_ports:
      w: {}
      x: {default_value: 2.0}
      n: {default_value: 3, type: int}
    parameters:
      twice_w: {value: w + w}
      zero: {value: [0.0, 0.0]}
      unused: {value: 5}
    functions:
      charge:
        function: onnx::Loop
        args:
          M: n
          v_initial: zero
          body:
            b:
              metadata: {inputs: [i, go, y], outputs: [go, y_next]}
              nodes:
                add:
                  input_ports: {y: {}, twice_w: {}, x: {}}
                  output_ports: {y_next: {value: y + twice_w * x}}
    output_ports: {y: {value: charge}}
edges:
  e: {sender: source, sender_port: w_out, receiver: neuron, receiver_port: w}
"""


def test_r1_09_a_body_reads_inputs_and_computed_values_of_the_node(run_everywhere):
    assert run_everywhere(WEIGHTS)["y"].tolist() == [12.0, 120.0]


CAPTURE_ONLY = """
nodes:
  ramp:
    input_ports: {n: {type: int}, slope: {}}
    functions:
      fill:
        function: onnx::Loop
        args:
          M: n
          body:
            b:
              metadata: {inputs: [i, go], outputs: [go, y]}
              nodes: {scale: {input_ports: {i: {}, slope: {}}, output_ports: {y: {value: slope * i}}}}
    output_ports: {ys: {value: fill}}
"""


def test_r1_09_captures_without_carried_values(run_everywhere):
    results = run_everywhere(CAPTURE_ONLY, {"n": 4, "slope": 2.5})
    assert results["ys"].tolist() == [0, 2.5, 5, 7.5]


RETURNED_OUTER_VALUE = """
nodes:
  echo:
    input_ports: {n: {type: int}, x: {}}
    functions:
      repeat:
        function: onnx::Loop
        args:
          M: n
          body:
            b:
              metadata: {inputs: [i, go], outputs: [go, x]}
              nodes: {}
    output_ports: {xs: {value: repeat}}
"""


def test_r1_09_an_outer_value_may_be_an_output_of_the_body(run_everywhere):
    assert run_everywhere(RETURNED_OUTER_VALUE, {"n": 3, "x": 2.5})["xs"].tolist() == [2.5] * 3
    assert run_everywhere(RETURNED_OUTER_VALUE, {"n": 0, "x": [2.5, 1.0]})["xs"].shape == (0, 2)


OUTER_CONDITION = """
nodes:
  timer:
    input_ports: {x: {default_value: 1.0}}
    parameters: {stay: {value: STAY}}
    functions:
      double:
        function: onnx::Loop
        args:
          M: 5
          cond: true
          v_initial: x
          body:
            b:
              metadata: {inputs: [i, go, v], outputs: [stay, w]}
              nodes: {n: {input_ports: {v: {}}, output_ports: {w: {value: v + v}}}}
    output_ports: {x: {value: double}}
"""


@pytest.mark.parametrize(("stay", "x"), [("false", 2.0), ("true", 32.0)])
def test_r1_09_an_outer_value_may_be_the_condition(run_everywhere, stay, x):
    """Check that a false condition output still lets the first iteration run."""
    assert run_everywhere(OUTER_CONDITION.replace("STAY", stay))["x"] == x


TWO_LEVELS = """
nodes:
  grid:
    input_ports:
      rows: {default_value: 2}
      columns: {default_value: 3}
      offset: {default_value: 100}
    parameters: {scale: {value: 10}}
    functions:
      over_rows:
        function: onnx::Loop
        args:
          M: rows
          body:
            row:
              metadata: {inputs: [r, go], outputs: [go, cells]}
              nodes:
                inner:
                  input_ports: {r: {}, columns: {}}
                  parameters: {shifted: {value: r + 1}}
                  functions:
                    over_columns:
                      function: onnx::Loop
                      args:
                        M: columns
                        body:
                          cell:
                            metadata: {inputs: [c, going], outputs: [going, value]}
                            nodes:
                              compute:
                                input_ports: {c: {}, r: {}, shifted: {}, scale: {}, offset: {}}
                                output_ports:
                                  value: {value: offset + scale * shifted + c + 0 * r}
                  output_ports: {cells: {value: over_columns}}
    output_ports: {table: {value: over_rows}}
"""


def test_r1_09_captures_two_levels_deep(run_everywhere):
    results = run_everywhere(TWO_LEVELS)
    assert results["table"].tolist() == [[110, 111, 112], [120, 121, 122]]
    fixed = TWO_LEVELS.replace("M: columns", "M: 3")
    assert run_everywhere(fixed, {"rows": 0})["table"].shape == (0, 3)


def test_r1_09_a_name_written_as_extra_argument(run_everywhere):
    model = CAPTURE_ONLY.replace("M: n", "M: n\n          slope: 2 * slope")
    assert run_everywhere(model, {"n": 3, "slope": 1.0})["ys"].tolist() == [0, 2, 4]


NESTED_NAMES = """
nodes:
  same:
    input_ports: {n: {type: int}, x: {}}
    functions:
      double:
        function: onnx::Loop
        args:
          M: n
          v_initial: x
          body:
            same:
              metadata: {inputs: [n, go, x], outputs: [go, y]}
              nodes:
                same:
                  input_ports: {x: {}}
                  parameters: {double: {value: x + x}}
                  output_ports: {y: {value: double}}
    output_ports:
      y: {value: double}
      x: {value: x + double}
      n: {value: n}
"""


def test_r1_18_the_same_names_inside_and_outside(run_everywhere):
    """Check that equal names inside and outside of the body refer to different values."""
    results = run_everywhere(NESTED_NAMES, {"n": 2, "x": 1.0})
    assert results["same.y"] == 4.0
    assert results["same.x"] == 5.0
    assert results["same.n"] == 2


ARGUMENT_ORDER = """
nodes:
  crossed:
    input_ports: {trips: {type: int}, p: {}, q: {}}
    functions:
      cross:
        function: onnx::Loop
        args:
          M: trips
          v_initial: (p, q)
          body:
            b:
              metadata: {inputs: [i, c, q, p], outputs: [c, z, p, q]}
              nodes:
                n:
                  input_ports: {q: {}, p: {}}
                  output_ports: {q: {value: p}, p: {value: p - q}, z: {value: q + q}}
    output_ports: {r3: {value: "cross[2]"}, r2: {value: "cross[1]"}, r1: {value: "cross[0]"}}
"""


def test_r1_19_arguments_are_matched_by_order_not_by_name(run_everywhere):
    """Name the first carried value q and the second p in the body, the reverse of the outer names."""
    results = run_everywhere(ARGUMENT_ORDER, {"trips": 2, "p": 1.0, "q": 10.0})
    assert (results["r1"], results["r2"]) == (4.0, 7.0)
    assert results["r3"].tolist() == [10.0, 9.0]


# --- local names of a body ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "error"),
    [("twice_w_x", UnknownNameError), ("y + 1", UnknownNameError), ("i", UnknownNameError)],
)
def test_r1_24_a_local_body_value_used_outside_is_refused(run_everywhere, written, error):
    model = WEIGHTS.replace("y: {value: charge}", f"y: {{value: '{written}'}}")
    name = written.split()[0]
    with pytest.raises(error, match=f"unknown name '{name}'.*\n.*output_ports\\['y'\\]"):
        run_everywhere(model)


def test_r1_24_the_documented_sample_refuses_my_local(run_everywhere, shared):
    text = (shared / "models" / "doc_sample.yaml").read_text()
    with pytest.raises(UnknownNameError, match="unknown name 'my_local'"):
        run_everywhere(text.replace("value: loop_1[0]", "value: my_local"))


def test_r1_09_an_unconnected_port_is_an_error(run_everywhere):
    model = WEIGHTS.replace("y: {}, twice_w: {}, x: {}", "y: {}, twice_w: {}, x: {}, z: {}")
    with pytest.raises(
        ScopeError, match="input port 'z' of node 'add' in the body of the loop is bound to nothing"
    ):
        run_everywhere(model)


WEIGHTS_32 = WEIGHTS.replace("[0.0, 0.0]", "0 * w")
CAPTURE_32 = CAPTURE_ONLY.replace("slope * i", "slope * numpy.float32(i)")
"""Stored cases in float32. A list in a document and int64 * float32 would be float64."""


# --- stored numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "model", "names", "outputs"),
    [
        ("outer_scope_capture", WEIGHTS_32, {"M": "n", "W": "source.w"}, ["y"]),
        ("outer_scope_capture_only", CAPTURE_32, {"M": "n", "x": "slope"}, ["ys"]),
        ("outer_value_returned_directly", RETURNED_OUTER_VALUE, {"M": "n"}, ["xs"]),
        ("shadowing_body_name_equals_outer", NESTED_NAMES, {"M": "n"}, ["same.y", "same.x"]),
        ("order_not_name", ARGUMENT_ORDER, {"M": "trips"}, ["r1", "r2", "r3"]),
    ],
)
def test_stored_numbers(check_stored, case, model, names, outputs):
    check_stored(case, model, outputs, names)


def test_r1_09_dtypes_of_captures_are_kept(run_everywhere):
    for dtype in (np.float32, np.float64, np.float16, np.int32):
        results = run_everywhere(RETURNED_OUTER_VALUE, {"n": 2, "x": dtype(3)})
        assert results["xs"].dtype == dtype
