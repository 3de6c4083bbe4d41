"""Runs of sweeps and trials on a cluster: division into blocks, distribution, and results.

While the worker processes start, this process runs the first members. They determine the size of the
blocks and the shapes of the outputs. The results of a member do not depend on the process that runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from mdf_loop.api.cluster_job import ComputedBlock, FailedMember, Job, run_block_on_worker
from mdf_loop.api.cluster_pilot import run_pilot
from mdf_loop.api.cluster_sinks import MemberSink, MemorySink, OverTrialsSink
from mdf_loop.api.cluster_store import StoreSink
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.cluster.clients import (
    CLOSING_SECONDS,
    HASTY_CLOSING_SECONDS,
    Connection,
    ConnectionThread,
    dashboard_text,
)
from mdf_loop.cluster.partition import MemberBlock
from mdf_loop.cluster.tasks import Outcome, SchedulerGoneError, Tasks, WorkerDiedError
from mdf_loop.errors import Finding, LoopError, RunError
from mdf_loop.ir import StopReason
from mdf_loop.results.data import Results
from mdf_loop.run.control.progress import Reporter, open_reporter
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.recording.store_lease import StoreLease
from mdf_loop.specification import RunSpecification

HEAD_START_SECONDS = 1.0
"""Seconds of the pilot run before worker processes are started, since their start slows it down."""

_MAX_LISTED_MEMBERS = 10
"""Largest number of failed members that an error names."""


def compute_members(
    prepared: PreparedModel, spec: RunSpecification, lease: StoreLease | None
) -> tuple[Results, LoopError | None]:
    """Run all members of a sweep on a cluster, and return the results and an error, if any."""
    job = Job(prepared, spec)
    with (
        Stopping(spec.controls.time_limit) as stop_monitor,
        _open_connection(spec, stop_monitor) as connection_thread,
    ):
        sink = _open_sink(job, prepared, spec, lease, stop_monitor)
        connection_thread.begin()
        cluster_run = _ClusterRun(job, sink, stop_monitor)
        with open_reporter(
            spec.controls.progress,
            sink.member_count,
            sink.done_member_count,
            "members",
            prepared.document.graph.id,
        ) as reporter:
            if (
                cluster_run.update_progress(reporter) is None
                and sink.done_member_count < sink.member_count
            ):
                cluster_run.distribute_blocks(connection_thread, spec, reporter)
    return cluster_run.results_and_error()


def _open_sink(
    job: Job,
    prepared: PreparedModel,
    spec: RunSpecification,
    lease: StoreLease | None,
    stop_monitor: Stopping,
) -> MemberSink:
    """Return the destination for a cluster run's results, with the first block already stored."""
    assert spec.sharing is not None
    if lease is not None and spec.shares_store and spec.sharing.resumes:
        existing_sink = StoreSink.open_existing(job, prepared, spec, lease, stop_monitor)
        if existing_sink is not None:
            return existing_sink
    pilot_run = run_pilot(job, spec.sharing.block, stop_monitor)
    if spec.selection.over_trials.statistics:
        return OverTrialsSink(job, spec, pilot_run)
    if lease is not None and spec.shares_store:
        return StoreSink.create(job, prepared, spec, pilot_run, lease)
    return MemorySink(job, spec, pilot_run)


@contextmanager
def _open_connection(spec: RunSpecification, stop_monitor: Stopping) -> Iterator[ConnectionThread]:
    """Yield a thread that opens a cluster connection, and close the connection at exit."""
    assert spec.sharing is not None
    has_stop_signal = False
    connection_thread = ConnectionThread(
        spec.sharing.cluster, lambda: stop_monitor.reason is not None, head_start=HEAD_START_SECONDS
    )
    try:
        yield connection_thread
    except KeyboardInterrupt:
        has_stop_signal = True
        raise
    finally:
        has_stop_signal |= stop_monitor.received_signal is not None
        connection_thread.close(HASTY_CLOSING_SECONDS if has_stop_signal else CLOSING_SECONDS)


class _ClusterRun:
    """Run of a sweep on a cluster, which distributes blocks and collects results and errors."""

    def __init__(self, job: Job, sink: MemberSink, stop_monitor: Stopping) -> None:
        self._job, self._sink, self._stop_monitor = job, sink, stop_monitor
        self._error: LoopError | None = None
        self._failures: list[FailedMember] = list(sink.failures)
        self._remark = ""
        self._worker_shortage = ""

    def update_progress(self, reporter: Reporter) -> StopReason | None:
        """Update the progress report of the run, and return the reason to stop the run, or None."""
        if not reporter.update(self._sink.done_member_count, self._remark):
            self._stop_monitor.request_stop(StopReason.INTERRUPTED)
        return StopReason.FAILED if self._error is not None else self._stop_monitor.reason

    def distribute_blocks(
        self, connection_thread: ConnectionThread, spec: RunSpecification, reporter: Reporter
    ) -> None:
        """Connect to the cluster, and distribute all missing blocks of members to its workers."""
        self._remark = self._worker_shortage = "no worker yet"
        try:
            connection = connection_thread.connection(lambda: self.update_progress(reporter))
            if connection is not None:
                self._distribute_to_workers(connection, spec, reporter)
        except SchedulerGoneError as error:
            restart_hint = "start it again, and give the same command with resume"
            store_path = spec.store if spec.shares_store else None
            error.findings = (
                replace(error.findings[0], hint=restart_hint if store_path else "start it again"),
            )
            self._error = error
        except RunError as error:  # the processes of the cluster cannot start
            self._error = error

    def _distribute_to_workers(
        self, connection: Connection, spec: RunSpecification, reporter: Reporter
    ) -> None:
        """Distribute all missing blocks of members to the workers of an open connection."""
        assert spec.sharing is not None
        dashboard_address = dashboard_text(connection.client)
        tasks: Tasks[MemberBlock, ComputedBlock] = Tasks(
            connection, run_block_on_worker, self._job, spec.sharing.retries
        )

        def reason_to_end() -> StopReason | None:
            if tasks.has_workers():
                self._worker_shortage = ""
            elif not self._worker_shortage:
                self._worker_shortage = "no worker"
            self._remark = f"{self._worker_shortage} {dashboard_address}".strip()
            return self.update_progress(reporter)

        for outcome in tasks.outcomes(self._sink.missing_blocks(), reason_to_end):
            self._record_outcome(outcome)

    def _record_outcome(self, outcome: Outcome[MemberBlock, ComputedBlock]) -> None:
        """Store the outcome of a block of members, or record its error."""
        block, error = outcome.item, outcome.error
        if isinstance(error, WorkerDiedError):
            finding = error.findings[0]
            self._failures.append(
                FailedMember(
                    block.first_member,
                    f"members {block.first_member} to {block.end_member - 1}",
                    finding,
                )
            )
            return
        try:
            if error is not None:
                raise error if isinstance(error, LoopError) else _worker_error(error)
            assert outcome.result is not None
            self._sink.put(block, outcome.result)
            self._failures += outcome.result.failures
        except LoopError as failure:
            self._error = failure

    def results_and_error(self) -> tuple[Results, LoopError | None]:
        """Return the results so far, and the error that ended the run or some members, or None."""
        sink, stopped_by = self._sink, self._stop_monitor.reason
        error = self._error or self._stop_monitor.failure or self._member_error()
        progress_text = f"{sink.done_member_count} of {sink.member_count} members"
        if error is not None and stopped_by is None:
            stopped_by, reason = StopReason.FAILED, error.findings[0].what
        elif stopped_by is not None:
            reason = f"{progress_text}; {stopped_by.value}"
            if self._worker_shortage:
                reason += f"; the cluster had {self._worker_shortage}"
        else:
            stopped_by, reason = StopReason.COMPLETED, ""
        results = sink.results(stopped_by, reason).with_changes(
            not_finite=sink.first_nonfinite_value
        )
        return results, error

    def _member_error(self) -> LoopError | None:
        """Return one error that names all failed members of the sweep, or None."""
        if not self._failures:
            return None
        failures = sorted(self._failures, key=lambda failure: failure.member_number)
        error = RunError("members failed")
        findings = [_label_error(failure) for failure in failures[:_MAX_LISTED_MEMBERS]]
        if unlisted_count := len(failures) - len(findings):
            findings.append(
                Finding("RunError", f"and {unlisted_count} more members failed", "", "")
            )
        error.findings = tuple(findings)
        return error


def _label_error(failure: FailedMember) -> Finding:
    """Return the error of a failed sweep member, with the member's label in the message."""
    member_error = failure.finding
    return replace(member_error, what=f"{failure.member_label}: {member_error.what}")


def _worker_error(error: Exception) -> RunError:
    """Return the error for a worker that cannot run any block of members."""
    return RunError(
        f"a worker of the cluster failed: {type(error).__name__}: {error}",
        hint="'mdf-loop cluster check' shows whether all workers have what they need",
    )
