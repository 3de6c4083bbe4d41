"""Generate the pages of the examples with their models and scripts, and a gallery of their pictures."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from docs.site.pages import ROOT, contents, page

GALLERY = "examples/index.md"
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
_ENTRY = re.compile(r"^- \[([^\]]+)\]\(\.\./examples/(\w+)/README\.md\): (.*)$", re.MULTILINE)

_CARD = """\
:::{{grid-item-card}} {title}
:link: {name}
:link-type: doc
:img-top: {picture}

{description}
:::
"""


def entries() -> list[tuple[str, str, str]]:
    """Return title, folder and description of each example in docs/index.md."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    return [match.groups() for match in _ENTRY.finditer(text)]


def example_page(name: str, source: Path) -> tuple[str, str]:
    """Return path and text of the page of an example, and draw its model if the page has no picture.

    Args:
        name: Folder of the example.
        source: Folder with the source files of the site.
    """
    from mdf_loop.drawing import draw

    target, text = page(f"examples/{name}/README.md")
    if _PICTURE.search(text) is None:
        picture = source / "images" / "examples" / f"{name}.svg"
        picture.parent.mkdir(parents=True, exist_ok=True)
        model = ROOT / "examples" / name / "model.yaml"
        draw(model, picture, over_time="onnx::Loop" not in model.read_text(encoding="utf-8"))
        text += f"\n## The picture\n\n![The model](../images/examples/{name}.svg)\n"
    files = f"files/{name}"
    return target, (
        f"{text}\n## The files\n\n"
        f"```{{literalinclude}} {files}/run.py\n:language: python\n:caption: run.py\n```\n\n"
        f":::{{dropdown}} model.yaml\n```{{literalinclude}} {files}/model.yaml\n:language: yaml\n```\n:::\n"
    )


def grid(cards: Iterable[str]) -> str:
    """Return a grid of cards."""
    return "::::{grid} 1 2 2 3\n:gutter: 3\n\n" + "\n".join(cards) + "::::\n"


def gallery(pages: dict[str, str]) -> str:
    """Return the page with the pictures of all examples.

    Args:
        pages: Texts of the example pages by folder.
    """
    cards = []
    for title, name, description in entries():
        picture = _PICTURE.search(pages[name])
        assert picture is not None
        cards.append(
            _CARD.format(title=title, name=name, picture=picture[1], description=description)
        )
    return (
        "# Examples\n\nEach is a model, a script that runs it, and a page.\n\n"
        + grid(cards)
        + "\n"
        + contents([f"{name}.md" for _, name, _ in entries()])
    )
