"""RNN, GRU and LSTM as a loop over time, in any dtype with arithmetic.

Source: ONNX operators, RNN-14, GRU-14, LSTM-14.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from msgspec import Struct

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Carried, Loop, Op, Recorded, Value
from mdf_loop.ops.compositions.activations import clip
from mdf_loop.ops.compositions.words import attribute, number, operand, optional, scaled, shifted
from mdf_loop.ops.words import cast, ints

if TYPE_CHECKING:
    from mdf_loop.build import Builder

Activation: TypeAlias = "Callable[[Builder, Value], Value]"


# --- activation functions ---------------------------------------------------------------------


def _plain(op_type: str) -> Callable[..., Value]:
    return lambda b, x, *numbers: b.op(op_type, x)


def _with(op_type: str, *names: str) -> Callable[..., Value]:
    return lambda b, x, *numbers: b.op(op_type, x, **dict(zip(names, numbers, strict=True)))


def _affine(b: Builder, x: Value, alpha: float, beta: float) -> Value:
    return shifted(b, scaled(b, x, alpha), beta)


def _scaled_tanh(b: Builder, x: Value, alpha: float, beta: float) -> Value:
    return scaled(b, b.op("Tanh", scaled(b, x, beta)), alpha)


_ACTIVATIONS: dict[str, tuple[Callable[..., Value], tuple[float, ...]]] = {
    "relu": (_plain("Relu"), ()),
    "tanh": (_plain("Tanh"), ()),
    "sigmoid": (_plain("Sigmoid"), ()),
    "softsign": (_plain("Softsign"), ()),
    "softplus": (_plain("Softplus"), ()),
    "affine": (_affine, (1.0, 0.0)),
    "scaledtanh": (_scaled_tanh, (1.0, 1.0)),
    "leakyrelu": (_with("LeakyRelu", "alpha"), (0.01,)),
    "thresholdedrelu": (_with("ThresholdedRelu", "alpha"), (1.0,)),
    "hardsigmoid": (_with("HardSigmoid", "alpha", "beta"), (0.2, 0.5)),
    "elu": (_with("Elu", "alpha"), (1.0,)),
}
"""Name in lower case -> function, and what alpha and beta are when not given."""


def _activations(op: Op, default: Sequence[str], directions: int) -> list[list[Activation]]:
    """The functions of each direction; alphas and betas go to those that take one, in order.

    `clip` bounds what enters the gates, not an LSTM's cell: as in ONNX Runtime's float32.
    """
    names = list(op.attributes.get("activations") or [*default] * directions)
    given = [list(op.attributes.get(f"activation_{key}") or ()) for key in ("alpha", "beta")]
    limit = op.attributes.get("clip")
    made, count = [], len(default)
    for place, name in enumerate(names):
        if name.lower() not in _ACTIVATIONS:
            raise UnsupportedError(f"onnx::{op.op_type} has no activation '{name}'")
        function, defaults = _ACTIVATIONS[name.lower()]
        numbers = [g.pop(0) if g else d for g, d in zip(given, defaults, strict=False)]
        gate = place % count < 2  # the third of an LSTM takes the cell as it is
        made.append(_activation(function, numbers, limit if gate else None))
    return [made[k * count : (k + 1) * count] for k in range(directions)]


def _activation(
    function: Callable[..., Value], numbers: Sequence[float], limit: float | None
) -> Activation:
    def apply(b: Builder, x: Value) -> Value:
        return function(b, x if limit is None else clip(b, x, -limit, limit), *numbers)

    return apply


# --- cells: one step --------------------------------------------------------------------------


class _Weights(Struct, frozen=True):
    """What one direction computes with, made before the loop.

    `recurrent` meets the state, and after it `late_bias`; `candidate` meets a GRU's reset state.
    """

    functions: list[Activation]
    recurrent: Value
    candidate: Value | None
    late_bias: Value | None
    peepholes: tuple[Value, ...]
    hidden: int


def _split(b: Builder, x: Value, parts: int) -> tuple[Value, ...]:
    return b.multi("Split", x, n_outputs=parts, axis=-1)


def _rnn_cell(b: Builder, op: Op, k: _Weights, x: Value, states: list[Value]) -> list[Value]:
    """`h = f(x + h R')`."""
    return [k.functions[0](b, b.op("Add", x, b.op("MatMul", states[0], k.recurrent)))]


def _lstm_cell(b: Builder, op: Op, k: _Weights, x: Value, states: list[Value]) -> list[Value]:
    """`c = f(F) * c + f(I) * g(C);  h = f(O) * h(c)` of the gates I, O, F, C = x + h R'."""
    f, g, last = k.functions
    hidden, cell = states
    gates = b.op("Add", x, b.op("MatMul", hidden, k.recurrent))
    enter, leave, forget, new = _split(b, gates, 4)

    def gate(value: Value, place: int, memory: Value) -> Value:
        if k.peepholes:
            value = b.op("Add", value, b.op("Mul", k.peepholes[place], memory))
        return f(b, value)

    entering = gate(enter, 0, cell)
    if attribute(op, "input_forget"):
        kept = b.op("Sub", number(b, 1, x), entering)
    else:
        kept = gate(forget, 2, cell)
    cell = b.op("Add", b.op("Mul", kept, cell), b.op("Mul", entering, g(b, new)))
    return [b.op("Mul", gate(leave, 1, cell), last(b, cell)), cell]


def _gru_cell(b: Builder, op: Op, k: _Weights, x: Value, states: list[Value]) -> list[Value]:
    """`h = (1 - z) * g(x_h + (r * h) R_h') + z * h` with z, r = f(x + h R').

    With `linear_before_reset` the reset multiplies after the product: `r * (h R_h' + b_h)`.
    """
    f, g = k.functions
    hidden, at = states[0], ints(b, 2 * k.hidden, k.hidden)
    gates, new = b.multi("Split", x, at, n_outputs=2, axis=-1)
    seen = b.op("MatMul", hidden, k.recurrent)
    if k.candidate is None:
        seen = seen if k.late_bias is None else b.op("Add", seen, k.late_bias)
        seen, seen_new = b.multi("Split", seen, at, n_outputs=2, axis=-1)
    update, reset = _split(b, f(b, b.op("Add", gates, seen)), 2)
    if k.candidate is None:
        memory = b.op("Mul", reset, seen_new)
    else:
        memory = b.op("MatMul", b.op("Mul", reset, hidden), k.candidate)
    candidate = g(b, b.op("Add", new, memory))
    rest = b.op("Sub", number(b, 1, x), update)
    return [b.op("Add", b.op("Mul", rest, candidate), b.op("Mul", update, hidden))]


_Cell: TypeAlias = "Callable[[Builder, Op, _Weights, Value, list[Value]], list[Value]]"

_CELLS: dict[str, tuple[_Cell, tuple[str, ...], int]] = {
    "RNN": (_rnn_cell, ("Tanh",), 1),
    "GRU": (_gru_cell, ("Sigmoid", "Tanh"), 3),
    "LSTM": (_lstm_cell, ("Sigmoid", "Tanh", "Tanh"), 4),
}
"""Cell, its usual activations, and how many gates it has."""

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


# --- the loop over time -----------------------------------------------------------------------


def recurrent(b: Builder, op: Op) -> tuple[Value, ...]:
    """All states `[time, direction, batch, n]`, and the last ones `[direction, batch, n]`.

    for each direction: state = cell(x[t] W' + biases, state) for t in time (from its end)
    """
    batch_first = bool(attribute(op, "layout"))
    x = operand(op)
    x = b.op("Transpose", x, perm=(1, 0, 2)) if batch_first else x
    directions = _DIRECTIONS[attribute(op, "direction")]
    functions = _activations(op, _CELLS[op.op_type][1], len(directions))
    runs = [_direction(b, op, x, k, back, functions[k]) for k, back in enumerate(directions)]
    joined = []
    for position, parts in enumerate(zip(*runs, strict=True)):
        axis = 1 if position == 0 else 0
        whole = [b.op("Unsqueeze", part, ints(b, axis)) for part in parts]
        value = whole[0] if len(whole) == 1 else b.op("Concat", *whole, axis=axis)
        if batch_first:
            value = b.op("Transpose", value, perm=(2, 0, 1, 3) if position == 0 else (1, 0, 2))
        joined.append(value)
    return tuple(joined[: len(op.outputs)])


def _direction(
    b: Builder, op: Op, x: Value, k: int, backwards: bool, functions: list[Activation]
) -> list[Value]:
    """[all states, last hidden state, last cell state] of one direction."""
    lengths = optional(op, 4)
    x = _reversed(b, x, lengths) if backwards else x
    driven, weights = _driven(b, op, x, k, functions)
    states = _initial(b, op, x, k, weights.hidden)
    rows, *last = _over_time(b, op, driven, weights, states, lengths)
    return [_reversed(b, rows, lengths) if backwards else rows, *last]


def _reversed(b: Builder, x: Value, lengths: Value | None) -> Value:
    if lengths is None:
        return b.op(
            "Slice", x, ints(b, -1), ints(b, np.iinfo(np.int64).min), ints(b, 0), ints(b, -1)
        )
    whole = cast(b, lengths, "int64")
    return b.op("ReverseSequence", x, whole, time_axis=0, batch_axis=1)


def _driven(
    b: Builder, op: Op, x: Value, k: int, functions: list[Activation]
) -> tuple[Value, _Weights]:
    """`x W' + biases` for all times at once, and what is left to each step."""
    here = b.constant(np.array(k))
    w, r = (b.op("Gather", operand(op, place), here, axis=0) for place in (1, 2))
    driven = b.op("MatMul", x, b.op("Transpose", w, perm=(1, 0)))
    turned, hidden = b.op("Transpose", r, perm=(1, 0)), _hidden(op)
    reset_first = op.op_type == "GRU" and not attribute(op, "linear_before_reset")
    candidate, late = None, None
    if reset_first:
        at = ints(b, 2 * hidden, hidden)
        turned, candidate = b.multi("Split", turned, at, n_outputs=2, axis=-1)
    biases, peepholes = optional(op, 3), optional(op, 7)
    if biases is not None:
        entering, late = _split(b, b.op("Gather", biases, here, axis=0), 2)
        if op.op_type != "GRU" or reset_first:
            entering, late = b.op("Add", entering, late), None
        driven = b.op("Add", driven, entering)
    peeps = () if peepholes is None else _split(b, b.op("Gather", peepholes, here, axis=0), 3)
    return driven, _Weights(functions, turned, candidate, late, peeps, hidden)


def _hidden(op: Op) -> int:
    """The number of hidden units, from the attribute or the recurrent weights."""
    known: Any = op.attributes.get("hidden_size")
    shape = operand(op, 2).shape
    if known is None and shape is not None:
        known = shape[-1]
    if not isinstance(known, int):
        raise UnsupportedError(f"onnx::{op.op_type} needs 'hidden_size'")
    return known


def _initial(b: Builder, op: Op, x: Value, k: int, hidden: int) -> list[Value]:
    """The first states of one direction; zeros where not given."""
    axis = 1 if attribute(op, "layout") else 0
    size = None if x.shape is None else x.shape[1]
    batch = ints(b, size) if isinstance(size, int) else b.op("Shape", x, start=1, end=2)
    shape = b.op("Concat", batch, ints(b, hidden), axis=0)
    states = []
    for place in (5, 6) if op.op_type == "LSTM" else (5,):
        given = optional(op, place)
        if given is None:
            states.append(b.op("Expand", number(b, 0, x), shape))
        else:
            states.append(b.op("Gather", given, b.constant(np.array(k)), axis=axis))
    return states


def _over_time(
    b: Builder, op: Op, driven: Value, weights: _Weights, states: list[Value], lengths: Value | None
) -> list[Value]:
    """[the hidden state of every time, the last states]."""
    cell = _CELLS[op.op_type][0]
    length = None if driven.shape is None else driven.shape[0]
    if isinstance(length, int):
        times = b.constant(np.array(length))
    else:
        times = b.op("Squeeze", b.op("Shape", driven, start=0, end=1), ints(b, 0))
    body = b.body()
    i, go = body.new("int64", (), f"{b.label}:time"), body.new("bool", (), f"{b.label}:go")
    enters = [body.new(s.dtype, s.shape, f"{b.label}:state") for s in states]
    x = body.op("Gather", driven, i, axis=0)
    leaves = cell(body, op, weights, x, enters)
    row = leaves[0]
    if lengths is not None:
        running = body.op("Less", i, cast(body, lengths, "int64"))
        running = body.op("Unsqueeze", running, ints(body, 1))
        row = body.op("Where", running, row, number(body, 0, row))
        pairs = zip(leaves, enters, strict=True)
        leaves = [body.op("Where", running, new, old) for new, old in pairs]
    finals = [b.new(s.dtype, s.shape, f"{b.label}:last") for s in states]
    stack_shape = None if row.shape is None else ((driven.shape or ("?",))[0], *row.shape)
    stack = b.new(row.dtype, stack_shape, f"{b.label}:states")
    loop = Loop(
        name=b.name(f"{b.label}:{op.op_type}"),
        trip_count=times,
        condition=None,
        iteration=i,
        condition_in=go,
        condition_out=None,
        carried=tuple(map(Carried, states, enters, leaves, finals)),
        recorded=(Recorded(row, stack),),
        ops=tuple(body.ops),
        where=b.where,
    )
    b.append(loop)
    return [stack, *finals]
