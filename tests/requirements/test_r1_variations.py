"""Alternative notations of one loop in MDF documents."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError

PARAMETER = """
nodes:
  power:
    input_ports: {x: {default_value: 3.0}}
    parameters:
      one: {value: 1.0}
      run:
        function: onnx::Loop
        args:
          M: 4
          v_initial: one
          body:
            b:
              metadata: {inputs: [i, c, p], outputs: [c, q, p]}
              nodes: {n: {input_ports: {p: {}, x: {}}, output_ports: {q: {value: p * x}}}}
      {LATER}
    output_ports: {y: {value: "run[0]"}, ys: {value: "run[1]"}, times: {value: run.iterations}}
"""


@pytest.mark.parametrize("later", ["", "unused: {value: 2}"])
def test_a_loop_as_parameter(run_everywhere, later):
    results = run_everywhere(PARAMETER.replace("{LATER}", later))
    assert results["y"] == 81.0
    assert results["ys"].tolist() == [1, 3, 9, 27]
    assert results["times"] == 4


BODY_OF_SEVERAL_NODES = """
nodes:
  network:
    input_ports: {drive: {default_value: [1.0, 2.0]}, steps: {default_value: 3, type: int}}
    parameters: {rest: {value: [0.0, 0.0]}, tau: {value: 2.0}}
    functions:
      simulate:
        function: onnx::Loop
        args:
          M: steps
          v_initial: rest
          body:
            step:
              metadata: {inputs: [t, go, V], outputs: [go, integrator.V_next, squash.rate]}
              nodes:
                squash:
                  input_ports: {V: {}}
                  functions:
                    rate: {function: logistic, args: {variable0: V, gain: 1.5, bias: 0.5, offset: 0.0}}
                  output_ports: {rate: {value: rate}}
                leak:
                  input_ports: {V: {}}
                  parameters: {g: {value: 1 / tau}}
                  output_ports: {current: {value: -g * V}}
                synapse:
                  input_ports: {rate: {}}
                  parameters:
                    W: {value: [[0.0, 1.0], [-1.0, 0.5]]}
                    current: {function: MatMul, args: {A: W, B: rate}}
                  output_ports: {current: {value: current}}
                integrator:
                  input_ports:
                    V: {}
                    drive: {}
                    current: {reduce: add}
                  parameters:
                    dt: {value: 0.1}
                    total: {value: current + drive}
                    change: {function: linear, args: {variable0: total, slope: dt, intercept: 0}}
                  output_ports: {V_next: {value: V + change}}
              edges:
                r: {sender: squash, sender_port: rate, receiver: synapse, receiver_port: rate}
                l: {sender: leak, sender_port: current, receiver: integrator, receiver_port: current}
                s:
                  sender: synapse
                  sender_port: current
                  receiver: integrator
                  receiver_port: current
                  parameters: {weight: 0.25}
    output_ports: {V: {value: "simulate[0]"}, rates: {value: "simulate[1]"}}
"""


@pytest.mark.parametrize("steps", [0, 3, 50])
def test_functions_parameters_edges_weights_and_sums_in_a_body(run_everywhere, steps):
    results = run_everywhere(BODY_OF_SEVERAL_NODES, {"steps": steps})
    V, rates, W = np.zeros(2), [], np.array([[0.0, 1.0], [-1.0, 0.5]])  # noqa: N806
    for _ in range(steps):
        rate = 1 / (1 + np.exp(-1 * 1.5 * (V + 0.5) + 0.0))
        rates.append(rate)
        V = V + 0.1 * (-V / 2 + 0.25 * W @ rate + np.array([1.0, 2.0]))  # noqa: N806
    np.testing.assert_allclose(results["V"], V, rtol=1e-12)
    assert results["rates"].shape == (steps, 2)
    if steps:
        np.testing.assert_allclose(results["rates"], rates, rtol=1e-12)


CONDITIONED = """
nodes:
  spiker:
    input_ports: {n: {default_value: 12, type: int}, current: {default_value: 0.3}}
    functions:
      run:
        function: onnx::Loop
        args:
          M: n
          v_initial: 0.0
          body:
            step:
              metadata: {inputs: [t, go, v], outputs: [go, v_next, spike]}
              nodes:
                neuron:
                  input_ports: {v: {}, current: {}}
                  parameters:
                    raised: {value: v + current}
                    spike:
                      value: 0
                      conditions: [{id: above, test: raised > 1.0, value: 1}]
                    v_next:
                      value: raised
                      conditions: [{id: above, test: raised > 1.0, value: 0.0}]
                  output_ports: {v_next: {value: v_next}, spike: {value: spike}}
    output_ports: {v: {value: "run[0]"}, spikes: {value: "run[1]"}}
"""


def test_parameter_conditions_in_a_body(run_everywhere):
    results = run_everywhere(CONDITIONED)
    assert results["spikes"].tolist() == [0, 0, 0, 1] * 3
    assert results["v"] == 0.0


IN_EVERY_PORT = """
nodes:
  worker:
    input_ports: {x: {default_value: 1.0}, go: {default_value: true}}
    functions:
      loop_1:
        function: onnx::Loop
        args:
          M: 10
          cond: go
          v_initial: x
          body:
            b:
              metadata: {inputs: [i, c, u], outputs: [n.on, n.v]}
              nodes: {n: {input_ports: {u: {}}, output_ports: {v: {value: u * 2}, "on": {value: u * 2 < 8}}}}
      after: {value: loop_1 + 0.5 * loop_1.iterations}
      told: {value: "100 if loop_1.condition else 200"}
    output_ports:
      x: {value: loop_1}
      times: {value: loop_1.iterations}
      condition: {value: loop_1.condition}
      reason: {value: loop_1.stopped_by}
      twice: {value: 2 * loop_1.iterations}
      after: {value: after}
      told: {value: told}
"""


@pytest.mark.parametrize(
    ("x", "go", "expected"),
    [
        (1.0, True, {"x": 8, "times": 3, "condition": False, "reason": 1, "after": 9.5}),
        (1.0, False, {"x": 1, "times": 0, "condition": False, "reason": 1, "after": 1}),
        (-1.0, True, {"x": -1024, "times": 10, "condition": True, "reason": 0, "after": -1019}),
    ],
)
def test_outputs_of_a_loop_can_be_used_in_all_expressions(run_everywhere, x, go, expected):
    results = run_everywhere(IN_EVERY_PORT, {"x": x, "go": go})
    assert {name: results[name].item() for name in expected} == expected
    assert results["twice"] == 2 * results["times"]
    assert results["told"] == (100 if expected["condition"] else 200)


SHORT_FORM = """
nodes:
  worker:
    input_ports: {x: {default_value: 1.0}}
    functions:
      run:
        function:
          onnx::Loop:
            M: 3
            v_initial: x
            body:
              b:
                metadata: {inputs: [i, c, u], outputs: [c, v]}
                nodes: {n: {input_ports: {u: {}}, output_ports: {v: {value: u * 2}}}}
    output_ports: {x: {value: run}}
"""


def test_function_and_arguments_in_one(run_everywhere):
    assert run_everywhere(SHORT_FORM)["x"] == 8.0


@pytest.mark.parametrize("spelling", ["onnx::Loop", "onnx::loop", "ONNX::Loop", "loop", "Loop"])
def test_spellings_of_the_function(run_everywhere, spelling):
    model = IN_EVERY_PORT.replace("function: onnx::Loop", f"function: {spelling}")
    assert run_everywhere(model)["x"] == 8.0


def test_the_same_loop_from_python(run_everywhere):
    """Check that `mdf_loop.loop` with the body of a model equals the model."""
    body = {
        "b": {
            "metadata": {"inputs": ["i", "c", "u"], "outputs": ["below", "v", "v"]},
            "nodes": {
                "n": {
                    "input_ports": {"u": {}, "limit": {}},
                    "output_ports": {"v": {"value": "u * 2"}, "below": {"value": "u * 2 < limit"}},
                }
            },
        }
    }
    final, history = mdf_loop.loop(10, True, 1.0, body, limit=20.0)
    assert final == 32.0
    assert history.tolist() == [2, 4, 8, 16, 32]
    final, history = mdf_loop.loop(M=3, v_initial=np.float32(1), body=body, limit=2.0)
    assert history.tolist() == [2, 4, 8]
    final, history = mdf_loop.loop(cond=False, v_initial=(1.0,), body=body, limit=2.0)
    assert (final, history.shape) == (1.0, (0,))


THREE_LEVELS = """
nodes:
  cube:
    input_ports: {n: {default_value: 2, type: int}}
    functions:
      a:
        function: onnx::Loop
        args:
          M: n
          v_initial: 0
          body:
            A:
              metadata: {inputs: [i, c, s], outputs: [c, s1]}
              nodes:
                na:
                  input_ports: {i: {}, s: {}}
                  functions:
                    b:
                      function: onnx::Loop
                      args:
                        M: n
                        v_initial: s
                        body:
                          B:
                            metadata: {inputs: [j, c, s], outputs: [c, s1]}
                            nodes:
                              nb:
                                input_ports: {s: {}}
                                functions:
                                  c:
                                    function: onnx::Loop
                                    args:
                                      M: n
                                      v_initial: s
                                      body:
                                        C:
                                          metadata: {inputs: [k, c, s], outputs: [c, s1]}
                                          nodes:
                                            nc:
                                              input_ports: {i: {}, j: {}, k: {}, s: {}}
                                              output_ports: {s1: {value: s + 100 * i + 10 * j + k}}
                                output_ports: {s1: {value: c}}
                  output_ports: {s1: {value: b}}
    output_ports: {sum: {value: a}}
"""


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_three_levels_read_every_iteration_number(run_everywhere, n):
    expected = sum(100 * i + 10 * j + k for i in range(n) for j in range(n) for k in range(n))
    assert run_everywhere(THREE_LEVELS, {"n": n})["sum"] == expected


PORT_DEFAULT = """
nodes:
  worker:
    input_ports: {x: {default_value: 1.0}}
    functions:
      run:
        function: onnx::Loop
        args:
          M: 3
          v_initial: x
          body:
            b:
              metadata: {inputs: [i, c, u], outputs: [c, v]}
              nodes:
                n: {input_ports: {u: {}, x: {default_value: 100.0}, own: {default_value: 5.0}}, output_ports: {v: {value: u + x + own}}}
    output_ports: {x: {value: run}}
"""


def test_an_enclosing_value_goes_before_a_default(run_everywhere):
    assert run_everywhere(PORT_DEFAULT)["x"] == 1.0 + 3 * (1.0 + 5.0)


def test_a_default_takes_the_type_of_what_it_meets(run_everywhere):
    assert run_everywhere(PORT_DEFAULT, {"x": np.float32(1)})["x"].dtype == np.float32
    assert run_everywhere(PORT_DEFAULT, precision="float32")["x"].dtype == np.float32


CIRCLE = """
nodes:
  a:
    input_ports: {x: {default_value: 5.0}}
    functions:
      double:
        function: onnx::Loop
        args:
          M: 2
          v_initial: x
          body:
            b:
              metadata: {inputs: [i, c, u], outputs: [c, v]}
              nodes: {n: {input_ports: {u: {}}, output_ports: {v: {value: u * 2}}}}
    output_ports: {y: {value: double}}
  b: {input_ports: {x: {}}, output_ports: {y: {value: x * 2}, z: {value: x}}}
edges:
  forth: {sender: a, sender_port: y, receiver: b, receiver_port: x}
  back: {sender: b, sender_port: y, receiver: a, receiver_port: x}
"""


def test_nodes_in_a_circle_begin_with_the_default(run_everywhere):
    assert run_everywhere(CIRCLE)["b.z"] == 20.0


def test_an_input_called_like_an_output(run_everywhere):
    model = """
    nodes:
      x:
        input_ports: {x.y: {default_value: 2.0}}
        functions: {f: {function: "onnx::Add", args: {A: x.y, B: x.y}}}
        output_ports: {y: {value: f}}
    """
    assert run_everywhere(model, engine=False)["x.y"] == 4.0  # upstream reads x.y as x
    assert run_everywhere(model, {"x.x.y": 3.0}, engine=False)["x.y"] == 6.0


MATRIX = """
nodes:
  chain:
    input_ports:
      P: {default_value: [[0.9, 0.1], [0.4, 0.6]]}
      p: {default_value: [1.0, 0.0]}
    functions:
      walk:
        function: onnx::Loop
        args:
          M: 100
          cond: true
          v_initial: p
          body:
            b:
              metadata: {inputs: [i, c, p], outputs: [c_next, q]}
              nodes:
                n:
                  input_ports: {p: {}, P: {}}
                  functions: {q: {value: p @ P}, far: {value: numpy.max(numpy.abs(q - p))}}
                  output_ports: {q: {value: q}, c_next: {value: far > 1e-12}}
    output_ports: {p: {value: walk}, times: {value: walk.iterations}}
"""


def test_iterate_until_it_settles(run_everywhere):
    results = run_everywhere(MATRIX)
    np.testing.assert_allclose(results["p"], [0.8, 0.2], atol=1e-11)
    assert 10 < results["times"] < 100


IDS = """
nodes:
  "/a/Loop node.1":
    input_ports: {x.3: {default_value: 1.0}}
    functions:
      "Loop:6 ü":
        function: onnx::Loop
        args:
          M: 3
          v_initial: x.3
          body:
            "b/ody":
              metadata: {inputs: ["i.1", "c 2", "ü.3"], outputs: ["c 2", "out-put"]}
              nodes: {"n/1": {input_ports: {"ü.3": {}}, functions: {double: {function: "onnx::Add", args: {A: "ü.3", B: "ü.3"}}}, output_ports: {"out-put": {value: double}}}}
    output_ports: {"y.7": {value: "Loop:6 ü"}}
"""


def test_ids_that_are_no_python_names(run_everywhere):
    assert run_everywhere(IDS)["/a/Loop node.1.y.7"] == 8.0


def test_recording_makes_inner_values_visible(mdf):
    compiled = mdf_loop.compile(mdf(PARAMETER.replace("{LATER}", "")), device="cpu")
    results = compiled.run(record=["power.one"])
    assert results["power.one"] == 1.0
    with pytest.raises(LoopError, match="has no output 'power\\.two'"):
        compiled.run(record=["power.two"])
