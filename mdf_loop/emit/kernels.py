"""Which operations ONNX Runtime's CPU provider can run, dtype by dtype.

What usual models use is in a table, so that they cost nothing. For the rest the runtime is
asked: a model of the one operation is loaded, once per process. Kernels that load but fail or
are wrong when they run are in a table too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from onnx import helper

from mdf_loop import onnx_ops
from mdf_loop.ir import OPSET, Op
from mdf_loop.onnx_types import kind_of, type_proto

_FLOATS = frozenset({"float64", "float32"})
_NUMBERS = frozenset({*_FLOATS, "int64", "int32"})
_PLAIN = frozenset({*_NUMBERS, "bool"})


def _table(rows: Mapping[frozenset[str], str]) -> dict[str, frozenset[str]]:
    return {name: dtypes for dtypes, names in rows.items() for name in names.split()}


_ALIKE = _table(
    {
        _FLOATS: "Ceil Cos Exp Floor IsInf IsNaN Log Reciprocal Round Sigmoid Sin Softmax Sqrt "
        "Sum Tanh",
        _NUMBERS: "Abs Add Div Greater GreaterOrEqual Less LessOrEqual MatMul Max Min Mul Neg "
        "Sign Sub",
        _PLAIN: "Concat Equal Identity Shape Size Transpose",
        frozenset({"bool"}): "And Not Or Xor",
    }
)
"""Operators whose inputs all have one dtype, and the dtypes that have kernels."""

_INDEXED = _table(
    {
        _NUMBERS: "CumSum ReduceSum TopK",
        _PLAIN: "Expand Gather GatherElements GatherND Reshape ScatterElements ScatterND Slice "
        "Split Squeeze Tile Unsqueeze",
    }
)
"""Operators with data first and int64 positions, shapes or axes after it."""


def _first(op: Op) -> str:
    return op.inputs[0].dtype if op.inputs and op.inputs[0] else ""


def _along_last_axis(op: Op) -> bool:
    shape = op.inputs[0].shape if op.inputs[0] else None
    return shape is not None and op.attributes.get("axis", 0) in (-1, len(shape) - 1)


_FAILS: dict[str, Callable[[Op], bool]] = {
    # "fmod attribute must be true for float, float16 and double types", when it runs; with it,
    # whole numbers of 64 bits go through float64: the rest of 2 ** 60 + 1 and 3 is 1, not 2
    "Mod": lambda op: (
        _first(op) in {"int64", "uint64"}
        if op.attributes.get("fmod")
        else kind_of(_first(op)) == "f"
    ),
    # "LSTM operator does not support double yet", when it runs
    "LSTM": lambda op: _first(op) == "float64",
    "GRU": lambda op: _first(op) == "float64",
    # computes in float32: Shrink(1.9) = 1.89999998
    "Shrink": lambda op: _first(op) in {"float64", "int64", "int32"},
    # computes in float64 and saturates: 3 ** 39 = 4052555153018976256
    "Pow": lambda op: {v.dtype for v in op.inputs if v} <= {"int64", "int32"},
    # computes in float64: 2 ** 53 + 1 is lost
    **dict.fromkeys(
        ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare"),
        lambda op: _first(op) in {"int64", "int32"},
    ),
    # the sign of nan is 0
    "Sign": lambda op: _first(op) == "float16",
    # copies the first text of each row and leaves the others empty
    "Gather": lambda op: _first(op) == "string" and not _along_last_axis(op),
    # "MLFloat16 data type is not supported with ScatterElements opset 16 when reduction is add"
    "ScatterElements": lambda op: _first(op) == "float16" and "reduction" in op.attributes,
    "ScatterND": lambda op: _first(op) == "float16" and "reduction" in op.attributes,
}
"""Kernels that load but throw or are wrong when they run (ONNX Runtime 1.31)."""


def has_kernel(op: Op) -> bool:
    """Whether the CPU provider can run the operation, with the right result."""
    fails = _FAILS.get(op.op_type)
    if fails is not None and fails(op):
        return False
    return _is_known(op) or _probe(
        op.op_type,
        tuple(None if v is None else v.dtype for v in op.inputs),
        tuple(v.dtype for v in op.outputs),
        _Attributes(op.attributes),
    )


def _is_known(op: Op) -> bool:
    dtypes = [value.dtype for value in op.inputs if value is not None]
    if op.op_type in _ALIKE:
        return set(dtypes) <= _ALIKE[op.op_type]
    if op.op_type in _INDEXED:
        plain = not op.attributes.get("reduction")
        return plain and dtypes[0] in _INDEXED[op.op_type] and set(dtypes[1:]) <= {"int64"}
    if op.op_type == "Where":
        return dtypes[1] in _NUMBERS
    if op.op_type == "Cast":
        return {*dtypes, op.outputs[0].dtype} <= _PLAIN
    return op.op_type == "Constant"


class _Attributes:
    """Attributes as a key of a cache."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = {key: onnx_ops.attribute_value(value) for key, value in values.items()}
        self._key = tuple(f"{key}={value}" for key, value in sorted(self.values.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Attributes) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@functools.cache
def _probe(
    op_type: str,
    inputs: tuple[str | None, ...],
    outputs: tuple[str, ...],
    attributes: _Attributes,
) -> bool:
    """Whether ONNX Runtime knows how to run this one operation.

    What else it may find wrong it says when the whole model is loaded.
    """
    import onnxruntime

    model = _model(op_type, inputs, outputs, attributes.values)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return False
    except Exception:  # noqa: BLE001 - the kernel exists, and refuses something
        return True
    return True


def _model(
    op_type: str,
    inputs: Iterable[str | None],
    outputs: Iterable[str],
    attributes: Mapping[str, Any],
) -> bytes:
    types = {
        name: helper.make_value_info(name, type_proto(dtype))
        for name, dtype in chain(
            ((f"i{k}", dtype) for k, dtype in enumerate(inputs) if dtype is not None),
            ((f"o{k}", dtype) for k, dtype in enumerate(outputs)),
        )
    }
    read = [f"i{k}" if dtype is not None else "" for k, dtype in enumerate(inputs)]
    made = [f"o{k}" for k, _ in enumerate(outputs)]
    node = helper.make_node(op_type, read, made, **attributes)
    given = [types[name] for name in read if name]
    graph = helper.make_graph([node], "probe", given, [types[name] for name in made])
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=onnx_ops.IR_VERSION)
    data: bytes = model.SerializeToString()
    return data
