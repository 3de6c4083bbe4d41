"""`mdf-loop run`: one evaluation of a model, or the model over time."""

from __future__ import annotations

import click

from mdf_loop.cli.options import (
    compile_options,
    device_option,
    input_options,
    model_argument,
    set_option,
    time_options,
)


@click.command("run")
@model_argument
@input_options
@set_option
@click.option(
    "--sweep",
    multiple=True,
    metavar="NAME=VALUES",
    help="Run for each value of a parameter or input at once: a list, or first:last:number. "
    "Several are swept member by member.",
)
@time_options
@click.option(
    "--record",
    multiple=True,
    metavar="NAME",
    help="Give node.port, node.parameter or node.function too.",
)
@click.option(
    "--initial-state", metavar="FILE", help="Go on where the run ended that wrote this .npz file."
)
@click.option("--final-state", metavar="FILE", help="Write where the run ended, as .npz.")
@click.option(
    "--execution-list", is_flag=True, help="Show which nodes ran in each evaluation, in order."
)
@click.option(
    "--engine",
    default="onnxruntime",
    show_default=True,
    help="onnxruntime, or modeci for modeci_mdf's own engine.",
)
@compile_options
@device_option
@click.option("--output", metavar="FILE", help="Save as .npz, .json, .csv, .h5 or .nc.")
@click.option(
    "--plot",
    metavar="FILE",
    help="Draw the outputs over time, or those recorded, as .png, .svg or .pdf.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(
    model: str,
    pairs: tuple[str, ...],
    files: tuple[str, ...],
    settings: tuple[str, ...],
    sweep: tuple[str, ...],
    steps: int | None,
    dt: float | None,
    every: int,
    record: tuple[str, ...],
    initial_state: str | None,
    final_state: str | None,
    execution_list: bool,
    engine: str,
    device: str,
    precision: str,
    shapes: str,
    max_iterations: int | None,
    unroll: int | None,
    output: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Run one evaluation of MODEL, or MODEL over time, and print its outputs."""
    from mdf_loop.cli.inputs import read_inputs, read_settings, read_sweep
    from mdf_loop.cli.text import as_json_text, as_text
    from mdf_loop.compiled import compile
    from mdf_loop.run.states import load_state, save_state

    _check_files(output, plot, final_state)
    compiled = compile(
        model,
        device=device,
        precision=precision,
        shapes=shapes,
        max_iterations=max_iterations,
        unroll=unroll,
    )
    results = compiled.run(
        read_inputs(pairs, files, steps),
        record=record,
        set=read_settings(settings),
        sweep=read_sweep(sweep),
        steps=steps,
        dt=dt,
        every=every,
        state=load_state(initial_state) if initial_state else None,
        execution_list=execution_list,
        engine=engine,
    )
    if output:
        results.save(output)
    if plot:
        results.plot(plot, record or None, title=compiled.document.graph.id)
    if final_state:
        save_state(final_state, results.state)
    ran = results.execution_list if execution_list else None
    reason = "modeci_mdf's engine" if engine == "modeci" else compiled.device_reason
    click.echo(as_json_text(results, ran) if as_json else as_text(results, reason, ran))


def _check_files(output: str | None, plot: str | None, final_state: str | None) -> None:
    """Refuse before the run what could not be written after it."""
    if output:
        from mdf_loop.run.saving import check_file

        check_file(output)
    if plot:
        from mdf_loop.run.plotting import check_picture

        check_picture(plot)
    if final_state:
        from mdf_loop.run.states import check_state_file

        check_state_file(final_state)
