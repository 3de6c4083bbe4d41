"""Words of the streams, without end, for programs that test random numbers.

    python benchmarks/random_words.py trials | dieharder -a -g 200

Layouts: `one`, a stream in its order; `trials`, `sites`, `seeds`: the numbers of 1024 of them in turn, as
models draw them; `first`, the first number of one trial after the other; `elements`, arrays of 7.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import numpy as np

from mdf_loop import streams

BLOCK = 1 << 16
MANY = np.arange(1024)
SITE = streams.site("g.A.x#0")


def blocks(layout: str) -> Iterator[np.ndarray]:
    """The words, many at a time."""
    if layout == "first":
        for k in itertools.count():
            yield streams.squares(0, streams.keys(0, SITE, np.arange(BLOCK) + k * BLOCK))
    keys = {
        "one": lambda: streams.keys(0, SITE),
        "elements": lambda: streams.keys(0, SITE),
        "trials": lambda: streams.keys(0, SITE, MANY),
        "sites": lambda: streams.keys(0, streams.sites(f"g.A.x{k}#0" for k in MANY)),
        "seeds": lambda: streams.keys(MANY, SITE),
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
