"""Output of `explain`: golden texts, and the sentences of each operating mode."""

import re
from pathlib import Path

import onnx
import pytest

from mdf_loop.errors import ModelError
from mdf_loop.explanation import explain

MODELS = Path(__file__).parent / "drawing" / "models"
EXAMPLES = Path(__file__).parents[1] / "examples"

SAMPLE = """\
halving_net  (sample.yaml)

The graph, in order
  start    factor = 0.5, x = 64
  halving  loop halve: for i in range(M=10) while going
  outputs: halving.x_final, halving.losses

Loop halving.halve: for-while
  Runs limit = 10 times at most, and stops as soon as going_out is false:
  M and cond are both given.

      x_in = x                                  # carried, starts as 64
      going_in = going                          # start condition, true
      losses = []                               # recorded
      for i in range(limit):                    # M = 10
          if not going_in: break
          # step
          x_next = factor * x_in
          x_out = x_next
          going_out = x_next > 1
          lost = x_in - x_next
          losses.append(lost)
          x_in, going_in = x_out, going_out         # for the next iteration
      x_final = x_in                            # final value

  carried     x = 64 → x_in → x_out → x_final   float64[]
  recorded    lost, every iteration → losses   float64[halve_iterations]
  captured    factor, input port of halving   float64[]
  iteration   i = 0, 1, 2, …
  condition   at the start going = true
              then going_out = x_next > 1

Run for long, loops are machine code (native) or ONNX Runtime's own (standard)
  halving.halve  standard: there is little to do

Constant and variable conditions
  halving.halve  trip count  constant: 10
  halving.halve  condition   variable: depends on carried value 'x_out' of 'halving.halve'
"""

NESTED = """\
power_sums  (nested.yaml)

The graph, in order
  start       x0 = [1, 2], rate = 0.5
  outer_node  loop trial_loop: for trial in range(M=3)
  outputs: outer_node.x_final, outer_node.traces

Loop outer_node.trial_loop: for
  Runs trials = 3 times: M is given; cond is left out, so no condition is looked at.

      x_in = x                                  # carried, starts as [1, 2]
      traces = []                               # recorded
      for trial in range(trials):               # M = 3
          # relax
          y_in = x_in                               # carried
          for k in range(steps):                    # M = 4
              # decay
              y_next = y_in - rate * y_in
              y_out = y_next
              keep_out = True
              y_in = y_out                              # for the next iteration
          y = y_in                                  # final value
          # scale
          gain = 2
          x_out = gain * y
          trace = y + trial
          go = True
          traces.append(trace)
          x_in = x_out                              # for the next iteration
      x_final = x_in                            # final value

  carried     x = [1, 2] → x_in → x_out → x_final   float64[2]
  recorded    trace, every iteration → traces   float64[3, 2]
  captured    steps = 4, parameter of outer_node   int64[]
              rate, input port of outer_node   float64[]
  iteration   trial = 0, 1, 2, …

  Loop relax.step_loop: for
    Runs steps = 4 times: M is given; cond is left out, so no condition is looked at.
    carried     x_in → y_in → y_out → y   float64[2]
    captured    rate, input port of outer_node   float64[]
    iteration   k = 0, 1, 2, …

Run for long, loops are machine code (native) or ONNX Runtime's own (standard)
  outer_node.trial_loop  standard: there is little to do
  relax.step_loop        standard: there is little to do

Constant and variable conditions
  outer_node.trial_loop                    trip count  constant: 3
  outer_node.trial_loop > relax.step_loop  trip count  constant: 4
"""

FEEDBACK = """\
two-cells & a cycle  (feedback.yaml)

The graph, in order
  cell/1:a-b.c<d>  v(0) = -65
                   dv/dt = (from_2 - v) / tau
                   fired = v > -50 and v < 1
                   tau = 10
  cell_2           runs every 2 calls of cell/1:a-b.c<d>
                   count = count + 1
                   spike(0) = 0
                   spike = 1 if in_1 > 0 & 1
                   spike = 0 if in_1 < 0
  reader           runs when cell_2.count >= 3
  inputs: drive.x
  outputs: reader.seen
  cycle: cell/1:a-b.c<d> → cell_2 → cell/1:a-b.c<d>; once around in every pass
  feedback: cell/1:a-b.c<d>.from_2 is cell_2.out of the pass before
  each evaluation ends after 2 calls of reader or after pass 9

Over time, one evaluation for each step
  carried     v, starts as -65
              count, starts as 0
              spike, starts as 0
              cell_2.out, starts as 0
  recorded    seen

Run for long, loops are machine code (native) or ONNX Runtime's own (standard)
  time                native
  $.graphs[0] passes  native
"""


@pytest.mark.parametrize(
    ("name", "text"), [("sample", SAMPLE), ("nested", NESTED), ("feedback", FEEDBACK)]
)
def test_golden_texts(name, text):
    explanation = explain(MODELS / f"{name}.yaml")
    assert re.sub(r"^  note: .*\n", "", explanation, flags=re.MULTILINE) == text


def test_states_over_time_have_initial_values():
    text = explain(MODELS / "fitzhugh_nagumo.yaml")
    assert "carried     V, starts as initial_v = [-1]\n" in text
    assert "recorded    V, W\n" in text
    assert "Over time" not in explain(MODELS / "sample.yaml")


def test_a_state_that_reads_a_new_value_has_one_note():
    text = explain(MODELS / "fitzhugh_nagumo.yaml")
    assert text.count("  note: in node 'cell', W reads the new V: 'V' is written above 'W'") == 1
    assert "reads the new" not in explain(MODELS / "feedback.yaml")


@pytest.mark.parametrize(
    ("node", "sentences"),
    [
        ("for_node", "Runs 5 times: M is given; cond is left out, so no condition is looked at."),
        ("for_while_node", "Runs 5 times at most, and stops as soon as go is false:"),
        ("while_node", "Runs as long as go is true, perhaps not once:"),
        ("do_while_node", "Runs once, and again as long as go is true:"),
        ("endless_node", "Runs until it is stopped from outside: neither M nor cond is given."),
    ],
)
def test_each_mode_has_its_sentence(node, sentences):
    section = explain(MODELS / "modes.yaml").split(f"Loop {node}.run: ")[1]
    assert sentences in section.split("\n\n")[0]


@pytest.mark.parametrize(
    ("node", "head", "last"),
    [
        ("for_node", "for i in range(5):", "x = x_next"),
        ("for_while_node", "for i in range(5):", "x, go_in = x_next, go"),
        ("while_node", "while go_in:", "x, go_in = x_next, go"),
        ("do_while_node", "while True:", "if not go: break"),
        ("endless_node", "while True:", "x = x_next"),
    ],
)
def test_each_mode_has_its_pseudo_code(node, head, last):
    code = explain(MODELS / "modes.yaml").split(f"Loop {node}.run: ")[1].split("\n\n")[1]
    lines = [line.split("#")[0].strip() for line in code.splitlines()]
    assert head in lines
    assert lines[-2:] == [last, "x_final = x"]


def test_unknown_parts_are_stated_and_the_rest_is_explained():
    text = explain(MODELS / "broken.yaml")
    assert "Not known: the loop has no body" in text
    assert "a → ? → ? → p" in text
    assert text.count("cannot be inferred") == 1


def test_constant_conditions_are_stated():
    body = {
        "body": {
            "metadata": {"inputs": ["i", "c"], "outputs": ["go"]},
            "nodes": {"n": {"output_ports": {"go": {"value": "True"}}}},
        }
    }

    def graph(**arguments):
        call = {"function": "onnx::Loop", "args": {**arguments, "body": body}}
        return {"g": {"nodes": {"owner": {"functions": {"loop": call}}}}}

    assert "Runs 2 times: M is given; the condition is always true." in explain(
        graph(M=2, cond=True)
    )
    assert "so it runs all M times" in explain(graph(M="nowhere", cond=True))
    assert "so it never ends by itself" in explain(graph(cond=True))
    assert "it does not run at all" in explain(graph(M=2, cond=False))


def test_several_loops_and_their_iteration_counts():
    text = explain(MODELS / "wavefront.yaml")
    assert text.index("Loop layer_1.steps: for\n") < text.index("Loop layer_2.settle: for-while\n")
    assert "ran = settle.iterations" in text
    assert "1.0 → change_in → change → (not used)" in text


@pytest.mark.parametrize(
    ("ports", "line"),
    [
        ({"up": "f > 0"}, "x → x_next → read by up"),
        ({"up": "f[0] > 0"}, "x → x_next → read by up"),
        ({"end": "f", "up": "f[0] > 0"}, "x → x_next → end, read by up"),
        ({"time": "dt * f.iterations"}, "x → x_next → (not used)"),
    ],
)
def test_a_final_value_read_by_expressions_is_used(ports, line):
    step = {"input_ports": {"x": {}}, "output_ports": {"x_next": {"value": "x + 1"}}}
    body = {
        "nodes": {"step": step},
        "metadata": {"inputs": ["i", "go", "x"], "outputs": ["go", "x_next"]},
    }
    call = {"function": "onnx::Loop", "args": {"M": 3, "v_initial": "start", "body": body}}
    node = {
        "parameters": {"start": {"value": 0.0}, "dt": {"value": 0.1}},
        "functions": {"f": call},
        "output_ports": {name: {"value": text} for name, text in ports.items()},
    }
    assert f"{line}   float64[]" in explain({"g": {"nodes": {"n": node}}})


def test_a_final_value_read_by_another_loop_is_used():
    text = explain(EXAMPLES / "fitted_decision" / "model.yaml")
    assert "start = 0 → x → x_next → read by choice" in text


IMPORTED = """<ir_version: 8, opset_import: ["" : 16]> g (float x0) => (float xf)
<int64 M = {200}, bool yes = {1}> {
    xf = Loop (MAX, yes, x0) <body = b (int64 i, bool c, float x) => (bool more, float x2)
        <float half = {0.5}, float least = {0.1}> {
        x2 = Mul(x, half)
        more = Greater(x2, least) }>
}"""


@pytest.mark.parametrize(
    ("trips", "title"),
    [("M", "for i in range(M=200) while more"), ("", "do … while more")],
)
def test_a_constant_start_condition_from_an_edge_is_not_in_the_title(trips, title, tmp_path):
    text = IMPORTED.replace("MAX", trips or '""')
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert f"loop loop: {title}\n" in explain(tmp_path / "m.onnx")


def test_a_recorded_value_with_the_name_of_its_port():
    assert "squares.append(square)" in explain(MODELS / "workshop.yaml")
    model = (MODELS / "workshop.yaml").read_text()
    model = model.replace("squares: {value: squares}", "square: {value: squares}")
    import yaml

    text = explain(yaml.safe_load(model)["workshop"]["graphs"])
    assert "all_square.append(square)" in text
    assert "square = all_square" in text


@pytest.mark.slow
def test_every_shared_model_is_explained(shared):
    for path in sorted((shared / "models").rglob("*.*")):
        assert "The graph, in order" in explain(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ModelError, match="there is no file"):
        explain(tmp_path / "none.yaml")


def test_random_calls_are_listed() -> None:
    node = {
        "parameters": {
            "x": {"value": "x + numpy.random.normal()", "default_initial_value": 0.0},
            "y": {"value": "random.random()"},
        },
        "output_ports": {
            "x": {"value": "x"},
            "y": {"value": "y"},
            "high": {"value": "1 if x > 0 else 0"},
        },
    }
    text = explain({"m": {"graphs": {"g": {"nodes": {"A": node}}}}})
    lines = text.splitlines()
    start = lines.index("Random numbers, each from a stream of its own")
    assert lines[start + 1 : start + 3] == ["  g.A.x#0", "  g.A.y#0"]
    assert "of draws" not in text
