"""Outline and pseudo-code of choices, scans, slices and other loops."""

import re
from pathlib import Path

import numpy as np
import pytest

from mdf_loop.errors import LoopError
from mdf_loop.explanation import explain
from mdf_loop.outline import outline
from mdf_loop.outline.pseudocode import pseudocode
from mdf_loop.outline.slices import outline_slice, recording_remark
from mdf_loop.outline.text import shorten_name, value_text
from mdf_loop.outline.words import closed_headline, delay_text, headline, slice_text
from mdf_loop.reading.recordings import RecordingForm
from mdf_loop.reading.slices import SliceForm

MODELS = Path(__file__).parents[1] / "drawing" / "models"


def node_of(name, node):
    return next(n for n in outline(MODELS / f"{name}.yaml").nodes if n.id == node)


def pseudocode_lines(block):
    """Return the lines of pseudo-code without remarks."""
    return [re.sub(r"(?<=\S) +# .*", "", line) for line in pseudocode(block)]


# --- choices ------------------------------------------------------------------------------------


def test_outline_of_an_if():
    (loop,) = node_of("branches", "regulate").loops
    (choice,) = loop.body.nodes[1].blocks
    assert (choice.full_name, choice.kind) == ("heater.choice", "if")
    assert choice.selector.expression == "cold"
    assert [branch.title for branch in choice.branches] == ["if cold", "else"]
    assert [(o.name, o.node_id) for o in choice.branches[1].outputs] == [
        ("t_in", None),
        ("none", "rest"),
    ]
    assert [(j.name, j.ports, j.type) for j in choice.joined_results] == [
        ("choice[0]", ("t_out",), "float64[]"),
        ("choice[1]", ("heat",), "float64[]"),
    ]
    assert [c.name for c in choice.captures] == ["t_in", "target", "gain"]
    assert (headline(choice), closed_headline(choice)) == (
        "if cold … else …",
        "if cold (2 branches)",
    )
    assert [c.name for c in loop.captures] == ["target", "gain"]


def test_pseudocode_of_an_if():
    (loop,) = node_of("branches", "regulate").loops
    lines = pseudocode_lines(loop)
    begin = lines.index("    if cold:")
    assert [line.strip() for line in lines[begin : begin + 13]] == [
        "if cold:",
        "# burn",
        "p = gain * (target - t_in)",
        "power = p",
        "# warm",
        "warmer = t_in + power",
        "t_out = warmer",
        "heat = power",
        "else:",
        "# rest",
        "none = 0.0",
        "t_out = t_in",
        "heat = none",
    ]


def test_outline_of_a_case():
    (choice,) = node_of("cases", "animal").blocks
    assert headline(choice) == "case of mode: 0, 1, 2, else"
    assert [b.title for b in choice.branches] == ["mode = 0", "mode = 1", "mode = 2", "else"]
    assert choice.branches[2].body.path == "$.graphs['jump']"
    assert choice.branches[3].body is None
    assert [o.port_id for o in choice.branches[3].outputs] == ["v", "v"]
    assert [c.name for c in choice.captures] == ["v", "stride"]
    lines = pseudocode_lines(choice)
    assert lines[0] == "match mode:"
    assert lines[-3:] == ["    case _:", "        speed = v", "        effort = v"]


def test_a_case_without_default_ends_in_an_error():
    branch = {
        "b": {"metadata": {"outputs": ["y"]}, "nodes": {"n": {"output_ports": {"y": {"value": 1}}}}}
    }
    call = {"function": "case_of", "args": {"index": "k", "branches": [branch] * 6}}
    node = {"input_ports": {"k": {"default_value": 0}}, "functions": {"f": call}}
    (choice,) = outline({"g": {"nodes": {"n": node}}}).nodes[0].blocks
    assert headline(choice) == "case of k: 0 … 5"
    assert pseudocode_lines(choice)[-2:] == ["    case _:", "        raise"]


def test_nested_choices_and_loops_are_explained():
    text = explain(MODELS / "loop_in_branch.yaml")
    assert "Choice finder.root: if" in text
    assert "  Loop iterate.steps: for" in text
    assert "  Choice check.sign: if" in text
    assert "if r > 0:" in text


def test_a_branch_that_contains_its_own_choice_has_a_note():
    call = {"function": "onnx::If", "args": {"cond": "c", "then_branch": "g", "else_branch": "g"}}
    inner = {
        "n": {
            "input_ports": {"c": {}},
            "functions": {"f": call},
            "output_ports": {"y": {"value": "f"}},
        }
    }
    main = {"n": {"input_ports": {"c": {"default_value": True}}, "functions": {"f": call}}}
    from mdf_loop.document.loading import model_of

    graphs = {"main": {"nodes": main}, "g": {"nodes": inner}}
    model = model_of({"m": {"format": "ModECI MDF v0.4", "graphs": graphs}})
    (choice,) = outline(model).nodes[0].blocks
    assert "again" in choice.notes[0]


# --- loops --------------------------------------------------------------------------------------


def test_outline_of_a_scan():
    (scan,) = node_of("scans", "reader").loops
    assert (scan.kind, headline(scan)) == ("scan", "scan over x, z")
    assert [(p.input_name, p.output_name, p.ports) for p in scan.carried_values] == [
        ("s", "s_next", ("s_final",))
    ]
    assert [(p.name, slice_text(p), p.remark) for p in scan.sliced_inputs] == [
        ("x_t", "x[i]", ""),
        ("z_t", "z[:, i]", "backwards"),
    ]
    assert [(r.name, r.ports, r.remark) for r in scan.recorded_values] == [
        ("both", ("products",), "on axis 1"),
        ("seen", ("states",), "last iteration first"),
    ]
    assert [c.name for c in scan.captures] == ["gain"]
    lines = pseudocode_lines(scan)
    assert "for i over x, z:" in lines
    assert "    z_t = z[:, i]" in lines


def test_outline_of_a_sequence_map():
    (loop,) = node_of("scans", "lengths").loops
    assert headline(loop) == "for each element of words"
    assert pseudocode_lines(loop)[:3] == [
        "lengths = []",
        "for i over words:",
        "    word = words[i]",
    ]


def test_additional_sequences_of_a_sequence_map_are_sliced():
    body = {"b": {"metadata": {"inputs": ["a", "k"], "outputs": ["y"]}, "nodes": {}}}
    args = {"input_sequence": "s", "additional_inputs": ["t"], "body": body}
    ports = {"s": {"type": "sequence(float32)"}, "t": {"type": "float32", "shape": [2]}}
    node = {
        "input_ports": ports,
        "functions": {"f": {"function": "onnx::SequenceMap", "args": args}},
    }
    (loop,) = outline({"g": {"nodes": {"n": node}}}).nodes[0].loops
    assert slice_text(loop.sliced_inputs[0]) == "s[i]"
    assert slice_text(loop.sliced_inputs[1]) in ("t", "t[i]")  # its type may not be known


def test_slices_delays_and_recordings_of_a_loop():
    (loop,) = node_of("slices", "filter").loops
    assert (loop.kind, headline(loop)) == ("sliced", "for each row of x, z")
    assert {i.name: i.role for i in loop.body.inputs} == {
        "v_in": "carried",
        "v_2": "delayed",
        "x_t": "sliced",
        "decay": "captured",
        "z_t": "sliced",
    }
    assert [delay_text(delay) for delay in loop.delayed_values] == ["v_out, 2 iterations ago"]
    assert [r.remark for r in loop.recorded_values] == [
        "on axis 1",
        "joined along axis 0, last iteration first",
        "only the last one",
        "padded to 10 with 0",
    ]
    assert "    v_2 = v_out[i - 2]" in pseudocode_lines(loop)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (SliceForm("a", "x"), "x[i]"),
        (SliceForm("a", "x", axis=2), "x[:, :, i]"),
        (SliceForm("a", "x", axis=-2), "x[..., i, :]"),
        (SliceForm("a", "x", axis=7), "x[axis 7: i]"),
        (SliceForm("a", "x", start=-1, end=0, stride=-1), "x[i], backwards"),
        (SliceForm("a", "x", part_size=3, stride=3), "x[i], parts of 3"),
        (SliceForm("a", "x", part_size=3), "x[i], parts of 3, stride 1"),
        (SliceForm("a", "x", start=1, end=-2, stride=2), "x[i], from 1 to -2, stride 2"),
    ],
)
def test_words_for_slices(form, text):
    row_slice = outline_slice(form)
    assert ", ".join(word for word in (slice_text(row_slice), row_slice.remark) if word) == text


def test_a_plain_recording_has_no_remark():
    assert recording_remark(None) == recording_remark(RecordingForm("y")) == ""


def test_outline_of_a_condition_in_the_middle():
    (loop,) = node_of("middle", "power").loops
    assert headline(loop) == "loop while small, tested in the middle"
    assert loop.is_strict
    assert {n.id: n.is_before_test for n in loop.body.nodes} == {
        "raise_it": True,
        "test": True,
        "keep": False,
    }
    lines = pseudocode_lines(loop)
    assert lines.index("    if not small: break") == lines.index("    # keep") - 1
    assert "what it needs runs once more than the rest" in explain(MODELS / "middle.yaml")


@pytest.mark.parametrize(
    ("extra_args", "kind", "head_line"),
    [
        ({}, "while", "while True:"),
        ({"M": 5}, "for-while", "for i in range(5):"),
        ({"slices": {"row": "rows"}}, "sliced-while", "for i over rows:"),
    ],
)
def test_a_condition_in_the_middle_without_start_condition(extra_args, kind, head_line):
    nodes = {"n": {"input_ports": {"x": {}}, "output_ports": {"go": {"value": "x < 5"}}}}
    metadata = {"inputs": ["i", "c", "x"], "outputs": ["go", "x"]}
    body = {"b": {"metadata": metadata, "nodes": nodes}}
    args = {"v_initial": "(1.0,)", "exit": "middle", **extra_args, "body": body}
    node = {
        "parameters": {"rows": {"value": [1.0, 2.0]}},
        "functions": {"f": {"function": "onnx::Loop", "args": args}},
    }
    (loop,) = outline({"g": {"nodes": {"owner": node}}}).nodes[0].loops
    assert loop.kind == kind
    lines = pseudocode_lines(loop)
    assert head_line in lines
    assert not any("going" in line for line in lines)


def test_a_condition_that_is_always_true_is_omitted():
    nodes = {
        "one": {"parameters": {"c": {"value": True}}, "output_ports": {"go": {"value": "c"}}},
        "n": {"input_ports": {"x": {}}, "output_ports": {"y": {"value": "2 * x"}}},
    }
    metadata = {"inputs": ["i", "c", "x"], "outputs": ["go", "y"]}
    body = {"b": {"metadata": metadata, "nodes": nodes}}
    args = {"M": 3, "cond": True, "v_initial": "(1.0,)", "body": body}
    node = {"functions": {"f": {"function": "onnx::Loop", "args": args}}}
    model = {"g": {"nodes": {"owner": node}}}
    (loop,) = outline(model).nodes[0].loops
    assert (loop.kind, headline(loop)) == ("for", "for i in range(M=3)")
    assert not any("break" in line for line in pseudocode_lines(loop))
    assert "Runs 3 times: M is given; the condition is always true." in explain(model)


# --- values -------------------------------------------------------------------------------------


def test_large_arrays_show_dtype_and_shape():
    assert value_text(np.zeros((64, 3), np.float32)) == "float32[64, 3]"
    assert value_text(np.zeros((0, 3), np.int64)) == "int64[0, 3]"
    assert value_text(np.array([1.5, 2.0], np.float32)) == "[1.5, 2]"
    assert value_text(np.array(True)) == "true"
    assert value_text({"npz": "weights.npz", "array": "W"}) == "W of weights.npz"


def test_long_names_show_both_ends():
    short = shorten_name("/encoder/layer.0/attention/self/Add_output_0", 24)
    assert len(short) == 24
    assert short.startswith("/encoder…")
    assert short.endswith("output_0")


@pytest.mark.slow
def test_every_shared_case_is_outlined_and_explained(shared):
    for path in sorted((shared / "cases").rglob("*.onnx")):
        try:
            graph = outline(path)
        except LoopError:
            continue  # the importer reports these invalid files
        assert graph.nodes
