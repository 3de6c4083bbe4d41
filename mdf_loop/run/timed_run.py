"""One run of a model over time: from its first evaluation, or a checkpoint, to where it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mdf_loop.errors import InputError, RunError
from mdf_loop.ir import Data, StoppedBy
from mdf_loop.run.device import Device
from mdf_loop.run.execution_list import ExecutionList
from mdf_loop.run.over_time import TimedSession, Wanted
from mdf_loop.run.overseeing.course import Sink
from mdf_loop.run.overseeing.overseer import Overseer
from mdf_loop.run.recording.keeping import Keeping
from mdf_loop.run.recording.recorder import Recorder
from mdf_loop.run.recording.ticks import Clock
from mdf_loop.run.results import Axis
from mdf_loop.run.states import State
from mdf_loop.run.timed_course import TimedCourse
from mdf_loop.signals import ending


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run gave: rows of outputs, reductions without an axis of time, and how it went.

    `lengths` are those of rows that may have different ones.
    """

    rows: Mapping[str, Data]
    lengths: Mapping[str, Data]
    reduced: Mapping[str, Data]
    axis: Axis
    clock: Clock
    state: State
    execution_list: ExecutionList | None
    device: Device
    done: int
    stopped_by: StoppedBy

    def time_of(self, step: int) -> float | None:
        """The time of a step in seconds, where time passes."""
        return None if self.clock.dt is None else float(self.clock.at(step))


def run_over_time(
    session: TimedSession,
    wanted: Wanted,
    keeping: Keeping,
    sink: Sink,
    overseer: Overseer,
    name: str = "",
) -> Ran:
    """Run a model over time to its end, or until the run is stopped.

    Args:
        session: the model, ready to run.
        wanted: how far, from where, with what; checked by the session.
        keeping: what of it is kept.
        sink: where rows go.
        overseer: who stops it; entered.
        name: what the run is called where its progress is shown.

    Raises:
        KeyboardInterrupt, RunError: it was stopped before anything was reached.
    """
    course = TimedCourse(session, wanted)
    recorder = Recorder(keeping, sink, _clock(wanted), session.axis)
    if overseer.resumed is not None:
        course.restore(overseer.resumed["course"])
        if course.done > wanted.steps:
            raise InputError(
                f"the checkpoint is of {course.done} steps, more than the {wanted.steps} of this run",
                hint=f"give steps={course.done} or more",
            )
        numbers = range(wanted.first, wanted.first + course.done)
        recorder.restore(overseer.resumed["kept"], numbers, session.dtypes)
    stopped_by = overseer.follow(course, recorder, "steps", name)
    state = course.state(recorder.clock)
    if state is None:
        raise overseer.failure or _nothing_reached(stopped_by)
    sink.close()
    kept = sink.arrays()
    return Ran(
        {name: kept[name] for name in keeping.traces if name in kept},
        {name: kept[column] for name, column in keeping.lengths.items() if column in kept},
        recorder.reduced(),
        Axis("time", {"step" if wanted.dt is None else "time": recorder.ticks()}),
        recorder.clock,
        state,
        course.ran,
        session.device,
        course.done,
        stopped_by or StoppedBy.COMPLETED,
    )


def _clock(wanted: Wanted) -> Clock:
    """The clock of a run from its beginning, or from a state."""
    if wanted.state is None:
        return Clock(0, 0.0, wanted.dt)
    return Clock(wanted.first - 1, float(wanted.state["time"]), wanted.dt)


def _nothing_reached(reason: StoppedBy | None) -> BaseException:
    assert reason is not None
    if reason.is_asked:
        return ending(reason)
    return RunError(
        f"{reason.value} before the first evaluation was done",
        hint="give the run more time" if reason is StoppedBy.TIME_LIMIT else "",
    )
