"""Poisson random numbers: by sums of probabilities up to a rate of 708, by a normal number above.

    sums      how many of the running sums of the probabilities of 0, 1, 2, ... are not above u
    larger    the largest k whose gamma number of shape k is not above the rate

The second is the first, written otherwise: k events come no later than the rate exactly if the k-th one,
which comes after a time that is a gamma number of shape k, does. So u is made a normal number, and that
a gamma number (`gamma.of_normal`). The only k for which that is not plain is found by a series.

Source: M. B. Giles, "Algorithm 955: approximation of the inverse Poisson cumulative distribution
function" (2016): the series.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop import gamma

HIGHEST = 1.0 - 1e-13
"""Largest uniform number of a Poisson distribution by sums: what is less likely is not drawn."""

LARGEST_SUMMED = 708.0
"""Largest rate whose probability of no event, `exp(-rate)`, is a number of all 53 bits."""

MAX_TERMS = 1024
"""Number of sums that no draw of such a rate reaches: 12 standard deviations above the mean."""

LARGEST_RATE = 9.2e18
"""Largest rate whose numbers have 64 bits."""


def of_normal(z: Any, rate: Any) -> Any:
    """Return the Poisson number, as a float, of a rate above 708 that is as likely as the normal number z.

    The series is off by less than 0.01 for all z, so the nearest whole number is it, or one too many.
    """
    root = np.sqrt(rate)
    square = z * z
    near = rate + root * z + (square + 2.0) / 6.0 - z * (square + 2.0) / (root * 72.0)
    nearest = np.ceil(near - 0.5)
    is_later = gamma.of_normal(-z, nearest) > rate
    return np.where(is_later, nearest - 1.0, nearest)
