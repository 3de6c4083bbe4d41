"""Layout of a long graph in several columns (bands), like columns of text on a page.

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
    """Column (band) of each chain of nodes in a picture, and the numbers of the cut edges."""

    band_by_chain: tuple[int, ...]
    stub_number_by_chain: dict[int, int]

    @property
    def count(self) -> int:
        """Number of columns (bands) into which the graph is divided."""
        return max(self.band_by_chain, default=-1) + 1


def cut_into_bands(flow: Flow, band_count: int) -> Bands:
    """Distribute the chains of a graph over columns (bands) of about equal length."""
    chain_lengths = [BOX_PADDING + LINE_HEIGHT * len(chain) for chain in flow.chains]
    chain_positions = _chain_positions(flow, chain_lengths)
    total_length = max(
        (chain_positions[k] + chain_lengths[k] for k in range(len(chain_lengths))), default=1.0
    )
    interval_by_chain = [
        min(int(position * band_count / total_length), band_count - 1)
        for position in chain_positions
    ]
    column_by_interval = {
        interval: column for column, interval in enumerate(sorted(set(interval_by_chain)))
    }
    column_by_chain = tuple(column_by_interval[interval] for interval in interval_by_chain)
    edge_stub_numbers = count(1)
    edge_stub_by_chain: dict[int, int] = {}
    for sender_chain, reader_chain in (*flow.links, *flow.back_links):
        if (
            column_by_chain[sender_chain] != column_by_chain[reader_chain]
            and sender_chain not in edge_stub_by_chain
        ):
            edge_stub_by_chain[sender_chain] = next(edge_stub_numbers)
    return Bands(column_by_chain, edge_stub_by_chain)


def flow_length(flow: Flow) -> float:
    """Return the length in points of the longest path through a graph of boxes."""
    chain_lengths = [BOX_PADDING + LINE_HEIGHT * len(chain) for chain in flow.chains]
    chain_positions = _chain_positions(flow, chain_lengths)
    return max(
        (chain_positions[k] + chain_lengths[k] + BOX_GAP for k in range(len(chain_lengths))),
        default=0.0,
    )


def _chain_positions(flow: Flow, chain_lengths: list[float]) -> list[float]:
    """Return the position of each chain of nodes in points along the flow direction.

    A chain without senders is just before its first reader.
    """
    senders, readers = defaultdict(list), defaultdict(list)
    for sender_chain, reader_chain in flow.links:
        senders[reader_chain].append(sender_chain)
        readers[sender_chain].append(reader_chain)
    chain_positions = [0.0] * len(chain_lengths)
    chain_order = flow.order
    for chain in chain_order:
        sender_end_positions = (
            chain_positions[sender_chain] + chain_lengths[sender_chain] + BOX_GAP
            for sender_chain in senders[chain]
        )
        chain_positions[chain] = max(sender_end_positions, default=0.0)
    for chain in reversed(chain_order):
        if not senders[chain] and readers[chain]:
            first_reader_position = min(
                chain_positions[reader_chain] for reader_chain in readers[chain]
            )
            chain_positions[chain] = max(
                first_reader_position - chain_lengths[chain] - BOX_GAP, 0.0
            )
    return chain_positions
