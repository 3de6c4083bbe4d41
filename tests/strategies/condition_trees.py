"""Random graphs with random scheduler conditions."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.over_time.schedules import SCALES, SIGNS, Model, condition, conditioned, edge

COUNTS = st.integers(0, 4)

TIMES = [
    f"{word}{unit}"
    for unit in ("ConsiderationSetExecution", "Pass", "EnvironmentStateUpdate")
    for word in ("Before", "At", "After")
] + ["AfterNConsiderationSetExecutions", "AfterNPasses", "AfterNEnvironmentStateUpdates"]
CALLS = ["BeforeNCalls", "AtNCalls", "AfterCall", "AfterNCalls"]
PLAIN = [
    "Always",
    "Never",
    "AllHaveRun",
    "AtEnvironmentStateUpdateStart",
    "AtEnvironmentSequenceStart",
]


@st.composite
def trees(draw: st.DrawFn, ids: str, owner: str | None, depth: int = 3) -> Model:
    """Draw a condition of the node `owner`, or a termination condition if `owner` is None."""
    inner = trees(ids, owner, depth - 1) if depth else leaves(ids, owner)
    match draw(st.integers(0, 9 if depth else 3)):
        case 4 | 5:
            return condition("All", dependencies=draw(st.lists(inner, max_size=3)))
        case 6 | 7:
            return condition("Any", dependencies=draw(st.lists(inner, min_size=1, max_size=3)))
        case 8:
            return condition("Not", condition=draw(inner))
        case 9:
            return condition("NWhen", condition=draw(inner), n=draw(COUNTS))
        case _:
            return draw(leaves(ids, owner))


@st.composite
def leaves(draw: st.DrawFn, ids: str, owner: str | None) -> Model:
    """Draw a condition that contains no other conditions."""
    node, n = draw(st.sampled_from(ids)), draw(COUNTS)
    scale = draw(st.sampled_from([None, *SCALES]))
    scaled = {"time_scale": f"TimeScale.{scale}"} if scale else {}
    match draw(st.integers(0, 9)):
        case 0:
            kind = draw(st.sampled_from(PLAIN))
            return condition(kind, **(scaled if kind == "AllHaveRun" else {}))
        case 1 | 2:
            return condition(draw(st.sampled_from(TIMES)), n=n, **scaled)
        case 3:
            return condition("EveryNPasses", n=n + 1, **scaled)
        case 4 | 5:
            return condition(draw(st.sampled_from(CALLS)), dependency=node, n=n, **scaled)
        case 6 if owner is not None:
            return condition("EveryNCalls", dependency=node, n=n)
        case 7:
            return condition("JustRan", dependency=node)
        case 8:
            return condition("AtEnvironmentStateUpdateNStart", n=n)
        case _:
            return condition(
                "Threshold",
                dependency=node,
                parameter=draw(st.sampled_from("cvo")),
                threshold=draw(st.sampled_from([-1, 0, 1, 2, 3, 5, 0.5, 2.25])),
                comparator=draw(st.sampled_from(SIGNS)),
            )


# --- graphs -----------------------------------------------------------------------------------

VALUES = [
    {"value": "v + {x}", "default_initial_value": 0},
    {"value": "0.5 * v + {x}", "default_initial_value": 1},
    {"value": "{x} * 2 - c"},
    {"value": "c + {x}"},
    {"value": "c / 2"},
    {"time_derivative": "1 + {x} - v", "default_initial_value": 0.25},
    {"value": "c % 3 > 1"},
]
"""Expressions of the value `v` of a node; `{x}` stands for the sum of its input ports."""


@st.composite
def graphs(draw: st.DrawFn, ids: str) -> Model:
    """Draw nodes with counters `c` and values `v`, with forward edges and edges to ports with defaults."""
    nodes, edges = {}, {}
    order = draw(st.permutations(ids))
    for index, receiver in enumerate(order):
        ports: Model = {}
        for sender in order[:index]:
            if draw(st.integers(0, 2)) == 0:
                edges[sender + receiver] = edge(sender, receiver, f"x{sender}", draw(_OUTPUTS))
                ports[f"x{sender}"] = {}
        if draw(st.integers(0, 2)) == 0:
            mode = draw(st.sampled_from(["overwrite", "add"]))
            ports["b"] = {"default_value": draw(st.sampled_from([1, 0.5])), "reduce": mode}
            for sender in draw(st.lists(st.sampled_from(ids), max_size=2, unique=True)):
                weight = draw(st.sampled_from([{}, {"weight": 2}, {"weight": 0.5}]))
                name = f"{sender}_to_{receiver}"
                edges[name] = edge(sender, receiver, "b", draw(_OUTPUTS), **weight)
        nodes[receiver] = _node(draw, ports)
    return {"nodes": {i: nodes[i] for i in ids}, "edges": edges}


_OUTPUTS = st.sampled_from(["o", "n"])


def _node(draw: st.DrawFn, ports: Model) -> Model:
    fed = f"({' + '.join(ports)})" if ports else "1"
    value = {
        k: str(v).format(x=fed) if isinstance(v, str) else v
        for k, v in draw(st.sampled_from(VALUES)).items()
    }
    return {
        "input_ports": ports,
        "parameters": {"c": {"default_initial_value": 0, "value": "c + 1"}, "v": value},
        "functions": {"f": {"value": "c * 3"}},
        "output_ports": {"o": {"value": "v"}, "n": {"value": "c"}, "g": {"value": "f"}},
    }


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Draw a random graph with random conditions."""
    ids = "ABCDE"[: draw(st.integers(1, 5))]
    governed = draw(st.lists(st.sampled_from(ids), max_size=3, unique=True))
    nodes: dict[str, Any] = {i: draw(trees(ids, i)) for i in governed}
    ending: Model | None = None
    match draw(st.integers(0, 4)):
        case 0:
            ending = {"environment_state_update": draw(trees(ids, None, 2))}
        case 1:
            ending = {"ENVIRONMENT_SEQUENCE": draw(trees(ids, None, 1))}
        case 2 | 3:
            bound = condition("AfterNPasses", n=draw(st.integers(1, 4)))
            either = [draw(trees(ids, None, 1)), bound]
            ending = {"environment_state_update": condition("Any", dependencies=either)}
    return conditioned(draw(graphs(ids)), nodes, ending)


# --- absolute time ----------------------------------------------------------------------------


@st.composite
def times(draw: st.DrawFn, ids: str) -> Model:
    """Draw a condition of a node on absolute time, alone or combined with another condition."""
    written: Model = {"repeat": draw(st.sampled_from([1, 2, 3, "2 ms"]))}
    if draw(st.booleans()):
        written["start"] = draw(st.integers(0, 3))
    if draw(st.integers(0, 3)) == 0:
        written = {"end": draw(st.integers(3, 9)), "end_inclusive": draw(st.booleans())}
    if draw(st.booleans()):
        return condition("TimeInterval", **written)
    parts = [condition("TimeInterval", **written), draw(leaves(ids, ids[0]))]
    return condition(draw(st.sampled_from(["All", "Any"])), dependencies=parts)


@st.composite
def timed_models(draw: st.DrawFn) -> Model:
    """Draw independent nodes, or two connected nodes, with conditions on absolute time.

    Times are in milliseconds, because the engine's clock rounds or overflows for other units and fractions.
    """
    ids = "ABC"[: draw(st.integers(1, 3))]
    edges = {"AB": edge("A", "B", "x")} if ids == "AB" else {}
    nodes = {i: _node(draw, {"x": {}} if edges and i == "B" else {}) for i in ids}
    conditions_by_node = {i: draw(times(ids)) for i in ids if draw(st.integers(0, 2))}
    ending = draw(
        st.one_of(
            st.integers(1, 4).map(lambda n: condition("AfterNPasses", n=n)),
            st.integers(2, 40).map(lambda t: condition("TimeTermination", t=t)),
            st.integers(1, 3).map(lambda n: condition("AfterNCalls", dependency="A", n=n)),
        )
    )
    return conditioned({"nodes": nodes, "edges": edges}, conditions_by_node, ending)
