"""Replacement of selections with expensive operands by `If`s, which compute one operand only.

    t = MatMul(a, b); y = Where(go, t, x)   ->   if go giving y: give MatMul(a, b)  else: give x

Preserves: results bit for bit. An operation moves only if nothing else reads its results. Random numbers,
guards, operations that can fail and loops that may not end never move. So the program fails
for the same inputs as before. Selections by the same condition become one `If`.

Rule: a side moves if it costs 3 us or more (`passes.simplify.costs`). If the selections by one condition
cannot all move together, each selection is tried separately. Measured (onnxruntime 1.31.1, AMD EPYC, one
core, `benchmarks/lazy_choices.py`, us for each iteration of a loop, selected in 0, 50, 100 %):

    side                         both sides            one side
    4 Abs of 3 elements          3.3   3.3   3.3       2.1   2.8   3.4     stays
    16 Abs of 3 elements         5.3   5.4   5.4       2.0   3.8   5.6     moves
    Tanh of 1000 elements        6.3   6.3   8.0       2.2   4.1   7.5     moves
    MatMul 300 x 300            18    33    30         2.1  18    33       moves

If its side is always selected, an `If` costs about as much as the selection that it replaces, at most a
tenth more. (Not measured on a GPU, where an `If` waits for its condition.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Branch,
    Constant,
    If,
    Op,
    Operation,
    Program,
    Value,
    bodies,
    reads,
    results,
    with_bodies,
)
from mdf_loop.passes.failing import can_execute_speculatively
from mdf_loop.passes.simplify.costs import estimate_cost

MIN_SUNK_MICROSECONDS = 3.0
"""Minimum cost in microseconds of a side that is moved into an `If`."""


def sink_into_branches(program: Program) -> Program:
    """Replace selections with expensive operands by `If`s, which compute one operand only."""
    b = Builder.for_rewrite_of(program)
    for operation in program.ops:
        if isinstance(operation, Constant):
            b.adopt(operation)
    rewritten_ops = _sink_in_scope(b, program.ops, [output.value for output in program.outputs])
    return program if rewritten_ops == program.ops else replace(program, ops=rewritten_ops)


def _sink_in_scope(
    b: Builder, ops: tuple[Operation, ...], scope_outputs: Iterable[Value]
) -> tuple[Operation, ...]:
    """Replace selections with expensive operands by `If`s, within one scope."""
    values_read_after = set(scope_outputs)
    while True:
        rewritten_ops = next(
            filter(
                None,
                (
                    _sink_group(b, ops, group, values_read_after)
                    for group in _groups_by_condition(ops)
                ),
            ),
            None,
        )
        if rewritten_ops is None:
            break
        ops = rewritten_ops
    return tuple(
        with_bodies(op, [_sink_in_scope(b, body.ops, body.outputs) for body in bodies(op)])
        for op in ops
    )


def _groups_by_condition(ops: Sequence[Operation]) -> list[list[int]]:
    """Return the positions of `Where` operations, grouped by their condition.

    The group that ends last is first. All operations of larger groups follow as single positions.
    """
    positions_by_condition: dict[Value, list[int]] = {}
    for k, op in enumerate(ops):
        if isinstance(op, Op) and _is_scalar_selection(op):
            condition = op.inputs[0]
            assert condition is not None
            positions_by_condition.setdefault(condition, []).append(k)
    position_groups = sorted(positions_by_condition.values(), key=lambda group: -group[-1])
    single_position_groups = [
        [k] for group in position_groups if len(group) > 1 for k in reversed(group)
    ]
    return position_groups + single_position_groups


def _is_scalar_selection(op: Op) -> bool:
    """Return True for a `Where` with a scalar condition and operands of the result's shape."""
    if op.op_type != "Where":
        return False
    condition, then_operand, else_operand = op.inputs
    assert condition is not None
    assert then_operand is not None
    assert else_operand is not None
    output_shape = op.outputs[0].shape
    have_same_shape = (
        output_shape is not None and then_operand.shape == output_shape == else_operand.shape
    )
    return have_same_shape and condition.shape == ()


class _SelectionSide(Struct, frozen=True):
    """Future branch of an `If`: its outputs, and the operations that only this branch needs."""

    operands: tuple[Value, ...]
    op_positions: tuple[int, ...]


def _sink_group(
    b: Builder,
    ops: tuple[Operation, ...],
    selection_positions: Sequence[int],
    values_read_after: set[Value],
) -> tuple[Operation, ...] | None:
    """Replace a group of `Where`s by one `If`, or return None if this would not save time."""
    branch_candidates = [
        _find_selection_side(b, ops, selection_positions, operand_position, values_read_after)
        for operand_position in (1, 2)
    ]
    sunk_positions = {
        k for branch_candidate in branch_candidates for k in branch_candidate.op_positions
    }
    if all(
        estimate_cost(b, (ops[k] for k in branch_candidate.op_positions)) < MIN_SUNK_MICROSECONDS
        for branch_candidate in branch_candidates
    ):
        return None
    selection_results = {value for k in selection_positions for value in results(ops[k])}
    ops_between = (
        ops[k]
        for k in range(selection_positions[0], selection_positions[-1])
        if k not in sunk_positions and k not in selection_positions
    )
    needed_values = [
        value for op in (*ops_between, *(ops[k] for k in sunk_positions)) for value in reads(op)
    ]
    needed_values += [
        operand for branch_candidate in branch_candidates for operand in branch_candidate.operands
    ]
    if not selection_results.isdisjoint(needed_values):
        return None
    last_selection = ops[selection_positions[-1]]
    assert isinstance(last_selection, Op)
    condition = last_selection.inputs[0]
    assert condition is not None
    then_branch, else_branch = (
        Branch(tuple(ops[k] for k in branch_candidate.op_positions), branch_candidate.operands)
        for branch_candidate in branch_candidates
    )
    conditional_outputs = tuple(
        ops[k].outputs[0]  # type: ignore[union-attr]
        for k in selection_positions
        if isinstance(ops[k], Op)
    )
    conditional = If(
        conditional_outputs[0].name,
        condition,
        then_branch,
        else_branch,
        conditional_outputs,
        last_selection.where,
    )
    replacements = {selection_positions[-1]: conditional}
    removed_positions = sunk_positions | set(selection_positions)
    return tuple(
        replacements.get(k, op)
        for k, op in enumerate(ops)
        if k in replacements or k not in removed_positions
    )


def _find_selection_side(
    b: Builder,
    ops: Sequence[Operation],
    selection_positions: Sequence[int],
    operand_position: int,
    values_read_after: set[Value],
) -> _SelectionSide:
    """Return one operand of each `Where`, and the operations that only these operands need."""
    selected_operands = []
    values_read_elsewhere = set(values_read_after)
    for k in selection_positions:
        op = ops[k]
        assert isinstance(op, Op)
        selected_operand = op.inputs[operand_position]
        assert selected_operand is not None
        selected_operands.append(selected_operand)
        values_read_elsewhere.update(
            value
            for position, value in enumerate(op.inputs)
            if position != operand_position and value is not None
        )
    movable_positions: list[int] = []
    for k in reversed(range(len(ops))):
        if k in selection_positions:
            continue
        can_sink = (
            k < selection_positions[-1]
            and values_read_elsewhere.isdisjoint(results(ops[k]))
            and _is_movable(b, ops[k])
        )
        if can_sink and _is_needed(ops, k, selected_operands, movable_positions):
            movable_positions.append(k)
        else:
            values_read_elsewhere.update(reads(ops[k]))
    return _SelectionSide(tuple(selected_operands), tuple(reversed(movable_positions)))


def _is_needed(
    ops: Sequence[Operation], k: int, outputs: Sequence[Value], positions: Sequence[int]
) -> bool:
    """Return True if given outputs or operations read a result of operation `k`."""
    read_values = {*outputs, *(value for position in positions for value in reads(ops[position]))}
    return not read_values.isdisjoint(results(ops[k]))


def _is_movable(b: Builder, operation: Operation) -> bool:
    """Return True if an operation may move into a branch that may not be executed."""
    return not isinstance(operation, Constant) and can_execute_speculatively(
        operation, b.constant_of
    )
