"""Convolutions and pools.

Source: OpenVINO operation sets, groups "Convolution" and "Pooling".
"""

from __future__ import annotations

from mdf_loop.importing.openvino.call import Call, Result, layer, whole_list
from mdf_loop.importing.openvino.place import op
from mdf_loop.importing.openvino.shapes import joined

_AUTO_PAD = {
    "explicit": "NOTSET",
    "notset": "NOTSET",
    "same_upper": "SAME_UPPER",
    "same_lower": "SAME_LOWER",
    "valid": "VALID",
}


def _window(call: Call) -> dict[str, object]:
    """Strides and pads as attributes of ONNX."""
    auto = call.choice("auto_pad", _AUTO_PAD, "explicit")
    about: dict[str, object] = {"strides": list(call.wholes("strides")), "auto_pad": auto}
    if auto == "NOTSET":
        about["pads"] = [*call.wholes("pads_begin"), *call.wholes("pads_end")]
    return about


@layer("Convolution")
def _convolution(call: Call) -> Result:
    dilations = list(call.wholes("dilations"))
    return op("Conv", call.input(0), call.input(1), dilations=dilations, **_window(call))


@layer("GroupConvolution")
def _group_convolution(call: Call) -> Result:
    """Weights [groups, out, in, ...] become [groups out, in, ...]."""
    shape = call.shape(1)
    if shape is None or None in shape[:2] or len(shape) < 4:
        raise call.refused("needs weights of known shape")
    groups, out = int(shape[0] or 0), int(shape[1] or 0)
    inner = op("Slice", op("Shape", call.input(1)), whole_list(2), whole_list(len(shape)))
    joined_shape = joined(whole_list(groups * out), inner)
    weights = op("Reshape", call.input(1), joined_shape)
    dilations = list(call.wholes("dilations"))
    about = {"group": groups, "dilations": dilations, **_window(call)}
    return op("Conv", call.input(0), weights, **about)


def _rounding(call: Call) -> int:
    return call.choice("rounding_type", {"floor": 0, "ceil": 1}, "floor")


def _pool(call: Call) -> dict[str, object]:
    kernel = list(call.wholes("kernel"))
    return {"kernel_shape": kernel, "ceil_mode": _rounding(call), **_window(call)}


@layer("MaxPool")
def _max_pool(call: Call) -> Result:
    """The largest numbers; from opset 8 on with dilations, and places that cannot be read."""
    ones = ",".join("1" * len(call.wholes("kernel")))
    dilations = list(call.wholes("dilations", ones))
    return op("MaxPool", call.input(0), dilations=dilations, **_pool(call))


@layer("AvgPool")
def _avg_pool(call: Call) -> Result:
    padded = 0 if call.truth("exclude-pad") else 1
    if padded and _rounding(call):
        raise call.refused("with pads counted and sizes rounded up cannot be read")
    return op("AveragePool", call.input(0), count_include_pad=padded, **_pool(call))
