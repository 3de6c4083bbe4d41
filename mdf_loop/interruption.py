"""Reaction of Python calls to Ctrl-C: raise KeyboardInterrupt, or return the partial results.

    "raise"     in a script, so that the script does not continue with partial results
    "return"    in an interactive session (REPL, notebook, `python -i`), with a warning

Within a command of the command line, calls return partial results without a warning, and the command
handles the interrupt.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from mdf_loop import arguments, signals
from mdf_loop.errors import LoopError
from mdf_loop.user_warnings import warn_user

REACTIONS = ("raise", "return")
"""Allowed values of the argument `on_interrupt`."""

T = TypeVar("T")

_call_depth = 0
"""Number of nested interruptible calls in the main thread."""


def interruptible(
    compute: Callable[[], T],
    on_interrupt: str | None,
    describe: Callable[[T], str],
) -> T:
    """Return the results of `compute`, and react to Ctrl-C as `on_interrupt` specifies.

    Only the main thread receives signals. In other threads this function only calls `compute`. A nested
    call (from an objective or a callback) always raises, so that the outer call ends.

    Args:
        compute: Function that computes the results. After an interrupt it returns partial results, with
            all files written.
        on_interrupt: `raise`, `return`, or None for the default of a script or an interactive session.
        describe: Function that returns a text about the progress that partial results show.

    Raises:
        InputError: `on_interrupt` is another word.
        KeyboardInterrupt: The call was interrupted. `results` holds the partial results, or None.
        LoopError: `compute` failed.
    """
    global _call_depth
    if on_interrupt is not None:
        arguments.word(on_interrupt, "on_interrupt", REACTIONS)
    if not signals.in_main_thread():
        return compute()
    is_nested = _call_depth > 0
    interrupt_count_before = signals.interrupt_count()
    _call_depth += 1
    try:
        results = compute()
        if signals.interrupt_count() == interrupt_count_before:
            return results
    except KeyboardInterrupt as interrupt:
        partial_results = None if _is_nested(interrupt) else getattr(interrupt, "results", None)
        if partial_results is None or _choose_reaction(on_interrupt, is_nested) == "silent":
            attach_results(interrupt, partial_results)
            raise
        results = partial_results
    except LoopError as error:
        if (
            signals.interrupt_count() == interrupt_count_before
            or _choose_reaction(on_interrupt, is_nested) != "raise"
        ):
            raise
        raise attach_results(KeyboardInterrupt(), error.results) from error
    finally:
        _call_depth -= 1
    reaction = _choose_reaction(on_interrupt, is_nested)
    if reaction == "raise":
        message = f"{describe(results)}; what was reached is in .results"
        raise attach_results(KeyboardInterrupt(message), results, is_nested=is_nested)
    if reaction == "return":
        message = f"interrupted, this is only what was reached: {describe(results)}"
        warn_user(message)
    return results


def _choose_reaction(on_interrupt: str | None, is_nested: bool) -> str:
    """Return how a call reacts to Ctrl-C: `raise`, `return`, or `silent` within a command."""
    if is_nested:
        return "raise"
    if on_interrupt is not None:
        return on_interrupt
    if signals.in_command():
        return "silent"
    return "return" if is_interactive() else "raise"


def is_interactive() -> bool:
    """Return True in an interactive session: a REPL, a notebook, or `python -i`."""
    interactive_flags = sys.flags.interactive or sys.flags.inspect
    return bool(interactive_flags) or hasattr(sys, "ps1") or hasattr(builtins, "get_ipython")


def attach_results(interrupt: KeyboardInterrupt, results: Any, *, is_nested: bool = False) -> Any:
    """Attach partial results to an interrupt as its attribute `results`, and return it."""
    interrupt.results = results  # type: ignore[attr-defined]
    interrupt.is_nested = is_nested  # type: ignore[attr-defined]
    return interrupt


def _is_nested(interrupt: KeyboardInterrupt) -> bool:
    """Return True if the results of an exception belong to a nested call."""
    return getattr(interrupt, "is_nested", False)
