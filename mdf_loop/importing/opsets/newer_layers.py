"""Downgrades of ONNX operators to opset 17: neural network layers, signals."""

from __future__ import annotations

from mdf_loop.importing.opsets.rewrite import Rewrite


def average_pool_19(r: Rewrite) -> None:
    """Downgrade AveragePool: remove `dilations`, which is new in 19, if all dilations are 1."""
    r.add_copy(drop=() if _is_dilated(r) else ("dilations",))


def lp_pool_18(r: Rewrite) -> None:
    """Downgrade LpPool: remove `dilations` and `ceil_mode`, which are new in 18, if they have no effect."""
    uses_new_attributes = _is_dilated(r) or r.get("ceil_mode", 0)
    r.add_copy(drop=() if uses_new_attributes else ("dilations", "ceil_mode"))


def _is_dilated(r: Rewrite) -> bool:
    return any(dilation != 1 for dilation in r.get("dilations", ()))


def grid_sample_20(r: Rewrite) -> None:
    """Downgrade GridSample: rename the modes `linear` and `cubic` to `bilinear` and `bicubic`.

    A node whose input does not have four axes, which is new in 20, is copied unchanged.
    """
    if r.rank(r.input(0)) != 4:
        r.add_copy()
        return
    mode = str(r.get("mode", "linear"))
    r.add_copy(mode={"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode))


def dft_20(r: Rewrite) -> None:
    """Downgrade DFT: turn the input `axis` into an attribute. The default axis is -2 from 20 on, 1 before.

    A node with an axis that is not constant, or with a one-sided inverse, keeps its form.
    """
    axis = -2
    is_variable = r.input(2) and r.facts.value(r.input(2)) is None
    if is_variable or (r.get("onesided", 0) and r.get("inverse", 0)):
        r.add_copy()
        return
    if r.input(2):
        (axis,) = r.numbers(r.input(2))
    rank = r.rank(r.input(0))
    r.add_copy([r.input(0), r.input(1)], axis=axis % rank)
