"""`verify` with three engines: a difference is found and named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.demo import DEMOS
from mdf_loop.errors import LoopError, RunError
from mdf_loop.importing.opening import open_document
from mdf_loop.verification import compare, side_by_side
from mdf_loop.verification.comparison import compare_rows
from mdf_loop.verification.order import compare_order, describe_random_order
from tests.models.engine import CIRCLE, PAIR, SUM, TWO_SENDERS

SHARED = Path(__file__).parents[3] / "shared" / "models"
WITHOUT_STATE = (
    *(
        "doc_sample.yaml",
        "ONNX/ab.yaml",
        "ONNX/abc.yaml",
        "ONNX/abc.json",
        "ONNX/abc_basic-mdf.yaml",
    ),
    *("ONNX/abcd.yaml", "MDF/ABCD.yaml", "MDF/Arrays.yaml", "MDF/Simple.yaml"),
)
WITH_STATE = ("MDF/States.yaml", "MDF/FN.mdf.json", "NeuroML/FN.mdf.yaml", "MDF/RNN/RNNs.yaml")
"""Models compared in their first evaluation, in which states have their initial values."""


@pytest.mark.parametrize("demo", DEMOS, ids=lambda d: d.name)
def test_demos_are_equal_in_all_engines(demo) -> None:
    verification = mdf_loop.verify(demo.path, demo.inputs)
    assert verification.equal, str(verification)
    assert {c.engine for c in verification.comparisons} == {"interpreter", "modeci_mdf"}


STEP_BY_STEP = (
    *("MDF/ParametersFunctions.yaml", "MDF/abc_conditions.yaml"),
    *("MDF/RNN/IAF_net.yaml", "MDF/RNN/IAFs.yaml"),
    *("MDF/conditions/everyncalls_condition.yaml", "MDF/conditions/timeinterval_condition.yaml"),
    *("NeuroML/ABCD.mdf.yaml", "NeuroML/PyNN/HH.mdf.yaml"),
)


def inputs_of(name: str) -> dict[str, object]:
    inputs: dict[str, object] = {}
    if name.startswith("ONNX"):
        inputs["input"] = [[0.75]] if "abcd" in name else np.linspace(-1, 2, 6).reshape(2, 3)
    if "abc." in name:
        inputs["B_loop_count"] = 4
    return inputs


@pytest.mark.parametrize("name", [*WITHOUT_STATE, *WITH_STATE, *STEP_BY_STEP])
def test_shared_models_are_equal_in_all_engines(name: str) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip("the shared models are not here")
    verification = mdf_loop.verify(path, inputs_of(name))
    assert verification.equal, str(verification)
    assert any(c.engine == "modeci_mdf" for c in verification.comparisons), verification.notes


def test_float32_is_close() -> None:
    verification = mdf_loop.verify(DEMOS[2].path, DEMOS[2].inputs, precision="float32")
    assert verification.equal, str(verification)
    assert not all(c.max_abs == 0 for c in verification.comparisons)


@pytest.mark.parametrize(
    ("ours", "theirs", "equal"),
    [
        (1.0, 1.0 + 1e-15, True),
        (1.0, 1.0 + 1e-9, False),
        ([1.0, np.nan], [1.0, np.nan], True),
        ([1.0, np.nan], [1.0, 2.0], False),
        ([np.inf], [np.inf], True),
        ([np.inf], [-np.inf], False),
        (3, 3.0, True),
        (3.0, [3.0], True),
        ([[1.0, 2.0]], [[1.0], [2.0]], True),
        (np.ones((2, 3)), np.ones((3, 2)), False),
        ([1.0], [1.0, 1.0], False),
        ([], [], True),
        (["a"], ["a"], True),
        (["a"], ["b"], False),
        (["a"], [1.0], False),
    ],
)
def test_tolerances_of_equality(ours, theirs, equal: bool) -> None:
    comparison = compare("A.y", "modeci_mdf", np.array(ours), np.array(theirs), 1e-12)
    assert comparison.equal is equal


def test_a_difference_is_shown() -> None:
    comparison = compare("A.y", "modeci_mdf", np.array([1.0, 2.0]), np.array([1.0, 2.5]), 1e-12)
    verification = mdf_loop.Verification((comparison,), 1e-12)
    assert not verification.equal
    assert "DIFFERENT  A.y" in str(verification)
    assert "max abs 0.5, max rel 0.2, first: 2 against 2.5" in str(verification)


def test_a_model_that_the_engine_cannot_run_is_compared_with_the_interpreter() -> None:
    graph = {
        "g": {
            "nodes": {
                "A": {
                    "parameters": {"b": {"value": "f * 2"}},
                    "functions": {"f": {"value": "1 + 2"}},
                    "output_ports": {"y": {"value": "b"}},
                }
            },
            "edges": {},
        }
    }
    verification = mdf_loop.verify(graph)
    assert verification.equal
    assert verification.notes == (
        "modeci_mdf's engine cannot run this model: Could not evaluate expression [f * 2]: "
        "name 'f' is not defined (at $.graphs[0].nodes['A'])",
    )


def test_the_first_step_that_differs_is_named() -> None:
    ours = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    theirs = np.array([[1.0, 2.0], [3.0, 4.5], [5.5, 6.0]])
    comparison = compare_rows("A.y", "modeci_mdf", [*ours], [*theirs], 1e-12, ("here", "there"))
    assert comparison.first_step == 1
    assert str(comparison).endswith("max abs 0.5, max rel 0.111, first at step 1: 4 against 4.5")


def test_a_few_last_bits_of_the_largest_value_are_rounding() -> None:
    ours = np.array([1.0, 1e-17])
    assert compare("A.y", "modeci_mdf", ours, np.array([1.0, 0.0]), 1e-12).equal
    assert not compare("A.y", "modeci_mdf", ours, np.array([1.0, 1e-12]), 1e-12).equal


def test_last_bits_are_those_of_the_dtype() -> None:
    ours, theirs = np.array([1.0, 1e-4], np.float32), np.array([1.0, 1.001e-4], np.float32)
    assert compare("A.y", "interpreter", ours, theirs, 1e-5).equal
    assert not compare("A.y", "interpreter", ours, theirs * [1, 1.1], 1e-5).equal
    assert not compare("A.y", "interpreter", *(a.astype(float) for a in (ours, theirs)), 1e-5).equal


# --- over time ----------------------------------------------------------------------------------

OVER_TIME = (
    ("NeuroML/FN.mdf.yaml", 200, 5e-5),
    ("MDF/RNN/IAF_net.yaml", 60, 1e-3),
    ("MDF/RNN/IAFs.yaml", 50, 1e-3),
    ("NeuroML/ABCD.mdf.yaml", 50, 1e-3),
)
"""Models with arithmetic only, which are equal bit for bit."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps", "dt"), OVER_TIME)
def test_models_over_time_are_equal_bit_for_bit(name: str, steps: int, dt: float) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip("the shared models are not here")
    verification = mdf_loop.verify(path, steps=steps, dt=dt)
    assert verification.bit_for_bit, str(verification)
    assert {c.engine for c in verification.comparisons} == {"modeci_mdf"}
    assert any(c.is_parameter for c in verification.comparisons)
    assert "equal, bit for bit (tolerance: relative 1e-12)" in str(verification)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*WITHOUT_STATE, *WITH_STATE, *STEP_BY_STEP])
def test_shared_models_are_equal_over_time(name: str) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip("the shared models are not here")
    verification = mdf_loop.verify(path, inputs_of(name), steps=50, dt=1e-4)
    assert verification.equal, str(verification)
    assert verification.comparisons[-1].name == "order of execution"


COUNT = """
nodes:
    A:
        parameters:
            n: {value: n + 1}
            late: {value: (n > 17) * 0.01}
            y: {value: 0.25 + late}
        output_ports: {out: {value: y}}
"""


@pytest.fixture
def compile_other_model(monkeypatch: pytest.MonkeyPatch, mdf):
    """Make `verify` compile another model than its argument."""

    def compile_text(text: str) -> None:
        other_model = mdf(text)
        monkeypatch.setattr(
            side_by_side, "compile", lambda _, **options: mdf_loop.compile(other_model, **options)
        )

    return compile_text


def test_a_wrong_result_is_found_at_its_step(mdf, compile_other_model) -> None:
    compile_other_model(COUNT.replace("0.01", "0"))
    verification = mdf_loop.verify(mdf(COUNT), steps=40)
    assert not verification.equal
    assert {(c.name, c.first_step) for c in verification.comparisons if not c.equal} == {
        *(("A.out", 17), ("A.late", 17), ("A.y", 17))
    }
    assert str(verification).splitlines() == [
        "DIFFERENT  A.out  float64[40] against modeci_mdf float64[40]: max abs 0.01, max rel 0.0385,"
        " first at step 17: 0.25 against 0.26",
        "DIFFERENT  A.late  int64[40] against modeci_mdf float64[40]: max abs 0.01, max rel 1,"
        " first at step 17: 0 against 0.01",
        "DIFFERENT  A.y  float64[40] against modeci_mdf float64[40]: max abs 0.01, max rel 0.0385,"
        " first at step 17: 0.25 against 0.26",
        "equal      order of execution  40 evaluations against modeci_mdf 40 evaluations: "
        "max abs 0, max rel 0",
        "equal      1 parameter against modeci_mdf: max abs 0, max rel 0",
        "different (tolerance: relative 1e-12)",
    ]


def test_a_wrong_parameter_that_no_output_shows_is_found(mdf, compile_other_model) -> None:
    text = COUNT.replace("value: y}", "value: 1 + 0 * y}")
    compile_other_model(text.replace("n + 1", "n + 2"))
    verification = mdf_loop.verify(mdf(text), steps=5)
    (different,) = (c for c in verification.comparisons if not c.equal)
    assert (different.name, different.first_step, different.values) == ("A.n", 0, ("2", "1"))


def test_a_wrong_derivative_is_found(mdf, compile_other_model) -> None:
    text = """
nodes:
    A:
        parameters: {x: {default_initial_value: 1.0, time_derivative: -x}}
        output_ports: {y: {value: x}}
"""
    compile_other_model(text.replace("-x", "-1.000001 * x"))
    verification = mdf_loop.verify(mdf(text), steps=5, dt=0.1)
    assert [c.first_step for c in verification.comparisons if not c.equal] == [1, 1]
    compile_other_model(text)
    assert mdf_loop.verify(mdf(text), steps=5, dt=0.1).bit_for_bit


def test_integers_instead_of_floats_are_reported(mdf) -> None:
    text = """
nodes: {A: {parameters: {p: {value: 0.5}}, output_ports: {y: {value: p * 4}, z: {value: p}}}}
"""
    verification = mdf_loop.verify(mdf(text), steps=2)
    assert verification.equal
    assert {c.name: c.kinds for c in verification.comparisons if c.kinds} == {
        "A.y": ("float64", "int64")
    }
    assert str(verification.comparisons[0]).endswith("; equal, but float64 against int64")


def test_integers_are_compared_exactly() -> None:
    ours, theirs = np.array([2**60 + 1]), np.array([2**60])
    comparison = compare("A.y", "modeci_mdf", ours, theirs, 1e-12)
    assert not comparison.equal
    assert comparison.values == ("1152921504606846977", "1152921504606846976")


def test_nan_on_one_side_is_a_difference() -> None:
    ours, theirs = np.array([np.nan, np.nan, 1]), np.array([np.nan, 1, 1])
    comparison = compare_rows("A.y", "modeci_mdf", [*ours], [*theirs], 1e-12, ("", ""))
    assert (comparison.first_step, comparison.values) == (1, ("nan", "1"))
    assert compare("A.y", "modeci_mdf", ours[:1], theirs[:1], 1e-12).equal


def rows_equal(ours: np.ndarray, theirs: np.ndarray) -> bool:
    return compare_rows("A.y", "modeci_mdf", [*ours], [*theirs], 1e-12, ("", "")).equal


def test_one_step_is_not_the_same_as_two() -> None:
    one = np.ones((1, 3))
    assert not rows_equal(one, np.ones((3,)))
    assert not rows_equal(one, np.ones((2, 3)))
    assert rows_equal(one, np.ones((1, 3, 1)))


def test_a_row_of_another_shape_is_a_difference() -> None:
    ours = [np.ones(3), np.ones(3)]
    theirs = [np.ones(3), np.ones(1)]
    comparison = compare_rows("A.y", "modeci_mdf", ours, theirs, 1e-12, ("", ""))
    assert (comparison.equal, comparison.first_step) == (False, 1)
    assert comparison.values == ("float64[3]", "float64[1]")


def test_small_differences_are_shown_with_all_their_digits() -> None:
    ours = np.array([1.0, 1.0 + 1e-9])
    assert compare("A.y", "modeci_mdf", ours, np.ones(2), 1e-12).values == (
        "1.0000000010000001",
        "1",
    )


# --- notes of a comparison -------------------------------------------------------------------------


def test_random_places_are_named(mdf) -> None:
    verification = mdf_loop.verify(mdf(TWO_SENDERS), steps=3)
    assert verification.bit_for_bit, str(verification)
    assert verification.notes == (
        "the order of modeci_mdf's engine is random, here it took that of the document: "
        "C.x (2 edges)",
    )


def test_random_places_of_a_circle(mdf) -> None:
    assert describe_random_order(open_document(mdf(CIRCLE))) == [
        "B.b (runs together with A)",
        "A.a (runs together with B)",
    ]
    verification = mdf_loop.verify(mdf(CIRCLE), steps=4)
    assert verification.bit_for_bit, str(verification)


def test_sums_in_place_are_named(mdf) -> None:
    verification = mdf_loop.verify(mdf(SUM), steps=3)
    assert verification.bit_for_bit, str(verification)
    assert verification.notes == (
        "modeci_mdf's engine adds up in place, in the sender's array; here it was given copies: C.x",
    )


def test_the_engine_stops_earlier(mdf) -> None:
    text = COUNT.replace("(n > 17) * 0.01", "1 / (4 - n)")
    verification = mdf_loop.verify(mdf(text), steps=10)
    assert verification.equal
    (note,) = verification.notes
    assert "Could not evaluate expression [1 / (4 - n)]: division by zero (at $" in note
    assert note.endswith("; the 3 steps before step 3 were compared")


def test_a_verification_without_comparisons_is_not_equal(mdf) -> None:
    text = """
nodes:
    A:
        parameters: {b: {value: f * 2}}
        functions: {f: {value: 1 + 2}}
        output_ports: {y: {value: b}}
"""
    with pytest.raises(RunError) as caught:
        mdf_loop.verify(mdf(text), steps=3)
    assert caught.value.report.splitlines() == [
        "RunError: there is nothing to compare with: modeci_mdf's engine cannot run this model: "
        "Could not evaluate expression [f * 2]: name 'f' is not defined",
        "  at $.graphs[0].nodes['A']",
        "  hint: leave steps out to compare one evaluation with the interpreter",
    ]


def test_the_order_of_execution() -> None:
    theirs = ((("A",), ("B", "C")), (("A",), ()))
    assert compare_order(((("A",), ("C", "B")), (("A",), ())), theirs).equal
    different = compare_order(((("A",), ("B", "C")), (("A",), ("B",))), theirs)
    assert (different.first_step, different.values) == (1, ("A|B", "A|"))
    assert not compare_order(theirs[:1], theirs).equal
    assert compare_order(theirs, theirs[:1]).equal  # the steps that the engine completed


def test_a_wrong_order_is_found(mdf, compile_other_model) -> None:
    order = """
conditions:
    node_specific:
        B: {type: EveryNCalls, kwargs: {dependency: A, n: 2}}
"""
    compile_other_model(PAIR + order.replace("n: 2", "n: 3"))
    verification = mdf_loop.verify(mdf(PAIR + order), steps=4)
    (comparison,) = (c for c in verification.comparisons if c.name == "order of execution")
    assert (comparison.equal, comparison.first_step, comparison.values) == (
        False,
        0,
        ("A|A|A|B", "A|A|B"),
    )


def test_an_order_that_is_decided_while_running_is_compared(mdf) -> None:
    order = """
conditions:
    node_specific:
        A: {type: Always, kwargs: {}}
        B: {type: Threshold, kwargs: {dependency: A, parameter: n, threshold: 3, comparator: ">="}}
"""
    verification = mdf_loop.verify(mdf(PAIR + order), steps=4)
    assert verification.bit_for_bit, str(verification)
    assert verification.comparisons[-1].name == "order of execution"


def test_a_node_that_has_not_run_is_nan_in_all_engines(mdf) -> None:
    order = """
conditions:
    node_specific:
        B: {type: AfterNCalls, kwargs: {dependency: A, n: 3, time_scale: TimeScale.LIFE}}
    termination: {environment_state_update: {type: AfterNPasses, kwargs: {n: 1}}}
"""
    for steps in (None, 4):
        verification = mdf_loop.verify(mdf(PAIR + order), steps=steps)
        assert verification.bit_for_bit, str(verification)
    assert np.isnan(mdf_loop.compile(mdf(PAIR + order)).run()["B.y"])


def test_inputs_over_time(mdf) -> None:
    text = PAIR.replace("x: {}", "x: {}, w: {}").replace("x * 10", "x * w")
    rows = np.array([0.5, 1.5, 2.5])
    verification = mdf_loop.verify(mdf(text), {"w": rows}, steps=3)
    assert verification.bit_for_bit, str(verification)
    (y,) = (c for c in verification.comparisons if c.name == "B.y")
    assert y.types == ("float64[3]", "float64[3]")


def test_outputs_with_names_of_their_own_are_compared_with_the_engine() -> None:
    node = {"input_ports": {"x": {"default_value": 3.0}}, "output_ports": {"y": {"value": "x + 1"}}}
    graph = {"metadata": {"outputs": {"more": "n.y"}}, "nodes": {"n": node}}
    verification = mdf_loop.verify({"g": graph})
    assert {(c.engine, c.name) for c in verification.comparisons} == {
        ("interpreter", "more"),
        ("modeci_mdf", "more"),
    }


def test_a_choice_is_computed_in_float64_by_the_engine_too() -> None:
    branch = {"metadata": {"outputs": ["x"]}, "nodes": {}}
    args = {"cond": "x > 1", "then_branch": {"a": branch}, "else_branch": {"b": branch}}
    node = {
        "input_ports": {"x": {"default_value": 0.1}},
        "functions": {"choice": {"function": "onnx::If", "args": args}},
        "output_ports": {"y": {"value": "choice"}},
    }
    verification = mdf_loop.verify({"g": {"nodes": {"n": node}}})
    assert (verification.bit_for_bit, verification.tolerance) == (True, 1e-12), str(verification)


# --- errors before the engine runs ----------------------------------------------------------------

NODE = {"input_ports": {"x": {"default_value": 1.0}}, "output_ports": {"y": {"value": "2 * x"}}}


def model_of(**node: Any) -> dict[str, Any]:
    return {"g": {"nodes": {"A": {**NODE, **node}}}}


def function(name: str, **args: Any) -> dict[str, Any]:
    return model_of(
        functions={"f": {"function": name, "args": args}}, output_ports={"y": {"value": "f"}}
    )


ROI = function(
    "onnx::MaxRoiPool", X="numpy.ones((1, 1, 4, 4)) * x", rois=[[0.0] * 5], pooled_shape=[2, 2]
)
WRONG = {
    "a name": (model_of(output_ports={"y": {"value": "2 * z"}}), {}, "'z'"),
    "an input": (model_of(), {"inputs": {"z": 1}}, "'z'"),
    "a value": (model_of(), {"inputs": {"x": [1.0, 2.0]}, "steps": 3}, "'x'"),
    "a parameter": (model_of(), {"set": {"A.z": 1}}, "'A.z'"),
    "steps": (model_of(), {"steps": 0}, "steps must be a whole number above 0"),
    "dt": (model_of(), {"steps": 2, "dt": float("nan")}, "dt must be a length of time"),
    "dt alone": (model_of(), {"dt": 0.1}, "dt needs steps"),
    "a device": (model_of(), {"device": "tpu"}, "device cannot be 'tpu'"),
    "a kernel": (ROI, {}, "no float64 kernel for onnx::MaxRoiPool"),
    "a kernel over time": (ROI, {"steps": 2}, "no float64 kernel for onnx::MaxRoiPool"),
}
"""Models, keywords of `verify`, and the error."""


@pytest.mark.parametrize("name", WRONG)
def test_the_engine_does_not_run_for_invalid_models(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def engine(*_: Any) -> None:
        raise AssertionError("the engine has run")

    monkeypatch.setattr(side_by_side, "EngineGraph", engine)
    model, keywords, sentence = WRONG[name]
    with pytest.raises(LoopError, match=re.escape(sentence)):
        mdf_loop.verify(model, **keywords)


def test_verify_builds_the_engine_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = []
    engine = side_by_side.EngineGraph
    monkeypatch.setattr(
        side_by_side, "EngineGraph", lambda d, *seed: documents.append(d) or engine(d, *seed)
    )
    assert mdf_loop.verify(model_of(), steps=2).equal
    assert len(documents) == 1
