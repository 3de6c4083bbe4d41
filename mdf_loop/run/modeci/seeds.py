"""Random seed of loops within modeci_mdf's engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mdf_loop.public_call import public_call
from mdf_loop.trials import checked_draws

current_seed = 0


@public_call
def seed(number: int | str) -> int:
    """Set the random seed of loops within modeci_mdf's engine and in `mdf_loop.loop`.

    Loops of existing graphs continue with random numbers of the new seed. Draws of a model outside of its
    loops use NumPy's own random state.

    Args:
        number: Seed from 0 to 2**64 - 1, or `"fresh"` for a random seed.

    Returns:
        The seed.

    Raises:
        InputError: `number` is not a valid seed.
    """
    global current_seed
    current_seed = checked_draws(number).seed
    return current_seed


@contextmanager
def use_seed(number: int) -> Iterator[None]:
    """Set the random seed of loops in modeci_mdf's engine within this context.

    At the end, restore the previous seed.
    """
    previous_seed = current_seed
    seed(number)
    try:
        yield
    finally:
        seed(previous_seed)
