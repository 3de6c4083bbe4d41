"""Refusal of `RoiAlign` regions that are too large for the onnx reference."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.errors import OperandError
from mdf_loop.ops.numpy_evaluation import evaluate

X, BATCH = np.arange(16.0).reshape(1, 1, 4, 4), np.array([0])


@pytest.mark.parametrize(
    ("region", "attributes"),
    [
        ([0.0, 0.0, 1e38, 1e38], {}),
        ([0.0, 0.0, np.nan, 1.0], {}),
        ([0.0, 0.0, 3.0, 3.0], {"sampling_ratio": 1 << 20}),
    ],
)
def test_many_samples_are_refused(region: list[float], attributes: dict[str, int]) -> None:
    with pytest.raises(OperandError, match="more than 1048576 samples"):
        evaluate("RoiAlign", [X, np.array([region]), BATCH], attributes, 1)


def test_usual_regions_are_computed() -> None:
    region = np.array([[0.0, 0.0, 3.0, 3.0]])
    (pooled,) = evaluate("RoiAlign", [X, region, BATCH], {"output_height": 2, "output_width": 2}, 1)
    assert pooled.shape == (1, 1, 2, 2)
