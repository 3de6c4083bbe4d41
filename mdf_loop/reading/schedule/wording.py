"""Scheduler conditions as text. `table` combines the functions of this module.

`{type: EveryNCalls, kwargs: {dependency: A, n: 2}}` -> `every 2 calls of A`.

Every text can follow "runs" and "ends". Numbers of passes and evaluations are those in the document. They
are counted from 0.

Source: graph-scheduler's condition classes (1.2.2), read as modeci_mdf's `parse_condition` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from mdf_loop.reading.schedule.arguments import INNER_CONDITION, Arguments, node_id, scale_name


class ConditionPhrase(Arguments, frozen=True, eq=False):
    """Condition whose text is composed. `describe_inner` returns the text of an inner condition.

    The condition may be one that cannot be compiled. A missing argument is shown as a question mark.
    """

    describe_inner: Callable[[Any], str]

    def format_argument(self, value: Any) -> str:
        """Return the text of an argument: a node's id, a condition, a list, or a value."""
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self.format_argument, value))}]"
        if hasattr(value, "kwargs") or (isinstance(value, Mapping) and "type" in value):
            return self.describe_inner(value)
        return str(node_id(value))

    def format_nodes(self, word: str = "and") -> str:
        """Return the nodes of the condition as text: `A, B and C`."""
        return _join_names(
            [self.format_argument(part) for part in self.node_arguments()] or ["?"], word
        )

    def read_number(self, default: Any = "?") -> Any:
        """Return the argument `n`, as an integer if it is whole."""
        n = self.get("n")
        return int(n) if isinstance(n, float) and n.is_integer() else default if n is None else n

    def format_group(self, condition: Any) -> str:
        """Return the text of an inner condition, in brackets if the condition has several parts."""
        text = self.format_argument(condition)
        return f"({text})" if " and " in text or " or " in text else text


ConditionText: TypeAlias = Callable[[ConditionPhrase], str]


def as_call(phrase: ConditionPhrase) -> str:
    """Return the text of a condition of unknown wording, in the form `when Mine(a=1)`."""
    argument_list = ", ".join(
        f"{key}={phrase.format_argument(value)}" for key, value in phrase.arguments.items()
    )
    return f"when {phrase.type}({argument_list})"


def fixed(words: str) -> ConditionText:
    """Return a text function that returns the same words for every condition."""
    return lambda phrase: words


# --- counts -----------------------------------------------------------------------------------


def _join_names(names: Iterable[str], word: str = "and") -> str:
    """Return `A`, `A and B`, or `A, B and C`."""
    *first_names, last_name = names
    return f"{', '.join(first_names)} {word} {last_name}" if first_names else last_name


def _format_count(n: Any, noun: str) -> str:
    """Return a number with a noun, such as `2 calls` or `1 pass`."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{n} {noun if str(n) == '1' else plural}"


def _format_period(n: Any, noun: str) -> str:
    """Return a period, such as `every 2 calls` or `every call`."""
    return f"every {noun if str(n) == '1' else _format_count(n, noun)}"


UPDATE, SEQUENCE = "ENVIRONMENT_STATE_UPDATE", "ENVIRONMENT_SEQUENCE"

_SCALE_TEXTS = {
    "CONSIDERATION_SET_EXECUTION": " in the set",
    "PASS": " in the pass",
    UPDATE: " in the evaluation",
    SEQUENCE: " over all evaluations",
    "LIFE": " over all evaluations",
}


def _format_scale(phrase: ConditionPhrase, usual: str = UPDATE) -> str:
    """Return the unit of time within which a condition counts, or an empty text for the usual unit."""
    scale = phrase.get("time_scale")
    words = _SCALE_TEXTS.get(scale_name(usual if scale is None else scale), f" in {scale}")
    return "" if words == _SCALE_TEXTS[usual] else words


def calls(word: str) -> ConditionText:
    """Return a text function for conditions such as `after 2 calls of A`."""
    return lambda phrase: (
        f"{word} {_format_count(phrase.read_number(), 'call')} of {phrase.format_nodes()}{_format_scale(phrase)}"
    )


def calls_together(phrase: ConditionPhrase) -> str:
    """Return the text of a condition such as `after 2 calls of A and B together`."""
    subject = phrase.format_nodes() if phrase.node_arguments() else "no node"
    return f"after {_format_count(phrase.read_number(), 'call')} of {subject}{_format_scale(phrase)} together"


def every_call(phrase: ConditionPhrase) -> str:
    """Return the text of a condition such as `every 2 calls of A`."""
    return f"{_format_period(phrase.read_number(), 'call')} of {phrase.format_nodes()}"


def at(words: str, usual: str = UPDATE) -> ConditionText:
    """Return a text function for conditions such as `after pass 3`."""
    return lambda phrase: f"{words} {phrase.read_number()}{_format_scale(phrase, usual)}"


def after(noun: str, usual: str = UPDATE) -> ConditionText:
    """Return a text function for conditions such as `after 3 passes`."""
    return lambda phrase: (
        f"after {_format_count(phrase.read_number(), noun)}{_format_scale(phrase, usual)}"
    )


def every_pass(phrase: ConditionPhrase) -> str:
    """Return the text of a condition such as `every 3 passes`."""
    return f"{_format_period(phrase.read_number(), 'pass')}{_format_scale(phrase)}"


# --- conditions about conditions --------------------------------------------------------------


def joined(word: str) -> ConditionText:
    """Return a text function for conditions such as `just after A and after pass 1`."""

    def text(phrase: ConditionPhrase) -> str:
        parts = [part for _, part in phrase.parts()]
        if len(parts) == 1:
            return phrase.format_argument(parts[0])
        return f" {word} ".join(map(phrase.format_group, parts)) or _EMPTY_TEXTS[word]

    return text


_EMPTY_TEXTS = {"and": "always", "or": "never"}
"""Text of a condition without parts: all of no parts always hold, any of no parts never holds."""


def opposite(phrase: ConditionPhrase) -> str:
    """Return the text of a condition such as `not at pass 0`."""
    return f"not {phrase.format_group(phrase.arguments.get(INNER_CONDITION, '?'))}"


def first_times(phrase: ConditionPhrase) -> str:
    """Return the text of a condition such as `3 times at most, after pass 2`."""
    n = phrase.read_number(1)
    count_text = "once" if str(n) == "1" else f"{n} times"
    return f"{count_text} at most, {phrase.format_argument(phrase.arguments.get(INNER_CONDITION, '?'))}"


# --- nodes and values -------------------------------------------------------------------------


def just_ran(phrase: ConditionPhrase) -> str:
    """Return the text of a condition such as `just after A`."""
    return f"just after {phrase.format_nodes()}"


def all_have_run(phrase: ConditionPhrase) -> str:
    """Return the text of a condition such as `once A and B have run`."""
    verb = "have" if len(phrase.node_arguments()) > 1 else "has"
    subject = f"{phrase.format_nodes()} {verb}" if phrase.node_arguments() else "all have"
    return f"once {subject} run{_format_scale(phrase)}"


def finished(word: str, all_of_them: str) -> ConditionText:
    """Return a text function for conditions such as `when A and B are finished`."""

    def text(phrase: ConditionPhrase) -> str:
        subject = phrase.format_nodes(word) if phrase.node_arguments() else all_of_them
        is_plural = word == "and" and len(phrase.node_arguments()) != 1
        return f"when {subject} {'are' if is_plural else 'is'} finished"

    return text


def threshold(phrase: ConditionPhrase) -> str:
    """Return the text of a condition such as `when A.x[0] >= 0.5`."""
    arguments = phrase.arguments
    index = arguments.get("indices")
    indices = index if isinstance(index, list | tuple) else [] if index is None else [index]
    index_text = "".join(f"[{i}]" for i in indices)
    operand = f"{phrase.format_nodes()}.{arguments.get('parameter', '?')}{index_text}"
    sign = arguments.get("comparator", "?")
    tolerances = [f"{key} {arguments[key]}" for key in ("atol", "rtol") if arguments.get(key)]
    tolerance_text = (
        f" within {_join_names(tolerances)}" if tolerances and sign in ("==", "!=") else ""
    )
    return f"when {operand} {sign} {arguments.get('threshold', '?')}{tolerance_text}"


def _format_time(value: Any, phrase: ConditionPhrase) -> str:
    """Return a time with its unit, such as `2 ms`. A text that already has a unit is not changed."""
    text = str(value)
    return text if text[-1:].isalpha() else f"{text} {phrase.arguments.get('unit', 'ms')}"


def interval(phrase: ConditionPhrase) -> str:
    """Return the text of a condition such as `every 2 ms from 1 ms until 9 ms`."""
    arguments = phrase.arguments
    words = {
        "repeat": "every",
        "start": "from" if arguments.get("start_inclusive", True) else "after",
        "end": "until" if arguments.get("end_inclusive", True) else "before",
    }
    parts = [
        f"{words[key]} {_format_time(arguments[key], phrase)}"
        for key in words
        if arguments.get(key) is not None
    ]
    return " ".join(parts) or "at any time"


def from_time(phrase: ConditionPhrase) -> str:
    """Return the text of a condition such as `from 5 ms on`."""
    time = _format_time(phrase.arguments.get("t", "?"), phrase)
    return f"from {time} on" if phrase.arguments.get("inclusive", True) else f"after {time}"
