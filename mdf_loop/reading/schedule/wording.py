"""Scheduler conditions as words: what the rows of `table` are put together from.

`{type: EveryNCalls, kwargs: {dependency: A, n: 2}}` -> `every 2 calls of A`.

Every text can follow "runs" and "ends". Numbers of passes and evaluations are those that the
modeller wrote; they count from 0.

Source: graph-scheduler's condition classes (1.2.2), read as modeci_mdf's `parse_condition` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from mdf_loop.reading.schedule.arguments import INSIDE, Arguments, node_id, scale_name


class ConditionPhrase(Arguments, frozen=True, eq=False):
    """A condition to be put into words; `say` does that for those inside it.

    It need not be one that can be compiled: what it lacks is a question mark.
    """

    say: Callable[[Any], str]

    def name(self, value: Any) -> str:
        """Return the text of an argument: a node's id, a condition, a list, or a value."""
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self.name, value))}]"
        if hasattr(value, "kwargs") or (isinstance(value, Mapping) and "type" in value):
            return self.say(value)
        return str(node_id(value))

    def nodes(self, word: str = "and") -> str:
        """Return the nodes of the condition as text: `A, B and C`."""
        return _listed([self.name(part) for part in self.about()] or ["?"], word)

    def number(self, default: Any = "?") -> Any:
        """Return the argument `n`, as an integer if it is whole."""
        n = self.get("n")
        return int(n) if isinstance(n, float) and n.is_integer() else default if n is None else n

    def grouped(self, condition: Any) -> str:
        """Return the text of an inner condition, in brackets if it has several parts."""
        text = self.name(condition)
        return f"({text})" if " and " in text or " or " in text else text


Words: TypeAlias = Callable[[ConditionPhrase], str]


def as_call(phrase: ConditionPhrase) -> str:
    """Return the text of a condition without words of its own: `when Mine(a=1)`."""
    written = ", ".join(f"{key}={phrase.name(value)}" for key, value in phrase.arguments.items())
    return f"when {phrase.type}({written})"


def fixed(words: str) -> Words:
    """Return a function that gives the same words for all arguments."""
    return lambda phrase: words


# --- counts -----------------------------------------------------------------------------------


def _listed(names: Iterable[str], word: str = "and") -> str:
    """Return `A`, `A and B`, or `A, B and C`."""
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


def _several(n: Any, noun: str) -> str:
    """`2 calls`, `1 pass`."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{n} {noun if str(n) == '1' else plural}"


def _every(n: Any, noun: str) -> str:
    """`every 2 calls`, `every call`."""
    return f"every {noun if str(n) == '1' else _several(n, noun)}"


UPDATE, SEQUENCE = "ENVIRONMENT_STATE_UPDATE", "ENVIRONMENT_SEQUENCE"

_OVER = {
    "CONSIDERATION_SET_EXECUTION": " in the set",
    "PASS": " in the pass",
    UPDATE: " in the evaluation",
    SEQUENCE: " over all evaluations",
    "LIFE": " over all evaluations",
}


def _over(phrase: ConditionPhrase, usual: str = UPDATE) -> str:
    """Over which time something is counted, if not over the usual one."""
    scale = phrase.get("time_scale")
    words = _OVER.get(scale_name(usual if scale is None else scale), f" in {scale}")
    return "" if words == _OVER[usual] else words


def calls(word: str) -> Words:
    """`after 2 calls of A`, and the like."""
    return lambda phrase: (
        f"{word} {_several(phrase.number(), 'call')} of {phrase.nodes()}{_over(phrase)}"
    )


def calls_together(phrase: ConditionPhrase) -> str:
    """`after 2 calls of A and B together`."""
    who = phrase.nodes() if phrase.about() else "no node"
    return f"after {_several(phrase.number(), 'call')} of {who}{_over(phrase)} together"


def every_call(phrase: ConditionPhrase) -> str:
    """`every 2 calls of A`."""
    return f"{_every(phrase.number(), 'call')} of {phrase.nodes()}"


def at(words: str, usual: str = UPDATE) -> Words:
    """`after pass 3`, and the like."""
    return lambda phrase: f"{words} {phrase.number()}{_over(phrase, usual)}"


def after(noun: str, usual: str = UPDATE) -> Words:
    """`after 3 passes`, and the like."""
    return lambda phrase: f"after {_several(phrase.number(), noun)}{_over(phrase, usual)}"


def every_pass(phrase: ConditionPhrase) -> str:
    """`every 3 passes`."""
    return f"{_every(phrase.number(), 'pass')}{_over(phrase)}"


# --- conditions about conditions --------------------------------------------------------------


def joined(word: str) -> Words:
    """`just after A and after pass 1`."""

    def text(phrase: ConditionPhrase) -> str:
        parts = [part for _, part in phrase.parts()]
        if len(parts) == 1:
            return phrase.name(parts[0])
        return f" {word} ".join(map(phrase.grouped, parts)) or _NONE[word]

    return text


_NONE = {"and": "always", "or": "never"}
"""What no condition at all comes down to, all of them or any."""


def opposite(phrase: ConditionPhrase) -> str:
    """`not at pass 0`."""
    return f"not {phrase.grouped(phrase.arguments.get(INSIDE, '?'))}"


def first_times(phrase: ConditionPhrase) -> str:
    """`3 times at most, after pass 2`."""
    n = phrase.number(1)
    often = "once" if str(n) == "1" else f"{n} times"
    return f"{often} at most, {phrase.name(phrase.arguments.get(INSIDE, '?'))}"


# --- nodes and values -------------------------------------------------------------------------


def just_ran(phrase: ConditionPhrase) -> str:
    """`just after A`."""
    return f"just after {phrase.nodes()}"


def all_have_run(phrase: ConditionPhrase) -> str:
    """`once A and B have run`."""
    several = "have" if len(phrase.about()) > 1 else "has"
    who = f"{phrase.nodes()} {several}" if phrase.about() else "all have"
    return f"once {who} run{_over(phrase)}"


def finished(word: str, all_of_them: str) -> Words:
    """`when A and B are finished`."""

    def text(phrase: ConditionPhrase) -> str:
        who = phrase.nodes(word) if phrase.about() else all_of_them
        several = word == "and" and len(phrase.about()) != 1
        return f"when {who} {'are' if several else 'is'} finished"

    return text


def threshold(phrase: ConditionPhrase) -> str:
    """`when A.x[0] >= 0.5`."""
    k = phrase.arguments
    index = k.get("indices")
    indices = index if isinstance(index, list | tuple) else [] if index is None else [index]
    place = "".join(f"[{i}]" for i in indices)
    left = f"{phrase.nodes()}.{k.get('parameter', '?')}{place}"
    sign = k.get("comparator", "?")
    tolerances = [f"{key} {k[key]}" for key in ("atol", "rtol") if k.get(key)]
    near = f" within {_listed(tolerances)}" if tolerances and sign in ("==", "!=") else ""
    return f"when {left} {sign} {k.get('threshold', '?')}{near}"


def _time(value: Any, phrase: ConditionPhrase) -> str:
    """`2 ms`: a text that names its unit is kept."""
    text = str(value)
    return text if text[-1:].isalpha() else f"{text} {phrase.arguments.get('unit', 'ms')}"


def interval(phrase: ConditionPhrase) -> str:
    """`every 2 ms from 1 ms until 9 ms`."""
    k = phrase.arguments
    words = {
        "repeat": "every",
        "start": "from" if k.get("start_inclusive", True) else "after",
        "end": "until" if k.get("end_inclusive", True) else "before",
    }
    parts = [f"{words[key]} {_time(k[key], phrase)}" for key in words if k.get(key) is not None]
    return " ".join(parts) or "at any time"


def from_time(phrase: ConditionPhrase) -> str:
    """`from 5 ms on`."""
    time = _time(phrase.arguments.get("t", "?"), phrase)
    return f"from {time} on" if phrase.arguments.get("inclusive", True) else f"after {time}"
