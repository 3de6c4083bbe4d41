"""Steps up to opset 17: layers of networks."""

from __future__ import annotations

import numpy as np

from mdf_loop.importing.opsets.rewrite import Rewrite

_TRAINING = "it is in training mode"


def batch_norm_7(r: Rewrite) -> None:
    """Before 7, `is_test` told use from training."""
    if not r.get("is_test", 0):
        r.refuse(_TRAINING)
    r.keep(drop=("is_test",))


def batch_norm_9(r: Rewrite) -> None:
    """`spatial` is always on from 9."""
    if not r.get("spatial", 1):
        r.refuse("it has statistics for every position (spatial=0)")
    r.keep(drop=("spatial",))


def batch_norm_14(r: Rewrite) -> None:
    """Before 14, asking for statistics meant training."""
    if any(r.node.output[1:]):
        r.refuse(_TRAINING)
    r.keep(outputs=[r.output()])


def dropout_7(r: Rewrite) -> None:
    """Before 7, `is_test` told use from training."""
    if not r.get("is_test", 0):
        r.refuse(_TRAINING)
    r.keep(drop=("is_test",))


def dropout_12(r: Rewrite) -> None:
    """Out of training nothing is dropped; what the mask holds was not said."""
    if r.is_read(r.output(1)):
        r.refuse("the mask is used, but what it holds out of training was not said before 12")
    ratio = r.constant(np.array(r.get("ratio", 0.5), dtype=np.float32))
    r.keep([r.input(0), ratio], [r.output()], drop=("ratio",))


def norm_2(r: Rewrite) -> None:
    """The norm of a pooling becomes a whole number."""
    norm = r.get("p", 2.0)
    if norm != int(norm):
        r.refuse(f"its norm p={norm} is not a whole number")
    r.keep(p=int(norm))


def gru_3(r: Rewrite) -> None:
    """Opset 1 misspelt its default direction."""
    word = str(r.get("direction", "forward"))
    r.keep(direction="forward" if word == "foward" else word)


def recurrent_7(r: Rewrite) -> None:
    """Before 7, `output_sequence` said whether Y is made: it is if it has a name."""
    r.keep(drop=("output_sequence",))


def roi_align_16(r: Rewrite) -> None:
    """Before 16, coordinates were not shifted by half a pixel."""
    r.keep(coordinate_transformation_mode="output_half_pixel")
