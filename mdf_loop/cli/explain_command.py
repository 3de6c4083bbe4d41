"""`mdf-loop explain`: a model's loops as readable pseudo-code."""

from __future__ import annotations

import click

from mdf_loop.cli.options import model_argument
from mdf_loop.cli.show import show


@click.command("explain")
@model_argument
def command(model: str) -> None:
    """Explain the loops of MODEL: pseudo-code, operating mode, carried, recorded, captured values."""
    from mdf_loop.explanation import explain

    show(explain(model))
