"""LLVM code of an elementwise loop over time, which processes blocks of array elements.

    for block of V lanes:                    # V = width x copies, which hide the arithmetic's latency
        x = initial of the block             # in registers
        for t in range(trip):
            x = body(x); rows[t, block] = x
        final of the block = x

No lane reads another lane, so the exchange of the loops is exact. Each block computes the scalars again. The
last block ends with the last lane, so some lanes may be computed twice, with equal results. A
loop of scalars is one block of one lane.

Several threads may each compute a share of the blocks. The results have the same bits, since lanes are
independent.
"""

from __future__ import annotations

import math

from mdf_loop.ir import Op, walk
from mdf_loop.native.blocks import NO_LANES, LaneBlock, LaneBlocks, output_shapes
from mdf_loop.native.loop_text import (
    COUNT_FUNCTION,
    LOOP_FUNCTION,
    MAX_SHARES,
    PARAMETERS,
    SHARE_COUNT_FUNCTION,
    LoopText,
)
from mdf_loop.native.member_blocks import MemberBlocks
from mdf_loop.native.support import KernelSignature, extent_names
from mdf_loop.ops.native.code import Failure

VECTOR_COUNTS, VECTOR_COUNTS_OF_FOUR_LANES, MIN_VECTOR_COUNT = ((24, 6), (60, 4)), ((60, 8),), 2
"""Number of vectors in a block of lanes, by the number of operations in the body of the loop.

`VECTOR_COUNTS` and `VECTOR_COUNTS_OF_FOUR_LANES` (for vectors of four lanes, as in AVX2) contain pairs: a maximum
number of operations, and the number of vectors for bodies up to this length. Longer bodies have
`MIN_VECTOR_COUNT` vectors. More vectors hide the latency of arithmetic, fewer fit into registers.

Measured, FitzHugh-Nagumo of 1000 cells: AVX-512 (Intel) 1.17 us a step with two, 0.68 with four, 0.59 with
six; AVX2 (AMD Zen 3) 2.3 us with two, 1.2 with four, 1.15 with six, 1.0 with eight.
"""

MIN_SHARE_OPERATIONS = 1 << 23
"""Minimum number of operations on one lane in each share of a loop, which take about a quarter of a millisecond."""


MIN_MEMBERS_PER_LANE = 32
"""Minimum number of members for each lane of a share, for loops with per-member early exit.

At the end of a share, lanes are idle while the last members finish.
"""


def write_lanes(signature: KernelSignature, width: int) -> LoopText:
    """Return the LLVM code of a loop that has only scalars and elementwise operations."""
    failures: list[Failure] = []
    if not signature.lane_shape:
        block_writers = [LaneBlocks(signature, LaneBlock(), failures)]
        llvm_functions = [block_writers[0].write_loop(f"define i64 @{LOOP_FUNCTION}{PARAMETERS}")]
    else:
        lane_count = _known_count(signature)
        element_block = _choose_block(signature, width, lane_count)
        writer_class = LaneBlocks if signature.loop.member_axis is None else MemberBlocks
        block_writers = [writer_class(signature, element_block, failures)]
        llvm_functions = [block_writers[0].write_blocks("wide")]
        if lane_count is None or lane_count < element_block.lanes:
            block_writers.append(writer_class(signature, LaneBlock(), failures))
            llvm_functions.append(block_writers[1].write_blocks("narrow"))
        if not lane_count:
            block_writers.append(writer_class(signature, NO_LANES, failures))
            llvm_functions.append(
                block_writers[-1].write_loop(f"define internal i64 @none{PARAMETERS}")
            )
        small_function_name = (
            "wide" if lane_count is not None and lane_count >= element_block.lanes else "narrow"
        )
        llvm_functions.append(
            _write_dispatch(
                signature,
                "wide",
                small_function_name,
                element_block.lanes,
                "wide" if lane_count else "none",
            )
        )
        llvm_functions.append(_write_share_count(signature, element_block.lanes))
    if signature.needs_iteration_count:
        block_writers.append(LaneBlocks(signature, NO_LANES, failures))
        llvm_functions.append(
            block_writers[-1].write_count(f"define i64 @{COUNT_FUNCTION}{PARAMETERS}")
        )
    declarations = {
        name: declaration
        for block_writer in block_writers
        for name, declaration in block_writer.function_text.declarations.items()
    }
    for name in ("smin", "smax") if signature.lane_shape else ():
        declarations[f"llvm.{name}.i64"] = f"declare i64 @llvm.{name}.i64(i64, i64)"
    llvm_code = "\n".join((*declarations.values(), *llvm_functions))
    return LoopText(
        llvm_code,
        tuple(failures),
        output_shapes(signature),
        signature.needs_iteration_count,
        bool(signature.lane_shape),
    )


def _known_count(signature: KernelSignature) -> int | None:
    """Return the number of array elements (lanes) if it is a constant, else None."""
    known_extents = [extent for extent in signature.lane_shape if isinstance(extent, int)]
    return math.prod(known_extents) if len(known_extents) == len(signature.lane_shape) else None


def _choose_block(signature: KernelSignature, vector_width: int, count: int | None) -> LaneBlock:
    """Choose the size of the blocks of array elements that are computed together."""
    vector_count_table = VECTOR_COUNTS_OF_FOUR_LANES if vector_width == 4 else VECTOR_COUNTS
    max_vector_count = next(
        (
            vector_count
            for max_length, vector_count in vector_count_table
            if len(signature.loop.ops) <= max_length
        ),
        MIN_VECTOR_COUNT,
    )
    if count is None:
        return LaneBlock(vector_width, max_vector_count)
    vector_width = min(vector_width, 1 << max(count, 1).bit_length() - 1)
    return LaneBlock(vector_width, max(1, min(max_vector_count, count // vector_width)))


def _write_dispatch(
    signature: KernelSignature, large: str, small: str, block_size: int, none: str
) -> str:
    """Return an LLVM function that calls one of three loop functions, depending on the array size.

    Args:
        signature: Signature of the loop.
        large: Name of the function for at least `block_size` lanes.
        small: Name of the function for fewer lanes.
        block_size: Number of lanes of a block.
        none: Name of the function for no lanes.
    """
    count_lines, lane_count = _write_lane_count(signature)
    call_arguments = (
        "(i64 %trip, ptr %extents, ptr %in, ptr %out, ptr %call, i64 %part, i64 %parts)"
    )
    function_lines = [
        f"define i64 @{LOOP_FUNCTION}{PARAMETERS} {{",
        *count_lines,
        f"  %none = icmp eq i64 {lane_count}, 0",
        "  br i1 %none, label %n, label %some",
        f"n:\n  %c = call i64 @{none}{call_arguments}\n  ret i64 %c",
        f"some:\n  %large = icmp sge i64 {lane_count}, {block_size}",
        "  br i1 %large, label %l, label %s",
        f"l:\n  %a = call i64 @{large}{call_arguments}\n  ret i64 %a",
        f"s:\n  %b = call i64 @{small}{call_arguments}\n  ret i64 %b\n}}",
    ]
    return "\n".join(function_lines)


def _write_lane_count(signature: KernelSignature) -> tuple[list[str], str]:
    """Return LLVM instructions for the number of array elements, and their last register.

    Lanes are the elements of the arrays.
    """
    instruction_lines, lane_count = (
        [],
        str(math.prod(extent for extent in signature.lane_shape if isinstance(extent, int))),
    )
    for k, name in enumerate(extent for extent in signature.lane_shape if isinstance(extent, str)):
        extent_index = extent_names(signature).index(name)
        instruction_lines.append(f"  %p{k} = getelementptr i64, ptr %extents, i64 {extent_index}")
        instruction_lines.append(f"  %e{k} = load i64, ptr %p{k}")
        instruction_lines.append(f"  %n{k} = mul i64 {lane_count}, %e{k}")
        lane_count = f"%n{k}"
    return instruction_lines, lane_count


def _write_share_count(signature: KernelSignature, block_lane_count: int) -> str:
    """Return an LLVM function that computes how many threads are worth using for a loop."""
    count_lines, lane_count = _write_lane_count(signature)
    operation_count = max(
        1, sum(isinstance(operation, Op) for operation in walk(signature.loop.ops))
    )
    min_lanes = (
        block_lane_count
        if signature.loop.member_axis is None
        else block_lane_count * MIN_MEMBERS_PER_LANE
    )
    min_call, max_call = "call i64 @llvm.smin.i64", "call i64 @llvm.smax.i64"
    function_lines = [
        f"define i64 @{SHARE_COUNT_FUNCTION}(i64 %trip, ptr %extents) {{",
        *count_lines,
        f"  %some = {min_call}(i64 %trip, i64 {MIN_SHARE_OPERATIONS})",
        f"  %work = mul i64 %some, {operation_count}",
        f"  %lanes = {min_call}(i64 {lane_count}, i64 {1 << 27})",
        "  %all = mul i64 %work, %lanes",
        f"  %parts = sdiv i64 %all, {MIN_SHARE_OPERATIONS}",
        f"  %blocks = sdiv i64 {lane_count}, {min_lanes}",
        f"  %few = {min_call}(i64 %parts, i64 %blocks)",
        f"  %fewer = {min_call}(i64 %few, i64 {MAX_SHARES})",
        f"  %shares = {max_call}(i64 %fewer, i64 1)",
        "  ret i64 %shares\n}",
    ]
    return "\n".join(function_lines)
