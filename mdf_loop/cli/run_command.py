"""`mdf-loop run`: one evaluation of a model, or the model over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mdf_loop.cli.options import (
    compile_options,
    device_option,
    input_options,
    model_argument,
    read_inputs,
)

if TYPE_CHECKING:
    from mdf_loop.run.results import Results


@click.command("run")
@model_argument
@input_options
@compile_options
@device_option
@click.option(
    "--record",
    multiple=True,
    metavar="NAME",
    help="Give node.port, node.parameter or node.function too.",
)
@click.option(
    "--steps", type=int, help="Evaluate the model this often; outputs get an axis of time."
)
@click.option("--dt", type=float, help="Seconds between one evaluation and the next.")
@click.option("--output", metavar="FILE", help="Save the outputs as .npz or .json.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(
    model: str,
    pairs: tuple[str, ...],
    files: tuple[str, ...],
    device: str,
    precision: str,
    shapes: str,
    max_iterations: int | None,
    record: tuple[str, ...],
    steps: int | None,
    dt: float | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Run one evaluation of MODEL, or MODEL over time, and print its outputs."""
    from mdf_loop.compiled import compile

    inputs = read_inputs(pairs, files)
    compiled = compile(
        model, device=device, precision=precision, shapes=shapes, max_iterations=max_iterations
    )
    results = compiled.run(inputs, record=record, steps=steps, dt=dt)
    if output:
        results.save(output)
    click.echo(results.to_json() if as_json else _text(results, compiled.device_reason))


def _text(results: Results, reason: str) -> str:
    import numpy as np

    lines = []
    with np.printoptions(threshold=40, edgeitems=3, linewidth=100):
        for name, array in results.items():
            shown = np.array2string(array, separator=", ").replace("\n", "\n  ")
            lines.append(f"{name}: {array.dtype}{list(array.shape)}\n  {shown}")
    for name, report in results.loops.items():
        times = "1 iteration" if report.iterations == 1 else f"{report.iterations} iterations"
        lines.append(f"loop {name}: {times}; {report.stopped_by.value}")
    lines.append(f"device: {results.device} ({reason}), precision: {results.precision}")
    return "\n".join(lines)
