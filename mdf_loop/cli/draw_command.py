"""`mdf-loop draw`: a picture of a model and its loops."""

from __future__ import annotations

import click

from mdf_loop.cli.options import model_argument
from mdf_loop.cli.show import show
from mdf_loop.paths import path_of, with_ending


@click.command("draw")
@model_argument
@click.option(
    "-o", "--output", metavar="FILE", help="svg, png, pdf or dot; default: beside the model."
)
@click.option("--over-time", is_flag=True, help="The graph inside of one loop over time steps.")
@click.option("--level", type=click.IntRange(0, 3), help="0 boxes, 1 terminals, 2 bodies, 3 all.")
@click.option("--depth", type=click.IntRange(min=0), help="How many loops inside loops to open.")
@click.option(
    "--captures",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="Lines from outer values to where a body reads them.",
)
@click.option(
    "--rankdir",
    type=click.Choice(["LR", "TB"]),
    default="LR",
    show_default=True,
    help="Left to right, or top to bottom.",
)
@click.option("--focus", multiple=True, metavar="NODE", help="Draw only it and its neighbours.")
@click.option("--collapse", multiple=True, metavar="NODE", help="Draw it as one box.")
def command(
    model: str,
    output: str | None,
    over_time: bool,
    level: int | None,
    depth: int | None,
    captures: str,
    rankdir: str,
    focus: tuple[str, ...],
    collapse: tuple[str, ...],
) -> None:
    """Draw MODEL as svg, png, pdf or dot."""
    from mdf_loop.drawing import draw

    beside = with_ending(path_of(model, "the model"), ".svg")
    target = str(beside) if output is None else output
    draw(
        model,
        target,
        level=level,
        depth=depth,
        captures=captures == "on",
        rankdir=rankdir,
        focus=focus,
        collapse=collapse,
        over_time=over_time,
    )
    show(f"wrote {target}")
