"""Printing of texts in which control characters are escaped to protect the terminal."""

from __future__ import annotations

import click

from mdf_loop.text_escaping import escape_control_characters


def show(text: str = "", *, error: bool = False, end: str = "\n") -> None:
    """Print a text with escaped control characters on stdout, or an error on stderr."""
    click.echo(f"{escape_control_characters(text)}{end}", nl=False, err=error)


def show_title(text: str) -> None:
    """Print a title above the lines that follow."""
    click.secho(f"\n{escape_control_characters(text)}", bold=True)
