"""`mdf-loop fit`: fit parameters of a model to data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mdf_loop.cli.ending import exit_code
from mdf_loop.cli.opening import open_model
from mdf_loop.cli.options import (
    COMPILER_OPTIONS,
    compile_options,
    device_option,
    model_argument,
    native_option,
    options_of,
    run_options,
    threads_option,
)
from mdf_loop.cli.show import show
from mdf_loop.cli.warning_lines import warning_lines
from mdf_loop.errors import InputError
from mdf_loop.paths import path_of, record_read_file, refuse_overlapping_outputs, refuse_overwriting
from mdf_loop.request.fit_options import FitOptions
from mdf_loop.signals import delaying_interrupt

if TYPE_CHECKING:
    from mdf_loop.document.document import Document
    from mdf_loop.results.fit import Fit, Fits

OUTPUT_OPTIONS = ("output", "plot", "write")
"""Options that name an output file."""

_BOUNDS_PATTERN = re.compile(r"([^=]+)=(.+?)\.\.(.+)")


@click.command("fit")
@model_argument
@click.argument("data", metavar="[DATA]", required=False)
@options_of(FitOptions, "free", "against")
@click.option(
    "--rt",
    metavar="OUTPUT",
    help="Output with the reaction time. DATA then contains reaction times.",
)
@click.option("--choice", metavar="OUTPUT", help="Output with the choice, a number.")
@click.option(
    "--subject",
    multiple=True,
    metavar="NAME=FILE",
    help="Data file of one subject, in place of DATA. Each subject has separate estimates.",
)
@options_of(FitOptions, "shared", "start", "method", "points", "polish")
@run_options("inputs")
@run_options("set")
@run_options("seed", "trials")
@run_options("steps", "dt")
@run_options("cluster")
@options_of(FitOptions, "time_limit")
@compile_options
@device_option
@native_option
@threads_option
@click.option("--output", metavar="FILE", help="Save the fit as .json, or its table as .csv.")
@click.option("--plot", metavar="FILE", help="Draw the fit over the data as .png, .svg or .pdf.")
@click.option(
    "--write", metavar="FILE", help="Write the model with the estimated values, as .yaml."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.pass_context
def command(ctx: click.Context, /, model: str, data: str | None, **options: Any) -> None:
    """Fit parameters of MODEL to DATA, a .csv or .npz file.

    DATA has a column `time` and one column for each output. For a fit of reaction times, DATA has the columns `rt`
    (reaction time) and `choice`.
    """
    from mdf_loop.api.compiled import compile
    from mdf_loop.cli.inputs import split_once

    subjects = dict(split_once(options["subject"], "--subject s1=s1.csv"))
    if (data is None) != bool(subjects):
        raise InputError("give DATA, or --subject NAME=FILE for each subject")
    _check_files(options, subjects)
    for path in subjects.values() if data is None else [data]:
        record_read_file(path_of(path, "the data"))
    document = open_model(model, options["loop_condition"])
    compiled_model = compile(document, **{name: options[name] for name in COMPILER_OPTIONS})
    fit_arguments = _fit_arguments(options, compiled_model.document)
    for option in OUTPUT_OPTIONS:
        if options[option] is not None:
            refuse_overwriting(path_of(options[option], f"--{option}"))
    with warning_lines():
        fit = compiled_model.fit(subjects or data, _read_bounds(options["free"]), **fit_arguments)
    with delaying_interrupt(heard=fit.stopped_by.is_asked):
        _write_files(fit, options)
        show(fit.to_json() if options["as_json"] else str(fit))
    ctx.exit(exit_code(fit.stopped_by))


def _fit_arguments(options: Mapping[str, Any], document: Document) -> dict[str, Any]:
    """Return the keyword arguments of `CompiledModel.fit` from command-line options."""
    from mdf_loop.cli.inputs import (
        read_cluster,
        read_inputs,
        read_seed,
        read_settings,
        read_step,
        read_trials,
    )

    likelihood_columns = {
        name: options[name] for name in ("rt", "choice") if options[name] is not None
    }
    column_by_output = dict(
        column_pair.split("=", 1) if "=" in column_pair else (column_pair, column_pair)
        for column_pair in options["against"]
    )
    renamed_columns = {
        output: column for output, column in column_by_output.items() if output != column
    }
    direct_arguments = {
        name: options[name] for name in ("steps", "shared", "method", "points", "polish")
    }
    time_step = read_step(options["dt"], document)
    return direct_arguments | {
        "dt": time_step,
        "against": (column_by_output if renamed_columns else list(column_by_output)) or None,
        "likelihood": likelihood_columns or None,
        "set": read_settings(options["settings"]),
        "inputs": read_inputs(options["pairs"], options["files"], options["steps"], time_step),
        "seed": read_seed(options["seed"]),
        "trials": read_trials(options["trials"]),
        "start": read_settings(options["start"]) or None,
        "time_limit": options["time_limit"],
        "cluster": read_cluster(options["cluster"]),
    }


def _read_bounds(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the bounds of free parameters, by name, from texts `NAME=LOW..HIGH`.

    Raises:
        InputError: A text is not NAME=LOW..HIGH.
    """
    bounds_by_name = {}
    for bounds_text in texts:
        bounds_match = _BOUNDS_PATTERN.fullmatch(bounds_text)
        try:
            name, lower_bound_text, upper_bound_text = (
                bounds_match.groups() if bounds_match else ("", "", "")
            )
            bounds_by_name[name.strip()] = (float(lower_bound_text), float(upper_bound_text))
        except ValueError:
            raise InputError(
                f"--free '{bounds_text}' has no bounds"[:300], hint="e.g. --free cell.a=0.2..1.2"
            ) from None
    return bounds_by_name


def _check_files(options: Mapping[str, Any], subjects: Mapping[str, str]) -> None:
    """Raise an InputError before the fit if one of its output files is not writable."""
    from mdf_loop.files import checked_place, checked_target
    from mdf_loop.results.figures import check_figure_path

    if options["output"] is not None:
        checked_place(checked_target(options["output"], (".json", ".csv"), "a fit"))
    if options["plot"] is not None:
        check_figure_path(options["plot"])
    if options["write"] is not None:
        from mdf_loop.importing.writing import check_model_file

        check_model_file(options["write"])
    for option in ("plot", "write"):
        if subjects and options[option] is not None:
            raise InputError(
                f"--{option} is for a single fit, but there are {len(subjects)} subjects"
            )
    output_paths = {
        f"--{name}": options[name] for name in OUTPUT_OPTIONS if options[name] is not None
    }
    refuse_overlapping_outputs({name: path_of(path, name) for name, path in output_paths.items()})


def _write_files(fit: Fit | Fits, options: Mapping[str, Any]) -> None:
    """Write the output files of a fit that the command-line options request."""
    if options["output"] is not None:
        fit.save(options["output"])
    if options["plot"] is not None:
        fit.plot(options["plot"])  # type: ignore[union-attr]
    if options["write"] is not None:
        fit.model.write(options["write"])  # type: ignore[union-attr]
