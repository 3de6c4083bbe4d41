"""Scheduler conditions as words.

`{type: EveryNCalls, kwargs: {dependency: A, n: 2}}` -> `every 2 calls of A`.

Source: MDF's Condition and ConditionSet; graph-scheduler's condition classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_SCALES = {
    "environment_state_update": "trial",
    "environment_sequence": "run",
    "trial": "trial",
    "run": "run",
}
"""The scheduler's time scales in the words that its documentation explains them with."""

_COMPARATORS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤", "eq": "=", "ne": "≠"}


def _count(n: Any, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{n} {noun if str(n) == '1' else plural}"


def _on(word: str) -> Callable[[Mapping[str, Any]], str]:
    """`after 2 calls of A`, and the like."""

    def text(k: Mapping[str, Any]) -> str:
        return f"{word} {_count(k.get('n', 1), 'call')} of {_names(k)}"

    return text


def _when(word: str, noun: str) -> Callable[[Mapping[str, Any]], str]:
    """`after pass 3`, and the like."""
    return lambda k: f"{word} {noun} {k.get('n', '?')}"


def _after(noun: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda k: f"after {_count(k.get('n', 1), noun)}"


def _joined(word: str) -> Callable[[Mapping[str, Any]], str]:
    def text(k: Mapping[str, Any]) -> str:
        parts = [condition_text(part) for part in _parts(k)]
        return f" {word} ".join(f"({p})" if " and " in p or " or " in p else p for p in parts)

    return text


def _threshold(k: Mapping[str, Any]) -> str:
    sign = _COMPARATORS.get(str(k.get("comparator", "")).strip("_"), k.get("comparator", ">"))
    return f"{_names(k)}.{k.get('parameter', '?')} {sign} {k.get('threshold', '?')}"


def _interval(k: Mapping[str, Any]) -> str:
    words = {"repeat": "every", "start": "from", "end": "until"}
    return " ".join(f"{words[key]} {k[key]}" for key in words if k.get(key) is not None)


_WORDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "Always": lambda k: "always",
    "Never": lambda k: "never",
    "And": _joined("and"),
    "All": _joined("and"),
    "Or": _joined("or"),
    "Any": _joined("or"),
    "Not": lambda k: f"not ({', '.join(condition_text(part) for part in _parts(k))})",
    "EveryNCalls": _on("every"),
    "AfterNCalls": _on("after"),
    "BeforeNCalls": _on("before"),
    "AtNCalls": _on("at"),
    "AfterCall": _on("once, after"),
    "JustRan": lambda k: f"just after {_names(k)}",
    "AllHaveRun": lambda k: f"once {_names(k) or 'every node'} has run",
    "WhenFinished": lambda k: f"when {_names(k)} is finished",
    "BeforePass": _when("before", "pass"),
    "AtPass": _when("at", "pass"),
    "AfterPass": _when("after", "pass"),
    "AfterNPasses": _after("pass"),
    "EveryNPasses": lambda k: f"every {k.get('n', '?')} passes",
    "AfterNEnvironmentStateUpdates": _after("trial"),
    "Threshold": _threshold,
    "TimeInterval": _interval,
}


def condition_text(condition: Any) -> str:
    """A condition in a few words; an unknown one as a call."""
    if isinstance(condition, str):
        return condition
    if isinstance(condition, Mapping):
        kind, arguments = condition.get("type"), condition.get("kwargs")
    else:
        kind, arguments = getattr(condition, "type", None), getattr(condition, "kwargs", None)
    known: Mapping[str, Any] = arguments if isinstance(arguments, Mapping) else {}
    words = _WORDS[kind](known) if kind in _WORDS else ""
    if words:
        return words
    written = ", ".join(f"{key}={_value(value)}" for key, value in known.items())
    return f"{kind}({written})"


def _adverbial(words: str) -> str:
    """`after ...` and `when ...` can follow "ends" and "runs"; a comparison or a "not" needs a "when"."""
    first = words.split(" ", 1)[0]
    return words if first in _ADVERBS else f"when {words}"


_ADVERBS = ("after", "at", "before", "every", "just", "never", "once", "when", "from", "until")


def _parts(k: Mapping[str, Any]) -> list[Any]:
    value = k.get("dependencies", k.get("dependency", k.get("condition", k.get("args", []))))
    return list(value) if isinstance(value, list | tuple) else [value]


def _names(k: Mapping[str, Any]) -> str:
    return ", ".join(_value(part) for part in _parts(k))


def _value(value: Any) -> str:
    is_condition = hasattr(value, "kwargs") or (isinstance(value, Mapping) and "type" in value)
    return condition_text(value) if is_condition else str(value)


def node_conditions(graph: Any) -> dict[str, str]:
    """When each node runs, as words; nodes that always run are left out."""
    given = getattr(graph.conditions, "node_specific", None) or {}
    texts = {str(node): condition_text(condition) for node, condition in given.items()}
    return {node: _adverbial(text) for node, text in texts.items() if text != "always"}


def termination_texts(graph: Any) -> tuple[str, ...]:
    """When each time scale ends: `each trial ends after 2 calls of C`."""
    given = getattr(graph.conditions, "termination", None) or {}
    return tuple(
        f"each {_SCALES.get(str(scale).lower(), str(scale).replace('_', ' '))} ends "
        f"{_adverbial(condition_text(condition))}"
        for scale, condition in given.items()
    )
