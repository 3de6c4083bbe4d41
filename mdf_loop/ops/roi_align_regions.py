"""Check of the regions of `onnx::RoiAlign` before onnx's reference implementation samples them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Data

_MAX_SAMPLES = 1 << 20
"""Maximum number of samples of all regions; onnx's reference takes microseconds for each sample."""


def regions_fault(arrays: Sequence[Data], attributes: Mapping[str, Any]) -> str:
    """Return an error message for invalid regions of RoiAlign, or an empty string.

    Regions are invalid with too many samples or infinite extents.
    """
    regions = np.asarray(arrays[1], np.float64)
    height, width = (
        int(attributes.get(f"output_{dimension}", 1)) for dimension in ("height", "width")
    )
    sampling_ratio = int(attributes.get("sampling_ratio", 0))
    if sampling_ratio > 0:
        sample_count = len(regions) * float(height) * width * sampling_ratio * sampling_ratio
    else:
        region_extents = np.abs(regions[:, 2:] - regions[:, :2]) * attributes.get(
            "spatial_scale", 1.0
        )
        sample_count = float(
            np.sum((region_extents[:, 0] + width + 1) * (region_extents[:, 1] + height + 1))
        )
    if sample_count <= _MAX_SAMPLES:
        return ""
    return f"the regions of onnx::RoiAlign have more than {_MAX_SAMPLES} samples"
