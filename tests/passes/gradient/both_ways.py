"""Comparison of forward mode, reverse mode and forward over reverse mode with central differences."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from mdf_loop.ir import Program
from mdf_loop.ir.check import check
from mdf_loop.passes.gradient.differentiate import cotangent_name, differentiate
from mdf_loop.passes.gradient.forward import tangent_name, tangents
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import STANDARD

Arrays = Mapping[str, np.ndarray]
VALUE = "value"
STEP = 6e-6


def on_runtime(program: Program, arrays: Arrays) -> dict[str, np.ndarray]:
    """Return the outputs of a program in ONNX Runtime."""
    outputs = Session(prepare(program, ONNXRUNTIME), STANDARD).run(arrays)
    return {name: np.asarray(outputs[name]) for name in (output.name for output in program.outputs)}


def directions(arrays: Arrays, wrt: Collection[str]) -> dict[str, np.ndarray]:
    """Return a tangent for each input, with numbers of the size of the input."""
    rng, moves = np.random.default_rng(7), {}
    for name in wrt:
        size = min(1.0, float(np.max(np.abs(arrays[name]), initial=0))) or 1.0
        moves[name] = np.asarray(rng.uniform(-size, size, np.shape(arrays[name])))
    return moves


def by_differences(
    program: Program, arrays: Arrays, moves: Arrays, names: Collection[str]
) -> dict[str, np.ndarray]:
    """Return the directional derivatives of outputs by central differences."""
    sides = [
        interpret(program, {**arrays, **{n: arrays[n] + way * t for n, t in moves.items()}})
        for way in (STEP, -STEP)
    ]
    return {name: (sides[0][name] - sides[1][name]) / (2 * STEP) for name in names}


def assert_agree(
    program: Program,
    arrays: Arrays,
    wrt: Collection[str],
    *,
    smooth: bool = True,
    second: bool = True,
) -> dict[str, np.ndarray]:
    """Check that the derivative of `value` in both modes equals central differences.

    `smooth` is False at a kink, where central differences are wrong. `second` also checks forward over
    reverse mode.
    """
    moves = directions(arrays, wrt)
    gradient = differentiate(program, VALUE, wrt)
    slopes = [cotangent_name(name) for name in wrt]
    derived = tangents(gradient, wrt, [VALUE, *(slopes if second else ())])
    assert check(gradient) == ()
    assert check(derived) == ()
    feeds = {**arrays, **{tangent_name(n): t for n, t in moves.items()}}
    outputs = interpret(derived, feeds)
    parts = [np.sum(outputs[cotangent_name(n)] * t) for n, t in moves.items()]
    scale = float(np.sum(np.abs(parts))) + 1e-12
    assert abs(outputs[tangent_name(VALUE)] - np.sum(parts)) <= 1e-10 * scale
    alone = interpret(tangents(program, wrt, [VALUE]), feeds)
    np.testing.assert_allclose(alone[tangent_name(VALUE)], outputs[tangent_name(VALUE)], rtol=1e-12)
    if smooth:
        _assert_near(outputs, by_differences(program, arrays, moves, [VALUE]), 1e-6)
    if smooth and second:
        _assert_near(outputs, by_differences(gradient, arrays, moves, slopes), 1e-5)
    runtime = on_runtime(derived, feeds)
    for name, array in outputs.items():
        assert runtime[name].shape == np.shape(array), name
        size = float(np.max(np.abs(array), initial=0))
        np.testing.assert_allclose(
            runtime[name], array, rtol=1e-9, atol=1e-11 * size + 1e-13, err_msg=name
        )
    return outputs


def _assert_near(actual: Arrays, expected: Arrays, tolerance: float) -> None:
    largest = max(float(np.max(np.abs(array), initial=0)) for array in expected.values())
    for name, array in expected.items():
        deviation = np.max(np.abs(actual[tangent_name(name)] - array), initial=0)
        assert deviation <= tolerance * (1 + largest), (name, actual[tangent_name(name)], array)
