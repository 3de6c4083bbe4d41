"""Gradients of random programs compared with JAX, if it is installed."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.passes.gradient.loop_backward import loop_backward
from tests.passes.gradient.all_forms import assert_same, slopes_of
from tests.passes.gradient.both_ways import VALUE
from tests.passes.gradient.by_jax import gradient_by_jax
from tests.soak import times
from tests.strategies.differentiable import GIVEN, differentiable

pytest.importorskip("jax")


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(times(60, 1000)))
def test_the_gradient_equals_that_of_jax(seed: int) -> None:
    program = differentiable(seed)
    with np.errstate(all="ignore"):
        slopes = slopes_of(program, GIVEN, list(GIVEN), loop_backward)
        assert_same(gradient_by_jax(program, VALUE, GIVEN, list(GIVEN)), slopes, 1e-9, "jax")
