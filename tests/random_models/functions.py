"""Random functions of nodes: expressions, functions of MDF and of ONNX, loops, choices."""

from __future__ import annotations

from typing import Any

from tests.random_models.nodes import Drawing, Names

Drawn = tuple[dict[str, str], dict[str, Any]]
"""Kinds of the outputs of a function by the suffix of the name, and the function."""


def expression(d: Drawing, names: Names) -> Drawn:
    """Return a random function with an expression as its value."""
    kind = d.kind()
    return {"": kind}, {"value": d.expression(kind, names)}


def standard(d: Drawing, names: Names) -> Drawn:
    """Return a call of a random standard function of MDF."""
    kind = d.kind(least="f")
    x = d.simple(kind, names)
    if not d.profile.rounds or d.chance(0.3):
        args = {"variable0": x, "slope": d.simple("fn", names), "intercept": 0.25}
        return {"": kind}, {"function": "linear", "args": args}
    d.writer.has_rounded = True
    if d.chance(0.4):
        args = {"variable0": x, "gain": 1.5, "bias": d.simple("fn", names), "offset": 0.0}
        return {"": kind}, {"function": "logistic", "args": args}
    if "ft" in d.profile.kinds and d.chance(0.6):
        args = {"A": d.simple("ft", names), "B": d.simple("fl", names)}
        return {"": "fl"}, {"function": "MatMul", "args": args}
    name = d.rng.choice(("tanh", "sin", "cos", "arctan"))
    return {"": kind}, {"function": name, "args": {"variable0": x, "scale": 0.75}}


def of_onnx(d: Drawing, names: Names) -> Drawn:
    """Return a call of a random ONNX operator."""
    kind = d.kind(least="f")
    x = d.simple(kind, names)
    if kind[1] == "n" or not d.profile.rounds:
        if kind[1] == "n" and d.profile.rounds:
            d.writer.has_rounded = True
            return {"": kind}, _onnx(d.rng.choice(("Tanh", "Erf", "Cos")), input=x)
        return {"": kind}, {"function": "onnx::Relu", "args": {"X": x}}
    uniform_number = d.rng.random()
    result = "fn" if kind == "fl" else "fl"
    if uniform_number < 0.45:  # sums have one order
        name = d.rng.choice(("ReduceSum", "ReduceSum", "ReduceMean", "ReduceMax"))
        if name == "ReduceSum":
            return {"": result}, _onnx(name, data=x, axes="[-1]", keepdims=0)
        return {"": result}, _onnx(name, data=x, axes=[-1], keepdims=0)
    d.writer.has_rounded = True
    if uniform_number < 0.55:
        name = d.rng.choice(("ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"))
        return {"": result}, _onnx(name, data=x, axes=[-1], keepdims=0)
    if uniform_number < 0.75:
        name = d.rng.choice(("Softmax", "LogSoftmax"))
        return {"": kind}, _onnx(name, input=x, axis=-1)
    return {"": kind}, _onnx(d.rng.choice(("Tanh", "Sigmoid", "Softplus", "Elu")), **_first(d, x))


def _first(d: Drawing, text: str) -> dict[str, str]:
    return {"input": text, "X": text}


def _onnx(name: str, **args: Any) -> dict[str, Any]:
    if "X" in args:  # operators name their operand in two ways
        del args["X" if name in ("Tanh",) else "input"]
    return {"function": f"onnx::{name}", "args": args}


def _captured(d: Drawing, names: Names) -> Names:
    """Return random values of the node that an inner graph reads."""
    values = sorted((name, kind) for name, kind in names.items() if name.isidentifier())
    return dict(d.rng.sample(values, min(3, len(values))))


def loop(d: Drawing, names: Names) -> Drawn:
    """Return a loop with a trip count, sometimes with a condition, which reads values of the node."""
    kinds = [d.kind() for _ in range(d.rng.randint(1, 2))]
    carried = {f"c{k}": kind for k, kind in enumerate(kinds)}
    outer = _captured(d, names)
    visible = {**outer, **carried, "i": "in"}
    ports = {f"{name}_next": {"value": d.small(kind, visible)} for name, kind in carried.items()}
    for name, kind in carried.items():
        if kind[0] == "f":
            ports[f"{name}_next"]["value"] = f"0.5 * {name} + 0.5 * {d.small(kind, visible)}"
    has_test = d.chance(0.35)
    ports["go"] = {"value": d.simple("bn", visible) if has_test else "True"}
    step = {"input_ports": {name: {} for name in visible}, "output_ports": ports}
    body = {
        "metadata": {
            "inputs": ["i", "go_in", *carried],
            "outputs": ["go", *(f"{name}_next" for name in carried)],
        },
        "nodes": {"step": step},
    }
    initial = "".join(f"{d.simple(kind, names)}, " for kind in carried.values())
    trips = (
        d.rng.choice((0, 1, 2, 3, 5, 9)) if d.chance(0.6) else f"abs({d.simple('in', names)}) % 6"
    )
    args: dict[str, Any] = {"M": trips, "v_initial": f"({initial})", "body": {"b": body}}
    if has_test:
        args["cond"] = True
    results = {f"[{k}]": kind for k, kind in enumerate(kinds)} if len(kinds) > 1 else {"": kinds[0]}
    return {**results, ".iterations": "in"}, {"function": "onnx::Loop", "args": args}


def choice(d: Drawing, names: Names) -> Drawn:
    """Return a choice between two graphs."""
    kind = d.kind()
    outer = _captured(d, names)
    branches = {}
    for branch in ("then_branch", "else_branch"):
        node = {
            "input_ports": {name: {} for name in outer},
            "output_ports": {"y": {"value": d.small(kind, outer)}},
        }
        branches[branch] = {branch[:4]: {"nodes": {"side": node}}}
    return {"": kind}, {"function": "onnx::If", "args": {"cond": d.simple("bn", names), **branches}}


FUNCTIONS = (expression, expression, expression, standard, of_onnx, loop, choice)
