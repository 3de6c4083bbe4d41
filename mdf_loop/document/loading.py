"""Conversion of plain content to models and graphs, with clear errors.

modeci_mdf parses the content. Content that modeci_mdf would drop, or refuse with an unclear message, is
checked first.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from mdf_loop.document.lone_surrogates import surrogate_findings
from mdf_loop.document.modeci import from_modeci
from mdf_loop.document.parts import DocumentValue, Graph
from mdf_loop.document.spellings import graph_as_mdf, model_as_mdf
from mdf_loop.document.structure import graph_findings, model_findings
from mdf_loop.document.syntax_errors import json_error, yaml_error
from mdf_loop.document.tensors import ArchiveOpener, with_arrays
from mdf_loop.errors import LoopError, ModelError, raise_findings


def model_of(
    mdf_content: Any, open_archive_file: ArchiveOpener | None = None, name: str = ""
) -> Any:
    """Convert the plain content of a document to a modeci_mdf Model.

    The content is not changed.

    Raises:
        ModelError: The content is not valid MDF, or an array of a side file (from `open_archive_file`) is invalid.
    """
    from modeci_mdf.mdf import Model

    with as_model_errors(f"'{name}'" if name else "the content"):
        raise_findings(surrogate_findings(mdf_content))
        mdf_content = model_as_mdf(mdf_content)
        raise_findings(model_findings(mdf_content))
        with suppress_output():
            return Model.from_dict(with_arrays(mdf_content, open_archive_file))


def graph_of(graph_mapping: DocumentValue, where: str) -> Graph:
    """Convert a dict `{id: {nodes: ...}}` or `{id: x, nodes: ...}` to a graph."""
    from modeci_mdf import mdf

    if isinstance(graph_mapping, Graph):
        return graph_mapping
    if not isinstance(graph_mapping, Mapping) or not graph_mapping:
        graph_description = (
            "empty"
            if isinstance(graph_mapping, Mapping)
            else f"of type {type(graph_mapping).__name__}"
        )
        raise ModelError(
            f"a graph is written as {{id: {{nodes: ...}}}}, but this is {graph_description}", where
        )
    if "nodes" not in graph_mapping and len(graph_mapping) == 1:
        graph_id, graph_content = next(iter(graph_mapping.items()))
        if isinstance(graph_content, Graph):
            return graph_content
        if not isinstance(graph_content, Mapping):
            raise ModelError(f"the graph '{graph_id}' has no nodes", where)
        graph_mapping = {"id": graph_id, **graph_content}
    graph_mapping = dict(graph_mapping)
    graph_id = graph_mapping.pop("id", "body")
    if not isinstance(graph_mapping.get("nodes"), Mapping):
        raise ModelError(f"the graph '{graph_id}' has no nodes", where, "a graph needs 'nodes'")
    graph_mapping = graph_as_mdf(graph_mapping)
    raise_findings(graph_findings(graph_id, graph_mapping, where))
    try:
        with suppress_output():
            graph: Graph = from_modeci(
                mdf.Graph.from_dict({graph_id: with_arrays(graph_mapping, None, where)})
            )
            return graph
    except RecursionError:
        raise ModelError(f"the graph '{graph_id}' is nested too deeply", where) from None
    except Exception as error:  # noqa: BLE001 - cattrs has errors of its own
        joined_messages = "; ".join(dict.fromkeys(_find_error_messages(error)))[:400]
        raise ModelError(
            f"the graph '{graph_id}' is not an MDF graph: {joined_messages}", where
        ) from None


@contextlib.contextmanager
def suppress_output() -> Iterator[None]:
    """Suppress the printed output of modeci_mdf."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


@contextlib.contextmanager
def as_model_errors(subject: str) -> Iterator[None]:
    """Convert errors of parsers and of modeci_mdf to a ModelError about the document."""
    try:
        yield
    except LoopError:
        raise
    except RecursionError:
        raise ModelError(f"{subject} is nested too deeply to be read") from None
    except yaml.MarkedYAMLError as error:
        raise yaml_error(subject, error) from None
    except json.JSONDecodeError as error:
        raise json_error(subject, error) from None
    except Exception as error:  # noqa: BLE001 - every parser has errors of its own
        joined_messages = (
            "; ".join(dict.fromkeys(_find_error_messages(error)))[:400] or type(error).__name__
        )
        raise ModelError(
            f"{subject} is not an MDF model: {joined_messages}", hint="see the MDF specification"
        ) from None


_PYTHON_ERROR_PATTERN = re.compile(
    r"'(\w+)' object (?:is not iterable|has no attribute|is not subscriptable|does not support)"
)


_CLASS_PATTERN = re.compile(r"(?:a )?<class '(?:\w+\.)*(\w+)'>")


_TYPE_DESCRIPTIONS = {
    "NoneType": "nothing",
    "int": "a number",
    "float": "a number",
    "str": "a text",
    "bool": "a truth value",
    "list": "a list",
    "dict": "a mapping",
}


def _find_error_messages(error: BaseException) -> Iterator[str]:
    """Yield the innermost messages of nested validation errors, with the place of each error."""
    nested_errors = getattr(error, "exceptions", None)
    if nested_errors:
        for nested_error in nested_errors:
            yield from _find_error_messages(nested_error)
        return
    location_notes = [
        location_note
        for location_note in getattr(error, "__notes__", [])
        if "structur" in location_note.lower()
    ]
    error_text = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
    message = " ".join(error_text.split("\n")[:3]) or type(error).__name__
    message = _CLASS_PATTERN.sub(lambda match: _TYPE_DESCRIPTIONS.get(match[1], match[1]), message)
    type_error_match = _PYTHON_ERROR_PATTERN.match(message)
    if type_error_match:
        type_description = _TYPE_DESCRIPTIONS.get(
            type_error_match[1], f"something of type {type_error_match[1]}"
        )
        message = f"there is {type_description} where MDF has a mapping or a list"
    yield " ".join([message, *location_notes[:1]]).strip()
