"""Random keys of a run: one key for each random call of the model, each trial and each seed."""

from __future__ import annotations

import functools

import numpy as np
from msgspec import Struct

from mdf_loop import streams
from mdf_loop.ir import Array
from mdf_loop.memory_limit import check

KEY_BYTES = 24
"""Memory per key during its computation, in bytes: the key, its trial or seed, and a copy."""

_MEMORY_HINT = "ask for fewer trials, keep only numbers over trials (over_trials), or allow more: memory_limit (--memory-limit)"


class Streams(Struct, frozen=True):
    """Seeds and trials of a run, which determine the random numbers.

    All members of a sweep use the same random numbers in a trial, unless the sweep varies the seed. The trials
    of one member of a sweep are adjacent rows.

    Attributes:
        seed: Seed, or one seed per member of the sweep.
        trials: Numbers of the trials, or None for a run without trials.
    """

    seed: int | tuple[int, ...] = 0
    trials: tuple[int, ...] | range | None = None

    @property
    def has_members(self) -> bool:
        """True if the run consists of several trials or seeds with different random numbers."""
        return self.trials is not None or isinstance(self.seed, tuple)

    @property
    def trial_numbers(self) -> Array | None:
        """Numbers of the trials, or None for a run without trials."""
        return None if self.trials is None else np.array(self.trials, np.int64)

    def repeat_for_trials(self, rows: Array) -> Array:
        """Repeat each row of a sweep once for every trial.

        Raises:
            MemoryLimitError: If the rows would need more memory than the limit.
        """
        if self.trials is None:
            return rows
        trial_count = len(self.trials)
        check(
            trial_count * rows.nbytes,
            f"the values of {trial_count * len(rows)} runs",
            hint=_MEMORY_HINT,
        )
        return np.repeat(rows, trial_count, axis=0)

    def keys(self, sites: tuple[str, ...], members: int) -> Array:
        """Return the random keys, shaped [sites] or [members, sites] (a site is a random call).

        The members are all trials of all members of a sweep.

        The keys of all trials of a member are adjacent.

        Raises:
            MemoryLimitError: If the keys of all members and trials would need more memory than the limit.
        """
        if not self.has_members:
            return _compute_keys(self.seed, sites)
        key_count = len(self.trials or (0,)) * (
            members if isinstance(self.seed, int) else len(self.seed)
        )
        check(
            key_count * max(1, len(sites)) * KEY_BYTES,
            f"the random numbers of {key_count} runs",
            hint=_MEMORY_HINT,
        )
        seed_column = np.array(self.seed, np.uint64).reshape(-1, 1, 1)
        trial_column = np.array(self.trials or (0,), np.uint64).reshape(-1, 1)
        key_rows = streams.keys(seed_column, streams.sites(sites), trial_column).reshape(
            -1, len(sites)
        )
        return np.tile(key_rows, (members, 1)) if isinstance(self.seed, int) else key_rows

    def keys_of_one_run(self, sites: tuple[str, ...]) -> Array:
        """Return the random keys of one run, for the first seed and without trials."""
        return _compute_keys(self.seed if isinstance(self.seed, int) else self.seed[0], sites)


@functools.lru_cache(maxsize=64)
def _compute_keys(seed: int, sites: tuple[str, ...]) -> Array:
    """Return the random keys of all random sites (random calls of the model) for one seed."""
    return streams.keys(seed, streams.sites(sites))


DEFAULT_STREAMS = Streams()
"""Default random streams of a run: seed 0, no trials."""
