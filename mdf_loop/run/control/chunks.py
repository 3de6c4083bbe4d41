"""Execution of a stepper in chunks, between which a run is watched, stopped and saved.

    while not finished:
        block = stepper.advance(length)            # about 20 ms
        take(block)                                # store rows, report progress, write checkpoints

Results do not depend on the chunk boundaries. Carried values may grow from step to step. Once they are
large, their size at most doubles within one chunk, so that they do not exceed the memory limit.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

from mdf_loop.errors import LoopError
from mdf_loop.ir import StopReason
from mdf_loop.run.control.stepper import Block, Stepper
from mdf_loop.run.control.stopping import Stopped, Stopping

SECONDS = 0.02
"""Target duration of a chunk. Ctrl-C takes effect between chunks, and one call costs 0.1 ms."""

BYTES = 8 << 20
"""Maximum bytes of the rows of one chunk."""

GROWTH = 64
"""Maximum ratio between the lengths of consecutive chunks."""

OBSERVATIONS = 3
"""Number of chunks with similar growth of the carried values before this growth is extrapolated.

An initially small array grows by a large factor when elements are appended for the first time."""


class Lengths:
    """Adaptive number of steps per chunk, so that a chunk takes `SECONDS`.

    Attributes:
        next: Number of steps of the next chunk.
        known: Number of steps that took half of `SECONDS` in an equal earlier run, or 1 if unknown.
    """

    def __init__(self) -> None:
        self.next = self.known = 1
        self._held_size = 0.0
        self._growth = 1.0
        self._increase = 0.0
        self._factors: deque[float] = deque(maxlen=OBSERVATIONS)

    def took(self, steps: int, seconds: float, size: int) -> None:
        """Record the duration of a chunk of steps, and the bytes of its rows."""
        if 2 * steps < self.next and seconds < SECONDS:
            return  # the chunk ended early, so its duration is not representative
        in_time = int(steps * SECONDS / max(seconds, 1e-9))
        in_memory = BYTES * steps // max(size, 1)
        self.next = max(self.known, 1, min(in_time, in_memory, GROWTH * self.next))
        self.known = 1

    def holds(self, steps: int, size: int) -> None:
        """Record the bytes of the carried values after further steps."""
        before, self._held_size = self._held_size, float(size)
        if steps == 0:
            return
        self._increase = max(0.0, (size - before) / steps)
        self._growth = _growth(before, size, steps)
        self._factors.append(self._growth)
        if self._growth > 1:
            room = max(2.0, BYTES / size)
            self.next = max(1, min(self.next, int(math.log(room) / math.log(self._growth))))

    @property
    def grows(self) -> bool:
        """True if the carried values have grown."""
        return self._growth > 1

    @property
    def more(self) -> float:
        """Estimated bytes of the carried values after one more step, or 0 if they are small or constant.

        The estimate uses the smallest growth factor of the last `OBSERVATIONS` chunks. With fewer chunks, it
        uses the number of bytes by which the carried values grew per step.
        """
        if len(self._factors) < OBSERVATIONS:
            expected = self._held_size + self._increase
        else:
            expected = self._held_size * min(self._factors)
        return expected if self._growth > 1 and expected > BYTES else 0.0

    def failed(self) -> None:
        """Halve the length of the next chunk, to run the steps before a step that failed."""
        self.next //= 2


def _growth(before: float, size: float, steps: int) -> float:
    """Return the factor by which a size grew per step, or 1 if the size did not grow."""
    if size <= before:
        return 1.0
    return float((size / before) ** (1 / steps)) if before else math.inf


def follow(
    stepper: Stepper, stopping: Stopping, take: Callable[[Block], StopReason | None]
) -> StopReason | None:
    """Run a stepper to its end or until a stop, and return the reason of the stop, or None.

    Args:
        stepper: The computation. After a stop, it remains at the last completed step before the stop.
        stopping: Watcher of signals and limits.
        take: Function that processes the block of each chunk and returns a reason to stop, or None.
    """
    lengths, cadence, sizes = Lengths(), stepper.cadence, None
    lengths.holds(0, stepper.held)
    while not stepper.finished:
        if lengths.more:
            stopping.look_at_memory(lengths.more)
        if stopping.reason is not None:
            return stopping.reason
        before, begun = stepper.done, time.perf_counter()
        try:
            block = stepper.advance(lengths.next, stopping)
        except Stopped:
            return stopping.reason
        except LoopError as error:
            if lengths.next == 1:
                stopping.failure = error
                return StopReason.FAILED
            lengths.failed()
            continue
        seconds, size, held_state = time.perf_counter() - begun, _size(block), stepper.held
        if sizes is None:
            sizes = (held_state, size)
            lengths.known = cadence.steps if cadence.sizes == sizes else 1
        lengths.took(stepper.done - before, seconds, size)
        lengths.holds(stepper.done - before, held_state)
        if (reason := take(block)) is not None:
            return reason
    if cadence.sizes != sizes or lengths.next != cadence.steps:  # otherwise the chunk ended early
        cadence.sizes, cadence.steps = sizes, 1 if lengths.grows else max(1, lengths.next // 2)
    reason = stopping.reason
    return reason if reason is not None and reason.is_asked else None


def _size(block: Block) -> int:
    """Return the bytes of a block's new arrays, except rows that are already at their destination."""
    rows = (array for name, array in block.rows.items() if name not in block.owned_names)
    return sum(array.nbytes for array in (*rows, *block.watched.values()))
