"""Warnings for derivatives that are 0.0 only because iteration counts and comparisons are held fixed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import GradientError
from tests.models.fitted import DECISION, compiled


def node(text: str, **more: Any) -> mdf_loop.CompiledModel:
    """Compile a model of one node with the parameters a and b."""
    parameters = {"a": {"value": 0.7}, "b": {"value": [0.2, -1.5]}, **more}
    cell = {"parameters": parameters, "output_ports": {"y": {"value": text}}}
    return mdf_loop.compile({"m": {"graphs": {"g": {"nodes": {"cell": cell}}}}}, device="cpu")


def sentences(
    compiled: mdf_loop.CompiledModel, wrt: list[str], of: str = "cell.y", **words: Any
) -> list[str]:
    """Return the texts of the warnings of a gradient."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled.gradient({of: "sum"}, wrt, **words)
    assert all(each.category is UserWarning for each in caught)
    assert all(each.filename == __file__ for each in caught)
    return [str(each.message) for each in caught]


@pytest.mark.parametrize(
    "text",
    [
        "numpy.where(a * 2 > 0.1, 1.0, 0.0)",
        "(b > a) * 1.0",
        "1.5 if a > 0.1 else 0.5",
        "numpy.floor(a * 3)",
        "numpy.sign(a) + numpy.sum(b)",
    ],
)
def test_a_comparison_is_named_once(text: str) -> None:
    (sentence,) = sentences(node(text), ["cell.a"])
    assert sentence.startswith("the derivative by 'cell.a' is 0.0 only because")
    assert "iteration counts and comparisons" in sentence


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("numpy.maximum(a - 1, 0)", {}),
        ("a * a", {"cell.a": 0.0}),
        ("numpy.sum(b)", {}),
        ("a * (a > 0.1)", {"cell.a": -1.0}),
        ("a if a > 0.1 else 0.0", {"cell.a": -1.0}),
        ("numpy.sum(b) * 0 + numpy.size(b)", {}),
    ],
)
def test_a_derivative_that_is_zero_by_itself_is_no_fault(text: str, values: Any) -> None:
    assert sentences(node(text), ["cell.a"], set=values) == []


def test_iteration_counts_of_trials_are_named() -> None:
    ddm = compiled(DECISION)
    words = {"trials": 50, "of": "ddm.rt"}
    (sentence,) = sentences(ddm, ["ddm.drift", "ddm.late", "ddm.dt", "ddm.threshold"], **words)
    assert "by 'ddm.drift', 'ddm.threshold' are 0.0" in sentence
    assert sentences(ddm, ["ddm.late"], **words) == []
    assert len(sentences(ddm, ["ddm.drift"], sweep={"ddm.drift": [0.5, 1.0]}, of="ddm.rt")) == 1


def test_the_check_takes_steps_that_change_the_counts() -> None:
    ddm = compiled(DECISION)
    with (
        pytest.warns(UserWarning, match=r"ddm\.threshold"),
        pytest.raises(GradientError, match=r"by 'ddm\.threshold' is 0, but .* give \d"),
    ):
        ddm.gradient({"ddm.rt": "mean"}, ["ddm.threshold"], trials=200, check=True)


def test_states_over_time_that_count_are_named() -> None:
    states = {
        "v": {"default_initial_value": 0.0, "value": "numpy.where(v > 1.0, 0.0, v + a)"},
        "n": {"default_initial_value": 0.0, "value": "n + (v > 1.0)"},
    }
    assert len(sentences(node("n", **states), ["cell.a"], steps=20)) == 1
    assert sentences(node("v", **states), ["cell.a"], steps=20) == []


def test_the_largest_difference_of_a_check_is_told() -> None:
    check = (
        node("numpy.sum(numpy.sin(b) ** 3)")
        .gradient({"cell.y": "sum"}, ["cell.b"], check=True)
        .check
    )
    assert check is not None
    assert 0.0 < check.largest < 1e-6
    assert np.isfinite(check.largest)


def test_a_fit_by_an_objective_does_not_repeat_the_warning() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        node("(a - 1) ** 2 + (a > 2)").fit(
            None, {"cell.a": (0.0, 1.5)}, objective={"cell.y": "sum"}, points=4, polish=1
        )
    assert not caught
