"""`mdf-loop verify`: is the compiled model the same model?"""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from mdf_loop.cli.options import compile_options, input_options, model_argument, read_inputs


@click.command("verify")
@model_argument
@input_options
@compile_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.pass_context
def command(
    ctx: click.Context,
    model: str,
    pairs: tuple[str, ...],
    files: tuple[str, ...],
    device: str,
    precision: str,
    shapes: str,
    max_iterations: int | None,
    as_json: bool,
) -> None:
    """Compare MODEL compiled with modeci_mdf's engine and the interpreter; exit code 1 if different."""
    from mdf_loop.verification import verify

    verification = verify(
        model,
        read_inputs(pairs, files),
        device=device,
        precision=precision,
        shapes=shapes,
        max_iterations=max_iterations,
    )
    if as_json:
        content = {"equal": verification.equal, **asdict(verification)}
        click.echo(json.dumps(content, default=str))
    else:
        click.echo(str(verification))
    ctx.exit(0 if verification.equal else 1)
