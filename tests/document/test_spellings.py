"""Forms in PsyNeuLink's files that differ from MDF."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import mdf_loop
from mdf_loop.document.spellings import graph_as_mdf, model_as_mdf
from mdf_loop.errors import InputError, ModelError, UnsupportedError
from mdf_loop.importing.opening import open_document


def model(node: dict[str, Any], **extra_keys: Any) -> dict[str, Any]:
    return {"m": {**extra_keys, "graphs": {"g": {"nodes": {"n": node}}}}}


def doubling(**port: Any) -> dict[str, Any]:
    return {"input_ports": {"x": port}, "output_ports": {"y": {"value": "2 * x"}}}


@pytest.mark.parametrize(
    ("text", "shape"),
    [("(1,)", (1,)), ("(2, 3)", (2, 3)), ("()", ()), ("[2, 3]", (2, 3)), (" (-1, 2) ", (-1, 2))],
)
def test_a_shape_that_is_text(text: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    content = model(doubling(shape=text))
    for source in (content, content["m"]["graphs"]):
        (port,) = open_document(source).graph.nodes[0].input_ports
        assert tuple(port.shape) == shape
    path = tmp_path / "model.yaml"
    path.write_text(yaml.safe_dump(content))
    x = np.ones([abs(extent) for extent in shape])
    assert mdf_loop.compile(path).run({"x": x})["y"].tolist() == (2 * x).tolist()


@pytest.mark.parametrize("text", ["two", "(2.5,)", "(n,)", "5", "__import__('os')", "(True,)", "("])
def test_text_that_is_no_shape_stays_an_error(text: str) -> None:
    with pytest.raises(ModelError, match="a shape is a list of whole numbers, not "):
        mdf_loop.read(model(doubling(shape=text)))


def test_a_parameter_that_is_a_bare_number_is_its_value() -> None:
    node = {"parameters": {"k": 0.5, "n": 3}, "output_ports": {"y": {"value": "k * n"}}}
    assert mdf_loop.compile(model(node)).run()["y"] == 1.5
    node = {"parameters": {"k": "text"}, "output_ports": {"y": {"value": "k"}}}
    with pytest.raises(ModelError, match="the parameter 'k' is text"):
        mdf_loop.read(model(node))


def test_psyneulink_states_the_dtype_of_a_default() -> None:
    node = doubling(shape=[1, 1], type="int64")
    with pytest.raises(InputError, match="must be int64, but"):
        mdf_loop.compile(model(node)).run({"x": [[0.5]]})
    by_psyneulink = model(node, generating_application="PsyNeuLink v0.21.0.0")
    assert mdf_loop.compile(by_psyneulink).run({"x": [[0.5]]})["y"].tolist() == [[1.0]]
    assert mdf_loop.compile(by_psyneulink).run()["y"].tolist() == [[0]]
    float_port = model(doubling(type="float32"), generating_application="psyneulink v0.9")
    (port,) = open_document(float_port).graph.nodes[0].input_ports
    assert port.type == "float32"


def test_a_graph_in_a_node_is_named() -> None:
    inner = {"nodes": {"a": doubling()}, "edges": {}, "parameters": {"learning_rate": 0.05}}
    with pytest.raises(UnsupportedError, match="the node 'n' is a graph with nodes of its own"):
        mdf_loop.read(model(inner))


def test_the_caller_s_content_is_not_changed() -> None:
    content = model({**doubling(shape="(1,)", type="int64"), "parameters": {"k": 1}})
    content["m"]["generating_application"] = "PsyNeuLink"
    content_before = copy.deepcopy(content)
    assert model_as_mdf(content) != content
    assert content == content_before
    sound = model(doubling(shape=[1]))
    assert model_as_mdf(sound)["m"] is sound["m"]
    for other in (None, 5, [], {}, {"m": 5}, {"id": "m"}, {"id": "m", "graphs": [1]}):
        assert model_as_mdf(other) == other
        assert graph_as_mdf(other) == other
