"""Convert documents of the repository to pages of the site: path, links and file names of code blocks."""

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
"""Files of the root folder that are part of the site, with their paths on the site."""

SECTIONS = {
    "all-tasks": "tasks/index.md",
    "how-to": "how-to/index.md",
    "reference": "reference/index.md",
    "explanation": "explanation/index.md",
    "examples": "examples/index.md",
    "notebooks": "notebooks/index.md",
}
"""Pages of the sections of docs/index.md by anchor."""

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_BLOCK_WITH_FILE_NAME = re.compile(r"^```(\w+) +([\w.-]+\.\w+)$", re.MULTILINE)
_BLOCK_WITH_WORDS = re.compile(r"^```(\w+) +[^\n]*$", re.MULTILINE)


def site_path(path: str) -> str | None:
    """Return the path of a repository file on the site, or None if the site excludes the file."""
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


def _rewrite_link(link: str, source: str, target: str) -> str | None:
    """Return the link of a document on its page, or None if the site does not have the target."""
    file, mark, anchor = link.partition("#")
    if link.startswith(("http://", "https://", "mailto:")) or not file:
        return link
    path = os.path.normpath(PurePosixPath(source).parent / file)
    to = site_path(path)
    if path == "docs/index.md" and anchor:
        to, mark, anchor = SECTIONS[anchor], "", ""
    if to is None:
        return None
    return os.path.relpath(to, PurePosixPath(target).parent) + mark + anchor


def rewrite_links(text: str, source: str, target: str) -> str:
    """Return a text whose links lead to pages of the site; links to other files become plain text.

    Args:
        text: Markdown.
        source: Path of the document in the repository.
        target: Path of the page on the site.
    """

    def rewritten(match: re.Match[str]) -> str:
        link = _rewrite_link(match[3], source, target)
        return f"{match[1]}[{match[2]}]({link})" if link else match[2]

    pieces, end = [], 0
    for fence in _FENCE.finditer(text):
        pieces += [_LINK.sub(rewritten, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*pieces, _LINK.sub(rewritten, text[end:])])


def add_captions(text: str) -> str:
    """Convert the file names of fenced blocks to captions, and remove other words after the language."""
    named = _BLOCK_WITH_FILE_NAME.sub(r"```{code-block} \1\n:caption: \2\n", text)
    return _BLOCK_WITH_WORDS.sub(lambda m: m[0] if m[0].startswith("```{") else f"```{m[1]}", named)


def page(source: str) -> tuple[str, str]:
    """Return path and text of the page of a document."""
    target = site_path(source)
    assert target is not None
    text = (ROOT / source).read_text(encoding="utf-8")
    return target, add_captions(rewrite_links(text, source, target))


def notebook(source: str) -> tuple[str, str]:
    """Return path and content of a notebook, with its links rewritten."""
    target = site_path(source)
    assert target is not None
    content = json.loads((ROOT / source).read_text(encoding="utf-8"))
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            text = rewrite_links("".join(cell["source"]), source, target)
            cell["source"] = text.splitlines(keepends=True)
    return target, json.dumps(content)


def section_pages() -> Iterator[tuple[str, str]]:
    """Yield path and text of a page for each section of docs/index.md except the examples."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, content = section.partition("\n")
        target = SECTIONS[title.lower().replace(" ", "-")]
        rewritten = rewrite_links(content, "docs/index.md", target)
        if target != SECTIONS["examples"]:
            yield target, f"# {title}\n{rewritten}\n{contents(linked_pages(rewritten))}"


def linked_pages(text: str) -> list[str]:
    """Return the pages that a text links to, without duplicates, in order."""
    links = (m[3].split("#")[0] for m in _LINK.finditer(text) if not m[1])
    return list(dict.fromkeys(link for link in links if link.endswith((".md", ".ipynb"))))


def contents(names: list[str], *, caption: str = "") -> str:
    """Return a hidden table of contents, which Sphinx shows in the side bar."""
    head = f":caption: {caption}\n" if caption else ""
    return "```{toctree}\n:hidden:\n" + head + "\n" + "\n".join(names) + "\n```\n"
