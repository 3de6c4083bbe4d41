"""Conversion of scheduler passes to a loop, for a schedule that depends on run-time values.

    while not terminated:                    # one pass
        for layer in layers:
            runs = [condition holds, and not terminated]
            for node in layer:
                if runs[node]: execute it    # the values of nodes are carried from pass to pass

The counts of conditions are carried too. Persistent counts continue in the next evaluation.

Source: graph_scheduler.Scheduler.run (1.2.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.errors import ConditionError, LoopError
from mdf_loop.ir import Loop, Recorded, Value
from mdf_loop.lower import cast, tensor
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import BranchNames, choose
from mdf_loop.lower.operators import guard_value, one_element
from mdf_loop.ops.build_helpers import ints
from mdf_loop.reading.execution import Executor, list_state_keys
from mdf_loop.reading.memory import (
    LoopMemory,
    Memory,
    State,
    create_placeholder,
    generalize,
    select_term,
)
from mdf_loop.reading.schedule.conditions import JustRan, ThresholdCondition
from mdf_loop.reading.schedule.counters import Counters, CountKey
from mdf_loop.reading.schedule.known import (
    ONNX_COMPARISONS,
    PYTHON_COMPARISONS,
    Number,
    Truth,
    logical_not,
    logical_or,
    to_value,
)
from mdf_loop.reading.schedule.plan import EVALUATION, MAX_PASSES, PASS, Schedule

EXECUTED_SETS: State = ("count", "", "sets")
"""State with the nodes that ran: for each pass and layer, a flag for its visit, then one flag per node."""


def create_count_state(key: CountKey) -> State:
    """Return the key of the state that holds a counter or flag of scheduler conditions."""
    return ("flag" if isinstance(key, JustRan) else "count", "", str(key))


class _PassResults(Struct, frozen=True):
    """Program values that the conversion of one scheduler pass returns."""

    iteration: Value
    has_next_pass: Value
    executed_row: Value


class PassesLoop:
    """Builder of a loop over scheduler passes, for a schedule that depends on run-time values.

    Each pass runs the nodes whose conditions hold. The final values of the nodes are stored in a `Memory`.
    """

    def __init__(
        self, executor: Executor, schedule: Schedule, memory: Memory, recorded: Iterable[State]
    ) -> None:
        self.executor = executor
        self.schedule = schedule
        self.memory = memory
        self.b = memory.b
        states_with_thresholds = [
            state
            for condition in schedule.threshold_conditions
            for state in self._find_threshold_states(condition)
        ]
        self.recorded_states = [*dict.fromkeys((*recorded, *states_with_thresholds))]
        self.carried_types = memory.carried_types

    # --- the loop -------------------------------------------------------------------------------

    def read(self, initial: dict[CountKey, Number | Truth]) -> None:
        """Append the loop over the scheduler passes of an evaluation to the program.

        `initial` are the schedule's counts before the evaluation.
        """
        nodes_in_order = [node for layer in self.schedule.layers for node in layer]
        self.executor.learn_types(self.memory, nodes_in_order)
        while True:
            schedule_counters = Counters(
                self.b, dict(initial), self._create_threshold_test(self.memory)
            )
            schedule_counters.begin_unit(EVALUATION)
            has_scheduler_pass = logical_not(
                self.b, self.schedule.evaluate_termination(schedule_counters)
            )
            loop_memory, pass_results = self._read_body(schedule_counters)
            if not loop_memory.find_body_outputs(self.executor.where):
                break
        loop = self._build_loop(loop_memory, has_scheduler_pass, pass_results)
        self.b.append(loop)
        self._store_results(loop_memory, loop)

    def _read_body(self, counters: Counters) -> tuple[LoopMemory, _PassResults]:
        """Convert one scheduler pass over the graph's nodes to the body of the loop over passes."""
        nodes_that_ran = [node for node in self.executor.nodes if self.memory.has_run(node) is True]
        loop_memory = LoopMemory(
            self.b.loop_body(),
            self.carried_types,
            lambda s: self._find_initial_value(s, counters),
            nodes_that_ran,
        )
        return loop_memory, self._read_pass(loop_memory)

    def _build_loop(self, inner: LoopMemory, is_started: Truth, results: _PassResults) -> Loop:
        """Build the `Loop` operation over scheduler passes.

        `is_started` is the condition for the first pass.
        """
        b, body_builder, executed_row = self.b, inner.b, results.executed_row
        return Loop(
            name=f"{self.executor.where} passes",
            trip_count=None,
            condition=to_value(b, is_started),
            iteration=results.iteration,
            condition_in=body_builder.new("bool", (), "go"),
            condition_out=results.has_next_pass,
            carried=inner.build_carried_values(b, lambda s: ".".join(filter(None, s[1:]))),
            recorded=(
                Recorded(
                    executed_row,
                    b.new("bool", ("passes", *(executed_row.shape or ())), "ran"),
                    "ran",
                ),
            ),
            ops=tuple(body_builder.ops),
            where=f"{self.executor.where}.conditions",
        )

    def _find_initial_value(self, state: State, counters: Counters) -> Value:
        """Return the value of a state before the first pass."""
        state_kind, node_id, _ = state
        if state_kind in ("flag", "count"):
            count_key = next(key for key in counters.counts if create_count_state(key) == state)
            initial_count = counters.counts[count_key]
            assert initial_count is not None
            return to_value(self.b, initial_count)
        has_run = self.memory.has_run(node_id)
        if state_kind == "ran":
            return to_value(self.b, has_run)
        dtype, shape = self.carried_types.type(state)
        if has_run is False:
            return create_placeholder(self.b, dtype, shape)
        return generalize(self.b, tensor(self.b, self.memory.get(state)), dtype, shape)

    def _store_results(self, inner: LoopMemory, loop: Loop) -> None:
        """Store the values after the last scheduler pass, and update the schedule's counters."""
        final_values = {
            state: carried_value.final
            for state, carried_value in zip(inner.carried_inputs, loop.carried, strict=True)
        }
        for state, final_value in final_values.items():
            if state[0] == "ran":
                self.memory.record_run(state[1], final_value)
            elif state[0] not in ("flag", "count"):
                self.memory.put(state, final_value)
        if self.schedule.runs_all_nodes:
            for node in self.executor.nodes:
                self.memory.record_run(node)
        final_counts: dict[CountKey, Number | Truth | None] = {
            count_key: final_values[create_count_state(count_key)]
            for count_key in self.schedule.count_keys
        }
        counters = Counters(self.b, final_counts, self._create_threshold_test(self.memory))
        self.schedule.end_evaluation(counters)
        for count_key in self.schedule.persistent_keys:
            final_count = counters.counts[count_key]
            assert final_count is not None
            self.memory.put(create_count_state(count_key), to_value(self.b, final_count))
        self.memory.put(EXECUTED_SETS, loop.recorded[0].stack)

    # --- one pass -------------------------------------------------------------------------------

    def _read_pass(self, memory: LoopMemory) -> _PassResults:
        """Convert one scheduler pass, which executes the nodes whose conditions hold, layer by layer."""
        b, schedule = memory.b, self.schedule
        iteration = b.new("int64", (), "pass")
        carried_counts: dict[CountKey, Number | Truth | None] = {
            count_key: memory.carry(create_count_state(count_key))
            for count_key in schedule.count_keys
        }
        counters = Counters(b, carried_counts, self._create_threshold_test(memory))
        for node in self.executor.nodes:
            memory.has_run(node)
            for state in self._find_carried_states(node, memory):
                memory.carry(state)
        counters.begin_unit(PASS)
        is_visited: Truth = True
        has_any_run: Truth = False
        layer_visits: list[tuple[Truth, dict[str, Truth]]] = []
        for k, layer in enumerate(schedule.layers):
            is_visited = schedule.evaluate_visit(k, counters, is_visited)
            run_flags = schedule.decide_runs(layer, counters, is_visited)
            for node in layer:
                with b.findings.catch():
                    self._execute(node, run_flags[node], memory)
            has_any_run = logical_or(
                b, has_any_run, schedule.end_visit(counters, run_flags, is_visited)
            )
            layer_visits.append((is_visited, run_flags))
        schedule.end_pass(counters, has_any_run)
        has_next_pass = self._limit_passes(
            b, logical_not(b, schedule.evaluate_termination(counters)), has_any_run, iteration
        )
        for count_key, final_count in counters.counts.items():
            assert final_count is not None
            memory.put(create_count_state(count_key), to_value(b, final_count))
        return _PassResults(iteration, has_next_pass, self._build_executed_row(b, layer_visits))

    def _limit_passes(
        self, b: ModelBuilder, has_next_pass: Truth, any_ran: Truth, iteration: Value
    ) -> Value:
        """Guard the condition for another scheduler pass so that endless repetition is an error."""
        schedule = self.schedule
        with b.at(f"{schedule.where}.conditions"):
            is_below_limit = b.op("Less", iteration, b.constant(np.array(MAX_PASSES - 1)))
            has_next_pass = self._guard_condition(
                b, has_next_pass, is_below_limit, schedule.pass_limit_error()
            )
            if schedule.can_resume:
                return has_next_pass
            return self._guard_condition(b, has_next_pass, any_ran, schedule.endless_error())

    def _guard_condition(
        self, b: ModelBuilder, has_next_pass: Truth, is_allowed: Truth, error: LoopError
    ) -> Value:
        """Guard the condition for another scheduler pass so that a forbidden pass is an error."""
        is_pass_permitted = to_value(b, logical_or(b, logical_not(b, has_next_pass), is_allowed))
        return guard_value(b, to_value(b, has_next_pass), is_pass_permitted, error.findings[0].what)

    def _build_executed_row(
        self, b: ModelBuilder, layer_visits: list[tuple[Truth, dict[str, Truth]]]
    ) -> Value:
        """Return one scheduler pass as a row of flags: layers visited, and nodes that ran.

        A layer is a set of nodes that the scheduler runs together.
        """
        executed_flags = [
            executed_flag
            for is_visited, run_flags in layer_visits
            for executed_flag in (is_visited, *run_flags.values())
        ]
        flag_rows = [
            b.op("Unsqueeze", to_value(b, executed_flag), ints(b, 0))
            for executed_flag in executed_flags
        ]
        return b.op("Concat", *flag_rows, axis=0)

    def _execute(self, node: str, runs: Truth, memory: LoopMemory) -> None:
        """Execute a node if the truth value `runs` is true, else keep the values of the node."""
        if runs is False:
            return
        if not isinstance(runs, Value):
            self.executor.execute(node, memory)
            return
        has_run = memory.has_run(node)
        new_values: dict[State, Value] = {}

        def read_executed_values(b: ModelBuilder) -> list[Value]:
            node_memory = Memory(b, memory)
            self.executor.execute(node, node_memory)
            while missing_states := [
                state
                for state in self._find_carried_states(node, memory)
                if state not in new_values
            ]:
                for state in missing_states:
                    new_values[state] = tensor(b, node_memory.get(state))
                    self.carried_types.widen(state, new_values[state])
            return [
                generalize(b, value, *self.carried_types.types_by_state[state])
                for state, value in new_values.items()
            ]

        def read_current_values(b: ModelBuilder) -> list[Value]:
            return [
                generalize(
                    b, tensor(b, memory.get(state)), *self.carried_types.types_by_state[state]
                )
                for state in new_values
            ]

        branch_names = BranchNames(
            (f"'{node}' running", "its last run"), lambda k: ".".join([*new_values][k][1:])
        )
        with memory.b.at(f"{self.executor.where}.nodes['{node}']"):
            selected_values = choose(
                memory.b,
                runs,
                read_executed_values,
                read_current_values,
                f"{node} runs",
                names=branch_names,
            )
        for state, selected_value in zip(new_values, selected_values, strict=True):
            memory.put(state, selected_value)
        memory.record_run(node, logical_or(memory.b, has_run, runs))

    def _find_carried_states(self, node: str, memory: LoopMemory) -> list[State]:
        """Return the states of a node that may be read later, such as outputs and old parameter values.

        Parameters with a time derivative are included, since later evaluations integrate from their values.
        """
        node_parameters = self.executor.nodes[node].parameters
        output_states = list_state_keys(self.executor.nodes[node])
        integrated_states = [
            ("parameter", node, parameter.id)
            for parameter in node_parameters
            if parameter.time_derivative is not None
        ]
        old_parameter_states = [
            state for state in memory.carried_inputs if state[0] == "parameter" and state[1] == node
        ]
        recorded_states = [state for state in self.recorded_states if state[1] == node]
        carried_states = dict.fromkeys(
            (*output_states, *recorded_states, *integrated_states, *old_parameter_states)
        )
        return [state for state in carried_states if state in self.carried_types.types_by_state]

    # --- Threshold conditions -------------------------------------------------------------------

    def _find_threshold_states(self, condition: ThresholdCondition) -> list[State]:
        """Return a list with the parameter, function or output that a Threshold condition tests.

        The first of these kinds that has the name is used.
        """
        node = self.executor.nodes[condition.node]
        for state_kind, node_parts in (
            ("parameter", node.parameters),
            ("function", node.functions),
            ("output", node.output_ports),
        ):
            if any(node_part.id == condition.item_id for node_part in node_parts):
                return [(state_kind, node.id, condition.item_id)]  # type: ignore[list-item]
        is_port = any(port.id == condition.item_id for port in node.input_ports)
        raise ConditionError(
            f"a Threshold on the input port '{condition.item_id}' never changes: the port is emptied "
            "when its node runs"
            if is_port
            else f"the node '{node.id}' has no parameter, function or output '{condition.item_id}'",
            condition.where,
            "compare an output port of the sender" if is_port else "",
        )

    def _create_threshold_test(self, memory: Memory) -> Callable[[ThresholdCondition], Truth]:
        """Return a function that evaluates a Threshold condition for the values in a `Memory`."""

        def test_threshold(condition: ThresholdCondition) -> Truth:
            (state,) = self._find_threshold_states(condition)
            has_run, b = memory.has_run(condition.node), memory.b
            with b.at(condition.where):
                initial_value = self._read_value_before_run(b, condition, state)
                known_number = b.constant_of(initial_value)
                if has_run is False and known_number is not None:
                    return _is_met(float(known_number), condition)
                if has_run is False:
                    return _compare_with_threshold(b, initial_value, condition)
                compared_value = _select_compared_element(
                    b, tensor(b, memory.get(state)), condition
                )
                return _compare_with_threshold(
                    b, tensor(b, select_term(b, has_run, compared_value, initial_value)), condition
                )

        return test_threshold

    def _read_value_before_run(
        self, b: ModelBuilder, condition: ThresholdCondition, state: State
    ) -> Value:
        """Return the value that a Threshold condition tests until the tested node has run."""
        if state[0] != "parameter":
            return b.constant(np.array(0.0))
        node = self.executor.nodes[condition.node]
        initial_expression = next(
            parameter.default_initial_value
            for parameter in node.parameters
            if parameter.id == condition.item_id
        )
        outer_scope = self.executor.context.outer_scope
        initial_value = (
            outer_scope.find(initial_expression)
            if outer_scope is not None and isinstance(initial_expression, str)
            else None
        )
        if initial_value is not None:  # the run sets the initial value
            return _select_compared_element(b, tensor(b, initial_value), condition)
        return b.constant(np.array(self._parse_initial_value(condition, initial_expression)))

    def _parse_initial_value(self, condition: ThresholdCondition, initial: Any) -> float:
        """Convert the default_initial_value that a Threshold condition tests to a number."""
        try:
            initial_number: Any = 0.0 if initial is None else initial
            for index in condition.indices if initial is not None else ():
                initial_number = initial_number[index]
            return float(initial_number)
        except (TypeError, ValueError, IndexError):
            raise ConditionError(
                f"the Threshold on '{condition.node}.{condition.item_id}' is looked at before the node has "
                f"run, and its default_initial_value {initial!r} is no number",
                condition.where,
                "write the initial value as a number, or as a list with 'indices'",
            ) from None


def _is_met(value: float, condition: ThresholdCondition) -> bool:
    """Return True if a constant number meets the threshold of a condition."""
    if condition.comparator in ("==", "!="):
        is_close = np.isclose(value, condition.threshold, atol=condition.atol, rtol=condition.rtol)
        return bool(is_close) == (condition.comparator == "==")
    return PYTHON_COMPARISONS[condition.comparator](value, condition.threshold)


def _select_compared_element(
    b: ModelBuilder, compared_value: Value, condition: ThresholdCondition
) -> Value:
    """Return the element of `compared_value` that a Threshold condition compares, as a float64 number."""
    for index in condition.indices:
        compared_value = b.op("Gather", compared_value, b.constant(np.array(index)), axis=0)
    compared_element = one_element(b, compared_value)
    if compared_element is None:
        raise ConditionError(
            f"a Threshold compares one number, but '{condition.node}.{condition.item_id}' is {compared_value.type}",
            hint="choose an element with 'indices'",
        )
    return cast(b, compared_element, "float64")


def _compare_with_threshold(b: ModelBuilder, value: Value, condition: ThresholdCondition) -> Value:
    """Append operations that compare a number with a threshold, and return the truth value."""
    threshold = b.constant(np.array(condition.threshold))
    if condition.comparator not in ("==", "!="):
        return b.op(ONNX_COMPARISONS[condition.comparator], value, threshold)
    is_close = b.op("Equal", value, threshold)
    tolerance = condition.atol + condition.rtol * abs(condition.threshold)
    if tolerance and np.isfinite(condition.threshold):
        distance = b.op("Abs", b.op("Sub", value, threshold))
        is_close = b.op(
            "Or", is_close, b.op("LessOrEqual", distance, b.constant(np.array(tolerance)))
        )
    return is_close if condition.comparator == "==" else b.op("Not", is_close)
