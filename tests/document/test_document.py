"""Opening of models from paths, objects and dicts, and the choice of the main graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mdf_loop.document.bodies import owned_graph_ids, written_body
from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import is_loop
from mdf_loop.document.loading import graph_of
from mdf_loop.errors import LoopError, ModelError
from mdf_loop.importing.opening import open_document

EMPTY: dict[str, Any] = {"nodes": {}}


def model(**graphs: Any) -> Any:
    from modeci_mdf.mdf import Model

    return Model.from_dict({"m": {"format": "ModECI MDF v0.4", "graphs": graphs}})


def looping(body: Any, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    loop = {"function": "onnx::Loop", "args": {"M": 1, "body": body}}
    values = {k: {"value": v} for k, v in (parameters or {}).items()}
    return {"nodes": {"N": {"functions": {"f": loop}, "parameters": values}}}


def test_objects() -> None:
    from modeci_mdf.mdf import Graph

    two_graphs = model(g=EMPTY, h=EMPTY)
    document = open_document(two_graphs)
    assert document.graph is document.model.graphs[0]
    assert (document.where, document.name) == ("$.graphs[0]", "m")
    assert list(document.graphs_by_id) == ["g", "h"]
    assert document.path_of_graph("h") == "$.graphs['h']"
    assert open_document(document) is document
    assert open_document(Graph(id="alone")).graph.id == "alone"
    assert open_document({"alone": EMPTY}).graph.id == "alone"
    assert open_document({"id": "alone", **EMPTY}).graph.id == "alone"


@pytest.mark.parametrize("suffix", ["json", "yaml", "yml", "bson", "JSON"])
def test_files(tmp_path: Path, suffix: str) -> None:
    kind = "yaml" if suffix == "yml" else suffix.lower()
    path = tmp_path / f"m.{kind}"
    getattr(model(g=EMPTY), f"to_{kind}_file")(str(path))
    path = path.rename(tmp_path / f"m.{suffix}")
    for source in (path, str(path)):
        document = open_document(source)
        assert (document.graph.id, document.name) == ("g", path.name)


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("missing.yaml", None, "there is no file"),
        ("model.txt", "", "does not end in .json"),
        ("model", "", "does not end in .json"),
        ("folder.yaml", {}, "is a folder, not a model"),
        ("empty.json", "", "is not an MDF model"),
        ("empty.yaml", "", "is not an MDF model"),
        ("broken.json", "{", "is not an MDF model"),
        ("broken.yaml", "a: [", "is not an MDF model"),
        ("broken.bson", "{", "is not an MDF model"),
        ("list.json", "[]", "is not an MDF model"),
        ("deep.json", '{"a":' * 5000 + "1" + "}" * 5000, "not an MDF model|nested too deeply"),
        ("nograph.json", '{"m": {"format": "ModECI MDF v0.4"}}', "holds no graph"),
    ],
)
def test_files_that_are_no_models(tmp_path: Path, name: str, content: Any, match: str) -> None:
    path = tmp_path / name
    if isinstance(content, str):
        path.write_text(content)
    elif content is not None:
        path.mkdir()
    with pytest.raises(ModelError, match=match) as caught:
        open_document(path)
    assert name in str(caught.value)


@pytest.mark.parametrize("source", [5, None, [], object()])
def test_invalid_sources_are_refused(source: Any) -> None:
    with pytest.raises(ModelError, match="cannot read a model from"):
        open_document(source)


def test_two_graphs_with_the_same_id() -> None:
    two_graphs = model(g=EMPTY, h=EMPTY)
    two_graphs.graphs[1].id = "g"
    with pytest.raises(ModelError, match="two graphs have the id 'g'"):
        open_document(two_graphs)


@pytest.mark.parametrize(
    "graphs",
    [
        {"body": EMPTY, "main": looping("body")},
        {"body": EMPTY, "main": looping("'body'")},
        {"body": EMPTY, "main": looping({"graph": "body"})},
        {"body": EMPTY, "main": looping({"inputs": [], "outputs": [], "graph": "body"})},
        {"body": EMPTY, "main": looping("p", {"p": "body"})},
        {"body": EMPTY, "main": looping(None, {"body": {"graph": "body"}})},
        {"body": EMPTY, "main": looping({"net": looping("body")})},
        {"inner": EMPTY, "body": looping("inner"), "main": looping("body")},
        {"main": looping("body"), "body": EMPTY},
        {"main": EMPTY, "other": EMPTY},
        {"main": looping("main")},
    ],
)
def test_the_main_graph_is_the_first_that_is_no_body(graphs: dict[str, Any]) -> None:
    document = open_document(model(**graphs))
    assert document.graph.id == "main"
    assert document.where == f"$.graphs[{list(graphs).index('main')}]"


def test_bodies_referenced_by_name() -> None:
    assert owned_graph_ids(graph_of({"g": looping("a")}, "$")) == {"a"}
    nested = looping({"net": looping("b", {"body": "c"})}, {"body": "d"})
    assert owned_graph_ids(graph_of({"g": nested}, "$")) == {"b"}
    assert owned_graph_ids(graph_of({"g": looping(None)}, "$")) == set()
    assert owned_graph_ids(graph_of({"g": looping({"net": {"nodes": 5}})}, "$")) == set()
    assert owned_graph_ids(graph_of({"g": looping(5)}, "$")) == set()


def test_parameters_that_hold_bodies() -> None:
    node = graph_of({"g": looping("p", {"p": "q", "q": {"graph": "x"}})}, "$").nodes[0]
    body_content = written_body(node.functions[0], node)
    assert (body_content.graph_or_id, body_content.parameter_ids) == ("x", ("p", "q"))
    assert body_content.signature == {"graph": "x"}
    circle = graph_of({"g": looping("p", {"p": "q", "q": "p"})}, "$").nodes[0]
    assert written_body(circle.functions[0], circle).graph_or_id == "p"


@pytest.mark.parametrize(
    ("content", "graph_id"),
    [
        ({"net": EMPTY}, "net"),
        ({"id": "net", **EMPTY}, "net"),
        ({"graph_net": {"id": "net", **EMPTY}}, "net"),
        (EMPTY, "body"),
    ],
)
def test_graphs_written_as_dicts(content: dict[str, Any], graph_id: str) -> None:
    content_before = repr(content)
    graph = graph_of(content, "$")
    assert graph.id == graph_id
    assert graph_of({"other": graph}, "$") is graph
    assert repr(content) == content_before


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({}, r"a graph is written as .* is empty"),
        (5, r"a graph is written as .* of type int"),
        ({"net": 5}, "the graph 'net' has no nodes"),
        ({"net": {}}, "the graph 'net' has no nodes"),
        ({"a": 1, "b": 2}, "has no nodes"),
        ({"net": {"nodes": {"n": {"functions": 5}}}}, "'functions' is a number, 5"),
    ],
)
def test_invalid_graphs_are_refused(content: Any, match: str) -> None:
    with pytest.raises(ModelError, match=match) as caught:
        graph_of(content, "$.here")
    assert "at $.here" in str(caught.value)


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        ("onnx::Loop", True),
        ("Loop", True),
        ("onnx::loop", True),
        ("onnx::Scan", True),
        ("onnx::If", False),
        ("", False),
        (None, False),
        ({"onnx::Loop": {}}, False),
    ],
)
def test_loops(function: Any, answer: bool) -> None:
    assert is_loop(function) is answer


def test_documents_are_plain_data() -> None:
    graph = graph_of({"g": EMPTY}, "$")
    assert Document(graph, "$") == Document(graph, "$")
    assert issubclass(ModelError, LoopError)
