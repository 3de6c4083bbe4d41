"""Outline of a model over time."""

from pathlib import Path

from mdf_loop.outline import outline, outline_over_time
from mdf_loop.outline.text import formula_lines
from mdf_loop.outline.words import headline

MODELS = Path(__file__).parents[1] / "drawing" / "models"


def time_loop(model):
    (owner,) = outline_over_time(model).nodes
    (loop,) = owner.loops
    return loop


def test_states_and_feedback_outputs_are_carried():
    loop = time_loop(MODELS / "two_nodes.yaml")
    assert (loop.kind, headline(loop)) == ("over time", "for each time step")
    assert [(p.input_name, p.output_name, p.initial_expression) for p in loop.carried_values] == [
        ("hares", "hares'", 10.0),
        ("lynxes", "lynxes'", 2.0),
        ("lynx.kills", "lynx.kills'", 0.0),
    ]
    assert [(r.name, r.ports) for r in loop.recorded_values] == [("lynxes[t]", ("lynxes",))]
    assert [capture.name for capture in loop.captures] == ["food", "dt"]
    assert [(e.sender, e.is_feedback) for e in loop.body.edges] == [("hare", False)]
    assert [(i.name, i.node_id, i.port_id, i.weight) for i in loop.body.inputs] == [
        ("hares", "hare", None, None),
        ("lynxes", "lynx", None, None),
        ("lynx.kills", "hare", "eaten", 0.2),
        ("food", "hare", "food", None),
    ]
    assert [(o.name, o.node_id, o.port_id) for o in loop.body.outputs[1:]] == [
        ("hares'", "hare", "hares"),
        ("lynxes'", "lynx", "lynxes"),
        ("lynx.kills'", "lynx", "kills"),
        ("lynxes[t]", "lynx", "lynxes"),
    ]


def test_nodes_are_the_same_with_and_without_time():
    graph = outline(MODELS / "conditions.yaml")
    body = time_loop(MODELS / "conditions.yaml").body
    assert [(n.id, n.scheduler_condition) for n in body.nodes] == [
        (n.id, n.scheduler_condition) for n in graph.nodes
    ]
    assert [list(map(list, map(formula_lines, n.definitions))) for n in body.nodes] == [
        list(map(list, map(formula_lines, n.definitions))) for n in graph.nodes
    ]
    assert body.edges == graph.edges


def test_initial_values_over_time():
    pairs = time_loop(MODELS / "fitzhugh_nagumo.yaml").carried_values
    assert [(p.initial_expression, p.initial_value) for p in pairs] == [
        ("initial_v", [-1.0]),
        ("initial_w", [0.0]),
    ]
    count, *_ = time_loop(MODELS / "states.yaml").carried_values
    assert (count.input_name, count.initial_expression) == ("count", 0)


def test_feedback_within_an_evaluation():
    loop = time_loop(MODELS / "feedback.yaml")
    assert [edge.id for edge in loop.body.edges if edge.is_feedback] == ["back"]
    assert loop.carried_values[-1].input_name == "cell_2.out"


def test_ambiguous_states_have_full_names():
    stateful_node = {"parameters": {"v": {"value": "v + x"}}, "output_ports": {"v": {"value": "v"}}}
    nodes = {
        name: {"input_ports": {"x": {"default_value": 1}}, **stateful_node} for name in ("a", "b")
    }
    edge = {"sender": "b", "receiver": "a", "sender_port": "v", "receiver_port": "x"}
    loop = time_loop({"g": {"nodes": nodes, "edges": {"e": edge}}})
    assert [pair.input_name for pair in loop.carried_values] == ["a.v", "b.v", "b.v sent"]
    assert [capture.name for capture in loop.captures] == ["x"]


def test_receivers_with_different_defaults():
    port = {"output_ports": {"y": {"value": "x"}}}
    nodes = {
        "a": {"input_ports": {"x": {"default_value": 1}}, **port},
        "b": {"input_ports": {"x": {"default_value": 2}}, **port},
        "c": {"input_ports": {"x": {"default_value": 3}}, **port},
    }
    edges = {
        name: {"sender": "c", "receiver": name, "sender_port": "y", "receiver_port": "x"}
        for name in ("a", "b")
    }
    (pair,) = time_loop({"g": {"nodes": nodes, "edges": edges}}).carried_values
    assert (pair.input_name, pair.initial_expression) == ("c.y", "the default of each port")


def test_an_edge_to_an_earlier_node_is_feedback():
    ports = {"input_ports": {"x": {"default_value": 0}}, "output_ports": {"y": {"value": "x + 1"}}}
    edges = {
        name: {"sender": name[0], "receiver": name[1], "sender_port": "y", "receiver_port": "x"}
        for name in ("ab", "ba")
    }
    graph = outline({"g": {"nodes": {"a": ports, "b": ports}, "edges": edges}})
    assert [edge.id for edge in graph.edges if edge.is_feedback] == ["ba"]


def test_every_shared_model_can_be_outlined_over_time(shared):
    for path in sorted((shared / "models").rglob("*.*")):
        assert time_loop(path).body.nodes
