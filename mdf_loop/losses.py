"""Scalar objectives of derivatives: sums over outputs.

losses({"cell.V": "mean", "cell.W": {"sse": data}})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop import arguments
from mdf_loop.arguments import is_whole
from mdf_loop.errors import InputError
from mdf_loop.quantities import NO_UNIT, convert

WORDS = ("sum", "mean", "last")
"""What a number is made of an output alone."""

WITH_DATA = ("sse", "weighted")
"""What it is made of an output and as many numbers: squared differences, or products."""

_HINT = 'give of={"node.port": "mean"}, "sum", "last", {"sse": data} or {"weighted": weights}'


class Loss(Struct, frozen=True):
    """Sum over an output. `data` are the values to compare with, or weights."""

    output: str
    word: str
    data: Any = None


def losses(of: Any) -> tuple[Loss, ...]:
    """Return the terms of an objective from a mapping of outputs to words or lists of words.

    Raises:
        InputError: a word means nothing, or there is none.
    """
    if not isinstance(of, Mapping) or not of:
        raise InputError(f"of says what is differentiated, not {of!r}"[:200], hint=_HINT)
    names = arguments.names(tuple(of), "of")
    return tuple(loss for name in names for loss in _of_one(name, of[name]))


def _of_one(name: str, terms: Any) -> Iterator[Loss]:
    if isinstance(terms, list | tuple):
        for each in terms:
            yield from _of_one(name, each)
    elif isinstance(terms, str) and terms in WORDS:
        yield Loss(name, terms)
    elif isinstance(terms, Mapping) and len(terms) == 1 and next(iter(terms)) in WITH_DATA:
        ((word, data),) = terms.items()
        yield Loss(name, str(word), _numbers(name, word, data))
    else:
        raise InputError(f"'{name}' cannot be made a number by {terms!r}"[:200], hint=_HINT)


def _numbers(name: str, word: str, data: Any) -> Any:
    data = convert(data, NO_UNIT, f"the array for {word} of '{name}'")
    try:
        array = np.asarray(data)
    except (TypeError, ValueError):  # rows of different lengths
        array = None
    if array is None or array.dtype.kind not in "biuf":
        raise InputError(f"the data of {word} of '{name}' are no array of numbers")
    return array.astype(np.float64)


def wanted(wrt: Any) -> Sequence[str]:
    """Return the names of the differentiation variables, without duplicates.

    Raises:
        InputError: there is none, or one of them is no name.
    """
    names = arguments.names([wrt] if isinstance(wrt, str) else wrt, "wrt")
    if not names:
        raise InputError(
            "wrt names nothing", hint="name parameters (node.parameter) or inputs, as set does"
        )
    return tuple(dict.fromkeys(names))


def truncated(truncate: Any) -> int | None:
    """Return the number of iterations that derivatives go back.

    Raises:
        InputError: it is no whole number above 0.
    """
    if truncate is None:
        return None
    if is_whole(truncate) and truncate > 0:
        return int(truncate)
    raise InputError(
        f"truncate is how many iterations derivatives go back through, not {truncate!r}"[:200],
        hint="give a whole number above 0, or leave it out",
    )
