"""What `Compiled.run` does: what is asked for is checked, run, and put together as results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.choices import Choices
from mdf_loop.emit.loop_node import ENDLESS
from mdf_loop.errors import InputError, LoopError, NotFiniteError, UnknownNameError
from mdf_loop.identity import identity
from mdf_loop.ir import Loop, Program, StoppedBy, loops
from mdf_loop.onnx_types import is_tensor
from mdf_loop.passes import drop_unused
from mdf_loop.paths import path_of, refuse_clashes
from mdf_loop.randomness import SAVED, refuse_random
from mdf_loop.reading.names import find_item, named_items
from mdf_loop.reading.settings import with_values
from mdf_loop.request import Request, request
from mdf_loop.run.device import Device
from mdf_loop.run.engine import engine_results, only_given
from mdf_loop.run.missing import with_missing
from mdf_loop.run.over_time import TimedSession, Wanted, checked_steps, refuse_without_steps
from mdf_loop.run.overseeing.course import Sink
from mdf_loop.run.overseeing.overseer import Overseer, Oversight
from mdf_loop.run.pieces import Reached
from mdf_loop.run.recording.claim import Claim, claimed
from mdf_loop.run.recording.keeping import Keeping, kept
from mdf_loop.run.recording.rows import Rows
from mdf_loop.run.recording.streamed import Streamed
from mdf_loop.run.recording.zarr_folder import complete, create
from mdf_loop.run.results import Axis, LoopReport, Results
from mdf_loop.run.saving import check_file, check_texts
from mdf_loop.run.timed_run import Ran, run_over_time
from mdf_loop.signals import Signalled, finished

if TYPE_CHECKING:
    from mdf_loop.compiled import Compiled


def run(compiled: Compiled, choices: Choices, oversight: Oversight) -> Results:
    """Run a model, and save the results where that is asked for."""
    if choices.output is not None:
        if oversight.begins or not choices.streams:
            check_file(choices.output)  # a run that goes on looks at its store itself
        output = path_of(choices.output, "the output")
        for what, path in (("checkpoint", oversight.checkpoint), ("resume", oversight.resume)):
            refuse_clashes({"output": output, what: path})
        names = (*named_items(compiled.document, choices.chosen), *choices.sweep)
        check_texts(choices.output, names, compiled.units)
    if choices.store is None:
        return _run(compiled, choices, oversight, None)
    with claimed(choices.store, oversight.run, overwrite=choices.overwrite) as claim:
        if oversight.begins:
            claim.check_new()
        return _run(compiled, choices, oversight, claim)


def _run(
    compiled: Compiled, choices: Choices, oversight: Oversight, claim: Claim | None
) -> Results:
    """The same, with the store that is written as the run's own, if there is one."""
    if choices.engine == "modeci":
        results, error = _run_in_engine(compiled, choices, oversight), None
    elif choices.steps is None:
        results, error = _run_once(compiled, choices, oversight, claim)
    else:
        results, error = _run_over_time(compiled, choices, oversight, claim)
    results.read_from = compiled.document.files
    try:
        with finished(heard=results.stopped_by.is_asked):
            _save(results, choices, claim)
    except Signalled as signalled:
        if error is None:
            signalled.results = results
            raise
    except InputError as unsaved:
        if error is None:
            error = unsaved
        else:
            error.findings += unsaved.findings
    if error is not None:
        error.results = results
        if results.stopped_by is StoppedBy.FAILED:
            (first, *others) = error.findings
            error.findings = (replace(first, what=results.reason), *others)
        raise error
    return results


def _save(results: Results, choices: Choices, claim: Claim | None) -> None:
    """Write the results where that was asked for, or what is not yet written of them."""
    if claim is None:
        if choices.output is not None:
            results.save(choices.output)
        return
    claim.check()
    if choices.streams:
        complete(claim.place, results)
    else:
        create(claim.place, results, run=claim.run)


def _ended_by(
    compiled: Compiled, overseer: Overseer, time: Callable[[int], float | None]
) -> LoopError | None:
    """The error that a run has ended with, if any."""
    found = overseer.found
    if found is None or overseer.oversight.nan != "error":
        return overseer.failure
    where = compiled.document.where
    with suppress(UnknownNameError):
        item = find_item(compiled.document, found.name)
        where = f"{where}.nodes['{item.node}'].{item.kind}['{item.id}']"
    sentence = found.sentence(time(found.step))
    return NotFiniteError(sentence, where, "what was reached is in error.results")


def _why(stopped_by: StoppedBy, overseer: Overseer, time: Callable[[int], float | None]) -> str:
    """The sentence about a reason, as exact as it can be."""
    if overseer.found is not None:
        return overseer.found.sentence(time(overseer.found.step))
    return str(stopped_by.value if overseer.failure is None else overseer.failure.findings[0].what)


def _request(compiled: Compiled, choices: Choices, oversight: Oversight) -> Request:
    """The request; a loop without an end is allowed where a time limit ends it."""
    options = compiled.options
    if oversight.time_limit is not None and options.max_iterations is None:
        options = replace(options, max_iterations=int(ENDLESS))
    return request(
        compiled.document,
        options,
        inputs=choices.inputs,
        chosen=choices.chosen,
        parameters=choices.set,
        sweep=choices.sweep,
        steps=choices.steps,
    )


# --- one evaluation -------------------------------------------------------------------------------


def _run_once(
    compiled: Compiled, choices: Choices, oversight: Oversight, claim: Claim | None
) -> tuple[Results, LoopError | None]:
    dt, state, every = choices.dt, choices.state, choices.every
    refuse_without_steps(
        dt=dt,
        state=state,
        every=None if every == 1 else every,
        when=choices.when,
        reduce=choices.reduce or None,
        execution_list=choices.execution_list or None,
    )
    asked = _request(compiled, choices, oversight)
    program, once = compiled.once(asked)
    if oversight.saved_at is not None:
        refuse_random(SAVED, drop_unused(program))
    names = [name for name, _ in program.outputs]
    overseer = Overseer(oversight, lambda: identity(compiled, asked, choices, names))
    if claim is not None:
        claim.run = overseer.run
        claim.check_new()
    reached = once.run(asked.arrays, overseer)
    outputs = {name: v for name, v in program.outputs if name in reached.outputs}
    reports = {} if asked.members else {**_reports(program, reached), **reached.loops}
    stopped_by, reason = _how_it_went(reached, reports, overseer)
    results = _results(
        compiled,
        asked,
        with_missing({name: reached.outputs[name] for name in outputs}),
        once.device,
        loops=reports,
        dtypes={name: v.dtype for name, v in outputs.items() if not is_tensor(v.dtype)},
        stopped_by=stopped_by,
        reason=reason,
        checkpoint=overseer.checkpoint,
    )
    return results, _ended_by(compiled, overseer, lambda step: None)


def _reports(program: Program, reached: Reached) -> dict[str, LoopReport]:
    """How the loops went that were not followed."""
    made = reached.outputs
    return {
        loop.name: _report(loop, made)
        for loop in loops(program)
        if f"{loop.name}.iterations" in made
    }


def _report(loop: Loop, made: Mapping[str, Any]) -> LoopReport:
    limit = StoppedBy.MAX_ITERATIONS if loop.trip_count is None else StoppedBy.TRIP_COUNT
    last = made.get(f"{loop.name}.condition")
    goes_on = loop.condition is None or (last is not None and bool(last))
    stopped_by = limit if goes_on else StoppedBy.CONDITION
    return LoopReport(int(made[f"{loop.name}.iterations"]), stopped_by)


def _how_it_went(
    reached: Reached, reports: Mapping[str, LoopReport], overseer: Overseer
) -> tuple[StoppedBy, str]:
    """Why an evaluation ended, and the sentence about it."""
    stopped_by = reached.stopped_by
    if stopped_by is None:
        bounded = any(r.stopped_by is StoppedBy.MAX_ITERATIONS for r in reports.values())
        stopped_by = StoppedBy.MAX_ITERATIONS if bounded else StoppedBy.COMPLETED
    stopped = [
        f"{report.iterations} iteration{'s' * (report.iterations != 1)} of {name}"
        for name, report in reports.items()
        if report.stopped_by is stopped_by
    ]
    why = _why(stopped_by, overseer, lambda step: None)
    missing = [f"'{name}' could not be computed: {why}" for name, why in reached.missing.items()]
    return stopped_by, "; ".join((*stopped, why, *missing))


# --- over time ------------------------------------------------------------------------------------


def _run_over_time(
    compiled: Compiled, choices: Choices, oversight: Oversight, claim: Claim | None
) -> tuple[Results, LoopError | None]:
    steps, dt, every = checked_steps(choices.steps, choices.dt, choices.every)
    chosen, keeping = kept(compiled.document, choices.chosen, every, choices.when, choices.reduce)
    choices = replace(choices, chosen=chosen)
    asked = _request(compiled, choices, oversight)
    wanted = Wanted(
        asked.arrays,
        asked.given.over_time,
        steps,
        dt,
        state=choices.state,
        executed=choices.execution_list,
    )
    session = compiled.over_time(asked, has_dt=dt is not None, executed=wanted.executed)
    wanted = session.checked(wanted)
    keeping = replace(keeping, open=session.row_shapes.open)
    if not (chosen.watch or keeping.reduce or session.has_small_rows):
        wanted = replace(wanted, thinned=every)  # no other row is looked at
    _refuse_members(asked, keeping)
    ends = oversight.time_limit is None  # else nobody knows how many rows there will be
    expected = keeping.expected(wanted.first, steps) if ends else None
    overseer = Overseer(
        oversight, lambda: identity(compiled, asked, choices, keeping.names), session.axis
    )
    sink: Sink = Rows(session.axis, expected)
    if claim is not None:
        claim.run = overseer.run
        sink = _stream(compiled, asked, choices, session, keeping, claim)
    with overseer:
        ran = run_over_time(session, wanted, keeping, sink, overseer, compiled.document.graph.id)
    compiled.ran_on(ran.device)
    results = _results(
        compiled,
        asked,
        {**ran.rows, **ran.reduced},
        ran.device,
        axes=(ran.axis,) if keeping.traces else (),
        lengths=ran.lengths,
        state=ran.state,
        execution_list=ran.execution_list,
        reduced=ran.reduced,
        units=_units_of_reduced(compiled, keeping),
        stopped_by=ran.stopped_by,
        reason=_sentence(ran, wanted, overseer),
        checkpoint=overseer.checkpoint,
    )
    return results, _ended_by(compiled, overseer, ran.time_of)


def _units_of_reduced(compiled: Compiled, keeping: Keeping) -> dict[str, str]:
    """A reduction has the unit of its output."""
    units = compiled.units
    return {
        f"{name}.{word}": units[name]
        for name, words in keeping.reduce.items()
        for word in words
        if name in units
    }


def _refuse_members(asked: Request, keeping: Keeping) -> None:
    if asked.members and keeping.when is not None:
        raise InputError(
            "a sweep cannot choose rows by `when`: each of its members would have its own",
            hint="leave when out, or run the members one by one",
        )


def _stream(
    compiled: Compiled,
    asked: Request,
    choices: Choices,
    session: TimedSession,
    keeping: Keeping,
    claim: Claim,
) -> Streamed:
    """Where rows go while they are computed."""
    empty = np.zeros(0, np.int64 if choices.dt is None else np.float64)
    time = Axis("time", {"step" if choices.dt is None else "time": empty})
    axes = (Axis("batch", asked.members), time) if asked.members else (time,)
    units = {**compiled.units, "time": "s"}
    return Streamed(
        claim.path,
        axes,
        lambda: (session.device.name, compiled.options.precision),
        units,
        keeping.columns,
        keeping.lengths,
        claim,
    )


def _sentence(ran: Ran, wanted: Wanted, overseer: Overseer) -> str:
    """How far a run came, and why it ended."""
    if ran.stopped_by is StoppedBy.COMPLETED:
        return str(ran.stopped_by.value)
    return f"{ran.done} of {wanted.steps} steps; {_why(ran.stopped_by, overseer, ran.time_of)}"


# --- modeci_mdf's engine --------------------------------------------------------------------------


def _run_in_engine(compiled: Compiled, choices: Choices, oversight: Oversight) -> Results:
    steps, dt, every = choices.steps, choices.dt, choices.every
    if steps is not None:
        steps, dt, every = checked_steps(steps, dt, every)
    asked = _request(compiled, choices, oversight)
    _refuse_in_engine(choices, oversight)
    return engine_results(
        with_values(compiled.document, asked.settings),
        only_given(compiled.document, choices.inputs, asked.given),
        steps=steps,
        dt=dt,
        every=every,
        chosen=choices.chosen,
        device=compiled.wanted_device,
        precision=compiled.options.precision,
    )


def _refuse_in_engine(choices: Choices, oversight: Oversight) -> None:
    for what, given in (
        ("sweep", choices.sweep),
        ("state", choices.state),
        ("when", choices.when),
        ("reduce", choices.reduce),
        ("time limit", oversight.time_limit),
        ("watch for nan", oversight.nan != "ignore"),
        ("checkpoint", oversight.saved_at),
        ("memory limit", oversight.memory_limit),
    ):
        if given:
            raise InputError(
                f"modeci_mdf's engine takes no {what}",
                hint="leave it out, or run the model compiled",
            )


# --- results --------------------------------------------------------------------------------------


def _results(
    compiled: Compiled,
    asked: Request,
    outputs: Mapping[str, Any],
    device: Device,
    *,
    loops: Mapping[str, LoopReport] | None = None,
    axes: tuple[Axis, ...] = (),
    units: Mapping[str, str] | None = None,
    **more: Any,
) -> Results:
    if asked.members:
        axes = (Axis("batch", asked.members), *axes)
    return Results(
        outputs,
        loops or {},
        device.name,
        compiled.options.precision,
        axes=axes,
        units={**compiled.units, **(units or {})},
        **more,
    )
