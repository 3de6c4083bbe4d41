"""Functions that describe scheduler conditions in words, as in `after 2 calls of A`.

`{type: EveryNCalls, kwargs: {dependency: A, n: 2}}` -> `every 2 calls of A`.

Every text can follow "runs" and "ends". Numbers of passes and evaluations are those in the document. They
are counted from 0.

Source: graph-scheduler's condition classes (1.2.2), read as modeci_mdf's `parse_condition` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from mdf_loop.document.parts import DocumentValue
from mdf_loop.reading.schedule.arguments import INNER_CONDITION, Arguments, node_id, scale_name


class ConditionPhrase(Arguments, frozen=True, eq=False):
    """Formatter of a scheduler condition's arguments, for phrases such as `after pass 3`.

    `describe_inner` returns the text of an inner condition.

    The condition may be one that cannot be compiled. A missing argument is shown as a question mark.
    """

    describe_inner: Callable[[DocumentValue], str]

    def format_argument(self, value: DocumentValue) -> str:
        """Return the text of an argument: a node's id, a condition, a list, or a value."""
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self.format_argument, value))}]"
        if hasattr(value, "kwargs") or (isinstance(value, Mapping) and "type" in value):
            return self.describe_inner(value)
        return str(node_id(value))

    def format_nodes(self, word: str = "and") -> str:
        """Return the nodes of the condition as text: `A, B and C`."""
        return _join_names(
            [self.format_argument(node) for node in self.node_arguments()] or ["?"], word
        )

    def read_number(self, default: Any = "?") -> Any:
        """Return the argument `n` of the condition, as an integer if it is whole."""
        argument_value = self.get("n")
        return (
            int(argument_value)
            if isinstance(argument_value, float) and argument_value.is_integer()
            else default
            if argument_value is None
            else argument_value
        )

    def format_group(self, condition: DocumentValue) -> str:
        """Return the text of an inner condition, in brackets if the condition has several parts."""
        condition_text = self.format_argument(condition)
        return (
            f"({condition_text})"
            if " and " in condition_text or " or " in condition_text
            else condition_text
        )


ConditionText: TypeAlias = Callable[[ConditionPhrase], str]


def as_call(phrase: ConditionPhrase) -> str:
    """Describe a condition by its type and arguments, such as `when Mine(a=1)`."""
    argument_list = ", ".join(
        f"{argument_name}={phrase.format_argument(argument_value)}"
        for argument_name, argument_value in phrase.arguments.items()
    )
    return f"when {phrase.type}({argument_list})"


def fixed(words: str) -> ConditionText:
    """Return a function that describes every condition by the same fixed text."""
    return lambda phrase: words


# --- counts -----------------------------------------------------------------------------------


def _join_names(names: Iterable[str], word: str = "and") -> str:
    """Join names with commas and `and`: `A`, `A and B`, or `A, B and C`."""
    *first_names, last_name = names
    return f"{', '.join(first_names)} {word} {last_name}" if first_names else last_name


def _format_count(n: DocumentValue, noun: str) -> str:
    """Return a number with a noun, such as `2 calls` or `1 pass`."""
    plural_noun = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{n} {noun if str(n) == '1' else plural_noun}"


def _format_period(n: DocumentValue, noun: str) -> str:
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
    """Return the time scale of a condition as text, or an empty text for the default time scale."""
    time_scale = phrase.get("time_scale")
    scale_text = _SCALE_TEXTS.get(
        scale_name(usual if time_scale is None else time_scale), f" in {time_scale}"
    )
    return "" if scale_text == _SCALE_TEXTS[usual] else scale_text


def calls(word: str) -> ConditionText:
    """Return a function that describes conditions such as `after 2 calls of A`."""
    return lambda phrase: (
        f"{word} {_format_count(phrase.read_number(), 'call')} of {phrase.format_nodes()}{_format_scale(phrase)}"
    )


def calls_together(phrase: ConditionPhrase) -> str:
    """Describe a condition such as `after 2 calls of A and B together`."""
    node_text = phrase.format_nodes() if phrase.node_arguments() else "no node"
    return f"after {_format_count(phrase.read_number(), 'call')} of {node_text}{_format_scale(phrase)} together"


def every_call(phrase: ConditionPhrase) -> str:
    """Describe a condition such as `every 2 calls of A`."""
    return f"{_format_period(phrase.read_number(), 'call')} of {phrase.format_nodes()}"


def at_number(words: str, usual: str = UPDATE) -> ConditionText:
    """Return a function that describes a condition by `words` and a number, as `after pass 3`."""
    return lambda phrase: f"{words} {phrase.read_number()}{_format_scale(phrase, usual)}"


def after(noun: str, usual: str = UPDATE) -> ConditionText:
    """Return a function that describes conditions such as `after 3 passes`."""
    return lambda phrase: (
        f"after {_format_count(phrase.read_number(), noun)}{_format_scale(phrase, usual)}"
    )


def every_pass(phrase: ConditionPhrase) -> str:
    """Describe a condition such as `every 3 passes`."""
    return f"{_format_period(phrase.read_number(), 'pass')}{_format_scale(phrase)}"


# --- conditions about conditions --------------------------------------------------------------


def joined(word: str) -> ConditionText:
    """Return a function that describes composite conditions such as `just after A and after pass 1`."""

    def text(phrase: ConditionPhrase) -> str:
        inner_conditions = [condition for _, condition in phrase.parts()]
        if len(inner_conditions) == 1:
            return phrase.format_argument(inner_conditions[0])
        return (
            f" {word} ".join(map(phrase.format_group, inner_conditions))
            or _EMPTY_CONDITION_TEXTS[word]
        )

    return text


_EMPTY_CONDITION_TEXTS = {"and": "always", "or": "never"}
"""Text of a condition without parts: all of no parts always hold, any of no parts never holds."""


def opposite(phrase: ConditionPhrase) -> str:
    """Describe a condition such as `not at pass 0`."""
    return f"not {phrase.format_group(phrase.arguments.get(INNER_CONDITION, '?'))}"


def first_times(phrase: ConditionPhrase) -> str:
    """Describe a condition such as `3 times at most, after pass 2`."""
    max_times = phrase.read_number(1)
    count_text = "once" if str(max_times) == "1" else f"{max_times} times"
    return f"{count_text} at most, {phrase.format_argument(phrase.arguments.get(INNER_CONDITION, '?'))}"


# --- nodes and values -------------------------------------------------------------------------


def just_ran(phrase: ConditionPhrase) -> str:
    """Describe a condition such as `just after A`."""
    return f"just after {phrase.format_nodes()}"


def all_have_run(phrase: ConditionPhrase) -> str:
    """Describe a condition such as `once A and B have run`."""
    verb = "have" if len(phrase.node_arguments()) > 1 else "has"
    subject_text = f"{phrase.format_nodes()} {verb}" if phrase.node_arguments() else "all have"
    return f"once {subject_text} run{_format_scale(phrase)}"


def finished(word: str, all_of_them: str) -> ConditionText:
    """Return a function that describes conditions such as `when A and B are finished`."""

    def text(phrase: ConditionPhrase) -> str:
        subject_text = phrase.format_nodes(word) if phrase.node_arguments() else all_of_them
        is_plural = word == "and" and len(phrase.node_arguments()) != 1
        return f"when {subject_text} {'are' if is_plural else 'is'} finished"

    return text


def threshold(phrase: ConditionPhrase) -> str:
    """Describe a condition such as `when A.x[0] >= 0.5`."""
    arguments = phrase.arguments
    stated_indices = arguments.get("indices")
    indices = (
        stated_indices
        if isinstance(stated_indices, list | tuple)
        else []
        if stated_indices is None
        else [stated_indices]
    )
    index_text = "".join(f"[{i}]" for i in indices)
    operand = f"{phrase.format_nodes()}.{arguments.get('parameter', '?')}{index_text}"
    comparator = arguments.get("comparator", "?")
    tolerances = [
        f"{argument} {arguments[argument]}"
        for argument in ("atol", "rtol")
        if arguments.get(argument)
    ]
    tolerance_text = (
        f" within {_join_names(tolerances)}" if tolerances and comparator in ("==", "!=") else ""
    )
    return f"when {operand} {comparator} {arguments.get('threshold', '?')}{tolerance_text}"


def _format_time(value: DocumentValue, phrase: ConditionPhrase) -> str:
    """Return a time with its unit, such as `2 ms`.

    A text that already has a unit is not changed.
    """
    time_text = str(value)
    return (
        time_text
        if time_text[-1:].isalpha()
        else f"{time_text} {phrase.arguments.get('unit', 'ms')}"
    )


def interval(phrase: ConditionPhrase) -> str:
    """Describe a condition such as `every 2 ms from 1 ms until 9 ms`."""
    arguments = phrase.arguments
    prepositions = {
        "repeat": "every",
        "start": "from" if arguments.get("start_inclusive", True) else "after",
        "end": "until" if arguments.get("end_inclusive", True) else "before",
    }
    time_phrases = [
        f"{prepositions[argument]} {_format_time(arguments[argument], phrase)}"
        for argument in prepositions
        if arguments.get(argument) is not None
    ]
    return " ".join(time_phrases) or "at any time"


def from_time(phrase: ConditionPhrase) -> str:
    """Describe a condition such as `from 5 ms on`."""
    time_text = _format_time(phrase.arguments.get("t", "?"), phrase)
    return (
        f"from {time_text} on" if phrase.arguments.get("inclusive", True) else f"after {time_text}"
    )
