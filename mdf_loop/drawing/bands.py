"""Bands of a long flow, which are side by side like columns of a text.

    1 -> 2 -> 3 -> 4 -> 5 -> 6        1   +> 4
         |_________________^          2 -+|  5
                                      3 -+   6 <- 2

An edge from one band to another is cut. The edge ends in a numbered stub, and continues at a stub with the
same number in each target band.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count

from msgspec import Struct

from mdf_loop.drawing.flow import Flow

LINE_HEIGHT, BOX_PADDING, BOX_GAP = 11.0, 8.0, 16.0
"""Height of a line in a box, padding of a box, and gap between boxes, in points."""


class Bands(Struct, frozen=True):
    """Assignment of runs of operators to bands, with a stub number for each run that feeds another band."""

    band_of_run: tuple[int, ...]
    stub_of_run: dict[int, int]

    @property
    def count(self) -> int:
        """Number of bands."""
        return max(self.band_of_run, default=-1) + 1


def cut_into_bands(flow: Flow, band_count: int) -> Bands:
    """Cut a flow into bands of about equal length."""
    lengths = [BOX_PADDING + LINE_HEIGHT * len(run) for run in flow.runs]
    positions = _run_positions(flow, lengths)
    total_length = max((positions[k] + lengths[k] for k in range(len(lengths))), default=1.0)
    slot_of_run = [
        min(int(position * band_count / total_length), band_count - 1) for position in positions
    ]
    band_of_slot = {slot: band for band, slot in enumerate(sorted(set(slot_of_run)))}
    band_of_run = tuple(band_of_slot[slot] for slot in slot_of_run)
    stub_numbers = count(1)
    stub_of_run: dict[int, int] = {}
    for sender_run, reader_run in (*flow.links, *flow.back_links):
        if band_of_run[sender_run] != band_of_run[reader_run] and sender_run not in stub_of_run:
            stub_of_run[sender_run] = next(stub_numbers)
    return Bands(band_of_run, stub_of_run)


def flow_length(flow: Flow) -> float:
    """Return the length of the longest path through a flow."""
    lengths = [BOX_PADDING + LINE_HEIGHT * len(run) for run in flow.runs]
    positions = _run_positions(flow, lengths)
    return max((positions[k] + lengths[k] + BOX_GAP for k in range(len(lengths))), default=0.0)


def _run_positions(flow: Flow, lengths: list[float]) -> list[float]:
    """Return the position of each run along the flow. A run without senders is just before its first reader."""
    senders, readers = defaultdict(list), defaultdict(list)
    for sender_run, reader_run in flow.links:
        senders[reader_run].append(sender_run)
        readers[sender_run].append(reader_run)
    positions = [0.0] * len(lengths)
    run_order = flow.order
    for run in run_order:
        sender_end_positions = (
            positions[sender_run] + lengths[sender_run] + BOX_GAP for sender_run in senders[run]
        )
        positions[run] = max(sender_end_positions, default=0.0)
    for run in reversed(run_order):
        if not senders[run] and readers[run]:
            first_reader_position = min(positions[reader_run] for reader_run in readers[run])
            positions[run] = max(first_reader_position - lengths[run] - BOX_GAP, 0.0)
    return positions
