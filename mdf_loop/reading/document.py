"""MDF documents: files and objects -> the graph to run, its siblings, and the path of each part.

Models are built by modeci_mdf itself; files are never touched.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from mdf_loop.errors import Finding, LoopError, ModelError, raise_findings
from mdf_loop.paths import Files, noted, noting, path_of
from mdf_loop.reading.control import BODIES, control
from mdf_loop.reading.parsing import parse
from mdf_loop.reading.spellings import graph_as_mdf, model_as_mdf
from mdf_loop.reading.structure import BESIDE, graph_findings, model_findings
from mdf_loop.reading.tensors import SideFiles, files_in, with_arrays
from mdf_loop.reading.texts import broken_texts

Source: TypeAlias = Any
"""A path, a modeci_mdf `Model` or `Graph`, or the dict of a model or graph."""

FOREIGN = (".onnx", ".xml")
"""Files of other systems, which `mdf_loop.importing` reads."""

SUFFIXES = (".json", ".yaml", ".yml", ".bson", *FOREIGN)


@dataclass(frozen=True, slots=True)
class Document:
    """One graph to work on, with the other graphs of its model by id, and that model if any.

    `files` are those that it was read from.
    """

    graph: Any
    where: str
    siblings: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    model: Any = None
    files: Files = frozenset()

    def sibling_where(self, graph_id: str) -> str:
        """The path of another graph of the model."""
        return f"$.graphs['{graph_id}']"


def open_document(source: Source) -> Document:
    """The document of a path, a Model or Graph, or the dict of one.

    Raises:
        ModelError: the file is missing, is not MDF, or holds no graph.
    """
    if isinstance(source, Document):
        for file in source.files:
            noted(file)
        return source
    if isinstance(source, str | os.PathLike):
        path = path_of(source, "the model")
        with noting() as files:
            model = _load(path)
        return replace(_of_model(model, path.name), files=frozenset(files))
    from modeci_mdf.mdf import Graph, Model

    if isinstance(source, Model):
        with _clear_errors(f"'{source.id}'"):
            raise_findings((*broken_texts(source), *model_findings(source)))
        return _of_model(source, source.id)
    if isinstance(source, Graph):
        with _clear_errors(f"'{source.id}'"):
            findings = graph_findings(source.id, source, "$.graphs[0]")
            raise_findings((*broken_texts(source), *findings))
        return Document(source, "$.graphs[0]", {source.id: source}, source.id)
    if isinstance(source, Mapping):
        inner = next(iter(source.values()), None) if len(source) == 1 else source
        if isinstance(inner, Mapping) and "nodes" not in inner:
            return _of_model(model_of(source), str(source.get("id", next(iter(source), ""))))
        raise_findings(broken_texts(source))
        graph = graph_of(source, "$.graphs[0]")
        return Document(graph, "$.graphs[0]", {graph.id: graph}, graph.id)
    raise ModelError(
        f"cannot read a model from {type(source).__name__}",
        hint="give a path, a modeci_mdf Model or Graph, or a dict",
    )


def _load(path: Path) -> Any:
    if not path.exists():
        raise ModelError(f"there is no file '{path}'", hint="check the path")
    if path.is_dir():
        raise ModelError(
            f"'{path}' is a folder, not a model", hint="name a .json, .yaml or .bson file"
        )
    if path.suffix.lower() not in SUFFIXES:
        raise ModelError(
            f"'{path.name}' does not end in {', '.join(SUFFIXES)}",
            hint="MDF models are JSON, YAML or BSON files",
        )
    if path.suffix.lower() in FOREIGN:
        from mdf_loop.importing import read_foreign

        return model_of(read_foreign(path), name=path.name)
    with _clear_errors(f"'{path.name}'"):
        content = parse(noted(path))
    return model_of(content, files_in(path.parent), path.name)


def model_of(content: Any, side: SideFiles | None = None, name: str = "") -> Any:
    """The modeci_mdf Model of a document's plain content, which is left as it is.

    Raises:
        ModelError: what is not as MDF has it; `side` gives the arrays of its side files.
    """
    from modeci_mdf.mdf import Model

    with _clear_errors(f"'{name}'" if name else "the content"):
        raise_findings(broken_texts(content))
        content = model_as_mdf(content)
        raise_findings(model_findings(content))
        with quiet():
            return Model.from_dict(with_arrays(content, side))


@contextlib.contextmanager
def _clear_errors(what: str) -> Iterator[None]:
    """Errors of parsers and of modeci_mdf in one sentence about the document."""
    try:
        yield
    except LoopError:
        raise
    except RecursionError:
        raise ModelError(f"{what} is nested too deeply to be read") from None
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


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallow what modeci_mdf prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def _of_model(model: Any, name: str) -> Document:
    graphs = list(model.graphs or [])
    if not graphs:
        raise ModelError(f"'{name}' holds no graph", "$.graphs", "a model needs at least one graph")
    clashes = _repeated([graph.id for graph in graphs])
    raise_findings(
        Finding("ModelError", f"two graphs have the id '{graph_id}'", "$.graphs", "rename one")
        for graph_id in clashes
    )
    siblings = {graph.id: graph for graph in graphs}
    used_as_body = _body_ids(graphs)
    main = next((g for g in graphs if g.id not in used_as_body), graphs[0])
    return Document(main, f"$.graphs[{graphs.index(main)}]", siblings, name, model)


def _repeated(ids: list[str]) -> list[str]:
    return [i for k, i in enumerate(ids) if i in ids[:k]]


def _body_ids(graphs: list[Any]) -> set[str]:
    """Ids of graphs that a function of the model names as a graph of its own."""
    return {graph_id for graph in graphs for graph_id in named_bodies(graph)}


def named_bodies(graph: Any) -> set[str]:
    """Ids of other graphs that functions of a graph, or of bodies written inside it, own."""
    nodes = [node for node in graph.nodes if hasattr(node, "functions")]  # importers nest graphs
    return {graph_id for node in nodes for graph_id in named_by_node(node)}


def named_by_node(node: Any) -> set[str]:
    """Ids of other graphs that functions of a node, or of bodies written inside it, own."""
    named: set[str] = set()
    for item in (*node.functions, *node.parameters):
        for written in written_bodies(item, node).values():
            if isinstance(written.value, str):
                named.add(written.value)
            elif written.value is not None:
                with contextlib.suppress(LoopError):  # reading the owner says what is wrong
                    named |= named_bodies(graph_of(written.value, ""))
    return named


@dataclass(frozen=True, slots=True)
class WrittenBody:
    """How a body is written, before it is looked up or read.

    `value` is a graph, its dict, the id of another graph, or None; `parameters` are those of the
    node that were followed to it; `beside` is the mapping that holds a signature next to it.
    """

    value: Any
    parameters: tuple[str, ...] = ()
    beside: Mapping[str, Any] | None = None


def written_bodies(item: Any, node: Any) -> dict[str, WrittenBody]:
    """Every graph that a function owns, by its place in the args: `body`, `branches[1]`."""
    found: dict[str, WrittenBody] = {}
    for argument in BODIES.get(control(item.function) or "", ()):
        written = written_body(item, node, argument)
        if isinstance(written.value, list | tuple):
            for k, part in enumerate(written.value if argument == "branches" else ()):
                found[f"{argument}[{k}]"] = _followed(part, node, item)
        elif argument != "default" or not is_value(written.value, node):
            found[argument] = written
    return found


def parameters_with_bodies(item: Any, node: Any) -> set[str]:
    """The parameters of a node that hold graphs of a function, or lists of them."""
    arguments = BODIES.get(control(item.function) or "", ())
    written = [written_body(item, node, argument) for argument in arguments]
    written += written_bodies(item, node).values()
    return {name for each in written for name in each.parameters}


def is_value(written: Any, node: Any) -> bool:
    """Whether what stands for a graph is a value of the node: a name of its own, or a formula."""
    if not isinstance(written, str):
        return isinstance(written, bool | int | float)
    own = {x.id for x in (*node.input_ports, *node.functions)}
    own |= {p.id for p in node.parameters if not _holds_graph(p.value)}
    return written.strip() in own or not re.fullmatch(r"[\w-]*", _unquoted(written))


def _holds_graph(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "nodes")


def written_body(item: Any, node: Any, argument: str = "body") -> WrittenBody:
    """A body: in the args, or in a parameter (named there, or called as the argument is)."""
    value = (item.args or {}).get(argument)
    if value is None or (isinstance(value, str) and not value.strip()):
        value = argument if any(p.id == argument for p in node.parameters) else None
    if argument == "default" and is_value(value, node):
        return WrittenBody(value)
    return _followed(value, node, item)


def _followed(value: Any, node: Any, item: Any) -> WrittenBody:
    parameters = {p.id: p for p in node.parameters if p is not item}
    followed: list[str] = []
    while isinstance(value, str) and _unquoted(value) in parameters.keys() - set(followed):
        followed.append(_unquoted(value))
        value = parameters[followed[-1]].value
    beside = None
    if isinstance(value, Mapping) and "graph" in value and set(value) <= BESIDE:
        beside, value = value, value["graph"]
    if isinstance(value, str):
        value = _unquoted(value) or None
    return WrittenBody(value, tuple(followed), beside)


def _unquoted(text: str) -> str:
    return text.strip().strip("'\"")


def graph_by_id(graph_id: str, where: str, document: Document, owner: str, word: str) -> Any:
    """Another graph of the model, which an `owner` (a loop) names as its `word` (body).

    Raises:
        ModelError: there is none of that name, or it owns itself.
    """
    graph = document.siblings.get(graph_id)
    if graph is None:
        known = ", ".join(f"'{k}'" for k in document.siblings) or "none"
        raise ModelError(
            f"the {owner} {word} '{graph_id}' is not a graph of the model",
            where,
            f"graphs: {known}",
        )
    inside, wanted = {graph_id}, [graph_id]
    while wanted:
        named = named_bodies(document.siblings[wanted.pop()]) & document.siblings.keys()
        if graph_id in named:
            raise ModelError(
                f"the {owner} {word} '{graph_id}' contains a {owner} whose {word} is "
                f"'{graph_id}' again",
                where,
                "a body cannot contain itself: carry what it needs, or write another graph",
            )
        wanted += named - inside
        inside |= named
    return graph


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
