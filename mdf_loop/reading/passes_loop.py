"""Evaluation whose schedule is decided during the run: a loop over passes.

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
from mdf_loop.reading.execution import Executor, list_states
from mdf_loop.reading.memory import (
    LoopMemory,
    Memory,
    State,
    create_placeholder,
    generalize,
    select_term,
)
from mdf_loop.reading.schedule.conditions import JustRan, ThresholdCondition
from mdf_loop.reading.schedule.counters import Counters, Key
from mdf_loop.reading.schedule.known import (
    ONNX_SIGNS,
    PYTHON_SIGNS,
    Number,
    Truth,
    logical_not,
    logical_or,
    to_value,
)
from mdf_loop.reading.schedule.plan import EVALUATION, MAX_PASSES, PASS, Schedule

EXECUTED_SETS: State = ("count", "", "sets")
"""State with the nodes that ran: for each pass and layer, a flag for its visit, then one flag per node."""


def create_count_state(key: Key) -> State:
    """Return the state for a count of the schedule."""
    return ("flag" if isinstance(key, JustRan) else "count", "", str(key))


class _PassResults(Struct, frozen=True):
    """Results of reading one pass: its number, the condition for a further pass, and the row of executed nodes."""

    iteration: Value
    has_next_pass: Value
    executed_row: Value


class PassesLoop:
    """Reader of the loop over the passes of one evaluation, which stores the results in a memory."""

    def __init__(
        self, executor: Executor, schedule: Schedule, memory: Memory, recorded: Iterable[State]
    ) -> None:
        self.executor = executor
        self.schedule = schedule
        self.memory = memory
        self.b = memory.b
        threshold_states = [
            s
            for reaches in schedule.threshold_conditions
            for s in self._find_threshold_states(reaches)
        ]
        self.recorded = [*dict.fromkeys((*recorded, *threshold_states))]
        self.types = memory.types

    # --- the loop -------------------------------------------------------------------------------

    def read(self, initial: dict[Key, Number | Truth]) -> None:
        """Append the loop over passes. `initial` are the schedule's counts before the evaluation."""
        order = [node for layer in self.schedule.layers for node in layer]
        self.executor.learn_types(self.memory, order)
        while True:
            counters = Counters(self.b, dict(initial), self._create_threshold_test(self.memory))
            counters.begin_unit(EVALUATION)
            is_started = logical_not(self.b, self.schedule.evaluate_termination(counters))
            inner, results = self._read_body(counters)
            if not inner.find_leaving_values(self.executor.where):
                break
        loop = self._build_loop(inner, is_started, results)
        self.b.append(loop)
        self._store_results(inner, loop)

    def _read_body(self, counters: Counters) -> tuple[LoopMemory, _PassResults]:
        """Read one pass into a loop body. Its carried values start from the values in the memory."""
        nodes_that_ran = [node for node in self.executor.nodes if self.memory.ran(node) is True]
        inner = LoopMemory(
            self.b.loop_body(),
            self.types,
            lambda s: self._find_initial_value(s, counters),
            nodes_that_ran,
        )
        return inner, self._read_pass(inner)

    def _build_loop(self, inner: LoopMemory, is_started: Truth, results: _PassResults) -> Loop:
        """Build the `Loop` operation over passes. `is_started` is the condition for the first pass."""
        b, body, row = self.b, inner.b, results.executed_row
        return Loop(
            name=f"{self.executor.where} passes",
            trip_count=None,
            condition=to_value(b, is_started),
            iteration=results.iteration,
            condition_in=body.new("bool", (), "go"),
            condition_out=results.has_next_pass,
            carried=inner.carried(b, lambda s: ".".join(filter(None, s[1:]))),
            recorded=(Recorded(row, b.new("bool", ("passes", *(row.shape or ())), "ran"), "ran"),),
            ops=tuple(body.ops),
            where=f"{self.executor.where}.conditions",
        )

    def _find_initial_value(self, state: State, counters: Counters) -> Value:
        """Return the initial value of a state in the loop."""
        kind, node, _ = state
        if kind in ("flag", "count"):
            key = next(key for key in counters.counts if create_count_state(key) == state)
            count = counters.counts[key]
            assert count is not None
            return to_value(self.b, count)
        has_run = self.memory.ran(node)
        if kind == "ran":
            return to_value(self.b, has_run)
        dtype, shape = self.types.type(state)
        if has_run is False:
            return create_placeholder(self.b, dtype, shape)
        return generalize(self.b, tensor(self.b, self.memory.get(state)), dtype, shape)

    def _store_results(self, inner: LoopMemory, loop: Loop) -> None:
        """Store the final values of the loop in the memory, and count the evaluation."""
        finals = {s: c.final for s, c in zip(inner.enters, loop.carried, strict=True)}
        for state, final in finals.items():
            if state[0] == "ran":
                self.memory.record_run(state[1], final)
            elif state[0] not in ("flag", "count"):
                self.memory.put(state, final)
        if self.schedule.runs_all_nodes:
            for node in self.executor.nodes:
                self.memory.record_run(node)
        final_counts: dict[Key, Number | Truth | None] = {
            key: finals[create_count_state(key)] for key in self.schedule.count_keys
        }
        counters = Counters(self.b, final_counts, self._create_threshold_test(self.memory))
        self.schedule.end_evaluation(counters)
        for key in self.schedule.persistent_keys:
            count = counters.counts[key]
            assert count is not None
            self.memory.put(create_count_state(key), to_value(self.b, count))
        self.memory.put(EXECUTED_SETS, loop.recorded[0].stack)

    # --- one pass -------------------------------------------------------------------------------

    def _read_pass(self, memory: LoopMemory) -> _PassResults:
        """Read one pass: visit the layers in order and execute the nodes whose conditions hold."""
        b, schedule = memory.b, self.schedule
        iteration = b.new("int64", (), "pass")
        counts: dict[Key, Number | Truth | None] = {
            key: memory.carry(create_count_state(key)) for key in schedule.count_keys
        }
        counters = Counters(b, counts, self._create_threshold_test(memory))
        for node in self.executor.nodes:
            memory.ran(node)
            for state in self._find_carried_states(node, memory):
                memory.carry(state)
        counters.begin_unit(PASS)
        visited: Truth = True
        any_ran: Truth = False
        visits: list[tuple[Truth, dict[str, Truth]]] = []
        for k, layer in enumerate(schedule.layers):
            visited = schedule.evaluate_visit(k, counters, visited)
            runs = schedule.decide_runs(layer, counters, visited)
            for node in layer:
                with b.findings.catch():
                    self._execute(node, runs[node], memory)
            any_ran = logical_or(b, any_ran, schedule.end_visit(counters, runs, visited))
            visits.append((visited, runs))
        schedule.end_pass(counters, any_ran)
        go_on = self._limit_passes(
            b, logical_not(b, schedule.evaluate_termination(counters)), any_ran, iteration
        )
        for key, count in counters.counts.items():
            assert count is not None
            memory.put(create_count_state(key), to_value(b, count))
        return _PassResults(iteration, go_on, self._build_executed_row(b, visits))

    def _limit_passes(
        self, b: ModelBuilder, go_on: Truth, any_ran: Truth, iteration: Value
    ) -> Value:
        """Return the condition for a further pass. A run fails if the passes would never end."""
        schedule = self.schedule
        with b.at(f"{schedule.where}.conditions"):
            limit = b.op("Less", iteration, b.constant(np.array(MAX_PASSES - 1)))
            go_on = self._guard_condition(b, go_on, limit, schedule.pass_limit_error())
            if schedule.can_resume:
                return go_on
            return self._guard_condition(b, go_on, any_ran, schedule.endless_error())

    def _guard_condition(
        self, b: ModelBuilder, go_on: Truth, is_allowed: Truth, error: LoopError
    ) -> Value:
        """Guard the condition `go_on`: a run fails if `go_on` is true and `is_allowed` is false."""
        holds = to_value(b, logical_or(b, logical_not(b, go_on), is_allowed))
        return guard_value(b, to_value(b, go_on), holds, error.findings[0].what)

    def _build_executed_row(
        self, b: ModelBuilder, visits: list[tuple[Truth, dict[str, Truth]]]
    ) -> Value:
        """Return one flag per layer for its visit, each followed by one flag per node that tells if the node ran."""
        flags = [flag for visited, runs in visits for flag in (visited, *runs.values())]
        single = [b.op("Unsqueeze", to_value(b, flag), ints(b, 0)) for flag in flags]
        return b.op("Concat", *single, axis=0)

    def _execute(self, node: str, runs: Truth, memory: LoopMemory) -> None:
        """Execute a node if `runs` is true. Otherwise the node keeps its values."""
        if runs is False:
            return
        if not isinstance(runs, Value):
            self.executor.execute(node, memory)
            return
        has_run = memory.ran(node)
        new_values: dict[State, Value] = {}

        def executed(b: ModelBuilder) -> list[Value]:
            node_memory = Memory(b, memory)
            self.executor.execute(node, node_memory)
            while missing := [
                state
                for state in self._find_carried_states(node, memory)
                if state not in new_values
            ]:
                for state in missing:
                    new_values[state] = tensor(b, node_memory.get(state))
                    self.types.widen(state, new_values[state])
            return [
                generalize(b, value, *self.types.types_by_state[state])
                for state, value in new_values.items()
            ]

        def held(b: ModelBuilder) -> list[Value]:
            return [
                generalize(b, tensor(b, memory.get(s)), *self.types.types_by_state[s])
                for s in new_values
            ]

        branch_names = BranchNames(
            (f"'{node}' running", "its last run"), lambda k: ".".join([*new_values][k][1:])
        )
        with memory.b.at(f"{self.executor.where}.nodes['{node}']"):
            results = choose(memory.b, runs, executed, held, f"{node} runs", names=branch_names)
        for state, result in zip(new_values, results, strict=True):
            memory.put(state, result)
        memory.record_run(node, logical_or(memory.b, has_run, runs))

    def _find_carried_states(self, node: str, memory: LoopMemory) -> list[State]:
        """Return the states of a node that other parts may read: outputs, recorded values and old parameters.

        Parameters with a time derivative are included, since later evaluations integrate from their values.
        """
        parameters = self.executor.nodes[node].parameters
        outputs = list_states(self.executor.nodes[node])
        integrated_parameters = [
            ("parameter", node, p.id) for p in parameters if p.time_derivative is not None
        ]
        old_parameters = [s for s in memory.enters if s[0] == "parameter" and s[1] == node]
        recorded = [s for s in self.recorded if s[1] == node]
        states = dict.fromkeys((*outputs, *recorded, *integrated_parameters, *old_parameters))
        return [state for state in states if state in self.types.types_by_state]

    # --- Threshold conditions -------------------------------------------------------------------

    def _find_threshold_states(self, reaches: ThresholdCondition) -> list[State]:
        """Return the state that a Threshold refers to: a parameter, function or output, in this order."""
        node = self.executor.nodes[reaches.node]
        for kind, items in (
            ("parameter", node.parameters),
            ("function", node.functions),
            ("output", node.output_ports),
        ):
            if any(item.id == reaches.item for item in items):
                return [(kind, node.id, reaches.item)]  # type: ignore[list-item]
        is_port = any(port.id == reaches.item for port in node.input_ports)
        raise ConditionError(
            f"a Threshold on the input port '{reaches.item}' never changes: the port is emptied "
            "when its node runs"
            if is_port
            else f"the node '{node.id}' has no parameter, function or output '{reaches.item}'",
            reaches.where,
            "compare an output port of the sender" if is_port else "",
        )

    def _create_threshold_test(self, memory: Memory) -> Callable[[ThresholdCondition], Truth]:
        """Return a function that compares values of nodes in a memory with the thresholds of conditions."""

        def look(reaches: ThresholdCondition) -> Truth:
            (state,) = self._find_threshold_states(reaches)
            has_run, b = memory.ran(reaches.node), memory.b
            with b.at(reaches.where):
                initial_value = self._read_value_before_run(b, reaches, state)
                constant = b.constant_of(initial_value)
                if has_run is False and constant is not None:
                    return _is_met(float(constant), reaches)
                if has_run is False:
                    return _compare_with_threshold(b, initial_value, reaches)
                value = _select_compared_element(b, tensor(b, memory.get(state)), reaches)
                return _compare_with_threshold(
                    b, tensor(b, select_term(b, has_run, value, initial_value)), reaches
                )

        return look

    def _read_value_before_run(
        self, b: ModelBuilder, reaches: ThresholdCondition, state: State
    ) -> Value:
        """Return the value for a Threshold on a node that has not run: its initial value, or 0."""
        if state[0] != "parameter":
            return b.constant(np.array(0.0))
        node = self.executor.nodes[reaches.node]
        initial = next(p.default_initial_value for p in node.parameters if p.id == reaches.item)
        outer = self.executor.context.outer_scope
        initial_value = (
            outer.find(initial) if outer is not None and isinstance(initial, str) else None
        )
        if initial_value is not None:  # the run sets the initial value
            return _select_compared_element(b, tensor(b, initial_value), reaches)
        return b.constant(np.array(self._parse_initial_value(reaches, initial)))

    def _parse_initial_value(self, reaches: ThresholdCondition, initial: Any) -> float:
        """Return the default_initial_value that a Threshold tests, as a number."""
        try:
            value: Any = 0.0 if initial is None else initial
            for index in reaches.indices if initial is not None else ():
                value = value[index]
            return float(value)
        except (TypeError, ValueError, IndexError):
            raise ConditionError(
                f"the Threshold on '{reaches.node}.{reaches.item}' is looked at before the node has "
                f"run, and its default_initial_value {initial!r} is no number",
                reaches.where,
                "write the initial value as a number, or as a list with 'indices'",
            ) from None


def _is_met(value: float, reaches: ThresholdCondition) -> bool:
    """Return True if a number that is known while the model is read meets a threshold."""
    if reaches.comparator in ("==", "!="):
        is_close = np.isclose(value, reaches.threshold, atol=reaches.atol, rtol=reaches.rtol)
        return bool(is_close) == (reaches.comparator == "==")
    return PYTHON_SIGNS[reaches.comparator](value, reaches.threshold)


def _select_compared_element(b: ModelBuilder, value: Value, reaches: ThresholdCondition) -> Value:
    """Return the element that a Threshold refers to, as a float64 number."""
    for index in reaches.indices:
        value = b.op("Gather", value, b.constant(np.array(index)), axis=0)
    element = one_element(b, value)
    if element is None:
        raise ConditionError(
            f"a Threshold compares one number, but '{reaches.node}.{reaches.item}' is {value.type}",
            hint="choose an element with 'indices'",
        )
    return cast(b, element, "float64")


def _compare_with_threshold(b: ModelBuilder, value: Value, reaches: ThresholdCondition) -> Value:
    """Append operations that compare a number with a threshold, and return the truth value."""
    limit = b.constant(np.array(reaches.threshold))
    if reaches.comparator not in ("==", "!="):
        return b.op(ONNX_SIGNS[reaches.comparator], value, limit)
    is_close = b.op("Equal", value, limit)
    tolerance = reaches.atol + reaches.rtol * abs(reaches.threshold)
    if tolerance and np.isfinite(reaches.threshold):
        distance = b.op("Abs", b.op("Sub", value, limit))
        is_close = b.op(
            "Or", is_close, b.op("LessOrEqual", distance, b.constant(np.array(tolerance)))
        )
    return is_close if reaches.comparator == "==" else b.op("Not", is_close)
