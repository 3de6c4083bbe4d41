"""Errors for document keys that MDF does not define.

modeci_mdf drops unknown keys silently. A part with a misspelt key would be computed as if the key were
absent, with other numbers and no error. Remarks of the modeller belong into `metadata`.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from mdf_loop.errors import Finding
from mdf_loop.name_suggestions import suggest

_MDF_CLASSES = {
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
"""Class of modeci_mdf for each kind of part. The fields of the class are the known keys."""

_TOLERATED_KEYS: dict[str, Collection[str]] = {
    "graph": ("notes",),
    "node": ("notes",),
    "edge": ("name",),
}
"""Unknown keys that are not reported. NeuroMLlite, which converts models of NeuroML and PyNN to MDF,
writes these additional fields: a remark, and the name of an edge. No results depend on these fields."""

_READ_EDGE_PARAMETERS = ("weight",)
"""Parameters of an edge that modeci_mdf reads."""


@functools.cache
def _find_known_keys(part_kind: str) -> tuple[str, ...]:
    """Return the keys that MDF defines for objects of a kind, such as "node" or "edge".

    The id is excluded, because it is the key of the part itself.
    """
    import attr
    from modeci_mdf import mdf

    mdf_fields = attr.fields(getattr(mdf, _MDF_CLASSES[part_kind]))
    return tuple(mdf_field.name for mdf_field in mdf_fields if mdf_field.name != "id")


def unread_keys(
    part_kind: str, part: Mapping[str, Any], name: str, where: str
) -> Iterator[Finding]:
    """Report the keys of an MDF object that neither MDF nor a known writer of MDF defines."""
    known_keys = _find_known_keys(part_kind)
    for key in part:
        if key not in known_keys and key != "id" and key not in _TOLERATED_KEYS.get(part_kind, ()):
            fault_statement = (
                f"the {part_kind} '{name}' has the key '{key}'"
                if name
                else f"the {part_kind} has '{key}'"
            )
            yield _create_unread_finding(
                fault_statement, where, _suggest_key(part_kind, key, part[key], known_keys)
            )


def unread_edge_parameters(parameters: Any, edge: str, where: str) -> Iterator[Finding]:
    """Report the edge parameters that modeci_mdf ignores, which are all except `weight`."""
    for key in parameters if isinstance(parameters, Mapping) else ():
        if key not in _READ_EDGE_PARAMETERS:
            fault_statement = f"the edge '{edge}' has the parameter '{key}'"
            yield _create_unread_finding(
                fault_statement, f"{where}.parameters", suggest(str(key), _READ_EDGE_PARAMETERS)
            )


def unread_top_level_keys(document: Mapping[str, Any]) -> Iterator[Finding]:
    """Report each top-level key of a document except the first one, which is the model's name."""
    model_name, *other_keys = document
    for key in other_keys:
        is_model_key = key in _find_known_keys("model")
        key_correction = (
            f"indent it, so that it is part of '{model_name}'" if is_model_key else "remove it"
        )
        yield _create_unread_finding(
            f"the document has '{key}' beside the model '{model_name}'", "$", key_correction
        )


def unread_time_unit(
    graph: str, metadata: Mapping[str, Any], time_unit_key: str, where: str
) -> Iterator[Finding]:
    """Report metadata keys of a graph that look like a misspelt unit of time.

    All other keys are remarks. A similar key is a remark, too, if the correct key also exists, or if the
    value is no text.
    """
    for metadata_key, metadata_value in metadata.items() if time_unit_key not in metadata else ():
        if (
            isinstance(metadata_key, str)
            and isinstance(metadata_value, str)
            and _resembles_time_unit(metadata_key)
        ):
            fault_statement = f"the metadata of the graph '{graph}' has the key '{metadata_key}'"
            yield _create_unread_finding(
                fault_statement, f"{where}.metadata", f"did you mean '{time_unit_key}'?"
            )


_TIME_UNIT_SPELLINGS = ("timeunit", "unitoftime", "unittime")


def _resembles_time_unit(key: str) -> bool:
    key_letters = re.sub("[^a-z]", "", key.lower())
    return bool(difflib.get_close_matches(key_letters, _TIME_UNIT_SPELLINGS, n=1, cutoff=0.85))


def _suggest_key(part_kind: str, key: Any, value: Any, known_keys: Collection[str]) -> str:
    if (part_kind, key) == ("edge", "weight"):
        return f"write parameters: {{weight: {_format_yaml(value)}}}"
    if (part_kind, key) == ("condition", "args"):
        return f"it is called 'kwargs' now: write kwargs: {_format_yaml(value)}"
    key_suggestion = suggest(str(key), known_keys)
    if key_suggestion.startswith("did"):
        return key_suggestion
    if part_kind == "condition":
        return f"what a condition is given stands in its kwargs: write kwargs: {{{key}: ...}}"
    return f"{key_suggestion}; notes of your own belong into 'metadata'"


def _format_yaml(value: Any) -> str:
    """Return a value in YAML notation. A long value is abbreviated."""
    if isinstance(value, Mapping):
        yaml_entries = (
            f"{key}: {_format_yaml(nested_value)}" for key, nested_value in value.items()
        )
        yaml_text = f"{{{', '.join(yaml_entries)}}}"
    else:
        yaml_text = str(value)
    return yaml_text if len(yaml_text) <= 60 else "{...}"


def _create_unread_finding(statement: str, where: str, hint: str) -> Finding:
    return Finding("ModelError", f"{statement}, which nothing reads", where, hint)
