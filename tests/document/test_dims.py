"""Names of axes from metadata: the parts that have them, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.document.dims import dims_of
from mdf_loop.errors import ModelError
from mdf_loop.importing.opening import open_document

CELL = {"dims": ["cell"]}


def dims(*nodes: Node, edges: tuple[Edge, ...] = ()) -> dict[str, tuple[str, ...]]:
    return dims_of(open_document(Graph(id="g", nodes=list(nodes), edges=list(edges))))


def test_every_part_may_name_its_axes():
    node = Node(
        id="n",
        input_ports=[InputPort(id="i", metadata=CELL), InputPort(id="j")],
        parameters=[Parameter(id="p", value=[1.0], metadata={"dims": ["post", "pre"]})],
        functions=[Function(id="f", function="exp", args={"variable0": "i"}, metadata=CELL)],
        output_ports=[OutputPort(id="o", value="2 * p", metadata=CELL)],
    )
    assert dims(node) == {
        "n.o": ("cell",),
        "n.p": ("post", "pre"),
        "n.f": ("cell",),
        "n.i": ("cell",),
    }


def test_names_pass_through_parts_and_edges():
    cells = Node(
        id="cells",
        parameters=[
            Parameter(id="v0", value=[0.0, 0.0], metadata=CELL),
            Parameter(id="v", default_initial_value="v0", time_derivative="-v"),
        ],
        output_ports=[OutputPort(id="o", value=" v "), OutputPort(id="double", value="2 * v")],
    )
    copy = Node(
        id="copy",
        input_ports=[InputPort(id="x"), InputPort(id="other", metadata={"dims": ["mine"]})],
        output_ports=[OutputPort(id="y", value="x"), OutputPort(id="z", value="other")],
    )
    edges = tuple(
        Edge(id=f"e_{port}", sender="cells", sender_port="o", receiver="copy", receiver_port=port)
        for port in ("x", "other")
    )
    parts = ("cells.v0", "cells.v", "cells.o", "copy.x", "copy.y")
    named = {"copy.other": ("mine",), "copy.z": ("mine",)}
    assert dims(cells, copy, edges=edges) == dict.fromkeys(parts, ("cell",)) | named


def test_cycles_have_no_names():
    nodes = [
        Node(id=n, input_ports=[InputPort(id="x")], output_ports=[OutputPort(id="y", value="x")])
        for n in "ab"
    ]
    edges = tuple(
        Edge(id=f"{s}{r}", sender=s, sender_port="y", receiver=r, receiver_port="x")
        for s, r in ("ab", "ba")
    )
    assert dims(*nodes, edges=edges) == {}


@pytest.mark.parametrize("stated", [None, 3, "cell", [], [3, 4], {"cell": 1}])
def test_other_metadata_name_no_axes(stated):
    node = Node(id="n", parameters=[Parameter(id="p", value=1, metadata={"dims": stated})])
    assert dims(node) == {}


@pytest.mark.parametrize(
    ("stated", "named"),
    [(["n", 3], ()), (["n", "n"], ()), (["batch", "n"], ()), (["n", "feature"], ("n", "feature"))],
)
def test_beside_a_shape_open_extents_are_named_as_in_files(stated, named):
    port = InputPort(id="x", type="float32", shape=(-1, 3), metadata={"dims": stated})
    out = OutputPort(id="y", value="x")
    names = dims(Node(id="n", input_ports=[port], output_ports=[out]))
    assert names == ({"n.x": named, "n.y": named} if named else {})


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        (["cell", 3], "one of them is a number, 3"),
        ([None, "cell"], "one of them is empty"),
        (["cell", "cell"], "'cell' is there twice"),
        (["time"], "'time' is the name of an axis that results have in front"),
        (["cell", "batch"], "'batch' is the name of an axis"),
        ([""], "'' is no name"),
        ([" "], "' ' is no name"),
        (["a\0b"], "is no name"),
        (["\x1b[31m"], "is no name"),
    ],
)
def test_invalid_names_are_refused(stated, reason):
    with pytest.raises(ModelError) as error:
        dims(Node(id="n", parameters=[Parameter(id="p", value=1, metadata={"dims": stated})]))
    assert "'dims' of the parameter 'p' is to name axes, but " in error.value.report
    assert reason in error.value.report
    assert "at $.graphs[0].nodes['n'].parameters['p'].metadata" in error.value.report


def model(**stated: Any) -> dict[str, Any]:
    parameters = {
        "v": {"default_initial_value": [0.0, 0.0, 0.0], "value": "v + 1"},
        "w": {"value": [[1.0, 2.0], [3.0, 4.0]]},
    }
    ports = {
        name: {"value": name, "metadata": {"dims": stated[name]} if name in stated else {}}
        for name in parameters
    }
    return {"g": {"nodes": {"A": {"parameters": parameters, "output_ports": ports}}}}


@pytest.mark.parametrize("words", [{}, {"steps": 3}, {"steps": 3, "engine": "interpreter"}])
def test_more_names_than_axes_are_refused_before_the_run(words):
    compiled = mdf_loop.compile(model(v=["cell", "other"]))
    with pytest.raises(ModelError) as error:
        compiled.run(**words)
    assert error.value.report == (
        "ModelError: 'A.v' has 1 axis, but 'dims' names 2: cell, other\n"
        "  at $.graphs[0].nodes['A'].output_ports['v']\n"
        "  hint: name each axis of one evaluation; those of time and of members come by themselves"
    )


def test_one_name_for_two_lengths_is_refused():
    with pytest.raises(ModelError) as error:
        mdf_loop.compile(model(v=["cell"], w=["cell", "synapse"])).run()
    assert "the axis 'cell' is 2 long in 'A.w', but 3 in 'A.v'" in error.value.report
