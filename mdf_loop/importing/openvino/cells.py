"""Conversion of the OpenVINO layers RNNCell, GRUCell and LSTMCell to ONNX operators.

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
    """Return the ONNX names of the activation functions of a recurrent layer.

    The layer must have as many functions as `default`.
    """
    function_names = [
        function_name.strip() for function_name in call.text("activations", default).split(",")
    ]
    if len(function_names) != len(default.split(",")):
        raise ModelError(f"a {call.layer.type} has activations like {default}", call.layer.where)
    for function_name in function_names:
        if function_name not in _ACTIVATIONS:
            raise call.unsupported(f"with the activation '{function_name}' cannot be read")
    return [_ACTIVATIONS[function_name] for function_name in function_names]


def _activations(call: LayerCall, default: str) -> list[Callable[[Term], OnnxOp]]:
    return [partial(op, name) for name in activation_functions(call, default)]


def _clip(call: LayerCall, x: Term) -> Term:
    clip_bound = call.read_float("clip", 0.0)
    return op("Clip", x, call.number(-clip_bound), call.number(clip_bound)) if clip_bound else x


def _multiply_by_transposed(x: Term, weights: Term) -> OnnxOp:
    """Multiply a value by the transpose of a weight matrix."""
    return op("MatMul", x, op("Transpose", weights, perm=[1, 0]))


def _split_gates(call: LayerCall, value: Term, count: int, axis: int) -> list[Term]:
    """Split a value into equal blocks of `hidden_size` elements, one block for each gate."""
    hidden_size = call.read_integer("hidden_size")
    if not 0 < hidden_size <= 2**31:
        raise ModelError(f"the hidden_size cannot be {hidden_size}", call.layer.where)
    lengths = np.full(count, hidden_size, np.int64)
    return list(op_outputs(count, "Split", value, lengths, axis=axis))


@layer("RNNCell")
def _rnn_cell(call: LayerCall) -> Result:
    """Convert RNNCell: `f(X W' + H R' + B)`."""
    (activation,) = _activations(call, "tanh")
    x, state, weights, recurrence = call.required_inputs(4)
    preactivation: Term = op(
        "Add", _multiply_by_transposed(x, weights), _multiply_by_transposed(state, recurrence)
    )
    if call.count > 4:
        preactivation = op("Add", preactivation, call.input(4))
    return activation(_clip(call, preactivation))


@layer("LSTMCell")
def _lstm_cell(call: LayerCall) -> Result:
    """Convert LSTMCell, whose gates are f, i, c, o: new cell `f C + i c`, new state `o h(new cell)`."""
    if call.text("weights_format", "fico") != "fico":
        raise call.unsupported("with weights in another order than fico cannot be read")
    if call.read_bool("input_forget", False) or call.count > 6:
        raise call.unsupported("with peepholes or coupled gates cannot be read")
    gate_function, candidate_function, output_activation = _activations(call, "sigmoid,tanh,tanh")
    x, state, cell, weights, recurrence = call.required_inputs(5)
    preactivation: Term = op(
        "Add", _multiply_by_transposed(x, weights), _multiply_by_transposed(state, recurrence)
    )
    if call.count > 5:
        preactivation = op("Add", preactivation, call.input(5))
    forget_gate, input_gate, candidate_gate, output_gate = (
        _clip(call, gate) for gate in _split_gates(call, preactivation, 4, 1)
    )
    retained_cell = op("Mul", gate_function(forget_gate), cell)
    next_cell = op(
        "Add",
        retained_cell,
        op("Mul", gate_function(input_gate), candidate_function(candidate_gate)),
    )
    next_state = op("Mul", gate_function(output_gate), output_activation(next_cell))
    return (next_state, next_cell)[: len(call.layer.outputs)]


@layer("GRUCell")
def _gru_cell(call: LayerCall) -> Result:
    """Convert GRUCell, with gates z, r and candidate `h(X, r H)`: new state `(1 - z) h + z H`.

    With `linear_before_reset`, r multiplies H R' + B instead of H.
    """
    gate_function, candidate_function = _activations(call, "sigmoid,tanh")
    linear_before_reset = call.read_bool("linear_before_reset", False)
    x, state, weights, recurrence = call.required_inputs(4)
    biases = (
        _split_gates(call, call.input(4), 4 if linear_before_reset else 3, 0)
        if call.count > 4
        else []
    )
    update_input, reset_input, candidate_input = _split_gates(
        call, _multiply_by_transposed(x, weights), 3, 1
    )
    update_recurrence, reset_recurrence, candidate_recurrence = _split_gates(call, recurrence, 3, 0)
    update_gate, reset_gate = (
        gate_function(
            _clip(
                call,
                _add_terms(
                    gate_input,
                    _multiply_by_transposed(state, gate_recurrence),
                    *biases[gate_index : gate_index + 1],
                ),
            )
        )
        for gate_index, (gate_input, gate_recurrence) in enumerate(
            ((update_input, update_recurrence), (reset_input, reset_recurrence))
        )
    )
    if linear_before_reset:
        state_part: Term = op(
            "Mul",
            reset_gate,
            _add_terms(_multiply_by_transposed(state, candidate_recurrence), *biases[3:4]),
        )
    else:
        state_part = _multiply_by_transposed(op("Mul", reset_gate, state), candidate_recurrence)
    candidate_state = candidate_function(
        _clip(call, _add_terms(candidate_input, state_part, *biases[2:3]))
    )
    one_minus_update = op("Sub", call.number(1), update_gate)
    return op("Add", op("Mul", one_minus_update, candidate_state), op("Mul", update_gate, state))


def _add_terms(term_sum: Term, *other_terms: Term) -> Term:
    for term in other_terms:
        term_sum = op("Add", term_sum, term)
    return term_sum
