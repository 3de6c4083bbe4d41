"""Scalar initial values that become arrays are broadcast, with a note."""

from __future__ import annotations

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import CarryShapeError
from mdf_loop.explanation import explain
from tests.models.loops import loop_model

W = [1.0, 2.0, 3.0]


def adding(body, *, recorded="", **args):
    return loop_model(
        {"M": 2, "v_initial": "(v0,)", **args},
        body,
        port_values={"v0": 0.5, "w": W},
        carried="v",
        recorded=recorded,
    )


def test_the_initial_number_is_broadcast(run_everywhere):
    results = run_everywhere(adding({"v_next": "v + w"}))
    assert results["r0"].tolist() == [2.5, 4.5, 6.5]


def test_without_an_iteration_it_is_an_array_too(run_everywhere):
    assert run_everywhere(adding({"v_next": "v + w"}, M="0"))["r0"].tolist() == [0.5, 0.5, 0.5]


def test_one_value_may_widen_another(run_everywhere):
    model = loop_model(
        {"M": 3, "v_initial": "(0.0, 1.0)"},
        {"v_next": "v + u", "u_next": "u * w"},
        port_values={"w": W},
        carried="v u",
    )
    v, u = np.zeros(3), np.ones(3)
    for _ in range(3):
        v, u = v + u, u * np.array(W)
    results = run_everywhere(model)
    assert results["r0"].tolist() == v.tolist()
    assert results["r1"].tolist() == u.tolist()


def test_explain_has_a_note_for_a_broadcast():
    explanation = explain(adding({"v_next": "v + w"}))
    assert (
        "note: 'v_next' starts as one number, and is float64[3] after one iteration" in explanation
    )


DEPENDENT_BODIES = [
    "w + numpy.sum(v)",
    "w * numpy.max(v)",
    "w + numpy.mean(v)",
    "w + numpy.size(v)",
    "w + numpy.ndim(v)",
    "w + numpy.sum(v if i < 1 else 2 * v)",
    "w + numpy.random.normal(0 * v, 1.0)",
    "w + numpy.random.poisson(1.0 + 0 * v)",
]


@pytest.mark.parametrize("unroll", [None, 4])
@pytest.mark.parametrize("initial", ["v0", "0.5", "1.0 - 0.5"])
@pytest.mark.parametrize("body", DEPENDENT_BODIES)
def test_bodies_that_depend_on_the_initial_shape_are_refused(body, initial, unroll):
    model = adding({"v_next": body}, v_initial=f"({initial},)")
    with pytest.raises(
        CarryShapeError, match=r"has the shape \[\] or \[3\], depending on the step"
    ):
        mdf_loop.compile(model, unroll=unroll).run()


def test_a_constant_array_of_the_model_is_not_taken_for_a_broadcast_number(run_everywhere):
    """Both constants have the elements 0.5, 0.5, 0.5; only the carried one was a number."""
    model = adding({"v_next": "v + w * numpy.sum([0.5, 0.5, 0.5])"}, v_initial="(0.5,)")
    assert run_everywhere(model)["r0"].tolist() == [3.5, 6.5, 9.5]


@pytest.mark.parametrize(
    ("update", "rows"),
    [
        ("gain + numpy.sum(x)", [[2, 3, 4], [10, 11, 12], [34, 35, 36]]),
        ("gain + numpy.size(x)", [[2, 3, 4], [4, 5, 6], [4, 5, 6]]),
    ],
)
def test_the_first_update_of_a_state_reads_one_number(update, rows):
    parameters = {"gain": {"value": W}, "x": {"default_initial_value": 1.0, "value": update}}
    node = {"parameters": parameters, "output_ports": {"y": {"value": "x"}}}
    compiled = mdf_loop.compile({"g": {"nodes": {"A": node}}})
    assert compiled.run(steps=3)["y"].tolist() == rows


def test_with_dynamic_shapes_it_stays_one_number_at_first():
    compiled = mdf_loop.compile(adding({"v_next": "w + numpy.sum(v)"}), shapes="dynamic")
    assert compiled.run()["r0"].tolist() == [8.5, 9.5, 10.5]


def test_an_array_that_changes_its_shape_is_an_error():
    model = adding({"v_next": "numpy.concatenate((v, v))"})
    model["model"]["graphs"]["graph"]["nodes"]["A"]["input_ports"]["v0"]["default_value"] = [1.0]
    with pytest.raises(CarryShapeError, match="must keep their shape"):
        mdf_loop.compile(model).run()


def test_a_shape_that_goes_on_changing_is_an_error():
    with pytest.raises(CarryShapeError, match="must keep their shape"):
        mdf_loop.compile(adding({"v_next": "numpy.expand_dims(v, 0)"})).run()
