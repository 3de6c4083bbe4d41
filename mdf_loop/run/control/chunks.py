"""Execution in chunks of steps, between which a run is watched, stopped and saved.

    for block in Chunks(stepper, stopping):        # each chunk takes about 20 ms
        ...                                        # store rows, report progress, write checkpoints

Results do not depend on the chunk boundaries. Carried values may grow from step to step. Once they are
large, their size at most doubles within one chunk, so that they do not exceed the memory limit.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator

from mdf_loop.errors import LoopError
from mdf_loop.ir import StopReason
from mdf_loop.run.control.stepper import Block, Stepper
from mdf_loop.run.control.stopping import Stopped, Stopping
from mdf_loop.run.recording.watch import NotFiniteValue, first_not_finite

CHUNK_SECONDS = 0.02
"""Target duration of a chunk. Ctrl-C takes effect between chunks, and one call costs 0.1 ms."""

MAX_CHUNK_BYTES = 8 << 20
"""Maximum bytes of the rows of one chunk."""

MAX_CHUNK_LENGTH_RATIO = 64
"""Maximum ratio between the lengths of consecutive chunks."""

MIN_GROWTH_SAMPLES = 3
"""Number of chunks with similar growth of the carried values before this growth is extrapolated.

An initially small array grows by a large factor when elements are appended for the first time."""


class ChunkLengths:
    """Adaptive number of steps per chunk, chosen so that a chunk takes `CHUNK_SECONDS`.

    Attributes:
        next_steps: Number of steps of the next chunk.
        known_steps: Number of steps that took half of `CHUNK_SECONDS` in an equal earlier run, or 1 if unknown.
    """

    def __init__(self) -> None:
        self.next_steps = self.known_steps = 1
        self._carried_bytes: int | None = None
        self._growth_factor = 1.0
        self._increase_per_step = 0.0
        self._growth_factors: deque[float] = deque(maxlen=MIN_GROWTH_SAMPLES)

    def record_duration(self, steps: int, seconds: float, size: int) -> None:
        """Adapt the number of steps per chunk to the duration and memory of the last chunk.

        `size` is the number of bytes of the recorded rows.
        """
        if 2 * steps < self.next_steps and seconds < CHUNK_SECONDS:
            return  # the chunk ended early, so its duration is not representative
        steps_in_time = int(steps * CHUNK_SECONDS / max(seconds, 1e-9))
        steps_in_memory = MAX_CHUNK_BYTES * steps // max(size, 1)
        self.next_steps = max(
            self.known_steps,
            1,
            min(steps_in_time, steps_in_memory, MAX_CHUNK_LENGTH_RATIO * self.next_steps),
        )
        self.known_steps = 1

    def record_carried_bytes(self, steps: int, size: int | None) -> None:
        """Record the bytes of the carried values after a chunk of `steps` steps, to predict growth.

        None means that no step has computed the values.
        """
        previous_size, self._carried_bytes = self._carried_bytes, size
        if previous_size is None or size is None:
            return
        self._increase_per_step = max(0.0, (size - previous_size) / steps)
        self._growth_factor = _growth_per_step(previous_size, size, steps)
        self._growth_factors.append(self._growth_factor)
        if self._growth_factor > 1:
            max_ratio = max(2.0, MAX_CHUNK_BYTES / size)
            self.next_steps = max(
                1, min(self.next_steps, int(math.log(max_ratio) / math.log(self._growth_factor)))
            )

    @property
    def is_growing(self) -> bool:
        """True if the carried values took more memory after the last chunk than before."""
        return self._growth_factor > 1

    @property
    def expected_bytes(self) -> float:
        """Predicted bytes of the carried values after one more step, or 0 if small or constant.

        The estimate uses the smallest growth factor of the last `MIN_GROWTH_SAMPLES` chunks. With fewer chunks, it
        uses the number of bytes by which the carried values grew per step.
        """
        if self._carried_bytes is None or self._growth_factor <= 1:
            return 0.0
        if len(self._growth_factors) < MIN_GROWTH_SAMPLES:
            expected_size = self._carried_bytes + self._increase_per_step
        else:
            expected_size = self._carried_bytes * min(self._growth_factors)
        return expected_size if expected_size > MAX_CHUNK_BYTES else 0.0

    def record_failure(self) -> None:
        """Halve the number of steps of the next chunk, after a chunk in which a step failed.

        The steps before the failing one can then be computed.
        """
        self.next_steps //= 2


def _growth_per_step(before: int, size: int, steps: int) -> float:
    """Return the factor by which a number of bytes grew per step, at least 1."""
    if size <= before:
        return 1.0
    return float((size / before) ** (1 / steps)) if before else math.inf


class Chunks:
    """Iterator that runs a loop or a run over time in chunks, and yields the rows of each chunk.

    If a watched value is nan or infinite, the stepper runs again up to the row of this value, whose block
    is the last one.

    Attributes:
        reason: Reason of the stop, or None if the stepper ended or another chunk follows.
        not_finite_value: Watched value that stopped the stepper, or None.
    """

    def __init__(self, stepper: Stepper, stopping: Stopping, axis: int = 0) -> None:
        self._stepper, self._stopping, self._axis = stepper, stopping, axis
        self.reason: StopReason | None = None
        self.not_finite_value: NotFiniteValue | None = None

    def __iter__(self) -> Iterator[Block]:
        """Yield the recorded rows of each chunk. The next chunk runs on the next request."""
        stepper, stop_monitor = self._stepper, self._stopping
        chunk_lengths, chunk_cadence, first_chunk_sizes = ChunkLengths(), stepper.cadence, None
        chunk_lengths.record_carried_bytes(0, stepper.carried_bytes)
        while not stepper.finished:
            if chunk_lengths.expected_bytes:
                stop_monitor.check_memory(chunk_lengths.expected_bytes)
            if stop_monitor.reason is not None:
                self.reason = stop_monitor.reason
                return
            steps_before, start_time = stepper.done, time.perf_counter()
            try:
                block = stepper.advance(chunk_lengths.next_steps, stop_monitor)
            except Stopped:
                self.reason = stop_monitor.reason
                return
            except LoopError as error:
                if chunk_lengths.next_steps == 1:
                    stop_monitor.failure, self.reason = error, StopReason.FAILED
                    return
                chunk_lengths.record_failure()
                continue
            chunk_seconds, row_bytes = (
                time.perf_counter() - start_time,
                _count_bytes_outside_buffers(block),
            )
            carried_bytes = stepper.carried_bytes
            if first_chunk_sizes is None:
                first_chunk_sizes = (carried_bytes, row_bytes)
                is_known = chunk_cadence.first_chunk_sizes == first_chunk_sizes
                chunk_lengths.known_steps = chunk_cadence.steps if is_known else 1
            chunk_lengths.record_duration(stepper.done - steps_before, chunk_seconds, row_bytes)
            chunk_lengths.record_carried_bytes(stepper.done - steps_before, carried_bytes)
            if block.watched_rows:
                block = self._end_at_nonfinite_value(block)
            if self.reason is None or self.not_finite_value is not None:
                yield block
            del block  # the next chunk would otherwise need memory for the rows of two chunks
            if self.reason is not None:
                return
        self._remember_cadence(chunk_lengths, first_chunk_sizes)
        if stop_monitor.reason is not None and stop_monitor.reason.is_asked:
            self.reason = stop_monitor.reason

    def _end_at_nonfinite_value(self, block: Block) -> Block:
        """Return the rows of a chunk up to the first nan or infinite value, which ends the run."""
        nonfinite_value = first_not_finite(block, self._axis)
        if nonfinite_value is None:
            return block
        self._stepper.undo_advance()
        try:
            block = self._stepper.advance(nonfinite_value.row + 1, self._stopping)
        except Stopped:
            self.reason = self._stopping.reason
        else:
            self.not_finite_value, self.reason = nonfinite_value, StopReason.NOT_FINITE
        return block

    def _remember_cadence(
        self, chunk_lengths: ChunkLengths, first_chunk_sizes: tuple[int | None, int] | None
    ) -> None:
        """Store the chunk length of a complete run for the next run of the same model."""
        chunk_cadence = self._stepper.cadence
        if (
            chunk_cadence.first_chunk_sizes == first_chunk_sizes
            and chunk_lengths.next_steps == chunk_cadence.steps
        ):
            return  # the only chunk ended early
        chunk_cadence.first_chunk_sizes = first_chunk_sizes
        chunk_cadence.steps = (
            1 if chunk_lengths.is_growing else max(1, chunk_lengths.next_steps // 2)
        )


def _count_bytes_outside_buffers(block: Block) -> int:
    """Return the bytes of a chunk's recorded arrays that are not in preallocated output memory."""
    rows = (array for name, array in block.rows.items() if name not in block.stored_names)
    return sum(array.nbytes for array in (*rows, *block.watched_rows.values()))
