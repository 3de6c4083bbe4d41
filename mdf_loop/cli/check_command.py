"""`mdf-loop check`: report all errors and notes about models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mdf_loop.cli.opening import open_model
from mdf_loop.cli.options import compile_options, run_options
from mdf_loop.cli.show import show
from mdf_loop.errors import LoopError


@click.command("check")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, type=click.Path())
@run_options("inputs")
@compile_options
@click.pass_context
def command(ctx: click.Context, /, models: tuple[str, ...], **options: Any) -> None:
    """Check each MODEL without running it, and print all errors and notes.

    A note is not an error. Notes report parts of a model that modeci_mdf's engine computes differently. Notes also
    report states that read the new values of other states, instead of the values before the step.
    """
    has_errors = False
    for model_file in models:
        if len(models) > 1:
            show(f"{model_file}:")
        try:
            _check_model(model_file, options)
        except LoopError as error:  # continue with the next model
            show(error.report, error=True)
            has_errors = True
    ctx.exit(2 if has_errors else 0)


def _check_model(model: str, options: Mapping[str, Any]) -> None:
    """Read a model, and print its inputs, outputs, loops and notes.

    Raises:
        LoopError: The model has errors. The exception has all findings.
    """
    from mdf_loop.api.compiled import checked_options
    from mdf_loop.cli.inputs import read_inputs
    from mdf_loop.ir import InputRole, Loop, OutputRole, walk
    from mdf_loop.reading.draws import count_model_carried
    from mdf_loop.reading.order_of_states import find_new_value_reads
    from mdf_loop.verification.acceptance import accept
    from mdf_loop.verification.differences import differences

    option_values = (options[name] for name in ("precision", "shapes", "max_iterations", "unroll"))
    compiler_options = checked_options("cpu", *option_values)
    document = open_model(model, options["loop_condition"])
    model_reading = accept(
        document, read_inputs(options["pairs"], options["files"]), compiler_options
    )
    program = model_reading.program
    loops = [op for op in walk(program.ops) if isinstance(op, Loop)]
    inputs = [
        program_input for program_input in program.inputs if program_input.role is InputRole.PORT
    ]
    outputs = [output for output in program.outputs if output.role is OutputRole.RESULT]
    noun_counts = [("input", len(inputs)), ("output", len(outputs)), ("loop", len(loops))]
    if program.sites:
        noun_counts.append(("stream of random numbers", len(program.sites)))
    show("no problems: " + ", ".join(_count_text(noun, count) for noun, count in noun_counts))
    for loop in loops:
        show(
            f"  {loop.name}: {loop.kind} loop, {count_model_carried(loop)} carried, "
            f"{len(loop.recorded)} recorded  {loop.where}"
        )
    notes = (
        *model_reading.notes,
        *find_new_value_reads(document),
        *differences(document, model_reading.terms_by_path),
    )
    for note in dict.fromkeys(notes):
        show(f"note: {note.what}\n  at {note.where}")


def _count_text(noun: str, number: int) -> str:
    """Return a number with a noun as text, in the plural unless the number is 1."""
    first_word, *other_words = noun.split(" ")
    return " ".join((f"{number} {first_word}{'s' * (number != 1)}", *other_words))
