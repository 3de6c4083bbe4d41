"""File of a page: its size and content, and the third-party files of the package."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from mdf_loop.drawing import draw, picture
from mdf_loop.drawing.page import Page
from mdf_loop.errors import InputError
from mdf_loop.outline import outline
from tests.drawing.page.large import write

ROOT = Path(__file__).parents[3]
NESTED = ROOT / "examples" / "nested_triangular" / "model.yaml"
MAX_PAGE_BYTES = 750_000
"""Number of bytes of a page without its data."""


@pytest.fixture(scope="module")
def page() -> str:
    """Return the page of a small model."""
    return Page(outline(NESTED)).html()


@pytest.fixture(scope="module")
def vendor():
    """Return the script that downloads elkjs."""
    spec = importlib.util.spec_from_file_location("vendor", ROOT / ".ci" / "vendor.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def data_of(page: str) -> str:
    """Return the data of a page as text."""
    return re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1]


def test_a_page_without_its_data_is_small(page):
    assert len(page.encode()) - len(data_of(page)) <= MAX_PAGE_BYTES


def test_the_policy_forbids_everything_outside_the_page(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy
    addresses = re.findall(r'(?:src|href)="?([^">]*)', page.replace(policy, ""))
    assert all(address.startswith("data:") for address in addresses if address)


def test_the_page_credits_elkjs(page):
    assert "https://github.com/kieler/elkjs" in page
    assert "EPL-2.0 or GPL-3.0-or-later" in page


def test_elkjs_has_the_expected_hash(vendor):
    folder = files("mdf_loop.drawing.page") / "elkjs"
    assert "Eclipse Public License" in (folder / "LICENSE.md").read_text()
    code = (folder / "elk-worker.min.js").read_bytes()
    expected_hash = "dca3a19d9ec37f5634bf5876b4ebd2455c3f43f0d32570136c13c13edaba9bfb"
    assert hashlib.sha256(code).hexdigest() == expected_hash
    assert {Path(name).name for name in vendor.FILES} == {part.name for part in folder.iterdir()}


def test_a_changed_archive_is_refused(vendor):
    with pytest.raises(
        SystemExit, match=r"elkjs@0\.12\.1 has an unexpected checksum: its sha512 is z4Ph"
    ):
        vendor.verify_checksum(b"")


def test_a_wheel_has_the_files_of_the_page():
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    names = {file.distribution_path for file in builder.recurse_included_files()}
    page_folder = ROOT / "mdf_loop" / "drawing" / "page"
    page_files = {
        str(path.relative_to(ROOT))
        for path in (*page_folder.glob("app/*"), *page_folder.glob("elkjs/*"))
    }
    assert len(page_files) > 10
    assert page_files <= names


def test_a_page_is_reproducible(page):
    assert Page(outline(NESTED)).html() == page


def test_draw_writes_a_page_with_a_picture_for_readers_without_scripts(tmp_path):
    draw(NESTED, tmp_path / "model.html")
    text = (tmp_path / "model.html").read_text()
    assert text.startswith("<!doctype html>")
    assert '<noscript><img alt="triangular" src="data:image/svg+xml;base64,' in text


def test_a_large_static_picture_is_omitted():
    page = Page(outline(NESTED)).html("<svg>" + "x" * 500_000)
    assert "<noscript><p>This page needs scripts." in page


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"level": 1}, "a page has no level 1"),
        ({"rankdir": "TB"}, "a page cannot be drawn from top to bottom"),
        ({"bands": 2}, "a page has no bands"),
    ],
)
def test_options_of_pictures_are_refused_for_pages(tmp_path, options, sentence):
    with pytest.raises(InputError, match=sentence):
        draw(NESTED, tmp_path / "model.html", **options)
    assert not (tmp_path / "model.html").exists()


def test_depth_collapse_focus_and_captures_of_pages(tmp_path):
    drawing = draw(NESTED, tmp_path / "model.html", depth=0, captures=False, focus="adder")
    assert drawing.page.data()["open"] == []
    assert drawing.page.data()["captures"] is False


def test_a_notebook_shows_the_picture_and_on_request_the_page(monkeypatch):
    drawing = draw(NESTED)
    assert not hasattr(drawing, "_repr_html_")
    assert "<svg" in drawing._repr_svg_()
    assert len(drawing._repr_svg_()) < 200_000
    assert drawing.interactive()._repr_html_().startswith("<iframe sandbox=")
    monkeypatch.setattr(picture, "MAX_NOTEBOOK_BYTES", 100)
    assert drawing._repr_svg_() is None
    assert ".save(path)" in repr(drawing)


@pytest.mark.slow
def test_a_large_import_begins_with_groups(tmp_path):
    page = Page(outline(write(tmp_path / "encoder.onnx", 56)))
    data = page.data()
    assert len(data["g"]["b"]) <= 200
    assert data["open"] == []
    assert {box["t"] for box in data["g"]["b"]} >= {"encoder/layers.0", "encoder/layers.55"}
    assert len(json.dumps(data)) < 1_000_000
