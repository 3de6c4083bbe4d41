"""Many values of some inputs at once: every operation gets an axis for the runs in front.

    program(%x: float64[n], %w: float64[n])        program(%x: float64[batch, n], %w: float64[n])
      loop %i < %steps                               loop %i < %steps
        carry %v: float64[n] from %x to %next  ->      carry %v: float64[batch, n] from %x to %next
        %next: float64[n] = Mul(%v, %w)                %next: float64[batch, n] = Mul(%v, %w)
        record %next giving %trace                     record %next giving %rows
      output y = %trace                              output y = %rows members along axis 1

Only what depends on these inputs gets the axis; outputs say where they have it. A loop records
`[iterations, batch, n]`, which is turned to `[batch, iterations, n]` after the loop for those that
read it.

Keeps: arithmetic bit for bit; elementary functions, sums and matrix products within a few ulp,
since ONNX Runtime computes arrays of other lengths in another order. What fails for one value
fails for all.

Source: jax.vmap (Bradbury et al. 2018), on our operations.
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
from mdf_loop.ops.batching.lane import HINT, Lane, Operand, refusal, refuse_sequence
from mdf_loop.ops.words import all_true, rank
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
    """The program for many values of some inputs at once: every operation gets a leading axis.

    Args:
        program: what one run computes.
        names: the inputs that get an axis for the runs in front; they must be given to a run.
        size: what the extent of that axis is called.

    Raises:
        UnknownNameError: the program has no such input.
        UnsupportedError: what cannot be computed for all values at once, by name; all of it.
    """
    known = [entry.value.name for entry in program.inputs]
    for name in (name for name in names if name not in known):
        there = f"its inputs are {', '.join(known)}"
        raise UnknownNameError(f"the program has no input '{name}'", hint=there)
    return _Batcher(program, frozenset(names), size).program() if names else program


class _Batcher:
    """Rebuilds a program, scope by scope."""

    def __init__(self, old: Program, names: frozenset[str], size: str) -> None:
        self.old = old
        self.b = Builder.resume(old)
        self.findings = Findings()
        self.axis = self.b.name(size)
        self.varying = {entry.value for entry in old.inputs if entry.value.name in names}
        self.now: dict[Value, Value] = {}
        """What has become of values that changed."""
        self.read = {value for op in walk(old.ops) for value in values_read(op)}
        self.rows: dict[Value, Value] = {}
        """Records of the outermost loops as these make them, the axis of the runs behind."""
        self.ragged: dict[Value, Loop] = {}
        """Records of loops in which runs stop apart: each run has a number of rows of its own."""
        self.lost: set[Value] = set()
        """What is missing because of an error that is in the findings."""
        self.lane = Lane(self.b, self.b, self.axis, self._count)
        self._known_count: Value | None = None
        propagate_varying(old.ops, self.varying)

    def program(self) -> Program:
        """The program for all runs."""
        inputs = tuple(map(self._input, self.old.inputs))
        self._at_home(self.lane, (entry.value for entry in self.old.inputs))
        self._scope(self.lane, self.old.ops)
        self.findings.raise_any()
        outputs = (*map(self._output, self.old.outputs), *self._lengths())
        return replace(self.old, inputs=inputs, ops=tuple(self.b.ops), outputs=outputs)

    def _lengths(self) -> Iterator[Output]:
        """Of outputs that are rows of loops in which runs stop apart, how many each run has."""
        for output in self.old.outputs:
            loop = self.ragged.get(output.value)
            if loop is not None and loop.count is not None:
                count, name = self.now[loop.count], f"length of {output.name}"
                yield Output(name, count, OutputRole.LENGTH, output.name, members=0)

    def _output(self, output: Output) -> Output:
        """The output as it is made, and where its axis of the runs is."""
        value = output.value
        if value in self.rows:
            return replace(output, value=self.rows[value], members=1)
        if value not in self.varying and is_tensor(value.dtype):
            return replace(output, value=self._new(value))
        return replace(output, value=self._spread(self.lane, value), members=0)

    def _input(self, entry: Input) -> Input:
        if entry.value not in self.varying:
            return entry
        with self.b.at(entry.value.where):
            return replace(entry, value=self._batched(entry.value), default=None)

    def _count(self) -> Value:
        """The number of runs, as an array of one element; asked of the first batched input."""
        if self._known_count is None:
            first = next(e.value for e in self.old.inputs if e.value in self.varying)
            self._known_count = self.b.op("Shape", self.now[first], start=0, end=1)
        return self._known_count

    # --- values --------------------------------------------------------------------------------

    def _batched(self, value: Value) -> Value:
        """The value of one run with the axis of the runs in front; it stands for it from now on."""
        refuse_sequence(value)
        new = Value(value.name, value.dtype, (self.axis, *(value.shape or ())), value.where)
        self.now[value] = new
        return new

    def _new(self, value: Value) -> Value:
        if value in self.lost:
            raise Poisoned
        return self.now.get(value, value)

    def _optional(self, value: Value | None) -> Value | None:
        return None if value is None else self._new(value)

    def _truth(self, lane: Lane, value: Value | None, apart: bool) -> Value | None:
        return self._spread(lane, value) if apart and value else self._optional(value)

    def _read(self, value: Value) -> Value:
        """What a value has become, for what computes with it."""
        if value in self.ragged:
            raise ragged_rows_error(value, self.ragged[value])
        return self._new(value)

    def _operand(self, value: Value) -> Operand:
        return Operand(value, self._read(value), value in self.varying)

    def _spread(self, lane: Lane, value: Value) -> Value:
        with lane.b.at(lane.b.where, value.name):
            return lane.spread(self._operand(value))

    def _scope(self, lane: Lane, ops: Iterable[Operation]) -> None:
        for operation in ops:
            if isinstance(operation, Constant):
                lane.b.adopt(operation)
                lane.homes[operation.value] = lane.b
                continue
            made = False
            with self.findings.catch(), lane.b.at(operation.where):
                self._operation(lane, operation)
                made = True
            if made:
                self._at_home(lane, results(operation))
            else:
                self.lost.update(results(operation))

    def _at_home(self, lane: Lane, values: Iterable[Value]) -> None:
        for value in values:
            new = self._new(value)
            if lane.b.constant_of(new) is None:
                lane.homes.setdefault(new, lane.b)

    def _operation(self, lane: Lane, operation: Op | Guard | Loop | If) -> None:
        if isinstance(operation, Op):
            self._op(lane, operation)
        elif isinstance(operation, Guard):
            self._guard(lane, operation)
        elif isinstance(operation, Loop):
            self._loop(lane, operation)
        elif operation.condition in self.varying:
            self._both_branches(lane, operation)
        else:
            self._choice(lane, operation)

    def _op(self, lane: Lane, op: Op) -> None:
        operands = [None if v is None else self._operand(v) for v in op.inputs]
        batched = any(x is not None and x.batched for x in operands)
        row = row_of(op.op_type)
        if not batched:
            inputs = tuple(None if x is None else x.value for x in operands)
            lane.b.ops.append(op if inputs == op.inputs else replace(op, inputs=inputs))
            return
        if row.batched is None:
            raise refusal(op, row.not_batched)
        before = len(lane.b.ops)
        with lane.b.at(op.where, op.outputs[0].name):
            made = row.batched(lane, op, operands)
        self._named(lane.b, before, op.outputs, made)

    def _guard(self, lane: Lane, guard: Guard) -> None:
        """What does not hold for one run fails for all."""
        made, value = guard.output, self._read(guard.value)
        with lane.b.at(guard.where, made.name):
            ok = all_true(lane.b, self._new(guard.ok))
        if made in self.varying:
            made = self._batched(made)
        lane.b.append(replace(guard, value=value, ok=ok, output=made))

    def _named(self, b: Builder, before: int, old: Sequence[Value], made: Sequence[Value]) -> None:
        """Let what was made since `before` stand for the old values, under their names."""
        fresh = [operation for operation in b.ops[before:] if not isinstance(operation, Constant)]
        own = {value for operation in fresh for value in results(operation)}
        renamed: dict[Value, Value] = {}
        for value, new in zip(old, made, strict=True):
            if new in own and new not in renamed:
                renamed[new] = self._batched(value) if value in self.varying else value
            else:
                self.now[value] = renamed.get(new, new)
        b.ops[before:] = [substitute(operation, renamed) for operation in b.ops[before:]]

    # --- loops ---------------------------------------------------------------------------------

    def _loop(self, lane: Lane, loop: Loop) -> None:
        loop = self._deciding(lane, loop)
        apart = has_per_member_exit(loop, self.varying)
        body = lane.inside(lane.b.body())
        for value in body_inputs(loop):
            if value in self.varying:
                self._batched(value)
        self._at_home(body, body_inputs(loop))
        self._scope(body, loop.ops)
        new = replace(
            loop,
            trip_count=self._optional(loop.trip_count),
            condition=self._truth(lane, loop.condition, apart),
            condition_in=self._new(loop.condition_in),
            condition_out=self._truth(body, loop.condition_out, apart),
            carried=tuple(self._carried(lane, body, carried) for carried in loop.carried),
            recorded=tuple(self._recorded(lane, body, recorded) for recorded in loop.recorded),
            scanned=tuple(self._scanned(scanned) for scanned in loop.scanned),
            first=self._optional(loop.first),
            count=self._optional(loop.count),
            last_condition=self._optional(loop.last_condition),
            members=self.axis if apart else None,
        )
        lane.b.append(replace(new, ops=tuple(body.b.ops)))
        for before, after in zip(loop.recorded, new.recorded, strict=True):
            if before.stack not in self.varying:
                continue
            if lane is self.lane:
                self.rows[before.stack] = after.stack
            if apart:
                self.ragged[before.stack] = loop
            elif before.stack in self.read:
                self._turned(lane, before.stack, after.stack)

    def _deciding(self, lane: Lane, loop: Loop) -> Loop:
        """The loop, ended by what ends it in one run; where runs stop apart, by a condition."""
        refuse_varying_first_iteration(loop, self.varying)
        before: Sequence[Operation] = ()
        if loop.trip_count in self.varying:
            before, loop = trip_count_to_condition(lane.b, loop)
        elif loop.condition is None and loop.condition_out in self.varying:
            loop = carry_last_condition(lane.b, loop)
        if loop.condition is None and loop.last_condition is None:
            loop = replace(loop, condition_out=None)
        propagate_varying((*before, loop), self.varying)
        if has_per_member_exit(loop, self.varying):
            refuse_changing_shapes(loop)
            if loop.recorded and loop.count is None:
                loop = replace(loop, count=lane.b.new("int64", (), f"{loop.name} iterations"))
            loop = replace(loop, condition_out=loop.condition_out or loop.condition_in)
            propagate_varying((loop,), self.varying)
        self._scope(lane, before)
        for value in (loop.count, loop.last_condition):
            if value in self.varying:
                self._batched(value)
        return loop

    def _carried(self, outside: Lane, inside: Lane, carried: Carried) -> Carried:
        if carried.enter not in self.varying:
            initial, leave = self._new(carried.initial), self._new(carried.leave)
            return replace(carried, initial=initial, leave=leave)
        if len({rank(v) for v in (carried.initial, carried.enter, carried.leave)}) > 1:
            raise CarryShapeError(
                f"'{carried.name or carried.enter.name}' changes its number of axes, "
                "so it cannot be computed for many values at once",
                hint=HINT,
            )
        return replace(
            carried,
            initial=self._spread(outside, carried.initial),
            enter=self._new(carried.enter),
            leave=self._spread(inside, carried.leave),
            final=self._batched(carried.final),
        )

    def _recorded(self, outside: Lane, inside: Lane, recorded: Recorded) -> Recorded:
        """The rows as they are recorded, with the axis of the runs behind that of iterations."""
        if recorded.stack not in self.varying:
            return replace(recorded, row=self._new(recorded.row))
        iterations, *rest = recorded.stack.shape or ("iterations",)
        shape = (iterations, self.axis, *rest)
        stack = outside.b.new(recorded.stack.dtype, shape, recorded.stack.name)
        return replace(recorded, row=self._spread(inside, recorded.row), stack=stack)

    def _scanned(self, scanned: Scanned) -> Scanned:
        """What is scanned, along an axis that is one further back behind that of the runs."""
        rows, row = self._read(scanned.rows), self._new(scanned.row)
        behind = int(scanned.row in self.varying)
        return replace(scanned, rows=rows, row=row, axis=scanned.axis + behind)

    def _turned(self, lane: Lane, old: Value, rows: Value) -> None:
        """The axis of the runs in front; no iterations have no rows, but as many runs."""
        b, before = lane.b, len(lane.b.ops)
        with b.at(b.where, old.name):
            turned = b.op("Transpose", rows, perm=(1, 0, *range(2, rank(rows))))
            shape = b.op("Concat", lane.count(), b.op("Shape", turned, start=1), axis=0)
            result = b.op("Reshape", turned, shape, allowzero=1)
        self._named(b, before, (old,), (result,))

    # --- choices -------------------------------------------------------------------------------

    def _choice(self, lane: Lane, choice: If) -> None:
        """All runs choose the same branch."""
        batched = [output in self.varying for output in choice.outputs]
        new = replace(
            choice,
            condition=self._new(choice.condition),
            then=self._branch(lane, choice.then, batched),
            otherwise=self._branch(lane, choice.otherwise, batched),
            outputs=tuple(
                self._batched(output) if output in self.varying else output
                for output in choice.outputs
            ),
        )
        lane.b.append(new)

    def _branch(self, lane: Lane, branch: Branch, batched: Sequence[bool]) -> Branch:
        inside = lane.inside(lane.b.body())
        self._scope(inside, branch.ops)
        leaves = tuple(
            self._spread(inside, leaf) if spread else self._new(leaf)
            for leaf, spread in zip(branch.leaves, batched, strict=True)
        )
        return Branch(tuple(inside.b.ops), leaves)

    def _both_branches(self, lane: Lane, choice: If) -> None:
        """Each run chooses its own: both branches are computed; what may fail, for those that choose it."""
        false = Op("Not", (choice.condition,), (lane.b.new("bool", (), f"not {choice.name}"),))
        pairs = zip(
            choice.outputs,
            self._chosen(lane, choice, choice.then, ()),
            self._chosen(lane, choice, choice.otherwise, (false,)),
            strict=True,
        )
        for output, then, otherwise in pairs:
            refuse_two_shapes(choice, output, then, otherwise)
            where = Op("Where", (choice.condition, then, otherwise), (output,), where=choice.where)
            self._op(lane, where)

    def _chosen(
        self, lane: Lane, choice: If, branch: Branch, negation: tuple[Op, ...]
    ) -> tuple[Value, ...]:
        """What a branch gives, at least for the runs that choose it."""
        failing = first_that_may_fail(branch.ops, lane.b.constant_of)
        if failing is None:
            self._scope(lane, branch.ops)
            return branch.leaves
        truth = negation[0].outputs[0] if negation else choice.condition
        loop = branch_as_loop(lane.b, choice, branch, truth, failing)
        propagate_varying((*negation, loop), self.varying)
        self._scope(lane, (*negation, loop))
        return tuple(carried.final for carried in loop.carried)
