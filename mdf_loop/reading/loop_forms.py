"""Every way of writing a loop -> one `LoopForm`.

Source: the forms collected from MDF documents, upstream's importer and the ONNX documentation;
`docs/reference/loop-node.md` lists them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.errors import ArityError, ModelError, SignatureError
from mdf_loop.lower.syntax import number_of
from mdf_loop.reading.document import Document, graph_of, named_bodies, written_body


@dataclass(frozen=True, slots=True)
class LoopForm:
    """A loop as the document writes it: expressions, body, signature; nothing computed yet.

    `initial` is a tuple of expressions, or a mapping from body input names to expressions.
    `inputs` and `outputs` are the body's signature in order; None where it is not written.
    """

    name: str
    where: str
    trip_count: Any | None
    condition: Any | None
    initial: tuple[Any, ...] | dict[str, Any]
    body: Any
    body_where: str
    inputs: tuple[str, ...] | None
    outputs: tuple[str, ...] | None
    bindings: Mapping[str, Any]
    shapes: str | None = None


_ARGUMENTS = ("M", "cond", "v_initial", "body")


def loop_form(item: Any, node: Any, where: str, document: Document) -> LoopForm:
    """The loop that a Function or Parameter of `node` describes.

    Raises:
        ModelError: the body is missing or is no graph.
        SignatureError: the body's signature is written wrongly.
    """
    args = dict(item.args or {})
    body, body_where = _body(item, node, where, document)
    beside = written_body(item, node).beside or {}
    metadata = {**(body.metadata or {}), **{k: v for k, v in beside.items() if v is not None}}
    return LoopForm(
        name=item.id,
        where=where,
        trip_count=_trip_count(args.get("M")),
        condition=_condition(args.get("cond"), node),
        initial=_initial(args, where),
        body=body,
        body_where=body_where,
        inputs=_signature(metadata.get("inputs"), "inputs", body_where),
        outputs=_signature(metadata.get("outputs"), "outputs", body_where),
        bindings={
            k: v for k, v in args.items() if k not in _ARGUMENTS and not k.startswith("arg_")
        },
        shapes=metadata.get("shapes"),
    )


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _trip_count(value: Any) -> Any | None:
    """None for a trip count left out, also in OpenVINO's way (-1)."""
    if _absent(value):
        return None
    number = number_of(value) if isinstance(value, str) else value
    if isinstance(number, int | float) and not isinstance(number, bool) and number == -1:
        return None
    if isinstance(value, str) and value.strip().startswith("["):
        parts = _literal_parts(value)
        return parts[0] if parts is not None and len(parts) == 1 else value
    return value


def _condition(value: Any, node: Any) -> Any | None:
    if _absent(value):
        return None
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        known = {p.id for p in (*node.parameters, *node.input_ports, *node.functions)}
        if value.strip() not in known:
            return value.strip().lower() == "true"
    return value


def _literal_parts(text: str) -> list[str] | None:
    """The expressions between the brackets of `(a, b)`, `[a, b]` or `a, b`; None if it is one."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None
    if isinstance(tree, ast.Tuple | ast.List):
        return [ast.unparse(part) for part in tree.elts]
    return None


def _is_numbers(text: str) -> bool:
    try:
        ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError):
        return False
    return text.strip().startswith("[")


def _initial(args: Mapping[str, Any], where: str) -> tuple[Any, ...] | dict[str, Any]:
    more = [value for key, value in args.items() if key.startswith("arg_")]
    first = _initial_values(args.get("v_initial"), where)
    if isinstance(first, dict):
        if more:
            raise ModelError("v_initial by name and arg_... cannot be mixed", where)
        return first
    return (*first, *more)


def _initial_values(value: Any, where: str) -> tuple[Any, ...] | dict[str, Any]:
    """A name, number or list of numbers is one value; a tuple or list of names is several."""
    if _absent(value):
        return ()
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, str):
        if value.strip().startswith("(") and ")" not in value:
            raise ModelError(
                f"v_initial is cut off: {value.strip()}",
                f"{where}.args.v_initial",
                'inside {...}, YAML wants quotes: v_initial: "(v, w)"',
            )
        by_name = _named_parts(value)
        if by_name is not None:
            return by_name
        if value.replace(" ", "") == "[]":
            return ()
        parts = None if _is_numbers(value) else _literal_parts(value)
        return (value,) if parts is None else tuple(parts)
    if isinstance(value, tuple):
        return value
    if isinstance(value, list):
        if not value or any(isinstance(part, str) for part in value):
            return tuple(value)
        return (value,)
    return (value,)


def _named_parts(text: str) -> dict[str, str] | None:
    """`dict(x=a, y=b)` or `{'x': a, 'y': b}` written as text."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None
    if isinstance(tree, ast.Dict):
        keys = [k.value if isinstance(k, ast.Constant) else "" for k in tree.keys]
        return {str(k): ast.unparse(v) for k, v in zip(keys, tree.values, strict=True)}
    is_call = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)
    if is_call and isinstance(tree, ast.Call) and ast.unparse(tree.func) == "dict":
        return {k.arg or "": ast.unparse(k.value) for k in tree.keywords}
    return None


# --- the body ---------------------------------------------------------------------------------


def _body(item: Any, node: Any, where: str, document: Document) -> tuple[Any, str]:
    """The body graph and its path."""
    written = written_body(item, node)
    path = f"{where}.args.body"
    if written.parameters:
        base = where.removesuffix(f".functions['{item.id}']").removesuffix(
            f".parameters['{item.id}']"
        )
        path = f"{base}.parameters['{written.parameters[-1]}'].value"
    if written.beside is not None:
        path += ".graph"
    value = written.value
    if value is None:
        raise ModelError(
            "the loop has no body", path, "add 'body' to its args: a graph, or {graph: id}"
        )
    if isinstance(value, str):
        return _by_id(value, path, document), document.sibling_where(value)
    if isinstance(value, list | tuple | int | float | np.ndarray):
        raise ModelError(
            f"a loop body is a graph, not {type(value).__name__} ({value})",
            path,
            "write the graph here, or {graph: id of another graph}",
        )
    return graph_of(value, path), path


def _by_id(graph_id: str, where: str, document: Document) -> Any:
    graph = document.siblings.get(graph_id)
    if graph is None:
        known = ", ".join(f"'{k}'" for k in document.siblings) or "none"
        raise ModelError(
            f"the loop body '{graph_id}' is not a graph of the model", where, f"graphs: {known}"
        )
    inside, wanted = {graph_id}, [graph_id]
    while wanted:
        named = named_bodies(document.siblings[wanted.pop()]) & document.siblings.keys()
        if graph_id in named:
            raise ModelError(
                f"the loop body '{graph_id}' contains a loop whose body is '{graph_id}' again",
                where,
                "a body cannot contain itself: carry what it needs, or write another graph",
            )
        wanted += named - inside
        inside |= named
    return graph


def _signature(value: Any, what: str, where: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        value = list(value)
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        truths = isinstance(value, list | tuple) and any(isinstance(v, bool) for v in value)
        raise SignatureError(
            f"the body's metadata.{what} must be a list of names, not {value!r}",
            where,
            "YAML reads on, off, yes and no as truth values: put such a name in quotes"
            if truths
            else "",
        )
    repeated = [v for k, v in enumerate(value) if v in value[:k]]
    if repeated and what == "inputs":
        raise SignatureError(f"the body's metadata.inputs name '{repeated[0]}' twice", where)
    return tuple(value)


def carried_expressions(form: LoopForm) -> tuple[Any, ...]:
    """The initial values in the order of the signature."""
    if not isinstance(form.initial, dict):
        return form.initial
    if form.inputs is None:
        return tuple(form.initial.values())
    names = form.inputs[2:]
    unknown = [name for name in form.initial if name not in names]
    missing = [name for name in names if name not in form.initial]
    if unknown or missing:
        raise ArityError(
            f"v_initial names {list(form.initial)}, but the body carries {list(names)}",
            f"{form.where}.args.v_initial",
        )
    return tuple(form.initial[name] for name in names)
