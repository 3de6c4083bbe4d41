"""The page as one HTML text: nothing in it asks for anything from outside, and no name in it acts.

Names are JSON whose `<`, `>` and `&` are escapes, so none ends its element; the page's script makes texts
of them, never markup. The policy names the script and the styles by their hashes and forbids all else
but the worker that elkjs is.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

SOURCE = "https://github.com/kieler/elkjs"
ABOUT = (
    "Made by mdf-loop. Laid out by elkjs 0.12.1, unmodified, "
    f"under EPL-2.0 or GPL-3.0-or-later; its source is at {SOURCE}."
)
"""What the page says of itself."""

MOST_STILL = 400_000
"""Letters of a picture for readers without scripts; a larger one is left out, and the page says so."""


def page_html(data: dict[str, Any], svg: str) -> str:
    """The page of packed data; `svg` is a picture for readers without scripts, if there is one."""
    script, picture, style = _script(), _text("picture.css"), _text("page.css")
    parts = {
        "POLICY": _policy(script, picture, style),
        "TITLE": html.escape(data["title"]),
        "PICTURE_STYLE": picture,
        "PAGE_STYLE": style,
        "STATIC": _still(svg, data["title"]),
        "ELKJS": SOURCE,
        "DATA": _json(data | {"about": ABOUT}),
        "ELK": _worker(),
        "SCRIPT": script,
    }
    return re.sub("@([A-Z_]+)@", lambda found: parts[found[1]], _text("page.html"))


def in_frame(page: str) -> str:
    """A page inside of another one, from which it is shut off."""
    inner = html.escape(page)
    return (
        '<iframe sandbox="allow-scripts allow-downloads allow-modals" title="the model" '
        f'style="width: 100%; height: 520px; border: 1px solid #8884" srcdoc="{inner}"></iframe>'
    )


def _still(svg: str, title: str) -> str:
    """An image: as such a picture runs nothing, whatever stands in it."""
    if not svg or len(svg) > MOST_STILL:
        return "<p>This page needs scripts. Without them: mdf-loop draw, to a file named .svg.</p>"
    code = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{html.escape(title)}" src="data:image/svg+xml;base64,{code}">'


def _json(data: dict[str, Any]) -> str:
    """JSON that cannot leave its element."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(script: str, *styles: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {' '.join(map(_hash, styles))}",
            "worker-src blob:",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# --- what is in the package -----------------------------------------------------------------------


def _folder(name: str) -> Traversable:
    return files("mdf_loop.drawing.page") / name


@cache
def _text(name: str) -> str:
    return (_folder("app") / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    """All files of the script in the order of their names, in one scope of their own."""
    names = sorted(f.name for f in _folder("app").iterdir() if f.name.endswith(".js"))
    return '(() => {\n"use strict";\n' + "\n".join(map(_text, names)) + "\n})();"


@cache
def _worker() -> str:
    code = (_folder("elkjs") / "elk-worker.min.js").read_bytes()
    return base64.b64encode(gzip.compress(code, 9, mtime=0)).decode()
