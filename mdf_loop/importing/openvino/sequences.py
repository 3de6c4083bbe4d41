"""Conversion of RNNSequence, GRUSequence and LSTMSequence to ONNX's RNN, GRU and LSTM.

In OpenVINO, the batch axis is first, and a layer has one bias. In ONNX, the time axis is first, and each of
the two products has its own bias.

Source: OpenVINO operation sets, group "Sequence processing"; ONNX LSTM-14, GRU-14, RNN-14.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import LayerCall, Result, cast, int64_array, layer
from mdf_loop.importing.openvino.cells import activation_functions
from mdf_loop.importing.openvino.elements import numpy_dtype
from mdf_loop.importing.openvino.place import Term, op, op_outputs

_DIRECTIONS = {
    direction: (direction, direction_count)
    for direction, direction_count in (("forward", 1), ("reverse", 1))
}
_DIRECTIONS["bidirectional"] = ("bidirectional", 2)


@layer("LSTMSequence")
def _lstm(call: LayerCall) -> Result:
    """Convert LSTMSequence, and reorder the gates from f, i, c, o to i, o, f, c."""
    if call.read_bool("input_forget", False) or call.count > 7:
        raise call.unsupported("with peepholes or coupled gates cannot be read")
    gate_order = (1, 3, 0, 2)
    weights, recurrence = (_reorder_gates(call, position, 4, gate_order) for position in (4, 5))
    bias = (
        _append_state_bias(call, _reorder_gates(call, 6, 4, gate_order), 4)
        if call.count > 6
        else None
    )
    x, *initial_states = (_swap_first_axes(call.input(position)) for position in (0, 1, 2))
    attributes = _attributes(call, "sigmoid,tanh,tanh")
    sequence_lengths = cast(call.int64(3), "int32")
    state_sequence, final_state, final_cell = op_outputs(
        3, "LSTM", x, weights, recurrence, bias, sequence_lengths, *initial_states, **attributes
    )
    return (
        _to_openvino_order(state_sequence),
        _swap_first_axes(final_state),
        _swap_first_axes(final_cell),
    )


@layer("GRUSequence")
def _gru(call: LayerCall) -> Result:
    """Convert GRUSequence, which has a fourth bias if `linear_before_reset` is true."""
    linear_before_reset = call.read_bool("linear_before_reset", False)
    bias: Term | None = None
    if call.count > 5 and linear_before_reset:
        update_bias, reset_bias, candidate_bias, candidate_state_bias = _split(call, 5, 4)
        zeros = _zero_bias(call, 2)
        bias = op(
            "Concat", update_bias, reset_bias, candidate_bias, zeros, candidate_state_bias, axis=1
        )
    elif call.count > 5:
        bias = _append_state_bias(call, call.input(5), 3)
    attributes = {
        **_attributes(call, "sigmoid,tanh"),
        "linear_before_reset": int(linear_before_reset),
    }
    return _convert_without_cell(call, "GRU", bias, attributes)


@layer("RNNSequence")
def _rnn(call: LayerCall) -> Result:
    bias = _append_state_bias(call, call.input(5), 1) if call.count > 5 else None
    return _convert_without_cell(call, "RNN", bias, _attributes(call, "tanh"))


def _convert_without_cell(
    call: LayerCall, op_type: str, bias: Term | None, attributes: dict[str, object]
) -> Result:
    x, initial_state = _swap_first_axes(call.input(0)), _swap_first_axes(call.input(1))
    sequence_lengths = cast(call.int64(2), "int32")
    weights = call.input(3), call.input(4)
    state_sequence, final_state = op_outputs(
        2, op_type, x, *weights, bias, sequence_lengths, initial_state, **attributes
    )
    return _to_openvino_order(state_sequence), _swap_first_axes(final_state)


def _swap_first_axes(value: Term) -> Term:
    """Swap the batch axis with the time axis, or with the direction axis."""
    return op("Transpose", value, perm=[1, 0, 2])


def _to_openvino_order(value: Term) -> Term:
    """Transpose [time, direction, batch, hidden] to [batch, direction, time, hidden]."""
    return op("Transpose", value, perm=[2, 1, 0, 3])


def _attributes(call: LayerCall, default: str) -> dict[str, object]:
    direction, direction_count = call.choice("direction", _DIRECTIONS, "forward")
    if call.read_float("clip", 0.0):
        raise call.unsupported("with clip cannot be read")
    activations = activation_functions(call, default) * direction_count
    return {"direction": direction, "hidden_size": _hidden_size(call), "activations": activations}


def _hidden_size(call: LayerCall) -> int:
    hidden_size = call.read_integer("hidden_size")
    if not 0 < hidden_size <= 2**24:
        raise ModelError(f"the hidden_size cannot be {hidden_size}", call.layer.where)
    return hidden_size


def _split(call: LayerCall, position: int, count: int) -> tuple[Term, ...]:
    lengths = np.full(count, _hidden_size(call), np.int64)
    return op_outputs(count, "Split", call.input(position), lengths, axis=1)


def _reorder_gates(call: LayerCall, position: int, count: int, order: tuple[int, ...]) -> Term:
    """Return a weight matrix with its gates in another order."""
    gates = _split(call, position, count)
    return op("Concat", *(gates[gate_index] for gate_index in order), axis=1)


def _zero_bias(call: LayerCall, gates: int) -> Term:
    _, direction_count = call.choice("direction", _DIRECTIONS, "forward")
    zero_bias = np.zeros((1, 1), numpy_dtype(call.dtype()))
    return op("Expand", zero_bias, int64_array(direction_count, gates * _hidden_size(call)))


def _append_state_bias(call: LayerCall, bias: Term, gates: int) -> Term:
    """Append a zero bias for the state to the bias of the input, as ONNX expects both."""
    return op("Concat", bias, _zero_bias(call, gates), axis=1)
