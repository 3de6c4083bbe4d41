"""Conversion of OpenVINO's convolution and pooling layers to ONNX operators.

Source: OpenVINO operation sets, groups "Convolution" and "Pooling".
"""

from __future__ import annotations

from mdf_loop.importing.openvino.call import LayerCall, LayerOutputs, int64_array, layer
from mdf_loop.importing.openvino.network_writer import op
from mdf_loop.importing.openvino.shapes import concatenate_lists

_AUTO_PAD_MODES = {
    "explicit": "NOTSET",
    "notset": "NOTSET",
    "same_upper": "SAME_UPPER",
    "same_lower": "SAME_LOWER",
    "valid": "VALID",
}


def _window_attributes(layer_call: LayerCall) -> dict[str, object]:
    """Return the strides and pads of a layer as ONNX attributes."""
    auto_pad = layer_call.read_choice("auto_pad", _AUTO_PAD_MODES, "explicit")
    onnx_attributes: dict[str, object] = {
        "strides": list(layer_call.read_integers("strides")),
        "auto_pad": auto_pad,
    }
    if auto_pad == "NOTSET":
        onnx_attributes["pads"] = [
            *layer_call.read_integers("pads_begin"),
            *layer_call.read_integers("pads_end"),
        ]
    return onnx_attributes


@layer("Convolution")
def _convolution(layer_call: LayerCall) -> LayerOutputs:
    dilations = list(layer_call.read_integers("dilations"))
    return op(
        "Conv",
        layer_call.input(0),
        layer_call.input(1),
        dilations=dilations,
        **_window_attributes(layer_call),
    )


@layer("GroupConvolution")
def _group_convolution(layer_call: LayerCall) -> LayerOutputs:
    """Convert a convolution with weights [groups, out, in, ...] to [groups out, in, ...]."""
    weights_shape = layer_call.shape(1)
    if weights_shape is None or None in weights_shape[:2] or len(weights_shape) < 4:
        raise layer_call.unsupported_error("needs weights of known shape")
    group_count, channels_per_group = int(weights_shape[0] or 0), int(weights_shape[1] or 0)
    remaining_extents = op(
        "Slice", op("Shape", layer_call.input(1)), int64_array(2), int64_array(len(weights_shape))
    )
    grouped_shape = concatenate_lists(
        int64_array(group_count * channels_per_group), remaining_extents
    )
    reshaped_weights = op("Reshape", layer_call.input(1), grouped_shape)
    dilations = list(layer_call.read_integers("dilations"))
    attributes = {"group": group_count, "dilations": dilations, **_window_attributes(layer_call)}
    return op("Conv", layer_call.input(0), reshaped_weights, **attributes)


def _ceil_mode(layer_call: LayerCall) -> int:
    return layer_call.read_choice("rounding_type", {"floor": 0, "ceil": 1}, "floor")


def _pool_attributes(layer_call: LayerCall) -> dict[str, object]:
    kernel_shape = list(layer_call.read_integers("kernel"))
    return {
        "kernel_shape": kernel_shape,
        "ceil_mode": _ceil_mode(layer_call),
        **_window_attributes(layer_call),
    }


@layer("MaxPool")
def _max_pool(layer_call: LayerCall) -> LayerOutputs:
    """Convert MaxPool, without the second output (indices).

    Opset 8 added the dilations.
    """
    default_dilations = ",".join("1" * len(layer_call.read_integers("kernel")))
    dilations = list(layer_call.read_integers("dilations", default_dilations))
    return op("MaxPool", layer_call.input(0), dilations=dilations, **_pool_attributes(layer_call))


@layer("AvgPool")
def _avg_pool(layer_call: LayerCall) -> LayerOutputs:
    count_include_pad = 0 if layer_call.read_bool("exclude-pad") else 1
    if count_include_pad and _ceil_mode(layer_call):
        raise layer_call.unsupported_error("with pads counted and sizes rounded up cannot be read")
    return op(
        "AveragePool",
        layer_call.input(0),
        count_include_pad=count_include_pad,
        **_pool_attributes(layer_call),
    )
