"""Where each document goes on the site, and its text there: links turned, names of files shown."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]

RENAMED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "LICENSE",
    "CITATION.cff": "CITATION.cff",
}
"""Files of the outermost folder that are part of the site."""

SECTIONS = {
    "all-tasks": "tasks/index.md",
    "how-to": "how-to/index.md",
    "reference": "reference/index.md",
    "explanation": "explanation/index.md",
    "examples": "examples/index.md",
    "notebooks": "notebooks/index.md",
}
"""The sections of docs/index.md, by their anchors, and their pages."""

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_NAMED = re.compile(r"^```(\w+) +([\w.-]+\.\w+)$", re.MULTILINE)
_TALKATIVE = re.compile(r"^```(\w+) +[^\n]*$", re.MULTILINE)


def place(path: str) -> str | None:
    """Where a file of the repository is on the site; None if it is not part of it."""
    match PurePosixPath(path).parts:
        case (name,):
            return RENAMED.get(name)
        case ("docs", "index.md"):
            return "how-to/index.md"
        case ("docs", "site" | "_build", *_):
            return None
        case ("docs", *rest) if rest[-1].endswith((".md", ".ipynb", ".svg", ".png")):
            return "/".join(rest)
        case ("examples", name, "README.md"):
            return f"examples/{name}.md"
        case ("examples", name, file):
            return f"examples/files/{name}/{file}"
    return None


def _turned(link: str, source: str, target: str) -> str | None:
    """Return the link of a document on its page, or None if the site does not have the target."""
    file, mark, anchor = link.partition("#")
    if link.startswith(("http://", "https://", "mailto:")) or not file:
        return link
    path = os.path.normpath(PurePosixPath(source).parent / file)
    to = place(path)
    if path == "docs/index.md" and anchor:
        to, mark, anchor = SECTIONS[anchor], "", ""
    if to is None:
        return None
    return os.path.relpath(to, PurePosixPath(target).parent) + mark + anchor


def turn_links(text: str, source: str, target: str) -> str:
    """Return a text whose links lead to pages of the site. Other links become words.

    Args:
        text: Markdown.
        source: the file it is from.
        target: the page it goes to.
    """

    def turned(match: re.Match[str]) -> str:
        link = _turned(match[3], source, target)
        return f"{match[1]}[{match[2]}]({link})" if link else match[2]

    pieces, end = [], 0
    for fence in _FENCE.finditer(text):
        pieces += [_LINK.sub(turned, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*pieces, _LINK.sub(turned, text[end:])])


def show_names(text: str) -> str:
    """Fenced blocks that become files have the file's name above them; other words go."""
    named = _NAMED.sub(r"```{code-block} \1\n:caption: \2\n", text)
    return _TALKATIVE.sub(lambda m: m[0] if m[0].startswith("```{") else f"```{m[1]}", named)


def page(source: str) -> tuple[str, str]:
    """Place and text of a document of the repository."""
    target = place(source)
    assert target is not None
    text = (ROOT / source).read_text(encoding="utf-8")
    return target, show_names(turn_links(text, source, target))


def notebook(source: str) -> tuple[str, str]:
    """Place and text of a notebook, whose links are those of its page."""
    target = place(source)
    assert target is not None
    content = json.loads((ROOT / source).read_text(encoding="utf-8"))
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            text = turn_links("".join(cell["source"]), source, target)
            cell["source"] = text.splitlines(keepends=True)
    return target, json.dumps(content)


def section_pages() -> Iterator[tuple[str, str]]:
    """Place and text of a page for each section of docs/index.md, without that of the examples."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, content = section.partition("\n")
        target = SECTIONS[title.lower().replace(" ", "-")]
        turned = turn_links(content, "docs/index.md", target)
        if target != SECTIONS["examples"]:
            yield target, f"# {title}\n{turned}\n{contents(linked(turned))}"


def linked(text: str) -> list[str]:
    """Return the pages that a text links to, without duplicates, in order."""
    links = (m[3].split("#")[0] for m in _LINK.finditer(text) if not m[1])
    return list(dict.fromkeys(link for link in links if link.endswith((".md", ".ipynb"))))


def contents(names: list[str], *, caption: str = "") -> str:
    """Return the table of contents for the side of the site."""
    head = f":caption: {caption}\n" if caption else ""
    return "```{toctree}\n:hidden:\n" + head + "\n" + "\n".join(names) + "\n```\n"
