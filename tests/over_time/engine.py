"""modeci_mdf's own engine, step by step: what every port, parameter and function holds, what ran.

The engine is the judge. It is used as it is but for what the project's documents name:

- its debug texts are not made (they take 20 to 100 times as long as the numbers);
- where it goes through Python sets, whose order changes from run to run, it goes in graph order;
- at the start it looks for an order of the edges, which it never uses; that search, endless for a
  circle of nodes to which no other node leads, is left out;
- `reduce: add` and `multiply` make a new value (the engine changes the sender's array in place);
- a default_value that is a list is an array from the start (the engine's `2 * i` repeats a list);
- an edge of a node to itself brings nothing before the node has run (the engine brings None, which
  is no number where there is a weight or a sum);
- a schedule that does not end is stopped and said to be endless.

`Rules.KINDS` is the engine without one more rule: there a float stays a float (2.0 is not 2). It
says which number type is meant where the engine's own depends on the value. `Rules.UP` and `DOWN`
say how much a result depends on the last bits of sin, exp and the like.
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

MOST_TIME_STEPS = 300
"""In one evaluation; a schedule that takes more is endless."""


class Rules(Enum):
    """Which results the engine's expressions give."""

    AS_SHIPPED = "a float result without fraction becomes an int"
    KINDS = "a float stays a float"
    UP = "sin, exp and the like give a little more"
    DOWN = "sin, exp and the like give a little less"


class EndlessScheduleError(Exception):
    """The schedule of one evaluation does not end."""


@dataclass
class Trace:
    """What the engine did: a row of values and the sets of nodes that ran, for each evaluation.

    `error` is why it stopped early, None if it did not; `cause` is what Python said then.
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
    """Evaluate once for each of `dts`; `inputs` (by `node.port`) are given before each."""
    made = Trace()
    said: list[str] = []
    with suppress_output(), _changed(rules, said), np.errstate(all="ignore"):
        try:
            graph = _made(open_document(source).graph)
            _in_graph_order(graph)
            for dt in dts:
                for name, value in (inputs or {}).items():
                    node, port = name.split(".")
                    graph.enodes[node].evaluable_inputs[port].set_input_value(value)
                ran = len(graph.scheduler.execution_list[None])
                graph.evaluate(time_increment=dt)
                made.rows.append(_held(graph))
                made.schedule.append(_names(graph, graph.scheduler.execution_list[None][ran:]))
        except Exception as error:  # noqa: BLE001 - the engine raises anything
            made.error = error
            made.cause = said[-1] if said else repr(error)
    return made


# --- what the engine holds --------------------------------------------------------------------


def _held(graph: EvaluableGraph) -> dict[str, Any]:
    return {
        f"{node_id}.{name}": _copied(item.curr_value)
        for node_id, node in graph.enodes.items()
        for kind in (
            node.evaluable_outputs,
            node.evaluable_parameters,
            {f: e for f, e in node.evaluable_functions.items() if hasattr(e, "curr_value")},
        )
        for name, item in kind.items()
    }


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _names(graph: EvaluableGraph, sets: Sequence[Any]) -> list[list[str]]:
    order = list(graph.enodes)
    return [sorted((node.id for node in nodes), key=order.index) for nodes in sets]


# --- how the engine is changed ----------------------------------------------------------------


@contextmanager
def _changed(rules: Rules, said: list[str]) -> Iterator[None]:
    def listen(text: str, verbose: bool) -> None:
        if "Returning without altering" in text:
            said.append(text.partition("(error: ")[2].removesuffix(")"))

    with ExitStack() as stack:
        stack.enter_context(patch.object(modelspec.utils, "print_", listen))
        for name in ("_params_info", "_val_info"):
            for module in (modelspec.utils, execution_engine):
                stack.enter_context(patch.object(module, name, _no_text))
        stack.enter_context(patch.object(execution_engine, "set", _OrderedSet, create=True))
        stack.enter_context(patch.object(EvaluableInput, "set_input_value", _reduce))
        stack.enter_context(patch.object(EvaluableInput, "evaluate", _taken))
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
    """`int(value)` for the engine's test `int(v) == v`, which a float passes as itself."""
    whole = builtins.int(value)  # fails for inf and nan, as in the engine
    return value if type(value) is float else whole


_NUDGES = {Rules.UP: 1 + 2**-51, Rules.DOWN: 1 - 2**-51}
_ROUNDING = {
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan", "exp", "sum", "mean", "dot", "cumsum")
}
"""Functions whose last bits are free."""


class _Nudged:
    """A module whose functions of free last bits give them otherwise."""

    def __init__(self, module: Any, factor: float) -> None:
        self._module = module
        self._factor = factor

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if name not in _ROUNDING:
            return found
        return lambda *args, **kwargs: found(*args, **kwargs) * self._factor


class _OrderedSet(dict[Any, None]):
    """A set in order of insertion."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(dict.fromkeys(items))

    def add(self, item: Any) -> None:
        self[item] = None


def _reduce(port: EvaluableInput, value: Any) -> None:
    """`EvaluableInput.set_input_value`, leaving the value that came first alone."""
    if port.curr_value is None or port.input_port.reduce == "overwrite":
        port.curr_value = value
    elif port.input_port.reduce == "add":
        port.curr_value = port.curr_value + value
    elif port.input_port.reduce == "multiply":
        port.curr_value = port.curr_value * value


_EVALUATE, _EVALUATE_EDGE = EvaluableInput.evaluate, EvaluableGraph.evaluate_edge


def _taken(port: EvaluableInput, *args: Any, **kwargs: Any) -> Any:
    """`EvaluableInput.evaluate`, with arrays in the place of lists."""
    value = _EVALUATE(port, *args, **kwargs)
    return np.array(value) if isinstance(value, list) else value


def _pass_on(graph: EvaluableGraph, edge: Any, **kwargs: Any) -> None:
    """`EvaluableGraph.evaluate_edge`, unless the node's own output is not there yet."""
    sent = graph.enodes[edge.sender].evaluable_outputs[edge.sender_port].curr_value
    if edge.sender != edge.receiver or sent is not None:
        _EVALUATE_EDGE(graph, edge, **kwargs)


def _made(graph: Graph) -> EvaluableGraph:
    """The engine's graph, made without its search for an order of the edges."""
    edges, needs = graph.edges, graph.dependency_dict
    graph.edges = []
    try:
        with patch.object(Graph, "dependency_dict", needs):
            return EvaluableGraph(graph)
    finally:
        graph.edges = edges


def _in_graph_order(graph: EvaluableGraph) -> None:
    """Nodes that may run at the same time are asked, and run, in the order of the graph."""
    order = [node.node for node in graph.enodes.values()]
    queue = graph.scheduler.consideration_queue
    queue[:] = [sorted(nodes, key=order.index) for nodes in queue]
    run = graph.scheduler.run

    def ordered(*args: Any, **kwargs: Any) -> Iterator[list[Any]]:
        for count, nodes in enumerate(run(*args, **kwargs)):
            if count > MOST_TIME_STEPS:
                raise EndlessScheduleError
            yield sorted(nodes, key=order.index)

    graph.scheduler.run = ordered
