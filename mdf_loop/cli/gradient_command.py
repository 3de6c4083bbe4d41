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
    run_options,
    threads_option,
)
from mdf_loop.cli.show import show
from mdf_loop.cli.warning_lines import warning_lines
from mdf_loop.errors import GradientError


@click.command("gradient")
@model_argument
@click.option(
    "--of",
    required=True,
    multiple=True,
    metavar="OUTPUT:WORD[=DATA]",
    help="Term of the objective, a number that is computed from an output: cell.V:mean or cell.V:sse=data.csv:V. "
    "WORD is sum, mean, last (the sum of the last row), sse (the sum of squared differences from DATA) or "
    "weighted (the sum of products with DATA). Several terms are added.",
)
@click.option(
    "--wrt",
    required=True,
    multiple=True,
    metavar="NAME",
    help="Parameter (node.parameter) or input with respect to which the objective is differentiated.",
)
@click.option(
    "--truncate",
    type=int,
    metavar="STEPS",
    help="Maximum number of steps (in a loop: iterations) through which derivatives are propagated back from the end. "
    "Earlier values are constants.",
)
@click.option(
    "--stop",
    multiple=True,
    metavar="NODE.PORT",
    help="Output port whose value is treated as a constant.",
)
@run_options("inputs")
@run_options("set")
@flag_option(list_flags("sweep")[0])
@run_options("seed", "trials")
@run_options("steps", "dt")
@compile_options
@device_option
@native_option
@threads_option
@click.option(
    "--check",
    is_flag=True,
    help="Compare the derivatives with central differences. The exit code is 1 if a derivative differs.",
)
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
    settings, sweep = read_settings(options["settings"]), read_sweep(options["sweep"])
    inputs = read_inputs(options["pairs"], options["files"], steps, time_step)
    try:
        with warning_lines():
            gradient = gradient_function.run(settings, inputs, sweep=sweep, check=options["check"])
    except GradientError as error:
        show(error.report, error=True)
        ctx.exit(1)
    if options["save"] is not None:
        gradient_function.save(options["save"])
    show(gradient_as_json(gradient) if options["as_json"] else gradient_as_text(gradient))
