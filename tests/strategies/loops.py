"""Random loops as documents: carried values, records, a trip count, a condition.

Expressions are generated as text, so Python's own evaluation is the judge (`by_python`).
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from mdf_loop.ir import Program
from mdf_loop.reading import read

CARRIED = ("x", "y", "z")


CAPTURED = {"a": 0.75, "b": -1.25, "n": 3}


VECTOR = [0.5, -1.0, 2.0]
KICKS = [0.25, -1.5, 1.0, 0.75, -0.5, 2.0, 1.25]
SLICES = {
    "u": ("kicks", KICKS),
    "w": ({"of": "kicks", "start": -1, "end": 0, "stride": -1}, KICKS[::-1]),
    "q": ({"of": "kicks", "start": 1}, KICKS[1:]),
}
"""Scans of the input `kicks`, with the expression that reads the row of an iteration."""


def expressions(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Draw arithmetic on the names that keeps values in a moderate range."""
    leaf = st.sampled_from([*names, "0.5", "2", "i", "1.5"])

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        binary = st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner)
        choice = st.tuples(inner, inner, st.sampled_from(["<", ">=", ">"]))
        divided = st.sampled_from(["mod", "floor_divide", "fmod"])
        # Of exact numbers: what differs in the last bit may have quite another remainder.
        exact = st.sampled_from(["a", "(b + 0 * x)", "(a - 0 * x)", "n", "i", "1.5"])
        division = st.tuples(divided, exact, exact).map("numpy.{0[0]}({0[1]}, 1.0 * {0[2]})".format)
        return st.one_of(
            binary.map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            inner.map(lambda e: f"numpy.tanh({e})"),
            inner.map(lambda e: f"(-{e})"),
            inner.map(lambda e: f"({e} / 3)"),
            inner.map(lambda e: f"numpy.abs({e})"),
            division,
            division.map("(0.75 / {})".format),  # shows the sign of a zero
            choice.map(lambda t: f"numpy.maximum({t[0]}, {t[1]})"),
            choice.map(lambda t: f"numpy.where({t[0]} {t[2]} {t[1]}, {t[0]}, {t[1]})"),
        )

    return st.recursive(leaf, grow, max_leaves=6).map(lambda e: f"numpy.tanh({e}) * 1.0")


@st.composite
def loops(draw: st.DrawFn) -> dict[str, object]:
    """Draw a loop: carried values (numbers or vectors), updates, records, trip count, condition."""
    n = draw(st.integers(1, 3))
    names = CARRIED[:n]
    shape = draw(st.sampled_from(["scalar", "vector"]))
    scanned = draw(st.lists(st.sampled_from([*SLICES]), max_size=2, unique=True))
    outer = (*CAPTURED, *scanned)
    return {
        "names": names,
        "scanned": scanned,
        "initial": {k: VECTOR if shape == "vector" else VECTOR[j] for j, k in enumerate(names)},
        "updates": {k: f"{draw(expressions((*names, *outer)))} + 0 * {k}" for k in names},
        "records": draw(
            st.lists(st.sampled_from([*names, "i", "a", *scanned]), max_size=2, unique=True)
        ),
        "limit": draw(st.sampled_from([None, 0.3, -5.0, 5.0])),
        "trip_count": draw(st.integers(0, 5)),
        "vector": shape == "vector",
    }


def condition(loop: dict[str, object]) -> str:
    if loop["limit"] is None:
        return "True"
    first = "numpy.max(x)" if loop["vector"] else "x"
    return f"{first} < {loop['limit']}"


def graph(loop: dict[str, object]) -> dict[str, object]:
    """Return the loop as an MDF graph; new values are output ports, records are `r_<name>`."""
    names, updates, scanned = loop["names"], loop["updates"], loop.get("scanned", ())
    ports = {
        **{f"{k}_next": {"value": updates[k]} for k in names},
        "go": {"value": condition(loop)},
    }
    ports |= {f"r_{k}": {"value": f"{k} * 1"} for k in loop["records"]}
    inputs = [*names, *CAPTURED, *scanned, "i"]
    body = {
        "metadata": {
            "inputs": ["i", "go_in", *names],
            "outputs": ["go", *(f"{k}_next" for k in names), *(f"r_{k}" for k in loop["records"])],
        },
        "nodes": {"step": {"input_ports": {k: {} for k in inputs}, "output_ports": ports}},
    }
    args = {"M": loop["trip_count"], "v_initial": "(" + "".join(f"{k}_0, " for k in names) + ")"}
    if loop["limit"] is not None:
        args["cond"] = True
    if scanned:
        args["slices"] = {name: SLICES[name][0] for name in scanned}
    n_results = len(names) + len(loop["records"])
    node = {
        "functions": {"f": {"function": "onnx::Loop", "args": {**args, "body": {"b": body}}}},
        "parameters": {
            **{k: {"value": v} for k, v in CAPTURED.items()},
            "kicks": {"value": KICKS},
            **{f"{k}_0": {"value": v} for k, v in loop["initial"].items()},
        },
        "output_ports": {
            f"o{k}": {"value": f"f[{k}]" if n_results > 1 else "f"} for k in range(n_results)
        },
    }
    return {"g": {"nodes": {"A": node}, "edges": {}}}


@np.errstate(all="ignore")
def by_python(loop: dict[str, object]) -> list[np.ndarray]:
    """Compute the results of the loop in Python."""
    names = loop["names"]
    values = {k: np.array(v, dtype=float) for k, v in loop["initial"].items()}
    rows: dict[str, list[np.ndarray]] = {k: [] for k in loop["records"]}
    for i in range(loop["trip_count"]):
        rows_now = {name: SLICES[name][1][i] for name in loop["scanned"]}
        scope = {**CAPTURED, **values, **rows_now, "i": i, "numpy": np}
        for k in rows:
            rows[k].append(np.asarray(eval(f"{k} * 1", scope)))
        go = loop["limit"] is None or eval(condition(loop), scope)
        values = {k: np.asarray(eval(loop["updates"][k], scope)) for k in names}
        if not go:
            break
    finals = [values[k] for k in names]
    return finals + [np.stack(r) if r else np.zeros(0) for r in rows.values()]


GIVEN = ("a", "b", "x_0", "y_0", "z_0", "kicks")


def opened(loop: dict[str, object]) -> tuple[Program, dict[str, np.ndarray]]:
    """Return the loop with its constants as model inputs, and the input arrays."""
    model = graph(loop)
    node = model["g"]["nodes"]["A"]
    numbers = {k: np.array(p["value"]) for k, p in node["parameters"].items() if k in GIVEN}
    node["parameters"] = {"n": {"value": CAPTURED["n"]}}
    node["input_ports"] = {name: {"shape": list(a.shape)} for name, a in numbers.items()}
    program = read(model, numbers)
    return program, {entry.value.name: entry.default for entry in program.inputs}
