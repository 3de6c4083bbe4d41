"""Names with markup, properties, directions or commands, which a page displays as texts."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from mdf_loop.drawing.page import Page
from mdf_loop.outline import outline

NAMES = (
    "</script><script>document.title='PWNED'</script>",
    "<img src=x onerror=document.title='PWNED'>",
    "<!--<svg onload=document.title='PWNED'>",
    "__proto__",
    "constructor",
    "toString",
    "]]>&quot;&lt;",
    "javascript:document.title='PWNED'",
    "@SCRIPT@ @DATA@",
    "\u202egnp.exe\u2066",
    "a\u0000b\u001b[2Jc\u0085\u2028d\u2029",
    "\ud7ff\ufeff\u200b\u00ad",
    "שלום",
    "n" * 10_000,
    "\U0001f9e0" * 50,
    "'\"`${document.title='PWNED'}",
)
ACTING = [*map(chr, range(32)), *"\u202e\u2066\u2028\u2029\u200b\ufeff\u0085"]


def hostile() -> dict:
    """Return a model of a chain of nodes, in which all names are hostile."""
    nodes = {
        name: {
            "input_ports": {name: {"default_value": 1.0}},
            "parameters": {"p": {"value": 2.0}},
            "output_ports": {name: {"value": "p * 2"}},
        }
        for name in NAMES
    }
    edges = {
        f"{a[:50]}{k}": {"sender": a, "receiver": b, "sender_port": a, "receiver_port": b}
        for k, (a, b) in enumerate(pairwise(NAMES))
    }
    return {NAMES[0]: {"nodes": nodes, "edges": edges}}


def test_the_data_have_no_active_characters():
    page = Page(outline(hostile()))
    text = json.dumps(page.data(), ensure_ascii=False)
    assert not [repr(c) for c in ACTING if c in text]
    html = page.html()
    assert html.count("</script>") == 3
    assert "<img src=x" not in html
    assert "\\u003c/script\\u003e" in html


def test_long_names_are_shortened():
    node = {"parameters": {"v": {"value": 1.0}}, "output_ports": {"out": {"value": "v"}}}
    name = "n" * 1_000_000
    assert len(json.dumps(Page(outline({name: {"nodes": {name: node}}})).data())) < 50_000


@pytest.mark.slow
def test_hostile_names_are_texts_in_the_browser(opened):
    tab = opened(hostile())
    assert tab.js("document.title").startswith("</script><script>")
    assert tab.js("document.querySelectorAll('.box.node').length") == len(NAMES)
    assert tab.js("document.querySelectorAll('#world script, #world img, #world svg').length") == 0
    page_text = tab.js("document.querySelector('#world').textContent")
    for name in NAMES[:8]:
        assert name[:10] in page_text
    assert not [repr(c) for c in ACTING if c in page_text]


@pytest.mark.slow
def test_hostile_names_are_texts_in_all_panels(opened):
    tab = opened(hostile())
    for name in ("__proto__", "constructor", "<img src=x"):
        tab.js(f"document.querySelector('#query').value = {json.dumps(name)}")
        tab.js("document.querySelector('#query').dispatchEvent(new Event('input'))")
        tab.wait("document.querySelector('#found').textContent.includes('of')")
        assert tab.js("document.querySelectorAll('.hit').length") >= 1
        tab.js("document.querySelector('#found').textContent = ''")
    for k in range(len(NAMES)):
        node = f"document.querySelectorAll('.box.node')[{k}]"
        tab.js(f"{node}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
        tab.js(f"{node}.dispatchEvent(new PointerEvent('pointerover', {{bubbles: true}}))")
        assert tab.js("document.querySelector('#details').hidden") is False
    elements = "document.querySelectorAll('#details *, #tip *')"
    kinds = tab.js(f"[...new Set([...{elements}].map(e => e.localName))].sort().join()")
    assert kinds == "button,dd,dl,dt,h2"
    assert "PWNED" not in tab.js("document.title").replace(NAMES[0], "")
    assert tab.js("Object.keys(Object.prototype).length") == 0
    assert tab.complaints() == []
    assert {address.split(":")[0] for address in tab.requests()} == {"file", "blob"}
