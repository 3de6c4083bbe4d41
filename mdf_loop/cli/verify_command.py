"""`mdf-loop verify`: compare a compiled model with modeci_mdf's engine."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from mdf_loop.cli.opening import open_model
from mdf_loop.cli.options import (
    compile_options,
    device_option,
    model_argument,
    run_options,
    threads_option,
)
from mdf_loop.cli.show import show

if TYPE_CHECKING:
    from mdf_loop.verification import Verification


@click.command("verify")
@model_argument
@run_options("inputs")
@run_options("set")
@compile_options
@device_option
@threads_option
@click.option("--steps", type=int, help="Compare a run over time with this number of evaluations.")
@run_options("dt")
@run_options("seed")
@run_options("time_limit", "memory_limit")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.pass_context
def command(
    ctx: click.Context,
    model: str,
    pairs: tuple[str, ...],
    files: tuple[str, ...],
    settings: tuple[str, ...],
    device: str,
    precision: str,
    shapes: str,
    max_iterations: int | None,
    unroll: int | None,
    threads: int | None,
    loop_condition: str,
    steps: int | None,
    dt: str | None,
    seed: str,
    memory_limit: str | None,
    time_limit: str | None,
    as_json: bool,
) -> None:
    """Compare the results of MODEL with modeci_mdf's engine and the interpreter.

    The exit code is 1 if results differ.
    """
    from mdf_loop.cli.inputs import read_inputs, read_seed, read_settings, read_step
    from mdf_loop.memory_limit import checked_limit, limited
    from mdf_loop.verification import verify

    ctx.with_resource(limited(checked_limit(memory_limit)))
    document = open_model(model, loop_condition)
    time_step = read_step(dt, document)
    verification = verify(
        document,
        read_inputs(pairs, files, steps, time_step),
        set=read_settings(settings),
        steps=steps,
        dt=time_step,
        device=device,
        precision=precision,
        shapes=shapes,
        max_iterations=max_iterations,
        unroll=unroll,
        threads=threads,
        seed=read_seed(seed),
        time_limit=time_limit,
        on_interrupt="raise",
    )
    show(_to_json(verification) if as_json else str(verification))
    ctx.exit(0 if verification.equal else 1)


def _to_json(verification: Verification) -> str:
    """Return the result of `verify` as JSON text, with infinities as strings."""
    verdict = {"equal": verification.equal, "bit_for_bit": verification.bit_for_bit}
    json_content = {**verdict, **asdict(verification)}
    for comparison in json_content["comparisons"]:
        for error_name in ("max_abs", "max_rel"):
            error_size = comparison[error_name]
            comparison[error_name] = error_size if math.isfinite(error_size) else str(error_size)
    return json.dumps(json_content)
