"""Replacement of `Draw` operations by counter-based random numbers, with one key for each random call.

Each site has a key, and each turn has a number.

    loop %i < %steps                             loop %i < %steps
      %x = Draw(site=w.a.x#0)             ->       carry %n from %n0 to %more
                                                   %x = Normal(Cast(%n), %key)
                                                   %more = Add(%n, 1)

A turn is one iteration of the loop that contains the draw. An iteration in which a branch with the draw is
not selected counts too. Turns are counted over all runs of that loop, also those of earlier evaluations:
all enclosing loops carry the count. So no number is drawn twice, however a run is divided.

A draw of several elements uses one number for each element. The first one is `turn * elements`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
from msgspec.structs import replace

from mdf_loop import streams
from mdf_loop.build import Builder
from mdf_loop.ir import (
    Branch,
    Carried,
    Constant,
    If,
    Input,
    InputRole,
    Loop,
    Op,
    Operation,
    Output,
    Program,
    Value,
    bodies,
    walk,
)
from mdf_loop.ops.build_helpers import cast, scalar
from mdf_loop.reading.memory import State, create_state_input, create_state_output, state_name

KEYS_INPUT = "random_keys"
"""Name of the program input that contains the keys of the random sites."""

_ExecutionCounts = dict[str, Value]
"""Graph -> number of its turns so far."""


def replace_draws(program: Program) -> Program:
    """Replace the `Draw` operations in the program of one evaluation by counter-based random numbers."""
    random_sites = _find_random_sites(program)
    if not random_sites:
        return program
    rewriter = _DrawRewriter(program, random_sites)
    zero_count = scalar(rewriter.b, 0, "int64")
    rewriter.rewrite(dict.fromkeys(_find_drawing_graphs(program.ops), zero_count))
    return rewriter.build_program()


def replace_draws_over_time(
    first: Program, later: Program
) -> tuple[Program, Program, tuple[State, ...]]:
    """Replace the `Draw` operations in the programs of the first and the later time steps.

    Counter-based random numbers replace them. The counters become states, which one step passes to the next.
    """
    random_sites = tuple(dict.fromkeys((*_find_random_sites(first), *_find_random_sites(later))))
    if not random_sites:
        return first, later, ()
    graphs_with_draws, first_step_rewriter = (
        tuple(_find_drawing_graphs(later.ops)),
        _DrawRewriter(first, random_sites),
    )
    zero_count = scalar(first_step_rewriter.b, 0, "int64")
    execution_counts = first_step_rewriter.rewrite(
        dict.fromkeys((*graphs_with_draws, *_find_drawing_graphs(first.ops)), zero_count)
    )
    if first.name in graphs_with_draws and execution_counts[first.name] is zero_count:
        # The graph draws only in later evaluations.
        execution_counts[first.name] = scalar(first_step_rewriter.b, 1, "int64")
    first_step_program = first_step_rewriter.build_program(
        outputs=[
            create_state_output(_create_counter_key(graph), execution_counts[graph])
            for graph in graphs_with_draws
        ]
    )
    return (
        first_step_program,
        replace_draws_with_counts(later, random_sites),
        tuple(map(_create_counter_key, graphs_with_draws)),
    )


def replace_draws_with_counts(program: Program, sites: tuple[str, ...] | None = None) -> Program:
    """Replace `Draw` operations by random numbers whose counters are inputs and outputs of the program.

    A counter is the number of turns of a graph so far.
    """
    sites = _find_random_sites(program) if sites is None else sites
    if not sites:
        return program
    rewriter = _DrawRewriter(program, sites)
    input_names = {
        graph: f"{state_name(_create_counter_key(graph))} before"
        for graph in _find_drawing_graphs(program.ops)
    }
    execution_counts = {
        graph: rewriter.b.new("int64", (), name) for graph, name in input_names.items()
    }
    final_execution_counts = rewriter.rewrite(dict(execution_counts))
    return rewriter.build_program(
        [
            create_state_input(_create_counter_key(graph), execution_count)
            for graph, execution_count in execution_counts.items()
        ],
        [
            create_state_output(_create_counter_key(graph), final_execution_counts[graph])
            for graph in execution_counts
        ],
    )


def _create_counter_key(graph: str) -> State:
    """Return the key of the state that counts the executions of a graph with random draws."""
    return ("count", "", f"{_STATE_PREFIX}{graph}")


_CARRIED_PREFIX = "draws in "
_STATE_PREFIX = f"of {_CARRIED_PREFIX}"


def count_model_carried(loop: Loop) -> int:
    """Count the carried values of a loop, except the counters that generate random numbers."""
    return sum(not carried_value.name.startswith(_CARRIED_PREFIX) for carried_value in loop.carried)


def is_execution_count(state: State) -> bool:
    """Return True for a state that counts the executions of a graph with random draws."""
    return state[0] == "count" and state[2].startswith(_STATE_PREFIX)


# --- operations that draw ---------------------------------------------------------------------------


def _iterate_draws(ops: Iterable[Operation]) -> Iterator[Op]:
    """Return an iterator over all `Draw` operations, including operations in loops and branches."""
    return (op for op in walk(ops) if isinstance(op, Op) and op.op_type == "Draw")


def _find_random_sites(program: Program) -> tuple[str, ...]:
    """Return the random sites (calls that draw random numbers) in a program.

    The result has no duplicates.
    """
    return tuple(dict.fromkeys(draw.attributes["site"] for draw in _iterate_draws(program.ops)))


def _find_drawing_graphs(ops: Iterable[Operation]) -> dict[str, None]:
    """Return the ids of the graphs that draw random numbers, in order and without duplicates."""
    return dict.fromkeys(draw.attributes["graph"] for draw in _iterate_draws(ops))


def _count_executions(ops: Iterable[Operation]) -> dict[str, int]:
    """Return how often each graph that draws random numbers executes when `ops` run once.

    Loops inside the operations are not counted.
    """
    execution_counts: dict[str, int] = {}
    for operation in ops:
        if isinstance(operation, Op) and operation.op_type == "Draw":
            attributes = operation.attributes
            execution_count = max(attributes["turn"] + 1, attributes["turns"])
            execution_counts[attributes["graph"]] = max(
                execution_counts.get(attributes["graph"], 0), execution_count
            )
        elif isinstance(operation, If):
            for body in bodies(operation):
                for graph, branch_execution_count in _count_executions(body.ops).items():
                    execution_counts[graph] = max(
                        execution_counts.get(graph, 0), branch_execution_count
                    )
    return execution_counts


# --- replacement ----------------------------------------------------------------------------------


class _DrawRewriter:
    """Rewriter that replaces the `Draw` operations of a program by counter-based random numbers."""

    def __init__(self, program: Program, sites: tuple[str, ...]) -> None:
        self.b = Builder.for_rewrite_of(program)
        self._program = program
        self._random_sites = sites
        self._keys_input = self.b.new("uint64", (len(sites),), KEYS_INPUT)
        drawn_sites = {draw.attributes["site"] for draw in _iterate_draws(program.ops)}
        self._key_by_site = {
            site: self._read_key(site, k) for k, site in enumerate(sites) if site in drawn_sites
        }

    def _read_key(self, site: str, k: int) -> Value:
        """Append an operation that reads the key of the k-th random site (random call) from the key input."""
        with self.b.at(self._program.name, f"key of {site}"):
            return self.b.op("Gather", self._keys_input, scalar(self.b, k, "int64"), axis=0)

    def rewrite(self, execution_counts: _ExecutionCounts) -> _ExecutionCounts:
        """Replace each `Draw` by a counter-based generator, and return the final counters.

        `execution_counts` are the counters before the program.
        """
        return self._rewrite_scope(self.b, self._program.ops, execution_counts)

    def build_program(
        self, inputs: Iterable[Input] = (), outputs: Iterable[Output] = ()
    ) -> Program:
        """Build the program without `Draw` operations, with `inputs` and `outputs` added."""
        default_keys = streams.keys(0, streams.sites(self._random_sites))
        keys_input = Input(self._keys_input, default=default_keys, role=InputRole.KEYS)
        return replace(
            self._program,
            inputs=(*self._program.inputs, keys_input, *inputs),
            ops=tuple(self.b.ops),
            outputs=(*self._program.outputs, *outputs),
            sites=self._random_sites,
        )

    def _rewrite_scope(
        self, b: Builder, ops: Iterable[Operation], execution_counts: _ExecutionCounts
    ) -> _ExecutionCounts:
        """Replace the `Draw` operations of a program or loop body, and return the final counters.

        A counter is the number of executions of a graph so far. The new operations are appended to `b`.
        """
        ops = tuple(ops)
        execution_counts = dict(execution_counts)
        self._rewrite_operations(b, ops, execution_counts)
        for graph, execution_count in _count_executions(ops).items():
            execution_counts[graph] = b.op(
                "Add", execution_counts[graph], scalar(b, execution_count, "int64")
            )
        return execution_counts

    def _rewrite_operations(
        self, b: Builder, ops: Iterable[Operation], execution_counts: _ExecutionCounts
    ) -> None:
        """Append operations with each `Draw` replaced by a generator, and update the counters.

        The counts change after each loop or choice with draws.
        """
        for operation in ops:
            if isinstance(operation, Constant):
                b.adopt(operation)
            elif isinstance(operation, Op):
                b.ops.append(self._rewrite_operation(b, operation, execution_counts))
            elif isinstance(operation, Loop) and any(_iterate_draws(operation.ops)):
                self._rewrite_loop(b, operation, execution_counts)
            elif isinstance(operation, If) and any(_iterate_draws((operation,))):
                self._rewrite_if(b, operation, execution_counts)
            else:
                b.append(operation)

    def _rewrite_operation(self, b: Builder, op: Op, execution_counts: _ExecutionCounts) -> Op:
        """Return the random generator that replaces a `Draw`, or any other operation unchanged."""
        if op.op_type != "Draw":
            return op
        attributes, output_name = op.attributes, op.outputs[0].name
        with b.at(op.where, output_name):
            execution_number = execution_counts[attributes["graph"]]
            if attributes["turn"]:
                execution_number = b.op(
                    "Add", execution_number, scalar(b, attributes["turn"], "int64")
                )
            random_counter, shape = cast(b, execution_number, "uint64"), attributes["shape"]
            if shape:
                element_count = math.prod(shape)
                first_number = b.op("Mul", random_counter, scalar(b, element_count, "uint64"))
                random_counter = b.op(
                    "Add",
                    first_number,
                    b.constant(np.arange(element_count, dtype=np.uint64).reshape(shape)),
                )
        random_key = self._key_by_site[attributes["site"]]
        return replace(
            op, op_type=attributes["kind"], inputs=(random_counter, random_key), attributes={}
        )

    def _rewrite_loop(self, b: Builder, loop: Loop, execution_counts: _ExecutionCounts) -> None:
        """Append a loop with its `Draw` operations replaced and the counters as carried values."""
        body_builder = b.body()
        drawing_graphs = _find_drawing_graphs(loop.ops)
        with b.at(loop.where, loop.name):
            carried_inputs = {
                graph: body_builder.new("int64", (), f"{_CARRIED_PREFIX}{graph}")
                for graph in drawing_graphs
            }
            carried_outputs = self._rewrite_scope(body_builder, loop.ops, carried_inputs)
            final_execution_counts = {
                graph: b.new("int64", (), f"{_CARRIED_PREFIX}{graph}") for graph in drawing_graphs
            }
        carried_values = tuple(
            Carried(
                execution_counts[graph],
                carried_inputs[graph],
                carried_outputs[graph],
                final_execution_counts[graph],
                f"{_CARRIED_PREFIX}{graph}",
            )
            for graph in drawing_graphs
        )
        b.append(
            replace(loop, carried=(*loop.carried, *carried_values), ops=tuple(body_builder.ops))
        )
        execution_counts.update(final_execution_counts)

    def _rewrite_if(self, b: Builder, choice: If, execution_counts: _ExecutionCounts) -> None:
        """Append an `If` whose `Draw` operations are replaced, with the counters as new outputs."""
        rewritten_branches = []
        for branch in (choice.then, choice.otherwise):
            branch_builder, branch_counts = b.body(), dict(execution_counts)
            self._rewrite_operations(branch_builder, branch.ops, branch_counts)
            rewritten_branches.append((branch_builder, branch, branch_counts))
        changed_graphs = [
            graph
            for graph in execution_counts
            if any(
                branch_counts[graph] is not execution_counts[graph]
                for _, _, branch_counts in rewritten_branches
            )
        ]
        then_branch, else_branch = (
            Branch(
                tuple(branch_builder.ops),
                (*branch.outputs, *(branch_counts[graph] for graph in changed_graphs)),
            )
            for branch_builder, branch, branch_counts in rewritten_branches
        )
        counts_after_choice = {
            graph: b.new("int64", (), f"{_CARRIED_PREFIX}{graph}") for graph in changed_graphs
        }
        choice_outputs = (*choice.outputs, *counts_after_choice.values())
        b.append(replace(choice, then=then_branch, otherwise=else_branch, outputs=choice_outputs))
        execution_counts.update(counts_after_choice)
