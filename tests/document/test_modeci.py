"""Conversion of modeci_mdf objects to the parts of a document, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from modeci_mdf import mdf

from mdf_loop.document import parts
from mdf_loop.document.content import content_of
from mdf_loop.document.document import Document, document_of
from mdf_loop.document.modeci import from_modeci, to_modeci


def _model() -> Any:
    body = mdf.Graph(id="body", nodes=[mdf.Node(id="inner")])
    node = mdf.Node(
        id="n",
        metadata={"pair": (1, (2,)), "array": np.array([1.0, 2.0])},
        input_ports=[mdf.InputPort(id="i", shape=(2, 3)), mdf.InputPort(id="j", shape=None)],
        functions=[
            mdf.Function(id="f", function="onnx::Loop", args={"body": body, "M": 3}),
            mdf.Function(id="g", function="onnx::Loop", args={"body": {"graph": body}}),
        ],
        parameters=[
            mdf.Parameter(
                id="p", value=[], conditions=[mdf.ParameterCondition(id="c", test="i > 1")], args={}
            )
        ],
        output_ports=[mdf.OutputPort(id="o", value="f")],
    )
    edge = mdf.Edge(
        id="e", sender="n", receiver="n", sender_port="o", receiver_port="i", metadata={"k": 1}
    )
    inner_conditions = [mdf.Condition("Always"), mdf.Condition("AtNCalls", dependency=node, n=1)]
    conditions = mdf.ConditionSet(
        node_specific={"n": mdf.Condition("All", args=inner_conditions)},
        termination={"evaluation": mdf.Condition("AfterNCalls", dependency=node, n=2)},
    )
    graph = mdf.Graph(id="g", nodes=[node], edges=[edge], conditions=conditions)
    return mdf.Model(id="m", graphs=[graph])


def test_an_object_that_occurs_twice_becomes_one_part() -> None:
    graph = from_modeci(_model()).graphs[0]
    (node,) = graph.nodes
    first, second = node.functions
    assert isinstance(first.args["body"], parts.Graph)
    assert second.args["body"]["graph"] is first.args["body"]
    assert graph.conditions.termination["evaluation"].kwargs["dependency"] is node


def test_parts_become_objects_with_equal_content() -> None:
    model = _model()
    written = to_modeci(from_modeci(model))
    assert (
        written.graphs[0].conditions.termination["evaluation"].kwargs["dependency"]
        is (written.graphs[0].nodes[0])
    )
    assert list(written.to_dict()) == list(model.to_dict())
    assert str(written.to_dict()) == str(model.to_dict())


def test_values_without_objects_are_not_copied() -> None:
    arguments = {"a": [1, 2, "x"], "b": {"c": np.zeros(3)}}
    function = from_modeci(mdf.Function(id="f", args=arguments))
    assert function.args is arguments
    assert to_modeci(function).args is arguments


def test_plain_content_has_the_order_and_the_fields_of_modeci_mdf() -> None:
    content = content_of(document_of(from_modeci(_model()), "m"))["m"]
    assert list(content) == ["format", "generating_application", "graphs"]
    graph = content["graphs"]["g"]
    assert list(graph) == ["nodes", "edges", "conditions"]
    assert list(graph["edges"]["e"])[-1] == "metadata"
    node = graph["nodes"]["n"]
    assert node["metadata"] == {"pair": [1, [2]], "array": [1.0, 2.0]}
    assert node["input_ports"] == {"i": {"shape": [2, 3]}, "j": {"shape": None}}
    assert node["functions"]["f"]["args"]["body"] == {"body": {"nodes": {"inner": {}}}}
    assert node["parameters"]["p"] == {
        "value": [],
        "args": {},
        "conditions": {"c": {"test": "i > 1", "value": None}},
    }
    ends = graph["conditions"]["termination"]["evaluation"]
    assert ends == {"type": "AfterNCalls", "kwargs": {"dependency": "n", "n": 2}}


def test_a_graph_alone_is_written_within_a_model() -> None:
    graph = parts.Graph(id="g")
    content = content_of(Document(graph, "$", {"g": graph}))
    assert content["g"]["graphs"] == {"g": {}}
    assert content["g"]["format"] == mdf.Model(id="g").format


def test_parts_are_frozen_and_equal_only_to_themselves() -> None:
    node = parts.Node(id="n")
    with pytest.raises(AttributeError):
        node.id = "m"  # type: ignore[misc]
    assert node != parts.Node(id="n")
    assert len({node, parts.Node(id="n")}) == 2


@pytest.mark.parametrize(
    "name",
    [
        *("Model", "Graph", "Node", "Edge", "InputPort", "OutputPort", "Function"),
        *("Parameter", "ParameterCondition", "ConditionSet"),
    ],
)
def test_defaults_are_those_of_modeci_mdf(name: str) -> None:
    modeci_type, part_type = getattr(mdf, name), getattr(parts, name)
    names = ("id", "sender", "receiver", "sender_port", "receiver_port")
    required = {field: "x" for field in names if field in part_type.__struct_fields__}
    part = from_modeci(modeci_type(**required))
    if name == "Model":
        required |= {"format": part.format, "generating_application": part.generating_application}
    default_part = part_type(**required)
    for field in part_type.__struct_fields__:
        assert getattr(part, field) == getattr(default_part, field)
