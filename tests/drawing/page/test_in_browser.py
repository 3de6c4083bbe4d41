"""Pages in a real Chromium: display, mouse and keyboard."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from mdf_loop.drawing.page import Page
from mdf_loop.outline import outline
from tests.drawing.page.conftest import element_box
from tests.drawing.page.large import write

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[3] / "examples"
NESTED = EXAMPLES / "nested_triangular" / "model.yaml"
FRAME = ".box.loop"
VISIBLE_BOXES = "document.querySelectorAll('.box').length"


WIRES_PER_PORT = """JSON.stringify((() => {
  const ends = [...document.querySelectorAll('#world .wire')].flatMap(path =>
    [0, path.getTotalLength()].map(at => path.getPointAtLength(at).matrixTransform(path.getScreenCTM())));
  return [...document.querySelectorAll('.box.group > [data-end] > .chip')].map(chip => {
    const {left, right, top, bottom} = chip.getBoundingClientRect();
    const isMet = ({x, y}) => Math.abs(y - (top + bottom) / 2) < 1.5 &&
      Math.min(Math.abs(x - left), Math.abs(x - right)) < 1.5;
    return ends.filter(isMet).length;
  });
})())"""
"""Script that returns the number of wires at each port of a group."""


def tree(tab):
    """Return the boxes as a screen reader has them: level, expansion state and label."""
    return json.loads(
        tab.js(
            "JSON.stringify([...document.querySelectorAll('[role=treeitem]')].map(e => ["
            "Number(e.getAttribute('aria-level')), e.getAttribute('aria-expanded'),"
            "e.getAttribute('aria-label')]))"
        )
    )


def scale(tab):
    """Return the size of a point of the picture on the screen."""
    return tab.js("document.querySelector('#world').getScreenCTM().a")


# --- layout -------------------------------------------------------------------------------------


def test_a_page_is_laid_out_without_requests(opened):
    tab = opened(NESTED)
    assert tab.js("document.body.dataset.ready") == "yes"
    assert tab.js("document.title") == "triangular"
    assert tab.js(VISIBLE_BOXES) == 8
    assert tab.complaints() == []
    assert {address.split(":")[0] for address in tab.requests()} == {"file", "blob"}


def test_frames_contain_their_boxes_and_rails_are_aligned(opened):
    tab = opened(NESTED)
    boxes = tab.js(
        """JSON.stringify([...document.querySelectorAll('.box')].map(e => {
             const card = e.querySelector(':scope > .card').getBoundingClientRect();
             const outer = e.parentNode.closest('.box');
             const around = outer && outer.querySelector(':scope > .card').getBoundingClientRect();
             return [card, around];
           }))"""
    )
    for card, around in json.loads(boxes):
        if around:
            assert around["left"] < card["left"]
            assert card["right"] < around["right"]
            assert around["top"] < card["top"]
            assert card["bottom"] < around["bottom"]
    chips = tab.js(
        """JSON.stringify([...document.querySelectorAll('.box.loop')].map(e =>
             [...e.querySelectorAll(':scope > [data-end] > .chip')].map(c => {
               const at = c.getBoundingClientRect();
               return [Math.round(at.left), Math.round(at.right), at.top];
             })))"""
    )
    for rails in json.loads(chips):
        assert len({left for left, _, _ in rails}) == 2  # a left rail and a right one
    outer = json.loads(chips)[0]
    tops = [top for *_, top in outer]
    assert abs(tops[2] - tops[3]) < 0.5  # total enters and leaves in one row


def test_back_edges_do_not_cross_the_body(opened):
    tab = opened(NESTED)
    lanes = json.loads(
        tab.js(
            """JSON.stringify([...document.querySelectorAll('#world .wire.back')].map(p => {
                 const frame = p.closest('.box');
                 const inner = frame.querySelector(':scope > [role=group] .card');
                 const title = frame.querySelector('.fold text').getBoundingClientRect();
                 return [title.bottom, p.getBoundingClientRect().top, inner.getBoundingClientRect().top];
               }))"""
        )
    )
    assert len(lanes) == 2
    for title, lane, body in lanes:
        assert title < lane < body


def test_a_value_that_only_passes_through_stays_in_its_frame(opened):
    tab = opened(EXAMPLES / "fitzhugh_nagumo" / "model.yaml")
    frame = element_box(tab, ".box.loop > .card")
    wires = json.loads(
        tab.js(
            "JSON.stringify([...document.querySelectorAll('.box.loop .wire')]"
            ".map(p => p.getBoundingClientRect()))"
        )
    )
    for wire in wires:
        assert frame["top"] < wire["y"]
        assert wire["y"] + wire["height"] < frame["y"] + frame["height"]


def test_rows_are_wrapped_in_a_group_whose_ports_stay_in_line(opened, tmp_path):
    tab = opened(write(tmp_path / "encoder.onnx", 13))
    assert tab.js(VISIBLE_BOXES) == 15
    box = element_box(tab, ".box.group .fold")
    tab.click(box["x"] + 20, box["y"] + 8)
    assert tab.js(VISIBLE_BOXES) > 25
    ends = json.loads(tab.js(WIRES_PER_PORT))
    assert min(ends) >= 1
    blocks = tab.js(
        "new Set([...document.querySelectorAll('.box.group[aria-expanded=true] .box')]"
        ".map(e => Math.round(e.getBoundingClientRect().bottom / 60))).size"
    )
    assert blocks > 2  # in several rows


# --- folding ------------------------------------------------------------------------------------


def test_a_click_folds_a_frame_in_place(opened):
    tab = opened(NESTED)
    box_before, box_count = element_box(tab, f"{FRAME} > .card"), tab.js(VISIBLE_BOXES)
    tab.click(box_before["x"] + 40, box_before["y"] + 12)
    box_after = element_box(tab, f"{FRAME} > .card")
    assert tab.js(VISIBLE_BOXES) == 4 < box_count
    assert (box_after["x"], box_after["y"]) == pytest.approx(
        (box_before["x"], box_before["y"]), abs=1
    )
    assert "7 boxes inside" not in tab.js("document.querySelector('.fold text.title').textContent")
    tab.click(box_after["x"] + 40, box_after["y"] + 12)
    box_after = element_box(tab, f"{FRAME} > .card")
    assert tab.js(VISIBLE_BOXES) == box_count
    assert (box_after["x"], box_after["y"]) == pytest.approx(
        (box_before["x"], box_before["y"]), abs=1
    )


def test_all_frames_are_opened_and_folded_by_buttons(opened):
    tab = opened(NESTED)
    for button, box_count in (("fold", 4), ("unfold", 8)):
        box = element_box(tab, f"#{button}")
        tab.click(box["midx"], box["midy"])
        assert tab.js(VISIBLE_BOXES) == box_count


# --- keyboard and screen readers ----------------------------------------------------------------


def test_a_screen_reader_has_a_tree_of_boxes(opened):
    tab = opened(NESTED)
    entries = tree(tab)
    assert [1, "true", "loop, for i in range(M=n), 4 inside"] in entries
    assert [4, None, "node, cell, subtotal_next = subtotal + i * j, go_on = True"] in entries
    assert tab.js("document.querySelector('svg').getAttribute('role')") == "tree"
    assert tab.js("document.querySelectorAll('[role=treeitem][tabindex=\"0\"]').length") == 1
    named = tab.js(
        "[...document.querySelectorAll('button, input')].every(e => e.textContent || e.ariaLabel || e.labels.length)"
    )
    assert named


def test_keys_move_between_boxes(opened):
    tab = opened(NESTED)
    label = "document.activeElement.getAttribute('aria-label')"
    tab.js("document.querySelector('[role=treeitem][tabindex=\"0\"]').focus()")
    tab.key("Home")
    assert tab.js(label) == "input, n = 5"
    tab.key("ArrowDown")
    assert tab.js(label) == "loop, for i in range(M=n), 4 inside"
    tab.key("ArrowLeft")  # fold
    assert tab.js(VISIBLE_BOXES) == 4
    assert tab.js(label) == "loop, for i in range(M=n), 4 inside"  # the focus stays
    tab.key("ArrowRight")  # open
    assert tab.js(VISIBLE_BOXES) == 8
    tab.key("ArrowRight")  # go in
    assert tab.js(label).startswith("node, row")
    tab.key("ArrowLeft")
    assert tab.js(VISIBLE_BOXES) == 5
    tab.key(" ")
    assert tab.js(VISIBLE_BOXES) == 8
    tab.key("Enter")
    assert tab.js("document.querySelector('#details h2').textContent") == "row"
    tab.key("Escape")
    assert tab.js("document.querySelector('#details').hidden")


def test_keys_zoom_and_fit(opened):
    tab = opened(NESTED)
    first = scale(tab)
    tab.key("+")
    assert scale(tab) == pytest.approx(first * 1.25)
    tab.key("0")
    assert scale(tab) == pytest.approx(first)
    tab.key("?")
    legend = tab.js("document.querySelector('#legend').innerText")
    assert "trip count" in legend
    assert "recorded, one row per iteration" in legend
    assert "chooses the branch" not in legend
    assert "https://github.com/kieler/elkjs" in legend


# --- mouse --------------------------------------------------------------------------------------


def test_the_wheel_zooms_at_the_pointer(opened):
    tab = opened(NESTED)
    box_before, size = element_box(tab, f"{FRAME} > .card"), scale(tab)
    tab.pointer("mouseWheel", box_before["x"], box_before["y"], deltaX=0, deltaY=-200)
    tab.wait(f"document.querySelector('#world').getScreenCTM().a > {size} * 1.2")
    box_after = element_box(tab, f"{FRAME} > .card")
    assert (box_after["x"], box_after["y"]) == pytest.approx(
        (box_before["x"], box_before["y"]), abs=1
    )


def test_dragging_moves_the_picture_without_selection(opened):
    tab = opened(NESTED)
    box_before = element_box(tab, f"{FRAME} > .card")
    tab.pointer(
        "mousePressed", box_before["midx"], box_before["y"] + 60, button="left", clickCount=1
    )
    for step in (10, 30, 50):
        tab.pointer(
            "mouseMoved", box_before["midx"] + step, box_before["y"] + 60 + step, button="left"
        )
    tab.pointer(
        "mouseReleased", box_before["midx"] + 50, box_before["y"] + 110, button="left", clickCount=1
    )
    box_after = element_box(tab, f"{FRAME} > .card")
    assert (box_after["x"], box_after["y"]) == pytest.approx(
        (box_before["x"] + 50, box_before["y"] + 50), abs=1
    )
    assert tab.js("document.querySelector('#details').hidden")


def test_wires_of_one_value_are_highlighted_across_frames(opened):
    tab = opened(NESTED)
    number = tab.js(
        "[...document.querySelectorAll('.box.loop > [data-end]')]"
        ".find(e => e.textContent.startsWith('i0, 1')).dataset.end"
    )
    box = element_box(tab, f"[data-end='{number}']")
    tab.pointer("mouseMoved", box["midx"], box["midy"])
    tab.wait("document.querySelectorAll('.lit > .wire').length")
    # from the outer i: into the node, to the trip count of the inner loop, to what it captures, to cell
    assert tab.js("document.querySelectorAll('.lit > .wire').length") == 4
    tooltip = tab.js("document.querySelector('#tip').innerText")
    assert "for i in range(M=n) · i" in tooltip
    assert "cell · i" in tooltip


def test_details_of_a_box(opened):
    tab = opened(NESTED)
    box = element_box(tab, ".box.node")
    tab.click(box["midx"], box["y"] + 10)
    details = tab.js("document.querySelector('#details').innerText")
    for text in ("cell", "subtotal_next = subtotal + i * j", "i: int64[]", ".nodes['cell']"):
        assert text in details


# --- search, links ------------------------------------------------------------------------------


def test_search_opens_and_shows_hits(opened):
    tab = opened(NESTED)
    tab.js("document.querySelector('#fold').click()")
    tab.settled()
    assert tab.js(VISIBLE_BOXES) == 4
    tab.key("/")
    tab.type("go_on = true")
    tab.wait("document.querySelector('#found').textContent.includes(' of ')")
    tab.settled()
    assert tab.js(VISIBLE_BOXES) == 8
    assert tab.js(
        "[...document.querySelectorAll('.hit.node')].map(e => e.ariaLabel).join()"
    ).startswith("node, cell")
    assert scale(tab) >= 0.9
    hit = element_box(tab, ".hit")
    assert 0 < hit["x"] < 1400
    assert 0 < hit["y"] < 900
    hit_count = tab.js("document.querySelector('#found').textContent")
    assert hit_count == "1 of 2 found"
    tab.key("Enter")
    tab.wait("document.querySelector('#found').textContent === '2 of 2 found'")
    tab.key("Escape")
    assert tab.js("document.querySelectorAll('.hit').length") == 0


def test_a_link_restores_open_and_selected_boxes(opened):
    tab = opened(NESTED)
    box = element_box(tab, ".box.node")
    tab.click(box["midx"], box["y"] + 10)
    outer = element_box(tab, ".box.owner > .card")
    tab.click(outer["x"] + 30, outer["y"] + 10)
    behind = tab.js("location.hash")
    assert behind.startswith("#fold=")
    second_tab = opened(NESTED, behind.replace("&box", "&other"))
    assert second_tab.js(VISIBLE_BOXES) == 5
    second_link_tab = opened(NESTED, "#" + behind.split("&")[1])
    assert second_link_tab.js("document.querySelector('#details h2').textContent") == "cell"
    invalid_link_tab = opened(NESTED, "#open=99999.x.1.3&fold=__proto__&box=constructor")
    assert invalid_link_tab.js(VISIBLE_BOXES) == 8
    assert invalid_link_tab.complaints() == []


# --- export of the page -------------------------------------------------------------------------


def test_the_picture_is_saved_as_svg(opened):
    tab = opened(NESTED)
    tab.js("URL.createObjectURL = blob => { window.saved = blob; return 'blob:none' }")
    tab.js("HTMLAnchorElement.prototype.click = function () { window.called = this.download }")
    tab.js("document.querySelector('#save').click()")
    text = tab.js("window.saved.text()")
    assert tab.js("window.called") == "triangular.svg"
    assert text.startswith("<svg")
    assert "var(--" not in text
    assert "light-dark" not in text
    assert tab.js(
        f"!new DOMParser().parseFromString({json.dumps(text)}, 'image/svg+xml')"
        ".querySelector('parsererror, script')"
    )


def test_print_has_the_whole_picture_without_buttons(opened):
    tab = opened(NESTED)
    tab.key("+")
    assert tab.paper().startswith(b"%PDF")
    tab.js("dispatchEvent(new Event('beforeprint'))")
    tab.media(media="print", prefers_color_scheme="dark")
    assert tab.js("getComputedStyle(document.querySelector('#bar')).display") == "none"
    assert tab.js("getComputedStyle(document.documentElement).colorScheme") == "light"
    picture, content_box = element_box(tab, "#picture"), element_box(tab, "#world")
    assert picture["x"] <= content_box["x"]
    assert content_box["x"] + content_box["width"] <= picture["x"] + picture["width"]
    tab.js("dispatchEvent(new Event('afterprint'))")
    assert tab.js("document.querySelector('#picture').getAttribute('viewBox')") is None


def test_dark_mode_and_its_button(opened):
    tab = opened(NESTED, media={"prefers_color_scheme": "dark"})
    paper = "getComputedStyle(document.body).backgroundColor"
    assert tab.js(paper) == "rgb(13, 17, 23)"
    tab.js("document.querySelector('#theme').click()")
    assert tab.js(paper) == "rgb(255, 255, 255)"
    bright = opened(NESTED, media={"prefers_color_scheme": "light"})
    assert bright.js(paper) == "rgb(255, 255, 255)"


COUNT_LAYOUTS = """
    window.layouts = 0;
    window.pauses = [];
    const post = Worker.prototype.postMessage;
    window.wait = window.setTimeout;
    Worker.prototype.postMessage = function (message) {
      if (message.cmd === "layout") window.layouts += 1;
      return post.call(this, message);
    };
    window.setTimeout = (then, ms, ...more) =>
      ms < 500 ? wait(then, ms, ...more) : window.pauses.push(then);
"""


def test_the_layout_is_warmed_up_until_the_first_action(opened):
    tab = opened(NESTED)
    tab.call("Page.addScriptToEvaluateOnNewDocument", source=COUNT_LAYOUTS)
    tab.call("Page.reload")
    for layouts in (1, 2):
        tab.wait("window.pauses?.length === 1")
        assert tab.js("window.layouts") == layouts
        markup = tab.js("document.querySelector('#world').innerHTML")
        tab.js("window.pauses.shift()()")
    tab.wait("window.layouts === 3")
    assert tab.js("document.querySelector('#world').innerHTML") == markup
    assert tab.js("window.pauses.length") == 0
    tab.call("Page.reload")
    tab.wait("window.pauses?.length === 1 && window.layouts === 1")
    tab.js("document.querySelector('#fold').click()")
    tab.settled()
    tab.js("window.pauses.shift()()")
    assert tab.js("new Promise((done) => wait(() => done(window.layouts), 50))") == 2


def test_picture_without_scripts(opened, browser):
    tab = opened(Page(outline(NESTED)).html("<svg xmlns='http://www.w3.org/2000/svg'/>"))
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.call("Page.reload")
    time.sleep(1)
    tab.call("Emulation.setScriptExecutionDisabled", value=False)
    assert tab.js("document.querySelector('noscript img').alt") == "triangular"


def test_a_notebook_shows_the_page_in_a_frame(opened):
    drawing = Page(outline(NESTED)).notebook_html()
    page = f"<!doctype html><meta charset='utf-8'><body data-ready='yes'>{drawing}"
    tab = opened(page)
    assert tab.js("document.querySelector('iframe').contentDocument") is None  # shut off
    assert tab.in_frame(VISIBLE_BOXES) == 8
