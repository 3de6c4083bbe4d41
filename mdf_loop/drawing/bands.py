"""A long flow cut into bands that stand beside each other, as a text is cut into columns.

    1 -> 2 -> 3 -> 4 -> 5 -> 6        1   +> 4
         |_________________^          2 -+|  5
                                      3 -+   6 <- 2

What leads from one band into another is cut: a numbered stub where it leaves, one of the same number
in each band where it arrives.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count

from msgspec import Struct

from mdf_loop.drawing.flow import Flow

LINE, AROUND, BETWEEN = 11.0, 8.0, 16.0
"""Height of a line of a box, what it has around its lines, and room between boxes."""


class Bands(Struct, frozen=True):
    """The band of each run, and the number of each run that feeds another band."""

    of: tuple[int, ...]
    stubs: dict[int, int]

    @property
    def count(self) -> int:
        """How many bands there are."""
        return max(self.of, default=-1) + 1


def cut(flow: Flow, number: int) -> Bands:
    """The flow in so many bands of about the same length."""
    lengths = [AROUND + LINE * len(run) for run in flow.runs]
    places = _places(flow, lengths)
    whole = max((places[k] + lengths[k] for k in range(len(lengths))), default=1.0)
    slots = [min(int(place * number / whole), number - 1) for place in places]
    filled = {slot: band for band, slot in enumerate(sorted(set(slots)))}
    of = tuple(filled[slot] for slot in slots)
    numbers = count(1)
    stubs: dict[int, int] = {}
    for tail, head in (*flow.links, *flow.back):
        if of[tail] != of[head] and tail not in stubs:
            stubs[tail] = next(numbers)
    return Bands(of, stubs)


def length_of(flow: Flow) -> float:
    """The length of the longest way through a flow."""
    lengths = [AROUND + LINE * len(run) for run in flow.runs]
    places = _places(flow, lengths)
    return max((places[k] + lengths[k] + BETWEEN for k in range(len(lengths))), default=0.0)


def _places(flow: Flow, lengths: list[float]) -> list[float]:
    """Where each run begins; one that nothing feeds stands just before its first reader."""
    senders, readers = defaultdict(list), defaultdict(list)
    for tail, head in flow.links:
        senders[head].append(tail)
        readers[tail].append(head)
    places = [0.0] * len(lengths)
    order = flow.order
    for run in order:
        before = (places[tail] + lengths[tail] + BETWEEN for tail in senders[run])
        places[run] = max(before, default=0.0)
    for run in reversed(order):
        if not senders[run] and readers[run]:
            first = min(places[head] for head in readers[run])
            places[run] = max(first - lengths[run] - BETWEEN, 0.0)
    return places
