"""What a picture says after a run: loops, last values, traces."""

from __future__ import annotations

import numpy as np
import pytest

import mdf_loop
from mdf_loop.drawing.observed import LONGEST_TRACE, TRACE, trace_of
from mdf_loop.errors import InputError
from tests.drawing.dot_text import shown

EXAMPLES = "examples/{}/model.yaml"


def run(name, **options):
    return mdf_loop.compile(EXAMPLES.format(name)).run(**options)


@pytest.fixture(scope="module")
def root():
    return run("newton_sqrt")


def test_a_loop_says_how_often_it_ran_and_why_it_ended(root):
    text = shown(root.draw().dot)
    assert "6 iterations · its condition became false" in text
    assert "after a run · all of it was computed" in text


CELL = {
    "g": {
        "nodes": {
            "cell": {
                "input_ports": {"I": {"default_value": 0.0}},
                "parameters": {"gain": {"value": 2.0}},
                "output_ports": {"v": {"value": "gain * I"}},
            }
        }
    }
}


def drawn(**options):
    return shown(mdf_loop.compile(CELL).run(**options).draw(level=3).dot)


def test_inputs_are_those_of_the_run_not_the_defaults():
    text = drawn(inputs={"I": 800.0})
    assert "I = 800" in text
    assert "I = 0" not in text
    assert "I = 800" in drawn(inputs={"cell.I": 800.0}, steps=5)
    assert "I = 0" in drawn()


def test_a_page_has_the_inputs_of_the_run(tmp_path):
    mdf_loop.compile(CELL).run({"I": 800.0}).draw(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert "I = 800" in page
    assert "I = 0" not in page


def test_parameters_are_those_of_the_run():
    assert "gain = 3" in drawn(set={"cell.gain": 3.0})


def test_of_a_sweep_the_inputs_are_those_of_the_member_that_is_told():
    text = drawn(sweep={"I": [7.0, 8.0]})
    assert "I = 7" in text
    assert "batch 1 of 2" in text


def test_an_input_over_time_does_not_show_a_default_that_it_did_not_have():
    text = drawn(inputs={"I": np.arange(5.0)}, steps=5)
    assert "I = 0" not in text
    assert "▸ I float64[]" in text
    rows = np.ones((5, 3))
    assert "▸ I float64[3]" in drawn(inputs={"I": rows}, steps=5)


@pytest.mark.slow
@pytest.mark.native
def test_a_native_loop_has_a_sign():
    text = shown(
        mdf_loop.compile(EXAMPLES.format("newton_sqrt"), native="require").run().draw().dot
    )
    assert "⚡ native" in text
    assert "ran as machine code" in text


def test_results_say_their_last_values(root):
    text = shown(root.draw(level=3, rankdir="LR").dot)
    assert "= 1.41421" in text
    assert "→ steps · = 6" in text
    assert f"{TRACE[-1]}{TRACE[0]}" in text  # six guesses, the first far off


def test_without_a_run_nothing_is_said(models):
    text = shown(mdf_loop.draw(models / "sample.yaml").dot)
    assert "after a run" not in text
    assert "machine code" not in text


def test_over_time_the_frame_and_the_results_have_it(models):
    results = mdf_loop.compile(models / "two_nodes.yaml").run(steps=50, dt=0.1)
    assert results.seconds["time"] > 0
    text = shown(results.draw(level=3, rankdir="LR").dot)
    assert "50 recorded steps" in text
    assert " ms" in text
    assert any(f"{TRACE[0]}{letter}" in text for letter in TRACE)


def test_of_members_the_first_is_told(models):
    results = mdf_loop.compile(models / "two_nodes.yaml").run(
        steps=5, dt=0.1, sweep={"hare.hares": [1.0, 2.0, 3.0]}
    )
    assert "batch 1 of 3" in shown(results.draw().dot)


def test_a_picture_is_written(root, tmp_path):
    target = tmp_path / "run.svg"
    root.draw(target)
    assert "6 iterations" in target.read_text(encoding="utf-8")


def test_results_without_a_model_cannot_be_drawn():
    bare = mdf_loop.Results({"n.y": np.ones(2)}, {}, "cpu", "float64")
    with pytest.raises(InputError, match="the model of these results is not known"):
        bare.draw()


# --- traces -----------------------------------------------------------------------------------


def test_a_trace_goes_from_the_lowest_to_the_highest():
    assert trace_of(np.arange(8.0)) == TRACE
    assert trace_of(np.arange(8.0)[::-1]) == TRACE[::-1]
    assert len(trace_of(np.arange(10_000))) == LONGEST_TRACE


def test_one_true_value_among_many_is_seen():
    spikes = np.zeros(1000, bool)
    spikes[500] = True
    assert trace_of(spikes).count(TRACE[-1]) == 1


def test_what_is_not_finite_has_a_sign_and_what_is_even_a_line():
    assert trace_of(np.array([0.0, np.nan, 1.0])) == f"{TRACE[0]}×{TRACE[-1]}"
    assert trace_of(np.ones(3)) == TRACE[0] * 3


@pytest.mark.parametrize(
    "rows", [np.ones(()), np.ones(1), np.array(["a", "b"]), np.ones((3, 0)), np.full(3, np.inf)]
)
def test_what_has_no_course_has_no_trace(rows):
    assert trace_of(rows) == ""
