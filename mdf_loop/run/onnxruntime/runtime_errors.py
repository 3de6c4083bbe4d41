"""Conversion of ONNX Runtime's exceptions to errors with a model path and a remedy.

    [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Non-zero status code returned while running Gather
    node. Name:'$.graphs[0].nodes['A'].output_ports['y'] Gather#1' Status Message: indices element
    out of data bounds, idx=7 must be within the inclusive range [-5,4]
      ->
    RunError: position 7 does not exist: the axis has positions -5 to 4
      at $.graphs[0].nodes['A'].output_ports['y']

Known failures are recognized by their messages (ONNX Runtime 1.30 to 1.32). For unknown failures, the
error names the failed operator, and the hint quotes the runtime's own message.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TypeAlias

from mdf_loop.emit.row_shapes import row_shape_error
from mdf_loop.emit.scope import NodeRegistry
from mdf_loop.errors import LoopError, MemoryLimitError, RunError
from mdf_loop.ops import row_of
from mdf_loop.ops.failure_conditions import DIVISION_BY_ZERO_MESSAGE, ZERO_DIVISOR_HINT


@functools.cache
def onnxruntime_errors() -> tuple[type[Exception], ...]:
    """Return the classes of exceptions that ONNX Runtime raises."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    module_attributes = (getattr(state, name, None) for name in dir(state))
    exceptions = [
        exception_class
        for exception_class in module_attributes
        if isinstance(exception_class, type) and issubclass(exception_class, Exception)
    ]
    return (*exceptions, RuntimeError, ValueError)


_FAILED_NODE = re.compile(r"while running (\w+) node\. Name:'([^\n]*?)' Status Message: ")
_REFUSED_NODE = re.compile(r"(?:Node \(|name ')(\S[^\n]*?) \w+#\d+[)']")
_FAILED_CHECK = re.compile(r"Status Message: check (\d+)((?: -?\d+)*)$")
_NODE_NAME = re.compile(r"(.*?) \w+#\d+$")


def convert_run_error(error: Exception, nodes: NodeRegistry) -> LoopError:
    """Convert an exception of an ONNX Runtime run to an error that names the failed operator.

    If a run-time assertion (guard) of the model failed, its message is used.

    `nodes` has the guards and failures of the model by node name.

    If a node inside a body (Loop, If) fails, the innermost node is reported.
    """
    error_text = str(error)
    failed_nodes = _FAILED_NODE.findall(error_text)
    for _, name in reversed(failed_nodes):
        if guard := nodes.guard_by_node_name.get(name):
            return RunError(guard.message, guard.where)
        if (failed_check := _FAILED_CHECK.search(error_text)) and (
            failure_conditions := nodes.failures_by_node_name.get(name)
        ):
            return failure_conditions[int(failed_check[1]) - 1].error(
                map(int, failed_check[2].split())
            )
    failed_node_name = next(
        (name for _, name in reversed(failed_nodes) if _document_path(name)), ""
    )
    document_path = _document_path(failed_node_name)
    if _OUT_OF_MEMORY.search(error_text):
        return _memory_error(document_path)
    rows_error = row_shape_error(error_text, failed_node_name, document_path, nodes)
    if rows_error is not None:
        return rows_error
    op_type = failed_nodes[-1][0] if failed_nodes else ""
    sentence, hint = _explain(op_type, _clean_message(error))
    return RunError(sentence, document_path, hint)


def convert_load_error(error: Exception) -> LoopError:
    """Convert the exception of ONNX Runtime about a model that cannot be loaded."""
    refused_node_match = _REFUSED_NODE.search(str(error))
    if _OUT_OF_MEMORY.search(str(error)):
        return _memory_error(refused_node_match[1] if refused_node_match else "")
    return RunError(
        "ONNX Runtime does not take the compiled model",
        refused_node_match[1] if refused_node_match else "",
        f"ONNX Runtime says: {_clean_message(error)}",
    )


_OUT_OF_MEMORY = re.compile(
    r"Failed to allocate memory|bad_alloc|bad allocation|out of memory"
    r"|storage size overflowed|Integer overflow",  # size of an array in bytes
    re.IGNORECASE,
)


def _memory_error(where: str) -> MemoryLimitError:
    return MemoryLimitError(
        "there is no memory for what the model computes",
        where,
        "make it smaller: fewer members of a sweep, shorter arrays",
    )


def _document_path(name: str) -> str:
    node_name_match = _NODE_NAME.match(name)
    return node_name_match[1] if node_name_match else ""


# --- messages of the runtime --------------------------------------------------------------------

_MESSAGE_PREFIX = re.compile(
    r"^(\[ONNXRuntimeError\] : \d+ : \w+ : "  # error code
    r"|\S+\.(cc|h|cpp|cu|cuh):\d+ "  # line of its source
    r"|.*\[with [^\]]*\] "  # template function of its source
    r"|.*?\bonnxruntime::\S*\([^)]*\)( const)? "  # other function of its source
    r"|(operator\(\)|[A-Z]\w+) (?=[A-Z])"  # bare function name
    r"|.{0,200}? was false\. )"  # failed assertion
)


def _clean_message(error: Exception) -> str:
    """Return an ONNX Runtime message without error codes, source lines and signatures."""
    lines = str(error).rpartition("Status Message: ")[2].strip().splitlines()
    reason, previous_reason = lines[0] if lines else "", None
    while previous_reason != reason:
        previous_reason, reason = reason, _MESSAGE_PREFIX.sub("", reason).strip()
    return reason or type(error).__name__


# --- explanations -------------------------------------------------------------------------------

_Explanation: TypeAlias = Callable[[re.Match[str]], tuple[str, str]]
"""Function that returns a sentence and a hint for a matched message."""


def _explain(op_type: str, reason: str) -> tuple[str, str]:
    if "operand cannot broadcast" in reason and row_of(op_type).is_elementwise:  # message of CUDA
        return "the shapes of two operands do not fit", _SHAPE_HINT
    for pattern, explain in _KNOWN_MESSAGES:
        message_match = pattern.search(reason)
        if message_match:
            return explain(message_match)
    if op_type in ("ArgMax", "ArgMin"):
        return f"onnx::{op_type} needs at least one element", "there was nothing to choose from"
    sentence = "the model failed while running"
    if op_type:
        sentence = f"onnx::{op_type} cannot be computed of what it was given"
    return sentence, f"ONNX Runtime says: {reason}"


def _format_shape(text: str) -> str:
    """Convert a shape in an ONNX Runtime message, such as `{2,3}`, to the form `[2, 3]`."""
    return f"[{', '.join(filter(None, text.strip('{}').split(',')))}]"


def _explain_position(match: re.Match[str]) -> tuple[str, str]:
    return (
        f"position {match[1]} does not exist: the axis has positions {match[2]} to {match[3]}",
        _POSITION_HINT,
    )


_POSITION_HINT = "a subscript is outside of its array"
_SHAPE_HINT = "give both one shape, or one of them an axis of 1 element there"

_KNOWN_MESSAGES: tuple[tuple[re.Pattern[str], _Explanation], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), explain)
    for pattern, explain in (
        (
            r"(?:division|modulo|divide) by zero",
            lambda _: (DIVISION_BY_ZERO_MESSAGE, ZERO_DIVISOR_HINT),
        ),
        (
            r"idx=(-?\d+) must be within the inclusive range \[(-?\d+),(-?\d+)\]",
            _explain_position,
        ),
        (
            r"invalid ind(?:ex|ice) found, ind(?:ex|ice) = (-?\d+)",
            lambda m: (f"position {m[1]} does not exist", _POSITION_HINT),
        ),
        (
            r"Out of range value in index tensor",
            lambda _: ("a position does not exist", _POSITION_HINT),
        ),
        (
            r"broadcast an axis by a dimension other than 1\. (\d+) by (\d+)",
            lambda m: (
                f"the shapes of two operands do not fit: an axis has {m[1]} elements in one and "
                f"{m[2]} in the other",
                _SHAPE_HINT,
            ),
        ),
        (
            r"MatMul dimension mismatch|left operand cannot broadcast|GEMM: Dimension mismatch",
            lambda _: (
                "the shapes of two matrices do not fit",
                "the last axis of the first is as long as the last but one of the second",
            ),
        ),
        (
            r"Axis (\d+) has mismatched dimensions of (\d+) and (\d+)",
            lambda m: (
                f"arrays that are joined differ in axis {m[1]}: {m[3]} and {m[2]} elements",
                "they may differ only along the axis on which they are joined",
            ),
        ),
        (
            r"Input shape:(\{[\d,]*\}), requested shape:(\{[-\d,]*\})",
            lambda m: (
                f"an array of shape {_format_shape(m[1])} cannot become one of shape {_format_shape(m[2])}",
                "both have the same number of elements",
            ),
        ),
        (
            r"axis (-?\d+) is not in valid range \[(-?\d+),(-?\d+)\]",
            lambda m: (f"axis {m[1]} does not exist", f"axes are numbered {m[2]} to {m[3]}"),
        ),
        (
            r"Dimension of input (\d+) must be 1 instead of (\d+)",
            lambda m: (
                f"axis {m[1]} has {m[2]} elements and cannot be left out",
                "only an axis of 1 element can be squeezed",
            ),
        ),
        (
            r"^sto(?:d|f|i|ll|l|ul|ull)$|invalid sto",
            lambda _: ("a text is no number", "look at the texts that become numbers here"),
        ),
        (
            r"OptionalGetElement on an optional type",
            lambda _: ("a value that is absent is taken", "ask onnx::OptionalHasElement before"),
        ),
        (
            r"Invalid sequence index",
            lambda _: (
                "a position is outside of its sequence",
                "ask onnx::SequenceLength before",
            ),
        ),
    )
)
"""Patterns of known messages, with functions that return their sentences and hints."""
