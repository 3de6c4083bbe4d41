"""Conversion of RNNCell, GRUCell and LSTMCell, one step of a recurrent network, to basic operators.

Source: OpenVINO operation sets, group "Sequence processing".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import LayerCall, Result, layer
from mdf_loop.importing.openvino.place import OnnxOp, Term, op, op_outputs

_ACTIVATIONS: dict[str, str] = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}


def activation_functions(call: LayerCall, default: str) -> list[str]:
    """Return the ONNX names of the layer's activation functions. `default` determines their number."""
    words = [word.strip() for word in call.text("activations", default).split(",")]
    if len(words) != len(default.split(",")):
        raise ModelError(f"a {call.layer.type} has activations like {default}", call.layer.where)
    for word in words:
        if word not in _ACTIVATIONS:
            raise call.unsupported(f"with the activation '{word}' cannot be read")
    return [_ACTIVATIONS[word] for word in words]


def _activations(call: LayerCall, default: str) -> list[Callable[[Term], OnnxOp]]:
    return [partial(op, name) for name in activation_functions(call, default)]


def _clip(call: LayerCall, x: Term) -> Term:
    bound = call.read_float("clip", 0.0)
    return op("Clip", x, call.number(-bound), call.number(bound)) if bound else x


def _times_transposed(x: Term, weights: Term) -> OnnxOp:
    """Multiply a value by the transpose of a weight matrix."""
    return op("MatMul", x, op("Transpose", weights, perm=[1, 0]))


def _gates(call: LayerCall, value: Term, count: int, axis: int) -> list[Term]:
    """Split a value into the blocks of its gates, with `hidden_size` elements each."""
    size = call.read_integer("hidden_size")
    if not 0 < size <= 2**31:
        raise ModelError(f"the hidden_size cannot be {size}", call.layer.where)
    lengths = np.full(count, size, np.int64)
    return list(op_outputs(count, "Split", value, lengths, axis=axis))


@layer("RNNCell")
def _rnn_cell(call: LayerCall) -> Result:
    """Convert `f(X W' + H R' + B)`."""
    (activate,) = _activations(call, "tanh")
    x, state, weights, recurrence = call.required_inputs(4)
    total: Term = op("Add", _times_transposed(x, weights), _times_transposed(state, recurrence))
    if call.count > 4:
        total = op("Add", total, call.input(4))
    return activate(_clip(call, total))


@layer("LSTMCell")
def _lstm_cell(call: LayerCall) -> Result:
    """Convert a cell with gates f, i, c, o: new cell `f C + i c`, new state `o h(new cell)`."""
    if call.text("weights_format", "fico") != "fico":
        raise call.unsupported("with weights in another order than fico cannot be read")
    if call.read_bool("input_forget", False) or call.count > 6:
        raise call.unsupported("with peepholes or coupled gates cannot be read")
    gate, candidate, output_activation = _activations(call, "sigmoid,tanh,tanh")
    x, state, cell, weights, recurrence = call.required_inputs(5)
    total: Term = op("Add", _times_transposed(x, weights), _times_transposed(state, recurrence))
    if call.count > 5:
        total = op("Add", total, call.input(5))
    forget_gate, input_gate, proposal, output_gate = (
        _clip(call, t) for t in _gates(call, total, 4, 1)
    )
    remembered = op("Mul", gate(forget_gate), cell)
    next_cell = op("Add", remembered, op("Mul", gate(input_gate), candidate(proposal)))
    next_state = op("Mul", gate(output_gate), output_activation(next_cell))
    return (next_state, next_cell)[: len(call.layer.outputs)]


@layer("GRUCell")
def _gru_cell(call: LayerCall) -> Result:
    """Convert a cell with gates z, r and candidate h(X, r H): new state `(1 - z) h + z H`.

    With `linear_before_reset`, r multiplies H R' + B instead of H.
    """
    gate, candidate = _activations(call, "sigmoid,tanh")
    linear = call.read_bool("linear_before_reset", False)
    x, state, weights, recurrence = call.required_inputs(4)
    bias = _gates(call, call.input(4), 4 if linear else 3, 0) if call.count > 4 else []
    xz, xr, xh = _gates(call, _times_transposed(x, weights), 3, 1)
    wz, wr, wh = _gates(call, recurrence, 3, 0)
    update, reset = (
        gate(_clip(call, _sum(a, _times_transposed(state, w), *bias[k : k + 1])))
        for k, (a, w) in enumerate(((xz, wz), (xr, wr)))
    )
    if linear:
        state_part: Term = op("Mul", reset, _sum(_times_transposed(state, wh), *bias[3:4]))
    else:
        state_part = _times_transposed(op("Mul", reset, state), wh)
    proposal = candidate(_clip(call, _sum(xh, state_part, *bias[2:3])))
    one_minus_update = op("Sub", call.number(1), update)
    return op("Add", op("Mul", one_minus_update, proposal), op("Mul", update, state))


def _sum(first: Term, *others: Term) -> Term:
    for other in others:
        first = op("Add", first, other)
    return first
