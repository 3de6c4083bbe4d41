"""Tests of standard errors, compared with linear regression, and of unidentifiable parameters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mdf_loop.fitting.uncertainty import normal_negative_log_likelihood, uncertainty_from_jacobian


def test_covariance_equals_that_of_linear_regression() -> None:
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((40, 3)) * [1.0, 1e-6, 1e6]
    uncertainty = uncertainty_from_jacobian(columns, 0.25, 37)
    np.testing.assert_allclose(
        uncertainty.covariance, 0.25 * np.linalg.inv(columns.T @ columns), rtol=1e-9
    )
    assert uncertainty.margin == pytest.approx(stats.t(37).ppf(0.975))
    assert uncertainty_from_jacobian(columns, 1.0, None).margin == pytest.approx(1.959963984540054)
    assert not uncertainty.unidentifiable_groups


def test_unidentifiable_elements_are_named() -> None:
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((40, 3))
    columns[:, 2] = -2 * columns[:, 0]
    uncertainty = uncertainty_from_jacobian(columns, 1.0, 37)
    assert uncertainty.unidentifiable_groups == ((0, 2),)
    assert np.isinf(uncertainty.standard_errors[[0, 2]]).all()
    assert np.isfinite(uncertainty.standard_errors[1])


def test_element_without_effect_has_an_infinite_error() -> None:
    columns = np.random.default_rng(0).standard_normal((9, 2)) * [1.0, 0.0]
    uncertainty = uncertainty_from_jacobian(columns, 1.0, 7)
    assert np.isinf(uncertainty.standard_errors[1])
    assert np.isfinite(uncertainty.standard_errors[0])


@pytest.mark.parametrize("exact", [True, False])
def test_likelihood_of_normal_residuals(exact: bool) -> None:
    residuals = np.random.default_rng(1).standard_normal(50) * 0.3
    deviation = 0.3 if exact else float(np.sqrt(np.mean(residuals**2)))
    factors = np.full(50, 1 / 0.3 if exact else 1.0)
    sse = float(np.sum((residuals * factors) ** 2))
    expected = -stats.norm.logpdf(residuals, scale=deviation).sum()
    assert normal_negative_log_likelihood(
        sse, factors, has_known_deviations=exact
    ) == pytest.approx(expected)
