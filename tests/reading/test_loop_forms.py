"""Parsed forms of a loop's arguments, before any computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.document.document import Document
from mdf_loop.document.loading import graph_of
from mdf_loop.document.parts import Function, Graph, Node, Parameter
from mdf_loop.errors import ArityError, ModelError, SignatureError
from mdf_loop.reading.loop_forms import LoopForm, order_initial_values, parse_loop

BODY = {"metadata": {"inputs": ["i", "go", "x", "y"], "outputs": ["go", "x", "y"]}, "nodes": {}}
WHERE = "$.graphs[0].nodes['N'].functions['f']"


def form(args: dict[str, Any] | None, parameters: dict[str, Any] | None = None) -> LoopForm:
    arguments = {"body": {"net": BODY}, **(args or {})}
    function = Function(id="f", function="onnx::Loop", args=arguments)
    values = [Parameter(id=k, value=v) for k, v in (parameters or {}).items()]
    node = Node(id="N", functions=[function], parameters=values)
    other = graph_of({"other": BODY}, "$")
    return parse_loop(function, node, WHERE, Document(Graph(id="g"), "$", {"other": other}))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (None, None),
        ("", None),
        ("  ", None),
        (-1, None),
        ("-1", None),
        (" -1 ", None),
        (-1.0, None),
        (10, 10),
        ("10", "10"),
        ("n", "n"),
        ("[n]", "n"),
        ("[ 2 * n ]", "2 * n"),
        ("[a, b]", "[a, b]"),
        ([10], [10]),
    ],
)
def test_trip_counts(written: Any, read: Any) -> None:
    assert form({"M": written}).trip_count == read
    assert form({}).trip_count is None


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (None, None),
        ("", None),
        ("true", True),
        (" True ", True),
        ("FALSE", False),
        (True, True),
        (0, 0),
        ("x > 1", "x > 1"),
        ("truth", "truth"),
    ],
)
def test_conditions(written: Any, read: Any) -> None:
    condition = form({"cond": written}).condition
    assert condition == read
    assert type(condition) is type(read)


def test_a_port_named_true_is_not_the_constant() -> None:
    assert form({"cond": "true"}, {"true": False}).condition == "true"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (None, ()),
        ("", ()),
        ([], ()),
        ("[]", ()),
        ("()", ()),
        ("b", ("b",)),
        ("(b)", ("(b)",)),
        ("(b,)", ("b",)),
        ("b + a", ("b + a",)),
        ("(b + a) * 2", ("(b + a) * 2",)),
        (6, (6,)),
        ("6", ("6",)),
        ([6], ([6],)),
        ("[6, 7]", ("[6, 7]",)),
        ("[-6.5, 7]", ("[-6.5, 7]",)),
        ("[[1], [2]]", ("[[1], [2]]",)),
        ("a, b", ("a", "b")),
        ("(a, b)", ("a", "b")),
        ("[a, b]", ("a", "b")),
        ("(a, [1, 2], b[0])", ("a", "[1, 2]", "b[0]")),
        (["a", 2.5, [1, 2]], ("a", 2.5, [1, 2])),
        (["x.3", "/A/b"], ("x.3", "/A/b")),
        ("x.3", ("x.3",)),
        (("a", "b"), ("a", "b")),
        ({"x": "a", "y": 2}, {"x": "a", "y": 2}),
        ("dict(x=a, y=b + 1)", {"x": "a", "y": "b + 1"}),
        ("{'x': a, 'y': [1, 2]}", {"x": "a", "y": "[1, 2]"}),
    ],
)
def test_initial_values(written: Any, read: Any) -> None:
    assert form({"v_initial": written}).initial_expressions == read


def test_an_array_is_one_initial_value() -> None:
    (value,) = form({"v_initial": np.array([1, 2])}).initial_expressions
    assert value.tolist() == [1, 2]


def test_initial_values_as_numbered_arguments() -> None:
    assert form({"v_initial": "a", "arg_b": "b", "arg_c": "c + 1"}).initial_expressions == (
        "a",
        "b",
        "c + 1",
    )
    assert form({"v_initial": "a", "arg_b": "b", "alpha": "b"}).bindings == {"alpha": "b"}


@pytest.mark.parametrize("text", ["(a", "(a ", "(1"])
def test_a_tuple_split_by_yaml_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match=r"v_initial is cut off: \(") as caught:
        form({"v_initial": text, "b)": None})
    assert 'v_initial: "(v, w)"' in str(caught.value)


def test_initial_values_by_name_in_the_order_of_the_body() -> None:
    assert order_initial_values(form({"v_initial": {"y": 1, "x": 2}})) == (2, 1)
    for names in ({"x": 1}, {"x": 1, "y": 2, "z": 3}, {"x": 1, "z": 3}):
        with pytest.raises(ArityError, match="but the body carries"):
            order_initial_values(form({"v_initial": names}))


@pytest.mark.parametrize(
    ("body", "parameters", "where"),
    [
        ({"net": BODY}, {}, WHERE + ".args.body"),
        ({"graph": {"net": BODY}}, {}, WHERE + ".args.body.graph"),
        ("other", {}, "$.graphs['other']"),
        ("'other'", {}, "$.graphs['other']"),
        ('"other"', {}, "$.graphs['other']"),
        ({"graph": "other"}, {}, "$.graphs['other']"),
        ("p", {"p": {"net": BODY}}, "$.graphs[0].nodes['N'].parameters['p'].value"),
        ("p", {"p": "q", "q": {"net": BODY}}, "$.graphs[0].nodes['N'].parameters['q'].value"),
        ("p", {"p": {"graph": "other"}}, "$.graphs['other']"),
        ("p", {"p": "other"}, "$.graphs['other']"),
        (None, {"body": {"net": BODY}}, "$.graphs[0].nodes['N'].parameters['body'].value"),
        ("", {"body": "other"}, "$.graphs['other']"),
        ("other", {"other": {"net": BODY}}, "$.graphs[0].nodes['N'].parameters['other'].value"),
        ("other", {"other": "other"}, "$.graphs['other']"),
    ],
)
def test_where_a_body_is(body: Any, parameters: dict[str, Any], where: str) -> None:
    loop_form = form({"body": body}, parameters)
    assert loop_form.body_path == where
    assert loop_form.owned_graph.input_names == ("i", "go", "x", "y")


@pytest.mark.parametrize(
    ("body", "parameters", "match"),
    [
        (None, {}, "the loop has no body"),
        ("", {}, "the loop has no body"),
        ("''", {}, "the loop has no body"),
        ("p", {"p": None}, "the loop has no body"),
        ({"graph": None}, {}, "the loop has no body"),
        ("nobody", {}, "'nobody' is not a graph of the model"),
        ({"graph": "nobody"}, {}, "'nobody' is not a graph of the model"),
        (5, {}, "a graph, not int"),
        (True, {}, "a graph, not bool"),
        (["other"], {}, "a graph, not list"),
        (np.array(["other"]), {}, "a graph, not ndarray"),
        ({}, {}, "a graph is written as"),
        ({"net": 5}, {}, "'net' has no nodes"),
        ({"nodes": ["a"]}, {}, "has no nodes"),
    ],
)
def test_invalid_bodies_are_refused(body: Any, parameters: dict[str, Any], match: str) -> None:
    with pytest.raises(ModelError, match=match):
        form({"body": body}, parameters)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["i", "go"], ("i", "go")),
        ("i, go", ("i", "go")),
        ("i", ("i",)),
        ({"i": {"type": "int"}, "go": {}}, ("i", "go")),
        ([], ()),
    ],
)
def test_signatures(written: Any, read: tuple[str, ...]) -> None:
    metadata = {"inputs": written, "outputs": ["i", "i"], "shapes": "dynamic"}
    loop_form = form({"body": {"net": {"metadata": metadata, "nodes": {}}}})
    assert (
        loop_form.owned_graph.input_names,
        loop_form.owned_graph.output_names,
        loop_form.shape_rule,
    ) == (
        read,
        ("i", "i"),
        "dynamic",
    )


def test_a_signature_beside_the_body_goes_before_its_own() -> None:
    loop_form = form({"body": {"inputs": ["j", "on"], "outputs": None, "graph": "other"}})
    assert (loop_form.owned_graph.input_names, loop_form.owned_graph.output_names) == (
        ("j", "on"),
        ("go", "x", "y"),
    )
    bare = form({"body": {"net": {"nodes": {}}}})
    assert (bare.owned_graph.input_names, bare.owned_graph.output_names, bare.shape_rule) == (
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        (5, "metadata.inputs must be a list of names, not 5"),
        (["i", 5], "must be a list of names"),
        (["i", "go", "i"], "metadata.inputs name 'i' twice"),
    ],
)
def test_invalid_signatures_are_refused(inputs: Any, match: str) -> None:
    with pytest.raises(SignatureError, match=match):
        form({"body": {"net": {"metadata": {"inputs": inputs}, "nodes": {}}}})


@pytest.mark.parametrize(("trips", "iterations"), [(-1, 0), ("-1", 0), (2, 2)])
def test_minus_one_is_no_iteration_for_a_loop_of_onnx(trips, iterations):
    graph = {"g": {"nodes": {"n": {
        "parameters": {"x": {"value": 1.0}},
        "functions": {"loop": {"function": "onnx::Loop", "args": {"M": trips, "v_initial": "x",
            "body": {"b": {"metadata": {"semantics": "onnx", "inputs": ["i", "go", "v"],
                                        "outputs": ["go", "w"]},
                "nodes": {"double": {"input_ports": {"v": {}},
                                     "output_ports": {"w": {"value": "v * 2"}}}}}}}}},
        "output_ports": {"y": {"value": "loop"}}}}}}  # fmt: skip
    assert mdf_loop.compile(graph, device="cpu").run()["y"] == 2.0**iterations
