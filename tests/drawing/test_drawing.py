"""Pictures of models, checked in their DOT text."""

import re
from xml.etree import ElementTree

import pytest

from mdf_loop.document.loading import suppress_output
from mdf_loop.drawing import draw
from mdf_loop.errors import InputError, LoopError, UnknownNameError
from mdf_loop.text_escaping import escape_to_one_line
from tests.drawing.dot_text import edges, visible_text


def graph_of(**nodes):
    return {"g": {"nodes": nodes}}


# --- loops --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "title"),
    [
        ("for_node", "for i in range(M=5)"),
        ("for_while_node", "for i in range(M=5) while going"),
        ("while_node", "while going"),
        ("do_while_node", "do … while go"),
        ("endless_node", "loop forever"),
    ],
)
def test_pseudocode_of_each_mode(node, title, models):
    dot = draw(models / "modes.yaml", focus=node).dot
    label = re.search(r"subgraph cluster_\w+__run \{(.*?)\]", dot, re.DOTALL)
    assert f"<B>{title}</B>" in label.group(1)


def test_carried_values_are_in_one_row_of_both_rails(models):
    dot = draw(models / "wavefront.yaml").dot
    rails = {
        side: re.findall(
            r'PORT="(\w+)_i"', re.search(rf"layer_2__settle__{side} \[(.*)\]", dot).group(1)
        )
        for side in ("in", "out")
    }
    rows = {side: [key for key in keys if key[0] in "cv"] for side, keys in rails.items()}
    assert rows["in"] == rows["out"] == ["c", "v0", "v1"]


def test_back_edges_go_from_right_to_left_and_do_not_rank(models):
    dot = draw(models / "wavefront.yaml", rankdir="LR").dot
    assert edges(dot, "back") == [
        ("layer_2__settle__out:v1_i:w", "layer_2__settle__in:v1_i:e"),
        ("layer_2__settle__out:v0_i:w", "layer_2__settle__in:v0_i:e"),
        ("layer_1__steps__out:v0_i:w", "layer_1__steps__in:v0_i:e"),
    ]
    back_edges = [line for line in dot.splitlines() if "class=back" in line]
    assert all("constraint=false" in line and "style=dashed" in line for line in back_edges)
    assert ["t+1" in line for line in back_edges] == [False, True, True]  # once for each loop


def test_captures_are_merged_or_omitted(models):
    dot = draw(models / "nested.yaml", rankdir="LR").dot
    inner = [pair for pair in edges(dot, "capture") if pair[1].startswith("relax__step_loop__in")]
    assert len(inner) == 2  # steps and rate, each once
    picture_without_captures = draw(models / "nested.yaml", captures=False, rankdir="LR").dot
    assert edges(picture_without_captures, "capture") == []
    assert [
        tail for tail, _ in edges(picture_without_captures, "data") if tail.startswith("start")
    ] == ["start:out0:e"]
    assert "◇" not in picture_without_captures
    assert "captured value" not in picture_without_captures


def test_a_captured_constant_is_written_at_its_terminal(models):
    assert "leak = 0.9" in visible_text(draw(models / "wavefront.yaml").dot)


def test_terminals_show_initial_value_type_and_final_port(models):
    text = visible_text(draw(models / "sample.yaml", level=3).dot)
    assert "x_in ← x = 64 · float64[]" in text
    assert "x_out → x_final · float64[]" in text
    assert "lost → losses · float64[halve_iterations]" in text
    assert "going_out x_next &gt; 1" in text
    assert "limit = 10 iterations at most" in text


def test_results_of_one_loop_feed_the_next_through_formulas(models):
    dot = draw(models / "workshop.yaml", rankdir="LR").dot
    data_edges = edges(dot, "data")
    assert ("worker__squares__out:r0_o:e", "worker__formulas_2:f0:w") in data_edges
    assert ("worker__formulas_2:f0:e", "worker__totals__in:v0_o:w") in data_edges
    assert ("worker__totals__out:v1_o:e", "worker__formulas_3:f0:w") in data_edges


def test_a_loop_without_carried_values_has_no_back_edge(models):
    dot = draw(models / "workshop.yaml").dot
    assert not any("squares" in tail for tail, _ in edges(dot, "back"))
    assert len(edges(dot, "back")) == 2


def test_an_incomplete_loop_has_a_note(models):
    text = visible_text(draw(models / "broken.yaml").dot)
    assert "⚠ the loop has no body" in text
    assert "⚠ the order of the body" in text
    assert "carried 0 ← a" in text


# --- levels, depth, choice ----------------------------------------------------------------------


def test_levels(models):
    def clusters(level):
        return draw(models / "sample.yaml", level=level).dot.count("subgraph")

    texts = [visible_text(draw(models / "sample.yaml", level=level).dot) for level in range(4)]
    assert [clusters(level) for level in range(4)] == [1, 2, 2, 2]
    assert "(x) → (x_final, losses)" in texts[0]
    assert "… 1 node …" in texts[1]
    assert "x_next = factor * x_in" not in texts[1]
    assert "x_next = factor * x_in" in texts[2]
    assert "float64[]" not in texts[2]
    assert "float64[]" in texts[3]


def test_depth_limits_open_loops(models):
    def frames(depth):
        return re.findall(r"subgraph (\w+_loop)", draw(models / "nested.yaml", depth=depth).dot)

    assert frames(0) == []
    assert frames(1) == ["cluster_outer_node__trial_loop"]
    assert frames(2) == frames(None)
    assert set(frames(2)) == {"cluster_outer_node__trial_loop", "cluster_relax__step_loop"}


def test_a_closed_loop_shows_its_signature(models):
    text = visible_text(draw(models / "nested.yaml", depth=1).dot)
    assert "relax for k in range(M=4) (x_in) → (y)" in text


def test_collapse_closes_nodes(models):
    dot = draw(models / "nested.yaml", collapse="relax").dot
    assert "cluster_relax" not in dot
    assert "cluster_outer_node" in dot


def test_focus_draws_a_node_and_its_neighbours(models):
    text = visible_text(draw(models / "wavefront.yaml", focus="layer_1").dot)
    assert "stimulus" in text
    assert "layer_1" in text
    inner = draw(models / "nested.yaml", focus=["decay"]).dot
    assert "cluster_relax__step_loop" in inner
    assert "two-cells" in draw(models / "feedback.yaml", focus="reader").dot
    assert "drive.x" not in visible_text(draw(models / "feedback.yaml", focus="reader").dot)


@pytest.mark.parametrize("option", ["focus", "collapse"])
def test_an_unknown_id_is_an_error_with_a_suggestion(option, models):
    with pytest.raises(UnknownNameError, match=r"(?s)no node 'layer1'.*did you mean 'layer_1'"):
        draw(models / "wavefront.yaml", **{option: "layer1"})


@pytest.mark.parametrize(("level", "rankdir"), [(4, "LR"), (-1, "LR"), (1, "RL")])
def test_unknown_levels_and_directions_are_errors(level, rankdir, models):
    with pytest.raises(InputError):
        draw(models / "sample.yaml", level=level, rankdir=rankdir)


def test_top_to_bottom_uses_the_other_sides(models):
    dot = draw(models / "sample.yaml", rankdir="TB").dot
    assert "rankdir=TB" in dot
    assert ("halving__halve__in:v0_i:s", "step:in1:n") in edges(dot, "data")


# --- graphs -------------------------------------------------------------------------------------


def test_feedback_is_dashed_inside_the_box_of_its_cycle(models):
    dot = draw(models / "feedback.yaml").dot
    assert edges(dot, "feedback") == [("cell_2", "cell_1_a_b_c_d")]
    assert "cycle: once around per pass" in visible_text(dot)


def test_a_node_that_feeds_itself():
    ports = {
        "input_ports": {"x": {"default_value": 1.0}},
        "output_ports": {"y": {"value": "2 * x"}},
    }
    edge = {"sender": "n", "receiver": "n", "sender_port": "y", "receiver_port": "x"}
    dot = draw({"g": {"nodes": {"n": ports}, "edges": {"e": edge}}}).dot
    assert edges(dot, "feedback") == [("n", "n")]
    assert "label=< y → x >" in dot


def test_states_conditions_and_weights_are_shown_in_words(models):
    dot = draw(models / "feedback.yaml").dot
    text = visible_text(dot)
    assert "↻ dv/dt = (from_2 - v) / tau" in text
    assert "↻ spike = 1 if in_1 &gt; 0 &amp; 1" in text
    assert "every 2 calls of cell/1:a-b.c&lt;d&gt;" in text
    assert "when cell_2.count &gt;= 3" in text
    assert "each evaluation ends after 2 calls of reader or after pass 9" in text
    assert "label=< × 0.5 >" in dot


def test_a_long_condition_takes_several_lines(models):
    parts = [
        {"type": "AfterNCalls", "kwargs": {"dependency": n, "n": 2}} for n in ("left", "right")
    ]
    conditions = {"node_specific": {"n": {"type": "Any", "kwargs": {"dependencies": parts * 2}}}}
    model = {"g": {"nodes": {"n": {}, "left": {}, "right": {}}, "conditions": conditions}}
    assert '</FONT></TD></TR><TR><TD ALIGN="CENTER"><FONT' in draw(model).dot


def test_the_legend_has_only_drawn_kinds(models):
    assert "trip count" in visible_text(draw(models / "sample.yaml").dot)
    text = visible_text(draw(models / "feedback.yaml").dot)
    assert "state, kept between evaluations" in text
    assert "trip count" not in text
    loop_free_drawing = draw(graph_of(n={"output_ports": {"y": {"value": "1"}}}), level=1)
    assert "next iteration" not in loop_free_drawing.dot


def test_tooltips_and_classes_name_the_place_in_the_model(models):
    dot = draw(models / "sample.yaml").dot
    assert "class=loop" in dot
    assert "tooltip=\"$.graphs[0].nodes['halving'].functions['halve']\"" in dot
    assert "id=start" in dot


def test_empty_graphs_and_empty_nodes_are_drawn():
    assert "digraph" in draw({"g": {"nodes": {}}}).dot
    assert "digraph" in draw(graph_of(nothing={})).dot


@pytest.mark.parametrize("rankdir", ["LR", "TB"])
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_an_unknown_loop_is_drawn_without_messages(level, rankdir, capfd):
    model = graph_of(n={"functions": {"f": {"function": "onnx::Loop"}}})
    assert "<svg" in draw(model, level=level, rankdir=rankdir).svg()
    assert "rror" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "name",
    ["a.b", "a:b", "/A/Add", "x-y", "<b>", "a & b", 'q"q', "back\\slash", "ümlaut", "a\nb", "node"],
)
@pytest.mark.parametrize("level", [0, 3])
def test_any_id_can_be_drawn(name, level):
    port = {"input_ports": {name: {"default_value": 1}}, "output_ports": {name: {"value": name}}}
    model = {
        name: {
            "nodes": {name: port, "other": port},
            "edges": {
                name: {
                    "sender": name,
                    "receiver": "other",
                    "sender_port": name,
                    "receiver_port": name,
                }
            },
        }
    }
    picture = ElementTree.fromstring(draw(model, level=level).svg())
    words = " ".join("".join(part.itertext()) for part in picture.findall(".//{*}text"))
    groups = [part.get("class") for part in picture.findall(".//{*}g")]
    assert escape_to_one_line(name) in words.replace("\xa0", " ")
    assert groups.count("node node") == 2
    assert groups.count("edge data") == (1 if level == 0 else 3)  # two of them to pills


@pytest.mark.slow
def test_every_shared_model_is_drawn_at_every_level(shared):
    for path in sorted((shared / "models").rglob("*.*")):
        for level in range(4):
            assert draw(path, level=level).dot.startswith("//")


def test_the_documented_sample(shared):
    dot = draw(shared / "models" / "doc_sample.yaml").dot
    text = visible_text(dot)
    assert "for i in range(M=10) while keepgoing" in text
    assert "keepgoing_out my_local &gt; b_next" in text
    assert "b_in ← b = 6 · int64[]" in text
    assert ("constants:out0:e", "loop_node__loop_1__in:o0_o:w") in edges(dot, "capture")


def test_models_and_graphs_can_be_drawn_too(models):
    from modeci_mdf.utils import load_mdf

    with suppress_output():
        model = load_mdf(str(models / "sample.yaml"))
    assert "halving_net" in draw(model).dot
    assert "halving_net" in draw(model.graphs[0]).dot


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(LoopError, match="there is no file"):
        draw(tmp_path / "none.yaml")
