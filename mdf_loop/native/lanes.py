"""LLVM code of a loop with lanes. Each lane is integrated independently, so the loop over time is the inner one.

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
    COUNT,
    FUNCTION,
    MOST_PARTS,
    SHARES,
    TAKEN,
    LoopText,
)
from mdf_loop.native.member_blocks import MemberBlocks
from mdf_loop.native.support import KernelSignature, extent_names
from mdf_loop.ops.native.code import Failure

COPIES, OF_FOUR, FEWEST = ((24, 6), (60, 4)), ((60, 8),), 2
"""Number of vectors in a block of lanes, by the number of operations in the body of the loop.

`COPIES` and `OF_FOUR` (for vectors of four lanes, as in AVX2) contain pairs: a maximum number of operations,
and the number of vectors for bodies up to this length. Longer bodies have `FEWEST` vectors. More vectors hide
the latency of arithmetic, fewer fit into registers.

Measured, FitzHugh-Nagumo of 1000 cells: AVX-512 (Intel) 1.17 us a step with two, 0.68 with four, 0.59 with
six; AVX2 (AMD Zen 3) 2.3 us with two, 1.2 with four, 1.15 with six, 1.0 with eight.
"""

PART = 1 << 23
"""Minimum number of operations on one lane in each share of a loop, which take about a quarter of a millisecond."""


TAKEN_EACH = 32
"""Minimum number of members for each lane of a share, for loops with per-member early exit.

At the end of a share, lanes are idle while the last members finish.
"""


def write_lanes(form: KernelSignature, width: int) -> LoopText:
    """Return the LLVM code of a loop with lanes, or of a loop of scalars."""
    failures: list[Failure] = []
    if not form.lanes:
        writers = [LaneBlocks(form, LaneBlock(), failures)]
        parts = [writers[0].whole(f"define i64 @{FUNCTION}{TAKEN}")]
    else:
        count = _known_count(form)
        block = _block(form, width, count)
        blocks = LaneBlocks if form.loop.members is None else MemberBlocks
        writers = [blocks(form, block, failures)]
        parts = [writers[0].blocks("wide")]
        if count is None or count < block.lanes:
            writers.append(blocks(form, LaneBlock(), failures))
            parts.append(writers[1].blocks("narrow"))
        if not count:
            writers.append(blocks(form, NO_LANES, failures))
            parts.append(writers[-1].whole(f"define internal i64 @none{TAKEN}"))
        small = "wide" if count is not None and count >= block.lanes else "narrow"
        parts.append(_either(form, "wide", small, block.lanes, "wide" if count else "none"))
        parts.append(_sharing(form, block.lanes))
    if form.counts:
        writers.append(LaneBlocks(form, NO_LANES, failures))
        parts.append(writers[-1].counting(f"define i64 @{COUNT}{TAKEN}"))
    declared = {name: line for each in writers for name, line in each.text.declared.items()}
    for name in ("smin", "smax") if form.lanes else ():
        declared[f"llvm.{name}.i64"] = f"declare i64 @llvm.{name}.i64(i64, i64)"
    text = "\n".join((*declared.values(), *parts))
    return LoopText(text, tuple(failures), output_shapes(form), form.counts, bool(form.lanes))


def _known_count(form: KernelSignature) -> int | None:
    """Return the number of lanes, or None if it is known only at run time."""
    extents = [extent for extent in form.lanes if isinstance(extent, int)]
    return math.prod(extents) if len(extents) == len(form.lanes) else None


def _block(form: KernelSignature, width: int, count: int | None) -> LaneBlock:
    """Return the block size for a loop: enough vectors to hide latency, few enough for registers and lanes."""
    sizes = OF_FOUR if width == 4 else COPIES
    copies = next((copies for most, copies in sizes if len(form.loop.ops) <= most), FEWEST)
    if count is None:
        return LaneBlock(width, copies)
    width = min(width, 1 << max(count, 1).bit_length() - 1)
    return LaneBlock(width, max(1, min(copies, count // width)))


def _either(form: KernelSignature, large: str, small: str, least: int, none: str) -> str:
    """Return an LLVM function that counts the lanes and calls the function for this number of lanes.

    Args:
        form: Signature of the loop.
        large: Name of the function for at least `least` lanes.
        small: Name of the function for fewer lanes.
        least: Number of lanes of a block.
        none: Name of the function for no lanes.
    """
    counting, total = _counted(form)
    parameters = "(i64 %trip, ptr %extents, ptr %in, ptr %out, ptr %call, i64 %part, i64 %parts)"
    lines = [
        f"define i64 @{FUNCTION}{TAKEN} {{",
        *counting,
        f"  %none = icmp eq i64 {total}, 0",
        "  br i1 %none, label %n, label %some",
        f"n:\n  %c = call i64 @{none}{parameters}\n  ret i64 %c",
        f"some:\n  %large = icmp sge i64 {total}, {least}",
        "  br i1 %large, label %l, label %s",
        f"l:\n  %a = call i64 @{large}{parameters}\n  ret i64 %a",
        f"s:\n  %b = call i64 @{small}{parameters}\n  ret i64 %b\n}}",
    ]
    return "\n".join(lines)


def _counted(form: KernelSignature) -> tuple[list[str], str]:
    """Return the LLVM instructions that compute the number of lanes, and the register of the number."""
    lines, total = [], str(math.prod(e for e in form.lanes if isinstance(e, int)))
    for k, name in enumerate(e for e in form.lanes if isinstance(e, str)):
        at = extent_names(form).index(name)
        lines.append(f"  %p{k} = getelementptr i64, ptr %extents, i64 {at}")
        lines.append(f"  %e{k} = load i64, ptr %p{k}")
        lines.append(f"  %n{k} = mul i64 {total}, %e{k}")
        total = f"%n{k}"
    return lines, total


def _sharing(form: KernelSignature, lanes: int) -> str:
    """Return an LLVM function that computes the number of shares, each with enough work for a thread."""
    counting, total = _counted(form)
    size = max(1, sum(isinstance(each, Op) for each in walk(form.loop.ops)))
    few = lanes if form.loop.members is None else lanes * TAKEN_EACH
    least, most = "call i64 @llvm.smin.i64", "call i64 @llvm.smax.i64"
    lines = [
        f"define i64 @{SHARES}(i64 %trip, ptr %extents) {{",
        *counting,
        f"  %some = {least}(i64 %trip, i64 {PART})",
        f"  %work = mul i64 %some, {size}",
        f"  %lanes = {least}(i64 {total}, i64 {1 << 27})",
        "  %all = mul i64 %work, %lanes",
        f"  %parts = sdiv i64 %all, {PART}",
        f"  %blocks = sdiv i64 {total}, {few}",
        f"  %few = {least}(i64 %parts, i64 %blocks)",
        f"  %fewer = {least}(i64 %few, i64 {MOST_PARTS})",
        f"  %shares = {most}(i64 %fewer, i64 1)",
        "  ret i64 %shares\n}",
    ]
    return "\n".join(lines)
