"""Rendering of DOT text as svg, png and pdf, and errors without a drawing program."""

import importlib
import sys
from dataclasses import replace

import pytest

from mdf_loop.drawing import draw, renderer
from mdf_loop.errors import UnsupportedError

render_module = importlib.import_module("mdf_loop.drawing.dot.render")


@pytest.mark.parametrize(
    ("suffix", "magic"),
    [
        ("svg", b"<?xml"),
        ("png", b"\x89PNG"),
        ("pdf", b"%PDF"),
        ("html", b"<!doctype html>"),
        ("dot", b"// drawn by mdf_loop"),
    ],
)
def test_formats(suffix, magic, models, tmp_path):
    target = tmp_path / f"picture.{suffix}"
    draw(models / "sample.yaml", target)
    assert target.read_bytes().startswith(magic)


def test_upper_case_suffixes_and_text_paths(models, tmp_path):
    draw(models / "sample.yaml").save(str(tmp_path / "picture.SVG"))
    assert (tmp_path / "picture.SVG").stat().st_size > 1000


@pytest.mark.parametrize("name", ["picture.jpeg", "picture", "picture.svgz"])
def test_unknown_suffixes_are_refused_before_anything_is_read(name, tmp_path):
    with pytest.raises(UnsupportedError, match=r"use one of \.svg, \.png, \.pdf, \.html, \.dot"):
        draw("no such file", tmp_path / name)


def test_notebooks_show_svg(models):
    drawing = draw(models / "sample.yaml")
    assert "<svg" in drawing._repr_svg_()
    assert 'id="cluster_halving__halve"' in drawing.svg()
    assert "<title>" in drawing.svg()


@pytest.fixture
def without_dot(monkeypatch):
    """Hide the program `dot`."""
    monkeypatch.setattr(render_module.shutil, "which", lambda name: None)


def test_pygraphviz_renders_without_dot(without_dot, models):
    assert renderer().startswith("pygraphviz ")
    assert "<svg" in draw(models / "sample.yaml").svg()


def test_dot_text_without_any_renderer(without_dot, monkeypatch, models, tmp_path):
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    drawing = draw(models / "sample.yaml", tmp_path / "picture.dot")
    assert "digraph" in drawing.dot
    for ask in (renderer, drawing.svg, lambda: drawing.save(tmp_path / "picture.png")):
        with pytest.raises(UnsupportedError, match="pip install pygraphviz"):
            ask()
    assert not (tmp_path / "picture.png").exists()


def test_dot_is_preferred(monkeypatch, models):
    import graphviz

    pipe_options = []
    monkeypatch.setattr(render_module.shutil, "which", lambda name: "/usr/bin/dot")
    monkeypatch.setattr(
        graphviz.Source, "pipe", lambda self, **options: pipe_options.append(options) or b"<svg/>"
    )
    assert draw(models / "sample.yaml").svg() == "<svg/>"
    assert pipe_options[0]["format"] == "svg"
    assert renderer() == "/usr/bin/dot"


def test_a_failing_program_is_one_clear_error(monkeypatch, models):
    import graphviz

    def fail(self, **options):
        raise graphviz.ExecutableNotFound(["dot"])

    monkeypatch.setattr(render_module.shutil, "which", lambda name: "/usr/bin/dot")
    monkeypatch.setattr(graphviz.Source, "pipe", fail)
    with pytest.raises(UnsupportedError, match="Graphviz could not draw svg"):
        draw(models / "sample.yaml").svg()


def test_invalid_dot_text_is_one_clear_error(without_dot, models):
    drawing = replace(draw(models / "sample.yaml"), dot="this is not DOT")
    with pytest.raises(UnsupportedError, match="Graphviz could not draw svg"):
        drawing.svg()


def model_with_name(name):
    node = {"parameters": {"v": {"value": 1.0}}, "output_ports": {"out": {"value": "v"}}}
    return {name: {"nodes": {"n": node, "other": node}}}


@pytest.mark.parametrize("name", ["n" * 16_001, "µ" * 8001, "&" * 4000, "\x1b" * 5000])
@pytest.mark.parametrize("suffix", [".dot", ".svg", ".png"])
def test_too_long_texts_are_an_error_in_all_formats(tmp_path, name, suffix):
    target = tmp_path / f"x{suffix}"
    with pytest.raises(UnsupportedError, match="is too long for a picture") as caught:
        draw(model_with_name(name), target, level=0)
    assert len(str(caught.value)) < 2000
    assert not target.exists()


@pytest.mark.parametrize("name", ["n" * 16_000, "µ" * 8000, '"\\' * 1300])
def test_the_longest_text_is_drawn_at_every_level(name):
    for level in range(4):
        assert "<svg" in draw(model_with_name(name), level=level).svg()


def test_long_names_show_both_ends():
    name = "n" * 100_000
    node = {"parameters": {"v": {"value": 1.0}}, "output_ports": {"out": {"value": "v"}}}
    assert "<svg" in draw({"g": {"nodes": {name: node}}}, level=0).svg()
