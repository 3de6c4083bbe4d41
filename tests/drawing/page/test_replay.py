"""Pages of runs: texts of loops, values at ports, and the slider over recorded rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.drawing.page import Page
from mdf_loop.errors import InputError
from mdf_loop.outline import (
    LoopObservation,
    Observation,
    ValueObservation,
    observe,
    outline,
    outline_over_time,
)
from tests.drawing.page.conftest import element_box

EXAMPLES = Path(__file__).parents[3] / "examples"
NESTED = EXAMPLES / "nested_triangular" / "model.yaml"
LEAKY = EXAMPLES / "leaky_neuron" / "model.yaml"

COUNTER = {
    "counter": {
        "nodes": {
            "count": {
                "parameters": {"n": {"default_initial_value": 0.0, "value": "n + 1"}},
                "output_ports": {"out": {"value": "n"}},
            },
            "double": {
                "input_ports": {"x": {}},
                "output_ports": {"twice": {"value": "2 * x"}},
            },
        },
        "edges": {
            "e": {
                "sender": "count",
                "receiver": "double",
                "sender_port": "out",
                "receiver_port": "x",
            }
        },
    }
}


def boxes(scene):
    """Return all boxes of packed data."""
    for box in scene["b"]:
        yield box
        yield from boxes(box.get("g", {"b": []}))


def ports(data):
    """Return the number of each port by the title of its box, its side and its name."""
    return {
        (box["t"], side, port[1]): port[0]
        for box in boxes(data["g"])
        for side in "LR"
        for port in box.get(side, ())
        if port
    }


def observed():
    """Return the observation of a run of the nested example."""
    return Observation(
        loops={"adder.rows": LoopObservation("3 iterations", "as many", "native", 0.0125)},
        values={
            "adder.total": ValueObservation(np.int64(2)),
            "adder.totals": ValueObservation(np.array([0, 0, 2])),
        },
    )


def test_loops_and_values_have_numbers_of_boxes_and_ports():
    data = Page(outline(NESTED), observation=observed()).data()
    numbers_by_port = ports(data)
    frame = next(box for box in boxes(data["g"]) if box["t"].startswith("for i in"))
    assert data["run"]["loops"] == [[frame["i"], "3 iterations · as many · native · 12.5 ms"]]
    end = numbers_by_port["for i in range(M=n)", "R", "total_next"]
    assert dict(data["run"]["values"])[end] == "[0, 0, 2]"  # the recorded one has the same name


def test_recorded_values_are_a_tape_of_iterations():
    (tape,) = Page(outline(NESTED), observation=observed()).data()["run"]["tapes"]
    assert tape["label"] == "adder.rows, iteration"
    assert tape["at"] == [0, 1, 2]
    ((_, name, unit, size, rows),) = tape["series"]
    assert (name, unit, size, rows) == ("adder.totals", "", 1, [[0.0], [0.0], [2.0]])


def test_rows_over_time_are_a_tape_with_their_times():
    rows = np.array([[0.5, np.nan, 1 / 3, 4.0, 5.0], [1.0, np.inf, 0.0, 4.0, 5.0]])
    observation = Observation(
        values={"double.twice": ValueObservation(rows[-1], rows, "mV")},
        axis_name="time",
        unit="s",
        coordinates=np.array([0.1, 0.2]),
        row_numbers=np.arange(2),
        row_count=2,
    )
    data = Page(outline_over_time(COUNTER), observation=observation).data()
    (tape,) = data["run"]["tapes"]
    assert (tape["label"], tape["unit"], tape["at"]) == ("time", " s", [0.1, 0.2])
    ((end, _, unit, size, series_rows),) = tape["series"]
    assert end == ports(data)["double", "R", "twice"]
    assert (unit, size) == ("mV", 5)
    assert series_rows == [[0.5, None, 0.333333, 4.0], [1.0, None, 0.0, 4.0]]


def test_the_times_of_a_tape_have_the_unit_of_the_model():
    graph = {**COUNTER["counter"], "metadata": {"time_unit": "ms"}}
    model = {"counter": graph}
    results = mdf_loop.compile(model).run(steps=3, dt=0.5)
    observation = observe(results)
    (tape,) = Page(outline_over_time(model), observation=observation).data()["run"]["tapes"]
    assert (tape["label"], tape["unit"], tape["at"]) == ("time", " ms", [0.0, 0.5, 1.0])


def test_steps_of_a_tape_have_no_unit():
    observation = observe(mdf_loop.compile(COUNTER).run(steps=3))
    (tape,) = Page(outline_over_time(COUNTER), observation=observation).data()["run"]["tapes"]
    assert (tape["label"], tape["unit"], tape["at"]) == ("step", "", [0, 1, 2])


def test_long_tapes_have_fewer_rows():
    observation = Observation(values={"adder.totals": ValueObservation(np.arange(5000))})
    (tape,) = Page(outline(NESTED), observation=observation).data()["run"]["tapes"]
    assert len(tape["at"]) == 400
    assert (tape["at"][0], tape["at"][-1]) == (0, 4999)
    assert tape["places"] == tape["at"]


def test_values_of_undrawn_outputs_are_omitted():
    observation = Observation(
        loops={"gone.away": LoopObservation("1 iteration", "")},
        values={"gone.out": ValueObservation(np.float64(1))},
    )
    run = Page(outline(NESTED), observation=observation).data()["run"]
    assert (run["loops"], run["values"], run["tapes"]) == ([], [], [])


# --- in the browser -----------------------------------------------------------------------------


def slide(tab, row):
    """Move the slider."""
    tab.js(f"document.querySelector('#rows').value = {row}")
    tab.js("document.querySelector('#rows').dispatchEvent(new Event('input'))")


def values(tab):
    """Return the values in the picture."""
    return tab.js(
        "[...document.querySelectorAll('#world text.value')].map(e => e.textContent).join()"
    )


@pytest.mark.slow
def test_the_slider_moves_values_through_the_loop(opened):
    tab = opened(Page(outline(NESTED), observation=observed()).html())
    assert "3 iterations" in tab.js("document.querySelector('.box.loop .fold').textContent")
    slide(tab, 2)
    assert tab.js("document.querySelector('#row').textContent") == "adder.rows, iteration 2"
    frame = "[...document.querySelectorAll('.box.loop > [data-end]')]"
    total = f"{frame}.find(e => e.textContent.startsWith('total←')).textContent"
    leaving = f"{frame}.find(e => e.textContent.startsWith('total_next→')).textContent"
    assert tab.js(total).endswith("= 0")  # what left the iteration before
    assert tab.js(leaving).endswith("= 2")
    inner = f"{frame}.filter(e => e.textContent.startsWith('subtotal←')).map(e => e.textContent)"
    assert "= " not in tab.js(inner)[0]  # what an inner loop carries is not of this tape
    slide(tab, 0)
    assert not tab.js(total).endswith("= 0")  # it has its initial value, which nobody recorded
    assert tab.complaints() == []


@pytest.mark.slow
def test_carried_values_are_unknown_between_omitted_rows(opened):
    observation = Observation(values={"adder.totals": ValueObservation(np.arange(1000) * 10)})
    tab = opened(Page(outline(NESTED), observation=observation).html())
    slide(tab, 1)  # the rows before and after the first one are 2 or 3 iterations apart
    frame = "[...document.querySelectorAll('.box.loop > [data-end]')]"
    assert "= " not in tab.js(f"{frame}.find(e => e.textContent.startsWith('total←')).textContent")
    assert "= 30" in values(tab)


@pytest.mark.slow
def test_a_tooltip_shows_a_trace(opened):
    tab = opened(Page(outline(NESTED), observation=observed()).html())
    number = tab.js(
        "[...document.querySelectorAll('.box.loop > [data-end]')]"
        ".find(e => e.textContent.startsWith('total_next→')).dataset.end"
    )
    box = element_box(tab, f"[data-end='{number}']")
    tab.pointer("mouseMoved", box["midx"], box["midy"])
    tab.wait("document.querySelector('#tip svg') !== null")
    points = tab.js("document.querySelector('#tip polyline').getAttribute('points')").split()
    assert len(points) == 3
    assert "= 2" in tab.js("document.querySelector('#tip').textContent")


@pytest.mark.slow
def test_playing_the_rows(opened):
    tab = opened(Page(outline(NESTED), observation=observed()).html())
    tab.js("document.querySelector('#play').click()")
    tab.wait("document.querySelectorAll('.pulse').length")
    tab.wait("document.querySelector('#play').textContent === '▶'")
    assert tab.js("document.querySelector('#rows').value") == "2"
    assert tab.js("document.querySelectorAll('.pulse').length") == 0


@pytest.mark.slow
def test_a_run_over_time_is_replayed_with_its_own_numbers(opened):
    results = mdf_loop.compile(COUNTER).run(steps=4)
    tab = opened(Page(outline_over_time(COUNTER), observation=observe(results)).html())
    twice = np.asarray(results["double.twice"]).reshape(-1)
    for row in range(4):
        slide(tab, row)
        assert f"= {twice[row]:g}" in values(tab).split(",")
    assert tab.js("document.querySelectorAll('.box.node > text.value').length") == 0
    assert (
        json.loads(tab.js("JSON.stringify(Boolean(document.querySelector('#replay').hidden))"))
        is False
    )


def test_results_draw_a_page_with_the_run(tmp_path):
    results = mdf_loop.compile(COUNTER).run(steps=3)
    results.draw(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert '"label":"step"' in page
    assert "for each time step" in page


def test_results_without_model_cannot_be_drawn():
    results = mdf_loop.compile(COUNTER).run()
    results = results.with_changes(model=None)
    with pytest.raises(InputError, match="the model of these results is not known"):
        results.draw()
