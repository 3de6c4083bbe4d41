"""`mdf-loop draw`: draw a model and its loops."""

from __future__ import annotations

import click

from mdf_loop.cli.opening import open_model
from mdf_loop.cli.options import loop_condition_option, model_argument
from mdf_loop.cli.show import show
from mdf_loop.paths import path_of, replace_suffix

_DETAIL_LEVELS: dict[str, int | None] = {"auto": None, "0": 0, "1": 1, "2": 2, "3": 3}
_CAPTURE_MODES: dict[str, bool | str] = {"on": True, "off": False, "all": "all"}


@click.command("draw")
@model_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="The svg, png, pdf, html or dot file. Default: an svg file in the folder of the model.",
)
@click.option(
    "--over-time",
    is_flag=True,
    help="Draw the model as one loop over time, whose iterations are the steps.",
)
@click.option(
    "--level",
    type=click.Choice(["auto", "0", "1", "2", "3", "operators"]),
    default="auto",
    show_default=True,
    help="Level of detail: 0 for each node as one box, 1 for loops as frames, 2 also with their bodies, 3 also with "
    "types and values. For large graphs, operators draws only the operator of each node.",
)
@click.option(
    "--bands",
    type=click.IntRange(1, 100),
    help="Number of bands (columns side by side) of --level operators.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=0),
    help="Number of levels of nested loops that are drawn open. Default: all.",
)
@click.option(
    "--captures",
    type=click.Choice(["on", "off", "all"]),
    default="on",
    show_default=True,
    help="Lines from outer values to the bodies of loops that read them: on, off, or all. With on, many constants "
    "are drawn as one. With all, each constant is drawn.",
)
@click.option(
    "--rankdir",
    type=click.Choice(["auto", "LR", "TB"]),
    default="auto",
    show_default=True,
    help="Direction: LR (left to right), TB (top to bottom), or auto (the direction that fits better).",
)
@click.option(
    "--focus", multiple=True, metavar="NODE", help="Draw only this node and its neighbours."
)
@click.option(
    "--collapse",
    multiple=True,
    metavar="NODE",
    help="Draw this node, including its loops, as one box.",
)
@loop_condition_option
def command(
    model: str,
    output: str | None,
    over_time: bool,
    level: str,
    bands: int | None,
    depth: int | None,
    captures: str,
    rankdir: str,
    focus: tuple[str, ...],
    collapse: tuple[str, ...],
    loop_condition: str,
) -> None:
    """Draw MODEL as svg, png, pdf or dot, or as an interactive page (html)."""
    from mdf_loop.drawing import draw
    from mdf_loop.files import checked_place

    default_target = replace_suffix(path_of(model, "the model"), ".svg")
    target_path = str(default_target) if output is None else output
    checked_place(target_path)
    draw(
        open_model(model, loop_condition),
        target_path,
        level=_DETAIL_LEVELS.get(level, level),
        bands=bands,
        depth=depth,
        captures=_CAPTURE_MODES[captures],
        rankdir=rankdir,
        focus=focus,
        collapse=collapse,
        over_time=over_time,
    )
    show(f"wrote {target_path}")
