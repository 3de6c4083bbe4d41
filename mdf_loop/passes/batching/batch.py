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
    require_known_rank,
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

    def __init__(self, original_program: Program, names: frozenset[str], size: str) -> None:
        self.original_program = original_program
        self.b = Builder.for_rewrite_of(original_program)
        self.findings = Findings()
        self.batch_axis = self.b.name(size)
        self.varying_values = {
            program_input.value
            for program_input in original_program.inputs
            if program_input.value.name in names
        }
        self.replacements: dict[Value, Value] = {}
        """Replacements of values that changed."""
        self.read_values = {value for op in walk(original_program.ops) for value in values_read(op)}
        self.iteration_first_recordings: dict[Value, Value] = {}
        """Recordings of the outermost loops, in which the run axis follows the iteration axis."""
        self.ragged_values: dict[Value, Loop] = {}
        """Recordings of loops with per-member exit, in which each run has its own number of rows."""
        self.poisoned_values: set[Value] = set()
        """Values that are missing because of an error in the findings."""
        self.program_scope = BatchScope(self.b, self.b, self.batch_axis, self._batch_size)
        self._known_batch_size: Value | None = None
        propagate_varying(original_program.ops, self.varying_values)

    def program(self) -> Program:
        """Return the program with a leading batch axis on all values that depend on the batch."""
        batched_inputs = tuple(map(self._batch_input, self.original_program.inputs))
        self._record_builder_of(
            self.program_scope,
            (program_input.value for program_input in self.original_program.inputs),
        )
        self._batch_scope(self.program_scope, self.original_program.ops)
        self.findings.raise_any()
        batched_outputs = (
            *map(self._batch_output, self.original_program.outputs),
            *self._length_outputs(),
        )
        return replace(
            self.original_program,
            inputs=batched_inputs,
            ops=tuple(self.b.ops),
            outputs=batched_outputs,
        )

    def _length_outputs(self) -> Iterator[Output]:
        """Yield outputs with the row counts of all members, for arrays of varying row counts."""
        for output in self.original_program.outputs:
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
        if output_value in self.iteration_first_recordings:
            return replace(
                output, value=self.iteration_first_recordings[output_value], member_axis=1
            )
        if output_value not in self.varying_values and is_tensor(output_value.dtype):
            return replace(output, value=self._replacement(output_value))
        return replace(
            output, value=self._with_batch_axis(self.program_scope, output_value), member_axis=0
        )

    def _batch_input(self, entry: Input) -> Input:
        if entry.value not in self.varying_values:
            return entry
        with self.b.at(entry.value.where):
            return replace(entry, value=self._add_batched_value(entry.value), default=None)

    def _batch_size(self) -> Value:
        """Return the batch size as an array of one element, computed from an input's shape."""
        if self._known_batch_size is None:
            first_batched_input = next(
                program_input.value
                for program_input in self.original_program.inputs
                if program_input.value in self.varying_values
            )
            self._known_batch_size = self.b.op(
                "Shape", self.replacements[first_batched_input], start=0, end=1
            )
        return self._known_batch_size

    # --- values --------------------------------------------------------------------------------

    def _add_batched_value(self, value: Value) -> Value:
        """Create the batched version of a value: same dtype, with a leading batch axis."""
        require_known_rank(value)
        batched_value = Value(
            value.name, value.dtype, (self.batch_axis, *(value.shape or ())), value.where
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
        self, scope: BatchScope, value: Value | None, exits_per_member: bool
    ) -> Value | None:
        return (
            self._with_batch_axis(scope, value)
            if exits_per_member and value
            else self._optional_replacement(value)
        )

    def _readable_replacement(self, value: Value) -> Value:
        """Return the batched version of a value, or raise if members have different row counts."""
        if value in self.ragged_values:
            raise ragged_rows_error(value, self.ragged_values[value])
        return self._replacement(value)

    def _operand(self, value: Value) -> Operand:
        return Operand(value, self._readable_replacement(value), value in self.varying_values)

    def _with_batch_axis(self, scope: BatchScope, value: Value) -> Value:
        with scope.b.at(scope.b.where, value.name):
            return scope.with_run_axis(self._operand(value))

    def _batch_scope(self, scope: BatchScope, ops: Iterable[Operation]) -> None:
        for operation in ops:
            if isinstance(operation, Constant):
                scope.b.adopt(operation)
                scope.defining_builders[operation.value] = scope.b
                continue
            is_built = False
            with self.findings.catch(), scope.b.at(operation.where):
                self._batch_operation(scope, operation)
                is_built = True
            if is_built:
                self._record_builder_of(scope, results(operation))
            else:
                self.poisoned_values.update(results(operation))

    def _record_builder_of(self, scope: BatchScope, values: Iterable[Value]) -> None:
        for value in values:
            replacement = self._replacement(value)
            if scope.b.constant_of(replacement) is None:
                scope.defining_builders.setdefault(replacement, scope.b)

    def _batch_operation(self, scope: BatchScope, operation: Op | Guard | Loop | If) -> None:
        if isinstance(operation, Op):
            self._batch_op(scope, operation)
        elif isinstance(operation, Guard):
            self._batch_guard(scope, operation)
        elif isinstance(operation, Loop):
            self._batch_loop(scope, operation)
        elif operation.condition in self.varying_values:
            self._batch_both_branches(scope, operation)
        else:
            self._batch_choice(scope, operation)

    def _batch_op(self, scope: BatchScope, op: Op) -> None:
        operands = [None if value is None else self._operand(value) for value in op.inputs]
        is_batched = any(operand is not None and operand.is_batched for operand in operands)
        operation_row = row_of(op.op_type)
        if not is_batched:
            batched_inputs = tuple(
                None if operand is None else operand.value for operand in operands
            )
            scope.b.ops.append(
                op if batched_inputs == op.inputs else replace(op, inputs=batched_inputs)
            )
            return
        if operation_row.batching_rule is None:
            raise batching_error(op, operation_row.unbatched_reason)
        first_new_op_index = len(scope.b.ops)
        with scope.b.at(op.where, op.outputs[0].name):
            batched_outputs = operation_row.batching_rule(scope, op, operands)
        self._rename_results(scope.b, first_new_op_index, op.outputs, batched_outputs)

    def _batch_guard(self, scope: BatchScope, guard: Guard) -> None:
        """Batch a run-time assertion, which fails for all members if it fails for one member."""
        guard_output, guarded_value = guard.output, self._readable_replacement(guard.value)
        with scope.b.at(guard.where, guard_output.name):
            common_condition = all_true(scope.b, self._replacement(guard.condition))
        if guard_output in self.varying_values:
            guard_output = self._add_batched_value(guard_output)
        scope.b.append(
            replace(guard, value=guarded_value, condition=common_condition, output=guard_output)
        )

    def _rename_results(
        self,
        b: Builder,
        first_new_op_index: int,
        old_values: Sequence[Value],
        new_values: Sequence[Value],
    ) -> None:
        """Rename the results of new operations to the names of the values that they replace.

        `first_new_op_index` is the number of operations in `b` before the new ones.
        """
        new_operations = [
            operation
            for operation in b.ops[first_new_op_index:]
            if not isinstance(operation, Constant)
        ]
        computed_values = {value for operation in new_operations for value in results(operation)}
        renamed_values: dict[Value, Value] = {}
        for value, new_value in zip(old_values, new_values, strict=True):
            if new_value in computed_values and new_value not in renamed_values:
                renamed_values[new_value] = (
                    self._add_batched_value(value) if value in self.varying_values else value
                )
            else:
                self.replacements[value] = renamed_values.get(new_value, new_value)
        b.ops[first_new_op_index:] = [
            substitute(operation, renamed_values) for operation in b.ops[first_new_op_index:]
        ]

    # --- loops ---------------------------------------------------------------------------------

    def _batch_loop(self, scope: BatchScope, loop: Loop) -> None:
        loop = self._normalize_exit(scope, loop)
        exits_per_member = has_per_member_exit(loop, self.varying_values)
        body_scope = scope.for_body(scope.b.body())
        for value in body_inputs(loop):
            if value in self.varying_values:
                self._add_batched_value(value)
        self._record_builder_of(body_scope, body_inputs(loop))
        self._batch_scope(body_scope, loop.ops)
        batched_loop = replace(
            loop,
            trip_count=self._optional_replacement(loop.trip_count),
            condition=self._loop_condition(scope, loop.condition, exits_per_member),
            condition_in=self._replacement(loop.condition_in),
            condition_out=self._loop_condition(body_scope, loop.condition_out, exits_per_member),
            carried=tuple(
                self._batch_carried(scope, body_scope, carried) for carried in loop.carried
            ),
            recorded=tuple(
                self._batch_recorded(scope, body_scope, recorded) for recorded in loop.recorded
            ),
            scanned=tuple(self._batch_scanned(scanned) for scanned in loop.scanned),
            first_iteration=self._optional_replacement(loop.first_iteration),
            iteration_count=self._optional_replacement(loop.iteration_count),
            last_condition=self._optional_replacement(loop.last_condition),
            member_axis=self.batch_axis if exits_per_member else None,
        )
        scope.b.append(replace(batched_loop, ops=tuple(body_scope.b.ops)))
        for original_recording, batched_recording in zip(
            loop.recorded, batched_loop.recorded, strict=True
        ):
            if original_recording.stack not in self.varying_values:
                continue
            if scope is self.program_scope:
                self.iteration_first_recordings[original_recording.stack] = batched_recording.stack
            if exits_per_member:
                self.ragged_values[original_recording.stack] = loop
            elif original_recording.stack in self.read_values:
                self._move_batch_axis_first(
                    scope, original_recording.stack, batched_recording.stack
                )

    def _normalize_exit(self, scope: BatchScope, loop: Loop) -> Loop:
        """Rewrite a loop, if needed, so that batch members can stop at different iterations."""
        refuse_varying_first_iteration(loop, self.varying_values)
        ops_before_loop: Sequence[Operation] = ()
        if loop.trip_count in self.varying_values:
            ops_before_loop, loop = trip_count_to_condition(scope.b, loop)
        elif loop.condition is None and loop.condition_out in self.varying_values:
            loop = carry_last_condition(scope.b, loop)
        if loop.condition is None and loop.last_condition is None:
            loop = replace(loop, condition_out=None)
        propagate_varying((*ops_before_loop, loop), self.varying_values)
        if has_per_member_exit(loop, self.varying_values):
            refuse_changing_shapes(loop)
            if loop.recorded and loop.iteration_count is None:
                loop = replace(
                    loop, iteration_count=scope.b.new("int64", (), f"{loop.name} iterations")
                )
            loop = replace(loop, condition_out=loop.condition_out or loop.condition_in)
            propagate_varying((loop,), self.varying_values)
        self._batch_scope(scope, ops_before_loop)
        for value in (loop.iteration_count, loop.last_condition):
            if value in self.varying_values:
                self._add_batched_value(value)
        return loop

    def _batch_carried(
        self, outer_scope: BatchScope, body_scope: BatchScope, carried: Carried
    ) -> Carried:
        if carried.body_input not in self.varying_values:
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
            initial=self._with_batch_axis(outer_scope, carried.initial),
            body_input=self._replacement(carried.body_input),
            body_output=self._with_batch_axis(body_scope, carried.body_output),
            final=self._add_batched_value(carried.final),
        )

    def _batch_recorded(
        self, outer_scope: BatchScope, body_scope: BatchScope, recorded: Recorded
    ) -> Recorded:
        """Add a batch axis to the array of rows that a loop records, after the iteration axis."""
        if recorded.stack not in self.varying_values:
            return replace(recorded, row=self._replacement(recorded.row))
        iteration_extent, *row_extents = recorded.stack.shape or ("iterations",)
        stack_shape = (iteration_extent, self.batch_axis, *row_extents)
        batched_stack = outer_scope.b.new(recorded.stack.dtype, stack_shape, recorded.stack.name)
        return replace(
            recorded, row=self._with_batch_axis(body_scope, recorded.row), stack=batched_stack
        )

    def _batch_scanned(self, scanned: Scanned) -> Scanned:
        """Add 1 to the index of a scanned axis if the scanned array gets a leading batch axis."""
        batched_rows, batched_row = (
            self._readable_replacement(scanned.rows),
            self._replacement(scanned.row),
        )
        axis_shift = int(scanned.row in self.varying_values)
        return replace(scanned, rows=batched_rows, row=batched_row, axis=scanned.axis + axis_shift)

    def _move_batch_axis_first(self, scope: BatchScope, old: Value, rows: Value) -> None:
        """Transpose recorded rows from [iterations, batch, ...] to [batch, iterations, ...].

        The batch axis keeps its length if there are no iterations.
        """
        b, first_new_op_index = scope.b, len(scope.b.ops)
        with b.at(b.where, old.name):
            transposed_rows = b.op("Transpose", rows, perm=(1, 0, *range(2, rank(rows))))
            batch_first_shape = b.op(
                "Concat", scope.run_count(), b.op("Shape", transposed_rows, start=1), axis=0
            )
            reshaped_rows = b.op("Reshape", transposed_rows, batch_first_shape, allowzero=1)
        self._rename_results(b, first_new_op_index, (old,), (reshaped_rows,))

    # --- choices -------------------------------------------------------------------------------

    def _batch_choice(self, scope: BatchScope, choice: If) -> None:
        """Batch an `If` whose condition is the same for all members of the batch."""
        batched_flags = [output in self.varying_values for output in choice.outputs]
        batched_choice = replace(
            choice,
            condition=self._replacement(choice.condition),
            then=self._batch_branch(scope, choice.then, batched_flags),
            otherwise=self._batch_branch(scope, choice.otherwise, batched_flags),
            outputs=tuple(
                self._add_batched_value(output) if output in self.varying_values else output
                for output in choice.outputs
            ),
        )
        scope.b.append(batched_choice)

    def _batch_branch(
        self, scope: BatchScope, branch: Branch, batched_flags: Sequence[bool]
    ) -> Branch:
        branch_scope = scope.for_body(scope.b.body())
        self._batch_scope(branch_scope, branch.ops)
        branch_outputs = tuple(
            self._with_batch_axis(branch_scope, branch_output)
            if is_batched
            else self._replacement(branch_output)
            for branch_output, is_batched in zip(branch.outputs, batched_flags, strict=True)
        )
        return Branch(tuple(branch_scope.b.ops), branch_outputs)

    def _batch_both_branches(self, scope: BatchScope, choice: If) -> None:
        """Replace an `If` with a condition per batch member by both branches and a `Where`."""
        negated_condition = Op(
            "Not", (choice.condition,), (scope.b.new("bool", (), f"not {choice.name}"),)
        )
        outputs_with_alternatives = zip(
            choice.outputs,
            self._unconditional_outputs(scope, choice, choice.then, ()),
            self._unconditional_outputs(scope, choice, choice.otherwise, (negated_condition,)),
            strict=True,
        )
        for output, then_output, else_output in outputs_with_alternatives:
            refuse_two_shapes(choice, output, then_output, else_output)
            selection = Op(
                "Where", (choice.condition, then_output, else_output), (output,), where=choice.where
            )
            self._batch_op(scope, selection)

    def _unconditional_outputs(
        self, scope: BatchScope, choice: If, branch: Branch, negation: tuple[Op, ...]
    ) -> tuple[Value, ...]:
        """Append the operations of an `If` branch for all members, and return the outputs."""
        failing_operation = first_that_may_fail(branch.ops, scope.b.constant_of)
        if failing_operation is None:
            self._batch_scope(scope, branch.ops)
            return branch.outputs
        condition = negation[0].outputs[0] if negation else choice.condition
        loop = branch_as_loop(scope.b, choice, branch, condition, failing_operation)
        propagate_varying((*negation, loop), self.varying_values)
        self._batch_scope(scope, (*negation, loop))
        return tuple(carried.final for carried in loop.carried)
