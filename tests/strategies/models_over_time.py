"""Random models over time: states, derivatives, functions, ports, weights, cycles.

Nodes and edges are drawn first, with the kind of value that each edge delivers, and the contents of
the nodes afterwards. Every edge that could close a cycle leads to a port with a `default_value`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.strategies.value_expressions import (
    KINDS,
    N,
    Names,
    constants,
    expression,
    numbers,
    update,
)


@dataclass(frozen=True)
class Run:
    """A model and the arguments of a run."""

    model: dict[str, Any]
    steps: int
    dt: float | None
    inputs: dict[str, Any]

    @property
    def dts(self) -> list[float | None]:
        """The time increment of each evaluation."""
        return [None] + [self.dt] * (self.steps - 1)


@dataclass(frozen=True)
class Focus:
    """Features that a family of models contains often."""

    nodes: tuple[int, int] = (1, 3)
    parameters: tuple[int, int] = (1, 3)
    functions: tuple[int, int] = (0, 2)
    edges: tuple[int, int] = (0, 3)
    back: bool = True
    kinds: tuple[str, ...] = KINDS
    depth: int = 2


@dataclass(frozen=True)
class _Interface:
    """Ports of a node and their kinds."""

    inputs: dict[str, dict[str, Any]]
    input_kinds: dict[str, str]
    outputs: dict[str, str]


def _kind(draw: st.DrawFn, focus: Focus) -> str:
    """Return a random kind, mostly numbers."""
    return draw(st.sampled_from(["number", *focus.kinds]))


# --- edges and ports --------------------------------------------------------------------------


@st.composite
def runs(draw: st.DrawFn, focus: Focus) -> Run:
    """Draw a model, its steps, its dt and its inputs."""
    ids = [f"N{k}" for k in range(draw(st.integers(*focus.nodes)))]
    outputs = {i: _outputs(draw, focus) for i in ids}
    interfaces = {i: _Interface({}, {}, outputs[i]) for i in ids}
    edges = {}
    for k in range(draw(st.integers(*focus.edges))):
        edges[f"e{k}"] = _edge(draw, ids, interfaces, focus)
    for i in ids:
        _free_ports(draw, interfaces[i], focus)
    inputs = _inputs(draw, interfaces, edges)
    order = draw(st.permutations(ids))
    graph = {"nodes": {i: _node(draw, interfaces[i], focus) for i in order}, "edges": edges}
    dt = draw(st.sampled_from([0.1, 0.5, 1.0, 1e-3, None]))
    return Run({"g": graph}, draw(st.integers(1, 7)), dt, inputs)


def _outputs(draw: st.DrawFn, focus: Focus) -> dict[str, str]:
    return {f"o{k}": _kind(draw, focus) for k in range(draw(st.integers(1, 2)))}


def _edge(
    draw: st.DrawFn, ids: list[str], interfaces: dict[str, _Interface], focus: Focus
) -> dict[str, Any]:
    """Draw a forward edge, or any edge to a port with a default."""
    sender = draw(st.sampled_from(ids))
    back = focus.back and draw(st.booleans())
    later = ids if back else ids[ids.index(sender) + 1 :]
    if not later:
        back, later = True, ids
    receiver = draw(st.sampled_from(later))
    port = draw(st.sampled_from(list(interfaces[sender].outputs)))
    weight, kind = _weight(draw, interfaces[sender].outputs[port])
    edge = {
        "sender": sender,
        "sender_port": port,
        "receiver": receiver,
        "receiver_port": _port(draw, interfaces[receiver], kind, back),
    }
    return edge if weight is None else {**edge, "parameters": {"weight": weight}}


def _weight(draw: st.DrawFn, kind: str) -> tuple[Any, str]:
    """Draw a weight, and return it with the kind of the weighted value."""
    match draw(st.integers(0, 5)):
        case 0 | 1:
            return draw(numbers()), kind
        case 2 if kind == "list":
            return draw(constants("list")), "list"
        case 2 if kind == "table":
            return draw(constants("table")), "table"
        case 3 if kind == "list":
            return draw(constants("table")), "table"
        case 4:
            return draw(st.sampled_from([1, 1.0, -1, 0])), kind
    return None, kind


def _port(draw: st.DrawFn, interface: _Interface, kind: str, back: bool) -> str:
    """Draw the target port of an edge, sometimes a port that already has an edge."""
    usable = [
        name
        for name, port in interface.inputs.items()
        if interface.input_kinds[name] == kind and ("default_value" in port or not back)
    ]
    if usable and draw(st.booleans()):
        return draw(st.sampled_from(usable))
    name = f"i{len(interface.inputs)}"
    port: dict[str, Any] = {}
    if back or draw(st.integers(0, 4)) == 0:
        port["default_value"] = draw(constants(kind))
        stated = draw(st.sampled_from([None, "int64", "float32", "bool"]))
    else:
        stated = draw(st.sampled_from([None, None, "int", "int64", "float32", "float"]))
    if stated:  # what comes over an edge it leaves alone
        port["type"] = stated
    _reduce(draw, port)
    interface.inputs[name] = port
    interface.input_kinds[name] = kind
    return name


def _reduce(draw: st.DrawFn, port: dict[str, Any]) -> None:
    reduce = draw(st.sampled_from([None, None, "overwrite", "add", "add", "multiply"]))
    if reduce:
        port["reduce"] = reduce


def _free_ports(draw: st.DrawFn, interface: _Interface, focus: Focus) -> None:
    """Return the ports without an edge."""
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        kind = _kind(draw, focus)
        name = f"i{len(interface.inputs)}"
        port: dict[str, Any] = {}
        if kind != "number":
            port["shape"] = [N] if kind == "list" else [N, N]
        if draw(st.booleans()):
            port["default_value"] = draw(constants(kind))
        else:
            port["type"] = "float"  # otherwise the engine has 0 first, then 0.0
        _reduce(draw, port)
        interface.inputs[name] = port
        interface.input_kinds[name] = kind


def _inputs(
    draw: st.DrawFn, interfaces: dict[str, _Interface], edges: dict[str, Any]
) -> dict[str, Any]:
    """Draw values for some of the ports without an edge."""
    fed = {(edge["receiver"], edge["receiver_port"]) for edge in edges.values()}
    return {
        f"{node}.{name}": _port_value(draw, port, interface.input_kinds[name])
        for node, interface in interfaces.items()
        for name, port in interface.inputs.items()
        if (node, name) not in fed and draw(st.integers(0, 2)) == 0
    }


def _port_value(draw: st.DrawFn, port: dict[str, Any], kind: str) -> Any:
    """Draw a value for a port, a float if the kind is `float`."""
    value = draw(constants(kind))
    return np.asarray(value, float).tolist() if "type" in port else value


# --- what is in a node ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Names:
    """Names in scope of the parts of a node; `kinds` and `ways` describe the parameters.

    A parameter that has only a function or conditions is None before its first execution. Earlier parts
    of the node do not read such a parameter.
    """

    ports: Names
    kinds: Names
    ways: Names
    functions: dict[str, str]

    def early(self) -> Names:
        """Return the names that functions may read: old values."""
        old = {name: kind for name, kind in self.kinds.items() if self.ways[name] not in _LATE}
        return {**self.ports, **old, **self.functions}

    def before(self, parameter: str) -> Names:
        """Return the names for a parameter that may read only parameters declared before it."""
        ids = list(self.kinds)
        first = ids[: ids.index(parameter)]
        return {
            name: kind for name, kind in self.early().items() if name in self.ports or name in first
        }

    def others(self, parameter: str) -> Names:
        """Return the names for the new value of a parameter: all except its own name."""
        ids = list(self.kinds)
        done = {name: self.kinds[name] for name in ids[: ids.index(parameter)]}
        return {name: k for name, k in {**self.early(), **done}.items() if name != parameter}

    def all(self) -> Names:
        """Return the names for output ports."""
        return {**self.ports, **self.kinds, **self.functions}


_LATE = ("function", "conditions")
_WAYS = (
    *("constant", "stateless", "itself", "itself", "initial", "initial", "derivative"),
    *("derivative", "function", "started function", "conditions"),
)


def _node(draw: st.DrawFn, interface: _Interface, focus: Focus) -> dict[str, Any]:
    node: dict[str, Any] = {}
    if interface.inputs:
        node["input_ports"] = interface.inputs
    ids = [f"p{k}" for k in range(draw(st.integers(*focus.parameters)))]
    kinds = {name: _kind(draw, focus) for name in ids}
    ways = {name: draw(st.sampled_from(_WAYS)) for name in ids}
    names = _Names(interface.input_kinds, kinds, ways, {})
    functions: dict[str, Any] = {}
    for k in range(draw(st.integers(*focus.functions))):
        kind, functions[f"f{k}"] = _function(draw, names.early(), focus)
        names.functions[f"f{k}"] = kind
    if functions:
        node["functions"] = dict(draw(st.permutations(list(functions.items()))))
    if kinds:
        node["parameters"] = {name: _parameter(draw, name, names, focus) for name in kinds}
    node["output_ports"] = {
        name: {"value": _output(draw, names.all(), kind, focus)}
        for name, kind in interface.outputs.items()
    }
    return node


def _output(draw: st.DrawFn, names: Names, kind: str, focus: Focus) -> str:
    names_of_kind = [name for name, other in names.items() if other == kind]
    if names_of_kind and draw(st.booleans()):
        return draw(st.sampled_from(names_of_kind))
    return expression(draw, names, kind, focus.depth)


def _parameter(draw: st.DrawFn, name: str, names: _Names, focus: Focus) -> dict[str, Any]:
    """Draw a kind of parameter, such as a state or a derivative, sometimes with conditions."""
    way, kind, others = names.ways[name], names.kinds[name], names.others(name)
    parameter = _way(draw, name, names, focus)
    if way == "conditions" or draw(st.integers(0, 3)) == 0:
        visible = others if way in _LATE else {**others, name: kind}
        parameter["conditions"] = _conditions(draw, visible, kind, focus)
    return parameter


def _way(draw: st.DrawFn, name: str, names: _Names, focus: Focus) -> dict[str, Any]:
    way, kind, others = names.ways[name], names.kinds[name], names.others(name)
    depth = focus.depth - 1
    written: dict[str, Any] = {}
    if way in ("initial", "derivative", "started function"):
        written["default_initial_value"] = _initial(draw, names.before(name), kind)
    match way:
        case "constant":
            written["value"] = draw(constants(kind))
        case "stateless":
            written["value"] = expression(draw, names.before(name), kind, focus.depth)
        case "itself" | "initial":
            written["value"] = update(
                draw, name, others, kind, started=way == "initial", depth=depth
            )
        case "derivative":
            visible = {**others, name: kind}
            written["time_derivative"] = expression(draw, visible, kind, focus.depth)
        case "function":
            written |= _call_standard_function(draw, others, kind)
        case "started function":
            written |= _call_standard_function(draw, {**others, name: kind}, kind)
    return written


def _initial(draw: st.DrawFn, earlier: Names, kind: str) -> Any:
    """Draw a constant, or an expression of earlier values."""
    if draw(st.integers(0, 5)) == 0:
        return expression(draw, earlier, kind, 1)
    return draw(constants(kind))


def _conditions(draw: st.DrawFn, names: Names, kind: str, focus: Focus) -> Any:
    """Draw one or two conditions, in either notation of a document."""
    written = [
        {
            "test": _test(draw, names, kind),
            "value": draw(st.one_of(numbers(), st.just(None)))
            or expression(draw, names, draw(st.sampled_from(["number", kind])), 1),
        }
        for _ in range(draw(st.integers(1, 2)))
    ]
    if draw(st.booleans()):
        return [{"id": f"c{k}", **condition} for k, condition in enumerate(written)]
    return {f"c{k}": condition for k, condition in enumerate(written)}


def _test(draw: st.DrawFn, names: Names, kind: str) -> str:
    side = draw(st.sampled_from(["number", kind]))
    comparison = draw(st.sampled_from([">", ">=", "<", "<=", "==", "!="]))
    return f"{expression(draw, names, side, 1)} {comparison} {expression(draw, names, 'number', 1)}"


# --- functions --------------------------------------------------------------------------------

_STANDARD = {
    "linear": ("variable0", ("slope", "intercept")),
    "logistic": ("variable0", ("gain", "bias", "offset")),
    "exponential": ("variable0", ("scale", "rate", "bias", "offset")),
    "sin": ("variable0", ("scale",)),
    "cos": ("variable0", ("scale",)),
    "tanh": ("variable0", ("scale",)),
    "arctan": ("variable0", ("scale",)),
}


def _function(draw: st.DrawFn, names: Names, focus: Focus) -> tuple[str, dict[str, Any]]:
    """Draw a function of a node, and return it with the kind of its result."""
    kind = _kind(draw, focus)
    if draw(st.booleans()):
        return kind, _call_standard_function(draw, names, kind)
    if draw(st.integers(0, 2)):
        return kind, {"value": expression(draw, names, kind, focus.depth)}
    local = {"a0": kind, "a1": "number"}
    args = {name: expression(draw, names, k, 1) for name, k in local.items()}
    return kind, {
        "value": expression(draw, {**names, **local}, kind, focus.depth),
        "args": args,
    }


def _call_standard_function(draw: st.DrawFn, names: Names, kind: str) -> dict[str, Any]:
    """Draw a standard function with its arguments."""
    tables = [name for name, other in names.items() if other == "table"]
    if kind == "list" and tables and draw(st.booleans()):
        args = {"A": draw(st.sampled_from(tables)), "B": expression(draw, names, "list", 1)}
        return {"function": "MatMul", "args": args}
    if draw(st.integers(0, 4)) == 0:
        return {"function": "Relu", "args": {"A": expression(draw, names, kind, 1)}}
    function = draw(st.sampled_from(list(_STANDARD)))
    first, others = _STANDARD[function]
    argument = expression(draw, names, kind, 1)
    if function == "exponential":
        argument = f"-abs({argument})"
    args = {first: argument}
    for other in others:
        args[other] = draw(
            st.one_of(
                numbers(), st.sampled_from([n for n, k in names.items() if k == "number"] or ["1"])
            )
        )
    return {"function": function, "args": args}
