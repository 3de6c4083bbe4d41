"""Decompositions of RNN, GRU and LSTM into a loop over time, for any dtype with arithmetic.

Source: ONNX operators, RNN-14, GRU-14, LSTM-14.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from msgspec import Struct

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Carried, Loop, Op, Recorded, Value
from mdf_loop.ops.build_helpers import cast, ints
from mdf_loop.ops.decompositions.activations import clip
from mdf_loop.ops.decompositions.build_helpers import (
    attribute,
    constant_like,
    operand,
    optional_operand,
    scale,
    shift,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder

Activation: TypeAlias = "Callable[[Builder, Value], Value]"


# --- activation functions ---------------------------------------------------------------------


def _activation_without_attributes(op_type: str) -> Callable[..., Value]:
    return lambda b, x, *numbers: b.op(op_type, x)


def _activation_with_attributes(op_type: str, *names: str) -> Callable[..., Value]:
    return lambda b, x, *numbers: b.op(op_type, x, **dict(zip(names, numbers, strict=True)))


def _affine(b: Builder, x: Value, alpha: float, beta: float) -> Value:
    return shift(b, scale(b, x, alpha), beta)


def _scaled_tanh(b: Builder, x: Value, alpha: float, beta: float) -> Value:
    return scale(b, b.op("Tanh", scale(b, x, beta)), alpha)


_ACTIVATIONS: dict[str, tuple[Callable[..., Value], tuple[float, ...]]] = {
    "relu": (_activation_without_attributes("Relu"), ()),
    "tanh": (_activation_without_attributes("Tanh"), ()),
    "sigmoid": (_activation_without_attributes("Sigmoid"), ()),
    "softsign": (_activation_without_attributes("Softsign"), ()),
    "softplus": (_activation_without_attributes("Softplus"), ()),
    "affine": (_affine, (1.0, 0.0)),
    "scaledtanh": (_scaled_tanh, (1.0, 1.0)),
    "leakyrelu": (_activation_with_attributes("LeakyRelu", "alpha"), (0.01,)),
    "thresholdedrelu": (_activation_with_attributes("ThresholdedRelu", "alpha"), (1.0,)),
    "hardsigmoid": (_activation_with_attributes("HardSigmoid", "alpha", "beta"), (0.2, 0.5)),
    "elu": (_activation_with_attributes("Elu", "alpha"), (1.0,)),
}
"""Activation functions and their default alpha and beta, by name in lower case."""


def _read_activations(
    op: Op, default_names: Sequence[str], directions: int
) -> list[list[Activation]]:
    """Return the activation functions of each direction of a recurrent layer.

    The parameters alpha and beta are bound to the functions.

    The attributes list alphas and betas in the order of the activations that need them. `clip` bounds the inputs
    of the gates, but not the cell of an LSTM, as ONNX Runtime's float32 kernel does.
    """
    activation_names = list(op.attributes.get("activations") or [*default_names] * directions)
    parameters_by_name = [
        list(op.attributes.get(f"activation_{parameter_name}") or ())
        for parameter_name in ("alpha", "beta")
    ]
    clip_limit = op.attributes.get("clip")
    activations, count_per_direction = [], len(default_names)
    for position, activation_name in enumerate(activation_names):
        if activation_name.lower() not in _ACTIVATIONS:
            raise UnsupportedError(f"onnx::{op.op_type} has no activation '{activation_name}'")
        activation_function, default_parameters = _ACTIVATIONS[activation_name.lower()]
        activation_parameters = [
            explicit_parameters.pop(0) if explicit_parameters else default_parameter
            for explicit_parameters, default_parameter in zip(
                parameters_by_name, default_parameters, strict=False
            )
        ]
        is_gate = (
            position % count_per_direction < 2
        )  # The third activation of an LSTM gets the cell unclipped.
        activations.append(
            _bind_activation(
                activation_function, activation_parameters, clip_limit if is_gate else None
            )
        )
    return [
        activations[k * count_per_direction : (k + 1) * count_per_direction]
        for k in range(directions)
    ]


def _bind_activation(
    function: Callable[..., Value], parameters: Sequence[float], limit: float | None
) -> Activation:
    def apply(b: Builder, x: Value) -> Value:
        return function(b, x if limit is None else clip(b, x, -limit, limit), *parameters)

    return apply


# --- cells: one step --------------------------------------------------------------------------


class _Weights(Struct, frozen=True):
    """Weights and activation functions of one direction of a recurrent layer.

    `recurrent_weights` is multiplied with the state, then `recurrent_bias` is added. `candidate_weights` is multiplied
    with the reset state of a GRU.
    """

    activations: list[Activation]
    recurrent_weights: Value
    candidate_weights: Value | None
    recurrent_bias: Value | None
    peepholes: tuple[Value, ...]
    hidden_size: int


def _split_last_axis(b: Builder, x: Value, parts: int) -> tuple[Value, ...]:
    return b.multi("Split", x, output_count=parts, axis=-1)


def _rnn_cell(b: Builder, op: Op, weights: _Weights, x: Value, states: list[Value]) -> list[Value]:
    """Build one time step of an RNN: the hidden state `h = f(x + h R')`."""
    return [
        weights.activations[0](
            b, b.op("Add", x, b.op("MatMul", states[0], weights.recurrent_weights))
        )
    ]


def _lstm_cell(b: Builder, op: Op, weights: _Weights, x: Value, states: list[Value]) -> list[Value]:
    """Build one time step of an LSTM, and return the new hidden state and cell state.

    c = f(F) * c + f(I) * g(C);  h = f(O) * h(c)

    The sums I, O, F and C of the gates are the four parts of `x + h R'`.
    """
    gate_activation, cell_activation, output_activation = weights.activations
    hidden_state, cell_state = states
    gate_sums = b.op("Add", x, b.op("MatMul", hidden_state, weights.recurrent_weights))
    input_sum, output_sum, forget_sum, candidate_sum = _split_last_axis(b, gate_sums, 4)

    def gate(gate_sum: Value, position: int, memory: Value) -> Value:
        if weights.peepholes:
            gate_sum = b.op("Add", gate_sum, b.op("Mul", weights.peepholes[position], memory))
        return gate_activation(b, gate_sum)

    input_gate = gate(input_sum, 0, cell_state)
    if attribute(op, "input_forget"):
        forget_gate = b.op("Sub", constant_like(b, 1, x), input_gate)
    else:
        forget_gate = gate(forget_sum, 2, cell_state)
    cell_state = b.op(
        "Add",
        b.op("Mul", forget_gate, cell_state),
        b.op("Mul", input_gate, cell_activation(b, candidate_sum)),
    )
    return [
        b.op("Mul", gate(output_sum, 1, cell_state), output_activation(b, cell_state)),
        cell_state,
    ]


def _gru_cell(b: Builder, op: Op, weights: _Weights, x: Value, states: list[Value]) -> list[Value]:
    """Build one time step of a GRU from its update gate z and reset gate r.

    `h = (1 - z) * g(x_h + (r * h) R_h') + z * h` with z, r = f(x + h R')

    With `linear_before_reset` the reset multiplies after the product: `r * (h R_h' + b_h)`.
    """
    gate_activation, state_activation = weights.activations
    hidden_state, split_sizes = states[0], ints(b, 2 * weights.hidden_size, weights.hidden_size)
    gate_sums, candidate_sum = b.multi("Split", x, split_sizes, output_count=2, axis=-1)
    recurrent_gates = b.op("MatMul", hidden_state, weights.recurrent_weights)
    if weights.candidate_weights is None:
        recurrent_gates = (
            recurrent_gates
            if weights.recurrent_bias is None
            else b.op("Add", recurrent_gates, weights.recurrent_bias)
        )
        recurrent_gates, recurrent_candidate = b.multi(
            "Split", recurrent_gates, split_sizes, output_count=2, axis=-1
        )
    update_gate, reset_gate = _split_last_axis(
        b, gate_activation(b, b.op("Add", gate_sums, recurrent_gates)), 2
    )
    if weights.candidate_weights is None:
        recurrent_term = b.op("Mul", reset_gate, recurrent_candidate)
    else:
        recurrent_term = b.op(
            "MatMul", b.op("Mul", reset_gate, hidden_state), weights.candidate_weights
        )
    candidate_state = state_activation(b, b.op("Add", candidate_sum, recurrent_term))
    complement = b.op("Sub", constant_like(b, 1, x), update_gate)
    return [
        b.op(
            "Add", b.op("Mul", complement, candidate_state), b.op("Mul", update_gate, hidden_state)
        )
    ]


_Cell: TypeAlias = "Callable[[Builder, Op, _Weights, Value, list[Value]], list[Value]]"

_CELLS: dict[str, tuple[_Cell, tuple[str, ...], int]] = {
    "RNN": (_rnn_cell, ("Tanh",), 1),
    "GRU": (_gru_cell, ("Sigmoid", "Tanh"), 3),
    "LSTM": (_lstm_cell, ("Sigmoid", "Tanh", "Tanh"), 4),
}
"""Step functions, default activations and numbers of gates, by operator."""

_IS_BACKWARD_BY_DIRECTION = {
    "forward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}


# --- the loop over time -----------------------------------------------------------------------


def recurrent(b: Builder, op: Op) -> tuple[Value, ...]:
    """Build the hidden states and the final states of an RNN, GRU or LSTM as a loop over time.

    The shapes are `[time, direction, batch, n]` and `[direction, batch, n]`.

    for each direction: state = cell(x[t] W' + biases, state) for t in time (from its end)
    """
    is_batch_first = bool(attribute(op, "layout"))
    x = operand(op)
    x = b.op("Transpose", x, perm=(1, 0, 2)) if is_batch_first else x
    backward_flags = _IS_BACKWARD_BY_DIRECTION[attribute(op, "direction")]
    activations_by_direction = _read_activations(op, _CELLS[op.op_type][1], len(backward_flags))
    direction_results = [
        _build_direction(b, op, x, k, is_backward, activations_by_direction[k])
        for k, is_backward in enumerate(backward_flags)
    ]
    joined_results = []
    for position, direction_values in enumerate(zip(*direction_results, strict=True)):
        axis = 1 if position == 0 else 0
        unsqueezed_values = [
            b.op("Unsqueeze", direction_value, ints(b, axis))
            for direction_value in direction_values
        ]
        joined_result = (
            unsqueezed_values[0]
            if len(unsqueezed_values) == 1
            else b.op("Concat", *unsqueezed_values, axis=axis)
        )
        if is_batch_first:
            joined_result = b.op(
                "Transpose", joined_result, perm=(2, 0, 1, 3) if position == 0 else (1, 0, 2)
            )
        joined_results.append(joined_result)
    return tuple(joined_results[: len(op.outputs)])


def _build_direction(
    b: Builder, op: Op, x: Value, k: int, is_backward: bool, functions: list[Activation]
) -> list[Value]:
    """Build one direction of a recurrent layer: its hidden states and its final states.

    An LSTM has a final cell state besides the final hidden state.
    """
    sequence_lengths = optional_operand(op, 4)
    x = _reverse_time(b, x, sequence_lengths) if is_backward else x
    input_products, direction_weights = _prepare_direction(b, op, x, k, functions)
    initial_states = _initial_states(b, op, x, k, direction_weights.hidden_size)
    hidden_states, *final_states = _build_time_loop(
        b, op, input_products, direction_weights, initial_states, sequence_lengths
    )
    return [
        _reverse_time(b, hidden_states, sequence_lengths) if is_backward else hidden_states,
        *final_states,
    ]


def _reverse_time(b: Builder, x: Value, lengths: Value | None) -> Value:
    if lengths is None:
        return b.op(
            "Slice", x, ints(b, -1), ints(b, np.iinfo(np.int64).min), ints(b, 0), ints(b, -1)
        )
    int64_lengths = cast(b, lengths, "int64")
    return b.op("ReverseSequence", x, int64_lengths, time_axis=0, batch_axis=1)


def _prepare_direction(
    b: Builder, op: Op, x: Value, k: int, functions: list[Activation]
) -> tuple[Value, _Weights]:
    """Build `x W' + biases` for all time steps, and the weights that the time loop reads."""
    direction_index = b.constant(np.array(k))
    input_weights, stored_recurrent_weights = (
        b.op("Gather", operand(op, position), direction_index, axis=0) for position in (1, 2)
    )
    input_products = b.op("MatMul", x, b.op("Transpose", input_weights, perm=(1, 0)))
    recurrent_weights, hidden_size = (
        b.op("Transpose", stored_recurrent_weights, perm=(1, 0)),
        _hidden_size(op),
    )
    resets_before_product = op.op_type == "GRU" and not attribute(op, "linear_before_reset")
    candidate_weights, recurrent_bias = None, None
    if resets_before_product:
        split_sizes = ints(b, 2 * hidden_size, hidden_size)
        recurrent_weights, candidate_weights = b.multi(
            "Split", recurrent_weights, split_sizes, output_count=2, axis=-1
        )
    biases, peepholes = optional_operand(op, 3), optional_operand(op, 7)
    if biases is not None:
        input_bias, recurrent_bias = _split_last_axis(
            b, b.op("Gather", biases, direction_index, axis=0), 2
        )
        if op.op_type != "GRU" or resets_before_product:
            input_bias, recurrent_bias = b.op("Add", input_bias, recurrent_bias), None
        input_products = b.op("Add", input_products, input_bias)
    direction_peepholes = (
        ()
        if peepholes is None
        else _split_last_axis(b, b.op("Gather", peepholes, direction_index, axis=0), 3)
    )
    return input_products, _Weights(
        functions,
        recurrent_weights,
        candidate_weights,
        recurrent_bias,
        direction_peepholes,
        hidden_size,
    )


def _hidden_size(op: Op) -> int:
    """Return the number of hidden units of a recurrent layer from an attribute or the weights' shape."""
    hidden_size: Any = op.attributes.get("hidden_size")
    recurrent_weights_shape = operand(op, 2).shape
    if hidden_size is None and recurrent_weights_shape is not None:
        hidden_size = recurrent_weights_shape[-1]
    if not isinstance(hidden_size, int):
        raise UnsupportedError(f"onnx::{op.op_type} needs 'hidden_size'")
    return hidden_size


def _initial_states(b: Builder, op: Op, x: Value, k: int, hidden: int) -> list[Value]:
    """Return the initial states of one direction of a recurrent layer, with zeros if omitted."""
    direction_axis = 1 if attribute(op, "layout") else 0
    batch_size = None if x.shape is None else x.shape[1]
    batch_extent = (
        ints(b, batch_size) if isinstance(batch_size, int) else b.op("Shape", x, start=1, end=2)
    )
    state_shape = b.op("Concat", batch_extent, ints(b, hidden), axis=0)
    state_values = []
    for position in (5, 6) if op.op_type == "LSTM" else (5,):
        states_operand = optional_operand(op, position)
        if states_operand is None:
            state_values.append(b.op("Expand", constant_like(b, 0, x), state_shape))
        else:
            state_values.append(
                b.op("Gather", states_operand, b.constant(np.array(k)), axis=direction_axis)
            )
    return state_values


def _build_time_loop(
    b: Builder,
    op: Op,
    input_products: Value,
    weights: _Weights,
    states: list[Value],
    lengths: Value | None,
) -> list[Value]:
    """Build the time loop of a recurrent layer, and return its hidden states and final states."""
    cell_function = _CELLS[op.op_type][0]
    step_count = None if input_products.shape is None else input_products.shape[0]
    if isinstance(step_count, int):
        trip_count = b.constant(np.array(step_count))
    else:
        trip_count = b.op("Squeeze", b.op("Shape", input_products, start=0, end=1), ints(b, 0))
    body = b.body()
    time_index, loop_condition = (
        body.new("int64", (), f"{b.label}:time"),
        body.new("bool", (), f"{b.label}:go"),
    )
    initial_values = [body.new(state.dtype, state.shape, f"{b.label}:state") for state in states]
    x = body.op("Gather", input_products, time_index, axis=0)
    final_values = cell_function(body, op, weights, x, initial_values)
    hidden_row = final_values[0]
    if lengths is not None:
        is_running = body.op("Less", time_index, cast(body, lengths, "int64"))
        is_running = body.op("Unsqueeze", is_running, ints(body, 1))
        hidden_row = body.op("Where", is_running, hidden_row, constant_like(body, 0, hidden_row))
        state_pairs = zip(final_values, initial_values, strict=True)
        final_values = [
            body.op("Where", is_running, final_value, initial_value)
            for final_value, initial_value in state_pairs
        ]
    final_outputs = [b.new(state.dtype, state.shape, f"{b.label}:last") for state in states]
    stack_shape = (
        None
        if hidden_row.shape is None
        else ((input_products.shape or ("?",))[0], *hidden_row.shape)
    )
    stacked_rows = b.new(hidden_row.dtype, stack_shape, f"{b.label}:states")
    loop = Loop(
        name=b.name(f"{b.label}:{op.op_type}"),
        trip_count=trip_count,
        condition=None,
        iteration=time_index,
        condition_in=loop_condition,
        condition_out=None,
        carried=tuple(map(Carried, states, initial_values, final_values, final_outputs)),
        recorded=(Recorded(hidden_row, stacked_rows),),
        ops=tuple(body.ops),
        where=b.where,
    )
    b.append(loop)
    return [stacked_rows, *final_outputs]
