"""Table of all types of scheduler conditions, with the conversion and the text form of each type.

Source: modeci_mdf.execution_engine.EvaluableGraph.parse_condition (0.4.15), graph_scheduler 1.2.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from mdf_loop.document.parts import DocumentValue
from mdf_loop.errors import ConditionError, UnsupportedError
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.schedule import wording as say
from mdf_loop.reading.schedule.arguments import type_and_arguments
from mdf_loop.reading.schedule.conditions import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Compare,
    Condition,
    ConstantCondition,
    FirstTimes,
    JustRan,
    Not,
    TimeCount,
)
from mdf_loop.reading.schedule.wording import ConditionText
from mdf_loop.reading.schedule.written import (
    ENGINE_HINT,
    EXECUTION_SET,
    PASS,
    SEQUENCE,
    UPDATE,
    TimeConditionReader,
    WrittenCondition,
)

_SET_NOUN = "execution set"


def _create_sequence_converter(
    compare: Callable[[int | float], bool],
) -> Callable[[WrittenCondition], Condition]:
    """Return a converter for conditions on graph-scheduler's sequence number (always 0 in MDF)."""
    return lambda w: ConstantCondition(compare(w.read_number()))


class ConditionType(Struct, frozen=True):
    """Properties of a scheduler condition type: the conversion function and the text form."""

    reader: Callable[[WrittenCondition], Condition]
    text_format: ConditionText = say.as_call


def _create_refusing_reader(reason: str) -> Callable[[WrittenCondition], Condition]:
    """Return a converter that raises UnsupportedError for a condition that no program can express."""

    def read(w: WrittenCondition) -> Condition:
        raise UnsupportedError(
            f"the scheduler condition '{w.type}' cannot be compiled: it {reason}",
            w.where,
            ENGINE_HINT,
        )

    return read


_ASKS_IF_FINISHED = _create_refusing_reader(
    "asks nodes whether they are finished, which no part of an MDF node says; "
    "compare a value of the node with a Threshold"
)
_CALLS_PYTHON = ConditionType(_create_refusing_reader("calls Python code"))
_CHANGES_GRAPH = ConditionType(
    _create_refusing_reader("changes the order of the graph itself; use edges")
)

COMPILED_TYPES: dict[str, ConditionType] = {
    "Always": ConditionType(lambda w: ALWAYS, say.fixed("always")),
    "Never": ConditionType(lambda w: NEVER, say.fixed("never")),
    "All": ConditionType(lambda w: AllOf(w.read_all_inner()), say.joined("and")),
    "And": ConditionType(lambda w: AllOf(w.read_all_inner()), say.joined("and")),
    "Any": ConditionType(lambda w: AnyOf(w.read_all_inner()), say.joined("or")),
    "Or": ConditionType(lambda w: AnyOf(w.read_all_inner()), say.joined("or")),
    "Not": ConditionType(lambda w: Not(w.read_inner_argument()), say.opposite),
    "NWhen": ConditionType(
        lambda w: FirstTimes(w.read_inner_argument(), math.ceil(w.read_number(default=1)), w.where),
        say.first_times,
    ),
    "BeforeConsiderationSetExecution": ConditionType(
        lambda w: w.compare_time(EXECUTION_SET, "<"), say.at_number(f"before {_SET_NOUN}")
    ),
    "AtConsiderationSetExecution": ConditionType(
        lambda w: w.compare_time(EXECUTION_SET, "=="), say.at_number(f"at {_SET_NOUN}")
    ),
    "AfterConsiderationSetExecution": ConditionType(
        lambda w: w.compare_time(EXECUTION_SET, ">"), say.at_number(f"after {_SET_NOUN}")
    ),
    "AfterNConsiderationSetExecutions": ConditionType(
        lambda w: w.compare_time(EXECUTION_SET, ">="), say.after(_SET_NOUN)
    ),
    "BeforePass": ConditionType(lambda w: w.compare_time(PASS, "<"), say.at_number("before pass")),
    "AtPass": ConditionType(lambda w: w.compare_time(PASS, "=="), say.at_number("at pass")),
    "AfterPass": ConditionType(lambda w: w.compare_time(PASS, ">"), say.at_number("after pass")),
    "AfterNPasses": ConditionType(lambda w: w.compare_time(PASS, ">="), say.after("pass")),
    "EveryNPasses": ConditionType(lambda w: w.repeat_in_passes(), say.every_pass),
    "BeforeEnvironmentStateUpdate": ConditionType(
        lambda w: w.compare_time(UPDATE, "<"), say.at_number("before evaluation", say.SEQUENCE)
    ),
    "AtEnvironmentStateUpdate": ConditionType(
        lambda w: w.compare_time(UPDATE, "=="), say.at_number("in evaluation", say.SEQUENCE)
    ),
    "AfterEnvironmentStateUpdate": ConditionType(
        lambda w: w.compare_time(UPDATE, ">"), say.at_number("after evaluation", say.SEQUENCE)
    ),
    "AfterNEnvironmentStateUpdates": ConditionType(
        lambda w: w.compare_time(UPDATE, ">="), say.after("evaluation", say.SEQUENCE)
    ),
    "AtEnvironmentSequence": ConditionType(
        _create_sequence_converter(lambda n: n == 0), say.at_number("in sequence")
    ),
    "AfterEnvironmentSequence": ConditionType(
        _create_sequence_converter(lambda n: n < 0), say.at_number("after sequence")
    ),
    "AfterNEnvironmentSequences": ConditionType(
        _create_sequence_converter(lambda n: n <= 0), say.after("sequence")
    ),
    "BeforeNCalls": ConditionType(lambda w: w.compare_runs("<"), say.calls("before")),
    "AtNCalls": ConditionType(lambda w: w.compare_runs("=="), say.calls("at")),
    "AfterCall": ConditionType(lambda w: w.compare_runs(">"), say.calls("after more than")),
    "AfterNCalls": ConditionType(lambda w: w.compare_runs(">="), say.calls("after")),
    "AfterNCallsCombined": ConditionType(lambda w: w.compare_total_runs(), say.calls_together),
    "EveryNCalls": ConditionType(lambda w: w.compare_runs_since_owner(), say.every_call),
    "JustRan": ConditionType(lambda w: JustRan(w.read_node()), say.just_ran),
    "AllHaveRun": ConditionType(lambda w: w.require_runs(), say.all_have_run),
    "AtEnvironmentStateUpdateStart": ConditionType(
        lambda w: Compare((TimeCount(PASS),), "==", 0), say.fixed("at the start of each evaluation")
    ),
    "AtEnvironmentStateUpdateNStart": ConditionType(
        lambda w: AllOf((Compare((TimeCount(PASS),), "==", 0), w.compare_time(UPDATE, "=="))),
        say.at_number("at the start of evaluation", say.SEQUENCE),
    ),
    "AtEnvironmentSequenceStart": ConditionType(
        lambda w: w.compare_time(UPDATE, "==", 0), say.fixed("in evaluation 0")
    ),
    "AtEnvironmentSequenceNStart": ConditionType(
        lambda w: AllOf(
            (
                Compare((TimeCount(UPDATE, SEQUENCE),), "==", 0),
                ConstantCondition(w.read_number() == 0),
            )
        ),
        say.at_number("in evaluation 0 of sequence"),
    ),
    "Threshold": ConditionType(lambda w: w.compare_threshold(), say.threshold),
    "TimeInterval": ConditionType(lambda w: w.convert_absolute_time(), say.interval),
    "TimeTermination": ConditionType(lambda w: w.convert_absolute_time(), say.from_time),
}
"""Types of conditions that a program can express."""

REFUSED_TYPES: dict[str, ConditionType] = {
    "WhenFinished": ConditionType(_ASKS_IF_FINISHED, say.finished("and", "it")),
    "WhenFinishedAny": ConditionType(_ASKS_IF_FINISHED, say.finished("or", "any node")),
    "WhenFinishedAll": ConditionType(_ASKS_IF_FINISHED, say.finished("and", "all nodes")),
    **dict.fromkeys(("While", "WhileNot", "Condition", "AbsoluteCondition"), _CALLS_PYTHON),
    **dict.fromkeys(
        (
            *("BeforeNode", "BeforeNodes", "WithNode", "AfterNode", "AfterNodes"),
            *("AddEdgeTo", "RemoveEdgeFrom", "CustomGraphStructureCondition"),
        ),
        _CHANGES_GRAPH,
    ),
}
"""Types of conditions that no program can express."""

CONDITION_TYPES = {**COMPILED_TYPES, **REFUSED_TYPES}
"""All types of conditions that graph_scheduler has."""


def read_condition(
    written: DocumentValue,
    owner: str | None,
    where: str,
    nodes: Sequence[str],
    absolute: TimeConditionReader,
) -> Condition:
    """Convert a scheduler condition in the document to a `Condition` object.

    Raises:
        ConditionError: If an argument is missing or unknown.
        UnsupportedError: If no program can express conditions of this type.
    """
    condition_type, arguments = type_and_arguments(written)
    if condition_type is None:
        raise ConditionError(
            f"a condition is written as {{type: ..., kwargs: ...}}, not {written!r}", where
        )
    if condition_type not in CONDITION_TYPES:
        raise ConditionError(
            f"there is no scheduler condition '{condition_type}'",
            where,
            suggest(condition_type, COMPILED_TYPES),
        )
    written_condition = WrittenCondition(
        owner, where, nodes, absolute, read_condition, type=condition_type, arguments=arguments
    )
    typed_condition = CONDITION_TYPES[condition_type].reader(written_condition)
    written_condition.refuse_unread()
    return typed_condition


def describe_condition(written: DocumentValue) -> str:
    """Return a scheduler condition of the document as a short text, even if it cannot be compiled."""
    condition_type, arguments = type_and_arguments(written)
    phrase = say.ConditionPhrase(describe_condition, type=str(condition_type), arguments=arguments)
    return (
        CONDITION_TYPES[condition_type].text_format(phrase)
        if condition_type in CONDITION_TYPES
        else say.as_call(phrase)
    )


def is_condition_type(condition: DocumentValue, kind: str) -> bool:
    """Return True if a scheduler condition has this type and no arguments."""
    condition_type, arguments = type_and_arguments(condition)
    return condition_type == kind and not arguments
