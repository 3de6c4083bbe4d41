"""Vectorization of the operations of a loop body over all iterations of the loop.

%y = Mul(%x, %w)   ->   %ys: float64[tape, n] = Mul(%xs, %w)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Constant, Input, Operation, Output, Program, Value, reads, results
from mdf_loop.ops.build_helpers import rank
from mdf_loop.passes.batching.batch import batch
from mdf_loop.passes.copying import copy_operations
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code

Rows = Mapping[Value, Value]
"""Mapping from a value of one iteration to its values in all iterations, stacked along the first axis."""


def vectorize_iterations(
    b: Builder, ops: Sequence[Operation], requested_values: Iterable[Value], rows: Rows, extent: str
) -> tuple[dict[Value, Value], set[Value]]:
    """Append operations that compute values of a loop body for all iterations at once.

    Args:
        b: The builder to append to.
        ops: The operations of one iteration.
        requested_values: The values to compute.
        rows: Values that differ from iteration to iteration, with their stacked values.
        extent: The name of the extent for the number of iterations.

    Returns:
        The computed values, and the set of computed values that have the iteration axis. All other values are
        loop-invariant.

    Raises:
        UnsupportedError: An operation cannot be computed for many values at once.
    """
    requested_values = tuple(dict.fromkeys(requested_values))
    body_program = _body_program(b, ops, requested_values)
    stacked_input_names = [
        program_input.value.name
        for program_input in body_program.inputs
        if program_input.value in rows
    ]
    batched_program = batch(body_program, stacked_input_names, extent)
    if len(batched_program.outputs) > len(requested_values):
        raise UnsupportedError(
            "inner loops record as many rows as they have iterations, which is not the same each time",
            b.where,
        )
    input_pairs = list(zip(body_program.inputs, batched_program.inputs, strict=True))
    replacements = {
        batched_input.value: rows.get(scalar_input.value, scalar_input.value)
        for scalar_input, batched_input in input_pairs
    }
    axis_names = {
        str((batched_input.value.shape or ("",))[0])
        for scalar_input, batched_input in input_pairs
        if scalar_input.value in rows
    }
    batched_ops, copies_by_value = copy_operations(
        b, batched_program.ops, replacements, dict.fromkeys(axis_names, extent)
    )
    b.ops += batched_ops
    computed_values: dict[Value, Value] = {}
    stacked_values: set[Value] = set()
    for value, output in zip(requested_values, batched_program.outputs, strict=True):
        computed_value = copies_by_value.get(output.value) or replacements.get(
            output.value, output.value
        )
        if output.member_axis == 1:
            computed_value = _iteration_axis_first(b, computed_value, next(iter(rows.values())))
        computed_values[value] = computed_value
        stacked_values.update({value} if output.member_axis is not None else ())
    return computed_values, stacked_values


def _iteration_axis_first(b: Builder, recorded: Value, like: Value) -> Value:
    """Transpose a recording of an inner loop so that the outer iteration axis is first.

    An inner loop of no iterations records no rows, but the outer loop has iterations.
    """
    transposed_rows = b.op("Transpose", recorded, perm=(1, 0, *range(2, rank(recorded))))
    inner_shape = b.op("Shape", transposed_rows, start=1)
    stacked_shape = b.op("Concat", b.op("Shape", like, start=0, end=1), inner_shape, axis=0)
    return b.op("Reshape", transposed_rows, stacked_shape, allowzero=1)


def _body_program(b: Builder, ops: Sequence[Operation], values: Sequence[Value]) -> Program:
    """Return a loop body as a program, with an input for each value read from outside the body."""
    computed_values = {value for operation in ops for value in results(operation)}
    outer_values = dict.fromkeys(
        value for operation in ops for value in reads(operation) if value not in computed_values
    )
    outer_values |= dict.fromkeys(value for value in values if value not in computed_values)
    constant_arrays = {
        value: array for value in outer_values if (array := b.constant_of(value)) is not None
    }
    constant_ops = [Constant(value, array) for value, array in constant_arrays.items()]
    program_inputs = tuple(Input(value) for value in outer_values if value not in constant_arrays)
    program_outputs = tuple(Output(f"wanted {k}", value) for k, value in enumerate(values))
    return eliminate_dead_code(Program("", program_inputs, (*constant_ops, *ops), program_outputs))
