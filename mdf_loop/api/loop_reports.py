"""Reports about the loops of one evaluation, and padding of ragged outputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdf_loop.api.prepared import Evaluation
from mdf_loop.ir import Array, Data, Loop, StopReason
from mdf_loop.run.outputs import LoopReport
from mdf_loop.run.recording.missing_rows import pad_members
from mdf_loop.run.segments import PartialRun


def loop_reports(evaluation: Evaluation, partial_run: PartialRun) -> dict[str, LoopReport]:
    """Return the iteration counts and stop reasons of each loop, by loop name."""
    reports_by_loop: dict[str, LoopReport] = {}
    for loop in evaluation.loops:
        count_name, condition_name = (
            name_by_loop.get(loop.name, "")
            for name_by_loop in (evaluation.iteration_count_names, evaluation.condition_names)
        )
        if count_name in partial_run.outputs:
            outputs = partial_run.outputs
            reports_by_loop[loop.name] = _build_report(
                evaluation, loop, outputs[count_name], outputs.get(condition_name)
            )
    loop_names = {
        loop.name for loop in evaluation.loops
    }  # other loops are branches or created by passes
    for name, report in partial_run.loops.items():
        if name in loop_names:
            reports_by_loop[name] = _merge_reports(reports_by_loop.get(name), report)
    return reports_by_loop


def _build_report(
    evaluation: Evaluation, loop: Loop, counts: Array, last_condition: Array | None
) -> LoopReport:
    """Return the report of a completed loop from its iteration count and its last condition."""
    limit_reason = StopReason.MAX_ITERATIONS if loop.trip_count is None else StopReason.TRIP_COUNT
    is_continuing = np.array(loop.condition is None) if last_condition is None else last_condition
    if loop.name not in evaluation.early_exit_loops:
        return LoopReport(
            int(counts.flat[0]), limit_reason if is_continuing.flat[0] else StopReason.CONDITION
        )
    stop_codes = np.where(is_continuing, limit_reason.code, StopReason.CONDITION.code)
    return LoopReport.of(counts, np.broadcast_to(stop_codes, counts.shape))


def _merge_reports(loop_report: LoopReport | None, stepper_report: LoopReport) -> LoopReport:
    """Return the report of an interrupted loop, with the stop reasons of members that ended.

    A stepper may report the end by a trip count as the end by a condition.
    """
    if loop_report is None or isinstance(stepper_report.stopped_by, StopReason):
        return stepper_report
    has_ended = stepper_report.codes == np.array(StopReason.CONDITION.code)
    return LoopReport.of(
        np.asarray(loop_report.iterations),
        np.where(has_ended, loop_report.codes, stepper_report.codes),
    )


def pad_outputs(
    arrays: Mapping[str, Data], partial_run: PartialRun, evaluation: Evaluation
) -> tuple[dict[str, Data], dict[str, Data]]:
    """Return outputs padded with nan to equal row counts of all members, and the row counts."""
    outputs, output_lengths = dict(arrays), {}
    for name, length_name in evaluation.row_count_names.items():
        if name in arrays and length_name in partial_run.outputs:
            row_counts = partial_run.outputs[length_name]
            outputs[name], output_lengths[name] = pad_members(name, arrays[name], row_counts)
    return outputs, output_lengths
