"""Reports about the loops of one evaluation, and padding of outputs with different numbers of rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdf_loop.api.prepared import Evaluation
from mdf_loop.ir import Array, Data, Loop, StopReason
from mdf_loop.run.outputs import LoopReport
from mdf_loop.run.recording.missing import pad_members
from mdf_loop.run.segments import PartialRun


def loop_reports(ready: Evaluation, partial_run: PartialRun) -> dict[str, LoopReport]:
    """Return the report of each loop by name. If a loop was stopped, its stepper provides the report."""
    reports: dict[str, LoopReport] = {}
    for loop in ready.loops:
        count, last = (names.get(loop.name, "") for names in (ready.counts, ready.conditions))
        if count in partial_run.outputs:
            outputs = partial_run.outputs
            reports[loop.name] = _build_report(ready, loop, outputs[count], outputs.get(last))
    own = {loop.name for loop in ready.loops}  # other loops are branches or created by passes
    for name, report in partial_run.loops.items():
        if name in own:
            reports[name] = _merge_reports(reports.get(name), report)
    return reports


def _build_report(ready: Evaluation, loop: Loop, count: Array, last: Array | None) -> LoopReport:
    """Return the report of a completed loop from its iteration count and its last condition."""
    limit = StopReason.MAX_ITERATIONS if loop.trip_count is None else StopReason.TRIP_COUNT
    goes_on = np.array(loop.condition is None) if last is None else last
    if loop.name not in ready.apart:
        return LoopReport(int(count.flat[0]), limit if goes_on.flat[0] else StopReason.CONDITION)
    codes = np.where(goes_on, limit.code, StopReason.CONDITION.code)
    return LoopReport.of(count, np.broadcast_to(codes, count.shape))


def _merge_reports(whole: LoopReport | None, followed: LoopReport) -> LoopReport:
    """Return the report of a loop's stepper, with the stop reasons of the completed loop if it ended.

    A stepper may report the end by a trip count as the end by a condition.
    """
    if whole is None or isinstance(followed.stopped_by, StopReason):
        return followed
    ended = followed.codes == np.array(StopReason.CONDITION.code)
    return LoopReport.of(np.asarray(whole.iterations), np.where(ended, whole.codes, followed.codes))


def padded(
    arrays: Mapping[str, Data], partial_run: PartialRun, ready: Evaluation
) -> tuple[dict[str, Data], dict[str, Data]]:
    """Return the outputs, padded with nan for members with fewer rows, and the numbers of rows."""
    outputs, lengths = dict(arrays), {}
    for name, length in ready.lengths.items():
        if name in arrays and length in partial_run.outputs:
            counts = partial_run.outputs[length]
            outputs[name], lengths[name] = pad_members(name, arrays[name], counts)
    return outputs, lengths
