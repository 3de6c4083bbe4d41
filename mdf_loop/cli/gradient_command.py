"""`mdf-loop gradient`: differentiate a scalar objective with respect to parameters and inputs."""

from __future__ import annotations

from typing import Any

import click

from mdf_loop.cli.opening import open_model
from mdf_loop.cli.options import (
    COMPILER_OPTIONS,
    compile_options,
    device_option,
    flag_option,
    list_flags,
    model_argument,
    native_option,
    options_of,
    run_options,
    threads_option,
)
from mdf_loop.cli.show import show
from mdf_loop.cli.warning_lines import warning_lines
from mdf_loop.errors import GradientError
from mdf_loop.request.derivative_options import GradientOptions


@click.command("gradient")
@model_argument
@options_of(GradientOptions, "of", "wrt", "truncate", "stop")
@run_options("inputs")
@run_options("set")
@flag_option(list_flags("sweep")[0])
@run_options("seed", "trials")
@run_options("steps", "dt")
@compile_options
@device_option
@native_option
@threads_option
@options_of(GradientOptions, "check")
@click.option(
    "--save", metavar="FILE", help="Write the objective and its derivatives as one .onnx file."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.pass_context
def command(ctx: click.Context, /, model: str, **options: Any) -> None:
    """Print the derivatives of a scalar objective of MODEL with respect to parameters and inputs.

    The objective is the sum of all --of terms. The derivatives treat these quantities as constants: numbers of
    iterations, selected branches, times of spikes, and random numbers.
    """
    from mdf_loop.api.compiled import compile
    from mdf_loop.api.onnx_files import checked_file
    from mdf_loop.cli.inputs import (
        read_inputs,
        read_losses,
        read_seed,
        read_settings,
        read_step,
        read_sweep,
        read_trials,
    )
    from mdf_loop.cli.text import gradient_as_json, gradient_as_text

    if options["save"] is not None:
        checked_file(options["save"], frozenset())
    steps = options["steps"]
    document = open_model(model, options["loop_condition"])
    compiled_model = compile(document, **{name: options[name] for name in COMPILER_OPTIONS})
    time_step = read_step(options["dt"], compiled_model.document)
    gradient_function = compiled_model.differentiate(
        read_losses(options["of"], steps),
        options["wrt"],
        steps=steps,
        dt=time_step,
        seed=read_seed(options["seed"]),
        trials=read_trials(options["trials"]),
        truncate=options["truncate"],
        stop=options["stop"],
    )
    parameter_values, sweep = read_settings(options["settings"]), read_sweep(options["sweep"])
    inputs = read_inputs(options["pairs"], options["files"], steps, time_step)
    try:
        with warning_lines():
            gradient = gradient_function.run(
                parameter_values, inputs, sweep=sweep, check=options["check"]
            )
    except GradientError as error:
        show(error.report, error=True)
        ctx.exit(1)
    if options["save"] is not None:
        gradient_function.save(options["save"])
    show(gradient_as_json(gradient) if options["as_json"] else gradient_as_text(gradient))
