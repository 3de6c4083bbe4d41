"""Formulas of functions of PsyNeuLink that MDF does not define.

The name of such a function is PsyNeuLink's class in lower case, and its metadata state the class (`type:
ReLU`). Numbers are in the args, options (texts, bools, None) in the metadata. A formula is valid only for
the options in its table entry.

Source: psyneulink.core.components.functions (0.21).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field


class Formula(Struct, frozen=True):
    """Formula of a PsyNeuLink function, with its arguments and the options that it requires.

    `subexpressions` are named expressions that later subexpressions and `expression` can read.
    """

    name: str
    arguments: tuple[str, ...]
    expression: str
    options: Mapping[str, Any] = field(default_factory=dict)
    subexpressions: Mapping[str, str] = field(default_factory=dict)


_VARIABLE = UNREAD_ARGUMENT = "variable0"
"""Argument of all PsyNeuLink functions, which functions that draw random numbers do not read."""

_SCALE_ARGUMENTS = ("scale", "offset")
_UNWEIGHTED_OPTIONS = {"weights": None, "exponents": None}

_DECISION_TIMES = {
    "drift": "drift_rate * numpy.reshape(variable0, (-1,))",
    "given": "(starting_value + threshold) / (2 * threshold)",
    "share": "numpy.where(given <= 0, 1e-8, numpy.where(given >= 1, 1 - 1e-8, given))",
    # Mean time, and probability of the lower threshold, with the symbols z, a, x of Bogacz et al.
    "stands": "numpy.abs(drift) < 1e-8",
    "falls": "drift < 0",
    "speed": "numpy.where(stands, 1.0, numpy.abs(drift))",
    "z": "threshold / speed",
    "a": "(speed / noise) ** 2",
    "near": "numpy.where(falls, 1 - share, share)",
    "free": "noise ** 2 / 2 * numpy.log(near / (1 - near))",
    "ends": "numpy.where(falls, -threshold, threshold)",
    "x": "numpy.where(numpy.abs(free) > threshold, ends, free) / speed",
    "far": "numpy.logical_and(2 * z * a > 708.3964185322641, 2 * z * a < numpy.inf)",
    "near_a": "numpy.where(far, 1.0, a)",
    "near_z": "numpy.where(far, 1.0, z)",
    "near_x": "numpy.where(far, 0.0, x)",
    "more": "1 - numpy.exp(-2 * near_x * near_a)",
    "grows": "numpy.exp(2 * near_z * near_a)",
    "range": "grows - numpy.exp(-2 * near_z * near_a)",
    "time": "near_z * numpy.tanh(near_z * near_a) + (2 * near_z * more / range - near_x)",
    "moving": "numpy.where(far, z / a - x, time) + non_decision_time",
    "misses": "numpy.where(far, 0.0, 1 / (1 + grows) - more / range)",
    "start": "share * 2 * threshold - threshold",
    "standing": "non_decision_time + (threshold ** 2 - start ** 2) / noise ** 2",
    "rt": "numpy.where(stands, standing, moving)",
    "missed": "numpy.where(falls, 1 - misses, misses)",
    "er": "numpy.where(stands, (threshold - start) / (2 * threshold), missed)",
    # Moments at each threshold, with the symbols X, Z of Srivastava et al.
    "d": "numpy.where(numpy.abs(drift) < 0.01, 0.01, drift)",
    "X": "numpy.clip(d * ((share - 0.5) * 2 * threshold) / noise ** 2, -100, 100)",
    "bound": "numpy.clip(d * threshold / noise ** 2, -100, 100)",
    "Z": "numpy.where(numpy.abs(bound) < 0.0001, 0.0001, bound)",
    **{
        f"{expression_name}_{suffix}": expression.replace("?", suffix).replace("$", argument)
        for suffix, argument in (("all", "2 * Z"), ("up", "Z + X"), ("down", "Z - X"))
        for expression_name, expression in (
            ("never", "($) == 0"),
            ("w", "numpy.where(never_?, 1.0, $)"),
            ("c", "w_? / numpy.tanh(w_?)"),
            ("s", "w_? ** 2 / numpy.sinh(w_?) ** 2"),
        )
    },
    **{
        f"{expression_name}_{suffix}": expression.replace("?", suffix)
        for suffix in ("up", "down")
        for expression_name, expression in (
            ("first", "noise ** 2 / d ** 2 * (c_all - c_?) + non_decision_time"),
            ("mean", "numpy.where(never_?, numpy.nan, first_?)"),
            ("second", "noise ** 4 / d ** 4 * ((s_all - s_?) + (c_all - c_?))"),
            ("var", "numpy.where(never_?, numpy.nan, second_?)"),
            (
                "third",
                "noise ** 6 / d ** 6 * (3 * (s_all - s_?) + 2 * (c_all * s_all - c_? * s_?)"
                " + 3 * (c_all - c_?))",
            ),
            ("none", "numpy.logical_or(never_?, second_? <= 0)"),
            ("spread", "numpy.where(none_?, 1.0, second_?) ** 1.5"),
            ("skew", "numpy.where(none_?, numpy.nan, third_? / spread_?)"),
        )
    },
}
"""Parts of PsyNeuLink's drift diffusion: times, error rates and moments at each threshold.

If noise is negligible beside the drift (`far`), so that its exponential function would underflow,
PsyNeuLink uses other formulas. Without any noise it fails, and the mean time is nan here. The nan is
selected last, so that it does not spread to the derivatives of other numbers.

Sources: R. Bogacz et al. (2006), doi:10.1037/0033-295X.113.4.700; V. Srivastava et al. (2016),
doi:10.1016/j.jmp.2016.03.005.
"""

FORMULAS = (
    Formula(
        "driftdiffusionanalytical",
        (_VARIABLE, "drift_rate", "starting_value", "threshold", "noise", "non_decision_time"),
        "numpy.stack((rt, er, mean_up, var_up, skew_up, mean_down, var_down, skew_down))",
        subexpressions=_DECISION_TIMES,
    ),
    Formula("identity", (_VARIABLE,), _VARIABLE),
    Formula("exponentialdist", ("beta", "shape"), "numpy.random.exponential(beta, shape)"),
    Formula(
        "ornsteinuhlenbeckintegrator",
        (_VARIABLE, "previous_value", "decay", "rate", "noise", "time_step_size", "offset"),
        "previous_value + (decay * previous_value - rate * variable0) * time_step_size"
        " + numpy.sqrt(time_step_size * noise) * numpy.random.normal() + offset",
    ),
    Formula(
        "relu",
        (_VARIABLE, "gain", "bias", "leak", *_SCALE_ARGUMENTS),
        "scale * numpy.maximum(gain * (variable0 - bias), leak * (gain * (variable0 - bias)))"
        " + offset",
    ),
    Formula(
        "gaussian",
        (_VARIABLE, "standard_deviation", "bias", *_SCALE_ARGUMENTS),
        "scale * (numpy.exp(-(variable0 - bias) ** 2 / (2 * standard_deviation ** 2))"
        " / numpy.sqrt(2 * numpy.pi * standard_deviation)) + offset",
    ),
    Formula(
        "softmax",
        (_VARIABLE, "gain"),
        "numpy.exp(gain * variable0 - numpy.max(gain * variable0, axis=-1, keepdims=True))"
        " / numpy.sum(numpy.exp(gain * variable0"
        " - numpy.max(gain * variable0, axis=-1, keepdims=True)), axis=-1, keepdims=True)",
        {"output": "all", "per_item": True, "mask_threshold": None},
    ),
    *(
        Formula(
            "linearcombination",
            (_VARIABLE, *_SCALE_ARGUMENTS),
            f"scale * numpy.{numpy_name}({_VARIABLE}, axis=0) + offset",
            {"operation": operation_name, **_UNWEIGHTED_OPTIONS},
        )
        for operation_name, numpy_name in (("sum", "sum"), ("product", "prod"))
    ),
)


def known_formula(name: str, metadata: Mapping[str, Any]) -> Formula | None:
    """Return the formula of a PsyNeuLink function with given options, or None if unknown."""
    for formula in FORMULAS:
        required_options = formula.options.items()
        if formula.name == name and all(
            metadata.get(option_name) == option_value
            for option_name, option_value in required_options
        ):
            return formula if _psyneulink_class(metadata).lower() == name else None
    return None


def is_from_psyneulink(metadata: Mapping[str, Any]) -> bool:
    """Return True if a function's metadata names a PsyNeuLink class."""
    return bool(_psyneulink_class(metadata))


def origin_hint(name: str, metadata: Mapping[str, Any]) -> str:
    """Return a hint for an unknown PsyNeuLink function, or "" for other functions."""
    psyneulink_class = _psyneulink_class(metadata)
    if psyneulink_class.lower() not in (name, "userdefinedfunction"):
        return ""
    return (
        f"it is PsyNeuLink's {psyneulink_class}, whose Python is not in the file: "
        "give the function a 'value' with the formula"
    )


def _psyneulink_class(metadata: Mapping[str, Any]) -> str:
    """Return the PsyNeuLink class in the metadata of a function, or an empty text."""
    class_name = metadata.get("type")
    return class_name if isinstance(class_name, str) else ""
