"""The keys of a run: one for each site that draws, in each of its trials, for each seed."""

from __future__ import annotations

import functools

import numpy as np
from msgspec import Struct

from mdf_loop import streams
from mdf_loop.ir import Array


class Streams(Struct, frozen=True):
    """Random numbers of a seed, or of one for each member of a sweep; in one trial, or in several.

    Members of a sweep share the numbers of a trial, unless their seeds differ. Trials are the members
    that stand side by side, for each member of the sweep.
    """

    seed: int | tuple[int, ...] = 0
    trials: tuple[int, ...] | range | None = None

    @property
    def vary(self) -> bool:
        """Whether members have numbers of their own."""
        return self.trials is not None or isinstance(self.seed, tuple)

    @property
    def numbers(self) -> Array | None:
        """The trials, by their numbers."""
        return None if self.trials is None else np.array(self.trials, np.int64)

    def for_each_trial(self, rows: Array) -> Array:
        """Rows of a sweep, each for all trials."""
        return rows if self.trials is None else np.repeat(rows, len(self.trials), axis=0)

    def keys(self, sites: tuple[str, ...], members: int) -> Array:
        """The keys of sites, in their order: `[sites]`, or `[members of a sweep * trials, sites]`.

        All trials of a member stand side by side.
        """
        if not self.vary:
            return _keys(self.seed, sites)
        seeds = np.array(self.seed, np.uint64).reshape(-1, 1, 1)
        trials = np.array(self.trials or (0,), np.uint64).reshape(-1, 1)
        made = streams.keys(seeds, streams.sites(sites), trials).reshape(-1, len(sites))
        return np.tile(made, (members, 1)) if isinstance(self.seed, int) else made

    def of_one_run(self, sites: tuple[str, ...]) -> Array:
        """The keys of the run without trials, of the first seed."""
        return _keys(self.seed if isinstance(self.seed, int) else self.seed[0], sites)


@functools.lru_cache(maxsize=64)
def _keys(seed: int, sites: tuple[str, ...]) -> Array:
    return streams.keys(seed, streams.sites(sites))


ONE_STREAM = Streams()
"""Those of a run if nothing else is said."""
