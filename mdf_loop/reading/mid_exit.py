"""Conversion of loops whose condition is tested in the middle of the body.

    p = s + x                          p = s + x
    if not p < limit: break     ->     go = p < limit
    s = 2 * p                          s = (2 * p) if go else s        # an `If`, not a choice

Nodes from which edges lead to the condition's node come before the test. They run once more than the other
nodes. Carried values change only in complete iterations. The values that are recorded after the test have
no row for the incomplete iteration, so its row is dropped.

Source: NNC (liuliu/ccv), `ccv_nnc_symbolic_graph_while`; SCF's `while` has the same two regions.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.errors import CarryTypeError, UnsupportedError
from mdf_loop.ir import (
    Branch,
    If,
    Operation,
    Shape,
    Value,
    operands,
    reads,
    results,
    walk,
)
from mdf_loop.ir.shape_join import any_shape
from mdf_loop.ir.types import numpy_dtype
from mdf_loop.lower import cast
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops.build_helpers import ints
from mdf_loop.reading.body import LoweredBody
from mdf_loop.reading.extents import Extents
from mdf_loop.reading.loop_forms import LoopForm


class BodyWithExit(Struct, frozen=True, eq=False):
    """Loop body with a mid-body exit, and the recorded values that the last iteration does not compute."""

    body: LoweredBody
    row_positions_after_exit: frozenset[int] = frozenset()


def split_at_test(b: ModelBuilder, form: LoopForm, body: LoweredBody) -> BodyWithExit:
    """Return a loop body in which the operations after the condition test are inside an `If`."""
    operations_before_test, operations_after_test = _partition_operations(
        body.ops, (body.condition_out, *body.values_before_test)
    )
    values_after_test = {
        value for operation in operations_after_test for value in results(operation)
    }
    rows_after_exit = [
        row for row in dict.fromkeys(body.recorded_values) if row in values_after_test
    ]
    changed_carried_pairs = [
        (carried_input, carried_output)
        for carried_input, carried_output in zip(
            body.carried_inputs, body.carried_outputs, strict=True
        )
        if carried_input is not carried_output
    ]
    body_builder = b.body()
    else_builder = body_builder.body()
    known_extents = Extents(
        (
            *body.carried_inputs,
            *_list_results(operations_before_test),
            *_list_outer_operands(body.ops),
        )
    )
    then_outputs = [carried_output for _, carried_output in changed_carried_pairs] + rows_after_exit
    else_outputs = [carried_input for carried_input, _ in changed_carried_pairs]
    else_outputs += [
        _create_placeholder_row(else_builder, form, row, known_extents) for row in rows_after_exit
    ]
    choice_outputs = tuple(
        _create_output(body_builder, form, *output_pair)
        for output_pair in zip(then_outputs, else_outputs, strict=True)
    )
    choice = If(
        name=f"{form.name} goes on",
        condition=body.condition_out,
        then=Branch(tuple(operations_after_test), tuple(then_outputs)),
        otherwise=Branch(tuple(else_builder.ops), tuple(else_outputs)),
        outputs=choice_outputs,
        where=form.where,
    )
    outputs_by_carried = dict(zip(changed_carried_pairs, choice_outputs, strict=False))
    outputs_by_row = dict(
        zip(rows_after_exit, choice_outputs[len(changed_carried_pairs) :], strict=True)
    )
    carried_pairs = zip(body.carried_inputs, body.carried_outputs, strict=True)
    new_body = replace(
        body,
        ops=(*operations_before_test, *(body_builder.ops), *((choice,) if choice_outputs else ())),
        carried_outputs=tuple(
            outputs_by_carried.get(carried_pair, carried_pair[1]) for carried_pair in carried_pairs
        ),
        recorded_values=tuple(outputs_by_row.get(row, row) for row in body.recorded_values),
    )
    return BodyWithExit(
        new_body,
        frozenset(k for k, row in enumerate(body.recorded_values) if row in outputs_by_row),
    )


def _partition_operations(
    ops: tuple[Operation, ...], roots: Iterable[Value]
) -> tuple[list[Operation], list[Operation]]:
    """Split operations into the operations that the values `roots` depend on, and all others."""
    needed_values = set(roots)
    needed_op_positions: set[int] = set()
    for k in reversed(range(len(ops))):
        if needed_values.intersection(results(ops[k])):
            needed_op_positions.add(k)
            needed_values.update(reads(ops[k]))
    return (
        [op for k, op in enumerate(ops) if k in needed_op_positions],
        [op for k, op in enumerate(ops) if k not in needed_op_positions],
    )


def _list_results(ops: Iterable[Operation]) -> list[Value]:
    """Return the values that operations compute."""
    return [value for operation in ops for value in results(operation)]


def _list_outer_operands(ops: Iterable[Operation]) -> list[Value]:
    """Return the values that operations read but do not compute themselves."""
    inner_operations = list(walk(ops))
    inner_values = set(_list_results(inner_operations))
    return [
        operand
        for operation in inner_operations
        for operand in operands(operation)
        if operand not in inner_values
    ]


def _create_placeholder_row(
    b: ModelBuilder, form: LoopForm, row: Value, known_extents: Extents
) -> Value:
    """Return a row of zeros for a value that the last, incomplete iteration does not record.

    The row is discarded after the loop.
    """
    shape = known_extents.tensor(b, row.shape)
    if shape is None or row.dtype == "string":
        raise UnsupportedError(
            f"the recorded value '{row.name}' is {row.type}: with exit: middle, the shape of what "
            "follows the test must be known before it",
            form.where,
            "record a value that the condition needs, or carry it",
        )
    zero = b.constant(np.zeros((), numpy_dtype(row.dtype)))
    return b.op("Expand", zero, shape)


def _create_output(b: ModelBuilder, form: LoopForm, then: Value, otherwise: Value) -> Value:
    """Create a value for an output of an `If` from the outputs of its two branches.

    Raise CarryTypeError if the outputs differ in dtype.
    """
    if then.dtype != otherwise.dtype:
        raise CarryTypeError(
            f"carried values must keep their dtype, but '{otherwise.name}': {otherwise.type} becomes "
            f"'{then.name}': {then.type}",
            form.where,
            "make both of one dtype",
        )
    joined_shape = any_shape(then.shape, otherwise.shape)
    named_shape: Shape = joined_shape and tuple(
        b.name("d") if str(extent).startswith("?") else extent for extent in joined_shape
    )
    return b.new(then.dtype, named_shape, then.name)


# --- after the loop -----------------------------------------------------------------------------


def count_complete_iterations(b: ModelBuilder, count: Value, last_condition: Value) -> Value:
    """Return the number of complete iterations of a loop with an exit in the middle of its body."""
    has_started = b.op("Less", b.constant(np.array(0)), count)
    has_incomplete_iteration = b.op("And", has_started, b.op("Not", last_condition))
    return b.op("Sub", count, cast(b, has_incomplete_iteration, "int64"))


def drop_incomplete_row(b: ModelBuilder, stack: Value, iterations: Value) -> Value:
    """Cut recorded rows to the number of complete iterations of a loop with a mid-body exit."""
    end_position = b.op("Reshape", iterations, ints(b, 1))
    return b.op("Slice", stack, ints(b, 0), end_position, ints(b, 0))
