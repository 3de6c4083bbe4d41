"""`mdf-loop check`."""

from __future__ import annotations

import pytest


def test_a_valid_model(cli, sample):
    outcome = cli("check", sample)
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.out.splitlines() == [
        "no problems: 0 inputs, 3 outputs, 1 loop",
        "  loop_node.loop_1: for-while loop, 1 carried, 1 recorded  "
        "$.graphs[0].nodes['loop_node'].functions['loop_1']",
    ]


def test_a_model_without_loops(cli, double):
    assert cli("check", double).out == "no problems: 1 input, 2 outputs, 0 loops\n"


def test_inputs_are_checked(cli, double):
    assert cli("check", double, "--input", "x=[1, 2]").code == 0
    outcome = cli("check", double, "--input", "z=1")
    assert outcome.code == 2
    assert "the model has no input 'z'" in outcome.err


def test_check_runs_no_model(cli, endless):
    assert cli("check", endless).code == 2
    outcome = cli("check", endless, "--max-iterations", 10**18)
    assert outcome.code == 0
    assert "grow.f: endless loop, 1 carried, 0 recorded" in outcome.out


def test_precision_and_shapes_are_options(cli, double):
    assert cli("check", double, "--precision", "float32", "--shapes", "dynamic").code == 0


def test_an_unread_parameter_has_a_note(cli, tmp_path):
    path = tmp_path / "model.yaml"
    node = "{parameters: {mode: {value: constant}}, output_ports: {y: {value: '1.5'}}}"
    path.write_text(f"m: {{graphs: {{g: {{nodes: {{n: {node}}}}}}}}}")
    assert cli("check", path).out.splitlines() == [
        "no problems: 0 inputs, 1 output, 0 loops",
        "note: nothing reads the parameter 'mode', which has no value: unknown name 'constant' "
        "(in 'constant')",
        "  at $.graphs[0].nodes['n'].parameters['mode']",
    ]


def model(tmp_path, nodes, graph_keys=""):
    path = tmp_path / "model.yaml"
    path.write_text(f"m: {{graphs: {{g: {{nodes: {nodes}{graph_keys}}}}}}}")
    return path


def test_states_are_checked_over_time(cli, tmp_path):
    """Check that the error in a derivative appears only with the check over time.

    A single evaluation computes no derivatives.
    """
    state = "{default_initial_value: 0.0, time_derivative: '1.0 - V / tau + x'}"
    second_state = "{default_initial_value: '[0.0, 0.0, 0.0]', time_derivative: -x}"
    parameters = f"tau: {{value: [144.0, 100.0]}}, x: {second_state}, V: {state}"
    nodes = f"{{cell: {{parameters: {{{parameters}}}, output_ports: {{V: {{value: V}}}}}}}}"
    path = model(tmp_path, nodes)
    outcome = cli("check", path)
    assert outcome.code == 2
    assert outcome.err == cli("run", path, "--steps", 3, "--dt", 0.1).err
    assert "onnx::Add cannot take (A: float64[2], B: float64[3])" in outcome.err


def test_feedback_is_checked_over_time(cli, tmp_path):
    """Check a feedback value that changes its shape in every step."""
    node = (
        "{input_ports: {x: {default_value: [1.0]}}, output_ports: {y: {value: 'x @ [[1.0, 2.0]]'}}}"
    )
    edge = "{sender: a, receiver: a, sender_port: y, receiver_port: x}"
    path = model(
        tmp_path, f"{{a: {node}}}", f", edges: {{e: {edge}}}, metadata: {{outputs: [a.y]}}"
    )
    outcome = cli("check", path)
    assert outcome.code == 2
    assert outcome.err == cli("run", path, "--steps", 3).err


def test_execution_counts_are_no_outputs(cli, tmp_path):
    nodes = "{a: {output_ports: {y: {value: '1.0'}}}, b: {output_ports: {z: {value: '2.0'}}}}"
    conditions = "{node_specific: {b: {type: AfterNPasses, kwargs: {n: 1}}}}"
    path = model(tmp_path, nodes, f", conditions: {conditions}")
    assert cli("check", path).out.startswith("no problems: 0 inputs, 2 outputs, 0 loops")


@pytest.mark.parametrize(("order", "pair"), [("vw", ("w", "v")), ("wv", ("v", "w"))])
def test_a_state_that_reads_the_new_value_of_another(cli, tmp_path, order, pair):
    states = {
        "v": "v: {default_initial_value: -1.0, time_derivative: v - w}",
        "w": "w: {default_initial_value: 0.0, time_derivative: v + w}",
    }
    parameters = ", ".join(states[name] for name in order)
    path = model(tmp_path, f"{{n: {{parameters: {{{parameters}}}}}}}")
    reader, state = pair
    outcome = cli("check", path)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.count("note: ") == 1
    assert f"note: in node 'n', {reader} reads the new {state}: " in outcome.out
    assert f"\n  at $.graphs[0].nodes['n'].parameters['{reader}']\n" in outcome.out


def test_each_of_several_models_is_checked(cli, sample, double):
    outcome = cli("check", sample, double)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[:2] == [f"{sample}:", "no problems: 0 inputs, 3 outputs, 1 loop"]
    assert lines[-2:] == [f"{double}:", "no problems: 1 input, 2 outputs, 0 loops"]


def test_models_after_an_invalid_one_are_checked(cli, double, tmp_path):
    invalid = tmp_path / "wrong.yaml"
    invalid.write_text("m: {graphs: {g: {nodes: {n: {output_ports: {y: {value: missing}}}}}}}")
    outcome = cli("check", invalid, double, tmp_path / "none.yaml")
    assert outcome.code == 2
    assert "unknown name 'missing'" in outcome.err
    assert "there is no file" in outcome.err
    assert "no problems: 1 input, 2 outputs, 0 loops" in outcome.out


def test_a_missing_argument(cli):
    outcome = cli("check")
    assert outcome.code == 2
    assert "Missing argument 'MODEL...'" in outcome.err
