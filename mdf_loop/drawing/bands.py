"""Layout of a long graph in bands, which are side by side like columns of a text.

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
    """Band of each chain of operators, and a stub number for each chain that feeds another band."""

    band_by_run: tuple[int, ...]
    stub_number_by_run: dict[int, int]

    @property
    def count(self) -> int:
        """Number of bands."""
        return max(self.band_by_run, default=-1) + 1


def cut_into_bands(flow: Flow, band_count: int) -> Bands:
    """Cut a flow of nodes into bands of about equal length, drawn side by side."""
    run_lengths = [BOX_PADDING + LINE_HEIGHT * len(run) for run in flow.runs]
    run_positions = _run_positions(flow, run_lengths)
    total_length = max(
        (run_positions[k] + run_lengths[k] for k in range(len(run_lengths))), default=1.0
    )
    slot_by_run = [
        min(int(position * band_count / total_length), band_count - 1) for position in run_positions
    ]
    band_by_slot = {slot: band for band, slot in enumerate(sorted(set(slot_by_run)))}
    band_by_run = tuple(band_by_slot[slot] for slot in slot_by_run)
    stub_numbers = count(1)
    stub_number_by_run: dict[int, int] = {}
    for sender_run, reader_run in (*flow.links, *flow.back_links):
        if (
            band_by_run[sender_run] != band_by_run[reader_run]
            and sender_run not in stub_number_by_run
        ):
            stub_number_by_run[sender_run] = next(stub_numbers)
    return Bands(band_by_run, stub_number_by_run)


def flow_length(flow: Flow) -> float:
    """Return the drawn length of the longest path through a flow of boxes."""
    run_lengths = [BOX_PADDING + LINE_HEIGHT * len(run) for run in flow.runs]
    run_positions = _run_positions(flow, run_lengths)
    return max(
        (run_positions[k] + run_lengths[k] + BOX_GAP for k in range(len(run_lengths))), default=0.0
    )


def _run_positions(flow: Flow, run_lengths: list[float]) -> list[float]:
    """Return the position of each chain of nodes along the flow.

    A chain without senders is just before its first reader.
    """
    senders, readers = defaultdict(list), defaultdict(list)
    for sender_run, reader_run in flow.links:
        senders[reader_run].append(sender_run)
        readers[sender_run].append(reader_run)
    run_positions = [0.0] * len(run_lengths)
    run_order = flow.order
    for run in run_order:
        sender_end_positions = (
            run_positions[sender_run] + run_lengths[sender_run] + BOX_GAP
            for sender_run in senders[run]
        )
        run_positions[run] = max(sender_end_positions, default=0.0)
    for run in reversed(run_order):
        if not senders[run] and readers[run]:
            first_reader_position = min(run_positions[reader_run] for reader_run in readers[run])
            run_positions[run] = max(first_reader_position - run_lengths[run] - BOX_GAP, 0.0)
    return run_positions
