"""Batching, as in `jax.vmap`: compute a program for many values of some inputs at once.

    program(%x: float64[n], %w: float64[n])        program(%x: float64[batch, n], %w: float64[n])
      loop %i < %steps                               loop %i < %steps
        carry %v: float64[n] from %x to %next  ->      carry %v: float64[batch, n] from %x to %next
        %next: float64[n] = Mul(%v, %w)                %next: float64[batch, n] = Mul(%v, %w)
        record %next giving %trace                     record %next giving %rows
      output y = %trace                              output y = %rows members along axis 1

Only values that depend on these inputs get the run axis, and outputs state the position of that axis. A loop
records `[iterations, batch, n]`. Operations after the loop read the recording transposed to
`[batch, iterations, n]`.

Preserves: arithmetic bit for bit. Elementary functions, sums and matrix products are within a few ulp,
since ONNX Runtime computes arrays of other lengths in another order. If one run fails, all runs fail.

Source: jax.vmap (Bradbury et al. 2018), applied to the operations of the Loop IR.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.errors import CarryShapeError, Findings, Poisoned, UnknownNameError
from mdf_loop.ir import (
    Branch,
    Carried,
    Constant,
    Guard,
    If,
    Input,
    Loop,
    Op,
    Operation,
    Output,
    OutputRole,
    Program,
    Recorded,
    Scanned,
    Value,
    body_inputs,
    results,
    walk,
)
from mdf_loop.ir.substitute import substitute
from mdf_loop.ir.types import is_tensor
from mdf_loop.ops import row_of
from mdf_loop.ops.batching.scope import (
    UNBATCHED_HINT,
    BatchScope,
    Operand,
    batching_error,
    refuse_sequence,
)
from mdf_loop.ops.build_helpers import all_true, rank
from mdf_loop.passes.batching.branch_as_loop import branch_as_loop, refuse_two_shapes
from mdf_loop.passes.batching.per_member_exit import (
    carry_last_condition,
    ragged_rows_error,
    refuse_changing_shapes,
    refuse_varying_first_iteration,
    trip_count_to_condition,
)
from mdf_loop.passes.batching.varying import has_per_member_exit, propagate_varying, values_read
from mdf_loop.passes.failing import first_that_may_fail


def batch(program: Program, names: Collection[str], size: str = "batch") -> Program:
    """Return the program with a leading batch axis on the named inputs, like `jax.vmap`.

    Args:
        program: The program of one run.
        names: The inputs that get a leading axis for the runs. A batched run must provide them.
        size: The name of the extent of the run axis.

    Raises:
        UnknownNameError: The program has no such input.
        UnsupportedError: Some operations cannot be computed for all runs at once. The error lists these
            operations.
    """
    input_names = [program_input.value.name for program_input in program.inputs]
    for name in (name for name in names if name not in input_names):
        input_hint = f"its inputs are {', '.join(input_names)}"
        raise UnknownNameError(f"the program has no input '{name}'", hint=input_hint)
    return _Batcher(program, frozenset(names), size).program() if names else program


class _Batcher:
    """Builder of a batched program, which processes one scope (program or body) at a time."""

    def __init__(self, old: Program, names: frozenset[str], size: str) -> None:
        self.original = old
        self.b = Builder.for_rewrite_of(old)
        self.findings = Findings()
        self.run_axis = self.b.name(size)
        self.varying = {
            program_input.value for program_input in old.inputs if program_input.value.name in names
        }
        self.replacements: dict[Value, Value] = {}
        """Replacements of values that changed."""
        self.read_values = {value for op in walk(old.ops) for value in values_read(op)}
        self.rows: dict[Value, Value] = {}
        """Recordings of the outermost loops, in which the run axis follows the iteration axis."""
        self.ragged_values: dict[Value, Loop] = {}
        """Recordings of loops with per-member exit, in which each run has its own number of rows."""
        self.poisoned_values: set[Value] = set()
        """Values that are missing because of an error in the findings."""
        self.lane = BatchScope(self.b, self.b, self.run_axis, self._run_count)
        self._known_count: Value | None = None
        propagate_varying(old.ops, self.varying)

    def program(self) -> Program:
        """Return the program with a leading batch axis on all values that depend on the batch."""
        inputs = tuple(map(self._batch_input, self.original.inputs))
        self._record_builder_of(
            self.lane, (program_input.value for program_input in self.original.inputs)
        )
        self._batch_scope(self.lane, self.original.ops)
        self.findings.raise_any()
        outputs = (*map(self._batch_output, self.original.outputs), *self._length_outputs())
        return replace(self.original, inputs=inputs, ops=tuple(self.b.ops), outputs=outputs)

    def _length_outputs(self) -> Iterator[Output]:
        """Yield outputs with the row counts of all members, for arrays of varying row counts."""
        for output in self.original.outputs:
            loop = self.ragged_values.get(output.value)
            if loop is not None and loop.iteration_count is not None:
                yield Output(
                    f"length of {output.name}",
                    self.replacements[loop.iteration_count],
                    OutputRole.LENGTH,
                    output.name,
                    member_axis=0,
                )

    def _batch_output(self, output: Output) -> Output:
        """Return a program output for the whole batch, with the position of its batch axis."""
        output_value = output.value
        if output_value in self.rows:
            return replace(output, value=self.rows[output_value], member_axis=1)
        if output_value not in self.varying and is_tensor(output_value.dtype):
            return replace(output, value=self._replacement(output_value))
        return replace(output, value=self._with_run_axis(self.lane, output_value), member_axis=0)

    def _batch_input(self, entry: Input) -> Input:
        if entry.value not in self.varying:
            return entry
        with self.b.at(entry.value.where):
            return replace(entry, value=self._add_batched_value(entry.value), default=None)

    def _run_count(self) -> Value:
        """Return the batch size as an array of one element, computed from an input's shape."""
        if self._known_count is None:
            first_batched_input = next(
                program_input.value
                for program_input in self.original.inputs
                if program_input.value in self.varying
            )
            self._known_count = self.b.op(
                "Shape", self.replacements[first_batched_input], start=0, end=1
            )
        return self._known_count

    # --- values --------------------------------------------------------------------------------

    def _add_batched_value(self, value: Value) -> Value:
        """Create the batched version of a value: same dtype, with a leading batch axis."""
        refuse_sequence(value)
        batched_value = Value(
            value.name, value.dtype, (self.run_axis, *(value.shape or ())), value.where
        )
        self.replacements[value] = batched_value
        return batched_value

    def _replacement(self, value: Value) -> Value:
        if value in self.poisoned_values:
            raise Poisoned
        return self.replacements.get(value, value)

    def _optional_replacement(self, value: Value | None) -> Value | None:
        return None if value is None else self._replacement(value)

    def _loop_condition(
        self, lane: BatchScope, value: Value | None, has_own_exit: bool
    ) -> Value | None:
        return (
            self._with_run_axis(lane, value)
            if has_own_exit and value
            else self._optional_replacement(value)
        )

    def _readable_replacement(self, value: Value) -> Value:
        """Return the batched version of a value, or raise if members have different row counts."""
        if value in self.ragged_values:
            raise ragged_rows_error(value, self.ragged_values[value])
        return self._replacement(value)

    def _operand(self, value: Value) -> Operand:
        return Operand(value, self._readable_replacement(value), value in self.varying)

    def _with_run_axis(self, lane: BatchScope, value: Value) -> Value:
        with lane.b.at(lane.b.where, value.name):
            return lane.with_run_axis(self._operand(value))

    def _batch_scope(self, lane: BatchScope, ops: Iterable[Operation]) -> None:
        for operation in ops:
            if isinstance(operation, Constant):
                lane.b.adopt(operation)
                lane.defining_builders[operation.value] = lane.b
                continue
            is_built = False
            with self.findings.catch(), lane.b.at(operation.where):
                self._batch_operation(lane, operation)
                is_built = True
            if is_built:
                self._record_builder_of(lane, results(operation))
            else:
                self.poisoned_values.update(results(operation))

    def _record_builder_of(self, lane: BatchScope, values: Iterable[Value]) -> None:
        for value in values:
            replacement = self._replacement(value)
            if lane.b.constant_of(replacement) is None:
                lane.defining_builders.setdefault(replacement, lane.b)

    def _batch_operation(self, lane: BatchScope, operation: Op | Guard | Loop | If) -> None:
        if isinstance(operation, Op):
            self._batch_op(lane, operation)
        elif isinstance(operation, Guard):
            self._batch_guard(lane, operation)
        elif isinstance(operation, Loop):
            self._batch_loop(lane, operation)
        elif operation.condition in self.varying:
            self._batch_both_branches(lane, operation)
        else:
            self._batch_choice(lane, operation)

    def _batch_op(self, lane: BatchScope, op: Op) -> None:
        operands = [None if value is None else self._operand(value) for value in op.inputs]
        is_batched = any(operand is not None and operand.is_batched for operand in operands)
        operation_row = row_of(op.op_type)
        if not is_batched:
            inputs = tuple(None if operand is None else operand.value for operand in operands)
            lane.b.ops.append(op if inputs == op.inputs else replace(op, inputs=inputs))
            return
        if operation_row.batching_rule is None:
            raise batching_error(op, operation_row.unbatched_reason)
        old_op_count = len(lane.b.ops)
        with lane.b.at(op.where, op.outputs[0].name):
            outputs = operation_row.batching_rule(lane, op, operands)
        self._rename_results(lane.b, old_op_count, op.outputs, outputs)

    def _batch_guard(self, lane: BatchScope, guard: Guard) -> None:
        """Batch a run-time assertion, which fails for all members if it fails for one member."""
        output, value = guard.output, self._readable_replacement(guard.value)
        with lane.b.at(guard.where, output.name):
            condition = all_true(lane.b, self._replacement(guard.condition))
        if output in self.varying:
            output = self._add_batched_value(output)
        lane.b.append(replace(guard, value=value, condition=condition, output=output))

    def _rename_results(
        self, b: Builder, old_op_count: int, old: Sequence[Value], new_values: Sequence[Value]
    ) -> None:
        """Rename the results of new operations to the names of the values that they replace.

        `old_op_count` is the number of operations in `b` before the new ones.
        """
        new_operations = [
            operation for operation in b.ops[old_op_count:] if not isinstance(operation, Constant)
        ]
        computed_values = {value for operation in new_operations for value in results(operation)}
        renamed_values: dict[Value, Value] = {}
        for value, new_value in zip(old, new_values, strict=True):
            if new_value in computed_values and new_value not in renamed_values:
                renamed_values[new_value] = (
                    self._add_batched_value(value) if value in self.varying else value
                )
            else:
                self.replacements[value] = renamed_values.get(new_value, new_value)
        b.ops[old_op_count:] = [
            substitute(operation, renamed_values) for operation in b.ops[old_op_count:]
        ]

    # --- loops ---------------------------------------------------------------------------------

    def _batch_loop(self, lane: BatchScope, loop: Loop) -> None:
        loop = self._normalize_exit(lane, loop)
        has_own_exit = has_per_member_exit(loop, self.varying)
        body = lane.for_body(lane.b.body())
        for value in body_inputs(loop):
            if value in self.varying:
                self._add_batched_value(value)
        self._record_builder_of(body, body_inputs(loop))
        self._batch_scope(body, loop.ops)
        batched_loop = replace(
            loop,
            trip_count=self._optional_replacement(loop.trip_count),
            condition=self._loop_condition(lane, loop.condition, has_own_exit),
            condition_in=self._replacement(loop.condition_in),
            condition_out=self._loop_condition(body, loop.condition_out, has_own_exit),
            carried=tuple(self._batch_carried(lane, body, carried) for carried in loop.carried),
            recorded=tuple(
                self._batch_recorded(lane, body, recorded) for recorded in loop.recorded
            ),
            scanned=tuple(self._batch_scanned(scanned) for scanned in loop.scanned),
            first_iteration=self._optional_replacement(loop.first_iteration),
            iteration_count=self._optional_replacement(loop.iteration_count),
            last_condition=self._optional_replacement(loop.last_condition),
            member_axis=self.run_axis if has_own_exit else None,
        )
        lane.b.append(replace(batched_loop, ops=tuple(body.b.ops)))
        for original_recording, batched_recording in zip(
            loop.recorded, batched_loop.recorded, strict=True
        ):
            if original_recording.stack not in self.varying:
                continue
            if lane is self.lane:
                self.rows[original_recording.stack] = batched_recording.stack
            if has_own_exit:
                self.ragged_values[original_recording.stack] = loop
            elif original_recording.stack in self.read_values:
                self._move_run_axis_first(lane, original_recording.stack, batched_recording.stack)

    def _normalize_exit(self, lane: BatchScope, loop: Loop) -> Loop:
        """Rewrite a loop, if needed, so that batch members can stop at different iterations."""
        refuse_varying_first_iteration(loop, self.varying)
        ops_before_loop: Sequence[Operation] = ()
        if loop.trip_count in self.varying:
            ops_before_loop, loop = trip_count_to_condition(lane.b, loop)
        elif loop.condition is None and loop.condition_out in self.varying:
            loop = carry_last_condition(lane.b, loop)
        if loop.condition is None and loop.last_condition is None:
            loop = replace(loop, condition_out=None)
        propagate_varying((*ops_before_loop, loop), self.varying)
        if has_per_member_exit(loop, self.varying):
            refuse_changing_shapes(loop)
            if loop.recorded and loop.iteration_count is None:
                loop = replace(
                    loop, iteration_count=lane.b.new("int64", (), f"{loop.name} iterations")
                )
            loop = replace(loop, condition_out=loop.condition_out or loop.condition_in)
            propagate_varying((loop,), self.varying)
        self._batch_scope(lane, ops_before_loop)
        for value in (loop.iteration_count, loop.last_condition):
            if value in self.varying:
                self._add_batched_value(value)
        return loop

    def _batch_carried(
        self, outer_lane: BatchScope, body_lane: BatchScope, carried: Carried
    ) -> Carried:
        if carried.body_input not in self.varying:
            initial_value, outgoing_value = (
                self._replacement(carried.initial),
                self._replacement(carried.body_output),
            )
            return replace(carried, initial=initial_value, body_output=outgoing_value)
        if (
            len(
                {
                    rank(value)
                    for value in (carried.initial, carried.body_input, carried.body_output)
                }
            )
            > 1
        ):
            raise CarryShapeError(
                f"'{carried.name or carried.body_input.name}' changes its number of axes, "
                "so it cannot be computed for many values at once",
                hint=UNBATCHED_HINT,
            )
        return replace(
            carried,
            initial=self._with_run_axis(outer_lane, carried.initial),
            body_input=self._replacement(carried.body_input),
            body_output=self._with_run_axis(body_lane, carried.body_output),
            final=self._add_batched_value(carried.final),
        )

    def _batch_recorded(
        self, outer_lane: BatchScope, body_lane: BatchScope, recorded: Recorded
    ) -> Recorded:
        """Add a batch axis to the array of rows that a loop records, after the iteration axis."""
        if recorded.stack not in self.varying:
            return replace(recorded, row=self._replacement(recorded.row))
        iteration_extent, *row_extents = recorded.stack.shape or ("iterations",)
        shape = (iteration_extent, self.run_axis, *row_extents)
        batched_stack = outer_lane.b.new(recorded.stack.dtype, shape, recorded.stack.name)
        return replace(
            recorded, row=self._with_run_axis(body_lane, recorded.row), stack=batched_stack
        )

    def _batch_scanned(self, scanned: Scanned) -> Scanned:
        """Add 1 to the index of a scanned axis if the scanned array gets a leading batch axis."""
        rows, row = self._readable_replacement(scanned.rows), self._replacement(scanned.row)
        axis_shift = int(scanned.row in self.varying)
        return replace(scanned, rows=rows, row=row, axis=scanned.axis + axis_shift)

    def _move_run_axis_first(self, lane: BatchScope, old: Value, rows: Value) -> None:
        """Transpose recorded rows from [iterations, batch, ...] to [batch, iterations, ...].

        The batch axis keeps its length if there are no iterations.
        """
        b, old_op_count = lane.b, len(lane.b.ops)
        with b.at(b.where, old.name):
            transposed_rows = b.op("Transpose", rows, perm=(1, 0, *range(2, rank(rows))))
            shape = b.op(
                "Concat", lane.run_count(), b.op("Shape", transposed_rows, start=1), axis=0
            )
            reshaped_rows = b.op("Reshape", transposed_rows, shape, allowzero=1)
        self._rename_results(b, old_op_count, (old,), (reshaped_rows,))

    # --- choices -------------------------------------------------------------------------------

    def _batch_choice(self, lane: BatchScope, choice: If) -> None:
        """Batch an `If` whose condition is the same for all members of the batch."""
        is_batched = [output in self.varying for output in choice.outputs]
        batched_choice = replace(
            choice,
            condition=self._replacement(choice.condition),
            then=self._batch_branch(lane, choice.then, is_batched),
            otherwise=self._batch_branch(lane, choice.otherwise, is_batched),
            outputs=tuple(
                self._add_batched_value(output) if output in self.varying else output
                for output in choice.outputs
            ),
        )
        lane.b.append(batched_choice)

    def _batch_branch(self, lane: BatchScope, branch: Branch, batched: Sequence[bool]) -> Branch:
        branch_lane = lane.for_body(lane.b.body())
        self._batch_scope(branch_lane, branch.ops)
        leaves = tuple(
            self._with_run_axis(branch_lane, leaf) if is_batched else self._replacement(leaf)
            for leaf, is_batched in zip(branch.outputs, batched, strict=True)
        )
        return Branch(tuple(branch_lane.b.ops), leaves)

    def _batch_both_branches(self, lane: BatchScope, choice: If) -> None:
        """Replace an `If` with a condition per batch member by both branches and a `Where`."""
        negation = Op("Not", (choice.condition,), (lane.b.new("bool", (), f"not {choice.name}"),))
        outputs_and_leaves = zip(
            choice.outputs,
            self._branch_leaves(lane, choice, choice.then, ()),
            self._branch_leaves(lane, choice, choice.otherwise, (negation,)),
            strict=True,
        )
        for output, then_leaf, else_leaf in outputs_and_leaves:
            refuse_two_shapes(choice, output, then_leaf, else_leaf)
            selection = Op(
                "Where", (choice.condition, then_leaf, else_leaf), (output,), where=choice.where
            )
            self._batch_op(lane, selection)

    def _branch_leaves(
        self, lane: BatchScope, choice: If, branch: Branch, negation: tuple[Op, ...]
    ) -> tuple[Value, ...]:
        """Append the operations of an `If` branch for all members, and return the outputs."""
        failing_operation = first_that_may_fail(branch.ops, lane.b.constant_of)
        if failing_operation is None:
            self._batch_scope(lane, branch.ops)
            return branch.outputs
        condition = negation[0].outputs[0] if negation else choice.condition
        loop = branch_as_loop(lane.b, choice, branch, condition, failing_operation)
        propagate_varying((*negation, loop), self.varying)
        self._batch_scope(lane, (*negation, loop))
        return tuple(carried.final for carried in loop.carried)
