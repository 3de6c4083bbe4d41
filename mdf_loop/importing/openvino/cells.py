"""One step of a recurrent network: RNNCell, GRUCell, LSTMCell, written out.

Source: OpenVINO operation sets, group "Sequence processing".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import Call, Result, layer
from mdf_loop.importing.openvino.place import OnnxOp, Term, op, parts

_ACTIVATIONS: dict[str, str] = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}


def activation_functions(call: Call, default: str) -> list[str]:
    """The layer's activation functions by their ONNX names; as many as in `default`."""
    words = [word.strip() for word in call.text("activations", default).split(",")]
    if len(words) != len(default.split(",")):
        raise ModelError(f"a {call.layer.type} has activations like {default}", call.layer.where)
    for word in words:
        if word not in _ACTIVATIONS:
            raise call.refused(f"with the activation '{word}' cannot be read")
    return [_ACTIVATIONS[word] for word in words]


def _activations(call: Call, default: str) -> list[Callable[[Term], OnnxOp]]:
    return [partial(op, name) for name in activation_functions(call, default)]


def _clipped(call: Call, x: Term) -> Term:
    bound = call.real("clip", 0.0)
    return op("Clip", x, call.number(-bound), call.number(bound)) if bound else x


def _times(x: Term, weights: Term) -> OnnxOp:
    """X times the transposed weights."""
    return op("MatMul", x, op("Transpose", weights, perm=[1, 0]))


def _gates(call: Call, value: Term, count: int, axis: int) -> list[Term]:
    """The parts of a value that belong to the gates, each `hidden_size` long."""
    size = call.whole("hidden_size")
    if not 0 < size <= 2**31:
        raise ModelError(f"the hidden_size cannot be {size}", call.layer.where)
    lengths = np.full(count, size, np.int64)
    return list(parts(count, "Split", value, lengths, axis=axis))


@layer("RNNCell")
def _rnn_cell(call: Call) -> Result:
    """`f(X W' + H R' + B)`."""
    (activate,) = _activations(call, "tanh")
    x, state, weights, recurrence = call.first(4)
    total: Term = op("Add", _times(x, weights), _times(state, recurrence))
    if call.count > 4:
        total = op("Add", total, call.input(4))
    return activate(_clipped(call, total))


@layer("LSTMCell")
def _lstm_cell(call: Call) -> Result:
    """Gates f, i, c, o; new cell f C + i c; new state o h(new cell)."""
    if call.text("weights_format", "fico") != "fico":
        raise call.refused("with weights in another order than fico cannot be read")
    if call.truth("input_forget", False) or call.count > 6:
        raise call.refused("with peepholes or coupled gates cannot be read")
    gate, candidate, shown = _activations(call, "sigmoid,tanh,tanh")
    x, state, cell, weights, recurrence = call.first(5)
    total: Term = op("Add", _times(x, weights), _times(state, recurrence))
    if call.count > 5:
        total = op("Add", total, call.input(5))
    forget, enter, new, out = (_clipped(call, t) for t in _gates(call, total, 4, 1))
    kept = op("Mul", gate(forget), cell)
    next_cell = op("Add", kept, op("Mul", gate(enter), candidate(new)))
    next_state = op("Mul", gate(out), shown(next_cell))
    return (next_state, next_cell)[: len(call.layer.outputs)]


@layer("GRUCell")
def _gru_cell(call: Call) -> Result:
    """Gates z, r; candidate h of X and r H; new state (1 - z) h + z H.

    With `linear_before_reset`, r multiplies H R' + B instead of H.
    """
    gate, candidate = _activations(call, "sigmoid,tanh")
    linear = call.truth("linear_before_reset", False)
    x, state, weights, recurrence = call.first(4)
    bias = _gates(call, call.input(4), 4 if linear else 3, 0) if call.count > 4 else []
    xz, xr, xh = _gates(call, _times(x, weights), 3, 1)
    wz, wr, wh = _gates(call, recurrence, 3, 0)
    update, reset = (
        gate(_clipped(call, _sum(a, _times(state, w), *bias[k : k + 1])))
        for k, (a, w) in enumerate(((xz, wz), (xr, wr)))
    )
    if linear:
        inner: Term = op("Mul", reset, _sum(_times(state, wh), *bias[3:4]))
    else:
        inner = _times(op("Mul", reset, state), wh)
    proposed = candidate(_clipped(call, _sum(xh, inner, *bias[2:3])))
    rest = op("Sub", call.number(1), update)
    return op("Add", op("Mul", rest, proposed), op("Mul", update, state))


def _sum(first: Term, *others: Term) -> Term:
    for other in others:
        first = op("Add", first, other)
    return first
