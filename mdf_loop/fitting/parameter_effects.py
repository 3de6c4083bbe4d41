"""Check that each free parameter of a fit has an effect on the model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mdf_loop.errors import Finding, raise_findings
from mdf_loop.fitting.free import ParameterSpace
from mdf_loop.ir import Array

TRIED_POSITIONS = (0.05, 0.35, 0.65, 0.95)
"""Positions between the bounds at which a parameter is tried."""


def check_parameters_have_effect(
    free: ParameterSpace, points: Array, compute_rows: Callable[[Array], Array]
) -> None:
    """Raise InputError if a free parameter does not change the fitted outputs.

    Each parameter is tried at several positions within its bounds, from each of the points.

    Args:
        free: The free parameters.
        points: The points from which parameters are tried.
        compute_rows: A function that returns the compared rows at each point.

    Raises:
        InputError: Some parameters have no effect. The message names all of them.
    """
    trial_points, parameter_names = [], []
    start_index = 0
    for parameter in free.parameters:
        element_count = parameter.lower_bounds.size
        for point in points:
            for relative_position in TRIED_POSITIONS:
                trial_point = point.copy()
                trial_point[start_index : start_index + element_count] = relative_position
                trial_points.append(trial_point)
                parameter_names.append(parameter.name)
        start_index += element_count
    trial_rows = compute_rows(np.array(trial_points))
    group_size = len(TRIED_POSITIONS)
    row_groups = trial_rows.reshape(-1, group_size, *trial_rows.shape[1:])
    is_constant = [
        np.array_equal(row_group, np.broadcast_to(row_group[:1], row_group.shape), equal_nan=True)
        for row_group in row_groups
    ]
    has_effect = dict.fromkeys(parameter_names, False)
    for name, is_group_constant in zip(parameter_names[::group_size], is_constant, strict=True):
        has_effect[name] |= not is_group_constant
    raise_findings(
        Finding(
            "InputError",
            f"'{name}' changes nothing of what is compared, within its bounds",
            "",
            "leave it out of free, or fit against what depends on it",
        )
        for name, is_parameter_effective in has_effect.items()
        if not is_parameter_effective
    )
