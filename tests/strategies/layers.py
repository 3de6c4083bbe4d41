"""Random windows of convolutions and pools, and small recurrent networks."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


def whole(draw, *shape):
    return np.random.default_rng(draw(st.integers(0, 99))).integers(-4, 5, shape).astype(float)


def tuples(draw, n, low, high):
    return tuple(draw(st.lists(st.integers(low, high), min_size=n, max_size=n)))


@st.composite
def windows(draw):
    """Draw (lengths, kernel, attributes) of one to three spatial axes."""
    axes = draw(st.integers(1, 3))
    kernel, strides = tuples(draw, axes, 1, 3), tuples(draw, axes, 1, 3)
    attributes = {"strides": strides, "kernel_shape": kernel}
    auto_pad = draw(st.sampled_from(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if auto_pad == "NOTSET":
        attributes["pads"] = tuples(draw, 2 * axes, 0, 1)
    else:
        attributes["auto_pad"] = auto_pad
    if not auto_pad.startswith("SAME"):
        attributes["dilations"] = tuples(draw, axes, 1, 2)
    return tuples(draw, axes, 5, 8), kernel, attributes


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}


ALPHA = ("HardSigmoid", "LeakyRelu", "Elu", "ThresholdedRelu", "ScaledTanh", "Affine")


BETA = ("HardSigmoid", "ScaledTanh", "Affine")


ACTIVATIONS = (*ALPHA, "Tanh", "Sigmoid", "Relu", "Softsign", "Softplus")


@st.composite
def networks(draw, op_type):
    """Draw (inputs, attributes) of a small network with some of ONNX's options."""
    times, batch, width, hidden = (draw(st.integers(1, k)) for k in (4, 3, 2, 3))
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    d = 2 if direction == "bidirectional" else 1
    g = GATES[op_type] * hidden
    rng = np.random.default_rng(draw(st.integers(0, 99)))

    def some(*shape):
        return rng.uniform(-1, 1, shape)

    def maybe(array):
        return array if draw(st.booleans()) else None

    arrays = [some(times, batch, width), some(d, g, width), some(d, g, hidden)]
    arrays += [maybe(some(d, 2 * g)), maybe(rng.integers(1, times + 1, batch).astype(np.int32))]
    arrays += [maybe(some(d, batch, hidden))]
    attributes = {"hidden_size": hidden, "direction": direction}
    if op_type == "LSTM":
        arrays += [maybe(some(d, batch, hidden)), maybe(some(d, 3 * hidden))]
        attributes["input_forget"] = draw(st.integers(0, 1))
    if op_type == "GRU":
        attributes["linear_before_reset"] = draw(st.integers(0, 1))
    if draw(st.booleans()):
        attributes["clip"] = 0.5
    while arrays[-1] is None:
        arrays.pop()
    return arrays, attributes | _functions(draw, op_type, d)


def _functions(draw, op_type, directions):
    if draw(st.booleans()):
        return {}
    count = FUNCTIONS[op_type]
    names = (
        draw(st.lists(st.sampled_from(ACTIVATIONS), min_size=count, max_size=count)) * directions
    )
    numbers = {
        "activation_alpha": [0.5] * sum(name in ALPHA for name in names),
        "activation_beta": [0.25] * sum(name in BETA for name in names),
    }
    return {"activations": tuple(names), **{k: tuple(v) for k, v in numbers.items() if v}}
