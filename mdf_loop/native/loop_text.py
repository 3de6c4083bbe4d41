"""Code of a loop: its functions in LLVM's language, and the facts that a caller needs.

    i64 loop(i64 trip, i64* extents, ptr* in, ptr* out, Call* call, i64 part, i64 parts)

Source: `Loop` and `Call` of trampoline.c.
"""

from __future__ import annotations

from msgspec import Struct

from mdf_loop.ops.native.code import Failure

FUNCTION, COUNT = "loop", "count"
TAKEN = (
    "(i64 %trip, ptr %extents, ptr noalias %in, ptr noalias %out, ptr %call, i64 %part, i64 %parts)"
    " alignstack(64)"
)
"""The function that runs a loop, and the one that counts its iterations before; what they are given.

Vectors that do not fit into registers lie within lines of the cache: each that crosses one costs as much as
two (measured: a step of 1000 FitzHugh-Nagumo cells took 1.1 or 2.0 us, by chance).
"""

SHARES = "shares"
"""The function that says into how many parts of its lanes a loop is divided: `i64 shares(i64 trip, i64* extents)`."""

MOST_PARTS = 64
"""The most of them."""

STOPPED = 99999
"""What a function gives where it was told to stop."""

NO_MEMORY = 99998
"""What it gives where there is no memory; why is in `Call.status`."""

ITERATIONS = -1
"""In the shape of an output: as many as there are iterations."""


def extent_at(place: int) -> int:
    """In the shape of an output: the extent at a place of `%extents`."""
    return -2 - place


class LoopText(Struct, frozen=True):
    """The text of a loop's code, and why it may fail.

    Attributes:
        shapes: of each output.
        counts: whether it has a function that counts the iterations.
        shares: whether it has one that says how many parts there may be.
        scratch: bytes of memory that it needs.
        rooms: how many arrays it needs memory for while it runs.
        late: how many extents of outputs it computes, behind those that it is given.
    """

    text: str
    failures: tuple[Failure, ...]
    shapes: tuple[tuple[int, ...], ...]
    counts: bool = False
    shares: bool = False
    scratch: int = 0
    rooms: int = 0
    late: int = 0
