"""Keys that nobody reads: those of a document that are none of MDF's.

modeci_mdf drops them without a word, so a part with a misspelt key is computed as if the key were
not there: other numbers, and no error. What a modeller notes belongs into `metadata`.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from mdf_loop.errors import Finding
from mdf_loop.suggestion import suggestion

_CLASSES = {
    "model": "Model",
    "graph": "Graph",
    "node": "Node",
    "input port": "InputPort",
    "output port": "OutputPort",
    "function": "Function",
    "parameter": "Parameter",
    "parameter's condition": "ParameterCondition",
    "edge": "Edge",
    "set of conditions": "ConditionSet",
    "condition": "Condition",
}
"""What a part is called -> modeci_mdf's class, whose fields are the keys that MDF knows."""

_CARRIED: dict[str, Collection[str]] = {
    "graph": ("notes",),
    "node": ("notes",),
    "edge": ("name",),
}
"""Keys besides. NeuroMLlite, which writes NeuroML's and PyNN's models as MDF, has these fields of its
own in its files: a remark, and the name of an edge once more. No number depends on them."""

_READ_OF_EDGES = ("weight",)
"""What modeci_mdf reads of an edge's parameters, which may be called anything."""


@functools.cache
def _known(kind: str) -> tuple[str, ...]:
    """The keys that MDF has for a part, without its id, which is the key of the whole part."""
    import attr
    from modeci_mdf import mdf

    fields = attr.fields(getattr(mdf, _CLASSES[kind]))
    return tuple(field.name for field in fields if field.name != "id")


def unread_keys(kind: str, part: Mapping[str, Any], name: str, where: str) -> Iterator[Finding]:
    """A finding for each key of a part that neither MDF knows nor its writers are known to add."""
    known = _known(kind)
    for key in part:
        if key not in known and key != "id" and key not in _CARRIED.get(kind, ()):
            said = f"the {kind} '{name}' has the key '{key}'" if name else f"the {kind} has '{key}'"
            yield _unread(said, where, _advice(kind, key, part[key], known))


def unread_weights(parameters: Any, edge: str, where: str) -> Iterator[Finding]:
    """The same for the parameters of an edge."""
    for key in parameters if isinstance(parameters, Mapping) else ():
        if key not in _READ_OF_EDGES:
            said = f"the edge '{edge}' has the parameter '{key}'"
            yield _unread(said, f"{where}.parameters", suggestion(str(key), _READ_OF_EDGES))


def unread_entries(document: Mapping[str, Any]) -> Iterator[Finding]:
    """The same for what stands beside the model, which is the first entry of its document."""
    name, *others = document
    for key in others:
        is_part = key in _known("model")
        advice = f"indent it, so that it is part of '{name}'" if is_part else "remove it"
        yield _unread(f"the document has '{key}' beside the model '{name}'", "$", advice)


def unread_time_unit(
    graph: str, metadata: Mapping[str, Any], known: str, where: str
) -> Iterator[Finding]:
    """The same for what a graph's metadata calls nearly as they call its unit of time.

    Everything else there is a note. So is this beside the unit itself, and where it is no text.
    """
    for key, value in metadata.items() if known not in metadata else ():
        if isinstance(key, str) and isinstance(value, str) and _means_time_unit(key):
            said = f"the metadata of the graph '{graph}' has the key '{key}'"
            yield _unread(said, f"{where}.metadata", f"did you mean '{known}'?")


_TIME_UNITS = ("timeunit", "unitoftime", "unittime")


def _means_time_unit(key: str) -> bool:
    letters = re.sub("[^a-z]", "", key.lower())
    return bool(difflib.get_close_matches(letters, _TIME_UNITS, n=1, cutoff=0.85))


def _advice(kind: str, key: Any, value: Any, known: Collection[str]) -> str:
    if (kind, key) == ("edge", "weight"):
        return f"write parameters: {{weight: {_shown(value)}}}"
    if (kind, key) == ("condition", "args"):
        return f"it is called 'kwargs' now: write kwargs: {_shown(value)}"
    hint = suggestion(str(key), known)
    if hint.startswith("did"):
        return hint
    if kind == "condition":
        return f"what a condition is given stands in its kwargs: write kwargs: {{{key}: ...}}"
    return f"{hint}; notes of your own belong into 'metadata'"


def _shown(value: Any) -> str:
    """A value as YAML has it, if it is short."""
    if isinstance(value, Mapping):
        text = "{" + ", ".join(f"{key}: {_shown(part)}" for key, part in value.items()) + "}"
    else:
        text = str(value)
    return text if len(text) <= 60 else "{...}"


def _unread(said: str, where: str, hint: str) -> Finding:
    return Finding("ModelError", f"{said}, which nothing reads", where, hint)
