"""Step-by-step trace of modeci_mdf's own engine: values of all items, and the executed nodes.

The engine is the reference. It is unchanged except for these documented points:

- Debug texts are not formatted (they take 20 to 100 times as long as the numbers).
- Python sets, whose order changes from run to run, are iterated in graph order.
- The initial search for an order of the edges is omitted. The engine never uses the order, and the
  search is endless for a cycle of nodes to which no other node leads.
- `reduce: add` and `multiply` create a new value (the engine changes the sender's array in place).
- A default_value that is a list is an array from the start (the engine's `2 * i` repeats a list).
- An edge of a node to itself delivers nothing before the node has run. (The engine delivers None,
  which fails with a weight or in a sum.)
- A schedule that does not end is stopped and reported as endless.

`Rules.KINDS` is the engine without one more rule: a float stays a float (2.0 is not 2). It defines the
number type where the engine's own depends on the value. `Rules.UP` and `DOWN` measure how much a
result depends on the last bits of functions like sin and exp.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from unittest.mock import patch

import modelspec.utils
import numpy as np
from modeci_mdf import execution_engine
from modeci_mdf.execution_engine import EvaluableGraph, EvaluableInput
from modeci_mdf.mdf import Graph

from mdf_loop.document.loading import suppress_output
from mdf_loop.importing.opening import open_document
from mdf_loop.run.modeci.engine_graph import to_modeci_graph

MAX_TIME_STEPS = 300
"""Maximum number of time steps in one evaluation; a longer schedule counts as endless."""


class Rules(Enum):
    """Rule for the results of the engine's expressions."""

    AS_SHIPPED = "a float result without fraction becomes an int"
    KINDS = "a float stays a float"
    UP = "sin, exp and the like give a little more"
    DOWN = "sin, exp and the like give a little less"


class EndlessScheduleError(Exception):
    """Error for a schedule of one evaluation that does not end."""


@dataclass
class Trace:
    """Record of the engine: a row of values and the sets of executed nodes for each evaluation.

    `error` is the reason of an early stop, or None. `cause` is the message of Python.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    schedule: list[list[list[str]]] = field(default_factory=list)
    error: Exception | None = None
    cause: str = ""


def trace(
    source: Any,
    dts: Sequence[float | None],
    inputs: Mapping[str, Any] | None = None,
    rules: Rules = Rules.AS_SHIPPED,
) -> Trace:
    """Evaluate once for each of `dts`; `inputs` (by `node.port`) are set before each evaluation."""
    record = Trace()
    causes: list[str] = []
    with suppress_output(), _patched_engine(rules, causes), np.errstate(all="ignore"):
        try:
            graph = _make_graph(to_modeci_graph(open_document(source)))
            _in_graph_order(graph)
            for dt in dts:
                for name, value in (inputs or {}).items():
                    node, port = name.split(".")
                    graph.enodes[node].evaluable_inputs[port].set_input_value(value)
                earlier_sets = len(graph.scheduler.execution_list[None])
                graph.evaluate(time_increment=dt)
                record.rows.append(_values(graph))
                record.schedule.append(
                    _names(graph, graph.scheduler.execution_list[None][earlier_sets:])
                )
        except Exception as error:  # noqa: BLE001 - the engine raises anything
            record.error = error
            record.cause = causes[-1] if causes else repr(error)
    return record


# --- what the engine holds --------------------------------------------------------------------


def _values(graph: EvaluableGraph) -> dict[str, Any]:
    return {
        f"{node_id}.{name}": _copy_array(item.curr_value)
        for node_id, node in graph.enodes.items()
        for kind in (
            node.evaluable_outputs,
            node.evaluable_parameters,
            {f: e for f, e in node.evaluable_functions.items() if hasattr(e, "curr_value")},
        )
        for name, item in kind.items()
    }


def _copy_array(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _names(graph: EvaluableGraph, sets: Sequence[Any]) -> list[list[str]]:
    order = list(graph.enodes)
    return [sorted((node.id for node in nodes), key=order.index) for nodes in sets]


# --- how the engine is changed ----------------------------------------------------------------


@contextmanager
def _patched_engine(rules: Rules, causes: list[str]) -> Iterator[None]:
    def listen(text: str, verbose: bool) -> None:
        if "Returning without altering" in text:
            causes.append(text.partition("(error: ")[2].removesuffix(")"))

    with ExitStack() as stack:
        stack.enter_context(patch.object(modelspec.utils, "print_", listen))
        for name in ("_params_info", "_val_info"):
            for module in (modelspec.utils, execution_engine):
                stack.enter_context(patch.object(module, name, _no_text))
        stack.enter_context(patch.object(execution_engine, "set", _OrderedSet, create=True))
        stack.enter_context(patch.object(EvaluableInput, "set_input_value", _reduce))
        stack.enter_context(patch.object(EvaluableInput, "evaluate", _evaluate_as_array))
        stack.enter_context(patch.object(EvaluableGraph, "evaluate_edge", _pass_on))
        if rules is Rules.KINDS:
            stack.enter_context(patch.object(modelspec.utils, "int", _keeping_floats, create=True))
        for rule, factor in _NUDGES.items():
            if rules is rule:
                stack.enter_context(patch.object(modelspec.utils, "np", _Nudged(np, factor)))
                stack.enter_context(patch.object(modelspec.utils, "math", _Nudged(math, factor)))
        yield


def _no_text(*_: Any, **__: Any) -> str:
    return ""


def _keeping_floats(value: Any) -> Any:
    """Return `int(value)` for the engine's test `int(v) == v`, but a float as itself."""
    whole = builtins.int(value)  # fails for inf and nan, as in the engine
    return value if type(value) is float else whole


_NUDGES = {Rules.UP: 1 + 2**-51, Rules.DOWN: 1 - 2**-51}
_ROUNDING = {
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan", "exp", "sum", "mean", "dot", "cumsum")
}
"""Functions whose last bits may differ."""


class _Nudged:
    """Module whose functions of free last bits return slightly different values."""

    def __init__(self, module: Any, factor: float) -> None:
        self._module = module
        self._factor = factor

    def __getattr__(self, name: str) -> Any:
        original = getattr(self._module, name)
        if name not in _ROUNDING:
            return original
        return lambda *args, **kwargs: original(*args, **kwargs) * self._factor


class _OrderedSet(dict[Any, None]):
    """Set in order of insertion."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(dict.fromkeys(items))

    def add(self, item: Any) -> None:
        self[item] = None


def _reduce(port: EvaluableInput, value: Any) -> None:
    """Replace `EvaluableInput.set_input_value`; the first value is not changed in place."""
    if port.curr_value is None or port.input_port.reduce == "overwrite":
        port.curr_value = value
    elif port.input_port.reduce == "add":
        port.curr_value = port.curr_value + value
    elif port.input_port.reduce == "multiply":
        port.curr_value = port.curr_value * value


_EVALUATE, _EVALUATE_EDGE = EvaluableInput.evaluate, EvaluableGraph.evaluate_edge


def _evaluate_as_array(port: EvaluableInput, *args: Any, **kwargs: Any) -> Any:
    """Replace `EvaluableInput.evaluate`; lists become arrays."""
    value = _EVALUATE(port, *args, **kwargs)
    return np.array(value) if isinstance(value, list) else value


def _pass_on(graph: EvaluableGraph, edge: Any, **kwargs: Any) -> None:
    """Replace `EvaluableGraph.evaluate_edge`; a node's own missing output is not delivered."""
    sent = graph.enodes[edge.sender].evaluable_outputs[edge.sender_port].curr_value
    if edge.sender != edge.receiver or sent is not None:
        _EVALUATE_EDGE(graph, edge, **kwargs)


def _make_graph(graph: Graph) -> EvaluableGraph:
    """Return the engine's graph without its search for an order of the edges."""
    edges, needs = graph.edges, graph.dependency_dict
    graph.edges = []
    try:
        with patch.object(Graph, "dependency_dict", needs):
            return EvaluableGraph(graph)
    finally:
        graph.edges = edges


def _in_graph_order(graph: EvaluableGraph) -> None:
    """Run nodes of equal time in the order of the graph."""
    order = [node.node for node in graph.enodes.values()]
    queue = graph.scheduler.consideration_queue
    queue[:] = [sorted(nodes, key=order.index) for nodes in queue]
    run = graph.scheduler.run

    def ordered(*args: Any, **kwargs: Any) -> Iterator[list[Any]]:
        for count, nodes in enumerate(run(*args, **kwargs)):
            if count > MAX_TIME_STEPS:
                raise EndlessScheduleError
            yield sorted(nodes, key=order.index)

    graph.scheduler.run = ordered
