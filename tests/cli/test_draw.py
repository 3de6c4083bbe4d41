"""`mdf-loop draw` and `mdf-loop explain`."""

from __future__ import annotations

import pytest


def test_the_default_is_an_svg_beside_the_model(cli, double):
    outcome = cli("draw", double)
    target = double.with_suffix(".svg")
    assert (outcome.code, outcome.out, outcome.err) == (0, f"wrote {target}\n", "")
    assert "<svg" in target.read_text()


@pytest.mark.parametrize(
    ("suffix", "beginning"),
    [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("dot", b"")],
)
def test_formats(cli, sample, tmp_path, suffix, beginning):
    target = tmp_path / f"picture.{suffix}"
    assert cli("draw", sample, "-o", target).code == 0
    assert target.read_bytes().startswith(beginning)
    assert target.stat().st_size > 100


def dot(cli, model, tmp_path, *options) -> str:
    target = tmp_path / "picture.dot"
    outcome = cli("draw", model, "-o", target, *options)
    assert outcome.code == 0, outcome.err
    return target.read_text()


def test_higher_levels_show_more(cli, sample, tmp_path):
    pictures = [dot(cli, sample, tmp_path, "--level", level) for level in range(4)]
    assert len(set(pictures)) == 4
    assert "loop_1" in pictures[1]
    assert len(pictures[3]) > len(pictures[0])


def test_depth_captures_and_rankdir_change_the_picture(cli, sample, tmp_path):
    default_picture = dot(cli, sample, tmp_path)
    assert "rankdir=LR" in default_picture
    assert "rankdir=TB" in dot(cli, sample, tmp_path, "--rankdir", "TB")
    assert dot(cli, sample, tmp_path, "--depth", 0) != default_picture
    assert dot(cli, sample, tmp_path, "--captures", "off") != default_picture


def test_over_time_has_one_loop(cli, sample, tmp_path):
    assert "for each time step" in dot(cli, sample, tmp_path, "--over-time")
    assert "for each time step" not in dot(cli, sample, tmp_path)


def test_focus_and_collapse(cli, sample, tmp_path):
    default_picture = dot(cli, sample, tmp_path)
    assert len(dot(cli, sample, tmp_path, "--collapse", "loop_node")) < len(default_picture)
    assert "constants" in dot(cli, sample, tmp_path, "--focus", "loop_node")
    outcome = cli("draw", sample, "-o", tmp_path / "x.dot", "--focus", "loop_nod")
    assert (outcome.code, outcome.out) == (2, "")
    assert "did you mean 'loop_node'?" in outcome.err


@pytest.mark.parametrize(
    "option",
    [
        ("--level", 4),
        ("--level", "all"),
        ("--depth", -1),
        ("--captures", "some"),
        ("--rankdir", "RL"),
    ],
)
def test_options_out_of_range(cli, sample, option):
    outcome = cli("draw", sample, *option)
    assert (outcome.code, outcome.out) == (2, "")
    assert option[0] in outcome.err


def test_invalid_targets_are_refused(cli, sample, tmp_path):
    for name in ("picture.bmp", "no/picture.svg"):
        outcome = cli("draw", sample, "-o", tmp_path / name)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err


def test_explain(cli, sample):
    outcome = cli("explain", sample)
    assert (outcome.code, outcome.err) == (0, "")
    for word in ("loop_1", "b_in", "user_defined_val", "max_trip_count", "keepgoing"):
        assert word in outcome.out
