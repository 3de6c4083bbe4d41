"""Which model a node belongs to, so that a loop's body can be another graph of it.

modeci_mdf's engine is given a Graph; its Model may be gone by then (`main()` keeps only the
Graph). So from the moment a Model is made or copied, each Graph is remembered with the graphs that
its loops name. A Model that still lives is asked first: graphs may have been added to it.
"""

from __future__ import annotations

import functools
import gc
import itertools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from mdf_loop.document.bodies import named_bodies, named_by_node
from mdf_loop.errors import ModelError

_live: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Models made since registration, in the order of their making."""

_named: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
"""Graph -> the graphs, by id, that its loops name and that those graphs name.

Not by Node: graph_scheduler keeps nodes alive after their graph.
"""

_order = itertools.count()


def forget() -> None:
    """Forget all models."""
    _live.clear()
    _named.clear()


def remembering(method: Callable[..., None]) -> Callable[..., None]:
    """`Model.__init__` or `Model.__setstate__` (copies) that remembers the model."""

    @functools.wraps(method)
    def make_and_remember(self: Any, *args: Any, **kwargs: Any) -> None:
        method(self, *args, **kwargs)
        remember(self)

    return make_and_remember


def remember(model: Any) -> None:
    """Remember a model as long as it lives, and its bodies as long as the graphs that name them."""
    from modeci_mdf.mdf import Graph

    _live[next(_order)] = model
    graphs = {graph.id: graph for graph in model.graphs or () if isinstance(graph, Graph)}
    for graph in graphs.values():
        bodies = _reached(named_bodies(graph), graphs)
        if bodies and graph not in bodies.values():  # else nothing of it could ever be freed
            _named[graph] = bodies


def _reached(ids: Iterable[str], graphs: dict[str, Any]) -> dict[str, Any]:
    """The graphs of these ids, with all that their own loops name."""
    found: dict[str, Any] = {}
    wanted = list(ids)
    while wanted:
        graph_id = wanted.pop()
        if graph_id in graphs and graph_id not in found:
            found[graph_id] = graphs[graph_id]
            wanted += named_bodies(graphs[graph_id])
    return found


def graph_with(node: Any) -> str:
    """The id of the graph that a node stands in; empty if no model with it is known."""
    models = (graph for model in list(_live.values()) for graph in model.graphs or ())
    return next((str(graph.id) for graph in (*models, *list(_named)) if _has(graph, node)), "")


def siblings_of(node: Any) -> dict[str, Any]:
    """The graphs, by id, that loops of the node may name; empty if they name none.

    Raises:
        ModelError: they name graphs, but no model with this node is known.
    """
    wanted = named_by_node(node)
    if not wanted:
        return {}
    known = _graphs_around(node, _latest_first())
    known += [bodies for graph, bodies in list(_named.items()) if _has(graph, node)]
    known = known or _graphs_around(node, _others())
    if not known:
        raise ModelError(
            f"the loop body '{min(wanted)}' is another graph of the model, but the model of node "
            f"'{node.id}' is not known",
            hint="keep the Model while its Graph is used, and copy the Model, not only the Graph",
        )
    return next((graphs for graphs in known if wanted <= graphs.keys()), known[0])


def _latest_first() -> list[Any]:
    return [model for _, model in sorted(_live.items(), reverse=True)]


def _graphs_around(node: Any, models: Iterable[Any]) -> list[dict[str, Any]]:
    """The graphs, by id, of each model that has this node."""
    return [
        {graph.id: graph for graph in model.graphs}
        for model in models
        if any(_has(graph, node) for graph in model.graphs or ())
    ]


def _has(graph: Any, node: Any) -> bool:
    return any(candidate is node for candidate in graph.nodes)


def _others() -> list[Any]:
    """Models that were made before registration and still live."""
    from modeci_mdf.mdf import Model

    return [thing for thing in gc.get_objects() if issubclass(type(thing), Model)]
