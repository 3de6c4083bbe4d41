"""Schedule of a graph, with the execution order of the nodes if known at compile time.

An evaluation consists of passes. A pass visits the layers in order. A visit of a layer runs the nodes whose
conditions hold, together. The termination conditions are tested before every pass and every visit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from mdf_loop.document.parts import DocumentValue, Graph
from mdf_loop.errors import ConditionError, EndlessLoopError, Findings, UnknownNameError
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.schedule.absolute import create_clock
from mdf_loop.reading.schedule.arguments import scale_name
from mdf_loop.reading.schedule.conditions import (
    NEVER,
    AllOf,
    AnyOf,
    Compare,
    Condition,
    ConstantCondition,
    FirstTimes,
    JustRan,
    RunCount,
    RunsSinceReader,
    ThresholdCondition,
    TimeCount,
    TimeScale,
    find_counts,
    find_parts,
    iterate_parts,
)
from mdf_loop.reading.schedule.counters import Counters, CountKey, UnknownCount
from mdf_loop.reading.schedule.known import Truth, logical_and, logical_not, logical_or
from mdf_loop.reading.schedule.table import read_condition
from mdf_loop.reading.schedule.written import ENGINE_HINT

EVALUATION = TimeScale.ENVIRONMENT_STATE_UPDATE
PASS = TimeScale.PASS
EXECUTION_SET = TimeScale.CONSIDERATION_SET_EXECUTION

MAX_PASSES = 100_000
"""Maximum number of passes of one evaluation. A longer evaluation is reported as endless."""

NodeSets = tuple[tuple[str, ...], ...]
"""Sets of nodes that run together, in order. A set is empty if no node could run."""


class Schedule(Struct, frozen=True):
    """Schedule of a graph: layers of nodes, node conditions, and termination conditions."""

    layers: NodeSets
    conditions: Mapping[str, Condition]
    evaluation_end: Condition  # ends an evaluation
    sequence_end: Condition  # ends all evaluations, and with them the current one
    has_absolute_time: bool  # True if the graph has conditions on absolute time
    has_only_defaults: bool  # True if the graph has only default conditions
    where: str

    @property
    def termination(self) -> Condition:
        """Condition that ends an evaluation of the graph."""
        return (
            self.evaluation_end
            if self.sequence_end == NEVER
            else AnyOf((self.evaluation_end, self.sequence_end))
        )

    @property
    def all_conditions(self) -> tuple[Condition, ...]:
        """Conditions of all nodes, and termination conditions of the graph."""
        return (*self.conditions.values(), self.termination)

    @property
    def count_keys(self) -> tuple[CountKey, ...]:
        """Keys of the counters and flags that the conditions of the schedule read."""
        comparison_counts = (
            count for condition in self.all_conditions for count in find_counts(condition)
        )
        count_keys = (*comparison_counts, *find_parts(self.all_conditions, FirstTimes))
        return tuple(dict.fromkeys((*count_keys, *find_parts(self.all_conditions, JustRan))))

    @property
    def persistent_keys(self) -> tuple[CountKey, ...]:
        """Keys of the counters and flags that keep their values in the next evaluation."""
        return tuple(
            count_key
            for count_key in self.count_keys
            if isinstance(count_key, FirstTimes | JustRan) or count_key.persists
        )

    @property
    def threshold_conditions(self) -> tuple[ThresholdCondition, ...]:
        """Threshold conditions (comparisons of node values with numbers) of the schedule."""
        return find_parts(self.all_conditions, ThresholdCondition)

    @property
    def can_resume(self) -> bool:
        """True if nodes may run in a pass after a pass in which no node ran."""
        return self.has_absolute_time or any(map(_can_change_without_runs, self.count_keys))

    @property
    def runs_all_nodes(self) -> bool:
        """True if every node must have run before an evaluation ends."""
        return self.termination == _require_all_runs(self.conditions)

    # --- one pass -------------------------------------------------------------------------------

    def evaluate_termination(self, counters: Counters, is_needed: Truth = True) -> Truth:
        """Return the truth value of the condition that ends an evaluation.

        `is_needed` tells whether the scheduler evaluates the condition.
        """
        return counters.evaluate(self.termination, is_needed)

    def evaluate_visit(self, layer: int, counters: Counters, visited: Truth) -> Truth:
        """Return whether a scheduler pass processes a layer (nodes that may run together).

        `visited` tells whether the pass visited the layer before.
        """
        if layer == 0 and not any(map(_can_change_between_passes, self._ending_keys)):
            return visited  # the end of the last pass has tested the same condition
        return logical_and(
            counters.b,
            visited,
            logical_not(counters.b, self.evaluate_termination(counters, visited)),
        )

    @property
    def _ending_keys(self) -> tuple[CountKey, ...]:
        """Keys of the counters and flags that the termination condition of an evaluation reads."""
        ending_conditions = (self.termination,)
        return (*find_counts(self.termination), *find_parts(ending_conditions, FirstTimes))

    def decide_runs(
        self, layer: Sequence[str], counters: Counters, visited: Truth
    ) -> dict[str, Truth]:
        """Decide for each node of a layer whether the node runs, and increment the run counters.

        `visited` tells whether the layer is visited.
        """
        b = counters.b
        run_flags: dict[str, Truth] = dict.fromkeys(layer, False)
        is_needed: Truth = visited
        for _ in range(self._count_tests(layer)):
            has_any_started: Truth = False
            for node in layer:
                is_waiting = logical_and(b, is_needed, logical_not(b, run_flags[node]))
                if is_waiting is False:
                    continue
                is_started = logical_and(
                    b, is_waiting, counters.evaluate(self.conditions[node], is_waiting)
                )
                counters.count_run(node, is_started)
                run_flags[node] = logical_or(b, run_flags[node], is_started)
                has_any_started = logical_or(b, has_any_started, is_started)
            is_needed = has_any_started
            if is_needed is False:
                break
        return run_flags

    def _count_tests(self, layer: Sequence[str]) -> int:
        """Return how often each node's condition is tested at most while a layer is processed.

        A node that runs may enable another node.
        """
        has_dependent_conditions = any(
            isinstance(inner_condition, FirstTimes)
            or _counts_runs_in_layer(inner_condition, layer, node)
            for node in layer
            for inner_condition in iterate_parts(self.conditions[node])
        )
        return len(layer) + 1 if has_dependent_conditions else 1

    def end_visit(self, counters: Counters, runs: Mapping[str, Truth], visited: Truth) -> Truth:
        """Update the counters after a layer is processed, and return whether any node ran."""
        b = counters.b
        has_any_run: Truth = False
        for node in runs:
            has_any_run = logical_or(b, has_any_run, runs[node])
        is_set_counted = visited if self.has_absolute_time else has_any_run
        counters.record_set(runs, is_set_counted)
        counters.count_unit(EXECUTION_SET, is_set_counted)
        return has_any_run

    def end_pass(self, counters: Counters, any_ran: Truth) -> None:
        """Update the counters of the schedule at the end of a scheduler pass.

        `any_ran` tells whether any node has run in the pass.
        """
        if not self.has_absolute_time:
            is_pass_empty = logical_not(counters.b, any_ran)
            counters.record_set({}, is_pass_empty)
            counters.count_unit(EXECUTION_SET, is_pass_empty)
        counters.count_unit(PASS, True)

    def end_evaluation(self, counters: Counters) -> None:
        """Update the counters of the schedule at the end of an evaluation.

        The condition that ends all evaluations is tested once more.
        """
        counters.count_unit(EVALUATION, True)
        if find_parts((self.sequence_end,), FirstTimes):
            counters.evaluate(self.sequence_end)

    # --- one evaluation that is known while the model is read ------------------------------------

    def plan(self, counters: Counters, max_executions: int) -> tuple[NodeSets, ...] | None:
        """Return the sets of nodes that run together in each scheduler pass of one evaluation.

        Return None if they are unknown while the model is read, or more than `max_executions`.

        The counters are changed as by the evaluation.
        """
        if self.has_only_defaults:
            return (self.layers,)
        planned_passes: list[NodeSets] = []
        execution_count = 0
        try:
            counters.begin_unit(EVALUATION)
            for _ in range(MAX_PASSES):
                counts_before_pass = dict(counters.counts)
                if self.evaluate_termination(counters):
                    self.end_evaluation(counters)
                    return tuple(planned_passes)
                node_sets = self._plan_pass(counters)
                planned_passes.append(node_sets)
                execution_count += sum(map(len, node_sets))
                if execution_count > max_executions:
                    return None
                if not any(node_sets) and counts_before_pass == counters.counts:
                    raise self.endless_error()
        except UnknownCount:
            return None
        raise self.pass_limit_error()

    def _plan_pass(self, counters: Counters) -> NodeSets:
        """Return the sets of nodes that run together in one scheduler pass, in order."""
        node_sets: list[tuple[str, ...]] = []
        counters.begin_unit(PASS)
        for k, layer in enumerate(self.layers):
            if not self.evaluate_visit(k, counters, True):
                break
            run_flags = self.decide_runs(layer, counters, True)
            node_set = tuple(node for node in layer if run_flags[node])
            if node_set or self.has_absolute_time:
                node_sets.append(node_set)
            self.end_visit(counters, run_flags, True)
        self.end_pass(counters, any(node_sets))
        return tuple(node_sets) if node_sets or self.has_absolute_time else ((),)

    def endless_error(self) -> EndlessLoopError:
        """Return the error for an evaluation that never ends because no counter can change."""
        return self._build_endless_error(
            "no node can run any more, and the termination condition does not hold"
        )

    def pass_limit_error(self) -> EndlessLoopError:
        """Return the error for an evaluation with more than `MAX_PASSES` passes."""
        return self._build_endless_error(f"it is not over after {MAX_PASSES} passes")

    def _build_endless_error(self, reason: str) -> EndlessLoopError:
        """Return the error for an evaluation that never ends, with a reason."""
        return EndlessLoopError(
            f"an evaluation of the graph never ends: {reason}",
            f"{self.where}.conditions",
            "change the condition of a node, or add a termination condition for "
            "environment_state_update",
        )


def _can_change_without_runs(key: CountKey) -> bool:
    """Return True if a counter may change in a pass in which no node runs."""
    return isinstance(key, TimeCount | JustRan) or _can_change_between_passes(key)


def _can_change_between_passes(key: CountKey) -> bool:
    """Return True if a counter may change between the end of a pass and the start of the next pass."""
    return isinstance(key, FirstTimes) or (isinstance(key, RunCount) and key.scale <= PASS)


def _counts_runs_in_layer(part: Condition, layer: Sequence[str], owner: str) -> bool:
    """Return True if a node's condition counts the runs of another node of the same layer."""
    compared_counts = part.counts if isinstance(part, Compare) else ()
    run_counts = (
        count for count in compared_counts if isinstance(count, RunCount | RunsSinceReader)
    )
    return any(count.node in layer and count.node != owner for count in run_counts)


# --- reading ----------------------------------------------------------------------------------


def read_schedule(
    graph: Graph, layers: NodeSets, required_senders: Mapping[str, Iterable[str]], where: str
) -> Schedule:
    """Build the schedule of a graph from its conditions and edges.

    `required_senders` has, for each node, the senders that must run before it.

    Raises:
        LoopError: If a condition is wrong, or cannot be compiled.
    """
    node_ids = tuple(node.id for node in graph.nodes)
    conditions_path = f"{where}.conditions"
    node_conditions, termination_conditions = graph.node_conditions, graph.termination_conditions
    conditions_with_paths = [
        (condition, f"{conditions_path}.node_specific['{node}']")
        for node, condition in node_conditions.items()
    ]
    conditions_with_paths += [
        (condition, f"{conditions_path}.termination['{time_scale}']")
        for time_scale, condition in termination_conditions.items()
    ]
    clock = create_clock(conditions_with_paths, layers)
    condition_by_node = {
        node: _create_default_condition(node, required_senders[node]) for node in node_ids
    }
    findings = Findings()
    for node, condition in node_conditions.items():
        condition_path = f"{conditions_path}.node_specific['{node}']"
        with findings.catch():
            if node not in node_ids:
                raise UnknownNameError(
                    f"a condition governs '{node}', which is not a node of the graph",
                    condition_path,
                    suggest(node, node_ids),
                )
            condition_by_node[node] = read_condition(
                condition, node, condition_path, node_ids, clock.convert
            )
    conditions_by_scale: dict[str, Condition] = {}
    for time_scale, condition in termination_conditions.items():
        condition_path = f"{conditions_path}.termination['{time_scale}']"
        with findings.catch():
            ended_scale_name = _parse_termination_scale(time_scale, condition_path)
            conditions_by_scale[ended_scale_name] = read_condition(
                condition, None, condition_path, node_ids, clock.convert
            )
    findings.raise_any()
    evaluation_end_condition = conditions_by_scale.get(
        "ENVIRONMENT_STATE_UPDATE", _require_all_runs(node_ids)
    )
    sequence_end_condition = conditions_by_scale.get("ENVIRONMENT_SEQUENCE", NEVER)
    return Schedule(
        layers,
        condition_by_node,
        evaluation_end_condition,
        sequence_end_condition,
        clock.is_used,
        not conditions_with_paths,
        where,
    )


def _create_default_condition(node: str, senders: Iterable[str]) -> Condition:
    """Return the default condition of a node: every sender has run since the node ran last."""
    sender_conditions = tuple(
        Compare((RunsSinceReader(sender, node),), ">=", 1) for sender in senders
    )
    return AllOf(sender_conditions) if sender_conditions else ConstantCondition(True)


def _require_all_runs(nodes: Iterable[str]) -> Condition:
    """Return the condition that each of the nodes has run in the current evaluation."""
    return AllOf(tuple(Compare((RunCount(node),), ">=", 1) for node in nodes))


def _parse_termination_scale(scale: DocumentValue, where: str) -> str:
    """Return graph-scheduler's name of the time scale that a termination condition ends."""
    ended_scale_name = scale_name(scale)
    if ended_scale_name not in ("ENVIRONMENT_STATE_UPDATE", "ENVIRONMENT_SEQUENCE"):
        raise ConditionError(
            f"a termination condition for '{scale}' ends nothing",
            where,
            "write it for environment_state_update (one evaluation) or environment_sequence; "
            + ENGINE_HINT,
        )
    return ended_scale_name
