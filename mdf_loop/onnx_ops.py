"""What ONNX says of one operator: its signature, the types it gives, the numbers it gives.

Nearly everything comes from the onnx package: schemas, single-node shape inference, and the
reference implementation of plain operators (never its Loop, which is wrong).
"""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from mdf_loop.errors import OperandError, UnknownFunctionError
from mdf_loop.ir import OPSET, Array, Shape, Value, type_text
from mdf_loop.onnx_types import (
    TypeWord,
    dtype_name,
    element_type,
    onnx_word,
    type_of,
    type_proto,
    wrong_kind,
)

IR_VERSION = 8


def fits_a_file(op_type: str, attributes: Mapping[str, Any]) -> bool:
    """Whether an ONNX file, which rounds to float32, holds the numbers among the attributes."""
    numbers = [value for _, value in _exact_numbers(op_type, attributes)]
    return all(np.array_equal(np.float32(n), np.float64(n)) for n in numbers)


def _exact_numbers(op_type: str, attributes: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The attributes that are numbers with a point, which the text of a node would round."""
    formals = schema(op_type).attributes
    kinds = (defs.OpSchema.AttrType.FLOAT, defs.OpSchema.AttrType.FLOATS)
    return tuple((key, value) for key, value in attributes.items() if formals[key].type in kinds)


@functools.cache
def schema(op_type: str) -> defs.OpSchema:
    """The operator's schema at our opset, or an error with a suggestion."""
    try:
        found = defs.get_schema(op_type, OPSET, "")
    except defs.SchemaError:
        same = [name for name in operator_names() if name.lower() == op_type.lower()]
        close = same or difflib.get_close_matches(op_type, operator_names(), n=1)
        raise UnknownFunctionError(
            f"ONNX has no operator '{op_type}' in opset {OPSET}",
            hint=f"did you mean 'onnx::{close[0]}'?" if close else "",
        ) from None
    return found


@functools.cache
def operator_names() -> tuple[str, ...]:
    """Every operator of our opset that is not deprecated."""
    names = {s.name for s in defs.get_all_schemas_with_history() if s.domain == ""}
    known = (n for n in sorted(names) if defs.has(n, OPSET, ""))
    return tuple(n for n in known if not defs.get_schema(n, OPSET, "").deprecated)


def attribute(op_type: str, attributes: Mapping[str, Any], name: str) -> Any:
    """An attribute exactly as given, else ONNX's default, else None.

    ONNX files store numbers as float32; what the model says (0.1) is used as it is, not as
    0.10000000149.
    """
    if name in attributes:
        return attributes[name]
    default = schema(op_type).attributes[name].default_value
    value = helper.get_attribute_value(default) if default.name else None
    return value.decode() if isinstance(value, bytes) else value


def attribute_value(value: Any) -> Any:
    """An attribute as ONNX wants it: arrays become tensors, words types, numpy scalars numbers."""
    if isinstance(value, TypeWord):
        return type_proto(value)
    if isinstance(value, np.ndarray):
        return numpy_helper.from_array(value)
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value


def _node(
    op_type: str, present: Sequence[bool], n_outputs: int, attributes: Mapping[str, Any]
) -> onnx.NodeProto:
    names = [f"i{k}" if there else "" for k, there in enumerate(present)]
    plain = {key: attribute_value(value) for key, value in attributes.items()}
    return helper.make_node(op_type, names, [f"o{k}" for k in range(n_outputs)], **plain)


def infer(
    op_type: str,
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    constants: Mapping[int, Array],
    n_outputs: int,
) -> list[tuple[str, Shape]]:
    """Dtype and shape of each output; constants (by input position) sharpen the shapes.

    Raises:
        OperandError: the operator cannot take these inputs; the sentence shows them.
    """
    if op_type in _TYPED_BY_TYPES:
        return list(_inferred_again(op_type, tuple(inputs), tuple(attributes.items()), n_outputs))
    return _inferred(op_type, inputs, attributes, constants, n_outputs)


_TYPED_BY_TYPES = frozenset(
    (
        *("Abs", "Add", "And", "Cast", "Ceil", "Cos", "Div", "Equal", "Exp", "Floor", "Greater"),
        *("GreaterOrEqual", "Less", "LessOrEqual", "Log", "MatMul", "Max", "Min", "Mul", "Neg"),
        *("Not", "Or", "Pow", "Round", "Sign", "Sin", "Sqrt", "Sub", "Tan", "Tanh", "Where", "Xor"),
    )
)
"""Operators whose results have types that no values of operands change: inferred once."""


@functools.lru_cache(maxsize=4096)
def _inferred_again(
    op_type: str,
    inputs: tuple[tuple[str, Shape] | None, ...],
    attributes: tuple[tuple[str, Any], ...],
    n_outputs: int,
) -> tuple[tuple[str, Shape], ...]:
    return tuple(_inferred(op_type, inputs, dict(attributes), {}, n_outputs))


def _inferred(
    op_type: str,
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    constants: Mapping[int, Array],
    n_outputs: int,
) -> list[tuple[str, Shape]]:
    node = _node(op_type, [entry is not None for entry in inputs], n_outputs, attributes)
    types = {f"i{k}": type_proto(*entry) for k, entry in enumerate(inputs) if entry is not None}
    data = {f"i{k}": numpy_helper.from_array(array) for k, array in constants.items()}
    try:
        found = shape_inference.infer_node_outputs(
            schema(op_type), node, types, data, None, [helper.make_opsetid("", OPSET)], IR_VERSION
        )
    except Exception as error:  # noqa: BLE001 - onnx raises classes of its C++ part
        raise _operand_error(op_type, inputs, attributes, error) from None
    return [_output_type(op_type, found.get(f"o{k}")) for k in range(n_outputs)]


def _output_type(op_type: str, proto: onnx.TypeProto | None) -> tuple[str, Shape]:
    if proto is None:
        raise OperandError(f"what onnx::{op_type} gives here cannot be told")
    try:
        return type_of(proto)
    except OperandError:
        raise OperandError(f"the dtype that onnx::{op_type} gives cannot be told") from None


def refuse_wrong_kinds(op_type: str, inputs: Sequence[Value | None]) -> None:
    """Refuse a tensor, sequence or optional value where the operator takes none of the kind.

    Raises:
        OperandError: the sentence names the value and says what to do.
    """
    kinds = _kinds(op_type)
    for k, value in enumerate(inputs):
        if value is None or not kinds:
            continue
        allowed = kinds[min(k, len(kinds) - 1)]
        if onnx_word(value.dtype).partition("(")[0] not in allowed:
            formals = schema(op_type).inputs
            name = formals[min(k, len(formals) - 1)].name
            raise wrong_kind(value, f"'{name}' of onnx::{op_type}", allowed)


@functools.cache
def _kinds(op_type: str) -> tuple[frozenset[str], ...]:
    """Of each input whether it may be a `tensor`, a `seq`, an `optional`."""
    return tuple(
        frozenset(word.partition("(")[0] for word in formal.types)
        for formal in schema(op_type).inputs
    )


def _operand_error(
    op_type: str,
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    error: Exception,
) -> OperandError:
    formals = schema(op_type).inputs
    shown = []
    for k, entry in enumerate(inputs):
        formal = formals[min(k, len(formals) - 1)].name if formals else f"input {k}"
        if entry is not None:
            shown.append(f"{formal}: {type_text(*entry)}")
    shown += [f"{key}={value}" for key, value in attributes.items()]
    reason = str(error).strip().splitlines()[-1].split("] ")[-1] if str(error).strip() else ""
    return OperandError(f"onnx::{op_type} cannot take ({', '.join(shown)}): {reason}")


# --- what an operator computes ----------------------------------------------------------------


def _mod(x: Array, y: Array, fmod: int = 0) -> Array:
    made: Array = np.fmod(x, y) if fmod else np.mod(x, y)
    return made


def _erf(x: Array) -> Array:
    wide = np.asarray(x, np.float64)
    made: Array = np.array([math.erf(number) for number in wide.flat]).reshape(wide.shape)
    return made.astype(x.dtype)


def _hard_swish(x: Array) -> Array:
    wide = np.asarray(x, np.float64 if x.dtype == np.float64 else np.float32)
    made: Array = wide * np.clip(np.add(np.divide(wide, 6), 0.5), 0, 1)
    return made.astype(x.dtype)


_OWN: dict[str, Callable[..., Array]] = {"Erf": _erf, "HardSwish": _hard_swish, "Mod": _mod}
"""Operators that onnx's reference implementation computes in float32, or, from one release to the
next, with another sign or without nan."""


def evaluate(
    op_type: str,
    arrays: Sequence[Array | None],
    attributes: Mapping[str, Any],
    n_outputs: int,
) -> list[Array]:
    """The numbers a plain operator gives, by numpy: mostly by onnx's reference implementation.

    Attributes are used as the model says them: 0.1 is not rounded to 0.10000000149.
    """
    with np.errstate(all="ignore"):
        if op_type in _OWN:
            return [np.asarray(_OWN[op_type](*arrays, **attributes))]
        node = _node(op_type, [array is not None for array in arrays], n_outputs, attributes)
        types = tuple(None if a is None else dtype_name(a) for a in arrays)
        text = node.SerializeToString(deterministic=True)
        exact = tuple((k, _hashable(v)) for k, v in _exact_numbers(op_type, attributes))
        evaluator = _evaluator(op_type, types, n_outputs, text, exact)
        feeds = {f"i{k}": array for k, array in enumerate(arrays) if array is not None}
        given = evaluator.run(None, feeds)
    return [np.asarray(array) for array in given]


def _hashable(value: Any) -> Any:
    return value if np.ndim(value) == 0 else tuple(value)


@functools.lru_cache(maxsize=4096)
def _evaluator(
    op_type: str,
    types: tuple[str | None, ...],
    n_outputs: int,
    text: bytes,
    exact: tuple[tuple[str, Any], ...],
) -> ReferenceEvaluator:
    """What computes the node of a `text`, with the `exact` numbers among its attributes."""
    node = onnx.NodeProto.FromString(text)
    inputs = [
        helper.make_tensor_value_info(f"i{k}", element_type(dtype), None)
        for k, dtype in enumerate(types)
        if dtype is not None
    ]
    outputs = [helper.make_empty_tensor_value_info(f"o{k}") for k in range(n_outputs)]
    graph = helper.make_graph([node], op_type, inputs, outputs)
    opset = [helper.make_opsetid("", OPSET)]
    evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=opset))
    for name, value in exact:
        setattr(evaluator.rt_nodes_[0], name, value)
    return evaluator
