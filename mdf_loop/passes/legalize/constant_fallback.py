"""Constant folding by NumPy of operations for which ONNX Runtime has no kernel."""

from __future__ import annotations

from collections.abc import Callable

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value


def build_or_evaluate(
    b: Builder, op: Op, build: Callable[[Builder, Op], tuple[Value | None, ...]]
) -> tuple[Value | None, ...]:
    """Build an operation by `build`, or fold a constant operation by NumPy if no kernel exists.

    The operation is folded only if `build` fails. Return the results of the operation.

    Args:
        b: The builder of the program.
        op: The operation.
        build: Function that appends operations with kernels, and returns the results.

    Raises:
        UnsupportedError: `build` finds no kernels, and an operand is not constant.
    """
    try:
        return build(b, op)
    except UnsupportedError:
        constant_results = b.computed(op)
        if constant_results is None:
            raise
        return constant_results
