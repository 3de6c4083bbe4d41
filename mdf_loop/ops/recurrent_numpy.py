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

Activation: TypeAlias = Callable[[Array], Array]


def _softplus(x: Array) -> Any:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


_ACTIVATIONS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
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
    """Weights and activation functions of one direction of a recurrent layer.

    Absent biases and peepholes are zeros.
    """

    activations: Sequence[Activation]
    input_weights: Array
    recurrent_weights: Array
    input_bias: Array
    recurrent_bias: Array
    peepholes: Sequence[Array]
    attributes: Mapping[str, Any]


def _rnn_step(layer: _Layer, x: Array, hidden: Array) -> tuple[Array, ...]:
    input_sum = x @ layer.input_weights.T + layer.input_bias
    return (
        layer.activations[0](input_sum + hidden @ layer.recurrent_weights.T + layer.recurrent_bias),
    )


def _gru_step(layer: _Layer, x: Array, hidden: Array) -> tuple[Array, ...]:
    gate_activation, state_activation = layer.activations
    update_sum, reset_sum, candidate_sum = np.split(
        x @ layer.input_weights.T + layer.input_bias, 3, axis=-1
    )
    recurrent_weights, gate_biases = (
        np.split(layer.recurrent_weights, 3),
        np.split(layer.recurrent_bias, 3),
    )
    update_gate = gate_activation(update_sum + hidden @ recurrent_weights[0].T + gate_biases[0])
    reset_gate = gate_activation(reset_sum + hidden @ recurrent_weights[1].T + gate_biases[1])
    if layer.attributes.get("linear_before_reset"):
        recurrent_term = reset_gate * (hidden @ recurrent_weights[2].T + gate_biases[2])
    else:
        recurrent_term = (reset_gate * hidden) @ recurrent_weights[2].T + gate_biases[2]
    return (
        (1 - update_gate) * state_activation(candidate_sum + recurrent_term) + update_gate * hidden,
    )


def _lstm_step(layer: _Layer, x: Array, hidden: Array, cell: Array) -> tuple[Array, ...]:
    gate_activation, cell_activation, output_activation = layer.activations
    input_sum = x @ layer.input_weights.T + layer.input_bias
    gate_sums = input_sum + hidden @ layer.recurrent_weights.T + layer.recurrent_bias
    input_gate_sum, output_gate_sum, forget_gate_sum, candidate_sum = np.split(
        gate_sums, 4, axis=-1
    )
    input_gate = gate_activation(input_gate_sum + layer.peepholes[0] * cell)
    forget_gate = 1 - input_gate
    if not layer.attributes.get("input_forget"):
        forget_gate = gate_activation(forget_gate_sum + layer.peepholes[2] * cell)
    cell = forget_gate * cell + input_gate * cell_activation(candidate_sum)
    return gate_activation(output_gate_sum + layer.peepholes[1] * cell) * output_activation(
        cell
    ), cell


_CELLS: dict[str, tuple[Callable[..., tuple[Array, ...]], tuple[str, ...]]] = {
    "RNN": (_rnn_step, ("Tanh",)),
    "GRU": (_gru_step, ("Sigmoid", "Tanh")),
    "LSTM": (_lstm_step, ("Sigmoid", "Tanh", "Tanh")),
}
"""Step functions and default activations, by operator."""

_IS_BACKWARD_BY_DIRECTION = {
    "forward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}


def compute_recurrent(op_type: str, *arrays: Array | None, **attributes: Any) -> tuple[Array, ...]:
    """Compute the hidden states and the final states of RNN, GRU or LSTM.

    Args:
        op_type: RNN, GRU or LSTM.
        arrays: X `[time, batch, n]`, W, R, B, sequence_lens, initial_h, initial_c, P; None is absent.
        **attributes: the attributes of the operator.

    Returns:
        Y `[time, direction, batch, hidden]`, Y_h `[direction, batch, hidden]`, and Y_c of an LSTM.

    Raises:
        UnsupportedError: an activation that ONNX does not have.
    """
    operands = [*arrays, *[None] * (8 - len(arrays))]
    if attributes.get("layout"):
        operands = [
            array if array is None or k not in (0, 5, 6) else array.swapaxes(0, 1)
            for k, array in enumerate(operands)
        ]
    backward_flags = _IS_BACKWARD_BY_DIRECTION[_decode_text(attributes.get("direction", "forward"))]
    activations_by_direction = _read_activations(op_type, attributes, len(backward_flags))
    direction_results = [
        _compute_direction(
            op_type, operands, activations_by_direction[k], k, is_backward, attributes
        )
        for k, is_backward in enumerate(backward_flags)
    ]
    hidden_states = np.stack(
        [direction_result[0] for direction_result in direction_results], axis=1
    )
    final_states = [
        np.stack(states_by_direction)
        for states_by_direction in zip(
            *(direction_result[1] for direction_result in direction_results), strict=True
        )
    ]
    if attributes.get("layout"):
        return hidden_states.transpose(2, 0, 1, 3), *(
            final_state.swapaxes(0, 1) for final_state in final_states
        )
    return hidden_states, *final_states


def _decode_text(text: Any) -> str:
    return text.decode() if isinstance(text, bytes) else str(text)


def _read_activations(
    op_type: str, attributes: Mapping[str, Any], directions: int
) -> list[list[Activation]]:
    """Return the activation functions of each direction of a recurrent layer.

    `clip` bounds the inputs of the gates, not the cell of an LSTM.
    """
    default_names = _CELLS[op_type][1]
    activation_names = [*(attributes.get("activations") or [*default_names] * directions)]
    remaining_parameters = [
        [*(attributes.get(f"activation_{parameter_name}") or ())]
        for parameter_name in ("alpha", "beta")
    ]
    activations = []
    for position, activation_name in enumerate(map(_decode_text, activation_names)):
        if activation_name.lower() not in _ACTIVATIONS:
            raise UnsupportedError(f"onnx::{op_type} has no activation '{activation_name}'")
        activation_function, default_parameters = _ACTIVATIONS[activation_name.lower()]
        activation_parameters = [
            explicit_parameters.pop(0) if explicit_parameters else default_parameter
            for explicit_parameters, default_parameter in zip(
                remaining_parameters, default_parameters, strict=False
            )
        ]
        clip_limit = attributes.get("clip") if position % len(default_names) < 2 else None
        activations.append(_bind_activation(activation_function, activation_parameters, clip_limit))
    return [
        activations[k * len(default_names) : (k + 1) * len(default_names)]
        for k in range(directions)
    ]


def _bind_activation(
    function: Callable[..., Any], parameters: Sequence[float], limit: float | None
) -> Activation:
    def apply(x: Array) -> Array:
        x = x if limit is None else np.clip(x, -limit, limit)
        return np.asarray(function(x, *(x.dtype.type(number) for number in parameters)), x.dtype)

    return apply


def _compute_direction(
    op_type: str,
    operands: Sequence[Any],
    functions: Sequence[Activation],
    k: int,
    backwards: bool,
    attributes: Mapping[str, Any],
) -> tuple[Array, tuple[Array, ...]]:
    """Compute the hidden states and the final states of one direction of a recurrent layer.

    A sequence that has ended keeps its states.
    """
    x, input_weights, recurrent_weights, biases, lengths_operand, *initial_states, peepholes = (
        operands
    )
    hidden_size = recurrent_weights.shape[-1]
    direction_biases = (
        np.zeros((2 * input_weights.shape[1],), x.dtype) if biases is None else biases[k]
    )
    direction_peepholes = (
        np.zeros((3 * hidden_size,), x.dtype) if peepholes is None else peepholes[k]
    )
    input_bias, recurrent_bias = np.split(direction_biases, 2)
    gate_peepholes = np.split(direction_peepholes, 3)
    layer = _Layer(
        functions,
        input_weights[k],
        recurrent_weights[k],
        input_bias,
        recurrent_bias,
        gate_peepholes,
        attributes,
    )
    step_count, batch_size = x.shape[:2]
    sequence_lengths = (
        np.full(batch_size, step_count) if lengths_operand is None else np.asarray(lengths_operand)
    )
    state_arrays = tuple(
        np.zeros((batch_size, hidden_size), x.dtype) if initial_state is None else initial_state[k]
        for initial_state in initial_states[: 2 if op_type == "LSTM" else 1]
    )
    hidden_states = np.zeros((step_count, batch_size, hidden_size), x.dtype)
    batch_indices = np.arange(batch_size)
    for step in range(step_count):
        is_running = step < sequence_lengths
        time_indices = np.where(is_running, sequence_lengths - 1 - step if backwards else step, 0)
        next_states = _CELLS[op_type][0](layer, x[time_indices, batch_indices], *state_arrays)
        state_arrays = tuple(
            np.where(is_running[:, None], next_state, state)
            for next_state, state in zip(next_states, state_arrays, strict=True)
        )
        hidden_states[time_indices[is_running], batch_indices[is_running]] = state_arrays[0][
            is_running
        ]
    return hidden_states, state_arrays
