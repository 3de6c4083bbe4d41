"""Conversion of the OpenVINO layers RNNCell, GRUCell and LSTMCell to ONNX operators.

Source: OpenVINO operation sets, group "Sequence processing".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import LayerCall, LayerOutputs, layer
from mdf_loop.importing.openvino.network_writer import OnnxOp, Term, op, op_outputs

_ACTIVATIONS: dict[str, str] = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}


def activation_functions(layer_call: LayerCall, default: str) -> list[str]:
    """Return the ONNX names of the activation functions of a recurrent layer.

    The layer must have as many functions as `default`.
    """
    function_names = [
        function_name.strip()
        for function_name in layer_call.read_text("activations", default).split(",")
    ]
    if len(function_names) != len(default.split(",")):
        raise ModelError(
            f"a {layer_call.layer.type} has activations like {default}", layer_call.layer.location
        )
    for function_name in function_names:
        if function_name not in _ACTIVATIONS:
            raise layer_call.unsupported_error(
                f"with the activation '{function_name}' cannot be read"
            )
    return [_ACTIVATIONS[function_name] for function_name in function_names]


def _activations(layer_call: LayerCall, default: str) -> list[Callable[[Term], OnnxOp]]:
    return [
        partial(op, function_name) for function_name in activation_functions(layer_call, default)
    ]


def _clip(layer_call: LayerCall, x: Term) -> Term:
    clip_bound = layer_call.read_float("clip", 0.0)
    return (
        op("Clip", x, layer_call.scalar(-clip_bound), layer_call.scalar(clip_bound))
        if clip_bound
        else x
    )


def _multiply_by_transposed(x: Term, weights: Term) -> OnnxOp:
    """Multiply a value by the transpose of a weight matrix."""
    return op("MatMul", x, op("Transpose", weights, perm=[1, 0]))


def _split_gates(layer_call: LayerCall, value: Term, count: int, axis: int) -> list[Term]:
    """Split a value into equal blocks of `hidden_size` elements, one block for each gate."""
    hidden_size = layer_call.read_integer("hidden_size")
    if not 0 < hidden_size <= 2**31:
        raise ModelError(f"the hidden_size cannot be {hidden_size}", layer_call.layer.location)
    gate_lengths = np.full(count, hidden_size, np.int64)
    return list(op_outputs(count, "Split", value, gate_lengths, axis=axis))


@layer("RNNCell")
def _rnn_cell(layer_call: LayerCall) -> LayerOutputs:
    """Convert RNNCell: `f(X W' + H R' + B)`."""
    (activation,) = _activations(layer_call, "tanh")
    x, state, weights, recurrence_weights = layer_call.required_inputs(4)
    preactivation: Term = op(
        "Add",
        _multiply_by_transposed(x, weights),
        _multiply_by_transposed(state, recurrence_weights),
    )
    if layer_call.input_count > 4:
        preactivation = op("Add", preactivation, layer_call.input(4))
    return activation(_clip(layer_call, preactivation))


@layer("LSTMCell")
def _lstm_cell(layer_call: LayerCall) -> LayerOutputs:
    """Convert LSTMCell, whose gates are f, i, c, o: new cell `f C + i c`, new state `o h(new cell)`."""
    if layer_call.read_text("weights_format", "fico") != "fico":
        raise layer_call.unsupported_error("with weights in another order than fico cannot be read")
    if layer_call.read_bool("input_forget", False) or layer_call.input_count > 6:
        raise layer_call.unsupported_error("with peepholes or coupled gates cannot be read")
    gate_function, candidate_function, output_activation = _activations(
        layer_call, "sigmoid,tanh,tanh"
    )
    x, state, cell, weights, recurrence_weights = layer_call.required_inputs(5)
    preactivation: Term = op(
        "Add",
        _multiply_by_transposed(x, weights),
        _multiply_by_transposed(state, recurrence_weights),
    )
    if layer_call.input_count > 5:
        preactivation = op("Add", preactivation, layer_call.input(5))
    forget_gate, input_gate, candidate_gate, output_gate = (
        _clip(layer_call, gate_term) for gate_term in _split_gates(layer_call, preactivation, 4, 1)
    )
    retained_cell = op("Mul", gate_function(forget_gate), cell)
    next_cell = op(
        "Add",
        retained_cell,
        op("Mul", gate_function(input_gate), candidate_function(candidate_gate)),
    )
    next_state = op("Mul", gate_function(output_gate), output_activation(next_cell))
    return (next_state, next_cell)[: len(layer_call.layer.output_ports)]


@layer("GRUCell")
def _gru_cell(layer_call: LayerCall) -> LayerOutputs:
    """Convert GRUCell, with gates z, r and candidate `h(X, r H)`: new state `(1 - z) h + z H`.

    With `linear_before_reset`, r multiplies H R' + B instead of H.
    """
    gate_function, candidate_function = _activations(layer_call, "sigmoid,tanh")
    linear_before_reset = layer_call.read_bool("linear_before_reset", False)
    x, state, weights, recurrence_weights = layer_call.required_inputs(4)
    gate_biases = (
        _split_gates(layer_call, layer_call.input(4), 4 if linear_before_reset else 3, 0)
        if layer_call.input_count > 4
        else []
    )
    update_input, reset_input, candidate_input = _split_gates(
        layer_call, _multiply_by_transposed(x, weights), 3, 1
    )
    update_recurrence, reset_recurrence, candidate_recurrence = _split_gates(
        layer_call, recurrence_weights, 3, 0
    )
    update_gate, reset_gate = (
        gate_function(
            _clip(
                layer_call,
                _add_terms(
                    gate_input,
                    _multiply_by_transposed(state, gate_recurrence),
                    *gate_biases[gate_index : gate_index + 1],
                ),
            )
        )
        for gate_index, (gate_input, gate_recurrence) in enumerate(
            ((update_input, update_recurrence), (reset_input, reset_recurrence))
        )
    )
    if linear_before_reset:
        candidate_state_term: Term = op(
            "Mul",
            reset_gate,
            _add_terms(_multiply_by_transposed(state, candidate_recurrence), *gate_biases[3:4]),
        )
    else:
        candidate_state_term = _multiply_by_transposed(
            op("Mul", reset_gate, state), candidate_recurrence
        )
    candidate_state = candidate_function(
        _clip(layer_call, _add_terms(candidate_input, candidate_state_term, *gate_biases[2:3]))
    )
    inverse_update_gate = op("Sub", layer_call.scalar(1), update_gate)
    return op("Add", op("Mul", inverse_update_gate, candidate_state), op("Mul", update_gate, state))


def _add_terms(term_sum: Term, *other_terms: Term) -> Term:
    for term in other_terms:
        term_sum = op("Add", term_sum, term)
    return term_sum
