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
from typing import Any, Generic, Self, TypeVar

from mdf_loop import arguments, signals
from mdf_loop.errors import LoopError
from mdf_loop.user_warnings import warn_user

REACTIONS = ("raise", "return")
"""Allowed values of the argument `on_interrupt`."""

T = TypeVar("T")

_call_depth = 0
"""Number of nested interruptible calls in the main thread."""


class InterruptReaction(Generic[T]):
    """Context manager of a call that reacts to Ctrl-C as `on_interrupt` specifies.

        with InterruptReaction(on_interrupt, describe) as call:
            call.results = compute()
        return call.results

    After an interrupt, `compute` returns partial results, or raises KeyboardInterrupt with partial results
    in `.results`, with all files written. Only the main thread receives signals, so that the context
    manager has no effect in other threads. A nested call (from an objective or a callback) always raises,
    so that the outer call ends.

    Attributes:
        results: Complete or partial results.

    Raises:
        InputError: `on_interrupt` is another word.
        KeyboardInterrupt: The call was interrupted. `results` holds the partial results, or None.
    """

    results: T

    def __init__(self, on_interrupt: str | None, describe: Callable[[T], str]) -> None:
        if on_interrupt is not None:
            arguments.word(on_interrupt, "on_interrupt", REACTIONS)
        self._on_interrupt, self._describe = on_interrupt, describe

    def __enter__(self) -> Self:
        global _call_depth
        self._has_signals = signals.in_main_thread()
        if self._has_signals:
            self._interrupt_count = signals.interrupt_count()
            _call_depth += 1
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        global _call_depth
        if not self._has_signals:
            return False
        _call_depth -= 1
        is_interrupted = signals.interrupt_count() != self._interrupt_count
        if error is None and is_interrupted:
            self._react()
        elif isinstance(error, KeyboardInterrupt):
            results = None if _is_nested(error) else getattr(error, "results", None)
            if results is None or self._reaction == "silent":
                attach_results(error, results)
                return False
            self.results = results
            self._react()
            return True
        elif isinstance(error, LoopError) and is_interrupted and self._reaction == "raise":
            raise attach_results(KeyboardInterrupt(), error.results) from error
        return False

    @property
    def _reaction(self) -> str:
        """Reaction of the call to Ctrl-C: `raise`, `return`, or `silent` within a command."""
        return _choose_reaction(self._on_interrupt, is_nested=_call_depth > 0)

    def _react(self) -> None:
        """Raise KeyboardInterrupt with the results, or warn that they are partial."""
        if self._reaction == "raise":
            message = f"{self._describe(self.results)}; what was reached is in .results"
            interrupt = KeyboardInterrupt(message)
            raise attach_results(interrupt, self.results, is_nested=_call_depth > 0) from None
        if self._reaction == "return":
            warn_user(f"interrupted, this is only what was reached: {self._describe(self.results)}")


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
    """Return True if the results attached to a KeyboardInterrupt come from a nested call."""
    return getattr(interrupt, "is_nested", False)
