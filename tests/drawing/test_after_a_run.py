"""Pictures after a run: loops, last values and traces."""

from __future__ import annotations

import numpy as np
import pytest

import mdf_loop
from mdf_loop.drawing.observed import MAX_SPARKLINE_LENGTH, SPARKLINE_CHARACTERS, format_sparkline
from mdf_loop.errors import InputError
from tests.drawing.dot_text import visible_text

EXAMPLES = "examples/{}/model.yaml"


def run(name, **options):
    return mdf_loop.compile(EXAMPLES.format(name)).run(**options)


@pytest.fixture(scope="module")
def root():
    return run("newton_sqrt")


def test_loops_show_iterations_and_stop_reason(root):
    text = visible_text(root.draw().dot)
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


def picture_text(**options):
    return visible_text(mdf_loop.compile(CELL).run(**options).draw(level=3).dot)


def test_inputs_of_the_run_replace_defaults():
    text = picture_text(inputs={"I": 800.0})
    assert "I = 800" in text
    assert "I = 0" not in text
    assert "I = 800" in picture_text(inputs={"cell.I": 800.0}, steps=5)
    assert "I = 0" in picture_text()


def test_a_page_has_the_inputs_of_the_run(tmp_path):
    mdf_loop.compile(CELL).run({"I": 800.0}).draw(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert "I = 800" in page
    assert "I = 0" not in page


def test_parameters_of_the_run():
    assert "gain = 3" in picture_text(set={"cell.gain": 3.0})


def test_a_sweep_shows_the_inputs_of_the_first_member():
    text = picture_text(sweep={"I": [7.0, 8.0]})
    assert "I = 7" in text
    assert "batch 1 of 2" in text


def test_an_input_over_time_has_no_default():
    text = picture_text(inputs={"I": np.arange(5.0)}, steps=5)
    assert "I = 0" not in text
    assert "▸ I float64[]" in text
    rows = np.ones((5, 3))
    assert "▸ I float64[3]" in picture_text(inputs={"I": rows}, steps=5)


@pytest.mark.slow
@pytest.mark.native
def test_a_native_loop_has_a_sign():
    text = visible_text(
        mdf_loop.compile(EXAMPLES.format("newton_sqrt"), native="require").run().draw().dot
    )
    assert "⚡ native" in text
    assert "ran as machine code" in text


def test_results_show_their_last_values(root):
    text = visible_text(root.draw(level=3, rankdir="LR").dot)
    assert "= 1.41421" in text
    assert "→ steps · = 6" in text
    assert (
        f"{SPARKLINE_CHARACTERS[-1]}{SPARKLINE_CHARACTERS[0]}" in text
    )  # six guesses, the first far off


def test_pictures_without_a_run(models):
    text = visible_text(mdf_loop.draw(models / "sample.yaml").dot)
    assert "after a run" not in text
    assert "machine code" not in text


def test_a_run_over_time(models):
    results = mdf_loop.compile(models / "two_nodes.yaml").run(steps=50, dt=0.1)
    assert results.seconds["time"] > 0
    text = visible_text(results.draw(level=3, rankdir="LR").dot)
    assert "50 recorded steps" in text
    assert " ms" in text
    assert any(f"{SPARKLINE_CHARACTERS[0]}{letter}" in text for letter in SPARKLINE_CHARACTERS)


def test_the_first_member_of_a_sweep_is_drawn(models):
    results = mdf_loop.compile(models / "two_nodes.yaml").run(
        steps=5, dt=0.1, sweep={"hare.hares": [1.0, 2.0, 3.0]}
    )
    assert "batch 1 of 3" in visible_text(results.draw().dot)


def test_a_picture_is_written(root, tmp_path):
    target = tmp_path / "run.svg"
    root.draw(target)
    assert "6 iterations" in target.read_text(encoding="utf-8")


def test_results_without_a_model_cannot_be_drawn():
    bare = mdf_loop.Results({"n.y": np.ones(2)}, {}, "cpu", "float64")
    with pytest.raises(InputError, match="the model of these results is not known"):
        bare.draw()


# --- traces -----------------------------------------------------------------------------------


def test_traces_range_from_lowest_to_highest():
    assert format_sparkline(np.arange(8.0)) == SPARKLINE_CHARACTERS
    assert format_sparkline(np.arange(8.0)[::-1]) == SPARKLINE_CHARACTERS[::-1]
    assert len(format_sparkline(np.arange(10_000))) == MAX_SPARKLINE_LENGTH


def test_a_trace_shows_a_single_true_value():
    spikes = np.zeros(1000, bool)
    spikes[500] = True
    assert format_sparkline(spikes).count(SPARKLINE_CHARACTERS[-1]) == 1


def test_traces_of_nan_and_of_constants():
    assert (
        format_sparkline(np.array([0.0, np.nan, 1.0]))
        == f"{SPARKLINE_CHARACTERS[0]}×{SPARKLINE_CHARACTERS[-1]}"
    )
    assert format_sparkline(np.ones(3)) == SPARKLINE_CHARACTERS[0] * 3


@pytest.mark.parametrize(
    "rows", [np.ones(()), np.ones(1), np.array(["a", "b"]), np.ones((3, 0)), np.full(3, np.inf)]
)
def test_scalars_and_texts_have_no_trace(rows):
    assert format_sparkline(rows) == ""
