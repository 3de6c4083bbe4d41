"""A scheduler condition as words.

`{type: EveryNCalls, kwargs: {dependency: A, n: 2}}` -> `every 2 calls of A`.

Every text can follow "runs" and "ends". Numbers of passes and evaluations are those that the
modeller wrote; they count from 0.

Source: graph-scheduler's condition classes (1.2.2), read as modeci_mdf's `parse_condition` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mdf_loop.reading.schedule.written import type_and_arguments

Arguments = Mapping[str, Any]
_Words = Callable[[Arguments], str]


def condition_text(condition: Any) -> str:
    """A condition in a few words; an unknown one as a call."""
    kind, arguments = type_and_arguments(condition)
    if kind in _WORDS:
        return _WORDS[kind](arguments)
    written = ", ".join(f"{key}={name_text(value)}" for key, value in arguments.items())
    return f"when {kind}({written})"


def is_kind(condition: Any, kind: str) -> bool:
    """Whether a condition is of a type and has no arguments."""
    found, arguments = type_and_arguments(condition)
    return found == kind and not arguments


def name_text(value: Any) -> str:
    """What an argument stands for: a node's id, a condition's words, a list of these, a value."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(name_text, value))}]"
    if hasattr(value, "kwargs") or (isinstance(value, Mapping) and "type" in value):
        return condition_text(value)
    return str(getattr(value, "id", value))


def scale_name(scale: Any) -> str:
    """A time scale's name, however it is written: `TimeScale.LIFE`, `life`, the enum itself."""
    return str(scale).rsplit(".", 1)[-1].upper()


# --- pieces -----------------------------------------------------------------------------------


def _about(k: Arguments) -> list[Any]:
    """The nodes or conditions that a condition is about, under any of their keys."""
    keys = ("dependencies", "dependency", "conditions", "condition", "args")
    value: Any = next((k[key] for key in keys if k.get(key) is not None), [])
    return list(value) if isinstance(value, list | tuple) else [value]


def _listed(names: Iterable[str], word: str = "and") -> str:
    """`A`, `A and B`, `A, B and C`."""
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


def _nodes(k: Arguments, word: str = "and") -> str:
    return _listed([name_text(part) for part in _about(k)] or ["?"], word)


def _several(n: Any, noun: str) -> str:
    """`2 calls`, `1 pass`."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{n} {noun if str(n) == '1' else plural}"


def _every(n: Any, noun: str) -> str:
    """`every 2 calls`, `every call`."""
    return f"every {noun if str(n) == '1' else _several(n, noun)}"


_OVER = {
    "CONSIDERATION_SET_EXECUTION": " in the set",
    "PASS": " in the pass",
    "ENVIRONMENT_STATE_UPDATE": " in the evaluation",
    "ENVIRONMENT_SEQUENCE": " over all evaluations",
    "LIFE": " over all evaluations",
}


def _over(k: Arguments, usual: str) -> str:
    """Over which time something is counted, if not over the usual one."""
    said = _OVER.get(scale_name(k.get("time_scale", usual)), f" in {k.get('time_scale')}")
    return "" if said == _OVER[usual] else said


def _calls(word: str) -> _Words:
    """`after 2 calls of A`, and the like."""
    return lambda k: (
        f"{word} {_several(k.get('n', '?'), 'call')} of {_nodes(k)}"
        + _over(k, "ENVIRONMENT_STATE_UPDATE")
    )


def _at(words: str, usual: str = "ENVIRONMENT_STATE_UPDATE") -> _Words:
    """`after pass 3`, and the like."""
    return lambda k: f"{words} {k.get('n', '?')}" + _over(k, usual)


def _after(noun: str, usual: str = "ENVIRONMENT_STATE_UPDATE") -> _Words:
    """`after 3 passes`, and the like."""
    return lambda k: f"after {_several(k.get('n', '?'), noun)}" + _over(k, usual)


def _fixed(words: str) -> _Words:
    return lambda k: words


# --- conditions about conditions --------------------------------------------------------------


def _grouped(condition: Any) -> str:
    """A condition inside another one, in brackets where it is several itself."""
    text = name_text(condition)
    return f"({text})" if " and " in text or " or " in text else text


def _joined(word: str) -> _Words:
    def text(k: Arguments) -> str:
        parts = _about(k)
        if len(parts) == 1:
            return name_text(parts[0])
        return f" {word} ".join(_grouped(part) for part in parts) or "always"

    return text


def _n_when(k: Arguments) -> str:
    often = "once" if str(k.get("n", 1)) == "1" else f"{k['n']} times"
    return f"{often} at most, {_nodes(k)}"


# --- nodes and values -------------------------------------------------------------------------


def _all_have_run(k: Arguments) -> str:
    who = f"{_nodes(k)} {'have' if len(_about(k)) > 1 else 'has'}" if _about(k) else "all have"
    return f"once {who} run" + _over(k, "ENVIRONMENT_STATE_UPDATE")


def _finished(word: str, all_of_them: str) -> _Words:
    def text(k: Arguments) -> str:
        who = _nodes(k, word) if _about(k) else all_of_them
        several = word == "and" and len(_about(k)) != 1
        return f"when {who} {'are' if several else 'is'} finished"

    return text


def _threshold(k: Arguments) -> str:
    index = k.get("indices")
    indices = index if isinstance(index, list | tuple) else [] if index is None else [index]
    place = "".join(f"[{i}]" for i in indices)
    left = f"{_nodes(k)}.{k.get('parameter', '?')}{place}"
    sign = k.get("comparator", "?")
    tolerances = [f"{key} {k[key]}" for key in ("atol", "rtol") if k.get(key)]
    near = f" within {_listed(tolerances)}" if tolerances and sign in ("==", "!=") else ""
    return f"when {left} {sign} {k.get('threshold', '?')}{near}"


def _time(value: Any, k: Arguments) -> str:
    """`2 ms`: a text that names its unit is kept."""
    text = str(value)
    return text if text[-1:].isalpha() else f"{text} {k.get('unit', 'ms')}"


def _interval(k: Arguments) -> str:
    words = {
        "repeat": "every",
        "start": "from" if k.get("start_inclusive", True) else "after",
        "end": "until" if k.get("end_inclusive", True) else "before",
    }
    said = [f"{words[key]} {_time(k[key], k)}" for key in words if k.get(key) is not None]
    return " ".join(said) or "at any time"


def _from_time(k: Arguments) -> str:
    time = _time(k.get("t", "?"), k)
    return f"from {time} on" if k.get("inclusive", True) else f"after {time}"


# --- every type -------------------------------------------------------------------------------

_SETS, _RUN = "execution set", "ENVIRONMENT_SEQUENCE"

_WORDS: dict[str, _Words] = {
    "Always": _fixed("always"),
    "Never": _fixed("never"),
    "All": _joined("and"),
    "And": _joined("and"),
    "Any": _joined("or"),
    "Or": _joined("or"),
    "Not": lambda k: f"not {_listed(map(_grouped, _about(k) or ['?']))}",
    "NWhen": _n_when,
    "TimeInterval": _interval,
    "TimeTermination": _from_time,
    "BeforeConsiderationSetExecution": _at(f"before {_SETS}"),
    "AtConsiderationSetExecution": _at(f"at {_SETS}"),
    "AfterConsiderationSetExecution": _at(f"after {_SETS}"),
    "AfterNConsiderationSetExecutions": _after(_SETS),
    "BeforePass": _at("before pass"),
    "AtPass": _at("at pass"),
    "AfterPass": _at("after pass"),
    "AfterNPasses": _after("pass"),
    "EveryNPasses": lambda k: (
        _every(k.get("n", "?"), "pass") + _over(k, "ENVIRONMENT_STATE_UPDATE")
    ),
    "BeforeEnvironmentStateUpdate": _at("before evaluation", _RUN),
    "AtEnvironmentStateUpdate": _at("in evaluation", _RUN),
    "AfterEnvironmentStateUpdate": _at("after evaluation", _RUN),
    "AfterNEnvironmentStateUpdates": _after("evaluation", _RUN),
    "AtEnvironmentSequence": _at("in sequence"),
    "AfterEnvironmentSequence": _at("after sequence"),
    "AfterNEnvironmentSequences": _after("sequence"),
    "BeforeNCalls": _calls("before"),
    "AtNCalls": _calls("at"),
    "AfterCall": _calls("after more than"),
    "AfterNCalls": _calls("after"),
    "AfterNCallsCombined": lambda k: f"{_calls('after')(k)} together",
    "EveryNCalls": lambda k: f"{_every(k.get('n', '?'), 'call')} of {_nodes(k)}",
    "JustRan": lambda k: f"just after {_nodes(k)}",
    "AllHaveRun": _all_have_run,
    "WhenFinished": _finished("and", "it"),
    "WhenFinishedAny": _finished("or", "any node"),
    "WhenFinishedAll": _finished("and", "all nodes"),
    "AtEnvironmentStateUpdateStart": _fixed("at the start of each evaluation"),
    "AtEnvironmentStateUpdateNStart": _at("at the start of evaluation", _RUN),
    "AtEnvironmentSequenceStart": _fixed("in evaluation 0"),
    "AtEnvironmentSequenceNStart": _at("in evaluation 0 of sequence"),
    "Threshold": _threshold,
}
