"""Random ONNX models of loops: `onnx_program(seed)` returns equal models and inputs for equal seeds."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from tests.random_programs import moves, totals
from tests.random_programs.control import fill, loop_of, random_weights
from tests.random_programs.drawing import Drawing, Known, NotPossibleError, Profile, Scope, typed
from tests.random_programs.values import INTEGERS, random_array

TRIPS = (0, 1, 2, 3, 5, 9, 20)
TRIP_WEIGHTS = (5, 8, 20, 27, 20, 12, 8)


@dataclass(frozen=True)
class RandomProgram:
    """A model, its inputs, and whether its forms must have equal bits."""

    source: Any
    inputs: dict[str, NDArray[np.generic]]
    is_exact: bool
    shapes: str = "strict"
    op_types: frozenset[str] = field(default_factory=frozenset)


def onnx_program(seed: int) -> RandomProgram:
    """Return the random ONNX model of a seed."""
    rng = random.Random(f"onnx {seed}")
    for _ in range(20):
        try:
            return _draw_program(rng)
        except NotPossibleError:
            continue
    raise AssertionError(f"no model for seed {seed}")


def random_profile(rng: random.Random) -> Profile:
    """Return random weights of the constructs in a program."""
    weights = random_weights(rng)
    first, second = (rng.choice((*range(10), 1000 if rng.random() < 0.3 else 3)) for _ in range(2))
    shapes: tuple[tuple[int, ...], ...] = ((), (first,), (second,), (first, second), (1, second))
    shapes = (*shapes, (first, 1), (second, first), (), (first,))
    if rng.random() < 0.3:  # single numbers, or arrays of one shape: lanes of native loops
        shapes = ((), ()) if rng.random() < 0.6 else ((), (first,))
        for kind in (*moves.KINDS, *totals.KINDS):
            weights[kind.__name__] *= 0.05
    elif rng.random() < 0.12:
        shapes = (*shapes, (2, first, second))
    dtypes = rng.choice(
        (
            ("float64", "float64", "int64", "bool"),
            ("float64", "float64", "int64", "bool"),
            ("float32", "float32", "int32", "int64", "bool"),
            (*INTEGERS, "bool"),
            ("float64", "float32", *INTEGERS, "bool"),
        )
    )
    functions = rng.random() < 0.5
    if functions:
        weights["unary"] *= 2
        weights |= {kind.__name__: 2 * weights[kind.__name__] for kind in totals.KINDS}
    return Profile(dtypes, shapes, rng.choice((1, 1, 2, 3)), weights, functions)


def _draw_program(rng: random.Random) -> RandomProgram:
    profile = random_profile(rng)
    d, s = Drawing(rng, profile), Scope()
    d.changes_shapes = rng.random() < 0.25
    inputs: dict[str, NDArray[np.generic]] = {}
    declared: list[Known] = []
    for k in range(rng.randint(1, 5)):
        dtype, shape = rng.choice(profile.dtypes), rng.choice(profile.shapes)
        array = random_array(rng, dtype, shape)
        if rng.random() < 0.3:
            d.constant(s, array, dtype)
            continue
        value = Known(f"in{k}", dtype, shape)
        inputs[value.name] = array
        declared.append(value)
        s.own.append(value)
    fill(d, s, rng.randint(0, 3))
    trip = _trip_count(rng, d, s, inputs, declared)
    test = None
    if rng.random() < 0.35:
        test = d.maybe(s, lambda v: v.dtype == "bool" and v.shape == ())
        test = test or d.constant(s, True, "bool")
    size = (rng.randint(1, 4), rng.randint(0, 3), rng.randint(2, 14))
    results = loop_of(d, s, trip, test, size)
    outputs = [typed(value) for value in results]
    graph = helper.make_graph(s.nodes, "main", list(map(typed, declared)), outputs)
    opsets = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    shapes = "dynamic" if d.changes_shapes else "strict"
    return RandomProgram(model, inputs, d.is_exact, shapes, frozenset(d.op_types))


def _trip_count(
    rng: random.Random,
    d: Drawing,
    s: Scope,
    inputs: dict[str, NDArray[np.generic]],
    declared: list[Known],
) -> Known:
    count = rng.choices(TRIPS, TRIP_WEIGHTS)[0]
    if rng.random() < 0.35:
        return d.constant(s, count)
    trip = Known("trips", "int64", ())
    inputs["trips"] = np.array(count, np.int64)
    declared.append(trip)
    return trip
