"""Pages in a real Chromium: what is seen, and what mouse and keyboard do."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from mdf_loop.drawing.page import Page
from mdf_loop.outline import outline
from tests.drawing.page.conftest import place
from tests.drawing.page.large import write

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[3] / "examples"
NESTED = EXAMPLES / "nested_triangular" / "model.yaml"
FRAME = ".box.loop"
SEEN = "document.querySelectorAll('.box').length"


MET = """JSON.stringify((() => {
  const ends = [...document.querySelectorAll('#world .wire')].flatMap(path =>
    [0, path.getTotalLength()].map(at => path.getPointAtLength(at).matrixTransform(path.getScreenCTM())));
  return [...document.querySelectorAll('.box.group > [data-end] > .chip')].map(chip => {
    const {left, right, top, bottom} = chip.getBoundingClientRect();
    const isMet = ({x, y}) => Math.abs(y - (top + bottom) / 2) < 1.5 &&
      Math.min(Math.abs(x - left), Math.abs(x - right)) < 1.5;
    return ends.filter(isMet).length;
  });
})())"""
"""How many wires meet each port of a group."""


def tree(tab):
    """The boxes as a screen reader has them: level, whether open, label."""
    return json.loads(
        tab.js(
            "JSON.stringify([...document.querySelectorAll('[role=treeitem]')].map(e => ["
            "Number(e.getAttribute('aria-level')), e.getAttribute('aria-expanded'),"
            "e.getAttribute('aria-label')]))"
        )
    )


def scale(tab):
    """How large a point of the picture is on the screen."""
    return tab.js("document.querySelector('#world').getScreenCTM().a")


# --- layout -------------------------------------------------------------------------------------


def test_a_page_is_laid_out_and_asks_for_nothing(opened):
    tab = opened(NESTED)
    assert tab.js("document.body.dataset.ready") == "yes"
    assert tab.js("document.title") == "triangular"
    assert tab.js(SEEN) == 8
    assert tab.complaints() == []
    assert {address.split(":")[0] for address in tab.requests()} == {"file", "blob"}


def test_frames_hold_their_boxes_and_rails_are_in_line(opened):
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


def test_back_edges_leave_the_body_free(opened):
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
    frame = place(tab, ".box.loop > .card")
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
    assert tab.js(SEEN) == 15
    at = place(tab, ".box.group .fold")
    tab.click(at["x"] + 20, at["y"] + 8)
    assert tab.js(SEEN) > 25
    ends = json.loads(tab.js(MET))
    assert min(ends) >= 1
    blocks = tab.js(
        "new Set([...document.querySelectorAll('.box.group[aria-expanded=true] .box')]"
        ".map(e => Math.round(e.getBoundingClientRect().bottom / 60))).size"
    )
    assert blocks > 2  # in several rows


# --- folding ------------------------------------------------------------------------------------


def test_a_frame_is_folded_by_a_click_and_stays_where_it_is(opened):
    tab = opened(NESTED)
    before, whole = place(tab, f"{FRAME} > .card"), tab.js(SEEN)
    tab.click(before["x"] + 40, before["y"] + 12)
    after = place(tab, f"{FRAME} > .card")
    assert tab.js(SEEN) == 4 < whole
    assert (after["x"], after["y"]) == pytest.approx((before["x"], before["y"]), abs=1)
    assert "7 boxes inside" not in tab.js("document.querySelector('.fold text.title').textContent")
    tab.click(after["x"] + 40, after["y"] + 12)
    again = place(tab, f"{FRAME} > .card")
    assert tab.js(SEEN) == whole
    assert (again["x"], again["y"]) == pytest.approx((before["x"], before["y"]), abs=1)


def test_all_frames_are_opened_and_folded_by_buttons(opened):
    tab = opened(NESTED)
    for button, seen in (("fold", 4), ("unfold", 8)):
        at = place(tab, f"#{button}")
        tab.click(at["midx"], at["midy"])
        assert tab.js(SEEN) == seen


# --- keyboard and screen readers ----------------------------------------------------------------


def test_a_screen_reader_has_a_tree_of_boxes(opened):
    tab = opened(NESTED)
    found = tree(tab)
    assert [1, "true", "loop, for i in range(M=n), 4 inside"] in found
    assert [4, None, "node, cell, subtotal_next = subtotal + i * j, go_on = True"] in found
    assert tab.js("document.querySelector('svg').getAttribute('role')") == "tree"
    assert tab.js("document.querySelectorAll('[role=treeitem][tabindex=\"0\"]').length") == 1
    named = tab.js(
        "[...document.querySelectorAll('button, input')].every(e => e.textContent || e.ariaLabel || e.labels.length)"
    )
    assert named


def test_boxes_are_walked_through_by_keys(opened):
    tab = opened(NESTED)
    label = "document.activeElement.getAttribute('aria-label')"
    tab.js("document.querySelector('[role=treeitem][tabindex=\"0\"]').focus()")
    tab.key("Home")
    assert tab.js(label) == "input, n = 5"
    tab.key("ArrowDown")
    assert tab.js(label) == "loop, for i in range(M=n), 4 inside"
    tab.key("ArrowLeft")  # fold
    assert tab.js(SEEN) == 4
    assert tab.js(label) == "loop, for i in range(M=n), 4 inside"  # the focus stays
    tab.key("ArrowRight")  # open
    assert tab.js(SEEN) == 8
    tab.key("ArrowRight")  # go in
    assert tab.js(label).startswith("node, row")
    tab.key("ArrowLeft")
    assert tab.js(SEEN) == 5
    tab.key(" ")
    assert tab.js(SEEN) == 8
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


# --- the hand -----------------------------------------------------------------------------------


def test_the_wheel_zooms_where_the_pointer_is(opened):
    tab = opened(NESTED)
    before, size = place(tab, f"{FRAME} > .card"), scale(tab)
    tab.pointer("mouseWheel", before["x"], before["y"], deltaX=0, deltaY=-200)
    tab.wait(f"document.querySelector('#world').getScreenCTM().a > {size} * 1.2")
    after = place(tab, f"{FRAME} > .card")
    assert (after["x"], after["y"]) == pytest.approx((before["x"], before["y"]), abs=1)


def test_the_picture_is_pulled_by_the_hand_and_nothing_is_chosen(opened):
    tab = opened(NESTED)
    before = place(tab, f"{FRAME} > .card")
    tab.pointer("mousePressed", before["midx"], before["y"] + 60, button="left", clickCount=1)
    for step in (10, 30, 50):
        tab.pointer("mouseMoved", before["midx"] + step, before["y"] + 60 + step, button="left")
    tab.pointer(
        "mouseReleased", before["midx"] + 50, before["y"] + 110, button="left", clickCount=1
    )
    after = place(tab, f"{FRAME} > .card")
    assert (after["x"], after["y"]) == pytest.approx((before["x"] + 50, before["y"] + 50), abs=1)
    assert tab.js("document.querySelector('#details').hidden")


def test_the_wires_of_one_value_light_up_across_frames(opened):
    tab = opened(NESTED)
    number = tab.js(
        "[...document.querySelectorAll('.box.loop > [data-end]')]"
        ".find(e => e.textContent.startsWith('i0, 1')).dataset.end"
    )
    at = place(tab, f"[data-end='{number}']")
    tab.pointer("mouseMoved", at["midx"], at["midy"])
    tab.wait("document.querySelectorAll('.lit > .wire').length")
    # from the outer i: into the node, to the trip count of the inner loop, to what it captures, to cell
    assert tab.js("document.querySelectorAll('.lit > .wire').length") == 4
    said = tab.js("document.querySelector('#tip').innerText")
    assert "for i in range(M=n) · i" in said
    assert "cell · i" in said


def test_details_say_all_of_a_box(opened):
    tab = opened(NESTED)
    at = place(tab, ".box.node")
    tab.click(at["midx"], at["y"] + 10)
    said = tab.js("document.querySelector('#details').innerText")
    for text in ("cell", "subtotal_next = subtotal + i * j", "i: int64[]", ".nodes['cell']"):
        assert text in said


# --- search, links ------------------------------------------------------------------------------


def test_search_opens_what_holds_a_hit_and_shows_it_so_that_it_can_be_read(opened):
    tab = opened(NESTED)
    tab.js("document.querySelector('#fold').click()")
    tab.settled()
    assert tab.js(SEEN) == 4
    tab.key("/")
    tab.type("go_on = true")
    tab.wait("document.querySelector('#found').textContent.includes(' of ')")
    tab.settled()
    assert tab.js(SEEN) == 8
    assert tab.js(
        "[...document.querySelectorAll('.hit.node')].map(e => e.ariaLabel).join()"
    ).startswith("node, cell")
    assert scale(tab) >= 0.9
    hit = place(tab, ".hit")
    assert 0 < hit["x"] < 1400
    assert 0 < hit["y"] < 900
    found = tab.js("document.querySelector('#found').textContent")
    assert found == "1 of 2 found"
    tab.key("Enter")
    tab.wait("document.querySelector('#found').textContent === '2 of 2 found'")
    tab.key("Escape")
    assert tab.js("document.querySelectorAll('.hit').length") == 0


def test_a_link_shows_what_was_open_and_chosen(opened):
    tab = opened(NESTED)
    at = place(tab, ".box.node")
    tab.click(at["midx"], at["y"] + 10)
    outer = place(tab, ".box.owner > .card")
    tab.click(outer["x"] + 30, outer["y"] + 10)
    behind = tab.js("location.hash")
    assert behind.startswith("#fold=")
    other = opened(NESTED, behind.replace("&box", "&other"))
    assert other.js(SEEN) == 5
    chosen = opened(NESTED, "#" + behind.split("&")[1])
    assert chosen.js("document.querySelector('#details h2').textContent") == "cell"
    odd = opened(NESTED, "#open=99999.x.1.3&fold=__proto__&box=constructor")
    assert odd.js(SEEN) == 8
    assert odd.complaints() == []


# --- out of the page ----------------------------------------------------------------------------


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


def test_paper_has_the_whole_picture_and_no_buttons(opened):
    tab = opened(NESTED)
    tab.key("+")
    assert tab.paper().startswith(b"%PDF")
    tab.js("dispatchEvent(new Event('beforeprint'))")
    tab.media(media="print", prefers_color_scheme="dark")
    assert tab.js("getComputedStyle(document.querySelector('#bar')).display") == "none"
    assert tab.js("getComputedStyle(document.documentElement).colorScheme") == "light"
    picture, world = place(tab, "#picture"), place(tab, "#world")
    assert picture["x"] <= world["x"]
    assert world["x"] + world["width"] <= picture["x"] + picture["width"]
    tab.js("dispatchEvent(new Event('afterprint'))")
    assert tab.js("document.querySelector('#picture').getAttribute('viewBox')") is None


def test_dark_is_dark_and_the_button_turns_it(opened):
    tab = opened(NESTED, media={"prefers_color_scheme": "dark"})
    paper = "getComputedStyle(document.body).backgroundColor"
    assert tab.js(paper) == "rgb(13, 17, 23)"
    tab.js("document.querySelector('#theme').click()")
    assert tab.js(paper) == "rgb(255, 255, 255)"
    bright = opened(NESTED, media={"prefers_color_scheme": "light"})
    assert bright.js(paper) == "rgb(255, 255, 255)"


COUNTED = """
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


def test_the_layout_is_rehearsed_until_something_is_asked_for(opened):
    tab = opened(NESTED)
    tab.call("Page.addScriptToEvaluateOnNewDocument", source=COUNTED)
    tab.call("Page.reload")
    for layouts in (1, 2):
        tab.wait("window.pauses?.length === 1")
        assert tab.js("window.layouts") == layouts
        seen = tab.js("document.querySelector('#world').innerHTML")
        tab.js("window.pauses.shift()()")
    tab.wait("window.layouts === 3")
    assert tab.js("document.querySelector('#world').innerHTML") == seen
    assert tab.js("window.pauses.length") == 0
    tab.call("Page.reload")
    tab.wait("window.pauses?.length === 1 && window.layouts === 1")
    tab.js("document.querySelector('#fold').click()")
    tab.settled()
    tab.js("window.pauses.shift()()")
    assert tab.js("new Promise((done) => wait(() => done(window.layouts), 50))") == 2


def test_without_scripts_there_is_a_picture(opened, browser):
    tab = opened(Page(outline(NESTED)).html("<svg xmlns='http://www.w3.org/2000/svg'/>"))
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.call("Page.reload")
    time.sleep(1)
    tab.call("Emulation.setScriptExecutionDisabled", value=False)
    assert tab.js("document.querySelector('noscript img').alt") == "triangular"


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(opened):
    drawing = Page(outline(NESTED)).in_place()
    page = f"<!doctype html><meta charset='utf-8'><body data-ready='yes'>{drawing}"
    tab = opened(page)
    assert tab.js("document.querySelector('iframe').contentDocument") is None  # shut off
    assert tab.in_frame(SEEN) == 8
