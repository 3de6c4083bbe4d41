"""Run of a model over time, from its first evaluation (or a checkpoint) to its end."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from mdf_loop.errors import InputError, RunError
from mdf_loop.ir import Data, StopReason
from mdf_loop.run.control.controller import RunController
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.control.stepper import RowSink
from mdf_loop.run.device import Device
from mdf_loop.run.execution_list import ExecutionList
from mdf_loop.run.outputs import Axis
from mdf_loop.run.recording.not_finite import RowMonitor
from mdf_loop.run.recording.recorder import Recorder
from mdf_loop.run.recording.recording_plan import RecordingPlan
from mdf_loop.run.recording.ticks import Clock
from mdf_loop.run.states import State
from mdf_loop.run.time_session import TimeSession
from mdf_loop.run.time_stepper import TimeStepper
from mdf_loop.signals import stop_exception


class CompletedRun(Struct, frozen=True):
    """Results of a run over time: recorded rows, reductions, and the order of execution.

    `lengths` has the lengths of rows that vary in length.
    """

    rows: Mapping[str, Data]
    lengths: Mapping[str, Data]
    reductions: Mapping[str, Data]
    axis: Axis
    clock: Clock
    state: State
    execution_list: ExecutionList | None
    device: Device
    step_count: int
    stopped_by: StopReason
    row_monitor: RowMonitor

    def time_of(self, step: int, unit: str) -> str | None:
        """Return the time of a step as text (`0.0617 s`), or None for a model without time."""
        return None if self.clock.dt is None else f"{float(self.clock.at(step)):.6g} {unit}"


def start_recording(
    session: TimeSession,
    stepper: TimeStepper,
    plan: RecordingPlan,
    sink: RowSink,
    resumed_snapshots: Mapping[str, Snapshot] | None,
) -> Recorder:
    """Return the recorder of a run over time, and restore recorder and stepper from a checkpoint.

    Args:
        session: Loaded model.
        stepper: Stepper through the evaluations of this run.
        plan: Plan of the recorded values.
        sink: Destination of the recorded rows.
        resumed_snapshots: Parts of the checkpoint, or None for a new run.
    """
    recorder = Recorder(plan, sink, stepper.clock, session.axis, session.flag_names)
    stepper.get_buffers = recorder.get_buffers
    if resumed_snapshots is not None:
        stepper.restore(resumed_snapshots["course"])
        if stepper.done > stepper.total:
            raise InputError(
                f"the checkpoint is of {stepper.done} steps, more than the {stepper.total} of this run",
                hint=f"give steps={stepper.done} or more",
            )
        step_numbers = range(stepper.first_step, stepper.first_step + stepper.done)
        recorder.restore(resumed_snapshots["kept"], step_numbers, session.dtypes)
    return recorder


def complete_run(
    session: TimeSession,
    stepper: TimeStepper,
    recorder: Recorder,
    controller: RunController,
    stopped_by: StopReason | None,
) -> CompletedRun:
    """Close the destination of the rows, and return the results of a run over time.

    Raises:
        KeyboardInterrupt, RunError: The run was stopped before its first evaluation was complete.
    """
    plan, sink, state = recorder.plan, recorder.sink, stepper.state(recorder.clock)
    if state is None:
        raise controller.failure or _no_evaluation_error(stopped_by)
    sink.close()
    sink_rows = sink.arrays()
    return CompletedRun(
        {name: sink_rows[name] for name in plan.traces if name in sink_rows},
        {
            name: sink_rows[column]
            for name, column in plan.length_array_names.items()
            if column in sink_rows
        },
        recorder.reductions(),
        Axis("time", {"step" if stepper.clock.dt is None else "time": recorder.ticks()}),
        recorder.clock,
        state,
        stepper.execution_order,
        session.device,
        stepper.done,
        stopped_by or StopReason.COMPLETED,
        recorder.row_monitor,
    )


def _no_evaluation_error(reason: StopReason | None) -> BaseException:
    assert reason is not None
    if reason.is_asked:
        return stop_exception(reason)
    return RunError(
        f"{reason.value} before the first evaluation was done",
        hint="give the run more time" if reason is StopReason.TIME_LIMIT else "",
    )
