"""What a modeller should know of a run: nodes that never ran, a `dt` of the model that is not the run's."""

from __future__ import annotations

from collections.abc import Iterator

from mdf_loop.document.document import Document
from mdf_loop.reading.names import named_items
from mdf_loop.results.data import Results
from mdf_loop.specification import RunSpecification
from mdf_loop.visible import on_one_line


def never_ran(document: Document, results: Results) -> list[str]:
    """A note for each node of an output that did not run, where the order of execution is known."""
    if document.graph.conditions is None or not results.execution_list:
        return []
    ran = {node for sets in results.execution_list for nodes in sets for node in nodes}
    idle: dict[str, list[str]] = {}
    for name, item in named_items(document).items():
        if item.node not in ran and name in results:
            idle.setdefault(item.node, []).append(name)
    return [
        on_one_line(
            f"note: the node '{node}' has not run in any step, so {', '.join(names)} "
            f"{'has' if len(names) == 1 else 'have'} no value of this run: see its condition"
        )
        for node, names in idle.items()
    ]


def other_steps(document: Document, asked: RunSpecification) -> Iterator[str]:
    """A note for each parameter `dt`, a number, that is not the time between two steps of the run."""
    for node in document.graph.nodes:
        for parameter in node.parameters:
            name = f"{node.id}.{parameter.id}"
            value = asked.values.set.get(name, parameter.value)
            is_number = isinstance(value, int | float) and name not in asked.values.sweep
            if parameter.id == "dt" and asked.dt is not None and is_number and value != asked.dt:
                yield on_one_line(
                    f"note: the parameter '{name}' is {value}, but the dt of the run is {asked.dt}: "
                    f"if they mean the same, give --set {name}={asked.dt}"
                )
