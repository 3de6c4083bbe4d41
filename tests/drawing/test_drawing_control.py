"""Pictures of choices, scans, slices, and models from other systems."""

import time

import numpy as np
import pytest
from msgspec.structs import asdict

from mdf_loop.document.loading import model_of
from mdf_loop.drawing import draw
from mdf_loop.drawing.dot.drawers import BOX_DRAWERS
from mdf_loop.drawing.dot.frames import draw_frame
from mdf_loop.outline import LoopOutline
from mdf_loop.outline.graphs import BLOCK_OUTLINERS
from mdf_loop.outline.loops import outline_loop
from tests.drawing.dot_text import edges, visible_text


def graph_of(**nodes):
    return {"g": {"nodes": nodes}}


def test_blocks_are_drawn_by_their_element(models, monkeypatch):
    class Repeat(LoopOutline):
        block_type = "repeat"

    elements = []

    def outline_repeat(site):
        loop = outline_loop(site)
        return Repeat(**asdict(loop))

    def draw_repeat(picture, box, view):
        elements.append(box.outline.full_name)
        draw_frame(picture, box, view)

    monkeypatch.setitem(BLOCK_OUTLINERS, "onnx::Loop", outline_repeat)
    monkeypatch.setitem(BOX_DRAWERS, "repeat", draw_repeat)
    draw(models / "sample.yaml")
    assert elements == ["halving.halve"]


# --- choices ------------------------------------------------------------------------------------


def test_a_choice_has_a_frame_per_branch_and_no_back_edge(models):
    dot = draw(models / "cases.yaml").dot
    text = visible_text(dot)
    assert "case of mode: 0, 1, 2, else" in text
    assert dot.count("class=branch") == 4
    for title in ("mode = 0", "mode = 1", "mode = 2", "else"):
        assert f"<B>{title}</B>" in dot
    assert edges(dot, "back") == []


def test_the_condition_arrives_at_the_choice(models):
    dot = draw(models / "branches.yaml", rankdir="LR").dot
    assert ("sense:out0:e", "heater__choice__in:c_o:w") in edges(dot, "data")
    assert "<B>if cold</B>" in dot
    assert "<B>else</B>" in dot


def test_branch_outputs_join_in_the_results(models):
    dot = draw(models / "branches.yaml", rankdir="LR").dot
    to_first = [t for t, h in edges(dot, "data") if h == "heater__choice__out:r0_i:w"]
    assert sorted(to_first) == ["heater__choice__else__t_in", "warm:out0:e"]
    assert ("heater__choice__out:r0_o:e", "regulate__hours__out:v0_i:w") in edges(dot, "data")
    assert "choice[0] → t_out" in visible_text(dot)


def test_captured_values_come_from_the_left_rail(models):
    dot = draw(models / "branches.yaml", rankdir="LR").dot
    capture_edges = edges(dot, "capture")
    assert ("heater__choice__in:o0_i:e", "warm:in1:w") in capture_edges
    assert ("heater__choice__in:o0_i:e", "heater__choice__else__t_in") in capture_edges
    picture_without_captures = draw(models / "branches.yaml", captures=False, rankdir="LR").dot
    assert edges(picture_without_captures, "capture") == []
    assert "t_in passed through" in visible_text(picture_without_captures)


def test_a_default_branch_passes_values_through(models):
    text = visible_text(draw(models / "cases.yaml").dot)
    assert text.count("v passed through") == 1


def test_lower_levels_and_depths_close_choices(models):
    assert "if cold (2 branches)" in visible_text(draw(models / "branches.yaml", depth=1).dot)
    assert "case of mode (4 branches)" in visible_text(draw(models / "cases.yaml", level=0).dot)
    assert "case of mode (4 branches)" in visible_text(
        draw(models / "cases.yaml", collapse="animal").dot
    )
    text = visible_text(draw(models / "cases.yaml", level=1).dot)
    assert text.count("… 1 node …") == 3
    assert "speed = 0.5 * v" not in text


def test_loops_and_choices_inside_of_branches(models):
    dot = draw(models / "loop_in_branch.yaml", level=3, rankdir="LR").dot
    text = visible_text(dot)
    for title in ("if fast … else …", "for i in range(M=20)", "if r &gt; 0 … else …"):
        assert title in text
    assert edges(dot, "back") == [
        ("iterate__steps__out:v0_i:w", "iterate__steps__in:v0_i:e"),
    ]
    focused = visible_text(draw(models / "loop_in_branch.yaml", focus="flip").dot)
    assert "flipped = -r" in focused
    assert "numpy.sqrt" not in focused


@pytest.mark.parametrize("function", ["onnx::If", "case_of", "onnx::Scan", "onnx::SequenceMap"])
@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("rankdir", ["LR", "TB"])
def test_unknown_blocks_are_drawn_without_messages(function, level, rankdir, capfd):
    model = graph_of(n={"functions": {"f": {"function": function}}})
    assert "<svg" in draw(model, level=level, rankdir=rankdir).svg()
    assert "rror" not in capfd.readouterr().err


def test_a_missing_branch_has_a_note():
    call = {"function": "onnx::If", "args": {"cond": "x > 0", "then_branch": "nowhere"}}
    node = {"input_ports": {"x": {"default_value": 1.0}}, "functions": {"f": call}}
    text = visible_text(draw(graph_of(n=node)).dot)
    assert "is not a graph of the model" in text
    assert "has no else branch" in text
    assert "… no body …" in text


# --- scans, slices, delays, recordings, conditions in the middle --------------------------------


def test_a_scan_shows_its_slices(models):
    text = visible_text(draw(models / "scans.yaml").dot)
    assert "scan over x, z" in text
    assert "x_t = x[i]" in text
    assert "z_t = z[:, i], backwards" in text
    assert "both → products · on axis 1" in text
    assert "seen → states · last iteration first" in text


def test_a_sequence_map_shows_its_elements(models):
    text = visible_text(draw(models / "scans.yaml").dot)
    assert "for each element of words" in text
    assert "words sequence(float32)" in text
    assert "length → lengths · a sequence" in text


def test_slices_delays_and_recordings_stand_on_the_rails(models):
    dot = draw(models / "slices.yaml", level=2, rankdir="LR").dot
    text = visible_text(dot)
    assert "for each row of x, z" in text
    assert "x_t = x[..., i]" in text
    assert "z_t = z[:, i], parts of 2, backwards" in text
    assert "v_2 ← past, then v_out, 2 iterations ago" in text
    for sentence in ("on axis 1", "joined along axis 0, last iteration first", "only the last one"):
        assert sentence in text
    assert "p → padded · padded to 10 with 0" in text
    back = ("filter__smooth__out:v0_i:w", "filter__smooth__in:d0_i:e")
    assert back in edges(dot, "back")
    assert "< t+2 >" in dot


def test_a_condition_in_the_middle_marks_nodes_before_it(models):
    text = visible_text(draw(models / "middle.yaml", rankdir="LR").dot)
    assert "loop while small, tested in the middle" in text
    assert "strict: reads only what it is given" in text
    assert "raise_it +1 before the test" in text
    assert "keep +1" not in text
    assert "before the test: runs once more than the rest" in text


# --- models of other systems --------------------------------------------------------------------


def test_typed_constants_stand_in_the_ports_that_read_them(models):
    dot = draw(models / "imported.yaml").dot
    text = visible_text(dot)
    assert "▸ /encoder/layer.0/weight = float32[3, 3]" in text
    assert "▸ large = float32[1, 18]" in text
    assert "/Constant_output_0 = 2" in text
    assert dot.count("class=constant") == 2  # those that the loop reads
    assert "18.0" not in dot


def test_an_input_node_is_one_pill_with_its_named_extents(models):
    dot = draw(models / "imported.yaml").dot
    assert dot.count("class=input") == 1
    assert "x float32[n, 3]" in visible_text(dot)


def test_outputs_have_the_names_in_the_metadata(models):
    text = visible_text(draw(models / "imported.yaml").dot)
    assert "<I>y</I>" in draw(models / "imported.yaml").dot
    assert "MatMul(A=x, B=/encoder/layer.0/weight)" in text
    assert "result =" not in text
    assert "= result" not in text


def chain(count):
    """Return a model with many additions, long names, a weight for each, and skip connections."""
    nodes, edges_ = {"x": {"input_ports": {"x": {}}, "output_ports": {"x": {"value": "x"}}}}, {}
    names = ["x"]
    for k in range(count):
        weight = f"/encoder/layer.{k}/weight"
        value = {"value": np.zeros((64, 3), np.float32), "metadata": {"dtype": "float32"}}
        nodes[weight] = {
            "parameters": {"value": value},
            "output_ports": {weight: {"value": "value"}},
        }
        reads = [names[-1], weight if k % 3 else names[max(len(names) - 9, 0)]]
        name = f"/encoder/layer.{k}/Add_output_0"
        call = {"function": "onnx::Add", "args": {"A": reads[0], "B": reads[1]}}
        nodes[name] = {
            "input_ports": {read: {} for read in reads},
            "functions": {"result": call},
            "output_ports": {name: {"value": "result"}},
        }
        for read in dict.fromkeys(reads):
            edges_[f"{read}_{name}"] = {
                "sender": read,
                "sender_port": read,
                "receiver": name,
                "receiver_port": read,
            }
        names.append(name)
    content = {
        "m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": nodes, "edges": edges_}}}
    }
    return model_of(content)


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2])
def test_hundreds_of_nodes(level):
    model = chain(300)
    start = time.perf_counter()
    picture = draw(model, level=level).svg()
    assert time.perf_counter() - start < 60
    assert picture.count('class="node node"') == 300


@pytest.mark.slow
def test_a_long_chain_of_nodes():
    assert "digraph" in draw(chain(600)).dot
