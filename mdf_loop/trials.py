"""Options for random runs: the seed, the trials, and statistics over trials.

checked_draws(seed=1, trials=range(100, 200))
checked_over_trials({"ddm.rt": ["mean", {"quantiles": [0.1, 0.5, 0.9]}]}, by="ddm.choice")
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from mdf_loop import arguments
from mdf_loop.arguments import is_whole
from mdf_loop.errors import InputError
from mdf_loop.quantities import NO_UNIT, convert
from mdf_loop.request.recording_options import OVER_TRIALS_EXAMPLE


class Draws(Struct, frozen=True):
    """Random seed of a run, and the indices of its trials.

    Attributes:
        seed: Seed of all random numbers.
        trials: Numbers of the trials, or None for one run without trials.
    """

    seed: int = 0
    trials: tuple[int, ...] | range | None = None


DEFAULT_DRAWS = Draws()
"""Default random numbers: seed 0, without trials."""


class Statistic(Struct, frozen=True):
    """Requested statistic of an output over all trials.

    Attributes:
        name: Name of the statistic, such as `mean` or `quantiles`.
        parameters: Parameters of the statistic, such as the probabilities of quantiles.
    """

    name: str
    parameters: tuple[float, ...] = ()


class OverTrials(Struct, frozen=True):
    """Requested statistics over trials, by output.

    Attributes:
        statistics: Statistics by output.
        by: Output that divides the trials into groups, or None.
    """

    statistics: Mapping[str, tuple[Statistic, ...]] = field(default_factory=dict)
    by: str | None = None


NO_STATISTICS = OverTrials()
"""No statistics: results contain each trial."""


MAX_TRIALS = 1 << 40
"""Largest number of trials. A larger argument is refused as a mistake."""


def checked_draws(seed: Any, trials: Any = None) -> Draws:
    """Return the checked seed and trials of a run, with an arbitrary seed for `"fresh"`.

    Raises:
        InputError: The seed is no whole number from 0 to 2**64 - 1, or the trials are invalid.
    """
    if isinstance(seed, str) and seed == "fresh":
        seed = secrets.randbits(64)
    if not is_whole(seed) or not 0 <= seed < 1 << 64:
        raise InputError(
            f"seed must be a whole number from 0 to 2**64 - 1, not {seed!r}"[:200],
            hint='give seed=1, or seed="fresh" for one that is new each time',
        )
    if trials is None and seed == DEFAULT_DRAWS.seed:
        return DEFAULT_DRAWS
    return Draws(int(seed), None if trials is None else _parse_trials(trials))


def _parse_trials(argument: Any) -> tuple[int, ...] | range:
    """Return trial numbers from a count or a list of numbers, or raise InputError."""
    if is_whole(argument) and 1 <= argument <= MAX_TRIALS:
        return range(int(argument))
    trial_numbers = argument if isinstance(argument, range) else _list_integers(argument)
    is_range = isinstance(trial_numbers, range)  # may be long, and has no duplicates
    checked_trial_numbers = (
        (trial_numbers[0], trial_numbers[-1]) if is_range and trial_numbers else trial_numbers
    )
    extreme_trial_numbers = (
        min(checked_trial_numbers, default=-1),
        max(checked_trial_numbers, default=-1),
    )
    has_repetitions = not is_range and len(set(trial_numbers)) < len(trial_numbers)
    if extreme_trial_numbers[0] < 0 or extreme_trial_numbers[1] > MAX_TRIALS or has_repetitions:
        raise InputError(
            f"trials must be how many there are, or their numbers, each once: not {argument!r}"[
                :200
            ],
            hint="give trials=1000, trials=[2041], or trials=range(100, 200)",
        )
    return trial_numbers


def _list_integers(argument: Any) -> tuple[int, ...]:
    """Return the integers of a list, or an empty tuple for other objects."""
    if isinstance(argument, np.ndarray):
        argument = argument.tolist() if argument.ndim == 1 else ()
    is_integer_list = (
        isinstance(argument, Sequence)
        and not isinstance(argument, str)
        and all(map(is_whole, argument))
    )
    return tuple(map(int, argument)) if is_integer_list else ()


def checked_over_trials(argument: Any, by: Any) -> OverTrials:
    """Return the requested statistics over trials from a run's arguments `over_trials` and `by`.

    Raises:
        InputError: An argument is invalid.
    """
    if argument is None and by is None:
        return NO_STATISTICS
    words_by_output = arguments.mapping(argument, "over_trials", OVER_TRIALS_EXAMPLE)
    statistics = {
        output_name: tuple(_parse_statistics(output_name, statistic_words))
        for output_name, statistic_words in words_by_output.items()
    }
    return OverTrials(statistics, None if by is None else arguments.text(by, "by", "by='a.choice'"))


def _parse_statistics(name: str, argument: Any) -> Iterator[Statistic]:
    """Yield the statistics over trials that are requested of one output."""
    for statistic_word in [argument] if isinstance(argument, str | Mapping) else argument:
        if isinstance(statistic_word, str):
            yield Statistic(statistic_word)
            continue
        for statistic_name, statistic_numbers in arguments.mapping(
            statistic_word, f"over_trials of '{name}'", OVER_TRIALS_EXAMPLE
        ).items():
            statistic_numbers = convert(
                statistic_numbers, NO_UNIT, f"{statistic_name} over trials of '{name}'"
            )
            number_array = np.asarray(statistic_numbers, dtype=object).ravel()
            if not number_array.size or not all(
                isinstance(element, int | float | np.number) for element in number_array
            ):
                raise InputError(
                    f"{statistic_name} over trials of '{name}' are no numbers: {statistic_numbers!r}"[
                        :200
                    ]
                )
            yield Statistic(statistic_name, tuple(map(float, number_array)))
