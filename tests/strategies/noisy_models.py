"""Random noisy models: states, draws of all distributions and shapes, loops with draws, skipped nodes.

Drawn numbers enter only arithmetic and choices, so that all ways to run a model give equal bits.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

DRAWS = (
    "numpy.random.normal()",
    "numpy.random.normal({0}, 0.5)",
    "numpy.random.uniform(-1.0, {0})",
    "numpy.random.exponential(0.5)",
    "numpy.random.laplace({0}, 0.25)",
    "random.random()",
    "random.gauss(0.5, 0.25)",
    "numpy.random.randint(-2, 3)",
    "numpy.random.binomial(3, 0.5)",
    "numpy.random.poisson(0.75)",
    "numpy.random.choice(4)",
    "numpy.random.gamma(2.5, 0.25)",
    "numpy.random.gamma(8.0 * numpy.abs({0}) + 0.125, 0.125)",
    "numpy.random.beta(0.5, numpy.abs({0}) + 0.25)",
    "numpy.random.standard_t(5.0)",
    "numpy.random.dirichlet([0.25, 1.5, 8.0])",
    "numpy.random.weibull(numpy.abs({0}) + 0.5)",
    "numpy.random.triangular(-1.0, 0.25, 1.5)",
    "numpy.random.geometric(0.5)",
    "random.betavariate(7.0, 9.0)",
    "numpy.random.rand({n})",
    "numpy.random.normal(size={n})",
    "numpy.random.choice(weights, {n}, p=[0.25, 0.5, 0.25])",
)
TWO = ("({0} + {1})", "({0} - {1})", "({0} * {1})", "numpy.maximum({0}, {1})")
ONE = ("numpy.abs({0})", "(0.5 * {0})", "({0} / 4.0)", "numpy.where({0} > 0.25, {0}, -1.0)")


@st.composite
def expressions(draw: st.DrawFn, names: tuple[str, ...], n: int, depth: int = 2) -> str:
    """Draw an expression on names, with or without random numbers."""
    kind = draw(st.integers(0, 3 if depth else 1))
    if kind == 0:
        return draw(st.sampled_from((*names, "0.25", "1.5")))
    if kind == 1:
        text = draw(st.sampled_from(DRAWS))
        return text.format(draw(st.sampled_from((*names, "0.75"))), n=n)
    parts = [draw(expressions(names, n, depth - 1)) for _ in range(2)]
    return draw(st.sampled_from(TWO if kind == 2 else ONE)).format(*parts)


@st.composite
def loops(draw: st.DrawFn, n: int) -> dict[str, Any]:
    """Draw a loop of a fixed number of iterations that draws random numbers in its body."""
    value = draw(expressions(("x",), n))
    body = {
        "metadata": {"inputs": ["i", "go", "x"], "outputs": ["", "x_out", "row"]},
        "nodes": {
            "B": {
                "input_ports": {"x": {}, "weights": {}},
                "functions": {"z": {"value": draw(expressions(("x",), n, 1))}},
                "parameters": {"y": {"value": f"numpy.clip(0.5 * x + {value}, -4.0, 4.0)"}},
                "output_ports": {
                    "x_out": {"value": "y"},
                    "row": {"value": "numpy.sum(z + 0.0 * y)" if n == 0 else "z - y"},
                },
            }
        },
    }
    count = draw(st.integers(0, 4))
    return {
        "function": "onnx::Loop",
        "args": {"M": count, "v_initial": "begin", "body": {"b": body}},
    }


@st.composite
def noisy_models(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a model of one or two nodes that draws random numbers at least once."""
    n = 3
    names = tuple(f"s{k}" for k in range(draw(st.integers(1, 3))))
    parameters: dict[str, Any] = {"weights": {"value": [-1.0, 0.5, 2.0]}}
    for name in names:
        value = draw(expressions(names, n))
        parameters[name] = {
            "value": f"numpy.clip(0.5 * {name} + {value}, -8.0, 8.0)",
            "default_initial_value": draw(
                st.sampled_from(([0.25, -0.5, 1.0], [0.0, 0.0, 0.0], "numpy.random.rand(3)"))
            ),
        }
    parameters["free"] = {"value": draw(st.sampled_from(DRAWS)).format("0.5", n=n)}
    node: dict[str, Any] = {"parameters": parameters}
    outputs = [*names, "free"]
    if draw(st.booleans()):
        parameters["begin"] = {"value": [0.5, -0.5, 0.0]}
        node["functions"] = {"f": draw(loops(n))}
    node["output_ports"] = {f"out_{name}": {"value": name} for name in outputs}
    if "functions" in node:
        node["output_ports"]["out_f"] = {"value": "f[0] + 0.5 * s0"}
    nodes: dict[str, Any] = {"A": node}
    graph: dict[str, Any] = {"nodes": nodes}
    if draw(st.integers(0, 3)) == 0:
        nodes["B"] = {
            "parameters": {"y": {"value": "y + random.random()", "default_initial_value": 0.0}},
            "output_ports": {"y": {"value": "y"}},
        }
        every = {"type": "EveryNCalls", "kwargs": {"dependency": "A", "n": draw(st.integers(1, 3))}}
        graph["conditions"] = {"node_specific": {"A": {"type": "Always"}, "B": every}}
    return {"m": {"graphs": {"g": graph}}}
