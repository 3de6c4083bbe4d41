"""Random loops through every engine: Python itself, the interpreter, ONNX Runtime, with and
without passes. Expressions are generated as text, so Python's own evaluation is the judge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdf_loop.build import Options
from mdf_loop.emit.legalise import legalise
from mdf_loop.passes import DEFAULT, optimise, report_loops
from mdf_loop.reading import bind, open_document, read
from mdf_loop.run.interpret import interpret
from mdf_loop.run.session import Session
from tests.soak import times

pytestmark = [pytest.mark.slow, pytest.mark.soak]

CARRIED = ("x", "y", "z")
CAPTURED = {"a": 0.75, "b": -1.25, "n": 3}
VECTOR = [0.5, -1.0, 2.0]


def expressions(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Arithmetic on the names that keeps values in a sane range."""
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
    """A loop: carried values (numbers or vectors), updates, records, trip count, condition."""
    n = draw(st.integers(1, 3))
    names = CARRIED[:n]
    shape = draw(st.sampled_from(["scalar", "vector"]))
    outer = tuple(CAPTURED)
    return {
        "names": names,
        "initial": {k: VECTOR if shape == "vector" else VECTOR[j] for j, k in enumerate(names)},
        "updates": {k: f"{draw(expressions((*names, *outer)))} + 0 * {k}" for k in names},
        "records": draw(st.lists(st.sampled_from([*names, "i", "a"]), max_size=2, unique=True)),
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
    """The loop as an MDF graph; new values are output ports, records are `r_<name>`."""
    names, updates = loop["names"], loop["updates"]
    ports = {
        **{f"{k}_next": {"value": updates[k]} for k in names},
        "go": {"value": condition(loop)},
    }
    ports |= {f"r_{k}": {"value": f"{k} * 1"} for k in loop["records"]}
    inputs = [*names, *CAPTURED, "i"]
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
    n_results = len(names) + len(loop["records"])
    node = {
        "functions": {"f": {"function": "onnx::Loop", "args": {**args, "body": {"b": body}}}},
        "parameters": {
            **{k: {"value": v} for k, v in CAPTURED.items()},
            **{f"{k}_0": {"value": v} for k, v in loop["initial"].items()},
        },
        "output_ports": {
            f"o{k}": {"value": f"f[{k}]" if n_results > 1 else "f"} for k in range(n_results)
        },
    }
    return {"g": {"nodes": {"A": node}, "edges": {}}}


@np.errstate(all="ignore")
def by_python(loop: dict[str, object]) -> list[np.ndarray]:
    """What Python makes of the same expressions."""
    names = loop["names"]
    values = {k: np.array(v, dtype=float) for k, v in loop["initial"].items()}
    rows: dict[str, list[np.ndarray]] = {k: [] for k in loop["records"]}
    for i in range(loop["trip_count"]):
        scope = {**CAPTURED, **values, "i": i, "numpy": np}
        for k in rows:
            rows[k].append(np.asarray(eval(f"{k} * 1", scope)))
        go = loop["limit"] is None or eval(condition(loop), scope)
        values = {k: np.asarray(eval(loop["updates"][k], scope)) for k in names}
        if not go:
            break
    finals = [values[k] for k in names]
    return finals + [np.stack(r) if r else np.zeros(0) for r in rows.values()]


def agree(left: np.ndarray, right: np.ndarray) -> None:
    if right.size == 0:
        assert left.size == 0
        return
    assert left.shape == right.shape
    np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-14)


@settings(max_examples=times(75, 1500), suppress_health_check=[HealthCheck.too_slow])
@given(loops())
def test_all_engines_agree(loop: dict[str, object]) -> None:
    expected = by_python(loop)
    document = open_document(graph(loop))
    arrays = bind(document, {}, Options()).arrays
    program = read(document)
    plain = interpret(program, arrays)
    for left, right in zip(plain.values(), expected, strict=True):
        agree(left, right)
    optimised = optimise(report_loops(program))
    after = interpret(optimised, arrays)
    for name, array in plain.items():
        np.testing.assert_array_equal(after[name], array)
    for candidate in map(legalise, (program, optimised)):
        made = Session(candidate, "cpu").run(arrays)
        for name, array in plain.items():
            agree(made[name], array)
            assert made[name].dtype == array.dtype


@settings(max_examples=times(30, 600), suppress_health_check=[HealthCheck.too_slow])
@given(loops())
@pytest.mark.parametrize("apply", DEFAULT, ids=lambda p: p.__name__)
def test_each_pass_keeps_results_and_rests(apply, loop) -> None:
    document = open_document(graph(loop))
    program = read(document)
    once = apply(program)
    arrays = bind(document, {}, Options()).arrays
    before, after = interpret(program, arrays), interpret(once, arrays)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    assert apply(once) is once
