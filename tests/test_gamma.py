"""Gamma random numbers with large shapes, computed by the inverse distribution function."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from mdf_loop import gamma

Z = np.linspace(-8.21, 8.21, 16_421)
BODY = np.abs(Z) < 4.4
"""Mask of the values for which scipy's reference is accurate for the largest shapes."""


@pytest.mark.parametrize("a", [6.0, 6.01, 8.0, 13.7, 100.0, 1e4, 1e5, 1e6])
def test_probabilities_are_accurate_to_1e_12(a: float) -> None:
    x = gamma.gamma_quantile(Z, a)
    assert (np.diff(x) > 0).all()
    assert x[0] > 0
    assert np.max(np.abs(special.gammainc(a, x) - special.ndtr(Z))[BODY]) < 1e-12


@pytest.mark.parametrize("a", [6.0, 13.7, 1e4])
def test_tail_probabilities(a: float) -> None:
    x = gamma.gamma_quantile(Z, a)
    low, high = Z < -3, Z > 3
    np.testing.assert_allclose(special.gammainc(a, x[low]), special.ndtr(Z[low]), rtol=2e-4)
    np.testing.assert_allclose(special.gammaincc(a, x[high]), special.ndtr(-Z[high]), rtol=2e-4)


def test_the_largest_shapes_are_nearly_normal() -> None:
    a = 1e9
    standard = (gamma.gamma_quantile(Z, a) - a) / np.sqrt(a)
    correction = (Z**2 - 1) / 3 / np.sqrt(a)
    np.testing.assert_allclose(standard, Z + correction, rtol=0, atol=1e-7)
