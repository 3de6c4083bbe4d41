"""Outline of a model: loops, graphs, and words for values."""

from pathlib import Path

import pytest

from mdf_loop.errors import ModelError
from mdf_loop.outline import outline
from mdf_loop.outline.text import formula_lines, value_text
from mdf_loop.outline.words import headline

MODELS = Path(__file__).parents[1] / "drawing" / "models"


def loop_of(name, node, k=0):
    graph = outline(MODELS / f"{name}.yaml")
    return next(n for n in graph.nodes if n.id == node).loops[k]


def model_with_loop(loop_args, body, **node_parts):
    """Return a graph whose only node has a loop with these arguments and this body."""
    call = {"function": "onnx::Loop", "args": {**loop_args, "body": body}}
    return {"g": {"nodes": {"owner": {**node_parts, "functions": {"loop": call}}}}}


# --- loops --------------------------------------------------------------------------------------


def test_outline_of_a_loop():
    loop = loop_of("sample", "halving")
    assert (loop.full_name, loop.kind) == ("halving.halve", "for-while")
    assert (loop.trip_count.expression, loop.trip_count.value) == ("limit", 10)
    assert (loop.start_condition.expression, loop.start_condition.value) == ("going", True)
    assert (loop.iteration_name, loop.condition_name) == ("i", "going_in")
    assert (loop.continue_name, loop.condition_text) == ("going_out", "x_next > 1")
    (pair,) = loop.carried_values
    assert (pair.initial_expression, pair.input_name, pair.output_name) == ("x", "x_in", "x_out")
    assert (pair.ports, pair.type, pair.initial_value) == (("x_final",), "float64[]", 64.0)
    (recorded,) = loop.recorded_values
    assert (recorded.name, recorded.ports) == ("lost", ("losses",))
    assert recorded.type == "float64[halve_iterations]"
    (capture,) = loop.captures
    assert (capture.name, capture.kind, capture.owner_id) == ("factor", "input port", "halving")
    assert [node.id for node in loop.body.nodes] == ["step"]
    assert loop.notes == ()


@pytest.mark.parametrize(
    ("node", "kind", "line"),
    [
        ("for_node", "for", "for i in range(M=5)"),
        ("for_while_node", "for-while", "for i in range(M=5) while going"),
        ("while_node", "while", "while going"),
        ("do_while_node", "do-while", "do … while go"),
        ("endless_node", "endless", "loop forever"),
    ],
)
def test_headlines_of_the_five_operating_modes(node, kind, line):
    loop = loop_of("modes", node)
    assert (loop.kind, headline(loop)) == (kind, line)


def test_captures_of_nested_loops():
    outer = loop_of("nested", "outer_node")
    inner = outer.body.nodes[0].loops[0]
    assert [c.name for c in outer.captures] == ["steps", "rate"]
    assert [(c.name, c.kind, c.owner_id) for c in inner.captures] == [
        ("rate", "input port", "outer_node")
    ]


def test_inputs_of_a_body_have_a_source():
    inner = loop_of("nested", "outer_node").body.nodes[0].loops[0]
    sources = {entry.name: entry.role for entry in inner.body.inputs}
    assert sources == {"y_in": "carried", "rate": "captured", "k": "iteration"}


def test_names_in_formulas_are_inputs():
    loop = loop_of("modes", "for_node")
    limit = next(entry for entry in loop.body.inputs if entry.name == "limit")
    assert (limit.port_id, limit.role) == (None, "captured")
    assert loop.captures[0].value == 100.0


def test_ports_with_defaults_and_unbound_ports():
    body = {
        "body": {
            "metadata": {"inputs": ["i", "c"], "outputs": ["go"]},
            "nodes": {
                "n": {
                    "input_ports": {"given": {"default_value": 2}, "lost": {}},
                    "output_ports": {"go": {"value": "True"}},
                }
            },
        }
    }
    loop = outline(model_with_loop({"M": 2}, body)).nodes[0].loops[0]
    assert {i.name: i.role for i in loop.body.inputs} == {"given": "default", "lost": "unbound"}


def test_an_input_passed_through_has_no_node():
    body = {
        "body": {
            "metadata": {"inputs": ["i", "c", "x"], "outputs": ["c", "x", "i"]},
            "nodes": {"n": {}},
        }
    }
    loop = outline(model_with_loop({"M": 2, "v_initial": "(1.0,)"}, body)).nodes[0].loops[0]
    assert [(o.name, o.node_id, o.port_id) for o in loop.body.outputs] == [
        ("c", None, "c"),
        ("x", None, "x"),
        ("i", None, "i"),
    ]


def test_iterations_of_a_loop_are_a_result():
    loop = loop_of("wavefront", "layer_2")
    assert [(r.name, r.ports) for r in loop.reports] == [("iterations", ("ran",))]
    assert loop.carried_values[1].ports == ()


def test_ports_with_the_bare_name_of_a_loop_have_results_by_position(shared):
    graph = outline(shared / "models" / "ONNX" / "abc.yaml")
    (loop,) = graph.nodes[1].loops
    assert loop.carried_values[0].ports == ("x.3",)
    assert loop.condition_text == "true"


def test_an_unknown_signature_has_a_note():
    loop = loop_of("broken", "unordered")
    assert "cannot be inferred" in loop.notes[0]
    assert [(c.initial_expression, c.input_name, c.ports) for c in loop.carried_values] == [
        ("a", "", ("p",)),
        ("b", "", ()),
    ]
    assert [node.id for node in loop.body.nodes] == ["step"]


def test_a_loop_without_a_body_is_outlined():
    loop = loop_of("broken", "bodyless")
    assert loop.notes == ("the loop has no body",)
    assert (loop.kind, loop.body, loop.trip_count.value) == ("for-while", None, 4)


# --- graphs -------------------------------------------------------------------------------------


def test_nodes_of_a_graph_with_states_conditions_and_feedback():
    graph = outline(MODELS / "feedback.yaml")
    first, second, third = graph.nodes
    assert [item.id for item in first.definitions if item.is_stateful] == ["v"]
    assert [item.id for item in first.definitions if item.is_constant] == ["tau"]
    assert [item.id for item in second.definitions if item.is_stateful] == ["count", "spike"]
    assert first.inputs[0].default == 0.0
    assert (second.scheduler_condition, third.scheduler_condition) == (
        "every 2 calls of cell/1:a-b.c<d>",
        "when cell_2.count >= 3",
    )
    assert graph.termination == ("each evaluation ends after 2 calls of reader or after pass 9",)
    assert graph.cycles == ((first.id, second.id),)
    assert [edge.id for edge in graph.edges if edge.is_feedback] == ["back"]
    assert [edge.weight for edge in graph.edges] == [0.5, [1, 2], None]


def test_a_cycle_without_defaults_has_one_feedback_edge():
    ports = {"input_ports": {"x": {}}, "output_ports": {"y": {"value": "x"}}}
    edges = {
        f"{a}{b}": {"sender": a, "receiver": b, "sender_port": "y", "receiver_port": "x"}
        for a, b in ("ab", "bc", "ca", "dd")
    }
    graph = outline({"g": {"nodes": dict.fromkeys("abcd", ports), "edges": edges}})
    assert graph.cycles == (("a", "b", "c"), ("d",))
    assert [edge.id for edge in graph.edges if edge.is_feedback] == ["ca", "dd"]
    assert "wait for each other" in graph.notes[0]


def test_types_come_from_the_program_or_the_document():
    compilable = outline(MODELS / "wavefront.yaml")
    assert compilable.nodes[1].outputs[1].type == "float64[5, 3]"
    assert compilable.notes == ()
    port = {"input_ports": {"x": {"shape": [2], "type": "float"}}}
    missing_function = {"functions": {"f": {"function": "no_such_function", "args": {"x": "x"}}}}
    stated = outline({"g": {"nodes": {"n": {**port, **missing_function}}}})
    assert stated.nodes[0].inputs[0].type == "float[2]"
    assert any("no_such_function" in note for note in stated.notes)


def test_inputs_and_outputs_of_a_model():
    graph = outline(MODELS / "feedback.yaml")
    assert [(i.name, i.node_id) for i in graph.inputs] == [("drive.x", "cell/1:a-b.c<d>")]
    assert [(o.name, o.node_id) for o in graph.outputs] == [("seen", "reader")]


def test_every_shared_model_can_be_outlined(shared):
    for path in sorted((shared / "models").rglob("*.*")):
        assert outline(path).nodes


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ModelError, match="there is no file"):
        outline(tmp_path / "none.yaml")


def test_a_dict_parameter_is_a_constant():
    graph = outline(
        {"g": {"nodes": {"n": {"parameters": {"chunk": {"value": {"name": "count", "a": 1}}}}}}}
    )
    (item,) = graph.nodes[0].definitions
    assert item.is_constant
    assert list(formula_lines(item)) == ["chunk = {name: count, a: 1}"]


@pytest.mark.parametrize(
    "node",
    [
        {"parameters": {"f": {"value": "a + + )"}}, "output_ports": {"o": {"value": "f["}}},
        {"parameters": {"nothing": {}}},
        {"functions": {"f": {"function": "no_such_function", "args": {"x": "nowhere"}}}},
        {"functions": {"f": {"function": "onnx::Loop"}}},
    ],
)
def test_invalid_models_have_an_outline_with_notes(node):
    graph = outline({"g": {"nodes": {"n": node}}})
    assert graph.notes
    assert [node.id for node in graph.nodes] == ["n"]


def test_edges_to_missing_nodes_have_a_note():
    edge = {"sender": "n", "receiver": "lost", "sender_port": "a", "receiver_port": "b"}
    graph = outline({"g": {"nodes": {"n": {}}, "edges": {"e": edge}}})
    assert [edge.receiver for edge in graph.edges] == ["lost"]
    assert graph.notes


def test_a_failure_of_the_reader_is_a_note(monkeypatch):
    def fail(*args, **kwargs):
        raise KeyError("x")

    monkeypatch.setattr("mdf_loop.outline.annotation.read_annotated", fail)
    graph = outline(MODELS / "sample.yaml")
    assert graph.notes == ("types are not known: KeyError: 'x'",)
    assert graph.nodes[1].loops[0].carried_values[0].input_name == "x_in"


# --- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (3, "3"),
        (0.1 + 0.2, "0.3"),
        (6.0, "6"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        ([1, [2.5]], "[1, [2.5]]"),
        ([[0.123456789] * 9] * 8, "[8 × 9 values]"),
        ("a  +\n b", "a + b"),
        ({"a": 1}, "{a: 1}"),
        ("x" * 60, "x" * 47 + "…"),
    ],
)
def test_short_texts_of_values(value, text):
    assert value_text(value) == text


def test_formulas_have_the_spelling_of_the_modeller():
    graph = outline(MODELS / "feedback.yaml")
    cell, other, _ = graph.nodes
    assert list(formula_lines(cell.definitions[1])) == ["v(0) = -65", "dv/dt = (from_2 - v) / tau"]
    assert list(formula_lines(other.definitions[1])) == [
        "spike(0) = 0",
        "spike = 1 if in_1 > 0 & 1",
        "spike = 0 if in_1 < 0",
    ]
    rnn_body = outline(MODELS / "wavefront.yaml").nodes[1].loops[0].body
    assert list(formula_lines(rnn_body.nodes[1].definitions[0])) == [
        "rate = tanh(variable0=current, scale=1)"
    ]
