"""Poisson random numbers: partial sums for rates up to 708, a normal quantile for larger rates.

    rate <= 708    the number of cumulative probabilities of 0, 1, 2, ... that are at most u
    rate > 708     the largest k whose gamma quantile of shape k is at most the rate

Both definitions are equivalent: k events occur before the time `rate` exactly if the k-th event does, whose
time has a gamma distribution of shape k. For large rates, u is converted to a normal number, and this to
a gamma quantile (`gamma.gamma_quantile`). A series determines the number up to one candidate, and the gamma
quantile decides.

Source: M. B. Giles, "Algorithm 955: approximation of the inverse Poisson cumulative distribution
function" (2016): the series.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop import gamma

MAX_UNIFORM = 1.0 - 1e-13
"""Largest uniform number for Poisson numbers by sums. Less probable counts are never drawn."""

MAX_SUMMED_RATE = 708.0
"""Largest rate whose probability of no event, `exp(-rate)`, is a normal float64 (not subnormal)."""

MAX_TERMS = 1024
"""Upper bound of the number of sums at the largest rate: 12 standard deviations above the mean."""

LARGEST_RATE = 9.2e18
"""Largest rate whose Poisson numbers fit into int64."""


def poisson_quantile(z: Any, rate: Any) -> Any:
    """Return the quantile of the Poisson distribution, as a float, at the probability Phi(z).

    The number `z` is standard normal.

    The rate is above 708. The error of the series is below 0.01 for all z, so the nearest whole number is
    the quantile or larger by one.
    """
    rate_root = np.sqrt(rate)
    z_squared = z * z
    approximate_quantile = (
        rate + rate_root * z + (z_squared + 2.0) / 6.0 - z * (z_squared + 2.0) / (rate_root * 72.0)
    )
    rounded_quantile = np.ceil(approximate_quantile - 0.5)
    is_too_large = gamma.gamma_quantile(-z, rounded_quantile) > rate
    return np.where(is_too_large, rounded_quantile - 1.0, rounded_quantile)


def sum_next_term(u: Any, rate: Any, event_number: Any, state: Sequence[Any]) -> tuple[Any, ...]:
    """Return the state of the sums of probabilities after the term of one more event.

    The state has four parts: the last term, the sum, whether the Poisson number is still counted, and the
    Poisson number so far. Counting ends where the sum exceeds u, or no longer grows in float64.
    """
    term, total, is_counting, count = state
    next_term = term * rate / event_number
    next_total = total + next_term
    next_count = count + is_counting.astype(np.int64)
    is_sum_below_u = (total < next_total) & (u >= next_total)
    return next_term, next_total, is_counting & is_sum_below_u, next_count
