"""Where commands print: names and texts of a model can do nothing to the terminal."""

from __future__ import annotations

import click

from mdf_loop.visible import visible


def show(text: str = "", *, error: bool = False, end: str = "\n") -> None:
    """Print a text, on stderr if it is about an `error`."""
    click.echo(f"{visible(text)}{end}", nl=False, err=error)


def show_title(text: str) -> None:
    """Print the title of what follows."""
    click.secho(f"\n{visible(text)}", bold=True)
