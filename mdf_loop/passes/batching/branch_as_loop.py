"""Conversion of `If` branches that may fail into loops of at most one iteration.

Only the runs that choose the branch execute the loop.

    if %go giving %y                    loop while %go
      %q = Div(%a, %b)         ->         carry %none from 0 to %q giving %then
      give %q                             continue if false
    else ...                            ...; %y = Where(%go, %then, %else)

Runs that do not choose the branch stop before the first iteration (see `Loop.member_axis`), so these runs cannot
fail.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Branch, Carried, If, Loop, Operation, Value, is_fixed
from mdf_loop.ir.types import is_tensor, numpy_dtype
from mdf_loop.ops.batching.scope import UNBATCHED_HINT
from mdf_loop.passes.failing import operation_name


def branch_as_loop(
    b: Builder, choice: If, branch: Branch, condition: Value, failing: Operation
) -> Loop:
    """Return a loop that runs a branch of an `If` once if `condition` is true, else not at all.

    The outputs of the branch are the final carried values of the loop.

    Raises:
        UnsupportedError: An output has a shape that is not known before the run.
    """
    body_builder = b.body()
    if not all(
        is_tensor(branch_output.dtype) and is_fixed(branch_output.shape)
        for branch_output in branch.outputs
    ):
        raise UnsupportedError(
            f"'{choice.name}' chooses for each of many values, which computes both "
            f"branches, and {operation_name(failing)} in one of them may fail",
            choice.where,
            UNBATCHED_HINT,
        )
    with b.at(choice.where, choice.name):
        return Loop(
            name=choice.name,
            trip_count=None,
            condition=condition,
            iteration=body_builder.new("int64", (), "iteration"),
            condition_in=body_builder.new("bool", (), "chosen"),
            condition_out=b.constant(np.array(False)),
            carried=tuple(
                _carry_leaf(b, body_builder, branch_output) for branch_output in branch.outputs
            ),
            recorded=(),
            ops=branch.ops,
            where=choice.where,
        )


def _carry_leaf(b: Builder, body_builder: Builder, branch_output: Value) -> Carried:
    fill_value = "" if branch_output.dtype == "string" else 0
    initial_value = b.constant(
        np.full(branch_output.shape or (), fill_value, numpy_dtype(branch_output.dtype))
    )
    incoming_value = body_builder.new(
        branch_output.dtype, branch_output.shape, f"no {branch_output.name}"
    )
    return Carried(
        initial_value,
        incoming_value,
        branch_output,
        b.new(branch_output.dtype, branch_output.shape, branch_output.name),
    )


def refuse_two_shapes(choice: If, output: Value, then: Value, otherwise: Value) -> None:
    """Raise an error if the two branches of an `If` return arrays of different shapes.

    Raises:
        UnsupportedError: The branches always return different shapes, so each run would have its own shape.
    """
    if then.shape is None or then.shape != otherwise.shape:
        raise UnsupportedError(
            f"'{choice.name}' gives '{output.name}' in two shapes, "
            f"{then.type} and {otherwise.type}, which many values cannot choose from",
            choice.where,
            UNBATCHED_HINT,
        )
