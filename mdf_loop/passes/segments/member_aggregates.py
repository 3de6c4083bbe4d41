"""Values that combine all members of a batch, such as the number of members.

Such values become wrong when members are removed.

%n = Shape(%x: float64[batch])      the number of members
%y: float64[batch] = Exp(%x)        each member has its own row, so rows can be removed
"""

from __future__ import annotations

from mdf_loop.ir import Program, Value, reads, results


def member_aggregates(program: Program, members: str) -> frozenset[Value]:
    """Return values outside of loops that combine all batch members into one value."""

    def has_axis(value: Value) -> bool:
        return (value.shape or ()).count(members) == 1

    aggregate_values: set[Value] = set()
    for operation in program.ops:
        if any(has_axis(value) or value in aggregate_values for value in reads(operation)):
            aggregate_values.update(value for value in results(operation) if not has_axis(value))
    return frozenset(aggregate_values)
