"""Sums and products of integers are exact beyond 2**53."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.pipeline import LEGAL, prepare
from tests.ops.op_running import program_of, run

BIG = np.random.default_rng(3).integers(-(2**60), 2**60, (3, 5))
SMALL = np.random.default_rng(4).integers(-9, 9, (3, 5)) | 1


def run_legal(op_type: str, arrays: list[np.ndarray], **attributes: object) -> np.ndarray:
    constant = range(1, len(arrays))
    program = program_of(op_type, arrays, constant=constant, **attributes)
    return run(prepare(program, LEGAL), arrays[:1])[0]


@pytest.mark.parametrize("axes", [None, (0,), (1,), (0, 1)])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_sums_and_products_wrap_as_numpy_does(axes, keepdims: int, dtype: str) -> None:
    big, small = BIG.astype(dtype), SMALL.astype(dtype)
    settings = {"keepdims": keepdims} | ({"axes": axes} if axes else {})
    options = {"axis": axes, "keepdims": bool(keepdims), "dtype": dtype}
    extra = [np.array(axes)] if axes else []
    cases = {
        "ReduceSum": (big, np.sum(big, **options)),
        "ReduceL1": (big, np.sum(np.abs(big), **options)),
        "ReduceSumSquare": (big, np.sum(big * big, **options)),
        "ReduceProd": (small**9, np.prod(small**9, **options)),
    }
    for op_type, (x, expected) in cases.items():
        if op_type == "ReduceSum":
            reduced = run_legal(op_type, [x, *extra], keepdims=keepdims)
        else:
            reduced = run_legal(op_type, [x], **settings)
        np.testing.assert_array_equal(reduced, expected, err_msg=op_type)
        assert reduced.dtype == dtype
