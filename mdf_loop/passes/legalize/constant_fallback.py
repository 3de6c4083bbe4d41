"""Operations of constants that no kernel takes in any form: numpy computes them."""

from __future__ import annotations

from collections.abc import Callable

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value


def build_or_evaluate(
    b: Builder, op: Op, build: Callable[[Builder, Op], tuple[Value | None, ...]]
) -> tuple[Value | None, ...]:
    """Return the results of an operation in a form that has kernels, or by numpy if there is none.

    Args:
        b: the builder of the program.
        op: the operation.
        build: appends the form that has kernels, and returns its results.

    Raises:
        UnsupportedError: there is no such form, and an operand is no constant.
    """
    try:
        return build(b, op)
    except UnsupportedError:
        results = b.computed(op)
        if results is None:
            raise
        return results
