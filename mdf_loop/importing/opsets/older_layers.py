"""Upgrades of ONNX operators to opset 17: neural network layers."""

from __future__ import annotations

import numpy as np

from mdf_loop.importing.opsets.rewrite import Rewrite

_TRAINING_REASON = "it is in training mode"


def batch_norm_7(rewrite: Rewrite) -> None:
    """Upgrade BatchNormalization: remove `is_test`, the inference flag of opsets before 7."""
    if not rewrite.attribute("is_test", 0):
        rewrite.refuse(_TRAINING_REASON)
    rewrite.add_copy(drop=("is_test",))


def batch_norm_9(rewrite: Rewrite) -> None:
    """Upgrade BatchNormalization: remove `spatial`, which is always on since opset 9."""
    if not rewrite.attribute("spatial", 1):
        rewrite.refuse("it has statistics for every position (spatial=0)")
    rewrite.add_copy(drop=("spatial",))


def batch_norm_14(rewrite: Rewrite) -> None:
    """Upgrade BatchNormalization: remove the outputs for statistics.

    Before 14, the use of these outputs means training mode.
    """
    if any(rewrite.node.output[1:]):
        rewrite.refuse(_TRAINING_REASON)
    rewrite.add_copy(outputs=[rewrite.output()])


def dropout_7(rewrite: Rewrite) -> None:
    """Upgrade Dropout: remove `is_test`, the inference flag of opsets before 7."""
    if not rewrite.attribute("is_test", 0):
        rewrite.refuse(_TRAINING_REASON)
    rewrite.add_copy(drop=("is_test",))


def dropout_12(rewrite: Rewrite) -> None:
    """Upgrade Dropout: turn the attribute `ratio`, used before opset 12, into an input.

    Before opset 12 the mask is undefined outside of training, so a model that reads the mask is refused.
    """
    if rewrite.is_read(rewrite.output(1)):
        rewrite.refuse("the mask is used, but what it holds out of training was not said before 12")
    ratio = rewrite.add_constant(np.array(rewrite.attribute("ratio", 0.5), dtype=np.float32))
    rewrite.add_copy([rewrite.input(0), ratio], [rewrite.output()], drop=("ratio",))


def norm_2(rewrite: Rewrite) -> None:
    """Upgrade LpPool or GlobalLpPool: convert the exponent p of the norm to an integer."""
    exponent = rewrite.attribute("p", 2.0)
    if exponent != int(exponent):
        rewrite.refuse(f"its norm p={exponent} is not a whole number")
    rewrite.add_copy(p=int(exponent))


def gru_3(rewrite: Rewrite) -> None:
    """Upgrade GRU: correct the default direction, which opset 1 misspells."""
    direction = str(rewrite.attribute("direction", "forward"))
    rewrite.add_copy(direction="forward" if direction == "foward" else direction)


def recurrent_7(rewrite: Rewrite) -> None:
    """Upgrade recurrent layers: remove `output_sequence`, which is obsolete from opset 7 on.

    From 7 on, output Y is computed if it has a name.
    """
    rewrite.add_copy(drop=("output_sequence",))


def roi_align_16(rewrite: Rewrite) -> None:
    """Upgrade RoiAlign: write the mode without half-pixel shift, the only mode before opset 16."""
    rewrite.add_copy(coordinate_transformation_mode="output_half_pixel")
