"""Numpy implementations of RNN, GRU and LSTM for the interpreter.

onnx's reference implementation ignores `sequence_lens` (onnx 1.23).

Source: ONNX operators, RNN-14, GRU-14, LSTM-14.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Array

Function: TypeAlias = Callable[[Array], Array]


def _softplus(x: Array) -> Any:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


_FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "relu": (lambda x: np.maximum(x, 0), ()),
    "tanh": (np.tanh, ()),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), ()),
    "softsign": (lambda x: x / (1 + np.abs(x)), ()),
    "softplus": (_softplus, ()),
    "affine": (lambda x, alpha, beta: alpha * x + beta, (1.0, 0.0)),
    "scaledtanh": (lambda x, alpha, beta: alpha * np.tanh(beta * x), (1.0, 1.0)),
    "leakyrelu": (lambda x, alpha: np.where(x < 0, alpha * x, x), (0.01,)),
    "thresholdedrelu": (lambda x, alpha: np.where(x > alpha, x, 0), (1.0,)),
    "hardsigmoid": (lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), (0.2, 0.5)),
    "elu": (lambda x, alpha: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x), (1.0,)),
}
"""Activation functions and their default alpha and beta, by name in lower case."""


class _Layer(Struct, frozen=True):
    """Weights and activation functions of one direction, with zeros for absent biases and peepholes."""

    functions: Sequence[Function]
    weights: Array
    recurrent: Array
    input_bias: Array
    recurrent_bias: Array
    peepholes: Sequence[Array]
    about: Mapping[str, Any]


def _rnn_step(layer: _Layer, x: Array, hidden: Array) -> tuple[Array, ...]:
    driven = x @ layer.weights.T + layer.input_bias
    return (layer.functions[0](driven + hidden @ layer.recurrent.T + layer.recurrent_bias),)


def _gru_step(layer: _Layer, x: Array, hidden: Array) -> tuple[Array, ...]:
    f, g = layer.functions
    update_x, reset_x, new_x = np.split(x @ layer.weights.T + layer.input_bias, 3, axis=-1)
    rows, biases = np.split(layer.recurrent, 3), np.split(layer.recurrent_bias, 3)
    update = f(update_x + hidden @ rows[0].T + biases[0])
    reset = f(reset_x + hidden @ rows[1].T + biases[1])
    if layer.about.get("linear_before_reset"):
        memory = reset * (hidden @ rows[2].T + biases[2])
    else:
        memory = (reset * hidden) @ rows[2].T + biases[2]
    return ((1 - update) * g(new_x + memory) + update * hidden,)


def _lstm_step(layer: _Layer, x: Array, hidden: Array, cell: Array) -> tuple[Array, ...]:
    f, g, h = layer.functions
    driven = x @ layer.weights.T + layer.input_bias
    gates = driven + hidden @ layer.recurrent.T + layer.recurrent_bias
    enter_gate, leave, forget, new = np.split(gates, 4, axis=-1)
    entering = f(enter_gate + layer.peepholes[0] * cell)
    retained = 1 - entering
    if not layer.about.get("input_forget"):
        retained = f(forget + layer.peepholes[2] * cell)
    cell = retained * cell + entering * g(new)
    return f(leave + layer.peepholes[1] * cell) * h(cell), cell


_CELLS: dict[str, tuple[Callable[..., tuple[Array, ...]], tuple[str, ...]]] = {
    "RNN": (_rnn_step, ("Tanh",)),
    "GRU": (_gru_step, ("Sigmoid", "Tanh")),
    "LSTM": (_lstm_step, ("Sigmoid", "Tanh", "Tanh")),
}
"""Step functions and default activations, by operator."""

_BACKWARDS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def recurrent_meaning(op_type: str, *arrays: Array | None, **about: Any) -> tuple[Array, ...]:
    """Compute the hidden states and the final states of RNN, GRU or LSTM.

    Args:
        op_type: RNN, GRU or LSTM.
        arrays: X `[time, batch, n]`, W, R, B, sequence_lens, initial_h, initial_c, P; None is absent.
        about: the attributes.

    Returns:
        Y `[time, direction, batch, hidden]`, Y_h `[direction, batch, hidden]`, and Y_c of an LSTM.

    Raises:
        UnsupportedError: an activation that ONNX does not have.
    """
    operands = [*arrays, *[None] * (8 - len(arrays))]
    if about.get("layout"):
        operands = [
            a if a is None or k not in (0, 5, 6) else a.swapaxes(0, 1)
            for k, a in enumerate(operands)
        ]
    directions = _BACKWARDS[_text(about.get("direction", "forward"))]
    functions = _functions(op_type, about, len(directions))
    runs = [
        _direction(op_type, operands, functions[k], k, backwards, about)
        for k, backwards in enumerate(directions)
    ]
    rows = np.stack([run[0] for run in runs], axis=1)
    finals = [np.stack(states) for states in zip(*(run[1] for run in runs), strict=True)]
    if about.get("layout"):
        return rows.transpose(2, 0, 1, 3), *(final.swapaxes(0, 1) for final in finals)
    return rows, *finals


def _text(word: Any) -> str:
    return word.decode() if isinstance(word, bytes) else str(word)


def _functions(op_type: str, about: Mapping[str, Any], directions: int) -> list[list[Function]]:
    """Return the activation functions of each direction; `clip` bounds gate inputs, not the cell of an LSTM."""
    default_names = _CELLS[op_type][1]
    names = [*(about.get("activations") or [*default_names] * directions)]
    numbers = [[*(about.get(f"activation_{key}") or ())] for key in ("alpha", "beta")]
    result = []
    for place, name in enumerate(map(_text, names)):
        if name.lower() not in _FUNCTIONS:
            raise UnsupportedError(f"onnx::{op_type} has no activation '{name}'")
        function, defaults = _FUNCTIONS[name.lower()]
        parameters = [
            left.pop(0) if left else d for left, d in zip(numbers, defaults, strict=False)
        ]
        limit = about.get("clip") if place % len(default_names) < 2 else None
        result.append(_bounded(function, parameters, limit))
    return [
        result[k * len(default_names) : (k + 1) * len(default_names)] for k in range(directions)
    ]


def _bounded(function: Callable[..., Any], own: Sequence[float], limit: float | None) -> Function:
    def apply(x: Array) -> Array:
        x = x if limit is None else np.clip(x, -limit, limit)
        return np.asarray(function(x, *(x.dtype.type(number) for number in own)), x.dtype)

    return apply


def _direction(
    op_type: str,
    operands: Sequence[Any],
    functions: Sequence[Function],
    k: int,
    backwards: bool,
    about: Mapping[str, Any],
) -> tuple[Array, tuple[Array, ...]]:
    """Compute the hidden states and the final states of one direction; an ended sequence keeps its states."""
    x, weights, recurrent, biases, lengths, *initial, peepholes = operands
    hidden = recurrent.shape[-1]
    zeros = np.zeros((2 * weights.shape[1],), x.dtype) if biases is None else biases[k]
    peeps = np.zeros((3 * hidden,), x.dtype) if peepholes is None else peepholes[k]
    entering, staying = np.split(zeros, 2)
    gates = np.split(peeps, 3)
    layer = _Layer(functions, weights[k], recurrent[k], entering, staying, gates, about)
    times, batch = x.shape[:2]
    counts = np.full(batch, times) if lengths is None else np.asarray(lengths)
    states = tuple(
        np.zeros((batch, hidden), x.dtype) if start is None else start[k]
        for start in initial[: 2 if op_type == "LSTM" else 1]
    )
    rows = np.zeros((times, batch, hidden), x.dtype)
    members = np.arange(batch)
    for time in range(times):
        runs = time < counts
        places = np.where(runs, counts - 1 - time if backwards else time, 0)
        new = _CELLS[op_type][0](layer, x[places, members], *states)
        states = tuple(
            np.where(runs[:, None], after, before)
            for after, before in zip(new, states, strict=True)
        )
        rows[places[runs], members[runs]] = states[0][runs]
    return rows, states
