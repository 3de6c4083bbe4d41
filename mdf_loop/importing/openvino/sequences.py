"""Conversion of RNNSequence, GRUSequence and LSTMSequence to ONNX's RNN, GRU and LSTM.

In OpenVINO, the batch axis is first, and a layer has one bias. In ONNX, the time axis is first, and each of
the two products has its own bias.

Source: OpenVINO operation sets, group "Sequence processing"; ONNX LSTM-14, GRU-14, RNN-14.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import LayerCall, LayerOutputs, cast, int64_array, layer
from mdf_loop.importing.openvino.cells import activation_functions
from mdf_loop.importing.openvino.elements import numpy_dtype
from mdf_loop.importing.openvino.network_writer import Term, op, op_outputs

_DIRECTIONS = {
    direction: (direction, direction_count)
    for direction, direction_count in (("forward", 1), ("reverse", 1))
}
_DIRECTIONS["bidirectional"] = ("bidirectional", 2)


@layer("LSTMSequence")
def _lstm(layer_call: LayerCall) -> LayerOutputs:
    """Convert LSTMSequence, and reorder the gates from f, i, c, o to i, o, f, c."""
    if layer_call.read_bool("input_forget", False) or layer_call.input_count > 7:
        raise layer_call.unsupported_error("with peepholes or coupled gates cannot be read")
    gate_order = (1, 3, 0, 2)
    weights, recurrence_weights = (
        _reorder_gates(layer_call, input_index, 4, gate_order) for input_index in (4, 5)
    )
    gate_biases = (
        _append_state_bias(layer_call, _reorder_gates(layer_call, 6, 4, gate_order), 4)
        if layer_call.input_count > 6
        else None
    )
    x, *initial_states = (
        _swap_first_axes(layer_call.input(input_index)) for input_index in (0, 1, 2)
    )
    onnx_attributes = _attributes(layer_call, "sigmoid,tanh,tanh")
    sequence_lengths = cast(layer_call.int64_vector(3), "int32")
    state_sequence, final_state, final_cell = op_outputs(
        3,
        "LSTM",
        x,
        weights,
        recurrence_weights,
        gate_biases,
        sequence_lengths,
        *initial_states,
        **onnx_attributes,
    )
    return (
        _to_openvino_order(state_sequence),
        _swap_first_axes(final_state),
        _swap_first_axes(final_cell),
    )


@layer("GRUSequence")
def _gru(layer_call: LayerCall) -> LayerOutputs:
    """Convert GRUSequence, which has a fourth bias if `linear_before_reset` is true."""
    linear_before_reset = layer_call.read_bool("linear_before_reset", False)
    gate_biases: Term | None = None
    if layer_call.input_count > 5 and linear_before_reset:
        update_bias, reset_bias, candidate_bias, candidate_state_bias = _split(layer_call, 5, 4)
        zero_biases = _zero_bias(layer_call, 2)
        gate_biases = op(
            "Concat",
            update_bias,
            reset_bias,
            candidate_bias,
            zero_biases,
            candidate_state_bias,
            axis=1,
        )
    elif layer_call.input_count > 5:
        gate_biases = _append_state_bias(layer_call, layer_call.input(5), 3)
    onnx_attributes = {
        **_attributes(layer_call, "sigmoid,tanh"),
        "linear_before_reset": int(linear_before_reset),
    }
    return _convert_without_cell(layer_call, "GRU", gate_biases, onnx_attributes)


@layer("RNNSequence")
def _rnn(layer_call: LayerCall) -> LayerOutputs:
    gate_biases = (
        _append_state_bias(layer_call, layer_call.input(5), 1)
        if layer_call.input_count > 5
        else None
    )
    return _convert_without_cell(layer_call, "RNN", gate_biases, _attributes(layer_call, "tanh"))


def _convert_without_cell(
    layer_call: LayerCall, op_type: str, gate_biases: Term | None, attributes: dict[str, object]
) -> LayerOutputs:
    x, initial_state = _swap_first_axes(layer_call.input(0)), _swap_first_axes(layer_call.input(1))
    sequence_lengths = cast(layer_call.int64_vector(2), "int32")
    input_and_recurrence_weights = layer_call.input(3), layer_call.input(4)
    state_sequence, final_state = op_outputs(
        2,
        op_type,
        x,
        *input_and_recurrence_weights,
        gate_biases,
        sequence_lengths,
        initial_state,
        **attributes,
    )
    return _to_openvino_order(state_sequence), _swap_first_axes(final_state)


def _swap_first_axes(value: Term) -> Term:
    """Swap the batch axis with the time axis, or with the direction axis."""
    return op("Transpose", value, perm=[1, 0, 2])


def _to_openvino_order(value: Term) -> Term:
    """Transpose [time, direction, batch, hidden] to [batch, direction, time, hidden]."""
    return op("Transpose", value, perm=[2, 1, 0, 3])


def _attributes(layer_call: LayerCall, default: str) -> dict[str, object]:
    direction, direction_count = layer_call.read_choice("direction", _DIRECTIONS, "forward")
    if layer_call.read_float("clip", 0.0):
        raise layer_call.unsupported_error("with clip cannot be read")
    activations = activation_functions(layer_call, default) * direction_count
    return {
        "direction": direction,
        "hidden_size": _hidden_size(layer_call),
        "activations": activations,
    }


def _hidden_size(layer_call: LayerCall) -> int:
    hidden_size = layer_call.read_integer("hidden_size")
    if not 0 < hidden_size <= 2**24:
        raise ModelError(f"the hidden_size cannot be {hidden_size}", layer_call.layer.location)
    return hidden_size


def _split(layer_call: LayerCall, position: int, gate_count: int) -> tuple[Term, ...]:
    gate_lengths = np.full(gate_count, _hidden_size(layer_call), np.int64)
    return op_outputs(gate_count, "Split", layer_call.input(position), gate_lengths, axis=1)


def _reorder_gates(
    layer_call: LayerCall, input_index: int, count: int, order: tuple[int, ...]
) -> Term:
    """Return a weight matrix with its gates in another order."""
    gate_terms = _split(layer_call, input_index, count)
    return op("Concat", *(gate_terms[gate_index] for gate_index in order), axis=1)


def _zero_bias(layer_call: LayerCall, gates: int) -> Term:
    _, direction_count = layer_call.read_choice("direction", _DIRECTIONS, "forward")
    zero_bias = np.zeros((1, 1), numpy_dtype(layer_call.dtype()))
    return op("Expand", zero_bias, int64_array(direction_count, gates * _hidden_size(layer_call)))


def _append_state_bias(layer_call: LayerCall, bias: Term, gates: int) -> Term:
    """Append a zero bias for the state to the bias of the input, as ONNX expects both."""
    return op("Concat", bias, _zero_bias(layer_call, gates), axis=1)
