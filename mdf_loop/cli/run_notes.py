"""Notes about nodes that never ran in a run."""

from __future__ import annotations

from mdf_loop.document.document import Document
from mdf_loop.reading.names import named_items
from mdf_loop.results.data import Results
from mdf_loop.text_escaping import escape_to_one_line


def notes_on_idle_nodes(document: Document, results: Results) -> list[str]:
    """Return a note about each node that never ran in a run with recorded execution."""
    if document.graph.conditions is None or not results.execution_list:
        return []
    active_nodes = {
        node
        for execution_sets in results.execution_list
        for nodes in execution_sets
        for node in nodes
    }
    names_by_idle_node: dict[str, list[str]] = {}
    for name, model_item in named_items(document).items():
        if model_item.node not in active_nodes and name in results:
            names_by_idle_node.setdefault(model_item.node, []).append(name)
    return [
        escape_to_one_line(
            f"note: the node '{node}' has not run in any step, so {', '.join(output_names)} "
            f"{'has' if len(output_names) == 1 else 'have'} no value of this run: see its condition"
        )
        for node, output_names in names_by_idle_node.items()
    ]
