"""Wrapper of modeci_mdf's engine (`EvaluableGraph`), silent and with a deterministic order.

The engine iterates over Python sets in four places, in an order that changes from run to run. These sets
are nodes that may run together (twice), edges into one node, and nodes with conditions. Here, the
order is that of the document, which is one of the possible orders of the engine. The other changes do
not affect numbers: a schedule that never ends is an error, and each exception of the engine becomes
one `LoopError` that names the node.

Only this one graph is changed, not modeci_mdf. `skip_debug_texts`, `copy_port_values` and `keep_port_values` are for
`verify`.

Source: modeci_mdf.execution_engine (0.4.15), graph_scheduler.Scheduler.run (1.2.2).
"""

from __future__ import annotations

import contextlib
import functools
import io
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mdf_loop.document.document import Document
from mdf_loop.document.loading import suppress_output
from mdf_loop.document.modeci import to_modeci
from mdf_loop.errors import CycleError, LoopError, RunError
from mdf_loop.locks import ForkSafeLock
from mdf_loop.reading.schedule.plan import MAX_PASSES
from mdf_loop.run.modeci.draws import EngineDraws

MAX_IDLE_PASSES = 10_000
"""Number of consecutive passes without a running node, after which an evaluation counts as endless."""


class EngineGraph:
    """Graph of a document in modeci_mdf's engine (wrapper of `EvaluableGraph`).

    With the same seed, its random numbers are those of a compiled model.

    Attributes:
        document: Document as the engine evaluates it.
        nodes: Nodes of the engine by id.

    Raises:
        CycleError: The engine would search for its first nodes forever.
        RunError: The engine refuses the model.
    """

    def __init__(self, document: Document, seed: int = 0) -> None:
        _check_edges_reachable(document)
        self._draws = EngineDraws(document, seed)
        self.document = document = self._draws.document
        with self._draws.enable_draws(lambda: 0):
            self._graph = _make_graph(document)
        self.nodes: dict[str, Any] = self._graph.enodes
        for _, call in self.loop_calls():
            call.graph_id = document.graph.id
        self._executed_sets: list[tuple[str, ...]] = []
        _order_edges(self._graph, document)
        _order_nodes(self._graph, document, self._executed_sets)

    @property
    def pass_count(self) -> int:
        """Number of scheduler passes since the graph was loaded."""
        from graph_scheduler import TimeScale

        clock = self._graph.scheduler.get_clock(None)
        return int(clock.get_total_times_relative(TimeScale.PASS, TimeScale.LIFE))

    def loop_calls(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and `LoopCall` of each loop of the document that this library computes.

        The name is `node.function`.
        """
        for node_id, node in self.nodes.items():
            for evaluables in (node.evaluable_functions, node.evaluable_parameters):
                for loop_id, loop in evaluables.items():
                    if hasattr(loop, "loop_call"):
                        yield f"{node_id}.{loop_id}", loop.loop_call

    def evaluate(self, time_increment: float | None) -> tuple[tuple[str, ...], ...]:
        """Evaluate the graph once, and return the sets of nodes that ran.

        Raises:
            RunError: The engine failed. The message is the engine's own, with the place.
        """
        self._executed_sets.clear()
        random_number_context = self._draws.enable_draws(lambda: self.pass_count)
        with (
            silence_engine(),
            random_number_context,
            _convert_errors(f"{self.document.where}.conditions"),
        ):
            self._graph.evaluate(time_increment=time_increment)
        return tuple(self._executed_sets)


def _make_graph(document: Document) -> Any:
    from modeci_mdf.execution_engine import EvaluableGraph

    graph = to_modeci_graph(document)
    with silence_engine():
        try:
            return EvaluableGraph(graph)
        except LoopError:
            raise
        except Exception as error:  # noqa: BLE001 - the engine raises exceptions of any type
            raise make_engine_error(error, _refused_node(graph, document.where)) from None


def to_modeci_graph(document: Document) -> Any:
    """Convert the main graph of a document to a Graph of modeci_mdf, within a Model of all graphs.

    The plugin finds the bodies of loops in this Model.
    """
    from modeci_mdf.mdf import Model

    graphs = {**document.graphs_by_id, document.graph.id: document.graph}
    modeci_graphs = to_modeci(graphs)
    Model(id=document.name, graphs=list(modeci_graphs.values()))
    return modeci_graphs[document.graph.id]


@contextmanager
def silence_engine() -> Iterator[None]:
    """Suppress output and warnings of modeci_mdf's engine within this context."""
    with suppress_output(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


# --- errors -------------------------------------------------------------------------------------


def make_engine_error(error: Exception, where: str) -> RunError:
    """Convert an exception of modeci_mdf's engine to a RunError with a one-line message."""
    message = _one_line(str(error).partition(" with params ")[0]).removeprefix("Error! ")
    has_plain_message = type(error) in (Exception, ValueError) and message
    full_message = (
        message if has_plain_message else f"{type(error).__name__}: {message}".removesuffix(": ")
    )
    if reason := _expression_failure(error):
        full_message = f"{full_message}: {reason}"
    return RunError(
        f"modeci_mdf's engine cannot run this model: {full_message}",
        where,
        "the sentence is the engine's own; correct what it names",
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def _expression_failure(error: Exception) -> str:
    """Return the reason of a failed expression, which modeci_mdf prints only in verbose mode."""
    from modelspec.utils import evaluate

    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    frame_locals = next(
        (frame.f_locals for frame in frames if frame.f_code.co_name == "evaluate_expr"), None
    )
    if frame_locals is None:
        return ""
    printed_text = io.StringIO()
    with contextlib.redirect_stdout(printed_text):
        evaluate(frame_locals["expr"], frame_locals["func_params"], verbose=True)
    _, message, reason = printed_text.getvalue().rpartition(" (error: ")
    return _one_line(reason).removesuffix(")") if message else ""


def _refused_node(graph: Any, where: str) -> str:
    """Return the document path of the first node that modeci_mdf's engine refuses.

    If the engine refuses no single node, return the path of the graph.
    """
    from modeci_mdf.execution_engine import EvaluableNode

    for node in graph.nodes:
        try:
            EvaluableNode(node)
        except Exception:  # noqa: BLE001 - the engine raises exceptions of any type
            return f"{where}.nodes['{node.id}']"
    return where


def _check_edges_reachable(document: Document) -> None:
    """Raise an error if edges cannot be reached from nodes without incoming edges.

    modeci_mdf's engine would search forever.
    """
    graph = document.graph
    receivers = {edge.receiver for edge in graph.edges}
    reachable_nodes = {node.id for node in graph.nodes if node.id not in receivers}
    nodes_with_default = {
        node.id
        for node in graph.nodes
        if any(port.default_value is not None for port in node.input_ports)
    }
    reachable_nodes = reachable_nodes or set(nodes_with_default)
    previous_reachable_count = -1
    while previous_reachable_count != len(reachable_nodes):
        previous_reachable_count = len(reachable_nodes)
        reachable_nodes |= {edge.receiver for edge in graph.edges if edge.sender in reachable_nodes}
    unreachable_nodes = list(
        dict.fromkeys(edge.sender for edge in graph.edges if edge.sender not in reachable_nodes)
    )
    if unreachable_nodes:
        name_list = ", ".join(f"'{name}'" for name in unreachable_nodes)
        raise CycleError(
            f"modeci_mdf's engine never starts: no edges lead from its first nodes to {name_list}",
            document.where,
            "run the model compiled: only the engine's search for first nodes fails"
            if nodes_with_default.intersection(unreachable_nodes)
            else "the nodes wait for each other; give an input port of one a default_value",
        )


# --- document order -----------------------------------------------------------------------------


def _order_edges(graph: Any, document: Document) -> None:
    """Make the engine transfer edge values just before a node runs, in document order."""
    position_by_edge = {id(edge): k for k, edge in enumerate(graph.graph.edges)}
    evaluate_edge = graph.evaluate_edge
    pending_edges: list[tuple[Any, dict[str, Any]]] = []

    def keep(edge: Any, **arguments: Any) -> None:
        pending_edges.append((edge, arguments))

    def after_edges(node_id: str, run: Callable[..., None]) -> Callable[..., None]:
        def run_node(**arguments: Any) -> None:
            edges = sorted(pending_edges, key=lambda edge_call: position_by_edge[id(edge_call[0])])
            pending_edges.clear()
            for edge, options in edges:
                with _convert_errors(f"{document.where}.edges['{edge.id}']"):
                    evaluate_edge(edge, **options)
            with _convert_errors(f"{document.where}.nodes['{node_id}']"):
                run(**arguments)

        return run_node

    graph.evaluate_edge = keep
    for node_id, node in graph.enodes.items():
        node.evaluate = after_edges(node_id, node.evaluate)


@contextmanager
def _convert_errors(where: str) -> Iterator[None]:
    try:
        yield
    except LoopError:
        raise
    except Exception as error:  # noqa: BLE001 - the engine raises exceptions of any type
        raise make_engine_error(error, where) from None


def _order_nodes(graph: Any, document: Document, executed_sets: list[tuple[str, ...]]) -> None:
    """Make the engine run simultaneous nodes in document order, and detect endless evaluations."""
    position_by_node = {id(node): k for k, node in enumerate(graph.graph.nodes)}
    queue = graph.scheduler.consideration_queue
    queue[:] = [sorted(nodes, key=lambda node: position_by_node[id(node)]) for nodes in queue]
    scheduler_run = graph.scheduler.run

    def bounded(*args: Any, **kwargs: Any) -> Iterator[list[Any]]:
        idle_pass_count = 0
        for pass_number, nodes in enumerate(scheduler_run(*args, **kwargs)):
            idle_pass_count = 0 if nodes else idle_pass_count + 1
            if idle_pass_count > MAX_IDLE_PASSES * len(queue):
                raise _endless_error(f"nothing runs for {MAX_IDLE_PASSES} passes", document)
            if pass_number > MAX_PASSES * len(queue):
                raise _endless_error(f"it is not over after {MAX_PASSES} passes", document)
            ordered_nodes = sorted(nodes, key=lambda node: position_by_node[id(node)])
            executed_sets.append(tuple(node.id for node in ordered_nodes))
            yield ordered_nodes

    graph.scheduler.run = bounded


def _endless_error(what: str, document: Document) -> RunError:
    return RunError(
        f"an evaluation of this model never ends in modeci_mdf's engine: {what}",
        f"{document.where}.conditions",
        "state a termination condition that comes true, or let each node run at least once",
    )


# --- for verify ---------------------------------------------------------------------------------

_FORMATTERS_LOCK = ForkSafeLock()


@contextmanager
def skip_debug_texts() -> Iterator[None]:
    """Replace modeci_mdf's slow, unused debug texts by empty texts within this context.

    modeci_mdf formats every value of every expression as text. The numbers do not depend on these texts.
    Within this context, the texts are empty in all graphs of the process. Contexts of other threads wait.
    """
    with _FORMATTERS_LOCK:
        formatters = _debug_formatters()
        for module, name, _ in formatters:
            setattr(module, name, _return_no_text)
        try:
            yield
        finally:
            for module, name, formatter in formatters:
                setattr(module, name, formatter)


@functools.cache
def _debug_formatters() -> tuple[tuple[Any, str, Any], ...]:
    """Return modeci_mdf's functions that format debug texts, with their modules and names.

    The functions are those at the first call. In a process that was forked within the context, the texts
    are empty.
    """
    import modelspec.utils
    from modeci_mdf import execution_engine

    modules = (modelspec.utils, execution_engine)
    return tuple(
        (module, name, getattr(module, name))
        for module in modules
        for name in ("_params_info", "_val_info")
    )


def _return_no_text(*_: Any, **__: Any) -> str:
    return ""


def copy_port_values(engine: EngineGraph) -> list[str]:
    """Make the engine copy values at ports that add or multiply, and return the ports' names.

    The engine adds in place, to the array that the first sender still holds.
    """
    receiver_ports = [(edge.receiver, edge.receiver_port) for edge in engine.document.graph.edges]
    port_names = []
    for node_id, node in engine.nodes.items():
        for port_id, port in node.evaluable_inputs.items():
            has_several_edges = receiver_ports.count((node_id, port_id)) > 1
            if port.input_port.reduce != "overwrite" and has_several_edges:
                port_names.append(f"{node_id}.{port_id}")
                port.set_input_value = _make_copying_setter(port.set_input_value)
    return port_names


def keep_port_values(engine: EngineGraph, names: Iterable[tuple[str, str]]) -> None:
    """Make the engine keep the values of some input ports after their node has run.

    The engine clears the value of a port after its node has run.
    """
    for node_id, port_id in names:
        port = engine.nodes[node_id].evaluable_inputs[port_id]
        port.evaluate = _make_keeping_evaluate(port, port.evaluate)


def _make_keeping_evaluate(port: Any, evaluate: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate_and_keep(*args: Any, **kwargs: Any) -> Any:
        port_value = port.curr_value
        evaluated_value = evaluate(*args, **kwargs)
        port.curr_value = port_value
        return evaluated_value

    return evaluate_and_keep


def _make_copying_setter(set_value: Callable[[Any], None]) -> Callable[[Any], None]:
    def set_copy(value: Any) -> None:
        set_value(value.copy() if isinstance(value, np.ndarray) else value)

    return set_copy
