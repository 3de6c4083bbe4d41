"""A stepper is followed in chunks, so that it can be watched, stopped and saved between them.

    while not finished:
        block = stepper.advance(length)            # about 20 ms
        take(block)                               # rows are kept; progress, checkpoints

Nothing that is computed depends on where a chunk ends. What is carried may grow from step to step;
it at most doubles within a chunk, once it is large, and is not let grow out of the memory.
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
"""How long a chunk shall take: Ctrl-C is obeyed between chunks, and a call costs 0.1 ms."""

BYTES = 8 << 20
"""The most that the rows of a chunk may be."""

GROWTH = 64
"""How many times the length of a chunk the next one may have."""

OBSERVATIONS = 3
"""Chunks in which what is carried has grown by about the same factor, before it is expected to do so again.

An array that begins small grows by a large factor when something is appended for the first time."""


class Lengths:
    """Number of steps of a chunk, adapted so that a chunk has the intended duration.

    Attributes:
        next: the next one.
        known: how many steps took half of that time in another run of the same; 1 if that is unknown.
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
            return  # it was cut short, so it says little
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
        """Estimated bytes of the carried values after one more step, if they grow and are large.

        It is expected to grow by the least factor of the last `OBSERVATIONS` chunks. After fewer ones it is expected to
        grow by as many bytes as it did.
        """
        if len(self._factors) < OBSERVATIONS:
            expected = self._held_size + self._increase
        else:
            expected = self._held_size * min(self._factors)
        return expected if self._growth > 1 and expected > BYTES else 0.0

    def failed(self) -> None:
        """Record that a step of the chunk has failed. The steps before it are done in shorter chunks."""
        self.next //= 2


def _growth(before: float, size: float, steps: int) -> float:
    """Return the factor by which a size has grown in each of some steps; 1 if it has not."""
    if size <= before:
        return 1.0
    return float((size / before) ** (1 / steps)) if before else math.inf


def follow(
    stepper: Stepper, stopping: Stopping, take: Callable[[Block], StopReason | None]
) -> StopReason | None:
    """Follow a stepper to its end, or until it is stopped; None if nothing has stopped it.

    Args:
        stepper: what is computed; it is left where it was stopped, or before the step that failed.
        stopping: what may stop it from outside.
        take: what is done with the rows of each chunk; a reason to stop, or None.
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
    if cadence.sizes != sizes or lengths.next != cadence.steps:  # else the chunk was cut short
        cadence.sizes, cadence.steps = sizes, 1 if lengths.grows else max(1, lengths.next // 2)
    reason = stopping.reason
    return reason if reason is not None and reason.is_asked else None


def _size(block: Block) -> int:
    """Return the bytes of a block's new arrays, without those that are stored already."""
    rows = (array for name, array in block.rows.items() if name not in block.owned_names)
    return sum(array.nbytes for array in (*rows, *block.watched.values()))
