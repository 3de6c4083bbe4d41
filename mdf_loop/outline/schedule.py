"""When the scheduler lets the nodes of a graph run, and when an evaluation ends, as words."""

from __future__ import annotations

from typing import Any

from mdf_loop.outline.cycles import usable_edges
from mdf_loop.reading.graph import waiting_for
from mdf_loop.reading.schedule.arguments import node_id, scale_name
from mdf_loop.reading.schedule.table import condition_text, is_kind

_SCALES = {
    "ENVIRONMENT_STATE_UPDATE": "evaluation",
    "TRIAL": "evaluation",
    "ENVIRONMENT_SEQUENCE": "sequence of evaluations",
    "RUN": "sequence of evaluations",
}

_DEFAULTS = {"evaluation": "AllHaveRun", "sequence of evaluations": "Never"}
"""How each time scale ends if nothing is said."""


def node_conditions(graph: Any) -> dict[str, str]:
    """When each node runs, as words; conditions that say nothing new are left out.

    `Always` says something new of a node that would else wait for another one.
    """
    given = getattr(graph.conditions, "node_specific", None) or {}
    waits = waiting_for(graph, usable_edges(graph))
    texts = {str(node_id(node)): condition_text(condition) for node, condition in given.items()}
    return {
        node: "in every pass" if text == "always" else text
        for node, text in texts.items()
        if text != "always" or waits.get(node)
    }


def termination_texts(graph: Any) -> tuple[str, ...]:
    """When each time scale ends: `each evaluation ends after 2 calls of C`."""
    given = getattr(graph.conditions, "termination", None) or {}
    said = []
    for key, condition in given.items():
        scale = scale_name(key)
        name = _SCALES.get(scale, scale.replace("_", " ").lower())
        if not is_kind(condition, _DEFAULTS.get(name, "")):
            said.append(f"each {name} ends {condition_text(condition)}")
    return tuple(said)
