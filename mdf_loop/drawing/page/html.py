"""HTML text of an interactive page, which loads no external files.

Names are JSON with escapes for `<`, `>` and `&`, so none of them ends its element. The script inserts them
as text, never as markup. The content security policy permits the script and the styles by their hashes,
and the worker of elkjs. All other content is forbidden.
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

ELKJS_URL = "https://github.com/kieler/elkjs"
CREDITS = (
    "Made by mdf-loop. Laid out by elkjs 0.12.1, unmodified, "
    f"under EPL-2.0 or GPL-3.0-or-later; its source is at {ELKJS_URL}."
)
"""Credits on the page."""

MAX_STATIC_SVG_LENGTH = 400_000
"""Maximum number of characters of the picture for readers without scripts. A larger picture is omitted."""


def page_html(content: dict[str, Any], svg: str) -> str:
    """Return the HTML text of an interactive page that displays the data `content`.

    `svg` is an optional picture for readers without scripts.
    """
    script, picture_style, page_style = (
        _read_scripts(),
        _read_text("picture.css"),
        _read_text("page.css"),
    )
    html_parts = {
        "POLICY": _content_security_policy(script, picture_style, page_style),
        "TITLE": html.escape(content["title"]),
        "PICTURE_STYLE": picture_style,
        "PAGE_STYLE": page_style,
        "STATIC": _static_image(svg, content["title"]),
        "ELKJS": ELKJS_URL,
        "DATA": _to_safe_json(content | {"about": CREDITS}),
        "ELK": _read_worker(),
        "SCRIPT": script,
    }
    return re.sub("@([A-Z_]+)@", lambda match: html_parts[match[1]], _read_text("page.html"))


def embed_in_frame(page: str) -> str:
    """Return an HTML `<iframe>` that shows a page inside another page in a sandbox."""
    escaped_page = html.escape(page)
    return (
        '<iframe sandbox="allow-scripts allow-downloads allow-modals" title="the model" '
        f'style="width: 100%; height: 520px; border: 1px solid #8884" srcdoc="{escaped_page}"></iframe>'
    )


def _static_image(svg: str, title: str) -> str:
    """Return an `<img>` element with the SVG picture of a model. Scripts in images cannot run."""
    if not svg or len(svg) > MAX_STATIC_SVG_LENGTH:
        return "<p>This page needs scripts. Without them: mdf-loop draw, to a file named .svg.</p>"
    encoded_svg = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{html.escape(title)}" src="data:image/svg+xml;base64,{encoded_svg}">'


def _to_safe_json(content: dict[str, Any]) -> str:
    """Format JSON without characters that could end the enclosing HTML element."""
    json_text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return json_text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _content_security_policy(script: str, *styles: str) -> str:
    """Return the content security policy of a page that permits only its own scripts and styles."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_policy_hash(script)}",
            f"style-src {' '.join(map(_policy_hash, styles))}",
            "worker-src blob:",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _policy_hash(text: str) -> str:
    """Return the hash by which a page's content security policy permits a script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# --- files of the package -------------------------------------------------------------------------


def _package_folder(name: str) -> Traversable:
    """Return a folder with the page's resource files in the installed package."""
    return files("mdf_loop.drawing.page") / name


@cache
def _read_text(name: str) -> str:
    """Return the text of one of the page's resource files."""
    return (_package_folder("app") / name).read_text(encoding="utf-8")


@cache
def _read_scripts() -> str:
    """Return the concatenated text of the page's script files, in alphabetical order."""
    script_names = sorted(
        file.name for file in _package_folder("app").iterdir() if file.name.endswith(".js")
    )
    return '(() => {\n"use strict";\n' + "\n".join(map(_read_text, script_names)) + "\n})();"


@cache
def _read_worker() -> str:
    """Return the script of elkjs's worker, compressed, as base64 text."""
    worker_script = (_package_folder("elkjs") / "elk-worker.min.js").read_bytes()
    return base64.b64encode(gzip.compress(worker_script, 9, mtime=0)).decode()
