"""The compiled model beside modeci_mdf's engine and the numpy interpreter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from msgspec.structs import replace

from mdf_loop.api.compiled import Compiled, compile
from mdf_loop.document.document import Document
from mdf_loop.errors import LoopError, RunError
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.interruption import interruptible
from mdf_loop.ir import Array, Data, OutputRole, StoppedBy
from mdf_loop.memory_limit import checked_limit, limited
from mdf_loop.reading import read, read_annotated
from mdf_loop.reading.inputs import Given, open_ports
from mdf_loop.reading.names import items, named_items
from mdf_loop.reading.settings import with_values
from mdf_loop.results.data import Results
from mdf_loop.run.interpret import interpret
from mdf_loop.run.modeci.engine import EngineRun, drive, only_given
from mdf_loop.run.modeci.engine_graph import EngineGraph, unformatted, with_copies, with_kept
from mdf_loop.run.modeci.evaluations import Evaluations
from mdf_loop.run.recording.missing import with_missing
from mdf_loop.signals import ending
from mdf_loop.specification import RunSpecification, specify
from mdf_loop.trials import draws
from mdf_loop.verification.comparison import (
    Comparison,
    Verification,
    compare_members,
    compare_rows,
    extents,
    type_of,
)
from mdf_loop.verification.differences import in_float32, unlevelled
from mdf_loop.verification.limits import Limits, time_is_over
from mdf_loop.verification.order import compare_order, random_places
from mdf_loop.verification.preparing import prepare

TOLERANCE = 1e-12
"""Relative difference up to which numbers are called equal: kernels round their last bits apart."""

ENGINE_ONNX_TOLERANCE = 1e-5
"""The same for models with onnx:: functions, which modeci_mdf's engine computes in float32."""


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
    """Compare the compiled model with modeci_mdf's engine, and one evaluation with the interpreter.

    Compared are all output ports and all parameters that are numbers on both sides. (A parameter
    with the id of an output port of its node is compared as that port.) The engine is used as it
    is, but for four things. It makes no debug texts, which take most of its time. Where its own
    order is random it takes the order of the document. Values that it would add up in place, in the
    array of their sender, are copied first. An input keeps what it was given when its node runs
    again in the same evaluation. Notes name the places.

    Args:
        source: a path, a modeci_mdf Model or Graph, or a graph's dict.
        inputs: values by port id (`node.port` where ambiguous), as for `run`.
        set: parameters by `node.parameter`, as for `run`.
        steps: compare the model over time, that many evaluations (with the engine alone);
            without it, one evaluation.
        dt: the time between two evaluations, as for `run`.
        device: where the compiled model runs.
        precision: of the compiled model; the engine computes in float64.
        shapes: as for `compile`.
        max_iterations: as for `compile`.
        unroll: as for `compile`.
        threads: as for `compile`.
        seed: as for `run`; the engine draws the same random numbers.
        time_limit: the comparison ends after so many seconds, or after e.g. `"10min"`; the steps that both
            sides have reached are compared, and a note tells how many these are. One evaluation of the engine
            is not stopped within.
        memory_limit: how much memory this process may have, as for `run`.
        on_interrupt: what Ctrl-C does: `raise` or `return` what was compared; see `Compiled.run`.

    Raises:
        LoopError: the compiled model cannot run, or there is nothing to compare it with.
        KeyboardInterrupt: Ctrl-C came: `.results` are the steps that were compared, or None.
    """
    with limited(checked_limit(memory_limit)):
        document = open_document(source)
        compiled = compile(
            document,
            device=device,
            precision=precision,
            shapes=shapes,
            max_iterations=max_iterations,
            unroll=unroll,
            threads=threads,
        )
        units = compiled.prepared.model_units
        asked = specify(
            units.convert_inputs(inputs),
            set=units.convert_settings(set),
            steps=steps,
            dt=units.convert_time_step(dt),
            seed=draws(seed).seed,
            time_limit=time_limit,
        )
        return interruptible(
            lambda: _verified(document, compiled, asked),
            on_interrupt,
            lambda found: "".join(found.notes[:1]),
        )


def _verified(document: Document, compiled: Compiled, asked: RunSpecification) -> Verification:
    """Return the comparison of a run; of an interrupted one the steps that it has.

    Raises:
        KeyboardInterrupt: there is no step to compare.
        LoopError: a limit was passed before there was one, or there is nothing to compare.
    """
    limits = Limits(asked.controls.time_limit)
    steps = asked.steps
    bound = prepare(compiled.prepared, asked)
    given, document = bound.given, with_values(document, bound.settings)
    notes: list[str] = []
    wanted = only_given(document, asked.values.inputs, given)
    theirs = _in_engine(document, wanted, asked, notes, limits)
    if theirs.stopped_by is not None and not theirs.execution_list:
        raise time_is_over()
    record = [i.name for i in items(document) if i.kind != "functions" and i.name in theirs.arrays]
    selection = replace(asked.selection, record=tuple(record))
    if theirs.stopped_by is not None and not given.over_time:
        asked = replace(asked, steps=len(theirs.execution_list))
    asked = replace(asked, controls=replace(asked.controls, time_limit=limits.remaining))
    ours = compiled.run_specified(replace(asked, selection=selection))
    tolerance = _tolerance(document, compiled.options.precision)
    if theirs.stopped_by is not None and not ours.stopped_by.is_asked:
        ours.stopped_by = theirs.stopped_by
    if ours.stopped_by.is_asked or ours.stopped_by is StoppedBy.TIME_LIMIT:
        return _of_steps_that_ran(document, ours, theirs, tolerance, notes, steps)
    if steps is None:
        inputs = asked.values.inputs
        program = read(document, inputs, record=record, options=compiled.options)
        arrays = bound.drawing(program).arrays
        computed = interpret(program, arrays, limits.of_interpreter)
        interpreted = with_missing(computed, program.output_names(OutputRole.HAS_RUN))
        others = {"interpreter": interpreted, "modeci_mdf": _as_shown(document, theirs.arrays)}
        comparisons = _compared(document, ours, others, tolerance)
    else:
        comparisons = _compared_by_step(document, ours, theirs, tolerance)
    if not comparisons:
        raise _nothing_to_compare(theirs.failure, document)
    if steps is not None:
        order = ours.execution_list
        if order is None:  # decided while running: asked for in a run of its own
            controls = replace(asked.controls, time_limit=limits.remaining)
            again = compiled.run_specified(replace(asked, execution_list=True, controls=controls))
            if again.stopped_by.is_asked:
                raise ending(again.stopped_by)
            order = again.execution_list or ()
            if again.stopped_by is StoppedBy.TIME_LIMIT:
                notes.append(
                    f"the time limit of the comparison was over: the order of nodes was compared in {len(order)} steps"
                )
                theirs = replace(theirs, execution_list=theirs.execution_list[: len(order)])
        comparisons += (compare_order(order, theirs.execution_list),)
    if tolerance == ENGINE_ONNX_TOLERANCE:
        notes.append("modeci_mdf's engine computes onnx:: functions in float32")
    first = {name: given.at_first(name) for name in given.arrays}
    types = read_annotated(document, first, options=compiled.options).types
    notes += [f"{note.what} (at {note.where})" for note in unlevelled(document, types)]
    return Verification(comparisons, tolerance, tuple(notes))


def _of_steps_that_ran(
    document: Document,
    ours: Results,
    theirs: EngineRun,
    tolerance: float,
    notes: Sequence[str],
    wanted: int | None,
) -> Verification:
    """Return the comparison of the steps that both sides have reached.

    Raises:
        KeyboardInterrupt: it is no run over time, or has no step.
        RunError: the same because of the time limit.
    """
    ran = 0 if ours.steps is None else ours.axes[-1].length
    steps = min(ran, len(theirs.execution_list))
    is_asked = ours.stopped_by.is_asked
    if not steps:
        raise ending(ours.stopped_by) if is_asked else time_is_over()
    rows = {name: column[:steps] for name, column in theirs.rows.items()}
    comparisons = _compared_by_step(document, ours, replace(theirs, rows=rows), tolerance)
    reason = "the run was interrupted" if is_asked else "the time limit of the comparison was over"
    note = f"{reason}: {steps} of {wanted} steps were compared"
    return Verification(comparisons, tolerance, (note, *notes))


def _in_engine(
    document: Document,
    given: Given,
    asked: RunSpecification,
    notes: list[str],
    limits: Limits,
) -> EngineRun:
    """What the engine gives as far as it comes; what is to be known about it goes to `notes`."""
    with unformatted():
        try:
            engine = EngineGraph(document, asked.values.draws.seed)
        except LoopError as error:
            notes.append(_what(error))
            return EngineRun({}, (), {}, error)
        copied = with_copies(engine)
        fed = [port for port in open_ports(document) if port.name in given.arrays]
        with_kept(engine, ((port.node, port.port.id) for port in fed))
        limits.begin()
        made = drive(Evaluations(engine, dt=asked.dt), given, asked.steps, limits.of_engine)
    if made.failure is not None:
        ran = len(made.execution_list)
        until = f"; the {ran} steps before step {ran} were compared" if ran else ""
        notes.append(f"{_what(made.failure)}{until}")
    if copied:
        notes.append(
            "modeci_mdf's engine adds up in place, in the sender's array; here it was given "
            f"copies: {', '.join(copied)}"
        )
    several = {node for sets in made.execution_list for node in _several(sets)}
    if kept := [port.full_name for port in fed if port.node in several]:
        notes.append(
            "modeci_mdf's engine empties an input when its node has run, and the node runs several "
            f"times in an evaluation; here it kept what it was given: {', '.join(kept)}"
        )
    if places := random_places(document):
        notes.append(
            "the order of modeci_mdf's engine is random, here it took that of the document: "
            f"{', '.join(places)}"
        )
    return made


def _several(evaluation: Iterable[Collection[str]]) -> list[str]:
    """The nodes that ran more than once."""
    times = Counter(node for together in evaluation for node in together)
    return [node for node, many in times.items() if many > 1]


def _nothing_to_compare(failure: LoopError | None, document: Document) -> RunError:
    said = "there is nothing to compare with"
    if failure is None:
        return RunError(said, document.where, "no output port and no parameter is a number")
    finding = failure.findings[0]
    hint = "leave steps out to compare one evaluation with the interpreter"
    return RunError(f"{said}: {_about_engine(finding.what)}", finding.where, hint)


def _as_shown(document: Document, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's values under the names that outputs have in results too."""
    shown = named_items(document).items()
    return {**arrays, **{name: arrays[item.name] for name, item in shown if item.name in arrays}}


def _what(error: LoopError) -> str:
    """What an error says, as a sentence about the engine."""
    finding = error.findings[0]
    return f"{_about_engine(finding.what)} (at {finding.where})"


def _about_engine(said: str) -> str:
    engine = "modeci_mdf's engine"
    return said if engine in said else f"{engine} cannot run this model: {said}"


def _compared(
    document: Document,
    ours: Mapping[str, Data],
    others: Mapping[str, Mapping[str, Data]],
    tolerance: float,
) -> tuple[Comparison, ...]:
    parameters = _parameters(document)
    return tuple(
        comparison
        for engine, outputs in others.items()
        for name in ours
        if name in outputs
        for comparison in compare_members(
            name, engine, ours[name], outputs[name], tolerance, is_parameter=name in parameters
        )
    )


def _compared_by_step(
    document: Document, ours: Results, theirs: EngineRun, tolerance: float
) -> tuple[Comparison, ...]:
    """What was recorded beside what the engine really had in each step, in the shape it had then."""
    parameters = _parameters(document)
    rows, arrays = _as_shown(document, theirs.rows), _as_shown(document, theirs.arrays)
    made = []
    for name in ours:
        if name in rows:
            recorded = ours.rows(name)[: len(rows[name])]
            expected = _expected(rows[name], recorded, settled=name not in ours.lengths)
            types = (type_of(ours[name][: len(recorded)]), type_of(arrays[name]))
            is_parameter = name in parameters
            made.append(
                compare_rows(
                    name,
                    "modeci_mdf",
                    recorded,
                    expected,
                    tolerance,
                    types,
                    is_parameter=is_parameter,
                )
            )
    return tuple(made)


def _parameters(document: Document) -> Collection[str]:
    return {item.name for item in items(document) if item.kind == "parameters"}


def _expected(
    theirs: Sequence[Array | None], ours: Sequence[Array], *, settled: bool
) -> list[Array]:
    """What the engine's rows are in the compiled model.

    Where a node has not run there is nan. In a model in which all rows have one shape (they are
    `settled`) a state that begins as one number, or as an array of one element, is spread to the
    shape that it gets; it does not lose that again.
    """
    made: list[Array] = []
    begins = True
    for row, own in zip_longest(theirs, ours, fillvalue=np.empty(0)):
        if row is None:
            made.append(np.full(own.shape, np.nan))
            continue
        begins &= extents(row) != extents(own)
        is_spread = settled and (begins or not row.shape) and _spreads(row, own)
        made.append(np.broadcast_to(row, own.shape) if is_spread else row)
    return made


def _spreads(row: Array, own: Array) -> bool:
    try:
        return np.broadcast_shapes(row.shape, own.shape) == own.shape
    except ValueError:
        return False


def _tolerance(document: Document, precision: str) -> float:
    rough = in_float32(document) or precision == "float32"
    return ENGINE_ONNX_TOLERANCE if rough else TOLERANCE
