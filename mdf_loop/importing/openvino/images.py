"""Conversion of OpenVINO's convolution and pooling layers to ONNX operators.

Source: OpenVINO operation sets, groups "Convolution" and "Pooling".
"""

from __future__ import annotations

from mdf_loop.importing.openvino.call import LayerCall, Result, int64_array, layer
from mdf_loop.importing.openvino.place import op
from mdf_loop.importing.openvino.shapes import concatenate_lists

_AUTO_PAD_MODES = {
    "explicit": "NOTSET",
    "notset": "NOTSET",
    "same_upper": "SAME_UPPER",
    "same_lower": "SAME_LOWER",
    "valid": "VALID",
}


def _window_attributes(call: LayerCall) -> dict[str, object]:
    """Return the strides and pads of a layer as ONNX attributes."""
    auto_pad = call.choice("auto_pad", _AUTO_PAD_MODES, "explicit")
    attributes: dict[str, object] = {
        "strides": list(call.read_integers("strides")),
        "auto_pad": auto_pad,
    }
    if auto_pad == "NOTSET":
        attributes["pads"] = [*call.read_integers("pads_begin"), *call.read_integers("pads_end")]
    return attributes


@layer("Convolution")
def _convolution(call: LayerCall) -> Result:
    dilations = list(call.read_integers("dilations"))
    return op("Conv", call.input(0), call.input(1), dilations=dilations, **_window_attributes(call))


@layer("GroupConvolution")
def _group_convolution(call: LayerCall) -> Result:
    """Convert a convolution with weights [groups, out, in, ...] to [groups out, in, ...]."""
    shape = call.shape(1)
    if shape is None or None in shape[:2] or len(shape) < 4:
        raise call.unsupported("needs weights of known shape")
    groups, channels_per_group = int(shape[0] or 0), int(shape[1] or 0)
    inner_shape = op("Slice", op("Shape", call.input(1)), int64_array(2), int64_array(len(shape)))
    joined_shape = concatenate_lists(int64_array(groups * channels_per_group), inner_shape)
    weights = op("Reshape", call.input(1), joined_shape)
    dilations = list(call.read_integers("dilations"))
    attributes = {"group": groups, "dilations": dilations, **_window_attributes(call)}
    return op("Conv", call.input(0), weights, **attributes)


def _ceil_mode(call: LayerCall) -> int:
    return call.choice("rounding_type", {"floor": 0, "ceil": 1}, "floor")


def _pool_attributes(call: LayerCall) -> dict[str, object]:
    kernel = list(call.read_integers("kernel"))
    return {"kernel_shape": kernel, "ceil_mode": _ceil_mode(call), **_window_attributes(call)}


@layer("MaxPool")
def _max_pool(call: LayerCall) -> Result:
    """Convert MaxPool, without the second output (indices).

    Opset 8 added the dilations.
    """
    default_dilations = ",".join("1" * len(call.read_integers("kernel")))
    dilations = list(call.read_integers("dilations", default_dilations))
    return op("MaxPool", call.input(0), dilations=dilations, **_pool_attributes(call))


@layer("AvgPool")
def _avg_pool(call: LayerCall) -> Result:
    counts_pads = 0 if call.read_bool("exclude-pad") else 1
    if counts_pads and _ceil_mode(call):
        raise call.unsupported("with pads counted and sizes rounded up cannot be read")
    return op("AveragePool", call.input(0), count_include_pad=counts_pads, **_pool_attributes(call))
