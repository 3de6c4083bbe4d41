"""Downgrades of ONNX operators to opset 17: neural network layers, signals."""

from __future__ import annotations

from mdf_loop.importing.opsets.rewrite import Rewrite


def average_pool_19(rewrite: Rewrite) -> None:
    """Downgrade AveragePool: remove `dilations` (new in opset 19) if all dilations are 1."""
    rewrite.add_copy(drop=() if _is_dilated(rewrite) else ("dilations",))


def lp_pool_18(rewrite: Rewrite) -> None:
    """Downgrade LpPool: remove `dilations` and `ceil_mode` (new in opset 18) if without effect."""
    uses_new_attributes = _is_dilated(rewrite) or rewrite.attribute("ceil_mode", 0)
    rewrite.add_copy(drop=() if uses_new_attributes else ("dilations", "ceil_mode"))


def _is_dilated(rewrite: Rewrite) -> bool:
    return any(dilation != 1 for dilation in rewrite.attribute("dilations", ()))


def grid_sample_20(rewrite: Rewrite) -> None:
    """Downgrade GridSample: rename the modes `linear` and `cubic` to `bilinear` and `bicubic`.

    A node whose input does not have four axes, which is new in 20, is copied unchanged.
    """
    if rewrite.rank(rewrite.input(0)) != 4:
        rewrite.add_copy()
        return
    interpolation_mode = str(rewrite.attribute("mode", "linear"))
    rewrite.add_copy(
        mode={"linear": "bilinear", "cubic": "bicubic"}.get(interpolation_mode, interpolation_mode)
    )


def dft_20(rewrite: Rewrite) -> None:
    """Downgrade DFT: turn the input `axis` into an attribute.

    The default axis is -2 from opset 20 on, and 1 before.

    A node with an axis that is not constant, or with a one-sided inverse, keeps its form.
    """
    axis = -2
    has_variable_axis = rewrite.input(2) and rewrite.facts.constant_array(rewrite.input(2)) is None
    if has_variable_axis or (rewrite.attribute("onesided", 0) and rewrite.attribute("inverse", 0)):
        rewrite.add_copy()
        return
    if rewrite.input(2):
        (axis,) = rewrite.constant_integers(rewrite.input(2))
    rank = rewrite.rank(rewrite.input(0))
    rewrite.add_copy([rewrite.input(0), rewrite.input(1)], axis=axis % rank)
