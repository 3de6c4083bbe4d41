"""Scalar objectives to differentiate, which are sums of terms over outputs.

parse_losses({"cell.V": "mean", "cell.W": {"sse": data}})
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

TERMS_WITHOUT_DATA = ("sum", "mean", "last")
"""Terms that need an output only: the sum or the mean of all elements, or the sum of the last row."""

TERMS_WITH_DATA = ("sse", "weighted")
"""Terms that need an array like the output: the sum of squared differences, or of products."""

_HINT = 'give of={"node.port": "mean"}, "sum", "last", {"sse": data} or {"weighted": weights}'


class Loss(Struct, frozen=True):
    """Term of a scalar objective: an output, the kind of the term, and its data.

    Attributes:
        output: Name of the output.
        term_kind: Kind of the term, in `TERMS_WITHOUT_DATA` or `TERMS_WITH_DATA`.
        data: Array of data to compare with, or of weights; None for a kind in `TERMS_WITHOUT_DATA`.
    """

    output: str
    term_kind: str
    data: Any = None


def parse_losses(of: Any) -> tuple[Loss, ...]:
    """Return the terms of the objective that a mapping from outputs to losses describes.

    Raises:
        InputError: A term is invalid, or the mapping is empty.
    """
    if not isinstance(of, Mapping) or not of:
        raise InputError(f"of says what is differentiated, not {of!r}"[:200], hint=_HINT)
    output_names = arguments.names(tuple(of), "of")
    return tuple(
        loss for output_name in output_names for loss in _parse_terms(output_name, of[output_name])
    )


def _parse_terms(name: str, terms: Any) -> Iterator[Loss]:
    """Yield the terms of an objective for one output."""
    if isinstance(terms, list | tuple):
        for nested_term in terms:
            yield from _parse_terms(name, nested_term)
    elif isinstance(terms, str) and terms in TERMS_WITHOUT_DATA:
        yield Loss(name, terms)
    elif isinstance(terms, Mapping) and len(terms) == 1 and next(iter(terms)) in TERMS_WITH_DATA:
        ((term_kind, term_data),) = terms.items()
        yield Loss(name, str(term_kind), _check_array(name, term_kind, term_data))
    else:
        raise InputError(f"'{name}' cannot be made a number by {terms!r}"[:200], hint=_HINT)


def _check_array(name: str, word: str, loss_data: Any) -> Any:
    """Return the data or weights of an objective's term as a float64 array, or raise InputError."""
    loss_data = convert(loss_data, NO_UNIT, f"the array for {word} of '{name}'")
    try:
        data_array = np.asarray(loss_data)
    except (TypeError, ValueError):  # rows of different lengths
        data_array = None
    if data_array is None or data_array.dtype.kind not in "biuf":
        raise InputError(f"the data of {word} of '{name}' are no array of numbers")
    return data_array.astype(np.float64)


def checked_names(wrt: Any) -> Sequence[str]:
    """Return the names in the argument `wrt` of a gradient, without duplicates.

    Raises:
        InputError: `wrt` contains no name, or an element that is no text.
    """
    wrt_names = arguments.names([wrt] if isinstance(wrt, str) else wrt, "wrt")
    if not wrt_names:
        raise InputError(
            "wrt names nothing", hint="name parameters (node.parameter) or inputs, as set does"
        )
    return tuple(dict.fromkeys(wrt_names))


def checked_truncation(truncate: Any) -> int | None:
    """Return the checked number of loop iterations through which gradients flow back, or None.

    Raises:
        InputError: The number is no whole number above 0.
    """
    if truncate is None:
        return None
    if is_whole(truncate) and truncate > 0:
        return int(truncate)
    raise InputError(
        f"truncate is how many iterations derivatives go back through, not {truncate!r}"[:200],
        hint="give a whole number above 0, or leave it out",
    )
