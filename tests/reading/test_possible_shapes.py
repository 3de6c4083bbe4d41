"""Values that start as a number and become an array are broadcast where the numbers stay equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import CarryShapeError


def model(node: dict[str, Any]) -> dict[str, Any]:
    return {"g": {"nodes": {"A": node}}}


def integrating(derivative: str, **parameters: Any) -> dict[str, Any]:
    state = {"v": {"default_initial_value": 0.5, "time_derivative": derivative}}
    drive = {"drive": {"value": [1.0, 2.0]}}
    return model({"parameters": drive | state | parameters, "output_ports": {"v": {"value": "v"}}})


def test_a_number_that_becomes_an_array_is_spread() -> None:
    rows = mdf_loop.compile(integrating("drive - v")).run(steps=3, dt=0.5)["v"]
    v = np.array([0.5, 0.5])
    for row in rows:
        np.testing.assert_array_equal(row, v)
        v = v + (np.array([1.0, 2.0]) - v) * 0.5


def test_a_sum_of_what_already_is_an_array_is_one_number() -> None:
    document = integrating("drive", total={"value": "numpy.sum(v)"})
    rows = mdf_loop.compile(document).run(steps=3, dt=0.5, record=["A.total"])["A.total"]
    np.testing.assert_array_equal(rows, [0.5, 2.5, 4.0])


@pytest.mark.parametrize("derivative", ["drive - numpy.sum(v)", "drive * numpy.mean(v + v)"])
def test_a_sum_of_what_is_one_number_at_first_is_refused(derivative: str) -> None:
    with pytest.raises(CarryShapeError) as error:
        mdf_loop.compile(integrating(derivative)).run(steps=3, dt=0.5)
    assert "has the shape [] or [2], depending on the step" in str(error.value)
    assert "$.graphs[0].nodes['A'].parameters['v']" in str(error.value)
    assert "give initial values (and ports) the shape that they have later" in str(error.value)


def test_the_advice_helps() -> None:
    document = integrating("drive - numpy.sum(v)")
    document["g"]["nodes"]["A"]["parameters"]["v"]["default_initial_value"] = [0.5, 0.5]
    rows = mdf_loop.compile(document).run(steps=2, dt=0.5)["v"]
    np.testing.assert_array_equal(rows, [[0.5, 0.5], [0.5, 1.0]])


def test_a_node_that_starts_late_has_its_own_shape_at_first() -> None:
    count = {"parameters": {"n": {"value": "n + 1"}}, "output_ports": {"n": {"value": "n"}}}
    when = {"dependency": "C", "parameter": "n", "threshold": 2, "comparator": ">="}
    for derivative, refused in (("drive - v", False), ("drive - numpy.sum(v)", True)):
        document = integrating(derivative)
        document["g"]["nodes"]["C"] = count
        document["g"]["conditions"] = {
            "node_specific": {"A": {"type": "Threshold", "kwargs": when}},
            "termination": {
                "environment_state_update": {"type": "AfterNPasses", "kwargs": {"n": 1}}
            },
        }
        if refused:
            with pytest.raises(CarryShapeError, match="depending on the step"):
                mdf_loop.compile(document).run(steps=4, dt=0.5)
        else:
            rows = mdf_loop.compile(document).run(steps=4, dt=0.5)["v"]
            assert np.isnan(
                rows[:2]
            ).all()  # conditions are evaluated before the nodes of a layer run
            np.testing.assert_array_equal(rows[2:], [[0.75, 1.25], [0.875, 1.625]])
