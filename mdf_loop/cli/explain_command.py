"""`mdf-loop explain`: print the loops of a model as pseudo-code, or its program after each pass."""

from __future__ import annotations

import click
from click.core import ParameterSource

from mdf_loop.cli.opening import open_model
from mdf_loop.cli.options import compile_options, model_argument, run_options
from mdf_loop.cli.show import show


@click.command("explain")
@model_argument
@click.option(
    "--passes",
    is_flag=True,
    help="Print the compiled program instead, with the changes of each compiler pass in order.",
)
@run_options("inputs")
@compile_options
@click.pass_context
def command(
    context: click.Context,
    model: str,
    passes: bool,
    pairs: tuple[str, ...],
    files: tuple[str, ...],
    precision: str,
    shapes: str,
    max_iterations: int | None,
    unroll: int | None,
    loop_condition: str,
) -> None:
    """Explain the loops of MODEL as pseudo-code, with the kind of each loop and its values.

    Without --passes, --loop-condition is the only allowed option.
    """
    if not passes:
        _refuse_program_options(context)
        from mdf_loop.explanation import explain

        show(explain(open_model(model, loop_condition)))
        return
    from mdf_loop.api.compiled import checked_options
    from mdf_loop.changes import changes
    from mdf_loop.cli.inputs import read_inputs
    from mdf_loop.pipeline import ONNXRUNTIME, passes_of_evaluation
    from mdf_loop.verification.acceptance import compile_evaluation

    options = checked_options("cpu", precision, shapes, max_iterations, unroll)
    document = open_model(model, loop_condition)
    model_reading = compile_evaluation(document, read_inputs(pairs, files), options)
    show(changes(model_reading.program, (*passes_of_evaluation(), *ONNXRUNTIME)), end="")


def _refuse_program_options(context: click.Context) -> None:
    """Raise a UsageError for an option that is valid only with --passes."""
    for parameter in context.command.params:
        option_name = parameter.name or ""
        is_on_command_line = (
            context.get_parameter_source(option_name) is ParameterSource.COMMANDLINE
        )
        if is_on_command_line and option_name not in ("model", "passes", "loop_condition"):
            raise click.UsageError(
                f"{parameter.opts[0]} changes the program, which only --passes prints: add --passes"
            )
