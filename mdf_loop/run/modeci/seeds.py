"""The seed of loops that draw random numbers inside modeci_mdf's own engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mdf_loop.public_call import public_call
from mdf_loop.trials import draws

current = 0


@public_call
def seed(number: int | str) -> int:
    """Say which random numbers loops draw from now on, inside modeci_mdf's own engine and in `loop`.

    Loops of a graph that was made before go on where they are, with numbers of this seed. What a model
    draws outside of its loops there is up to numpy.

    Args:
        number: from 0 to 2**64 - 1, or `"fresh"` for a seed that nobody has chosen.

    Returns:
        The seed.

    Raises:
        InputError: it is no seed.
    """
    global current
    current = draws(number).seed
    return current


@contextmanager
def seeded(number: int) -> Iterator[None]:
    """Set the seed within this context."""
    before = current
    seed(number)
    try:
        yield
    finally:
        seed(before)
