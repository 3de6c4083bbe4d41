"""What a program computes of all members at once: that is no longer right for some of them.

%n = Shape(%x: float64[batch])      how many members there are
%y: float64[batch] = Exp(%x)        of each member its own: rows can be taken out
"""

from __future__ import annotations

from mdf_loop.ir import Program, Value, reads, results


def member_aggregates(program: Program, members: str) -> frozenset[Value]:
    """The values outside of bodies that depend on members, but have no axis of them."""

    def has_axis(value: Value) -> bool:
        return (value.shape or ()).count(members) == 1

    found: set[Value] = set()
    for operation in program.ops:
        if any(has_axis(value) or value in found for value in reads(operation)):
            found.update(value for value in results(operation) if not has_axis(value))
    return frozenset(found)
