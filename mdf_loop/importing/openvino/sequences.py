"""Whole recurrent layers: RNNSequence, GRUSequence, LSTMSequence as ONNX's RNN, GRU, LSTM.

OpenVINO has batches first and one bias; ONNX has time first and a bias for each product.

Source: OpenVINO operation sets, group "Sequence processing"; ONNX LSTM-14, GRU-14, RNN-14.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import Call, Result, cast, layer, whole_list
from mdf_loop.importing.openvino.cells import activation_functions
from mdf_loop.importing.openvino.elements import numpy_dtype
from mdf_loop.importing.openvino.place import Term, op, parts

_DIRECTIONS = {word: (word, count) for word, count in (("forward", 1), ("reverse", 1))}
_DIRECTIONS["bidirectional"] = ("bidirectional", 2)


@layer("LSTMSequence")
def _lstm(call: Call) -> Result:
    """Weights of gates f, i, c, o become i, o, f, c."""
    if call.truth("input_forget", False) or call.count > 7:
        raise call.refused("with peepholes or coupled gates cannot be read")
    order = (1, 3, 0, 2)
    weights, recurrence = (_gates(call, k, 4, order) for k in (4, 5))
    bias = _with_zeros(call, _gates(call, 6, 4, order), 4) if call.count > 6 else None
    x, *states = (_turned(call.input(k)) for k in (0, 1, 2))
    about = _about(call, "sigmoid,tanh,tanh")
    lengths = cast(call.int64(3), "int32")
    whole, state, cell = parts(3, "LSTM", x, weights, recurrence, bias, lengths, *states, **about)
    return _rows(whole), _turned(state), _turned(cell)


@layer("GRUSequence")
def _gru(call: Call) -> Result:
    """With `linear_before_reset` there is a fourth bias: the one of the product with the state."""
    linear = call.truth("linear_before_reset", False)
    bias: Term | None = None
    if call.count > 5 and linear:
        update, reset, new, inner = _split(call, 5, 4)
        nothing = _zeros(call, 2)
        bias = op("Concat", update, reset, new, nothing, inner, axis=1)
    elif call.count > 5:
        bias = _with_zeros(call, call.input(5), 3)
    about = {**_about(call, "sigmoid,tanh"), "linear_before_reset": int(linear)}
    return _simple(call, "GRU", bias, about)


@layer("RNNSequence")
def _rnn(call: Call) -> Result:
    bias = _with_zeros(call, call.input(5), 1) if call.count > 5 else None
    return _simple(call, "RNN", bias, _about(call, "tanh"))


def _simple(call: Call, op_type: str, bias: Term | None, about: dict[str, object]) -> Result:
    x, state = _turned(call.input(0)), _turned(call.input(1))
    lengths = cast(call.int64(2), "int32")
    weights = call.input(3), call.input(4)
    whole, last = parts(2, op_type, x, *weights, bias, lengths, state, **about)
    return _rows(whole), _turned(last)


def _turned(value: Term) -> Term:
    """Batch and time, or batch and direction, change places."""
    return op("Transpose", value, perm=[1, 0, 2])


def _rows(value: Term) -> Term:
    """[time, direction, batch, hidden] -> [batch, direction, time, hidden]."""
    return op("Transpose", value, perm=[2, 1, 0, 3])


def _about(call: Call, default: str) -> dict[str, object]:
    direction, count = call.choice("direction", _DIRECTIONS, "forward")
    if call.real("clip", 0.0):
        raise call.refused("with clip cannot be read")
    functions = activation_functions(call, default) * count
    return {"direction": direction, "hidden_size": _size(call), "activations": functions}


def _size(call: Call) -> int:
    size = call.whole("hidden_size")
    if not 0 < size <= 2**24:
        raise ModelError(f"the hidden_size cannot be {size}", call.layer.where)
    return size


def _split(call: Call, position: int, count: int) -> tuple[Term, ...]:
    lengths = np.full(count, _size(call), np.int64)
    return parts(count, "Split", call.input(position), lengths, axis=1)


def _gates(call: Call, position: int, count: int, order: tuple[int, ...]) -> Term:
    """The gates of a weight in another order."""
    found = _split(call, position, count)
    return op("Concat", *(found[k] for k in order), axis=1)


def _zeros(call: Call, gates: int) -> Term:
    _, directions = call.choice("direction", _DIRECTIONS, "forward")
    zero = np.zeros((1, 1), numpy_dtype(call.dtype()))
    return op("Expand", zero, whole_list(directions, gates * _size(call)))


def _with_zeros(call: Call, bias: Term, gates: int) -> Term:
    """One bias is that of the input; the state's are zero."""
    return op("Concat", bias, _zeros(call, gates), axis=1)
