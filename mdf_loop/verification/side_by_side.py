"""Comparison of a compiled model with modeci_mdf's engine and the NumPy interpreter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from msgspec.structs import replace

from mdf_loop.api import specified_run
from mdf_loop.api.compiled import CompiledModel, compile
from mdf_loop.document.document import Document
from mdf_loop.errors import LoopError, RunError
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.interruption import InterruptReaction
from mdf_loop.ir import Array, Data, OutputRole, StopReason
from mdf_loop.memory_limit import checked_limit, limited
from mdf_loop.public_call import public_call
from mdf_loop.reading import read, read_annotated
from mdf_loop.reading.inputs import BoundInputs, open_ports
from mdf_loop.reading.names import items, named_items
from mdf_loop.reading.settings import with_values
from mdf_loop.request.run_options import RunOptions
from mdf_loop.results.data import Results
from mdf_loop.run.interpret import interpret
from mdf_loop.run.modeci.engine import EngineRun, run_evaluations, select_inputs
from mdf_loop.run.modeci.engine_graph import (
    EngineGraph,
    copy_port_values,
    keep_port_values,
    skip_debug_texts,
)
from mdf_loop.run.modeci.evaluations import Evaluations
from mdf_loop.run.recording.missing_rows import fill_missing_rows
from mdf_loop.signals import stop_exception
from mdf_loop.specification import RunSpecification, specify
from mdf_loop.trials import checked_draws
from mdf_loop.verification.comparison import (
    Comparison,
    Verification,
    compare_members,
    compare_rows,
    extents_without_ones,
    type_of,
)
from mdf_loop.verification.differences import has_onnx_functions, remaining_differences
from mdf_loop.verification.limits import Limits, time_limit_error
from mdf_loop.verification.order import compare_order, describe_random_order
from mdf_loop.verification.preparing import prepare

TOLERANCE = 1e-12
"""Relative difference up to which numbers count as equal, since kernels round last bits differently."""

ENGINE_ONNX_TOLERANCE = 1e-5
"""Tolerance for models with onnx:: functions, which modeci_mdf's engine computes in float32."""


@public_call
def verify(
    source: Source,
    inputs: Mapping[str, Any] | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    steps: int | None = None,
    dt: float | str | None = None,
    device: str = "auto",
    precision: str = "float64",
    shapes: str = "strict",
    max_iterations: int | None = None,
    unroll: int | None = None,
    threads: int | None = None,
    seed: int | str = 0,
    time_limit: float | str | None = None,
    memory_limit: float | str | None = None,
    on_interrupt: str | None = None,
) -> Verification:
    """Compare a compiled model with modeci_mdf's engine and, for one evaluation, the interpreter.

    All output ports are compared, and all parameters that are numbers on both sides. A parameter with
    the id of an output port of its node is compared as that port. The engine is unchanged except for
    four things. It formats no debug texts, which take most of its time. Where its own order is random,
    it uses the order of the document. Values that it would add up in place, in the array of their
    sender, are copied first. An input keeps its value when its node runs again in the same evaluation.
    Notes name the places.

    Args:
        source: Path of a file, a modeci_mdf Model or Graph, or the dict of a graph.
        inputs: Input values by port id (`node.port` where ambiguous), as for `run`.
        set: Parameter values by `node.parameter`, as for `run`.
        steps: Number of evaluations of a comparison over time, with the engine only. Without `steps`, one
            evaluation is compared with both engines.
        dt: Time between two evaluations, as for `run`.
        device: Device of the compiled model, as for `compile`.
        precision: Precision of the compiled model, as for `compile`. The engine computes in float64.
        shapes: As for `compile`.
        max_iterations: As for `compile`.
        unroll: As for `compile`.
        threads: As for `compile`.
        seed: As for `run`. The engine draws the same random numbers.
        time_limit: Largest duration: seconds, or text such as `"10min"`. The steps that both sides have
            completed are compared, and a note states their number. An evaluation of the engine that has
            begun is not stopped.
        memory_limit: Memory limit of this process, as for `run`.
        on_interrupt: Effect of Ctrl-C: `raise`, or `return` the finished comparisons; see
            `CompiledModel.run`.

    Raises:
        LoopError: The compiled model cannot run, or the other engines have no value to compare.
        KeyboardInterrupt: Ctrl-C was pressed. `.results` holds the finished comparisons, or None.
    """
    with limited(checked_limit(memory_limit)):
        document = open_document(source)
        compiled_model = compile(
            document,
            device=device,
            precision=precision,
            shapes=shapes,
            max_iterations=max_iterations,
            unroll=unroll,
            threads=threads,
        )
        model_units = compiled_model.prepared.model_units
        spec = specify(
            RunOptions(
                model_units.convert_inputs(inputs),
                set=model_units.convert_settings(set),
                steps=steps,
                dt=model_units.convert_time_step(dt),
                seed=checked_draws(seed).seed,
                time_limit=time_limit,
            )
        )
        with InterruptReaction[Verification](
            on_interrupt, lambda verification: "".join(verification.notes[:1])
        ) as call:
            call.results = _verify(document, compiled_model, spec)
        return call.results


def _verify(
    document: Document, compiled_model: CompiledModel, spec: RunSpecification
) -> Verification:
    """Compare a run with other engines, or only its completed steps after an interruption.

    Raises:
        KeyboardInterrupt: The run was interrupted before the first step was completed.
        LoopError: A limit was exceeded before the first step, or no value can be compared.
    """
    limits = Limits(spec.controls.time_limit)
    requested_steps = spec.steps
    bound_values = prepare(compiled_model.prepared, spec)
    bound_inputs, document = bound_values.inputs, with_values(document, bound_values.settings)
    notes: list[str] = []
    engine_inputs = select_inputs(document, spec.values.inputs, bound_inputs)
    engine_run = _run_engine(document, engine_inputs, spec, notes, limits)
    if engine_run.stopped_by is not None and not engine_run.execution_list:
        raise time_limit_error()
    recorded_names = [
        model_item.name
        for model_item in items(document)
        if model_item.node_field != "functions" and model_item.name in engine_run.arrays
    ]
    recorded_selection = replace(spec.selection, record=tuple(recorded_names))
    if engine_run.stopped_by is not None and not bound_inputs.varying_names:
        spec = replace(spec, steps=len(engine_run.execution_list))
    spec = replace(spec, controls=replace(spec.controls, time_limit=limits.remaining))
    compiled_results = specified_run.run_specified(
        compiled_model.prepared, replace(spec, selection=recorded_selection)
    )
    tolerance = _choose_tolerance(document, compiled_model.options.precision)
    if engine_run.stopped_by is not None and not compiled_results.stopped_by.is_asked:
        compiled_results = compiled_results.with_changes(stopped_by=engine_run.stopped_by)
    if compiled_results.stopped_by.is_asked or compiled_results.stopped_by is StopReason.TIME_LIMIT:
        return _verify_common_steps(
            document, compiled_results, engine_run, tolerance, notes, requested_steps
        )
    if requested_steps is None:
        evaluation_inputs = spec.values.inputs
        interpreter_program = read(
            document, evaluation_inputs, record=recorded_names, options=compiled_model.options
        )
        program_input_arrays = bound_values.with_random_keys(interpreter_program).arrays
        interpreter_outputs = interpret(
            interpreter_program, program_input_arrays, limits.check_interpreter
        )
        interpreter_results = fill_missing_rows(
            interpreter_outputs, interpreter_program.output_names(OutputRole.HAS_RUN)
        )
        results_by_engine = {
            "interpreter": interpreter_results,
            "modeci_mdf": _with_result_names(document, engine_run.arrays),
        }
        comparisons = _compare_values(document, compiled_results, results_by_engine, tolerance)
    else:
        comparisons = _compare_steps(document, compiled_results, engine_run, tolerance)
    if not comparisons:
        raise _nothing_to_compare_error(engine_run.failure, document)
    if requested_steps is not None:
        compiled_order = compiled_results.execution_list
        if compiled_order is None:  # values determine the order, so another run records it
            controls_with_remaining_time = replace(spec.controls, time_limit=limits.remaining)
            order_recording_run = specified_run.run_specified(
                compiled_model.prepared,
                replace(
                    spec.with_options(execution_list=True), controls=controls_with_remaining_time
                ),
            )
            if order_recording_run.stopped_by.is_asked:
                raise stop_exception(order_recording_run.stopped_by)
            compiled_order = order_recording_run.execution_list or ()
            if order_recording_run.stopped_by is StopReason.TIME_LIMIT:
                notes.append(
                    f"the time limit of the comparison was over: the order of nodes was compared in {len(compiled_order)} steps"
                )
                engine_run = replace(
                    engine_run, execution_list=engine_run.execution_list[: len(compiled_order)]
                )
        comparisons += (compare_order(compiled_order, engine_run.execution_list),)
    if tolerance == ENGINE_ONNX_TOLERANCE:
        notes.append("modeci_mdf's engine computes onnx:: functions in float32")
    first_input_values = {name: bound_inputs.first_value(name) for name in bound_inputs.arrays}
    value_by_path = read_annotated(
        document, first_input_values, options=compiled_model.options
    ).terms_by_path
    notes += [
        f"{note.what} (at {note.where})" for note in remaining_differences(document, value_by_path)
    ]
    return Verification(comparisons, tolerance, tuple(notes))


def _verify_common_steps(
    document: Document,
    compiled_results: Results,
    engine_run: EngineRun,
    tolerance: float,
    notes: Sequence[str],
    requested_steps: int | None,
) -> Verification:
    """Compare the steps of a run that both the model and modeci_mdf's engine completed.

    Raises:
        KeyboardInterrupt: The run was interrupted without a completed step.
        RunError: The time limit was over before the first step.
    """
    completed_step_count = 0 if compiled_results.steps is None else compiled_results.axes[-1].length
    common_step_count = min(completed_step_count, len(engine_run.execution_list))
    is_interrupted = compiled_results.stopped_by.is_asked
    if not common_step_count:
        raise stop_exception(compiled_results.stopped_by) if is_interrupted else time_limit_error()
    engine_rows = {
        value_name: recorded_values[:common_step_count]
        for value_name, recorded_values in engine_run.rows.items()
    }
    comparisons = _compare_steps(
        document, compiled_results, replace(engine_run, rows=engine_rows), tolerance
    )
    end_reason = (
        "the run was interrupted" if is_interrupted else "the time limit of the comparison was over"
    )
    limit_note = f"{end_reason}: {common_step_count} of {requested_steps} steps were compared"
    return Verification(comparisons, tolerance, (limit_note, *notes))


def _run_engine(
    document: Document,
    inputs: BoundInputs,
    spec: RunSpecification,
    notes: list[str],
    limits: Limits,
) -> EngineRun:
    """Run modeci_mdf's engine until its end, an error or a limit, and note differences.

    Remarks are appended to `notes`.
    """
    with skip_debug_texts():
        try:
            engine = EngineGraph(document, spec.values.draws.seed)
        except LoopError as error:
            notes.append(_engine_note(error))
            return EngineRun({}, (), {}, error)
        names_of_copied_ports = copy_port_values(engine)
        input_ports = [port for port in open_ports(document) if port.name in inputs.arrays]
        keep_port_values(engine, ((port.node, port.port.id) for port in input_ports))
        limits.begin()
        engine_run = run_evaluations(
            Evaluations(engine, dt=spec.dt), inputs, spec.steps, limits.check_engine
        )
    if engine_run.failure is not None:
        completed_step_count = len(engine_run.execution_list)
        compared_steps_text = (
            f"; the {completed_step_count} steps before step {completed_step_count} were compared"
            if completed_step_count
            else ""
        )
        notes.append(f"{_engine_note(engine_run.failure)}{compared_steps_text}")
    if names_of_copied_ports:
        notes.append(
            "modeci_mdf's engine adds up in place, in the sender's array; here it was given "
            f"copies: {', '.join(names_of_copied_ports)}"
        )
    repeated_nodes = {
        node for node_sets in engine_run.execution_list for node in _repeated_nodes(node_sets)
    }
    if names_of_retained_inputs := [
        port.full_name for port in input_ports if port.node in repeated_nodes
    ]:
        notes.append(
            "modeci_mdf's engine empties an input when its node has run, and the node runs several "
            f"times in an evaluation; here it kept what it was given: {', '.join(names_of_retained_inputs)}"
        )
    if random_order_descriptions := describe_random_order(document):
        notes.append(
            "the order of modeci_mdf's engine is random, here it took that of the document: "
            f"{', '.join(random_order_descriptions)}"
        )
    return engine_run


def _repeated_nodes(evaluation: Iterable[Collection[str]]) -> list[str]:
    """Return the nodes that ran more than once in one evaluation."""
    run_count_by_node = Counter(node for node_set in evaluation for node in node_set)
    return [node for node, run_count in run_count_by_node.items() if run_count > 1]


def _nothing_to_compare_error(failure: LoopError | None, document: Document) -> RunError:
    """Return the error for a comparison without any value that both engines computed."""
    error_statement = "there is nothing to compare with"
    if failure is None:
        return RunError(
            error_statement, document.where, "no output port and no parameter is a number"
        )
    first_finding = failure.findings[0]
    hint = "leave steps out to compare one evaluation with the interpreter"
    return RunError(
        f"{error_statement}: {_name_engine_in_message(first_finding.what)}",
        first_finding.where,
        hint,
    )


def _with_result_names(document: Document, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine's values by `node.port`, and also by the names of the model's outputs."""
    named_output_items = named_items(document).items()
    return {
        **arrays,
        **{
            output_name: arrays[output_item.name]
            for output_name, output_item in named_output_items
            if output_item.name in arrays
        },
    }


def _engine_note(error: LoopError) -> str:
    """Convert an error of modeci_mdf's engine to a note with the error's location."""
    first_finding = error.findings[0]
    return f"{_name_engine_in_message(first_finding.what)} (at {first_finding.where})"


def _name_engine_in_message(message: str) -> str:
    """Add a prefix about modeci_mdf's engine to an error message that does not name the engine."""
    engine_description = "modeci_mdf's engine"
    return (
        message
        if engine_description in message
        else f"{engine_description} cannot run this model: {message}"
    )


def _compare_values(
    document: Document,
    compiled_outputs: Mapping[str, Data],
    other_results: Mapping[str, Mapping[str, Data]],
    tolerance: float,
) -> tuple[Comparison, ...]:
    """Compare the values of one evaluation with those of other engines."""
    names_of_parameters = _parameter_names(document)
    return tuple(
        comparison
        for engine, engine_values in other_results.items()
        for value_name in compiled_outputs
        if value_name in engine_values
        for comparison in compare_members(
            value_name,
            engine,
            compiled_outputs[value_name],
            engine_values[value_name],
            tolerance,
            is_parameter=value_name in names_of_parameters,
        )
    )


def _compare_steps(
    document: Document, compiled_results: Results, engine_run: EngineRun, tolerance: float
) -> tuple[Comparison, ...]:
    """Compare recorded rows with the values of modeci_mdf's engine, step by step."""
    names_of_parameters = _parameter_names(document)
    engine_rows_by_name, engine_arrays_by_name = (
        _with_result_names(document, engine_run.rows),
        _with_result_names(document, engine_run.arrays),
    )
    comparisons = []
    for value_name in compiled_results:
        if value_name in engine_rows_by_name:
            recorded_rows = compiled_results.rows(value_name)[
                : len(engine_rows_by_name[value_name])
            ]
            expected_rows = _expected_rows(
                engine_rows_by_name[value_name],
                recorded_rows,
                settled=value_name not in compiled_results.lengths,
            )
            array_types = (
                type_of(compiled_results[value_name][: len(recorded_rows)]),
                type_of(engine_arrays_by_name[value_name]),
            )
            is_parameter = value_name in names_of_parameters
            comparisons.append(
                compare_rows(
                    value_name,
                    "modeci_mdf",
                    recorded_rows,
                    expected_rows,
                    tolerance,
                    array_types,
                    is_parameter=is_parameter,
                )
            )
    return tuple(comparisons)


def _parameter_names(document: Document) -> Collection[str]:
    """Return the names of all parameters of a model, `node.parameter`."""
    return {
        model_item.name for model_item in items(document) if model_item.node_field == "parameters"
    }


def _expected_rows(
    engine_rows: Sequence[Array | None], our_rows: Sequence[Array], *, settled: bool
) -> list[Array]:
    """Return the rows of modeci_mdf's engine in the shapes that the compiled model records.

    If a node has not run, its row is nan. In a model whose rows all have one shape (`settled`), a state may
    begin as one number or as an array of one element. It is then broadcast to its later shape, and keeps
    that shape.
    """
    expected_rows: list[Array] = []
    has_initial_shape = True
    for engine_row, our_row in zip_longest(engine_rows, our_rows, fillvalue=np.empty(0)):
        if engine_row is None:
            expected_rows.append(np.full(our_row.shape, np.nan))
            continue
        has_initial_shape &= extents_without_ones(engine_row) != extents_without_ones(our_row)
        is_broadcast = (
            settled
            and (has_initial_shape or not engine_row.shape)
            and _broadcasts_to(engine_row, our_row)
        )
        expected_rows.append(
            np.broadcast_to(engine_row, our_row.shape) if is_broadcast else engine_row
        )
    return expected_rows


def _broadcasts_to(row: Array, our_row: Array) -> bool:
    """Return True if a recorded row can be broadcast to the shape of another row."""
    try:
        return np.broadcast_shapes(row.shape, our_row.shape) == our_row.shape
    except ValueError:
        return False


def _choose_tolerance(document: Document, precision: str) -> float:
    """Return the tolerance of a comparison, larger if one side computes in float32."""
    uses_float32 = has_onnx_functions(document) or precision == "float32"
    return ENGINE_ONNX_TOLERANCE if uses_float32 else TOLERANCE
