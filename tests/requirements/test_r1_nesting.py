"""Nested loops, consecutive loops and branches in loops (R1.28 to R1.32)."""

import math

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError

TRIANGLE = """
nodes:
  triangle:
    input_ports: {n: {type: int}, start: {default_value: 0}}
    functions:
      outer:
        function: onnx::Loop
        args:
          M: n
          v_initial: start
          body:
            rows:
              metadata: {inputs: [i, go, s], outputs: [go, s_next, s_next]}
              nodes:
                row:
                  input_ports: {i: {}, s: {}}
                  functions:
                    inner:
                      function: onnx::Loop
                      args:
                        M: i
                        v_initial: s
                        body:
                          cells:
                            metadata: {inputs: [j, going, t], outputs: [going, t_next]}
                            nodes:
                              cell:
                                input_ports: {i: {}, j: {}, t: {}}
                                output_ports: {t_next: {value: t + i * j}}
                  output_ports: {s_next: {value: inner}}
    output_ports: {sum: {value: "outer[0]"}, rows: {value: "outer[1]"}}
"""


@pytest.mark.parametrize(("n", "rows"), [(0, []), (1, [0]), (2, [0, 0]), (5, [0, 0, 2, 11, 35])])
def test_r1_28_inner_trip_count_is_the_outer_iteration(run_everywhere, n, rows):
    results = run_everywhere(TRIANGLE, {"n": n})
    assert results["sum"] == (rows or [0])[-1]
    assert results["rows"].tolist() == rows


RAGGED = """
nodes:
  ragged:
    input_ports: {n: {type: int}}
    functions:
      outer:
        function: onnx::Loop
        args:
          M: n
          body:
            rows:
              metadata: {inputs: [i, go], outputs: [go, numbers]}
              nodes:
                row:
                  input_ports: {i: {}}
                  functions:
                    inner:
                      function: onnx::Loop
                      args:
                        M: INNER
                        body: {cells: {metadata: {inputs: [j, going], outputs: [going, j]}, nodes: {}}}
                  output_ports: {numbers: {value: inner}}
    output_ports: {table: {value: outer}}
"""


def test_r1_28_recordings_of_inner_loops_have_two_axes(run_everywhere):
    results = run_everywhere(RAGGED.replace("INNER", "3"), {"n": 2})
    assert results["table"].tolist() == [[0, 1, 2], [0, 1, 2]]


def test_r1_31_ragged_rows_cannot_be_recorded(run_everywhere):
    """Check that recorded rows of growing length are an error; a sequence can hold such rows."""
    with pytest.raises(LoopError, match=r"'numbers' has shape \[0\] at first, but \[1\]"):
        run_everywhere(RAGGED.replace("INNER", "i"), {"n": 3})
    assert run_everywhere(RAGGED.replace("INNER", "i + 1"), {"n": 1})["table"].tolist() == [[0]]


COLLATZ = """
nodes:
  collatz:
    input_ports: {n: {type: int}}
    functions:
      each:
        function: onnx::Loop
        args:
          M: n
          body:
            one_start:
              metadata: {inputs: [i, go], outputs: [go, steps]}
              nodes:
                search:
                  input_ports: {i: {}}
                  parameters: {start: {value: STARTS}}
                  functions:
                    walk:
                      function: onnx::Loop
                      args:
                        cond: start[i] != 1
                        v_initial: "(start[i], 0)"
                        body:
                          step:
                            metadata: {inputs: [k, more, x, count], outputs: [goes_on, x_next, count_next]}
                            nodes:
                              rule:
                                input_ports: {x: {}, count: {}}
                                functions:
                                  next: {value: "x // 2 if x % 2 == 0 else 3 * x + 1"}
                                output_ports:
                                  x_next: {value: next}
                                  count_next: {value: count + 1}
                                  goes_on: {value: next != 1}
                  output_ports: {steps: {value: "walk[1]"}}
    output_ports: {steps: {value: each}}
"""


def collatz(x):
    steps = 0
    while x != 1:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        steps += 1
    return steps


@pytest.mark.parametrize("starts", [[1, 2, 3, 6, 7, 27], [9], [97, 1, 871]])
def test_r1_29_while_with_a_decision_inside_for(run_everywhere, starts):
    model = COLLATZ.replace("STARTS", str(starts))
    results = run_everywhere(model, {"n": len(starts)})
    assert results["steps"].tolist() == [collatz(x) for x in starts]


def test_r1_29_the_numbers_of_the_table(run_everywhere):
    model = COLLATZ.replace("STARTS", "[1, 2, 3, 6, 7, 27]")
    steps = run_everywhere(model, {"n": 6})["steps"].tolist()
    assert steps == [0, 1, 7, 8, 16, 111]


BRANCHES = """
nodes:
  chooser:
    input_ports: {fast: {type: bool}, x: {default_value: 5}}
    functions:
      slow:
        function: onnx::Loop
        args:
          M: 3
          v_initial: x
          body:
            add:
              metadata: {inputs: [i, c, v], outputs: [c, w]}
              nodes: {n: {input_ports: {v: {}, x: {}}, output_ports: {w: {value: v + x}}}}
      quick:
        function: onnx::Loop
        args:
          M: 2
          v_initial: x
          body:
            multiply:
              metadata: {inputs: [i, c, v], outputs: [c, w]}
              nodes: {n: {input_ports: {v: {}, x: {}}, output_ports: {w: {value: v * x}}}}
      chosen: {value: quick if fast else slow}
    output_ports: {y: {value: chosen}}
"""


@pytest.mark.parametrize(("fast", "y"), [(False, 20), (True, 125)])
def test_r1_29_one_loop_or_the_other(run_everywhere, fast, y):
    assert run_everywhere(BRANCHES, {"fast": fast})["y"] == y


# --- series of loops ----------------------------------------------------------------------------

LAYER = """
  LAYER:
    input_ports: {steps: {}, w: {}, u: {}}
    parameters: {rest: {value: "0 * u[0]"}}
    functions:
      run:
        function: onnx::Loop
        args:
          M: "len(steps)"
          v_initial: rest
          body:
            step:
              metadata: {inputs: [t, c, h], outputs: [c, h_next, h_next]}
              nodes:
                cell:
                  input_ports: {t: {}, h: {}, steps: {}, w: {}, u: {}}
                  output_ports:
                    h_next: {value: "numpy.tanh(numpy.matmul(steps[t], w) + numpy.matmul(h, u))"}
    output_ports: {states: {value: "run[1]"}}
"""
SERIES = f"""
nodes:
  inputs:
    input_ports: {{X: {{}}, W1: {{}}, U1: {{}}, W2: {{}}, U2: {{}}}}
    output_ports: {{X: {{value: X}}, W1: {{value: W1}}, U1: {{value: U1}}, W2: {{value: W2}}, U2: {{value: U2}}}}
{LAYER.replace("LAYER", "one")}
  between:
    input_ports: {{s: {{}}}}
    functions:
      scaled: {{function: linear, args: {{variable0: s, slope: 0.5, intercept: 1.0}}}}
      kept: {{function: Relu, args: {{A: scaled}}}}
    output_ports: {{z: {{value: kept}}}}
{LAYER.replace("LAYER", "two")}
  sum:
    input_ports: {{s1: {{}}, s2: {{}}}}
    output_ports: {{S1: {{value: s1}}, S2: {{value: s2}}, R: {{value: s2 + s1}}}}
edges:
  x: {{sender: inputs, sender_port: X, receiver: one, receiver_port: steps}}
  w1: {{sender: inputs, sender_port: W1, receiver: one, receiver_port: w}}
  u1: {{sender: inputs, sender_port: U1, receiver: one, receiver_port: u}}
  w2: {{sender: inputs, sender_port: W2, receiver: two, receiver_port: w}}
  u2: {{sender: inputs, sender_port: U2, receiver: two, receiver_port: u}}
  s1z: {{sender: one, sender_port: states, receiver: between, receiver_port: s}}
  z2: {{sender: between, sender_port: z, receiver: two, receiver_port: steps}}
  s1: {{sender: one, sender_port: states, receiver: sum, receiver_port: s1}}
  s2: {{sender: two, sender_port: states, receiver: sum, receiver_port: s2}}
"""

FUSED = """
nodes:
  network:
    input_ports: {X: {}, W1: {}, U1: {}, W2: {}, U2: {}}
    parameters: {rest1: {value: "0 * U1[0]"}, rest2: {value: "0 * U2[0]"}}
    functions:
      run:
        function: onnx::Loop
        args:
          M: "len(X)"
          v_initial: (rest1, rest2)
          body:
            step:
              metadata: {inputs: [t, c, h1, h2], outputs: [c, h1_next, h2_next, h1_next, h2_next]}
              nodes:
                first:
                  input_ports: {t: {}, h1: {}, X: {}, W1: {}, U1: {}}
                  output_ports: {h1_next: {value: "numpy.tanh(numpy.matmul(X[t], W1) + numpy.matmul(h1, U1))"}}
                between:
                  input_ports: {h: {}}
                  output_ports: {z: {value: "numpy.maximum(0.5 * h + 1.0, 0.0)"}}
                second:
                  input_ports: {z: {}, h2: {}, W2: {}, U2: {}}
                  output_ports: {h2_next: {value: "numpy.tanh(numpy.matmul(z, W2) + numpy.matmul(h2, U2))"}}
              edges:
                a: {sender: first, sender_port: h1_next, receiver: between, receiver_port: h}
                b: {sender: between, sender_port: z, receiver: second, receiver_port: z}
    output_ports:
      S1: {value: "run[2]"}
      S2: {value: "run[3]"}
      R: {value: "run[3] + run[2]"}
"""


def network_inputs(steps=6, dtype=np.float64):
    rng = np.random.default_rng(7)
    shapes = {"X": (steps, 3), "W1": (3, 4), "U1": (4, 4), "W2": (4, 4), "U2": (4, 4)}
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


def wavefront(X, W1, U1, W2, U2):  # noqa: N803
    h1 = h2 = np.zeros(4)
    S1, S2 = [], []  # noqa: N806
    for x in X:
        h1 = np.tanh(x @ W1 + h1 @ U1)
        h2 = np.tanh(np.maximum(0.5 * h1 + 1, 0) @ W2 + h2 @ U2)
        S1.append(h1)
        S2.append(h2)
    return np.array(S1), np.array(S2)


@pytest.mark.parametrize("model", [SERIES, FUSED], ids=["series", "fused"])
def test_r1_30_two_layers_in_both_forms(run_everywhere, model):
    inputs = network_inputs()
    results = run_everywhere(model, inputs)
    S1, S2 = wavefront(**inputs)  # noqa: N806
    np.testing.assert_allclose(results["S1"], S1, rtol=1e-12)
    np.testing.assert_allclose(results["S2"], S2, rtol=1e-12)
    np.testing.assert_allclose(results["R"], S1 + S2, rtol=1e-12)


def test_r1_30_both_forms_are_equal(mdf):
    inputs = network_inputs(steps=40)
    series, fused = (
        mdf_loop.compile(mdf(model), device="cpu").run(inputs) for model in (SERIES, FUSED)
    )
    for name in ("S1", "S2", "R"):
        np.testing.assert_allclose(series[name], fused[name], rtol=1e-12)


CHAIN = """
nodes:
  counter:
    input_ports: {limit: {default_value: 50}}
    functions:
      count:
        function: onnx::Loop
        args:
          cond: 0 < limit
          v_initial: 1
          body:
            double:
              metadata: {inputs: [i, c, n], outputs: [below, n_next]}
              nodes:
                n: {input_ports: {n: {}, limit: {}}, output_ports: {n_next: {value: n * 2}, below: {value: n * 2 < limit}}}
    output_ports: {times: {value: count.iterations}}
  lister:
    input_ports: {times: {}}
    functions:
      list:
        function: onnx::Loop
        args:
          M: times
          body:
            square:
              metadata: {inputs: [k, c], outputs: [c, squared]}
              nodes: {n: {input_ports: {k: {}}, output_ports: {squared: {value: k ** 2}}}}
    output_ports: {squares: {value: list}}
edges: {e: {sender: counter, sender_port: times, receiver: lister, receiver_port: times}}
"""


@pytest.mark.parametrize(("limit", "squares"), [(50, [0, 1, 4, 9, 16, 25]), (0, []), (2, [0])])
def test_r1_32_a_loop_computes_the_trip_count_of_the_next(run_everywhere, limit, squares):
    results = run_everywhere(CHAIN, {"limit": limit})
    assert results["squares"].tolist() == squares


ROOTS = """
nodes:
  roots:
    input_ports: {x: {default_value: 2.0}}
    functions:
      newton:
        function: onnx::Loop
        args:
          M: 50
          cond: true
          v_initial: x
          body:
            b:
              metadata: {inputs: [i, c, r], outputs: [c_next, r_next, r]}
              nodes:
                n:
                  input_ports: {r: {}, x: {}}
                  functions: {better: {value: 0.5 * (r + x / r)}}
                  output_ports: {r_next: {value: better}, c_next: {value: abs(better - r) > 1e-12}}
      backwards:
        function: onnx::Loop
        args:
          M: newton.iterations
          v_initial: newton[0]
          body:
            b:
              metadata: {inputs: [i, c, v], outputs: [c, v_next]}
              nodes: {n: {input_ports: {i: {}, v: {}, newton: {}}, output_ports: {v_next: {value: "v - newton[1][-1 - i]"}}}}
      doubled: {value: "2 * newton[0]"}
    output_ports: {root: {value: "newton[0]"}, rest: {value: backwards}, doubled: {value: doubled}}
"""


def test_r1_32_two_loops_of_one_node_and_their_results_in_functions(run_everywhere):
    results = run_everywhere(ROOTS)
    assert results["root"] == pytest.approx(math.sqrt(2), rel=1e-12)
    assert results["doubled"] == 2 * results["root"]
    history, r = [], 2.0
    while not history or abs(history[-1] - r) > 1e-12:
        history.append(r)
        r = 0.5 * (r + 2.0 / r)
    assert results["rest"] == pytest.approx(r - sum(history), rel=1e-9)


@pytest.mark.parametrize(
    ("case", "model"),
    [("wavefront_two_layer_rnn", SERIES), ("wavefront_fused_single_loop", FUSED)],
)
def test_stored_wavefronts(check_stored, case, model):
    check_stored(case, model, ["S1", "S2", "R"], {}, precision="float32")


def test_stored_triangle(check_stored):
    check_stored("nested_triangular", TRIANGLE, ["sum", "rows"], {"M": "n", "s0": "start"})
