"""`onnx::` functions: inputs and attributes by the names of ONNX's schema.

Arguments not written are taken from the node's values of the same name, as MDF's engine does.
Source: ONNX operators, opset 17; modeci_mdf.functions.onnx (0.4.15).
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import defs

from mdf_loop import onnx_ops
from mdf_loop.build import Builder
from mdf_loop.errors import LoopError, OperandError, UnsupportedError
from mdf_loop.ir import Value
from mdf_loop.lower.dropout import dropout
from mdf_loop.lower.expression import is_left_out, lower_expression
from mdf_loop.lower.extents import known_extents
from mdf_loop.lower.recurrent import recurrent
from mdf_loop.lower.scope import Scope, suggestion
from mdf_loop.lower.sequences import KNOWN, as_sequence, fitted_member
from mdf_loop.lower.terms import Results, Term, cast, common_dtype, ints, kind, tensor
from mdf_loop.lower.texts import equal_texts
from mdf_loop.onnx_types import (
    TypeWord,
    dtype_words,
    element_type,
    is_tensor,
    is_word,
    kind_of,
    numpy_dtype,
    onnx_word,
)

_VARIADIC = defs.OpSchema.FormalParameterOption.Variadic
_OPTIONAL = defs.OpSchema.FormalParameterOption.Optional
_LISTS = frozenset(
    {
        *("axes", "shape", "pads", "starts", "ends", "steps", "repeats", "split", "scales"),
        *("sizes", "roi", "K", "output_shape", "ConstantOfShape.input"),
    }
)
"""Inputs that ONNX wants as lists, where a document may hold one number."""

_DTYPES = ("dtype", "to")
"""Attributes that are ONNX's number for a dtype, where a document may have the word."""

REFUSED = {
    "StringNormalizer": ("works on text, not on numbers", ""),
    "If": ("takes graphs as its branches, so it is a function of a node", ""),
    "Scan": ("takes a graph as its body", "write it as an onnx::Loop"),
    "Loop": ("takes a graph as its body, so it is a function of a node", "see the loop's args"),
    "SequenceMap": ("takes a graph as its body, so it is a function of a node", ""),
}
"""Operators that cannot be called as functions: why, and what to do."""


def lower_onnx(b: Builder, op_type: str, args: Mapping[str, Any], scope: Scope) -> Term:
    """`onnx::op_type(args)`: one value, or the tuple of values if the operator gives several."""
    if op_type in REFUSED:
        why, hint = REFUSED[op_type]
        raise UnsupportedError(f"'onnx::{op_type}' {why}: it cannot be compiled", hint=hint)
    schema = onnx_ops.schema(op_type)
    if op_type == "Constant":
        return _constant(b, schema, args, scope)
    parts, args = _parts(b, op_type, args, scope)
    _refuse_unknown(op_type, schema, args)
    inputs = _inputs(b, schema, args, scope)
    if op_type == "SequenceInsert":
        inputs = fitted_member(b, inputs)
    if op_type == "Equal" and all(value is not None and kind(value) == "U" for value in inputs):
        return equal_texts(b, *(value for value in inputs if value is not None))
    known = KNOWN[op_type](b, inputs) if op_type in KNOWN else None
    if known is not None:
        return known
    attributes = _attributes(b, schema, args, scope)
    known = known_extents(b, op_type, inputs, attributes)
    if known is not None:
        return known
    if op_type == "RoiAlign":  # its default changed between MDF's opset and ours
        attributes.setdefault("coordinate_transformation_mode", "output_half_pixel")
    count = parts or _output_count(schema, inputs, attributes)
    if op_type == "Dropout":
        return _results(schema, dropout(b, inputs, attributes))
    if op_type in ("RNN", "LSTM", "GRU"):
        return _results(schema, recurrent(b, op_type, inputs, attributes, count))
    outputs = b.multi(op_type, *inputs, n_outputs=count, **attributes)
    return _results(schema, outputs)


def _constant(b: Builder, schema: defs.OpSchema, args: Mapping[str, Any], scope: Scope) -> Term:
    """MDF's `onnx::Constant` gives back its argument, or the node's `value`."""
    given = list(args.values())
    if not given:
        given = [name for name in schema.attributes if scope.find_in_node(name) is not None]
    if len(given) != 1:
        raise OperandError(f"onnx::Constant takes one value, got {len(given)}")
    return lower_expression(b, given[0], scope)


def _refuse_unknown(op_type: str, schema: defs.OpSchema, args: Mapping[str, Any]) -> None:
    known = [formal.name for formal in schema.inputs] + list(schema.attributes)
    if any(formal.option == _VARIADIC for formal in schema.inputs):
        return
    for key in args:
        if key not in known:
            raise OperandError(
                f"onnx::{op_type} has no argument '{key}'", hint=suggestion(key, known)
            )


def _inputs(
    b: Builder, schema: defs.OpSchema, args: Mapping[str, Any], scope: Scope
) -> list[Value | None]:
    inputs: list[Value | None] = []
    groups: list[str] = []
    for formal in schema.inputs:
        if formal.option == _VARIADIC:
            values = _variadic(b, schema, args, scope)
            groups += [formal.type_str] * len(values)
            inputs += values
            continue
        term = _argument(b, formal, args, scope)
        if term is None and formal.option != _OPTIONAL and schema.name != "OptionalHasElement":
            raise OperandError(
                f"onnx::{schema.name} needs the argument '{formal.name}'",
                hint=f"add '{formal.name}' to the args of the function",
            )
        inputs.append(_as_input(b, schema, formal, term))
        groups.append(formal.type_str)
    while inputs and inputs[-1] is None:
        inputs.pop()
    if schema.name not in KNOWN:
        onnx_ops.refuse_wrong_kinds(schema.name, inputs)
    return _one_type_per_group(b, schema, inputs, groups)


def _argument(
    b: Builder, formal: defs.OpSchema.FormalParameter, args: Mapping[str, Any], scope: Scope
) -> Term | None:
    if formal.name in args:
        expression = args[formal.name]
        return None if is_left_out(expression) else lower_expression(b, expression, scope)
    return scope.find_in_node(formal.name)


def _as_input(
    b: Builder,
    schema: defs.OpSchema,
    formal: defs.OpSchema.FormalParameter,
    term: Term | None,
) -> Value | None:
    if term is None:
        return None
    if all(word.startswith("seq(") for word in formal.types):
        return as_sequence(b, term)
    value = tensor(b, term)
    if not is_tensor(value.dtype):
        return value
    listed = formal.name in _LISTS or f"{schema.name}.{formal.name}" in _LISTS
    listed = listed and schema.name != "SplitToSequence"  # there one number says how long parts are
    if listed and value.shape is not None and len(value.shape) != 1:
        value = b.op("Reshape", value, ints(b, -1))
    if schema.name == "Range" and value.shape == (1,):  # exporters write it, every runtime takes it
        value = b.op("Reshape", value, ints(b))
    allowed = formal.types
    return value if onnx_word(value.dtype) in allowed else _fit(b, value, allowed)


_FIT_ORDER = ("int64", "float64", "float32", "int32", "bool")


def _fit(b: Builder, value: Value, allowed: Collection[str]) -> Value:
    """A constant in a dtype that the operator takes, if nothing is lost by it."""
    known = b.constant_of(value)
    if known is None or kind_of(value.dtype) == "U":
        return value
    order = (b.float_dtype, *_FIT_ORDER) if kind_of(value.dtype) != "b" else _FIT_ORDER
    for dtype in order:
        if onnx_word(dtype) not in allowed:
            continue
        if np.array_equal(known.astype(dtype).astype(known.dtype), known):
            return cast(b, value, dtype)
    return value


def _variadic(
    b: Builder, schema: defs.OpSchema, args: Mapping[str, Any], scope: Scope
) -> list[Value]:
    """All arguments that are not attributes or other inputs; a list is spread."""
    named = {f.name for f in schema.inputs if f.option != _VARIADIC} | set(schema.attributes)
    values: list[Value] = []
    for key, expression in args.items():
        if key in named:
            continue
        term = lower_expression(b, _unquoted(expression), scope)
        parts = term if isinstance(term, tuple) and not isinstance(term, Results) else (term,)
        values += [tensor(b, part) for part in parts]
    if not values:
        raise OperandError(f"onnx::{schema.name} needs at least one argument")
    return values


def _unquoted(expression: Any) -> Any:
    """`"['a', 'b']"`, as MDF's importers write a list of names, as that list."""
    names = _texts(expression) if isinstance(expression, str) else None
    return expression if names is None else names


def _texts(expression: str) -> list[str] | None:
    """The texts of a list of quoted texts; None for all else."""
    try:
        parts = ast.literal_eval(expression.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    listed = isinstance(parts, list | tuple) and all(isinstance(part, str) for part in parts)
    return list(parts) if listed and parts else None


def _one_type_per_group(
    b: Builder, schema: defs.OpSchema, inputs: list[Value | None], groups: list[str]
) -> list[Value | None]:
    """Inputs that must share a type get it: numbers of the document adapt, floats widen."""
    for group in dict.fromkeys(groups):
        places = [k for k, v in enumerate(inputs) if v is not None and groups[k] == group]
        members = [v for k in places if (v := inputs[k]) is not None]
        if len({v.dtype for v in members}) <= 1 or any(v.dtype == "string" for v in members):
            continue
        dtype = _group_dtype(b, members)
        if dtype is None:
            shown = ", ".join(v.type for v in members)
            raise OperandError(
                f"onnx::{schema.name} needs values of one dtype, got {shown}",
                hint="use onnx::Cast, or write whole numbers with a point (2.0)",
            )
        for k in places:
            value = inputs[k]
            assert value is not None
            inputs[k] = cast(b, value, dtype)
    return inputs


def _group_dtype(b: Builder, members: list[Value]) -> str | None:
    fixed = [v for v in members if b.constant_of(v) is None and not b.is_weak(v)]
    kinds = {kind(v) for v in fixed}
    if len(kinds) > 1:
        return None
    dtype = common_dtype(b, fixed or members)
    for value in members:
        known = b.constant_of(value)
        if known is None:
            continue
        is_float = kind(value) == "f"
        there = known.astype(numpy_dtype(dtype)).astype(known.dtype)
        exact = np.array_equal(there, known, equal_nan=is_float)
        if not exact and not (is_float and kind_of(dtype) == "f"):
            return None
    return dtype


def _attributes(
    b: Builder, schema: defs.OpSchema, args: Mapping[str, Any], scope: Scope
) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for name, formal in schema.attributes.items():
        if name in args:
            expression = args[name]
        elif scope.find_in_node(name) is not None:
            expression = name
        else:
            continue
        if expression is not None:
            attributes[name] = _attribute(b, schema, formal, expression, scope)
    return attributes


def _attribute(
    b: Builder,
    schema: defs.OpSchema,
    formal: defs.OpSchema.Attribute,
    expression: Any,
    scope: Scope,
) -> Any:
    kinds = defs.OpSchema.AttrType
    if formal.type == kinds.TYPE_PROTO:
        return _type_attribute(schema, formal, expression)
    if isinstance(expression, str) and formal.name in _DTYPES and expression in dtype_words():
        return element_type(expression)
    if formal.type in (kinds.STRING, kinds.STRINGS):
        return _text_attribute(b, schema, formal, expression, scope)
    try:
        known = b.constant_of(tensor(b, lower_expression(b, expression, scope)))
    except LoopError:
        known = None
    if known is None or known.dtype.kind not in "biuf":
        raise OperandError(
            f"the attribute '{formal.name}' of onnx::{schema.name} must be known when the model "
            f"is compiled, not {expression!r}",
            hint="give it as a number or a parameter with a fixed value",
        )
    if formal.type == kinds.TENSOR:
        return np.atleast_1d(known) if schema.name == "ConstantOfShape" else known
    return _plain_attribute(schema, formal, known)


def _type_attribute(
    schema: defs.OpSchema, formal: defs.OpSchema.Attribute, expression: Any
) -> TypeWord:
    if not isinstance(expression, str) or not is_word(expression):
        raise OperandError(
            f"the attribute '{formal.name}' of onnx::{schema.name} is a type, not {expression!r}",
            hint="e.g. float32 or sequence(float32)",
        )
    return TypeWord(expression)


def _text_attribute(
    b: Builder,
    schema: defs.OpSchema,
    formal: defs.OpSchema.Attribute,
    expression: Any,
    scope: Scope,
) -> Any:
    """A text as it is written, with or without quotes; or the text that a name stands for."""
    if isinstance(expression, str):
        held = scope.find_in_node(expression)
        known = b.constant_of(held) if isinstance(held, Value) else None
        if known is not None and known.dtype.kind in "UO":
            expression = known.tolist()
    several = formal.type == defs.OpSchema.AttrType.STRINGS
    if several and isinstance(expression, str):
        expression = expression.strip("[]() ").split(",")
    texts = expression if several and isinstance(expression, list | tuple) else [expression]
    if not all(isinstance(text, str) for text in texts):
        raise OperandError(
            f"the attribute '{formal.name}' of onnx::{schema.name} is a text, not {expression!r}"
        )
    plain = tuple(text.strip("'\" ") for text in texts)
    return plain if several else plain[0]


def _plain_attribute(
    schema: defs.OpSchema, formal: defs.OpSchema.Attribute, known: np.ndarray[Any, Any]
) -> Any:
    kinds = defs.OpSchema.AttrType
    if formal.type in (kinds.INT, kinds.INTS):
        whole = known.astype(np.int64)
        if not np.array_equal(whole, known):
            raise OperandError(
                f"the attribute '{formal.name}' of onnx::{schema.name} is a whole number, not {known}"
            )
        known = whole
    elif formal.type in (kinds.FLOAT, kinds.FLOATS):
        known = known.astype(np.float64)
    if formal.type in (kinds.INT, kinds.FLOAT, kinds.STRING):
        if known.size != 1:
            raise OperandError(
                f"the attribute '{formal.name}' of onnx::{schema.name} is one number"
            )
        return known.reshape(()).item()
    return tuple(np.atleast_1d(known).tolist())


def _parts(
    b: Builder, op_type: str, args: Mapping[str, Any], scope: Scope
) -> tuple[int, Mapping[str, Any]]:
    """How many parts onnx::Split makes, where opset 18's `num_outputs` says it; the other args."""
    if op_type != "Split" or args.get("num_outputs") is None:
        return 0, args
    known = b.constant_of(tensor(b, lower_expression(b, args["num_outputs"], scope)))
    if known is None or known.size != 1 or known.dtype.kind not in "iu" or known < 1:
        raise OperandError(f"onnx::Split cannot make {args['num_outputs']} parts")
    return int(known), {key: value for key, value in args.items() if key != "num_outputs"}


def _output_count(
    schema: defs.OpSchema, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
) -> int:
    """How many results MDF's engine takes from the operator: all that its schema names."""
    if schema.name == "Split":
        parts = inputs[1] if len(inputs) > 1 else None
        return _part_count(parts) if parts is not None else 1
    if schema.name == "BatchNormalization" and not attributes.get("training_mode"):
        return 1
    return len(schema.outputs)


def _part_count(parts: Value) -> int:
    if not parts.shape or not isinstance(parts.shape[0], int):
        raise OperandError(f"how many parts onnx::Split makes must be known, not {parts.type}")
    return parts.shape[0]


def _results(schema: defs.OpSchema, outputs: tuple[Value, ...]) -> Term:
    """One value, or the tuple; the first of optional results stands for all of them."""
    if schema.min_output <= 1 < len(schema.outputs):
        return Results(outputs)
    return outputs[0] if len(outputs) == 1 else outputs
