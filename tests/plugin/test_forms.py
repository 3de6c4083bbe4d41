"""Every form of a loop computes the same numbers compiled and in modeci_mdf's engine.

The table contains the forms that modeci_mdf's documents, its importer and its users write. Expected numbers
are computed by hand. With a = 3 and b = 6 the sample body of the ONNX document computes b = 6 -> -3 -> 6 -> ...
and the rows 12, -6, 12, ... Its condition stops the loop after 2 iterations.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop import LoopError
from mdf_loop.document.loading import suppress_output
from mdf_loop.errors import (
    ArityError,
    ConditionError,
    EndlessLoopError,
    ExpressionError,
    ModelError,
    ScopeError,
    SignatureError,
    TripCountError,
    UnknownNameError,
)


def body(inputs: list[str], outputs: list[str], parameters: dict[str, Any]) -> dict[str, Any]:
    """Return a body of one node; `parameters` are the expressions of its output ports by name."""
    no_ports = {*parameters, "true"}
    words = {w for v in parameters.values() for w in str(v).replace("(", " ").split()}
    ports = [name for name in ("a", *inputs) if name in words - no_ports]
    graph = {
        "metadata": {"inputs": inputs, "outputs": outputs},
        "nodes": {
            "step": {
                "input_ports": {name: {} for name in ports},
                "parameters": {f"p_{k}": {"value": v} for k, v in parameters.items()},
                "output_ports": {k: {"value": f"p_{k}"} for k in parameters},
            }
        },
    }
    return graph


SAMPLE = body(
    ["i", "go", "b_in"],
    ["go_out", "b_out", "row"],
    {"go_out": "a + b_in > a - b_in", "b_out": "a - b_in", "row": "b_in + b_in"},
)
PLAIN = body([], [], {"go_out": "x < 1000", "x_out": "x + x"})
PLAIN = {"nodes": {"step": {**PLAIN["nodes"]["step"], "input_ports": {"x": {}}}}}
ALL_FREE = {
    "nodes": body(["i", "go", "x"], [], {"go_out": "go and i < 9", "x_out": "x + x"})["nodes"]
}
COUNTING = body(["i", "go"], ["go_out", "row"], {"go_out": "i < 2", "row": "i * i"})
PAIR = body(
    ["i", "go", "x", "y"],
    ["go_out", "x_out", "y_out"],
    {"go_out": "i < 100", "x_out": "y * 1", "y_out": "x + y"},
)
FIVE = body(
    ["i", "go", "p", "q", "r", "s", "t"],
    ["go_out", "p2", "q2", "r2", "s2", "t2"],
    {
        "go_out": "i < 100",
        "p2": "q + 0",
        "q2": "r + 0",
        "r2": "s + 0",
        "s2": "t + 0",
        "t2": "p + 0",
    },
)
DOUBLING = body(["i", "go", "x"], ["go_out", "x_out"], {"go_out": "i < 100", "x_out": "x + x"})
SCALING = body(["i", "go", "x"], ["go_out", "x_out"], {"go_out": "i < 100", "x_out": "x * alpha"})
SCALING["nodes"]["step"]["input_ports"]["alpha"] = {}

TWO = {"b_final": 6, "rows": [12, -6], "n": 2}
TEN = {"b_final": 6, "rows": [12, -6] * 5, "n": 10}
THREE = {"b_final": -3, "rows": [12, -6, 12], "n": 3}
ZERO = {"b_final": 6, "rows": [], "n": 0}
SAMPLE_PORTS = {"b_final": "loop_1[0]", "rows": "loop_1[1]", "n": "loop_1.iterations"}
ROWS = {"rows": "loop_1"}
XY = {"x": "loop_1[0]", "y": "loop_1[1]"}
X = {"x": "loop_1"}


@dataclass
class Form:
    """One form of a loop, with the expected numbers or the expected error."""

    name: str
    args: dict[str, Any] | None
    expected: dict[str, Any] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    ports: dict[str, str] = field(default_factory=lambda: SAMPLE_PORTS)
    parameters: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, Any] = field(default_factory=dict)
    graphs: dict[str, Any] = field(default_factory=dict)
    function: Any = "onnx::Loop"
    error: type[LoopError] | None = None
    match: str = ""
    kinds: tuple[str, ...] = ("functions", "parameters")
    exact: bool = True

    def document(self, kind: str) -> dict[str, Any]:
        """Return the model with the loop as a function or as a parameter."""
        args = self.args
        if self.body is not None:
            args = {**(args or {}), "body": {"body_net": self.body}}
        loop: dict[str, Any] = {"function": self.function}
        if args is not None:
            loop["args"] = args
        values = {"n": {"value": 3}, "keep": {"value": True}, **self.parameters}
        node = {
            "input_ports": {"a": {}, "b": {}},
            "functions": dict(self.functions),
            "parameters": values,
            "output_ports": {name: {"value": text} for name, text in self.ports.items()},
        }
        node[kind]["loop_1"] = loop
        constants = {
            "parameters": {"a": {"value": 3}, "b": {"value": 6}},
            "output_ports": {"a": {"value": "a"}, "b": {"value": "b"}},
        }
        edges = {
            name: {
                "sender": "constants",
                "sender_port": name,
                "receiver": "loop_node",
                "receiver_port": name,
            }
            for name in "ab"
        }
        main = {"nodes": {"constants": constants, "loop_node": node}, "edges": edges}
        content = {"format": "ModECI MDF v0.4", "graphs": {"main": main, **self.graphs}}
        return copy.deepcopy({"model": content})


def sample(name: str, expected: dict[str, Any], args: dict[str, Any], **more: Any) -> Form:
    """Return a form with the body of the sample and these arguments."""
    return Form(name, {"v_initial": "b", **args}, expected, SAMPLE, **more)


def pair(name: str, v_initial: Any, x: Any = 9, y: Any = 15, **more: Any) -> Form:
    """Return a form with two carried values and two Fibonacci steps: (3, 6) -> (6, 9) -> (9, 15)."""
    args = {"M": 2, "v_initial": v_initial, **more.pop("args", {})}
    return Form(name, args, {"x": x, "y": y}, PAIR, XY, **more)


def one(name: str, v_initial: Any, x: Any, **more: Any) -> Form:
    """Return a form with one carried value, which is doubled twice."""
    return Form(name, {"M": 2, "v_initial": v_initial}, {"x": x}, DOUBLING, X, **more)


def wrong(name: str, error: type[LoopError], match: str, args: Any, **more: Any) -> Form:
    """Return a form that is refused."""
    more = {"body": SAMPLE, **more}
    return Form(name, args, error=error, match=match, **more)


BOTH = {"M": 10, "cond": "keep"}
NO_METADATA = {k: v for k, v in SAMPLE.items() if k != "metadata"}

FORMS = [
    # trip count and condition
    sample("M and cond", TWO, BOTH),
    sample("M only", TEN, {"M": 10}),
    sample("cond only", TWO, {"cond": True}),
    sample("M null", TWO, {"M": None, "cond": "keep"}),
    sample("M empty", TWO, {"M": "", "cond": "keep"}),
    sample("M -1", TWO, {"M": -1, "cond": "keep"}),
    sample("M '-1'", TWO, {"M": "-1", "cond": "keep"}),
    sample("M -1 in a parameter", TWO, {"M": "m", "cond": "keep"}, parameters={"m": {"value": -1}}),
    sample("cond null", TEN, {"M": 10, "cond": None}),
    sample("cond empty", TEN, {"M": 10, "cond": ""}),
    sample("M '10'", TEN, {"M": "10"}),
    sample("M 10.0", TEN, {"M": 10.0}),
    sample("M name", THREE, {"M": "n"}),
    sample("M expression", TEN, {"M": "2 * n + 4"}),
    sample("M list", TEN, {"M": [10]}),
    sample("M list of a name", THREE, {"M": ["n"]}),
    sample("M '[n]'", THREE, {"M": "[n]"}),
    sample("M '[10]'", TEN, {"M": "[10]"}),
    sample("M '(n,)'", THREE, {"M": "(n,)"}),
    sample("M 0", ZERO, {"M": 0}),
    sample("M -5", ZERO, {"M": -5}),
    sample("M an array of one", TEN, {"M": "m"}, parameters={"m": {"value": [[10]]}}),
    sample("M whole with a point", TEN, {"M": "m"}, parameters={"m": {"value": 10.0}}),
    sample("cond 1", TWO, {"M": 10, "cond": 1}),
    sample("cond 0", ZERO, {"M": 10, "cond": 0}),
    sample("cond 'True'", TWO, {"M": 10, "cond": "True"}),
    sample("cond 'true'", TWO, {"M": 10, "cond": "true"}),
    sample("cond 'false'", ZERO, {"M": 10, "cond": "false"}),
    sample("cond false", ZERO, {"M": 10, "cond": False}),
    sample("cond comparison", TWO, {"M": 10, "cond": "a > 2"}),
    sample("cond not", ZERO, {"M": 10, "cond": "not keep"}),
    sample("cond list", TWO, {"M": 10, "cond": [True]}),
    sample("cond '[keep]'", TWO, {"M": 10, "cond": "[keep]"}),
    sample("cond a number", TWO, {"M": 10, "cond": "n"}),
    # initial values
    *(Form(f"no v_initial: {v!r}", {"M": 3, "v_initial": v}, {"rows": [0, 1, 4]}, COUNTING, ROWS)
      for v in (None, "", " ", [], "()", "[]", "( )", "[ ]")),
    Form("v_initial missing", {"M": 3}, {"rows": [0, 1, 4]}, COUNTING, ROWS),
    one("a name", "b", 24),
    one("an expression", "b + a", 36),
    one("a number", 6, 24),
    one("a number as text", "6", 24),
    one("a number with a point", 1.5, 6.0),
    one("'(b,)'", "(b,)", 24),
    one("'b,'", "b,", 24),
    one("'[b]'", "[b]", 24),
    one("[b]", ["b"], 24),
    one("[number] is one tensor", [6], [24]),
    one("[1, 2] is one tensor", [1, 2], [4, 8]),
    one("'[1, 2]' is one tensor", "[1, 2]", [4, 8]),
    one("rows are one tensor", [[1, 2], [3, 4.5]], [[4.0, 8.0], [12.0, 18.0]]),
    one("{x: b}", {"x": "b"}, 24),
    one("{x: 6}", {"x": 6}, 24),
    one("'dict(x=b)'", "dict(x=b)", 24),
    one("(b[0], ) of a list", "(w[0],)", 4, parameters={"w": {"value": [1, 2]}}),
    pair("'(a, b)'", "(a, b)"),
    pair("'a, b'", "a, b"),
    pair("'[a, b]'", "[a, b]"),
    pair("[a, b]", ["a", "b"]),
    pair("'(3, 6)'", "(3, 6)"),
    pair("['3', b]", ["3", "b"]),
    pair("mixed list", ["a", 6]),
    pair("mixed list with a point", ["a * 1.0", 6.5], 9.5, 16.0),
    pair("{x: a, y: b}", {"x": "a", "y": "b"}),
    pair("{y: b, x: a}: by name", {"y": "b", "x": "a"}),
    pair("'dict(x=a, y=b)'", "dict(x=a, y=b)"),
    pair("'{'x': a, 'y': b}'", "{'y': b, 'x': a}"),
    pair("'(a, w[0])'", "(a, w[0])", parameters={"w": {"value": [6, 2]}}),
    pair("'(w[0], b)'", "(w[0], b)", parameters={"w": {"value": [3, 2]}}),
    pair("expressions", "(2 * a - 3, b + 0)"),
    pair("importer: arg_b", "a", args={"arg_b": "b"}),
    Form(
        "five names",
        {"M": 1, "v_initial": "(a, b, n, a + b, 7)"},
        {"first": 6, "last": 3},
        FIVE,
        {"first": "loop_1[0]", "last": "loop_1[4]"},
    ),
    Form(
        "five in a list",
        {"M": 1, "v_initial": ["a", "b", "n", "a + b", 7]},
        {"first": 6, "last": 3},
        FIVE,
        {"first": "loop_1[0]", "last": "loop_1[4]"},
    ),
    Form(
        "importer: five by arg_",
        {"M": 1, "v_initial": "a", "arg_b": "b", "arg_n": "n", "arg_k": "a + b", "arg_z": 7},
        {"first": 6, "last": 3},
        FIVE,
        {"first": "loop_1[0]", "last": "loop_1[4]"},
    ),
    # enclosing-scope values
    Form("alpha: a", {"M": 2, "v_initial": "b", "alpha": "a"}, {"x": 54}, SCALING, X),
    Form("alpha: 2 * a", {"M": 2, "v_initial": "b", "alpha": "2 * a"}, {"x": 216}, SCALING, X),
    Form("alpha: 5", {"M": 2, "v_initial": "b", "alpha": 5}, {"x": 150}, SCALING, X),
    sample("a: a", TWO, {**BOTH, "a": "a"}),
    sample("a: expression hides the port", {"b_final": 6, "rows": [12, 2], "n": 2},
           {"M": 2, "a": "a + 4"}),
    Form("alpha of the node", {"M": 2, "v_initial": "b"}, {"x": 24}, SCALING, X,
         parameters={"alpha": {"value": 2}}),
    Form("alpha of a function declared before", {"M": 2, "v_initial": "b"}, {"x": 24}, SCALING, X,
         functions={"alpha": {"value": "a - 1"}}),
    # the body
    Form("body in the parameter body", {**BOTH, "v_initial": "b"}, TWO,
         parameters={"body": {"value": {"body_net": SAMPLE}}}),
    Form("body null and parameter", {**BOTH, "v_initial": "b", "body": None}, TWO,
         parameters={"body": {"value": {"body_net": SAMPLE}}}),
    Form("importer: graph_x", {**BOTH, "v_initial": "b"}, TWO,
         parameters={"body": {"value": {"graph_x": {"id": "x", **SAMPLE}}}}),
    Form("body in a named parameter", {**BOTH, "v_initial": "b", "body": "net"}, TWO,
         parameters={"net": {"value": {"body_net": SAMPLE}}}),
    Form("body with its id inside", {**BOTH, "v_initial": "b", "body": {"id": "x", **SAMPLE}}, TWO),
    Form("body by id", {**BOTH, "v_initial": "b", "body": "body_net"}, TWO,
         graphs={"body_net": SAMPLE}),
    Form("body by quoted id", {**BOTH, "v_initial": "b", "body": "'body_net'"}, TWO,
         graphs={"body_net": SAMPLE}),
    Form("body {graph: id}", {**BOTH, "v_initial": "b", "body": {"graph": "body_net"}}, TWO,
         graphs={"body_net": SAMPLE}),
    Form("body id in the parameter body", {**BOTH, "v_initial": "b"}, TWO,
         parameters={"body": {"value": "body_net"}}, graphs={"body_net": SAMPLE}),
    Form("body {inputs, outputs, graph: id}",
         {**BOTH, "v_initial": "b", "body": {**SAMPLE["metadata"], "graph": "body_net"}}, TWO,
         graphs={"body_net": NO_METADATA}),
    Form("body {inputs, outputs, graph: {id: ...}}",
         {**BOTH, "v_initial": "b", "body": {**SAMPLE["metadata"], "graph": {"x": NO_METADATA}}}, TWO),
    Form("signature as text", {"M": 2, "v_initial": "b"}, {"x": 24},
         {**DOUBLING, "metadata": {"inputs": "i, go, x", "outputs": "go_out, x_out"}}, X),
    # order of inputs and outputs inferred
    Form("order inferred: only the carried value", {"M": 2, "v_initial": "b"}, {"x": 24}, PLAIN, X),
    Form("order inferred: all three", {"M": 2, "v_initial": "b"}, {"x": 24}, ALL_FREE, X),
    Form("order inferred: named", {"M": 2, "v_initial": {"x": "b"}}, {"x": 24}, ALL_FREE, X),
    Form("order inferred: named, without condition", {"M": 2, "v_initial": {"x": "b"}}, {"x": 24},
         {"nodes": DOUBLING["nodes"]}, X),
    # results
    sample("ports by position", {"p": 6, "q": [12, -6]}, BOTH, ports={"p": "loop_1", "q": "loop_1"}),
    sample("results in expressions", {"p": 13, "q": 4, "r": -6}, BOTH,
           ports={"p": "loop_1[0] * 2 + 1", "q": "loop_1.iterations * 2", "r": "loop_1[1][-1]"}),
    sample("iterations, condition, reason", {"n": 2, "go": False, "why": 1}, BOTH,
           ports={"n": "loop_1.iterations", "go": "loop_1.condition", "why": "loop_1.stopped_by"}),
    Form("one number as loop_1[0]", {"M": 2, "v_initial": "b"}, {"x": 24, "y": 25, "z": 24},
         DOUBLING, {"x": "loop_1[0]", "y": "loop_1[0] + 1", "z": "loop_1"}),
    Form("one array as loop_1[0]", {"M": 2, "v_initial": [1, 2]}, {"x": 4, "y": 8},
         DOUBLING, {"x": "loop_1[0]", "y": "loop_1[1]"}),
    # the function's name
    Form("{onnx::Loop: args}", None, TWO, function={"onnx::Loop": {**BOTH, "v_initial": "b",
         "body": {"body_net": SAMPLE}}}, kinds=("functions",), exact=False),
    Form("function: Loop", {**BOTH, "v_initial": "b"}, TWO, SAMPLE, function="Loop"),
    # refused forms
    wrong("neither M nor cond", EndlessLoopError, "neither a trip count", {"v_initial": "b"}),
    wrong("M -1 without cond", EndlessLoopError, "neither a trip count", {"M": -1, "v_initial": "b"}),
    wrong("M, cond of the node are not taken", EndlessLoopError, "neither a trip count",
          {"v_initial": "b"}, parameters={"M": {"value": 2}, "cond": {"value": True}}),
    wrong("M not whole", TripCountError, "must be a whole number, not 2.5", {"M": 2.5, "v_initial": "b"}),
    wrong("M of two", TripCountError, "must be one whole number", {"M": [1, 2], "v_initial": "b"}),
    wrong("M '[a, b]'", TripCountError, "must be one whole number, not 2 values", {"M": "[a, b]", "v_initial": "b"}),
    wrong("M a truth value", TripCountError, "must be one whole number", {"M": True, "v_initial": "b"}),
    wrong("M unknown", UnknownNameError, "unknown name 'nn'", {"M": "nn", "v_initial": "b"}),
    wrong("cond unknown", UnknownNameError, "unknown name 'kep'", {"M": 1, "cond": "kep", "v_initial": "b"}),
    wrong("v_initial unknown", UnknownNameError, "unknown name 'bb'", {"M": 1, "v_initial": "bb"}),
    wrong("cond of two", ConditionError, "must be one truth value", {"M": 1, "cond": [True, False], "v_initial": "b"}),
    wrong("ragged v_initial", ExpressionError, "ragged", {"M": 1, "v_initial": [[1], [2, 3]]}),
    wrong("too few initial values", ArityError, "has 0 initial values", {"M": 1}),
    wrong("too many initial values", ArityError, "has 2 initial values", {"M": 1, "v_initial": "(a, b)"}),
    wrong("v_initial of another name", ArityError, "v_initial names", {"M": 1, "v_initial": {"c": "b"}}),
    wrong("names and arg_", ModelError, "cannot be mixed", {"M": 1, "v_initial": {"b_in": "b"}, "arg_a": "a"}),
    wrong("no args", ModelError, "has no body", None, body=None),
    wrong("no body", ModelError, "has no body", {"M": 1, "v_initial": "b"}, body=None),
    wrong("body a number", ModelError, "a loop body is a graph, not int", {"M": 1, "body": 5}, body=None),
    wrong("body [id]", ModelError, "a loop body is a graph, not list", {"M": 1, "body": ["body_net"]},
          body=None, graphs={"body_net": SAMPLE}),
    wrong("body of an unknown id", ModelError, "'nett' is not a graph of the model",
          {"M": 1, "v_initial": "b", "body": "nett"}, body=None, graphs={"net": SAMPLE}),
    wrong("body without nodes", ModelError, "has no nodes", {"M": 1, "body": {"net": {"metadata": {}}}}, body=None),
    wrong("body that contains itself", ModelError, "'net' contains a loop whose body is 'net' again",
          {"M": 1, "v_initial": "b", "body": "net"}, body=None,
          graphs={"net": {**SAMPLE, "nodes": {**SAMPLE["nodes"], "again": {
              "functions": {"l": {"function": "onnx::Loop", "args": {"M": 1, "body": "net"}}}}}}}),
    wrong("order not written", SignatureError, "metadata.inputs is missing",
          {"M": 2, "v_initial": "(a, b)"}, body={"nodes": PAIR["nodes"]}),
    wrong("order inferred: unknown name", SignatureError, "has no such open input port",
          {"M": 2, "v_initial": {"y": "b"}}, body=ALL_FREE),
    wrong("order inferred: other ports", SignatureError, "metadata.inputs is missing",
          {"M": 2, "v_initial": {"x": "b"}}, body={"nodes": SCALING["nodes"]}),
    wrong("outputs not written", SignatureError, "metadata.outputs is missing",
          {"M": 2, "v_initial": "b"}, body={**NO_METADATA, "metadata": {"inputs": ["i", "go", "b_in"]}}),
    wrong("unbound port", ScopeError, "'alpha' of node 'step' in the body of the loop is bound to nothing",
          {"M": 2, "v_initial": "b"}, body=SCALING),
    wrong("condition that is no truth value", ConditionError, "must be a truth value, not int64",
          {"M": 2, "v_initial": "b"}, body={**DOUBLING, "metadata": {"inputs": ["i", "go", "x"], "outputs": ["x_out", "x_out"]}}),
    wrong("M not whole when it runs", LoopError, "must be a whole number", {"M": "a / 2", "v_initial": "b"}),
]  # fmt: skip


def params(is_accepted: bool) -> list[Any]:
    return [
        pytest.param(form, kind, id=f"{form.name} ({kind[:-1]})")
        for form in FORMS
        for kind in form.kinds
        if (form.error is None) == is_accepted
    ]


def load(document: dict[str, Any]) -> Any:
    from modeci_mdf.mdf import Model

    with suppress_output():
        return Model.from_dict(copy.deepcopy(document))


def run_engine(model: Any, times: int = 1) -> dict[str, Any]:
    from modeci_mdf.execution_engine import EvaluableGraph

    with suppress_output():
        graph = EvaluableGraph(model.graphs[0])
        for _ in range(times):
            graph.evaluate()
    return {
        name: port.curr_value for name, port in graph.enodes["loop_node"].evaluable_outputs.items()
    }


def check(arrays: Any, expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        array = np.asarray(arrays[name])
        assert array.tolist() == value, name
        assert array.dtype.kind == np.asarray(value).dtype.kind or array.size == 0, name


@pytest.mark.parametrize(("form", "kind"), params(True))
def test_accepted_forms_compute_the_expected_numbers(form: Form, kind: str) -> None:
    model = load(form.document(kind))
    content_before = model.to_dict()
    results = mdf_loop.compile(model, device="cpu").run()
    check({name: results[f"loop_node.{name}"] for name in form.expected}, form.expected)
    check(run_engine(model, times=2), form.expected)
    assert model.to_dict() == content_before


@pytest.mark.parametrize(("form", "kind"), params(False))
def test_refused_forms_raise_the_expected_error(form: Form, kind: str) -> None:
    model = load(form.document(kind))
    for run in (lambda: mdf_loop.compile(model, device="cpu").run(), lambda: run_engine(model)):
        with pytest.raises(form.error or LoopError, match=form.match) as caught:
            run()
        assert len(caught.value.findings) == 1
        assert caught.value.findings[0].where


@pytest.mark.parametrize(("form", "kind"), params(True))
def test_documents_are_equal_after_a_round_trip(form: Form, kind: str, tmp_path: Any) -> None:
    """Check that a document is unchanged after it is loaded and written, in every format."""
    from modeci_mdf.mdf import Model
    from modeci_mdf.utils import load_mdf

    document = form.document(kind)
    model = load(document)
    content = model.to_dict()
    loop = content["model"]["graphs"]["main"]["nodes"]["loop_node"][kind]["loop_1"]
    if form.exact:
        assert loop == document["model"]["graphs"]["main"]["nodes"]["loop_node"][kind]["loop_1"]
    with suppress_output():
        for suffix in ("json", "yaml"):
            path = str(tmp_path / f"model.{suffix}")
            getattr(model, f"to_{suffix}_file")(path)
            assert load_mdf(path).to_dict() == content
        assert Model.from_bson(model.to_bson()).to_dict() == content
