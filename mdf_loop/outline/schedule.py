"""Scheduler conditions of nodes and of the end of an evaluation, in words."""

from __future__ import annotations

from typing import Any

from mdf_loop.outline.cycles import usable_edges
from mdf_loop.reading.graph import find_required_senders
from mdf_loop.reading.schedule.arguments import node_id, scale_name
from mdf_loop.reading.schedule.table import describe_condition, is_condition_type

_TIME_SCALE_NAMES = {
    "ENVIRONMENT_STATE_UPDATE": "evaluation",
    "TRIAL": "evaluation",
    "ENVIRONMENT_SEQUENCE": "sequence of evaluations",
    "RUN": "sequence of evaluations",
}
"""Name of each time scale in texts."""

_DEFAULT_TERMINATIONS = {"evaluation": "AllHaveRun", "sequence of evaluations": "Never"}
"""Default termination condition of each time scale."""


def node_conditions(graph: Any) -> dict[str, str]:
    """Describe the scheduler condition of each node in words, if the condition has an effect.

    `Always` has an effect on a node that would otherwise wait for another node.
    """
    written_conditions = getattr(graph.conditions, "node_specific", None) or {}
    senders_before = find_required_senders(graph, usable_edges(graph))
    texts = {
        str(node_id(node)): describe_condition(condition)
        for node, condition in written_conditions.items()
    }
    return {
        node: "in every pass" if text == "always" else text
        for node, text in texts.items()
        if text != "always" or senders_before.get(node)
    }


def termination_texts(graph: Any) -> tuple[str, ...]:
    """Describe when evaluations and runs end, such as `each evaluation ends after 2 calls of C`."""
    written_conditions = getattr(graph.conditions, "termination", None) or {}
    texts = []
    for scale_key, condition in written_conditions.items():
        scale = scale_name(scale_key)
        name = _TIME_SCALE_NAMES.get(scale, scale.replace("_", " ").lower())
        if not is_condition_type(condition, _DEFAULT_TERMINATIONS.get(name, "")):
            texts.append(f"each {name} ends {describe_condition(condition)}")
    return tuple(texts)
