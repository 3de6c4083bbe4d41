"""Random and stored programs, with one or several arguments of a run."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.errors import LoopError
from mdf_loop.importing.opening import open_document
from tests.long_runs.helpers import Case, unbroken
from tests.models import timed as timed_models
from tests.over_time.schedules import short_patience
from tests.soak import some, times
from tests.strategies import condition_trees
from tests.strategies import loops as programs
from tests.strategies.models_over_time import Focus, Run, runs
from tests.strategies.nested_control import blocks, document

SEEDS = st.integers(0, 2**32 - 1)
MODELS_OVER_TIME = st.one_of(
    runs(Focus()),
    runs(Focus(nodes=(2, 4), edges=(2, 6))),
    runs(Focus(nodes=(1, 2), edges=(0, 2), kinds=("list", "list", "table"))),
)
REDUCTIONS = ("mean", "sum", "last", "min", "max")
MOST_STEPS = 80


@contextmanager
def few_passes() -> Iterator[None]:
    """Lower the limits of passes, so that schedules count as endless sooner."""
    with pytest.MonkeyPatch.context() as patch:
        short_patience(patch)
        yield


PARTS = times(1, 75)
"""Number of tests that share the random programs and can run in parallel."""


def for_each(
    strategy: st.SearchStrategy[Case | None],
    examples: int,
    law: Callable[[Case, int], str],
    part: int,
) -> Counter[str]:
    """Apply `law` to random cases, and count its verdicts and the refused cases."""
    verdicts: Counter[str] = Counter()

    @hypothesis.seed(part)
    @settings(
        max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(strategy, SEEDS)
    def check(case: Case | None, seed: int) -> None:
        verdicts["refused" if case is None else law(case, seed)] += 1

    check()
    return verdicts


# --- one evaluation -------------------------------------------------------------------------------


@st.composite
def loops(draw: st.DrawFn) -> Case:
    """Draw a loop of up to 60 iterations, or one iteration per row, sometimes with a sweep."""
    loop = draw(programs.loops())
    rng = np.random.default_rng(draw(SEEDS))
    most = int(rng.integers(0, 61))
    loop["trip_count"] = loop["trip_count"] if loop["scanned"] else most
    loop["limit"] = [None, 5.0, loop["limit"], "(2.5 - 0.08 * i)"][rng.integers(4)]
    options = {"precision": draw(st.sampled_from(["float64", "float64", "float32"]))}
    swept = loop["limit"] is None and draw(st.booleans())
    sweep_options = {"sweep": {"A.a": [0.75, -0.5, 1.25]}} if swept else {}
    return Case(programs.graph(loop), sweep_options, options)


@st.composite
def nested_control(draw: st.DrawFn) -> Case:
    """Draw nested loops and choices."""
    source = document(draw(blocks))
    return Case(source, {"inputs": {name: draw(st.integers(-5, 9)) for name in "ab"}})


FAMILIES = {"loops": 12, "nested control flow": 6, "models over time": 6, "schedules": 4}
"""Kinds of random cases, with the number of cases in one test."""


def family(name: str) -> st.SearchStrategy[Case | None]:
    """Draw a random program of one kind."""
    cases = {
        "loops": loops,
        "nested control flow": nested_control,
        "models over time": models,
        "schedules": schedules,
    }
    return cases[name]()


# --- over time ------------------------------------------------------------------------------------


@st.composite
def models(draw: st.DrawFn) -> Case | None:
    """Draw a model over time, or None if it is refused."""
    run: Run = draw(MODELS_OVER_TIME)
    return varied(run.model, {"dt": run.dt, "inputs": run.inputs}, draw(SEEDS))


@st.composite
def schedules(draw: st.DrawFn) -> Case | None:
    """Draw a model whose nodes run by conditions, or None if it is refused."""
    model = draw(st.one_of(condition_trees.models(), condition_trees.timed_models()))
    return varied(model, {"dt": draw(st.sampled_from([None, 0.125]))}, draw(SEEDS))


def varied(source: Any, options: Mapping[str, Any], seed: int) -> Case | None:
    """Draw a run of some steps with further arguments; arguments that the model refuses are left out.

    Return None if the model refuses all arguments.
    """
    rng = np.random.default_rng([seed, zlib.crc32(repr(source).encode())])
    case = whole_case(source, {**options, "steps": int(rng.integers(1, MOST_STEPS))})
    if case is None:
        return None
    unbroken_run = unbroken(case)
    for way in rng.permutation(len(ARGUMENT_ADDERS))[: rng.integers(0, 6)]:
        case = with_more(case, ARGUMENT_ADDERS[way], rng, unbroken_run) or case
    return case


def with_each_argument(source: Any, options: Mapping[str, Any], one_in: int = 1) -> Iterator[Case]:
    """Yield a run of a model, runs with one further argument each, and some runs with several arguments."""
    rng = np.random.default_rng(0)
    case = whole_case(source, {**options, "steps": MOST_STEPS})
    assert case is not None
    unbroken_run = unbroken(case)
    yield case
    for way in some(ARGUMENT_ADDERS, one_in):
        if (more := with_more(case, way, rng, unbroken_run)) is not None:
            yield more
    for other in some(range(3), one_in):
        if (more := varied(source, options, other)) is not None:
            yield more


def whole_case(source: Any, options: Mapping[str, Any]) -> Case | None:
    """Return a run that records all values, or only the outputs if that is refused, or None."""
    for record in (named(source), []):
        case = Case(source, {**options, "record": record})
        if _run_or_none(case) is not None:
            return case
    return None


def with_more(
    case: Case, way: Callable[..., Case | None], rng: np.random.Generator, whole: mdf_loop.Results
) -> Case | None:
    """Return the case with one further argument, or None if that is refused."""
    more = way(rng, case, whole)
    return None if more is None or _run_or_none(more) is None else more


def named(source: Any) -> list[str]:
    """Return every output port, parameter and function."""
    return [
        f"{node.id}.{item.id}"
        for node in open_document(source).graph.nodes
        for items in (node.output_ports, node.parameters, node.functions)
        for item in items or ()
    ]


def _run_or_none(case: Case) -> mdf_loop.Results | None:
    try:
        return unbroken(case)
    except LoopError:
        return None


# --- further arguments of a run -------------------------------------------------------------------


def _with(case: Case, **changes: Any) -> Case:
    return Case(case.source, {**case.arguments, **changes}, case.options)


def _every(rng: np.random.Generator, case: Case, _: mdf_loop.Results) -> Case:
    return _with(case, every=int(rng.choice([2, 3, 5, 17])))


def _when(rng: np.random.Generator, case: Case, whole: mdf_loop.Results) -> Case | None:
    """Record only the rows in which a scalar output is not 0, if possible not all rows."""
    names = [name for name in whole if whole[name][0].size == 1]
    some = [name for name in names if np.any(np.asarray(whole[name]) == 0)]
    return _with(case, when=str(rng.choice(some or names))) if names else None


def _reduce(rng: np.random.Generator, case: Case, whole: mdf_loop.Results) -> Case:
    names = rng.choice(list(whole), min(3, len(whole)), replace=False)
    return _with(
        case,
        reduce={str(n): list(REDUCTIONS[: rng.integers(1, len(REDUCTIONS) + 1)]) for n in names},
    )


def _only(rng: np.random.Generator, case: Case, whole: mdf_loop.Results) -> Case:
    names = rng.choice(list(whole), min(2, len(whole)), replace=False)
    return _with(case, record=[], only=[str(n) for n in names])


def _order(rng: np.random.Generator, case: Case, _: mdf_loop.Results) -> Case:
    return _with(case, execution_list=True)


def _nan(rng: np.random.Generator, case: Case, _: mdf_loop.Results) -> Case:
    return _with(case, nan="stop")


def _float32(rng: np.random.Generator, case: Case, _: mdf_loop.Results) -> Case:
    return Case(case.source, case.arguments, {**case.options, "precision": "float32"})


def _state(rng: np.random.Generator, case: Case, _: mdf_loop.Results) -> Case | None:
    """Begin with the state after another run."""
    first = _run_or_none(
        _with(case, steps=int(rng.integers(1, 6)), every=1, when=None, nan="ignore")
    )
    return None if first is None else _with(case, state=first.state)


def _rows(rng: np.random.Generator, case: Case, _: mdf_loop.Results) -> Case | None:
    """Replace a constant input by an array with a row for each step."""
    inputs = {name: np.asarray(value) for name, value in case.arguments.get("inputs", {}).items()}
    if not inputs:
        return None
    name = str(rng.choice(list(inputs)))
    factors = rng.integers(-3, 4, case.arguments["steps"]).astype(inputs[name].dtype)
    return _with(case, inputs={**inputs, name: np.multiply.outer(factors, inputs[name])})


def _sweep(rng: np.random.Generator, case: Case, _: mdf_loop.Results) -> Case | None:
    """Sweep a parameter or an input."""
    inputs = dict(case.arguments.get("inputs", {}))
    names = [name for name, value in inputs.items() if np.ndim(value) == 0]
    names += [
        f"{node.id}.{parameter.id}"
        for node in open_document(case.source).graph.nodes
        for parameter in node.parameters or ()
        if isinstance(parameter.value, int | float)
        or isinstance(parameter.default_initial_value, int | float)
    ]
    if not names:
        return None
    name = str(rng.choice(names))
    inputs.pop(name, None)
    values = np.round(rng.normal(size=int(rng.integers(1, 4))), 3)
    return _with(case, inputs=inputs, sweep={name: values})


ARGUMENT_ADDERS = (_every, _when, _reduce, _only, _order, _nan, _float32, _state, _rows, _sweep)


# --- known models ---------------------------------------------------------------------------------


def _one(**parts: Any) -> dict[str, Any]:
    """Return a model of one node, which outputs all of its parameters."""
    ports = {name: {"value": name} for name in parts["parameters"]}
    return {"g": {"nodes": {"A": {**parts, "output_ports": ports}}}}


_ROUNDED = ("sin", "cos", "tanh", "exp", "arctan", "sinh")
"""Expressions whose kernels may round differently for several elements than for one element."""

_RNG = np.random.default_rng(5)
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{name: (model, {"dt": 0.125}) for name, model in timed_models.ALL.items()},
    "widened after the first step": (
        _one(
            parameters={"v": {"default_initial_value": [3, -3], "time_derivative": "1.5 - v / 9"}}
        ),
        {"dt": 0.001},
    ),
    "overflow": (
        _one(
            parameters={
                "v": {"default_initial_value": 1.5, "value": "v * v"},
                "w": {"value": "v - v + 1"},
            }
        ),
        {},
    ),
    "whole numbers beyond 53 bits": (
        _one(parameters={"n": {"default_initial_value": 2**62 + 1, "value": "n - 3"}}),
        {},
    ),
    **{
        f"rows of {units} functions": (
            _one(
                parameters={
                    "x": {
                        "default_initial_value": _RNG.normal(size=units).round(3).tolist(),
                        "value": "x * 1.01 + 0.1 * numpy.cos(x)",
                    },
                    **{name: {"value": f"numpy.{name}(x)"} for name in _ROUNDED},
                    "total": {"value": "numpy.sum(sin) + numpy.tanh(exp / 100)"},
                },
            ),
            {},
        )
        for units in (3, 5)
    },
    "a network of 90 units": (
        _one(
            input_ports={"x": {"shape": [90]}},
            parameters={
                "W": {"value": _RNG.normal(size=(90, 90)).round(6).tolist()},
                "r": {"default_initial_value": [0.0] * 90, "time_derivative": "d - r"},
                "d": {"value": "numpy.tanh(W @ r + x)"},
                "s": {"value": "numpy.sum(r) / 3"},
            },
        ),
        {"dt": 0.05, "inputs": {"A.x": _RNG.normal(size=90).round(3).tolist()}},
    ),
}
"""Models over time, with the arguments of their runs."""

SHARED = Path(__file__).parents[3] / "shared" / "models"


def shared_models() -> list[str]:
    """Return the names of the shared models."""
    paths = (path for path in SHARED.rglob("*.*") if path.suffix in (".yaml", ".json"))
    return sorted(path.relative_to(SHARED).as_posix() for path in paths)


def inputs_of(name: str) -> dict[str, Any]:
    """Return inputs for a shared model where it has no default."""
    inputs: dict[str, Any] = {}
    if name.startswith("ONNX"):
        inputs["input"] = [[0.75]] if "abcd" in name else np.linspace(-1, 2, 6).reshape(2, 3)
    if "abc." in name:
        inputs["B_loop_count"] = 40
    return inputs
