"""Write an endless stream of random words for programs that test random numbers.

    python benchmarks/random_words.py trials | dieharder -a -g 200

The layouts are:

- `one`: a single stream in its order;
- `trials`, `sites`, `seeds`: interleaved numbers of 1024 trials, sites or seeds, in the order of a model;
- `first`: the first number of each trial;
- `elements`: arrays of 7 numbers.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import numpy as np

from mdf_loop import streams

BLOCK = 1 << 16
INDICES = np.arange(1024)
SITE = streams.site("g.A.x#0")


def blocks(layout: str) -> Iterator[np.ndarray]:
    """Yield blocks of random words in a layout."""
    if layout == "first":
        for k in itertools.count():
            yield streams.squares(0, streams.keys(0, SITE, np.arange(BLOCK) + k * BLOCK))
    keys = {
        "one": lambda: streams.keys(0, SITE),
        "elements": lambda: streams.keys(0, SITE),
        "trials": lambda: streams.keys(0, SITE, INDICES),
        "sites": lambda: streams.keys(0, streams.sites(f"g.A.x{k}#0" for k in INDICES)),
        "seeds": lambda: streams.keys(INDICES, SITE),
    }[layout]()
    count = BLOCK // np.size(keys)
    for k in itertools.count():
        counters = np.arange(k * count, (k + 1) * count, dtype=np.uint64)
        if layout == "elements":
            counters = (
                counters[:, np.newaxis] * np.uint64(7) + np.arange(7, dtype=np.uint64)
            ).ravel()
        yield streams.squares(counters[:, np.newaxis], keys)


if __name__ == "__main__":
    for words in blocks(sys.argv[1]):
        sys.stdout.buffer.write(np.ascontiguousarray(words).tobytes())
