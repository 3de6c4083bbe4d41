"""Unknown keys are refused, all at once; keys that MDF's own files contain are accepted."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

import mdf_loop
from mdf_loop.errors import ConditionError, LoopError, ModelError, OperandError
from mdf_loop.importing.opening import open_document

TEXT = """
m:
    format: ModECI MDF v0.4
    graphs:
        g:
            conditions:
                node_specific:
                    B: {type: EveryNCalls, kwargs: {dependency: A, n: 1}}
            nodes:
                A:
                    metadata: {anything: 1}
                    input_ports: {x: {default_value: 1.0}}
                    functions: {f: {function: linear, args: {variable0: x, slope: 2, intercept: 0}}}
                    parameters: {v: {default_initial_value: 0.0, time_derivative: x}}
                    output_ports: {y: {value: f}}
                B:
                    input_ports: {x: {}}
                    parameters:
                        p: {value: x, conditions: {big: {test: x > 9, value: 0.0}}}
                    output_ports: {y: {value: p}}
            edges:
                e: {sender: A, receiver: B, sender_port: y, receiver_port: x, parameters: {weight: 2}}
"""

NODES = "$.graphs[0].nodes"

PLACES = [
    # (keys that lead to the part, the unknown key, its path, the message, the hint)
    ([], "graph", "$", "the model 'm' has the key 'graph'", "did you mean 'graphs'?"),
    (["graphs", "g"], "condition", "$.graphs[0]", "the graph 'g'", "did you mean 'conditions'?"),
    (["graphs", "g", "nodes", "A"], "paramters", f"{NODES}['A']", "", "mean 'parameters'?"),
    (
        ["graphs", "g", "nodes", "A", "parameters", "v"],
        "time_derivativ",
        f"{NODES}['A'].parameters['v']",
        "the parameter 'v' has the key 'time_derivativ', which nothing reads",
        "did you mean 'time_derivative'?",
    ),
    (
        ["graphs", "g", "nodes", "A", "input_ports", "x"],
        "dtype",
        f"{NODES}['A'].input_ports['x']",
        "the input port 'x' has the key 'dtype'",
        "did you mean 'type'?",
    ),
    (
        ["graphs", "g", "nodes", "B", "output_ports", "y"],
        "unit",
        f"{NODES}['B'].output_ports['y']",
        "the output port 'y' has the key 'unit'",
        "known here: 'metadata', 'value', 'shape', 'type'; notes of your own belong into 'metadata'",
    ),
    (
        ["graphs", "g", "nodes", "A", "functions", "f"],
        "arg",
        f"{NODES}['A'].functions['f']",
        "the function 'f' has the key 'arg'",
        "did you mean 'args'?",
    ),
    (
        ["graphs", "g", "nodes", "B", "parameters", "p", "conditions", "big"],
        "tests",
        f"{NODES}['B'].parameters['p']",
        "the parameter's condition 'big' has the key 'tests'",
        "did you mean 'test'?",
    ),
    (
        ["graphs", "g", "edges", "e"],
        "weight",
        "$.graphs[0].edges['e']",
        "the edge 'e' has the key 'weight'",
        "write parameters: {weight: 5}",
    ),
    (
        ["graphs", "g", "edges", "e", "parameters"],
        "weigth",
        "$.graphs[0].edges['e'].parameters",
        "the edge 'e' has the parameter 'weigth'",
        "did you mean 'weight'?",
    ),
    (
        ["graphs", "g", "conditions"],
        "node_specifc",
        "$.graphs[0].conditions",
        "the set of conditions has 'node_specifc'",
        "did you mean 'node_specific'?",
    ),
    (
        ["graphs", "g", "conditions", "node_specific", "B"],
        "n",
        "$.graphs[0].conditions.node_specific['B']",
        "the condition 'EveryNCalls' has the key 'n'",
        "write kwargs: {n: ...}",
    ),
]


def document(path_keys: list[str], key: str, value: Any = 5) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(TEXT)
    part = content["m"]
    for step in path_keys:
        part = part[step]
    part[key] = value
    return content


@pytest.mark.parametrize(("path_keys", "key", "where", "message", "hint"), PLACES)
@pytest.mark.parametrize("suffix", ["yaml", "json", "bson", None])
def test_unknown_keys(
    path_keys: list[str],
    key: str,
    where: str,
    message: str,
    hint: str,
    suffix: str | None,
    tmp_path: Path,
) -> None:
    source: Any = document(path_keys, key)
    if suffix is not None:
        source, content = tmp_path / f"m.{suffix}", source
        if suffix == "bson":
            import bson

            source.write_bytes(bson.encode(content))
        else:
            source.write_text({"yaml": yaml.safe_dump, "json": json.dumps}[suffix](content))
    with pytest.raises(ModelError) as caught:
        open_document(source)
    (finding,) = caught.value.findings
    assert message in finding.what
    assert "which nothing reads" in finding.what
    assert finding.where == where
    assert hint in finding.hint


def test_the_valid_model_is_valid() -> None:
    assert mdf_loop.compile(yaml.safe_load(TEXT)).run()["B.y"] == 4.0


def test_all_unknown_keys_at_once() -> None:
    content = document(["graphs", "g"], "condition")
    content["m"]["graphs"]["g"]["nodes"]["A"]["paramters"] = {}
    content["m"]["graphs"]["g"]["edges"]["e"]["weight"] = 5
    with pytest.raises(ModelError) as caught:
        mdf_loop.read(content)
    assert [finding.where for finding in caught.value.findings] == [
        "$.graphs[0]",
        f"{NODES}['A']",
        "$.graphs[0].edges['e']",
    ]


def test_keys_beside_the_model(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("m: {format: ModECI MDF v0.4}\ngraphs: {g: {nodes: {}}}\nnote: 1\n")
    with pytest.raises(ModelError) as caught:
        open_document(path)
    first, second = caught.value.findings
    assert first.what == "the document has 'graphs' beside the model 'm', which nothing reads"
    assert first.hint == "indent it, so that it is part of 'm'"
    assert (second.where, second.hint) == ("$", "remove it")


@pytest.mark.parametrize(
    ("path_keys", "key"),
    [
        (["graphs", "g"], "notes"),
        (["graphs", "g", "nodes", "A"], "notes"),
        (["graphs", "g", "edges", "e"], "name"),
        (["graphs", "g", "nodes", "A", "metadata"], "paramters"),
        (["graphs", "g"], "parameters"),
        ([], "onnx_opset_version"),
    ],
)
def test_keys_that_files_of_mdf_carry(path_keys: list[str], key: str) -> None:
    value: Any = {"a": 1} if key == "parameters" else "15"
    assert open_document(document(path_keys, key, value)).graph.id == "g"


def test_all_shared_models_open(shared: Path) -> None:
    files = [p for p in (shared / "models").rglob("*") if p.suffix in (".yaml", ".json")]
    assert len(files) > 15
    for path in files:
        assert open_document(path).graph.nodes


# --- graphs inside of graphs ----------------------------------------------------------------------

BODY: dict[str, Any] = {
    "metadata": {"inputs": ["i", "go", "x"], "outputs": ["go_on", "z"]},
    "nodes": {
        "s": {
            "input_ports": {"x": {}},
            "output_ports": {"z": {"value": "x + 1"}, "go_on": {"value": "x < 9"}},
        }
    },
}


def looping(body: Any, **args: Any) -> dict[str, Any]:
    function = {"function": "onnx::Loop", "args": {"M": 3, "v_initial": 1.0, "body": body, **args}}
    node = {"functions": {"f": function}, "output_ports": {"y": {"value": "f"}}}
    return {"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"n": node}}}}}


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ({"net": BODY}, "args.body"),
        ({"graph_net": {"id": "net", **BODY}}, "args.body"),
        ({"graph": {"net": BODY}}, "args.body.graph"),
    ],
)
@pytest.mark.parametrize("in_memory", [False, True])
def test_in_a_body(written: dict[str, Any], place: str, in_memory: bool) -> None:
    from modeci_mdf.mdf import Model

    content = deepcopy(looping(written))
    mdf_loop.read(content)
    part = content["m"]["graphs"]["g"]["nodes"]["n"]["functions"]["f"]["args"]["body"]
    while "nodes" not in part:
        part = next(iter(part.values()))
    part["nodes"]["s"]["output_port"] = {}
    source = Model.from_dict(content) if in_memory else content
    with pytest.raises(ModelError) as caught:
        mdf_loop.read(source)
    (finding,) = caught.value.findings
    assert finding.what == "the node 's' has the key 'output_port', which nothing reads"
    assert finding.where == f"{NODES}['n'].functions['f'].{place}.nodes['s']"


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_graph_in_place_of_a_node(in_memory: bool) -> None:
    """Check a graph that modeci_mdf loads as an empty node, and that its PyTorch importer leaves in memory."""
    from modeci_mdf.mdf import Graph, Model

    inner = {"nodes": {"s": {"input_port": {}}}} if not in_memory else {"nodes": {"s": {}}}
    content = document(["graphs", "g", "nodes"], "inner", inner)
    source: Any = content
    if in_memory:
        del content["m"]["graphs"]["g"]["nodes"]["inner"]
        source = Model.from_dict(content)
        source.graphs[0].nodes.append(Graph.from_dict({"inner": inner}))
    with pytest.raises(LoopError) as caught:
        mdf_loop.read(source)
    first, *others = caught.value.findings
    assert first.what == (
        "the node 'inner' is a graph with nodes of its own, which MDF does not have"
    )
    assert first.where == f"{NODES}['inner']"
    assert [f.where for f in others] == ([] if in_memory else [f"{NODES}['inner'].nodes['s']"])


def test_unknown_keys_of_a_model_in_memory() -> None:
    """Check keys that modeci_mdf keeps in memory: parameters of an edge, and keys of a condition."""
    from modeci_mdf.mdf import Model

    model = Model.from_dict(document(["graphs", "g", "edges", "e", "parameters"], "delay"))
    model.graphs[0].nodes[1].parameters[0].conditions = [{"id": "c", "tst": "x > 9", "value": 0}]
    for source in (model, model.graphs[0]):
        with pytest.raises(ModelError) as caught:
            open_document(source)
        first, second = caught.value.findings
        assert first.what == "the parameter's condition 'c' has the key 'tst', which nothing reads"
        assert second.what == "the edge 'e' has the parameter 'delay', which nothing reads"


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "hint"),
    [("foo", "known here: 'M', 'cond'"), ("m", "did you mean 'M'?"), ("Cond", "mean 'cond'?")],
)
def test_arguments_of_a_loop(key: str, hint: str) -> None:
    with pytest.raises(ModelError) as caught:
        mdf_loop.read(looping({"net": BODY}, **{key: 3}))
    (finding,) = caught.value.findings
    assert finding.what == f"the loop 'f' has no argument '{key}', and its body does not read it"
    assert finding.where == f"{NODES}['n'].functions['f'].args.{key}"
    assert hint in finding.hint


def test_arguments_that_only_an_inner_body_reads() -> None:
    inner = deepcopy(BODY)
    inner["nodes"]["s"]["output_ports"]["z"]["value"] = "x + gain"
    inner["nodes"]["s"]["input_ports"]["gain"] = {}
    outer = deepcopy(BODY)
    outer["nodes"]["s"] = {
        "input_ports": {"x": {}},
        "functions": {
            "again": {
                "function": "onnx::Loop",
                "args": {"M": 2, "v_initial": "x", "body": {"inner": inner}},
            }
        },
        "output_ports": {"z": {"value": "again"}, "go_on": {"value": "x < 99"}},
    }
    content = looping({"outer": outer}, gain=2.0)
    assert mdf_loop.compile(content).run()["n.y"] == 13.0


ONE = {
    "one": {"metadata": {"outputs": ["z"]}, "nodes": {"s": {"output_ports": {"z": {"value": "1"}}}}}
}
MEMBER = {
    "member": {
        "metadata": {"inputs": ["x"], "outputs": ["z"]},
        "nodes": {"s": {"input_ports": {"x": {}}, "output_ports": {"z": {"value": "x + 1"}}}},
    }
}


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (
            "onnx::If",
            {"cond": "x > 1", "then_branch": ONE, "else_branch": ONE},
            "'n.f' has no argument 'foo', and its branches do not read it",
        ),
        (
            "case_of",
            {"index": "int(x)", "branches": [ONE, ONE]},
            "'n.f' has no argument 'foo', and its branches do not read it",
        ),
        (
            "onnx::SequenceMap",
            {"input_sequence": "s", "body": MEMBER},
            "'n.f' has no argument 'foo', and its body does not read it",
        ),
    ],
)
def test_arguments_of_other_owners(function: str, args: dict[str, Any], message: str) -> None:
    ports = {"x": {"default_value": 1.0}, "s": {"type": "sequence(float64)"}}
    node = {
        "input_ports": ports,
        "functions": {"f": {"function": function, "args": args}},
        "output_ports": {"y": {"value": "f"}},
    }
    mdf_loop.read({"g": {"nodes": {"n": node}}})
    args = {**args, "foo": 2}
    with pytest.raises(ModelError, match="foo") as caught:
        mdf_loop.read(
            {
                "g": {
                    "nodes": {
                        "n": {**node, "functions": {"f": {"function": function, "args": args}}}
                    }
                }
            }
        )
    assert message in str(caught.value)


def function(name: str, **args: Any) -> dict[str, Any]:
    ports = {"y": {"value": "f"}}
    return {
        "g": {
            "nodes": {
                "n": {"functions": {"f": {"function": name, "args": args}}, "output_ports": ports}
            }
        }
    }


def test_arguments_of_functions() -> None:
    linear = {"variable0": 1.0, "slope": "twice", "intercept": 0.0}
    assert mdf_loop.compile(function("linear", twice=2.0, **linear)).run()["n.y"] == 2.0
    with pytest.raises(OperandError) as caught:
        mdf_loop.read(function("linear", twice=2.0, slop=3, **linear))
    assert "the function 'linear' has no argument 'slop'" in str(caught.value)
    assert "hint: did you mean 'slope'?" in str(caught.value)


def test_arguments_that_psyneulink_writes() -> None:
    logistic = {"variable0": 0.0, "gain": 1.0, "bias": 0.0, "offset": 0.0}
    model = function("logistic", x_0=0.0, scale=1.0, **logistic)
    assert mdf_loop.compile(model).run()["n.y"] == 0.5


# --- conditions -----------------------------------------------------------------------------------


def governed(**conditions: Any) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(TEXT)
    content["m"]["graphs"]["g"]["conditions"]["node_specific"] = conditions
    return content


@pytest.mark.parametrize(
    ("condition", "place"),
    [
        ({"type": "EveryNCalls", "args": {"dependency": "A", "n": 1}}, ""),
        (
            {
                "type": "And",
                "kwargs": {
                    "dependencies": [
                        {"type": "Always", "kwargs": {}},
                        {"type": "EveryNCalls", "args": {"dependency": "A", "n": 1}},
                    ]
                },
            },
            ".dependencies[1]",
        ),
    ],
)
def test_args_of_old_conditions(condition: dict[str, Any], place: str) -> None:
    with pytest.raises(ModelError) as caught:
        open_document(governed(B=condition))
    (finding,) = caught.value.findings
    assert finding.what == "the condition 'EveryNCalls' has the key 'args', which nothing reads"
    assert finding.where == f"$.graphs[0].conditions.node_specific['B']{place}"
    assert finding.hint == "it is called 'kwargs' now: write kwargs: {dependency: A, n: 1}"


def test_arguments_beside_the_type_of_an_inner_condition() -> None:
    inner = {"type": "EveryNCalls", "dependency": "A", "n": 1}
    both = governed(B={"type": "And", "kwargs": {"dependencies": [inner, {"type": "Always"}]}})
    assert mdf_loop.verify(both, steps=3).equal


def test_arguments_of_conditions() -> None:
    conditions = {
        "A": {"type": "AtPass", "kwargs": {"n": 0, "timescale": "TimeScale.LIFE", "m": 2}},
        "B": {"type": "EveryNCalls", "kwargs": {"dependancy": "A", "n": 1}},
    }
    with pytest.raises(ConditionError) as caught:
        mdf_loop.read(governed(**conditions))
    assert [(f.what, f.hint) for f in caught.value.findings] == [
        (
            "the condition 'AtPass' has the argument 'timescale', which nothing reads",
            "did you mean 'time_scale'?",
        ),
        (
            "the condition 'AtPass' has the argument 'm', which nothing reads",
            "known here: 'time_scale', 'n'",
        ),
        (
            "the condition 'EveryNCalls' has no 'dependency'",
            "rename 'dependancy', which nothing reads",
        ),
    ]
