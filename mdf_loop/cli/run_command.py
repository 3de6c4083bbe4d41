"""`mdf-loop run`: run one evaluation of a model, or the model over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click
from msgspec.structs import replace

from mdf_loop.cli.ending import exit_code
from mdf_loop.cli.grouped_help import GroupedCommand
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
from mdf_loop.errors import DiskFullError, InputError, LoopError, MemoryLimitError, NotFiniteError
from mdf_loop.paths import path_of, refuse_overlapping_outputs, refuse_overwriting
from mdf_loop.request.option import fields_of, flag, groups_of
from mdf_loop.request.run_options import FILES, RunOptions
from mdf_loop.signals import Signalled, delaying_interrupt
from mdf_loop.text_escaping import escape_to_one_line

if TYPE_CHECKING:
    from mdf_loop.api.compiled import CompiledModel
    from mdf_loop.document.document import Document
    from mdf_loop.results.data import Results
    from mdf_loop.specification import RunControls, RunSpecification


_FILE_OPTIONS = (
    flag(
        "--final-state",
        "Write the values of the states after the last step as .npz.",
        name="final_state",
        metavar="FILE",
    ),
    flag(
        "--plot",
        "Plot the outputs over time, trials or a sweep, as .png, .svg or .pdf.",
        name="plot",
        metavar="FILE",
    ),
    flag("--json", "Print one JSON object and nothing else.", name="as_json", is_flag=True),
)
"""Options of the command that `CompiledModel.run` does not have."""


class _RunCommand(GroupedCommand):
    """Click command `run`, which groups its options like the arguments of `CompiledModel.run`."""

    groups: ClassVar = {
        **{
            title: [flag.name for field in fields for flag in list_flags(field.name)]
            + [flag.name for flag in _FILE_OPTIONS if title == FILES]
            for title, fields in groups_of(RunOptions).items()
        },
        "Compiler and device": [*COMPILER_OPTIONS, "loop_condition"],
    }


def _file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for files and JSON output that `CompiledModel.run` does not have."""
    for file_flag in _FILE_OPTIONS:
        command = flag_option(file_flag)(command)
    return command


@click.command("run", cls=_RunCommand)
@model_argument
@run_options(*(field.name for field in fields_of(RunOptions)))
@_file_options
@compile_options
@device_option
@native_option
@threads_option
@click.pass_context
def command(ctx: click.Context, /, model: str, **options: Any) -> None:
    """Run one evaluation of MODEL, or with --steps a run over time, and print the outputs."""
    from mdf_loop.api.compiled import compile
    from mdf_loop.api.time_steps import describe_differing_steps
    from mdf_loop.ir import StopReason
    from mdf_loop.memory_limit import checked_limit, limited

    ctx.with_resource(limited(checked_limit(options["memory_limit"])))
    _check_files(options)
    document = open_model(model, options["loop_condition"])
    compiled_model = compile(document, **{name: options[name] for name in COMPILER_OPTIONS})
    spec = _run_specification(options, compiled_model.document)
    for option in OUTPUT_OPTIONS:
        if options[option] is not None:
            refuse_overwriting(path_of(options[option], _option_name(option)))
    results, failure = _run_model(compiled_model, spec)
    is_interrupted = results.stopped_by.is_asked or isinstance(failure, Signalled)
    with delaying_interrupt(heard=is_interrupted):
        failure = _write_files(compiled_model, results, options, failure)
        if not isinstance(failure, LoopError) or isinstance(failure, InputError | MemoryLimitError):
            for printed_text in _printed_parts(compiled_model, results, options):
                show(printed_text, end="")
            show()
        for note in (*describe_differing_steps(compiled_model.prepared, spec), *results.notes):
            show(escape_to_one_line(f"warning: {note}"), error=True)
    if failure is not None:
        raise failure
    if results.stopped_by.is_asked or results.stopped_by is StopReason.TIME_LIMIT:
        if results.checkpoint:
            resume_option = f"--resume '{results.checkpoint}'"
        else:
            resume_option = "--resume" if results.store else ""
        if resume_option:
            show(f"to resume, run the same command with {resume_option}", error=True)
    ctx.exit(exit_code(results.stopped_by))


OUTPUT_OPTIONS = ("output", "plot", "final_state", "checkpoint")
"""Options that name an output file."""


def _option_name(option: str) -> str:
    """Return the command-line spelling of an option, such as `--final-state`."""
    return f"--{option.replace('_', '-')}"


def _check_files(options: Mapping[str, Any]) -> None:
    """Raise an InputError before the run if an output file is not writable."""
    if options["output"] is not None:
        from mdf_loop.results.saving import check_results_path

        check_results_path(options["output"])
    if options["plot"] is not None:
        from mdf_loop.results.figures import check_figure_path
        from mdf_loop.results.plotting import missing_axis_error

        check_figure_path(options["plot"])
        if not any(options[option] for option in ("steps", "trials", "sweep", "grid")):
            raise missing_axis_error()
    if options["final_state"] is not None:
        from mdf_loop.run.states import check_state_file, missing_state_error

        if options["cluster"] is not None:
            raise InputError(
                "--final-state cannot be had with --cluster: a run on a cluster ends in no state",
                hint="leave one of the two out",
            )
        check_state_file(options["final_state"])
        if options["steps"] is None or options["engine"] == "modeci":
            raise missing_state_error()
    _check_distinct_files(options)


def _check_distinct_files(options: Mapping[str, Any]) -> None:
    """Raise an InputError if two results of a run would be written to one file.

    A run may overwrite the files that it resumes from by its checkpoint and its final state.
    """
    input_options = ("initial_state",) if options["cluster"] else ("resume", "initial_state")
    paths_by_option = {
        _option_name(name): options[name] for name in (*OUTPUT_OPTIONS, *input_options)
    }
    parsed_paths = {
        option: None if path is None else path_of(path, option)
        for option, path in paths_by_option.items()
    }
    for allowed_pair in product(("--checkpoint", "--resume"), ("--initial-state", "--final-state")):
        refuse_overlapping_outputs(
            {option: path for option, path in parsed_paths.items() if option not in allowed_pair}
        )


def _run_specification(options: Mapping[str, Any], document: Document) -> RunSpecification:
    """Return the specification of a run from command-line options."""
    from mdf_loop.cli.inputs import read_inputs, read_members, read_step
    from mdf_loop.cli.run_arguments import read_run_arguments
    from mdf_loop.run.states import load_state
    from mdf_loop.specification import specify

    state_file, time_step = options["initial_state"], read_step(options["dt"], document)
    arguments = {
        "inputs": read_inputs(options["pairs"], options["files"], options["steps"], time_step),
        "sweep": read_members(options["sweep"], options["grid"]),
        "state": None if state_file is None else load_state(state_file),
        "dt": time_step,
        "progress": False if options["quiet"] else None,
    }
    return specify(RunOptions(**{**read_run_arguments(options), **arguments}))


def _run_model(
    compiled_model: CompiledModel, spec: RunSpecification
) -> tuple[Results, LoopError | Signalled | None]:
    """Run a model, and return the complete or partial results and an error or signal, if any.

    The error may also be an error of writing the results.
    """
    from mdf_loop.api import specified_run

    try:
        return specified_run.run_specified(compiled_model.prepared, spec), None
    except Signalled as signal:
        if signal.results is None:
            raise
        return signal.results, signal
    except LoopError as error:
        if error.results is None:
            raise
        (first_finding, *other_findings) = error.findings
        store_path = None if other_findings else spec.output
        command_line_hint = _command_line_hint(error, first_finding.hint, store_path, spec.controls)
        error.findings = (replace(first_finding, hint=command_line_hint), *other_findings)
        return error.results, error


def _command_line_hint(
    error: LoopError, hint: str, output: str | Path | None, controls: RunControls
) -> str:
    """Return the remedy for an error, reworded in terms of command-line options.

    `output` has the partial results.
    """
    if isinstance(error, DiskFullError):
        if error.results.checkpoint is not None:
            return f"free disk space, and continue with --resume '{error.results.checkpoint}'"
        if controls.checkpoint is not None:
            return "free disk space, and start again: there was no space for a checkpoint"
        return "free disk space; a run with --checkpoint FILE can be resumed"
    if isinstance(error, MemoryLimitError) and controls.checkpoint_path is not None:
        return f"go on with --resume '{controls.checkpoint_path}' and a larger --memory-limit"
    if isinstance(error, InputError):  # writing the output failed
        return hint
    results_location = (
        f"'{output}' has the partial results" if output else "--output saves the partial results"
    )
    return (
        results_location
        if isinstance(error, NotFiniteError) or not hint
        else f"{hint}; {results_location}"
    )


def _write_files(
    compiled_model: CompiledModel,
    results: Results,
    options: Mapping[str, Any],
    failure: LoopError | Signalled | None,
) -> LoopError | Signalled | None:
    """Write the final state and the plot of a run, if the options request them.

    Return the first error, if any.
    """
    from mdf_loop.run.states import save_state

    try:
        if options["final_state"] is not None:
            save_state(options["final_state"], results.state)
        if options["plot"] is not None:
            plot_title = compiled_model.document.graph.id
            results.plot(options["plot"], title=plot_title)
    except InputError as error:
        if not isinstance(failure, LoopError):
            return error
        failure.findings += error.findings
    return failure


def _printed_parts(
    compiled_model: CompiledModel, results: Results, options: Mapping[str, Any]
) -> Iterable[str]:
    """Return the texts that `mdf-loop run` prints on stdout."""
    from mdf_loop.cli.run_notes import notes_on_idle_nodes
    from mdf_loop.cli.text import results_as_json, results_as_text

    execution_list = results.execution_list if options["execution_list"] else None
    if options["as_json"]:
        return results_as_json(results, execution_list)
    is_modeci = options["engine"] == "modeci"
    device_reason = "modeci_mdf's engine" if is_modeci else compiled_model.device_reason
    notes = notes_on_idle_nodes(compiled_model.document, results)
    return ("\n".join((results_as_text(results, device_reason, execution_list), *notes)),)
