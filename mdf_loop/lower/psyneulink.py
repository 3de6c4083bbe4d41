"""Functions that PsyNeuLink writes beside those of MDF: its class, in small letters.

That a function is PsyNeuLink's its metadata say (`type: ReLU`). Numbers are among its args, options
(texts, truth values, nothing) in its metadata. A formula holds for the options that it names; with
others the function is not known.

Source: psyneulink.core.components.functions (0.21).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Formula:
    """A function: its arguments, what it computes, the options for which it does."""

    name: str
    arguments: tuple[str, ...]
    text: str
    options: Mapping[str, Any] = field(default_factory=dict)


_X = UNREAD = "variable0"
"""What a function is of; those that draw random numbers are given it, and do not read it."""

_SCALED = ("scale", "offset")
_UNWEIGHTED = {"weights": None, "exponents": None}

FORMULAS = (
    Formula("identity", (_X,), _X),
    Formula("exponentialdist", ("beta", "shape"), "numpy.random.exponential(beta, shape)"),
    Formula(
        "ornsteinuhlenbeckintegrator",
        (_X, "previous_value", "decay", "rate", "noise", "time_step_size", "offset"),
        "previous_value + (decay * previous_value - rate * variable0) * time_step_size"
        " + numpy.sqrt(time_step_size * noise) * numpy.random.normal() + offset",
    ),
    Formula(
        "relu",
        (_X, "gain", "bias", "leak", *_SCALED),
        "scale * numpy.maximum(gain * (variable0 - bias), leak * (gain * (variable0 - bias)))"
        " + offset",
    ),
    Formula(
        "gaussian",
        (_X, "standard_deviation", "bias", *_SCALED),
        "scale * (numpy.exp(-(variable0 - bias) ** 2 / (2 * standard_deviation ** 2))"
        " / numpy.sqrt(2 * numpy.pi * standard_deviation)) + offset",
    ),
    Formula(
        "softmax",
        (_X, "gain"),
        "numpy.exp(gain * variable0 - numpy.max(gain * variable0, axis=-1, keepdims=True))"
        " / numpy.sum(numpy.exp(gain * variable0"
        " - numpy.max(gain * variable0, axis=-1, keepdims=True)), axis=-1, keepdims=True)",
        {"output": "all", "per_item": True, "mask_threshold": None},
    ),
    *(
        Formula(
            "linearcombination",
            (_X, *_SCALED),
            f"scale * numpy.{function}({_X}, axis=0) + offset",
            {"operation": operation, **_UNWEIGHTED},
        )
        for operation, function in (("sum", "sum"), ("product", "prod"))
    ),
)


def known_formula(name: str, metadata: Mapping[str, Any]) -> Formula | None:
    """The formula of a function of PsyNeuLink with these options, if it has one."""
    for formula in FORMULAS:
        options = formula.options.items()
        if formula.name == name and all(metadata.get(key) == value for key, value in options):
            return formula if _kind(metadata).lower() == name else None
    return None


def is_foreign(metadata: Mapping[str, Any]) -> bool:
    """Whether a function was written by PsyNeuLink."""
    return bool(_kind(metadata))


def origin_hint(name: str, metadata: Mapping[str, Any]) -> str:
    """What to do about an unknown function that is PsyNeuLink's; empty for all others."""
    kind = _kind(metadata)
    if kind.lower() not in (name, "userdefinedfunction"):
        return ""
    return (
        f"it is PsyNeuLink's {kind}, whose Python is not in the file: "
        "give the function a 'value' with the formula"
    )


def _kind(metadata: Mapping[str, Any]) -> str:
    """The class in PsyNeuLink; empty if none is stated."""
    kind = metadata.get("type")
    return kind if isinstance(kind, str) else ""
