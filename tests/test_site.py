"""The documentation site: every document has a page, links are valid, and Sphinx prints no warnings."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mdf_loop
from docs.site import pages
from docs.site.api import GROUPS
from docs.site.gallery import entries
from docs.site.layout import documents

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("README.md", "index.md"),
        ("docs/how-to/draw.md", "how-to/draw.md"),
        ("docs/images/native.svg", "images/native.svg"),
        ("examples/collatz/README.md", "examples/collatz.md"),
        ("examples/collatz/run.py", "examples/files/collatz/run.py"),
        ("pyproject.toml", None),
        ("docs/site/conf.py", None),
        ("mdf_loop/errors.py", None),
    ],
)
def test_paths_on_the_site(path, place):
    assert pages.site_path(path) == place


@pytest.mark.parametrize(
    ("link", "rewritten"),
    [
        ("[a](../how-to/draw.md#levels)", "[a](../how-to/draw.md#levels)"),
        ("[a](../../examples/collatz/README.md)", "[a](../examples/collatz.md)"),
        ("[a](../index.md#examples)", "[a](../examples/index.md)"),
        ("[a](#here)", "[a](#here)"),
        ("[a](https://mdf.org)", "[a](https://mdf.org)"),
        ("[a test](../../tests/test_docs.py)", "a test"),
        ("![p](../images/native.svg)", "![p](../images/native.svg)"),
        ("```text\n[a](../../x.md)\n```", "```text\n[a](../../x.md)\n```"),
    ],
)
def test_links_lead_to_pages_of_the_site(link, rewritten):
    text = pages.rewrite_links(link, "docs/reference/cli.md", "reference/cli.md")
    assert text == rewritten


def test_file_names_become_captions():
    assert pages.add_captions("```yaml a.yaml\nx: 1\n```\n") == (
        "```{code-block} yaml\n:caption: a.yaml\n\nx: 1\n```\n"
    )
    assert pages.add_captions("```python torch\n1\n```\n") == "```python\n1\n```\n"
    assert pages.add_captions("```text\na b\n```\n") == "```text\na b\n```\n"


def test_every_document_is_linked_from_a_section_page():
    targets = {place for place, _ in map(pages.page, documents())}
    linked = {
        (Path(place).parent / link).as_posix()
        for place, text in pages.section_pages()
        for link in pages.linked_pages(text)
    }
    front = {"index.md", "tutorial.md", "changes.md", "contributing.md", "benchmarks.md"}
    unreachable = {p for p in targets - front if p not in {_normal(link) for link in linked}}
    assert not unreachable, "link them from docs/index.md"


def _normal(path: str) -> str:
    return re.sub(r"[^/]+/\.\./", "", path)


def test_every_public_name_has_a_page():
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(mdf_loop.__all__)


def test_every_example_is_in_the_gallery():
    folders = {path.parent.name for path in ROOT.glob("examples/*/README.md")}
    assert {name for _, name, _ in entries()} == folders


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "docs.site", tmp_path / "html", "-D", "nb_execution_mode=off"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")
    front = (tmp_path / "html" / "index.html").read_text()
    assert 'href="how-to/index.html"' in front
    assert 'src="_images/decision.svg"' in front
    assert "fitzhugh_nagumo" in (tmp_path / "html" / "examples" / "index.html").read_text()
    assert "time_limit" in (tmp_path / "html" / "api" / "CompiledModel.html").read_text()
    page = (tmp_path / "html" / "pictures.html").read_text()
    files = sorted((tmp_path / "html" / "pictures").iterdir())
    assert [file.suffix for file in files].count(".svg") == 30
    assert [file.suffix for file in files].count(".html") == 6
    assert all(f'href="pictures/{file.name}"' in page for file in files)
    assert "Search.setIndex" in (tmp_path / "html" / "searchindex.js").read_text()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path):
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert not [cell for cell in code if cell["outputs"] or cell["execution_count"]]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_of_notebooks_are_valid(path):
    text = "".join(
        "".join(cell["source"])
        for cell in json.loads(path.read_text())["cells"]
        if cell["cell_type"] == "markdown"
    )
    links = re.findall(r"\]\(([^)#]+)", text)
    assert links
    assert not [link for link in links if not (path.parent / link).exists()]
