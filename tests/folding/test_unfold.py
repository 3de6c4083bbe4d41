"""Tests of `unfold`: a loop with a constant number of iterations becomes copies of its body."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import mdf_loop
from mdf_loop.errors import LoopError, TripCountError, UnknownNameError, UnsupportedError
from tests.folding.flat_graphs import graph, node, run_to_bytes, run_to_lists

BODY = {
    "metadata": {"inputs": ["i", "go", "x", "k"], "outputs": ["go", "x_next", "k_next", "row"]},
    "nodes": {
        "A": node("x i", y="numpy.sin(x) + 0.1 * i"),
        "B": node("y gain k", x_next="gain * y", k_next="k + 2", row="y * numpy.array([1.0, 2.0])"),
    },
    "edges": {
        "e": {"sender": "A", "sender_port": "y", "receiver": "B", "receiver_port": "y"},
    },
}


def model(
    loop: dict[str, Any] | None = None, body: Any = None, **node_sections: Any
) -> dict[str, Any]:
    """Return a model with a loop node between two others; `loop` replaces loop arguments."""
    args = {"M": "times", "v_initial": "(start, 0)", "body": {"body": body or BODY}, **(loop or {})}
    content = {
        "input_ports": {"start": {}, "gain": {}},
        "functions": {
            "f": {
                "function": "onnx::Loop",
                "args": {k: v for k, v in args.items() if v is not None},
            }
        },
        "parameters": {"times": {"value": 4}},
        "output_ports": {
            "x": {"value": "f[0]"},
            "twice": {"value": "2 * f[1] + f.iterations"},
            "rows": {"value": "f[2]"},
        },
        **node_sections,
    }
    nodes = {
        "given": node("a", a="a", gain="0.75"),
        "loop": content,
        "out": node("x rows", sum="x + numpy.sum(rows)"),
    }
    edges = ("given.a -> loop.start", "given.gain -> loop.gain")
    return graph(nodes, *edges, "loop.x -> out.x", "loop.rows -> out.rows")


def test_unfold_copies_the_body_for_each_iteration() -> None:
    source = model({"M": 2})
    original = copy.deepcopy(source)
    unfolded = mdf_loop.unfold(source, loop="loop")
    assert source == original
    (flat,) = unfolded.graphs
    names = ["given", "loop_in", "A_1", "B_1", "A_2", "B_2", "loop", "out"]
    assert [n.id for n in flat.nodes] == names
    assert not any(f.function == "onnx::Loop" for n in flat.nodes for f in n.functions)
    carried = [e for e in flat.edges if (e.sender, e.sender_port) == ("B_1", "x_next")]
    assert [(e.receiver, e.receiver_port) for e in carried] == [("A_2", "x")]
    assert [p.id for p in flat.nodes[-2].output_ports] == ["x", "twice", "rows"]
    assert flat.metadata == {"outputs": ["loop.twice", "out.sum"]}


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 4, 17])
def test_unfolded_loop_computes_the_same_bits(count: int) -> None:
    source = model({"M": count})
    unfolded = mdf_loop.unfold(source, loop="loop.f")
    for a in (0.3, [0.1, -2.0]):
        assert run_to_bytes(unfolded, a=a) == run_to_bytes(source, a=a)


@pytest.mark.parametrize(
    "arguments",
    [
        {"M": "times"},
        {"cond": True},
        {"recordings": {"row": {"reverse": True}}},
        {"recordings": {"row": {"axis": 1}}},
        {"recordings": {"row": {"concat": True}}},
        {"recordings": {"row": {"keep": "last"}}},
        {"gain": "2 * gain"},
        {"v_initial": {"k": 0, "x": "start + 1"}},
    ],
)
def test_spellings_of_the_loop_compute_the_same_bits(arguments: dict[str, Any]) -> None:
    source = model(arguments)
    assert run_to_bytes(mdf_loop.unfold(source, "loop"), a=0.3) == run_to_bytes(source, a=0.3)


def test_loop_without_iterations() -> None:
    body = copy.deepcopy(BODY)
    body["metadata"]["outputs"].pop()
    outputs = {
        "x": {"value": "f[0]"},
        "rows": {"value": "f[1]"},
        "twice": {"value": "f.iterations"},
    }
    source = model({"M": 0}, body, output_ports=outputs)
    assert run_to_bytes(mdf_loop.unfold(source, "loop"), a=0.3) == run_to_bytes(source, a=0.3)


def test_nested_loop_remains_and_reads_the_same_values() -> None:
    inner = {
        "metadata": {"inputs": ["j", "on", "t"], "outputs": ["on", "t_next"]},
        "nodes": {"cell": node("t gain i", t_next="t * gain + i")},
    }
    body = {
        "metadata": {"inputs": ["i", "go", "x", "k"], "outputs": ["go", "x_next", "k", "x_next"]},
        "nodes": {
            "row": {
                "input_ports": {"x": {}, "k": {}},
                "functions": {
                    "g": {
                        "function": "onnx::Loop",
                        "args": {"M": 3, "v_initial": "x", "body": {"inner": inner}},
                    }
                },
                "output_ports": {"x_next": {"value": "g"}},
            }
        },
    }
    source = model(None, body)
    unfolded = mdf_loop.unfold(source, "loop")
    assert run_to_bytes(unfolded, a=0.3) == run_to_bytes(source, a=0.3)
    both = mdf_loop.unfold(unfolded, "row_2")
    assert run_to_bytes(both, a=0.3) == run_to_bytes(source, a=0.3)


def test_initial_value_without_dtype_keeps_the_dtype_of_the_carried_value() -> None:
    body = {
        "metadata": {"inputs": ["i", "go", "s"], "outputs": ["go", "s_next"]},
        "nodes": {"A": node("s w", s_next="s + w")},
    }
    flat = graph(
        {
            "loop": {
                "input_ports": {"w": {"type": "float32"}},
                "functions": {
                    "f": {
                        "function": "onnx::Loop",
                        "args": {"M": 3, "v_initial": "(0.1,)", "body": {"b": body}},
                    }
                },
                "output_ports": {"s": {"value": "f"}},
            }
        }
    )
    assert run_to_bytes(mdf_loop.unfold(flat, "loop"), w=0.25) == run_to_bytes(flat, w=0.25)


def test_fold_then_unfold_computes_the_flat_graph() -> None:
    flat = graph(
        {"start": node("a", a="a"), "f": node("x", y="numpy.cos(x) / 3"), "out": node("y", r="y")},
        *("start.a -> f.x", "f.y -> out.y"),
    )
    folded_model = mdf_loop.fold(flat, ["f"], {"f.y": "f.x"}, trip_count=1)
    assert run_to_bytes(mdf_loop.unfold(folded_model, "loop"), a=0.7) == run_to_bytes(flat, a=0.7)
    longer = mdf_loop.fold(flat, ["f"], {"f.y": "f.x"}, trip_count=6)
    assert run_to_bytes(mdf_loop.unfold(longer, "loop"), a=0.7) == run_to_bytes(longer, a=0.7)
    assert run_to_lists(longer, a=0.7)["r"] != run_to_lists(folded_model, a=0.7)["r"]


WITH_CONDITION = copy.deepcopy(BODY)
WITH_CONDITION["nodes"]["A"]["output_ports"]["stop"] = {"value": "y < 3"}
WITH_CONDITION["metadata"]["outputs"][0] = "stop"
WITH_DEFAULT = copy.deepcopy(BODY)
WITH_DEFAULT["nodes"]["B"]["input_ports"]["y"] = {"default_value": 1.0}


@pytest.mark.parametrize(
    ("source", "loop", "error", "sentence"),
    [
        (model(), "lop", UnknownNameError, "there is no loop 'lop'"),
        (model(), "given", UnknownNameError, "there is no loop 'given'"),
        (model({"M": None, "cond": True}), "loop", TripCountError, "has no trip count"),
        (model({"M": "start"}), "loop", TripCountError, "a variable one"),
        (model({"M": 3000}), "loop", TripCountError, "has 3000 iterations, unfold allows 1000"),
        (model({"M": 0}), "loop", UnsupportedError, "what it records is not known"),
        (model({"cond": True}, WITH_CONDITION), "loop", TripCountError, "has a condition"),
        (model({"exit": "middle"}), "loop", UnsupportedError, "middle of the body"),
        (model({"slices": {"gain": "gain"}}), "loop", UnsupportedError, "it has slices"),
        (model({"recordings": {"row": {"length": 9}}}), "loop", UnsupportedError, "fixed length"),
        (model(None, WITH_DEFAULT), "loop", UnsupportedError, "a port with a default_value"),
        (
            model(output_ports={"x": {"value": "f.stopped_by"}, "rows": {"value": "f[2]"}}),
            "loop",
            UnsupportedError,
            "reads 'f.stopped_by'",
        ),
    ],
)
def test_loops_that_cannot_be_unfolded_are_refused(
    source: Any, loop: str, error: Any, sentence: str
) -> None:
    with pytest.raises(error, match=sentence) as caught:
        mdf_loop.unfold(source, loop)
    assert isinstance(caught.value, LoopError)
    assert caught.value.findings[0].where


def test_most_limits_the_iterations() -> None:
    with pytest.raises(TripCountError, match="has 4 iterations, unfold allows 3"):
        mdf_loop.unfold(model(), "loop", most=3)
