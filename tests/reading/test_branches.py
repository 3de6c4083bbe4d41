"""`onnx::If` and `case_of`: one branch is computed, and a known condition selects it at compile time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import (
    ArityError,
    ConditionError,
    JoinError,
    ModelError,
    ScopeError,
    SignatureError,
    UnknownNameError,
    UnsupportedError,
)
from tests.models.control import (
    Graph,
    body,
    case,
    choices,
    choose,
    give,
    model,
    refused,
    repeat,
)


@pytest.fixture
def run(run_everywhere):
    def one(source: Any, inputs: Any = None, **options: Any) -> dict[str, Any]:
        results = run_everywhere(source, inputs, engine=False, **options)
        return {name.removeprefix("m."): array for name, array in results.items()}

    return one


# --- If -----------------------------------------------------------------------------------------

SIGN = model({"y": "choice"}, choice=choose("x > 0", give(r="x + 1"), give(r="-x")))


def test_one_branch_gives_the_result(run) -> None:
    assert run(SIGN, {"x": 2.0}) == {"y": 3}
    assert run(SIGN, {"x": -2.0}) == {"y": 2}
    assert len(choices(SIGN, x=2.0)) == 1


@pytest.mark.parametrize(
    "go", [True, 1, 2.5, [True], [[1]], np.float32(1), np.uint8(3)], ids=lambda v: str(np.shape(v))
)
def test_a_condition_is_one_truth_value_of_any_type(run, go: Any) -> None:
    m = model({"y": "choice"}, choice=choose("go", give(r="x"), give(r="-x")))
    assert run(m, {"go": go, "x": 2.0})["y"] == 2
    assert run(m, {"go": np.zeros_like(go), "x": 2.0})["y"] == -2


def test_several_results_and_values_passed_through(run) -> None:
    m = model(
        {"a": "choice[0]", "b": "choice[1]", "c": "choice[2]"},
        double="2 * x",
        choice=choose("go", give("x", "double", r="double + 1"), give("double", "x", s="0.5 * x")),
    )
    assert run(m, {"go": True, "x": 3.0}) == {"a": 7, "b": 3, "c": 6}
    assert run(m, {"go": False, "x": 3.0}) == {"a": 1.5, "b": 6, "c": 3}


def test_ports_that_say_the_bare_name_take_results_by_position(run) -> None:
    m = model(
        {"a": "choice", "b": "choice"}, choice=choose("go", give("x", r="2 * x"), give("x", "x"))
    )
    assert run(m, {"go": True, "x": 3.0}) == {"a": 6, "b": 3}
    assert run(m, {"go": False, "x": 3.0}) == {"a": 3, "b": 3}


def test_only_the_chosen_branch_is_computed(run) -> None:
    m = model({"y": "choice"}, choice=choose("k < 3", give(r="v[k]"), give(r="-v[0]")))
    v = np.array([5, 6, 7])
    assert run(m, {"k": 2, "v": v}) == {"y": 7}
    assert run(m, {"k": 9, "v": v}) == {"y": -5}


def test_further_arguments_are_values_for_the_branches(run) -> None:
    m = model({"y": "choice"}, choice=choose("go", give(r="speed"), give(r="-x"), speed="x * 3"))
    del m["graph"]["nodes"]["m"]["input_ports"]["speed"]
    assert run(m, {"go": True, "x": 2.0}) == {"y": 6}


DOCUMENT = """
model:
  format: ModECI MDF v0.4
  graphs:
    main:
      nodes:
        n:
          input_ports: {x: {}, go: {}}
          functions:
            choice: {function: ONNX::If, args: {cond: go, then_branch: THEN, else_branch: held}}
          parameters:
            gain: {value: 10.0}
            held: {value: {h: {nodes: {a: {input_ports: {x: {}, gain: {}}, output_ports: {y: {value: x * gain}}}}}}}
          output_ports: {y: {value: choice}}
    other:
      metadata: {outputs: [b.y]}
      nodes:
        a: {input_ports: {x: {}}, output_ports: {y: {value: x + 1}}}
        b: {input_ports: {y: {}}, output_ports: {y: {value: 2 * y}}}
      edges:
        e: {sender: a, receiver: b, sender_port: y, receiver_port: y}
"""


@pytest.mark.parametrize("then", ["other", "{graph: other}", "{graph: other, outputs: [b.y]}"])
def test_branches_by_the_id_of_a_graph_and_in_a_parameter(run, mdf, then: str) -> None:
    source = mdf(DOCUMENT.replace("THEN", then))
    assert run(source, {"x": 2.0, "go": True}) == {"n.y": 6}
    assert run(source, {"x": 2.0, "go": False}) == {"n.y": 20}


def test_a_port_default_replaces_a_missing_capture(run) -> None:
    m = model({"y": "choice"}, choice=choose("go", give(r="x + more"), give(r="x")))
    del m["graph"]["nodes"]["m"]["input_ports"]["more"]
    graph = m["graph"]["nodes"]["m"]["functions"]["choice"]["args"]["then_branch"]["g"]
    graph["nodes"]["n"]["input_ports"]["more"] = {"default_value": 5.0}
    assert run(m, {"go": True, "x": 1.0}) == {"y": 6}


# --- plain numbers and joins --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "float64"])
def test_plain_numbers_take_the_dtype_of_the_other_branch(run, dtype: str) -> None:
    m = model({"y": "choice"}, choice=choose("x > 1", give("x"), give(r="0")))
    for number, expected in ((2, 2), (1, 0)):
        y = run(m, {"x": np.array(number, dtype)})["y"]
        assert (y, y.dtype) == (expected, dtype)


def test_two_plain_numbers_stay_plain(run) -> None:
    m = model({"y": "choice * x"}, choice=choose("x > 1", give(r="2"), give(r="0.5")))
    y = run(m, {"x": np.float32(3)})["y"]
    assert (y, y.dtype) == (6, "float32")


def test_dtypes_that_do_not_join() -> None:
    m = model({"y": "choice"}, choice=choose("go", give("k"), give("x")))
    error = refused(m, JoinError, go=True, k=np.int32(1), x=np.float32(1))
    assert error.what == (
        "Cannot join the values of 'm.choice' from the then branch of 'm.choice' (int32[]) and the "
        "else branch of 'm.choice' (float32[]): Type Join Failed: dtype1 = int32, dtype2 = float32"
    )
    assert error.where == "$.graphs[0].nodes['m'].functions['choice']"


VECTOR = model({"y": "choice"}, choice=choose("go", give("x"), give("z")))


def test_shapes_that_do_not_join() -> None:
    error = refused(VECTOR, JoinError, go=True, x=0, z=[1, 2])
    assert "Shape Join Failed: shape1 = (), shape2 = (2)" in error.what
    assert "shapes='dynamic'" in error.hint


@pytest.mark.parametrize("z", [[1, 2], [[3]], [4]])
def test_dynamic_shapes_are_those_of_the_branch(run, z: Any) -> None:
    for go, expected in ((True, 0), (False, z)):
        y = run(VECTOR, {"go": go, "x": 0, "z": z}, shapes="dynamic")["y"]
        assert y.tolist() == expected


def test_a_branch_can_say_that_shapes_are_dynamic(run) -> None:
    then = Graph({}, passed=["x"], metadata={"shapes": "dynamic"})
    m = model({"y": "choice"}, choice=choose("go", then, give("z")))
    assert run(m, {"go": False, "x": 0.0, "z": [1.0, 2.0]})["y"].tolist() == [1, 2]
    assert run(m, {"go": True, "x": 0.0, "z": [1.0, 2.0]})["y"].tolist() == 0


def test_one_element_with_and_without_an_axis_joins(run) -> None:
    for go, expected in ((True, [7]), (False, [4])):
        assert run(VECTOR, {"go": go, "x": 7, "z": [4]})["y"].tolist() == expected


# --- conditions that are known ------------------------------------------------------------------


@pytest.mark.parametrize("known", ["True", "3 > 2", "limit == 4", "size(v) == 3", True, 1])
def test_the_other_branch_of_a_known_condition_is_not_checked(run, known: Any) -> None:
    m = model({"y": "choice"}, choice=choose(known, give(r="v[0]"), give("nothing", q="v +")))
    node = m["graph"]["nodes"]["m"]
    node["input_ports"] = {"v": {}}
    node["parameters"] = {"limit": {"value": 4}}
    node["functions"]["choice"]["args"]["cond"] = (
        "len(v) == 3" if known == "size(v) == 3" else known
    )
    assert choices(m, v=np.arange(3.0)) == []
    assert run(m, {"v": [5.0, 6.0, 7.0]}) == {"y": 5}


def test_the_other_branch_may_even_be_missing(run) -> None:
    m = model({"y": "choice"}, choice=choose(False, give(r="x"), give(r="-x")))
    del m["graph"]["nodes"]["m"]["functions"]["choice"]["args"]["then_branch"]
    assert run(m, {"x": 2.0}) == {"y": -2}


# --- with loops ---------------------------------------------------------------------------------


def test_a_choice_in_a_loop_in_a_choice_in_a_loop(run) -> None:
    """Check nested branches and loops against plain Python.

    for i in range(4): if i % 2: for j in range(i): x += 2 if j == 0 else x; else: x -= 1.
    """
    inner = repeat(
        body(
            "j go x",
            {"go": "go", "y": "add"},
            add=choose("j == 0", give(r="x + 2"), give(r="x + x")),
        ),
        ["x"],
        M="i",
    )
    odd = Graph({"r": "inner"}, {"inner": inner})
    step = body(
        "i go x", {"go": "go", "y": "pick"}, pick=choose("i % 2 == 1", odd, give(r="x - 1"))
    )
    m = model({"y": "loop"}, loop=repeat(step, ["x"], M=4))
    x = 1.5
    for i in range(4):
        if i % 2 == 1:
            for j in range(i):
                x = x + 2 if j == 0 else x + x
        else:
            x -= 1
    assert run(m, {"x": 1.5}) == {"y": x}


def test_a_choice_reads_the_iterations_of_a_loop(run) -> None:
    grow = repeat(body("i go x", {"more": "2 * x < 100", "y": "2 * x"}), ["x"], cond=True)
    m = model(
        {"y": "choice"},
        grow=grow,
        many="grow.iterations",
        choice=choose("many > 3", give(r="many"), give(r="-many")),
    )
    for unwanted in ("grow",):
        m["graph"]["nodes"]["m"]["input_ports"].pop(unwanted, None)
    assert run(m, {"x": 1.0}) == {"y": 7}
    assert run(m, {"x": 40.0}) == {"y": -2}


# --- what is wrong ------------------------------------------------------------------------------


def test_branches_that_give_different_numbers_of_values() -> None:
    m = model({"y": "choice[0]"}, choice=choose("go", give("x", out="x"), give(out="x")))
    error = refused(m, ArityError, go=True, x=1.0)
    assert error.what == (
        "'x' is not defined in the else branch of 'm.choice', but defined in the then branch of "
        "'m.choice': all branches must give the same number of values, not 1 and 2"
    )


def test_a_branch_that_gives_nothing() -> None:
    m = model({"y": "choice"}, choice=choose("go", give("x"), give()))
    del m["graph"]["nodes"]["m"]["functions"]["choice"]["args"]["else_branch"]["g"]["metadata"]
    error = refused(m, ArityError, go=True, x=1.0)
    assert error.what == "the else branch of 'm.choice' gives nothing"


def test_outputs_whose_order_is_not_written() -> None:
    m = model({"y": "choice"}, choice=choose("go", give(a="x", b="x"), give("x")))
    del m["graph"]["nodes"]["m"]["functions"]["choice"]["args"]["then_branch"]["g"]["metadata"]
    error = refused(m, SignatureError, go=True, x=1.0)
    assert "the order of the outputs of the then branch" in error.what


@pytest.mark.parametrize("cond", ["x", "x > 0"])
def test_a_condition_of_several_elements(cond: str) -> None:
    m = model({"y": "choice"}, choice=choose(cond, give(r="x"), give(r="-x")))
    error = refused(m, ConditionError, x=[1.0, 2.0])
    assert error.what.endswith(
        "the truth value of an array with more than one element is ambiguous"
    )
    assert error.where.endswith("args.cond")


def test_a_condition_that_is_missing() -> None:
    m = model({"y": "choice"}, choice=choose("", give("x"), give("x")))
    assert refused(m, ConditionError, x=1.0).what == "'m.choice' has no condition"
    error = refused(model({"y": "pick"}, pick=case("", [give("x")])), ConditionError, x=1.0)
    assert error.what == "'m.pick' has no index"


def test_a_branch_that_is_missing_or_misspelt() -> None:
    m = model({"y": "choice"}, choice=choose("go", give("x"), give("x")))
    args = m["graph"]["nodes"]["m"]["functions"]["choice"]["args"]
    branch = args.pop("else_branch")
    error = refused(m, ModelError, go=True, x=1.0)
    assert error.what == "'m.choice' has no else branch"
    args["else_brnch"] = branch
    assert refused(m, ModelError, go=True, x=1.0).hint == "did you mean 'else_branch'?"


def test_a_name_that_means_nothing_names_the_branch() -> None:
    m = model({"y": "choice"}, choice=choose("go", give("x"), give(r="x + y")))
    del m["graph"]["nodes"]["m"]["input_ports"]["y"]
    error = refused(m, ScopeError, go=True, x=1.0)
    assert error.what == (
        "the input port 'y' of node 'n' in the else branch of 'm.choice' is bound to nothing"
    )


def test_an_output_that_does_not_exist_names_the_branch() -> None:
    m = model({"y": "choice"}, choice=choose("go", give("x"), give("z")))
    del m["graph"]["nodes"]["m"]["input_ports"]["z"]
    error = refused(m, UnknownNameError, go=True, x=1.0)
    assert error.what == (
        "the else branch of 'm.choice' has no output port 'z' (named in metadata.outputs)"
    )


def test_errors_of_both_branches_come_together() -> None:
    m = model({"y": "choice"}, choice=choose("go", give(r="x + nope"), give(r="x + nada")))
    for name in ("nope", "nada"):
        del m["graph"]["nodes"]["m"]["input_ports"][name]
    with pytest.raises(ScopeError) as caught:
        mdf_loop.read(m, {"go": True, "x": 1.0})
    assert len(caught.value.findings) == 2


def test_a_branch_keeps_no_state() -> None:
    m = model({"y": "choice"}, choice=choose("go", give("x"), give(r="x")))
    node = m["graph"]["nodes"]["m"]["functions"]["choice"]["args"]["else_branch"]["g"]["nodes"]["n"]
    node["parameters"] = {"level": {"value": "level + x", "default_initial_value": 0}}
    error = refused(m, UnsupportedError, go=True, x=1.0)
    assert error.what == (
        "the parameter 'level' of node 'n' in the else branch of 'm.choice' keeps a state, but a "
        "branch remembers nothing by itself"
    )


def test_a_branch_with_stated_inputs_is_refused() -> None:
    m = model({"y": "choice"}, choice=choose("go", Graph({"r": "x"}, inputs=["x"]), give("x")))
    error = refused(m, SignatureError, go=True, x=1.0)
    assert error.what.endswith("names metadata.inputs, but a branch is given nothing")


def test_a_branch_that_contains_itself(mdf) -> None:
    source = mdf("""
model:
  format: ModECI MDF v0.4
  graphs:
    main:
      nodes:
        n:
          input_ports: {x: {}}
          functions: {c: {function: onnx::If, args: {cond: x > 0, then_branch: main, else_branch: main}}}
          output_ports: {y: {value: c}}
""")
    with pytest.raises(ModelError, match="'main' contains a choice whose branch is 'main' again"):
        mdf_loop.read(source, {"x": 1.0})
