"""Carried arrays whose shape changes: the same code in every process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mdf_loop.ir import Value
from mdf_loop.native.carrying import ChangingArrays


def test_extents_have_indices_in_the_order_of_their_axes() -> None:
    """Sets of values have another order in each process, and the code of a loop must not depend on it."""
    carried_values: list[Any] = [
        SimpleNamespace(
            body_input=Value(f"x{k}", "float64", (None, None, None)),
            final=Value(f"y{k}", "float64", (None, None, None)),
        )
        for k in range(8)
    ]
    writer: Any = None
    changing = ChangingArrays(
        writer, frozenset((value.body_input, axis) for value in carried_values for axis in range(3))
    )
    loop: Any = SimpleNamespace(carried=carried_values)
    assert changing.assign_extent_indices(loop, 5) == 24
    assert [changing.final_extent_indices[value.final] for value in carried_values] == [
        {axis: 5 + 3 * k + axis for axis in range(3)} for k in range(8)
    ]
