"""Write the source folder from which Sphinx builds the site."""

from __future__ import annotations

import shutil
from pathlib import Path

from docs.site.api import api_pages
from docs.site.gallery import GALLERY, entries, example_page, gallery
from docs.site.pages import RENAMED, ROOT, contents, notebook, page, section_pages, site_path
from docs.site.pictures import pictures_page

FRONT = {
    "Learn": ["Tutorial <tutorial.md>", "notebooks/index.md", "examples/index.md", "pictures.md"],
    "Use": ["tasks/index.md", "how-to/index.md", "reference/index.md", "api/index.md"],
    "Understand": ["explanation/index.md", "Benchmarks <benchmarks.md>"],
    "Project": ["changes.md", "contributing.md"],
}
"""Entries of the site's side bar by heading."""


def documents() -> list[str]:
    """Return the Markdown files that become pages unchanged, without the READMEs of examples."""
    paths = [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / name for name in RENAMED if name.endswith(".md")),
    ]
    names = sorted(path.relative_to(ROOT).as_posix() for path in paths)
    return [name for name in names if name != "docs/index.md" and site_path(name)]


def write_source(source: Path) -> None:
    """Write all pages and copy the files that they show.

    Args:
        source: Folder that is empty or does not exist.
    """
    for name in documents():
        _write(source, *page(name))
    for target, text in (*section_pages(), *api_pages()):
        _write(source, target, text)
    _copy_files(source)
    pages = {}
    for _, name, _ in entries():
        target, pages[name] = example_page(name, source)
        _write(source, target, pages[name])
    _write(source, GALLERY, gallery(pages))
    _write(source, "pictures.md", pictures_page(source))
    with (source / "index.md").open("a", encoding="utf-8") as front:
        front.writelines("\n" + contents(names, caption=title) for title, names in FRONT.items())


def _write(source: Path, target: str, text: str) -> None:
    path = source / target
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _copy_files(source: Path) -> None:
    """Copy the files that are not pages: pictures, notebooks and the files of examples."""
    folders = (ROOT / "docs", ROOT / "examples")
    names = [p.relative_to(ROOT).as_posix() for f in folders for p in f.rglob("*") if p.is_file()]
    for name in [*names, *(name for name in RENAMED if not name.endswith(".md"))]:
        target = site_path(name)
        if target is None or target.endswith(".md"):
            continue
        if target.endswith(".ipynb"):
            _write(source, *notebook(name))
        else:
            (source / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / target)
