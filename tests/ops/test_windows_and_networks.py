"""Compare convolutions, pools and recurrent networks in float64 with ONNX Runtime's float32 kernels.

Small integers as data make float32 sums exact.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mdf_loop.errors import UnsupportedError
from tests.ops.op_running import float32_run, legal_run
from tests.strategies.layers import GATES, networks, whole, windows

FEW_EXAMPLES = settings(max_examples=40)


def assert_equal_to_float32(op_type, arrays, output_count=1, tolerance=0.0, **attributes):
    # For some windows (ceil_mode, output_padding) onnx infers wrong lengths.
    actual = legal_run(op_type, arrays, output_count, inferred=False, **attributes)
    expected = float32_run(op_type, arrays, output_count, **attributes)
    for first, second in zip(actual, expected, strict=True):
        assert first.shape == second.shape
        assert first.dtype == np.float64
        np.testing.assert_allclose(first, second, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@FEW_EXAMPLES
@given(data=st.data(), drawn=windows(), group=st.integers(1, 2), bias=st.booleans())
def test_convolutions(data, drawn, group, bias):
    lengths, kernel, attributes = drawn
    channels, maps = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    x = whole(data.draw, 2, group * channels, *lengths)
    w = whole(data.draw, group * maps, channels, *kernel)
    rest = [whole(data.draw, group * maps)] if bias else []
    assert_equal_to_float32("Conv", [x, w, *rest], group=group, **attributes)


@pytest.mark.slow
@FEW_EXAMPLES
@given(data=st.data(), drawn=windows(), group=st.integers(1, 2), bias=st.booleans())
def test_transposed_convolutions(data, drawn, group, bias):
    lengths, kernel, attributes = drawn
    channels, maps = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    x = whole(data.draw, 2, group * channels, *lengths)
    w = whole(data.draw, group * channels, maps, *kernel)
    rest = [whole(data.draw, group * maps)] if bias else []
    if data.draw(st.booleans()):
        longer = [data.draw(st.integers(0, s - 1)) for s in attributes["strides"]]
        attributes["output_padding"] = tuple(longer)
    assert_equal_to_float32("ConvTranspose", [x, w, *rest], group=group, **attributes)


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("output_shape", [(8, 15), (9, 14), (10, 16)])
def test_transposed_convolutions_with_an_output_shape(auto_pad, output_shape):
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (1, 2, 4, 5)).astype(float)
    w = rng.integers(-4, 5, (2, 3, 3, 2)).astype(float)
    assert_equal_to_float32(
        "ConvTranspose", [x, w], strides=(2, 3), output_shape=output_shape, auto_pad=auto_pad
    )


@pytest.mark.slow
@FEW_EXAMPLES
@given(data=st.data(), drawn=windows(), include=st.integers(0, 1), ceil=st.integers(0, 1))
def test_average_pools(data, drawn, include, ceil):
    lengths, kernel, attributes = drawn
    attributes.pop("dilations", None)
    _fitting(kernel, attributes)
    if ceil and "pads" in attributes:
        attributes["ceil_mode"] = 1
    x = whole(data.draw, 2, 3, *lengths)
    assert_equal_to_float32(
        "AveragePool", [x], tolerance=1e-6, count_include_pad=include, **attributes
    )


@pytest.mark.slow
@FEW_EXAMPLES
@given(data=st.data(), drawn=windows(), p=st.integers(1, 3))
def test_p_norm_pools(data, drawn, p):
    lengths, kernel, attributes = drawn
    attributes.pop("dilations", None)
    _fitting(kernel, attributes)
    assert_equal_to_float32(
        "LpPool", [whole(data.draw, 1, 2, *lengths)], tolerance=1e-5, p=p, **attributes
    )


def _fitting(kernel, attributes):
    """Make pads smaller than windows, and reject windows smaller than strides, which the runtime cannot pad."""
    if "pads" in attributes:
        pairs = zip(attributes["pads"], kernel * 2, strict=True)
        attributes["pads"] = tuple(min(pad, k - 1) for pad, k in pairs)
    if "auto_pad" in attributes:
        assume(all(k >= s for k, s in zip(kernel, attributes["strides"], strict=True)))


def test_batch_and_lengths_may_be_unknown():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 2, 7, 6)), rng.normal(size=(3, 2, 3, 3))
    shapes = [("n", 2, "h", "w"), w.shape]
    (actual,) = legal_run("Conv", [x, w], shapes=shapes, strides=(2, 1), auto_pad="VALID")
    (expected,) = legal_run("Conv", [x, w], strides=(2, 1), auto_pad="VALID")
    np.testing.assert_array_equal(actual, expected)
    pool = {"kernel_shape": (2, 2), "pads": (1, 0, 1, 0)}
    (actual,) = legal_run("AveragePool", [x], shapes=[("n", 2, "h", "w")], **pool)
    np.testing.assert_array_equal(actual, legal_run("AveragePool", [x], **pool)[0])


def test_an_unknown_length_that_must_be_known_is_an_error():
    x, w = np.ones((1, 1, 6)), np.ones((1, 1, 3))
    with pytest.raises(
        UnsupportedError, match=r"known spatial extents here, but got float64\[1, 1, L\]"
    ):
        legal_run(
            "Conv", [x, w], shapes=[(1, 1, "L"), w.shape], strides=(2,), auto_pad="SAME_UPPER"
        )
    with pytest.raises(UnsupportedError, match="onnx::Conv in float64 needs known extents"):
        legal_run("Conv", [x, w], shapes=[x.shape, (1, 1, "k")])


def test_infinity_affects_only_its_own_windows():
    x = np.array([[[1.0, 2.0, np.inf, 4.0, 5.0]]])
    (actual,) = legal_run("AveragePool", [x], kernel_shape=(2,))
    assert actual.ravel().tolist() == [1.5, np.inf, np.inf, 4.5]


# --- recurrent networks -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("op_type", GATES)
@FEW_EXAMPLES
@given(data=st.data())
def test_recurrent_networks(op_type, data):
    arrays, attributes = data.draw(networks(op_type))
    assert_equal_to_float32(op_type, arrays, 3 if op_type == "LSTM" else 2, 2e-4, **attributes)


@pytest.mark.parametrize("op_type", GATES)
def test_batch_first(op_type):
    rng = np.random.default_rng(0)
    g = GATES[op_type]
    x, w, r = rng.normal(size=(3, 2, 4)), rng.normal(size=(2, g, 4)), rng.normal(size=(2, g, 1))
    first = rng.normal(size=(2, 2, 1))
    n = 3 if op_type == "LSTM" else 2
    flags = {"hidden_size": 1, "direction": "bidirectional"}
    expected = legal_run(op_type, [x, w, r, None, None, first], n, **flags)
    turned = [np.swapaxes(a, 0, 1).copy() for a in (x, first)]
    actual = legal_run(op_type, [turned[0], w, r, None, None, turned[1]], n, layout=1, **flags)
    np.testing.assert_array_equal(actual[0], expected[0].transpose(2, 0, 1, 3))
    for one, second in zip(actual[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(one, second.transpose(1, 0, 2))


def test_a_recurrent_network_in_float64():
    """Compare with h = tanh(w x + r h + b) in Python."""
    x = np.array([0.3, -0.7, 0.9]).reshape(3, 1, 1)
    w, r, bias = np.array([[[0.8]]]), np.array([[[-0.4]]]), np.array([[0.1, 0.05]])
    rows, last = legal_run("RNN", [x, w, r, bias], 2, hidden_size=1)
    h, states = 0.0, []
    for value in x.ravel():
        h = np.tanh(0.8 * value - 0.4 * h + 0.15)
        states.append(h)
    np.testing.assert_allclose(rows.ravel(), states, rtol=1e-15)
    assert last.ravel()[0] == rows.ravel()[-1]


def test_unknown_times_and_batch():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(3, 2, 4)), rng.normal(size=(1, 6, 4)), rng.normal(size=(1, 6, 2))]
    shapes = [("t", "n", 4), (1, 6, 4), (1, 6, 2)]
    actual = legal_run("GRU", arrays, 2, shapes=shapes, hidden_size=2)
    for first, second in zip(actual, legal_run("GRU", arrays, 2, hidden_size=2), strict=True):
        np.testing.assert_array_equal(first, second)


def test_unknown_activations_are_refused():
    arrays = [np.ones((1, 1, 1))] * 3
    with pytest.raises(UnsupportedError, match="onnx::RNN has no activation 'Swish'"):
        legal_run("RNN", arrays, 2, hidden_size=1, activations=("Swish",))
