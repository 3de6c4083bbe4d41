"""Short texts of values and formulas for pictures and explanations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mdf_loop.document.parts import DocumentValue, FunctionOrParameter, Node
from mdf_loop.outline.parts import DefinitionOutline

_MAX_LISTED_NUMBERS = 16
"""Maximum number of elements of an array whose numbers are shown. A larger one is shown by dtype and shape."""


def value_text(value: DocumentValue, limit: int = 48) -> str:
    """Format a value as one line of text, such as `0.333333`, `[1, 2]` or `true`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray | np.generic):
        return _array_text(np.asarray(value), limit)
    if isinstance(value, list | tuple):
        return _list_text(list(value), limit)
    if isinstance(value, dict):
        if set(value) == {"npz", "array"}:
            return f"{value['array']} of {value['npz']}"
        return shorten(
            "{"
            + ", ".join(f"{key}: {value_text(element)}" for key, element in value.items())
            + "}",
            limit,
        )
    return shorten(" ".join(str(value).split()), limit)


def _array_text(array: np.ndarray[Any, Any], limit: int) -> str:
    """Format the elements of a small array, or the dtype and shape of a large array."""
    type_text = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
    if array.size > _MAX_LISTED_NUMBERS or array.size == 0:
        return type_text
    elements_text = value_text(array.tolist(), 10 * limit)
    return elements_text if len(elements_text) <= limit else type_text


def weight_text(weight: Any | None) -> str:
    """Format the weight of an edge, such as `× 0.5`, or return "" without a weight."""
    return "" if weight is None else f"× {value_text(weight, 20)}"


def _list_text(values: list[Any], limit: int) -> str:
    """Format the elements of a list, or the shape of the list if the text would be too long."""
    if len(values) <= limit:
        list_text = "[" + ", ".join(value_text(element, limit) for element in values) + "]"
        if len(list_text) <= limit:
            return list_text
    list_shape = []
    inner_list: Any = values
    while isinstance(inner_list, list) and inner_list:
        list_shape.append(str(len(inner_list)))
        inner_list = inner_list[0]
    return f"[{' × '.join(list_shape)} values]"


def shorten(text: str, limit: int) -> str:
    """Shorten a text to `limit` characters, with an ellipsis at the end."""
    return text if len(text) <= limit else text[: max(limit - 1, 1)].rstrip() + "…"


def shorten_name(text: str, limit: int) -> str:
    """Shorten a name to `limit` characters, with an ellipsis in the middle.

    Names in one model often begin alike: `/encoder/layer.0/…`.
    """
    if len(text) <= limit or " " in text:
        return shorten(text, limit)
    leading_length = limit // 3
    return f"{text[:leading_length]}…{text[len(text) - (limit - leading_length - 1) :]}"


def call_text(function: str, arguments: tuple[tuple[str, Any], ...]) -> str:
    """Format a function and its arguments as a call, such as `onnx::Add(A=input, B=B)`."""
    return f"{function}({', '.join(f'{key}={value_text(value)}' for key, value in arguments)})"


def formula_lines(definition: DefinitionOutline) -> Iterator[str]:
    """Yield the formulas of a parameter or function, such as `dV/dt = -V / tau` or `V(0) = -1`."""
    if definition.initial_expression is not None:
        yield f"{definition.id}(0) = {value_text(definition.initial_expression, 400)}"
    if definition.derivative is not None:
        yield f"d{definition.id}/dt = {value_text(definition.derivative, 400)}"
    if definition.function:
        yield f"{definition.id} = {call_text(definition.function, definition.arguments)}"
    elif definition.value is not None:
        yield f"{definition.id} = {value_text(definition.value, 400)}"
    for condition, value in definition.conditions:
        yield f"{definition.id} = {value_text(value, 400)} if {value_text(condition, 400)}"


def resolve_expression(node: Node, expression: DocumentValue) -> str:
    """Return the expression that a name stands for, if it is the name of a parameter or function."""
    definitions: dict[str, FunctionOrParameter] = {
        parameter.id: parameter for parameter in node.parameters
    }
    definitions |= {function.id: function for function in node.functions}
    for _ in range(8):
        definition = (
            definitions.pop(expression.strip(), None) if isinstance(expression, str) else None
        )
        if definition is None or getattr(definition, "conditions", None):
            break
        arguments = definition.args or {}
        if definition.function == "onnx::Identity" and len(arguments) == 1:
            expression = next(iter(arguments.values()))
        elif definition.function:
            return call_text(definition.function, tuple(arguments.items()))
        elif definition.value is None:
            break
        else:
            expression = definition.value
    return value_text(expression, 400)
