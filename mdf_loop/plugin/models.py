"""Registry of modeci_mdf models, which finds the graphs that a node's loops use as bodies.

modeci_mdf's engine receives a Graph, whose Model may not exist any more (`main()` keeps only the Graph). So
when a Model is created or copied, each of its Graphs is registered with the graphs that its loops name. The
graphs of a Model that still exists have priority, because graphs may have been added to the Model.
"""

from __future__ import annotations

import functools
import gc
import itertools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from mdf_loop.document.bodies import owned_graph_ids_of_node
from mdf_loop.document.graph_functions import graph_function
from mdf_loop.document.modeci import from_modeci
from mdf_loop.errors import ModelError

_live_models: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Models created since the plugin was registered, by order of creation."""

_bodies_of_graph: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
"""Graphs that the loops of a Graph name, directly or through other graphs, by Graph and by id.

The keys are not nodes, because graph_scheduler keeps nodes alive after their graph.
"""

_model_numbers = itertools.count()
"""Counter of the created models."""


def clear_registry() -> None:
    """Remove all modeci_mdf models from the registry."""
    _live_models.clear()
    _bodies_of_graph.clear()


def wrap_to_register(method: Callable[..., None]) -> Callable[..., None]:
    """Wrap a method that creates or copies a Model so that it registers the model."""

    @functools.wraps(method)
    def call_and_remember(self: Any, *args: Any, **kwargs: Any) -> None:
        method(self, *args, **kwargs)
        register_model(self)

    return call_and_remember


def register_model(model: Any) -> None:
    """Add a model to the registry, which does not keep the model alive.

    Its bodies stay while the graphs that name them exist.
    """
    from modeci_mdf.mdf import Graph

    _live_models[next(_model_numbers)] = model
    graphs_by_id = {graph.id: graph for graph in model.graphs or () if isinstance(graph, Graph)}
    for graph in graphs_by_id.values():
        reachable_bodies = _find_reachable_graphs(_find_owned_ids(graph), graphs_by_id)
        # An entry that refers to its own key is never freed.
        if reachable_bodies and graph not in reachable_bodies.values():
            _bodies_of_graph[graph] = reachable_bodies


def _find_owned_ids(graph: Any) -> set[str]:
    """Return the ids of the graphs that functions of a modeci_mdf Graph use as bodies."""
    nodes = [node for node in graph.nodes if hasattr(node, "functions")]  # importers nest graphs
    return {
        graph_id
        for node in nodes
        if has_graph_functions(node)
        for graph_id in owned_graph_ids_of_node(from_modeci(node))
    }


def has_graph_functions(node: Any) -> bool:
    """Return True if a function or parameter of a modeci_mdf Node owns graphs."""
    return any(graph_function(part.function) for part in (*node.functions, *node.parameters))


def _find_reachable_graphs(ids: Iterable[str], graphs: dict[str, Any]) -> dict[str, Any]:
    """Return the graphs with given ids, and all graphs that loops in these graphs use as bodies."""
    reachable_graphs: dict[str, Any] = {}
    unvisited_ids = list(ids)
    while unvisited_ids:
        graph_id = unvisited_ids.pop()
        if graph_id in graphs and graph_id not in reachable_graphs:
            reachable_graphs[graph_id] = graphs[graph_id]
            unvisited_ids += _find_owned_ids(graphs[graph_id])
    return reachable_graphs


def find_graph_id(node: Any) -> str:
    """Return the id of the graph that contains a node, or "" if no known model contains it."""
    known_graphs = (graph for model in list(_live_models.values()) for graph in model.graphs or ())
    return next(
        (
            str(graph.id)
            for graph in (*known_graphs, *list(_bodies_of_graph))
            if _contains_node(graph, node)
        ),
        "",
    )


def find_sibling_graphs(node: Any) -> dict[str, Any]:
    """Return the graphs that the loops of a node may use as bodies, by id.

    The result is empty if the loops name no graphs.

    Raises:
        ModelError: The loops name graphs, but no known model has this node.
    """
    body_ids = owned_graph_ids_of_node(from_modeci(node))
    if not body_ids:
        return {}
    candidate_graphs = _graphs_of_models_with(node, _models_latest_first())
    candidate_graphs += [
        bodies for graph, bodies in list(_bodies_of_graph.items()) if _contains_node(graph, node)
    ]
    candidate_graphs = candidate_graphs or _graphs_of_models_with(node, _unregistered_models())
    if not candidate_graphs:
        raise ModelError(
            f"the loop body '{min(body_ids)}' is another graph of the model, but the model of node "
            f"'{node.id}' is not known",
            hint="keep the Model while its Graph is used, and copy the Model, not only the Graph",
        )
    return next(
        (graphs for graphs in candidate_graphs if body_ids <= graphs.keys()), candidate_graphs[0]
    )


def _models_latest_first() -> list[Any]:
    """Return the registered models, ordered from the latest to the earliest."""
    return [model for _, model in sorted(_live_models.items(), reverse=True)]


def _graphs_of_models_with(node: Any, models: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the graphs of each model that contains a node, by graph id."""
    return [
        {graph.id: graph for graph in model.graphs}
        for model in models
        if any(_contains_node(graph, node) for graph in model.graphs or ())
    ]


def _contains_node(graph: Any, node: Any) -> bool:
    """Return True if a graph contains this node object, not only an equal node."""
    return any(graph_node is node for graph_node in graph.nodes)


def _unregistered_models() -> list[Any]:
    """Return all modeci_mdf models in memory, including models that were created before `register()`."""
    from modeci_mdf.mdf import Model

    return [
        collected_object
        for collected_object in gc.get_objects()
        if issubclass(type(collected_object), Model)
    ]
