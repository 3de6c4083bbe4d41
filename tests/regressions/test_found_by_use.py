"""Regression tests of defects that users of the library reported."""

from __future__ import annotations

from pathlib import Path

import pytest

import mdf_loop
from mdf_loop.errors import ExpressionError, ModelError

NODE = "m: {graphs: {g: {nodes: {n: {%s}}, edges: {%s}}}}"
OUT = "output_ports: {o: {value: 1}}"
BODY = (
    "functions: {f: {function: onnx::Loop, args: {M: 1, v_initial: 0, body: {b: {"
    "metadata: {inputs: [i, c, x], outputs: [c, x]}, nodes: {}, %s}}}}}, " + OUT
)


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        ("m: {graphs: [{id: g, nodes: {}}]}", "'graphs' is a list", "$.graphs"),
        ("m: {graphs: {g: {nodes: [{id: n}]}}}", "'nodes' is a list", "$.graphs[0].nodes"),
        ("m: {graphs: {g: {nodes: {}, edges: }}}", "'edges' is empty", "$.graphs[0].edges"),
        (
            "m: {graphs: {g: {metadata: 3, nodes: {}}}}",
            "the metadata of the graph 'g' is a number, 3",
            "$.graphs[0]",
        ),
        (NODE % (OUT, "e: 5"), "the edge 'e' is a number, 5", "$.graphs[0].edges['e']"),
        (
            NODE % (OUT, "e: {sender: n, sender_port: o, receiver: n}"),
            "the edge 'e' has no receiver_port",
            "$.graphs[0].edges['e']",
        ),
        (
            NODE % ("input_ports: {x: }, " + OUT, ""),
            "the input port 'x' is empty",
            "$.graphs[0].nodes['n'].input_ports['x']",
        ),
        (
            NODE % ("parameters: {3: {value: 1}}, " + OUT, ""),
            "the name 3 of a parameter is not text",
            "$.graphs[0].nodes['n'].parameters",
        ),
        (
            NODE % ("functions: {f: {function: linear, args: []}}, " + OUT, ""),
            "'args' is a list",
            "$.graphs[0].nodes['n'].functions['f']",
        ),
        (
            NODE % (BODY % "edges: 2.5", ""),
            "'edges' is a number, 2.5",
            "$.graphs[0].nodes['n'].functions['f'].args.body.edges",
        ),
        (
            NODE % ("input_ports: {x: {shape: two}}, " + OUT, ""),
            "a shape is a list of whole numbers, not 'two'",
            "$.graphs[0].nodes['n'].input_ports['x']",
        ),
    ],
)
def test_an_invalid_document_structure_is_reported_with_its_place(
    tmp_path: Path, text: str, what: str, where: str
) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(text)
    with pytest.raises(ModelError) as caught:
        mdf_loop.read(str(path))
    (finding,) = caught.value.findings
    assert (finding.what, finding.where) == (what, where)
    assert finding.hint


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.yaml", "m:\n  graphs:\n    g: {nodes: {}}\n    g: {nodes: {}}\n"),
        ("m.json", '{"m": {"graphs": {"g": {"nodes": {}}, "g": {"nodes": {}}}}}'),
    ],
)
def test_a_duplicate_key_is_refused(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ModelError, match="'g' is written twice in one mapping"):
        mdf_loop.read(str(path))


def test_yaml_anchors_and_merged_mappings_are_no_duplicate_keys(tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(
        "m: {graphs: {g: {nodes: {n: {parameters: {a: &a {value: 3}, b: {<<: *a}, c: "
        "{<<: *a, value: 4}}, output_ports: {o: {value: a + b + c}}}}}}}"
    )
    assert mdf_loop.compile(str(path), device="cpu").run()["o"] == 10


def test_a_list_of_text_as_a_value_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(NODE % ("parameters: {a: {value: 1}}, output_ports: {o: {value: [a]}}", ""))
    with pytest.raises(ExpressionError, match="is a list of text") as caught:
        mdf_loop.read(str(path))
    assert '"[a]"' in str(caught.value)


@pytest.mark.parametrize("value", ["[0] * 10**12", "[0] * -(2)", "(1 + 1) * [0, 1]"])
def test_a_list_repeated_by_multiplication_is_refused(tmp_path: Path, value: str) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(NODE % (f"output_ports: {{o: {{value: '{value}'}}}}", ""))
    with pytest.raises(ExpressionError, match="join or repeat the list"):
        mdf_loop.read(str(path))
