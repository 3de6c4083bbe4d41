"""Descriptions of the scheduler's conditions for nodes and for the end of an evaluation."""

from __future__ import annotations

from mdf_loop.document.parts import Graph
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


def node_conditions(graph: Graph) -> dict[str, str]:
    """Describe in words the scheduler condition of each node whose condition has an effect.

    `Always` has an effect on a node that would otherwise wait for another node.
    """
    required_senders = find_required_senders(graph, usable_edges(graph))
    condition_texts = {
        str(node_id(node)): describe_condition(condition)
        for node, condition in graph.node_conditions.items()
    }
    return {
        node: "in every pass" if condition_text == "always" else condition_text
        for node, condition_text in condition_texts.items()
        if condition_text != "always" or required_senders.get(node)
    }


def termination_texts(graph: Graph) -> tuple[str, ...]:
    """Describe when evaluations and runs end, such as `each evaluation ends after 2 calls of C`."""
    termination_descriptions = []
    for scale_key, condition in graph.termination_conditions.items():
        time_scale = scale_name(scale_key)
        time_scale_name = _TIME_SCALE_NAMES.get(time_scale, time_scale.replace("_", " ").lower())
        if not is_condition_type(condition, _DEFAULT_TERMINATIONS.get(time_scale_name, "")):
            termination_descriptions.append(
                f"each {time_scale_name} ends {describe_condition(condition)}"
            )
    return tuple(termination_descriptions)
