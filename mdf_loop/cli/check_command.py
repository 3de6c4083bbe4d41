"""`mdf-loop check`: everything that is wrong with a model, at once."""

from __future__ import annotations

import click

from mdf_loop.cli.options import compile_options, input_options, model_argument
from mdf_loop.cli.show import show


@click.command("check")
@model_argument
@input_options
@compile_options
def command(
    model: str,
    pairs: tuple[str, ...],
    files: tuple[str, ...],
    precision: str,
    shapes: str,
    max_iterations: int | None,
    unroll: int | None,
) -> None:
    """Check MODEL and print all findings, and what modeci_mdf computes otherwise; nothing is run."""
    from mdf_loop.api.compiled import checked_options
    from mdf_loop.cli.inputs import read_inputs
    from mdf_loop.importing.opening import open_document
    from mdf_loop.ir import Loop, Takes, walk
    from mdf_loop.reading.draws import carried_by_model
    from mdf_loop.verification.acceptance import accept
    from mdf_loop.verification.differences import differences

    options = checked_options("cpu", precision, shapes, max_iterations, unroll)
    document = open_document(model)
    reading = accept(document, read_inputs(pairs, files), options)
    program = reading.program
    loops = [op for op in walk(program.ops) if isinstance(op, Loop)]
    inputs = [entry for entry in program.inputs if entry.role is Takes.PORT]
    counts = [("input", inputs), ("output", program.outputs), ("loop", loops)]
    if program.sites:
        counts.append(("stream of random numbers", program.sites))
    show("no problems: " + ", ".join(_counted(word, len(what)) for word, what in counts))
    for loop in loops:
        show(
            f"  {loop.name}: {loop.kind} loop, {carried_by_model(loop)} carried, "
            f"{len(loop.recorded)} recorded  {loop.where}"
        )
    for note in dict.fromkeys((*reading.notes, *differences(document, reading.types))):
        show(f"note: {note.what}\n  at {note.where}")


def _counted(word: str, number: int) -> str:
    first, *rest = word.split(" ")
    return " ".join((f"{number} {first}{'s' * (number != 1)}", *rest))
