"""Plain content of a model or a graph -> modeci_mdf's own objects, or one sentence why not.

Models are built by modeci_mdf itself; what it would drop or refuse in its own words is looked at
first.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from mdf_loop.document.spellings import graph_as_mdf, model_as_mdf
from mdf_loop.document.structure import graph_findings, model_findings
from mdf_loop.document.syntax_errors import no_json, no_yaml
from mdf_loop.document.tensors import SideFiles, with_arrays
from mdf_loop.document.texts import broken_texts
from mdf_loop.errors import LoopError, ModelError, raise_findings


def model_of(content: Any, side: SideFiles | None = None, name: str = "") -> Any:
    """The modeci_mdf Model of a document's plain content, which is left as it is.

    Raises:
        ModelError: what is not as MDF has it; `side` gives the arrays of its side files.
    """
    from modeci_mdf.mdf import Model

    with clear_errors(f"'{name}'" if name else "the content"):
        raise_findings(broken_texts(content))
        content = model_as_mdf(content)
        raise_findings(model_findings(content))
        with quiet():
            return Model.from_dict(with_arrays(content, side))


def graph_of(body: Any, where: str) -> Any:
    """A graph given as dict (`{id: {nodes: ...}}` or `{id: x, nodes: ...}`) as a modeci_mdf Graph."""
    from modeci_mdf.mdf import Graph

    if isinstance(body, Graph):
        return body
    if not isinstance(body, Mapping) or not body:
        given = "empty" if isinstance(body, Mapping) else f"of type {type(body).__name__}"
        raise ModelError(
            f"a graph is written as {{id: {{nodes: ...}}}}, but this is {given}", where
        )
    if "nodes" not in body and len(body) == 1:
        graph_id, content = next(iter(body.items()))
        if isinstance(content, Graph):
            return content
        if not isinstance(content, Mapping):
            raise ModelError(f"the graph '{graph_id}' has no nodes", where)
        body = {"id": graph_id, **content}
    body = dict(body)
    graph_id = body.pop("id", "body")
    if not isinstance(body.get("nodes"), Mapping):
        raise ModelError(f"the graph '{graph_id}' has no nodes", where, "a graph needs 'nodes'")
    body = graph_as_mdf(body)
    raise_findings(graph_findings(graph_id, body, where))
    try:
        with quiet():
            return Graph.from_dict({graph_id: with_arrays(body, None, where)})
    except RecursionError:
        raise ModelError(f"the graph '{graph_id}' is nested too deeply", where) from None
    except Exception as error:  # noqa: BLE001 - cattrs has errors of its own
        text = "; ".join(dict.fromkeys(_reasons(error)))[:400]
        raise ModelError(f"the graph '{graph_id}' is not an MDF graph: {text}", where) from None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallow what modeci_mdf prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


@contextlib.contextmanager
def clear_errors(what: str) -> Iterator[None]:
    """Errors of parsers and of modeci_mdf in one sentence about the document."""
    try:
        yield
    except LoopError:
        raise
    except RecursionError:
        raise ModelError(f"{what} is nested too deeply to be read") from None
    except yaml.MarkedYAMLError as error:
        raise no_yaml(what, error) from None
    except json.JSONDecodeError as error:
        raise no_json(what, error) from None
    except Exception as error:  # noqa: BLE001 - every parser has errors of its own
        text = "; ".join(dict.fromkeys(_reasons(error)))[:400] or type(error).__name__
        raise ModelError(
            f"{what} is not an MDF model: {text}", hint="see the MDF specification"
        ) from None


_PYTHON_SPEAK = re.compile(
    r"'(\w+)' object (?:is not iterable|has no attribute|is not subscriptable|does not support)"
)


_CLASS = re.compile(r"(?:a )?<class '(?:\w+\.)*(\w+)'>")


_WORDS = {
    "NoneType": "nothing",
    "int": "a number",
    "float": "a number",
    "str": "a text",
    "bool": "a truth value",
    "list": "a list",
    "dict": "a mapping",
}


def _reasons(error: BaseException) -> Iterator[str]:
    """The innermost sentences of nested validation errors, with cattrs' notes of the place."""
    children = getattr(error, "exceptions", None)
    if children:
        for child in children:
            yield from _reasons(child)
        return
    notes = [note for note in getattr(error, "__notes__", []) if "structur" in note.lower()]
    about = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
    said = " ".join(about.split("\n")[:3]) or type(error).__name__
    said = _CLASS.sub(lambda found: _WORDS.get(found[1], found[1]), said)
    found = _PYTHON_SPEAK.match(said)
    if found:
        there = _WORDS.get(found[1], f"something of type {found[1]}")
        said = f"there is {there} where MDF has a mapping or a list"
    yield " ".join([said, *notes[:1]]).strip()
