"""Parsing of all notations of a loop in documents into one `LoopForm`.

Source: notations in MDF documents, in modeci_mdf's importer and in the ONNX documentation, as listed in
`docs/reference/loop-node.md`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from mdf_loop.document.bodies import written_body
from mdf_loop.document.document import Document
from mdf_loop.document.parts import DocumentValue, FunctionOrParameter, Node
from mdf_loop.errors import ArityError, ModelError
from mdf_loop.lower.syntax import parse_number
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.delays import DelayForm, parse_delays
from mdf_loop.reading.entries import split_literal
from mdf_loop.reading.owned_graph import LOOP_BODY, OwnedGraph, find_owned_graph
from mdf_loop.reading.recordings import RecordingForm, parse_recordings
from mdf_loop.reading.slices import SliceForm, parse_slices


class LoopForm(Struct, frozen=True):
    """Arguments of a loop, as written in the document: expressions, body and signature.

    Attributes:
        initial_expressions: Tuple of expressions, or mapping from names of body inputs to expressions.
        has_mid_exit: True if the condition is tested as soon as it is known, and not after the iteration.
        needs_equal_slices: True if all slices must have the same number of parts.
        has_onnx_semantics: True for the loop of an ONNX file. Its trip count of -1 means no iterations, not no limit.
    """

    name: str
    where: str
    trip_count: Any | None
    condition: Any | None
    initial_expressions: tuple[Any, ...] | dict[str, Any]
    owned_graph: OwnedGraph
    bindings: Mapping[str, Any]
    shape_rule: str | None = None
    slices: tuple[SliceForm, ...] = ()
    delays: tuple[DelayForm, ...] = ()
    recordings: Mapping[str, RecordingForm] = field(default_factory=dict)
    has_mid_exit: bool = False
    needs_equal_slices: bool = False
    has_onnx_semantics: bool = False

    @property
    def body(self) -> Any:
        """Graph that each iteration of the loop executes."""
        return self.owned_graph.graph

    @property
    def body_path(self) -> str:
        """Path of the body graph."""
        return self.owned_graph.where


LOOP_ARGUMENTS = ("M", "cond", "v_initial", "body", "slices", "delays", "recordings", "exit")
"""Names of a loop's own arguments. All other arguments are captured values under other names."""


def parse_loop(item: FunctionOrParameter, node: Node, where: str, document: Document) -> LoopForm:
    """Parse the loop that a Function or Parameter of `node` describes.

    Raises:
        ModelError: If the body is missing or is not a graph.
        SignatureError: If the body's signature is not valid.
    """
    loop_arguments = dict(item.args or {})
    owned_graph = find_owned_graph(written_body(item, node), item, where, LOOP_BODY, document)
    has_onnx_semantics = _has_onnx_semantics(owned_graph)
    is_unlimited = not has_onnx_semantics and _is_minus_one(loop_arguments.get("M"), node)
    return LoopForm(
        name=item.id,
        where=where,
        trip_count=None if is_unlimited else _parse_trip_count(loop_arguments.get("M"), node),
        condition=_parse_condition(loop_arguments.get("cond"), node),
        initial_expressions=_parse_all_initial_values(loop_arguments, where),
        owned_graph=owned_graph,
        bindings={
            argument: expression
            for argument, expression in loop_arguments.items()
            if argument not in LOOP_ARGUMENTS and not argument.startswith("arg_")
        },
        shape_rule="dynamic" if has_onnx_semantics else owned_graph.shape_rule,
        slices=parse_slices(loop_arguments.get("slices"), f"{where}.args.slices"),
        delays=parse_delays(loop_arguments.get("delays"), f"{where}.args.delays"),
        recordings=parse_recordings(loop_arguments.get("recordings"), f"{where}.args.recordings"),
        has_mid_exit=_is_mid_exit(loop_arguments.get("exit"), where),
        has_onnx_semantics=has_onnx_semantics,
    )


def _has_onnx_semantics(owned: OwnedGraph) -> bool:
    """Return True if a body states `semantics: onnx`, so that it runs exactly as in ONNX's Loop."""
    semantics = owned.metadata.get("semantics")
    if semantics not in (None, "onnx"):
        raise ModelError(
            f"the body's metadata.semantics is 'onnx' or left out, not {semantics!r}", owned.where
        )
    return semantics == "onnx"


def _is_mid_exit(value: DocumentValue, where: str) -> bool:
    """Return True if the loop argument `exit` is 'middle', for a test in the middle of the body.

    Raise ModelError for an unknown exit.
    """
    if value in (None, "", "end", "middle"):
        return bool(value == "middle")
    raise ModelError(
        f"a loop's exit is 'end' or 'middle', not {value!r}",
        f"{where}.args.exit",
        suggest(str(value), ("end", "middle")),
    )


def _is_absent(value: DocumentValue) -> bool:
    """Return True if an argument is None or a blank text."""
    return value is None or (isinstance(value, str) and not value.strip())


def _is_name_in_node(value: DocumentValue, node: Node) -> bool:
    """Return True if a text is the name of a port, parameter or function of the node, even `-1` or `true`."""
    node_parts = (*node.parameters, *node.input_ports, *node.functions)
    return isinstance(value, str) and value.strip() in {node_part.id for node_part in node_parts}


def _parse_trip_count(value: DocumentValue, node: Node) -> Any | None:
    """Return the trip count `M` as an expression, or None if `M` is omitted."""
    if _is_absent(value):
        return None
    if (
        _is_name_in_node(value, node)
        or not isinstance(value, str)
        or not value.strip().startswith("[")
    ):
        return value
    expressions = split_literal(value)
    return expressions[0] if expressions is not None and len(expressions) == 1 else value


def _is_minus_one(value: DocumentValue, node: Node) -> bool:
    """Return True for a trip count of -1, which in OpenVINO means no trip count."""
    if _is_name_in_node(value, node):
        return False
    number = parse_number(value) if isinstance(value, str) else value
    return isinstance(number, int | float) and not isinstance(number, bool) and number == -1


def _parse_condition(value: DocumentValue, node: Node) -> Any | None:
    """Return the condition `cond` as a bool or an expression, or None if `cond` is omitted."""
    if _is_absent(value):
        return None
    condition_text = value.strip().lower() if isinstance(value, str) else ""
    if condition_text in {"true", "false"} and not _is_name_in_node(value, node):
        return condition_text == "true"
    return value


def _is_number_list(text: str) -> bool:
    """Return True for the text of a list of numbers."""
    try:
        ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError):
        return False
    return text.strip().startswith("[")


def _parse_all_initial_values(
    args: Mapping[str, Any], where: str
) -> tuple[Any, ...] | dict[str, Any]:
    """Return the initial values of `v_initial` and of the arguments `arg_...`."""
    further_expressions = [
        expression for argument, expression in args.items() if argument.startswith("arg_")
    ]
    expressions = _parse_initial_values(args.get("v_initial"), where)
    if isinstance(expressions, dict):
        if further_expressions:
            raise ModelError("v_initial by name and arg_... cannot be mixed", where)
        return expressions
    return (*expressions, *further_expressions)


def _parse_initial_values(value: DocumentValue, where: str) -> tuple[Any, ...] | dict[str, Any]:
    """Parse the loop argument `v_initial` to the expressions of the initial values.

    A name, number or list of numbers is one value. A tuple or list of names is several.
    """
    if _is_absent(value):
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
        expression_by_name = _parse_named_values(value)
        if expression_by_name is not None:
            return expression_by_name
        if value.replace(" ", "") == "[]":
            return ()
        expressions = None if _is_number_list(value) else split_literal(value)
        return (value,) if expressions is None else tuple(expressions)
    if isinstance(value, tuple):
        return value
    if isinstance(value, list):
        if not value or any(isinstance(element, str) for element in value):
            return tuple(value)
        return (value,)
    return (value,)


def _parse_named_values(text: str) -> dict[str, str] | None:
    """Return the entries of the text `dict(x=a, y=b)` or `{'x': a, 'y': b}`, or None for another text."""
    try:
        literal_node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None
    if isinstance(literal_node, ast.Dict):
        argument_names = [
            key_node.value if isinstance(key_node, ast.Constant) else ""
            for key_node in literal_node.keys
        ]
        return {
            str(argument_name): ast.unparse(expression)
            for argument_name, expression in zip(argument_names, literal_node.values, strict=True)
        }
    is_call = isinstance(literal_node, ast.Call) and isinstance(literal_node.func, ast.Name)
    if is_call and isinstance(literal_node, ast.Call) and ast.unparse(literal_node.func) == "dict":
        return {keyword.arg or "": ast.unparse(keyword.value) for keyword in literal_node.keywords}
    return None


def order_initial_values(form: LoopForm) -> tuple[Any, ...]:
    """Return the expressions of the loop's initial values in the order of the body's inputs."""
    if not isinstance(form.initial_expressions, dict):
        return form.initial_expressions
    if form.owned_graph.input_names is None:
        return tuple(form.initial_expressions.values())
    carried_names = form.owned_graph.input_names[2:]
    unknown_names = [name for name in form.initial_expressions if name not in carried_names]
    missing_names = [name for name in carried_names if name not in form.initial_expressions]
    if unknown_names or missing_names:
        raise ArityError(
            f"v_initial names {list(form.initial_expressions)}, but the body carries {list(carried_names)}",
            f"{form.where}.args.v_initial",
        )
    return tuple(form.initial_expressions[name] for name in carried_names)
