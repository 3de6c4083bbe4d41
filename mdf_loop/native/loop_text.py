"""LLVM code of a loop, and the calling convention of its functions.

    i64 loop(i64 trip, i64* extents, ptr* in, ptr* out, Call* call, i64 part, i64 parts)

The structures `Loop` and `Call` are defined in trampoline.c.
"""

from __future__ import annotations

from msgspec import Struct

from mdf_loop.ops.native.code import Failure

LOOP_FUNCTION, COUNT_FUNCTION = "loop", "count"
"""Names of the function that runs a loop and of the function that counts its iterations in advance."""
PARAMETERS = (
    "(i64 %trip, ptr %extents, ptr noalias %in, ptr noalias %out, ptr %call, i64 %part, i64 %parts)"
    " alignstack(64)"
)
"""Parameters of both functions.

The stack is aligned to cache lines for vectors that do not fit into registers. An access across two lines
costs as much as two (measured: a step of 1000 FitzHugh-Nagumo cells took 1.1 or 2.0 us, by chance).
"""

SHARE_COUNT_FUNCTION = "shares"
"""Name of the function that returns the number of shares of the lanes: `i64 shares(i64 trip, i64* extents)`."""

MAX_SHARES = 64
"""Maximum number of shares into which the lanes of a loop are divided."""

STOPPED_CODE = 99999
"""Negated return code of a loop that stopped on request."""

NO_MEMORY_CODE = 99998
"""Negated return code of a loop whose memory allocation failed. `Call.status` has the reason."""

ITERATION_COUNT_CODE = -1
"""Encoding of an extent that equals the number of iterations, in the shape of an output."""


def extent_code(index: int) -> int:
    """Return the negative number that encodes, in a shape, the run-time extent number `index`."""
    return -2 - index


class LoopText(Struct, frozen=True):
    """LLVM code of a loop, with the errors that the code may report.

    Attributes:
        llvm_code: LLVM code of all functions.
        failures: Failures, in the order of their return codes.
        output_shapes: Shape of each output. Negative numbers encode extents that are known only at run time.
        has_count_function: True if a function counts the iterations in advance.
        has_share_function: True if a function computes the number of shares.
        scratch_bytes: Bytes of memory for arrays of known size.
        growable_buffer_count: Number of growable buffers.
        computed_extent_count: Number of extents of outputs that the loop computes. They follow the input extents in
            `%extents`.
    """

    llvm_code: str
    failures: tuple[Failure, ...]
    output_shapes: tuple[tuple[int, ...], ...]
    has_count_function: bool = False
    has_share_function: bool = False
    scratch_bytes: int = 0
    growable_buffer_count: int = 0
    computed_extent_count: int = 0
