"""Upgrades of ONNX operators to opset 17: neural network layers."""

from __future__ import annotations

import numpy as np

from mdf_loop.importing.opsets.rewrite import Rewrite

_TRAINING_REASON = "it is in training mode"


def batch_norm_7(r: Rewrite) -> None:
    """Upgrade BatchNormalization: remove `is_test`, which marks inference before 7."""
    if not r.get("is_test", 0):
        r.refuse(_TRAINING_REASON)
    r.add_copy(drop=("is_test",))


def batch_norm_9(r: Rewrite) -> None:
    """Upgrade BatchNormalization: remove `spatial`, which is always on from 9."""
    if not r.get("spatial", 1):
        r.refuse("it has statistics for every position (spatial=0)")
    r.add_copy(drop=("spatial",))


def batch_norm_14(r: Rewrite) -> None:
    """Upgrade BatchNormalization: remove the outputs for statistics.

    Before 14, the use of these outputs means training mode.
    """
    if any(r.node.output[1:]):
        r.refuse(_TRAINING_REASON)
    r.add_copy(outputs=[r.output()])


def dropout_7(r: Rewrite) -> None:
    """Upgrade Dropout: remove `is_test`, which marks inference before 7."""
    if not r.get("is_test", 0):
        r.refuse(_TRAINING_REASON)
    r.add_copy(drop=("is_test",))


def dropout_12(r: Rewrite) -> None:
    """Upgrade Dropout: turn the ratio into an input. Before 12, inference leaves the mask undefined."""
    if r.is_read(r.output(1)):
        r.refuse("the mask is used, but what it holds out of training was not said before 12")
    ratio = r.add_constant(np.array(r.get("ratio", 0.5), dtype=np.float32))
    r.add_copy([r.input(0), ratio], [r.output()], drop=("ratio",))


def norm_2(r: Rewrite) -> None:
    """Upgrade LpPool or GlobalLpPool: convert the exponent p of the norm to an integer."""
    exponent = r.get("p", 2.0)
    if exponent != int(exponent):
        r.refuse(f"its norm p={exponent} is not a whole number")
    r.add_copy(p=int(exponent))


def gru_3(r: Rewrite) -> None:
    """Upgrade GRU: correct the default direction, which opset 1 misspells."""
    direction = str(r.get("direction", "forward"))
    r.add_copy(direction="forward" if direction == "foward" else direction)


def recurrent_7(r: Rewrite) -> None:
    """Upgrade recurrent layers: remove `output_sequence`, which is obsolete from 7 on.

    From 7 on, output Y is computed if it has a name.
    """
    r.add_copy(drop=("output_sequence",))


def roi_align_16(r: Rewrite) -> None:
    """Upgrade RoiAlign: state that coordinates are not shifted by half a pixel, the only form before 16."""
    r.add_copy(coordinate_transformation_mode="output_half_pixel")
