"""The keys of a run: one for each site that draws, in each of its trials, for each seed."""

from __future__ import annotations

import functools

import numpy as np
from msgspec import Struct

from mdf_loop import streams
from mdf_loop.ir import Array
from mdf_loop.memory_limit import check

KEY_BYTES = 24
"""Bytes of a key while it is computed: the key itself, its trial or seed, and a copy."""

_FEWER = "ask for fewer trials, keep only numbers over trials (over_trials), or allow more: memory_limit (--memory-limit)"


class Streams(Struct, frozen=True):
    """Random numbers of a seed, or of one for each member of a sweep; in one trial, or in several.

    Members of a sweep share the numbers of a trial, unless their seeds differ. Trials are the members
    that stand side by side, for each member of the sweep.
    """

    seed: int | tuple[int, ...] = 0
    trials: tuple[int, ...] | range | None = None

    @property
    def vary(self) -> bool:
        """True if members have random numbers of their own."""
        return self.trials is not None or isinstance(self.seed, tuple)

    @property
    def numbers(self) -> Array | None:
        """The trials, by their numbers."""
        return None if self.trials is None else np.array(self.trials, np.int64)

    def for_each_trial(self, rows: Array) -> Array:
        """Rows of a sweep, each for all trials.

        Raises:
            MemoryLimitError: The rows would take more memory than the limit.
        """
        if self.trials is None:
            return rows
        count = len(self.trials)
        check(count * rows.nbytes, f"the values of {count * len(rows)} runs", hint=_FEWER)
        return np.repeat(rows, count, axis=0)

    def keys(self, sites: tuple[str, ...], members: int) -> Array:
        """Return the keys of sites in order: `[sites]`, or `[members of a sweep * trials, sites]`.

        All trials of a member stand side by side.

        Raises:
            MemoryLimitError: The keys of all members and trials would take more memory than the limit.
        """
        if not self.vary:
            return _keys(self.seed, sites)
        count = len(self.trials or (0,)) * (
            members if isinstance(self.seed, int) else len(self.seed)
        )
        check(
            count * max(1, len(sites)) * KEY_BYTES,
            f"the random numbers of {count} runs",
            hint=_FEWER,
        )
        seeds = np.array(self.seed, np.uint64).reshape(-1, 1, 1)
        trials = np.array(self.trials or (0,), np.uint64).reshape(-1, 1)
        keys = streams.keys(seeds, streams.sites(sites), trials).reshape(-1, len(sites))
        return np.tile(keys, (members, 1)) if isinstance(self.seed, int) else keys

    def of_one_run(self, sites: tuple[str, ...]) -> Array:
        """Return the keys of the first seed for a run without trials."""
        return _keys(self.seed if isinstance(self.seed, int) else self.seed[0], sites)


@functools.lru_cache(maxsize=64)
def _keys(seed: int, sites: tuple[str, ...]) -> Array:
    return streams.keys(seed, streams.sites(sites))


ONE_STREAM = Streams()
"""Those of a run if nothing else is said."""
