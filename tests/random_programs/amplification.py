"""Amplification of rounding errors, measured by the interpreter with perturbed rounding operations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from mdf_loop.ir.types import dtype_name
from mdf_loop.ops.numpy_evaluation import evaluate
from mdf_loop.run import interpret as interpreter
from tests.random_programs.agreement import SHARES, differences, largest_in
from tests.random_programs.forms import Failure, Outcome

ELEMENTARY = frozenset(
    (
        *("Exp", "Log", "Tanh", "Sigmoid", "Sin", "Cos", "Tan", "Asin"),
        *("Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf"),
        *("Pow",),
    )
)
"""Functions whose forms may differ by 4 units in the last place."""

KNOWN_ERRORS = {
    "Sin": (4.0, 4.0),
    "Cos": (4.0, 4.0),
    "Sigmoid": (4.0, 1.0),
    "Tanh": (8.0, 0.0),
}
"""Tolerance of the functions of ONNX Runtime in units in the last place, and in `eps` of 1.

Near their zeros `Sin` and `Cos` are close to units of 1, not of the result, and so is `Sigmoid` of
negative numbers: `tests/traps/test_function_traps.py`.
"""


COMPOSED = frozenset(
    (
        *("Softplus", "Softsign", "Elu", "Selu", "Celu", "Mish", "LeakyRelu", "HardSigmoid"),
        *("Gelu", "HardSwish", "ThresholdedRelu", "Shrink", "Reciprocal", "PRelu"),
    )
)
"""Functions that are composed of other functions."""

LINEAR = frozenset(
    (
        *(
            "ReduceSum",
            "ReduceMean",
            "ReduceL1",
            "ReduceSumSquare",
            "CumSum",
            "MatMul",
            "Sum",
            "Mean",
        ),
        *("ScatterND", "ScatterElements", "Einsum", "Gemm"),
    )
)
"""Sums of terms, whose error bound is the same sum over the absolute values."""

EXTREMES = frozenset(
    ("Max", "Min", "ReduceMax", "ReduceMin", "ReduceMaximum", "ReduceMinimum", *LINEAR)
)
"""Operations that may return 0.0 or -0.0 for operands with zeros of both signs."""

TOTALS = frozenset(
    ("ReduceProd", "ReduceL2", "ReduceLogSumExp", "ReduceLogSum", "Softmax", "LogSoftmax")
)
"""Other combinations of many numbers."""

Evaluate = Callable[[str, Sequence[Any], Mapping[str, Any], int], list[Any]]


@dataclass
class Trace:
    """Record of a run of the interpreter: the largest absolute value, and the operations that round."""

    largest: float = 1e-300
    calls: list[tuple[str, Sequence[Any], Mapping[str, Any], list[Any]]] = field(
        default_factory=list
    )


@contextlib.contextmanager
def _evaluating(instead: Evaluate) -> Iterator[None]:
    with mock.patch.object(interpreter, "evaluate", instead):
        yield


Compute = Callable[[], Mapping[str, Any]]
"""Function that computes the outputs of a program in the interpreter."""


def traced(compute: Compute, arrays: Mapping[str, Any]) -> Trace:
    """Run a program in the interpreter and return the trace of its operations."""
    trace = Trace(max([1e-300, *(largest_in(np.asarray(a)) for a in arrays.values())]))

    def remembering(op_type: str, operands: Any, attributes: Any, count: int) -> list[Any]:
        results = evaluate(op_type, operands, attributes, count)
        sizes = [largest_in(result) for result in results if isinstance(result, np.ndarray)]
        trace.largest = max([trace.largest, *sizes])
        if op_type in ELEMENTARY | LINEAR:
            trace.calls.append((op_type, operands, attributes, results))
        return results

    with _evaluating(remembering), contextlib.suppress(Exception):
        compute()
    return trace


def allowed_error(
    op_type: str, operands: Sequence[Any], attributes: Mapping[str, Any], result: NDArray[Any]
) -> NDArray[Any] | None:
    """Return the tolerance of one operation between two forms, or None if its bits must be equal."""
    if dtype_name(result) not in SHARES:
        return None
    eps = float(np.finfo(result.dtype).eps)
    size = np.abs(result).astype(np.float64)
    if op_type in ELEMENTARY:
        ulps, absolute = KNOWN_ERRORS.get(op_type, (4.0, 0.0))
        return eps * np.maximum(ulps * size, absolute)
    if op_type in COMPOSED:
        return 16 * eps * size
    if op_type not in LINEAR | TOTALS:
        return None
    terms = max(int(np.size(operands[0])), 1)
    if op_type in TOTALS:
        return 2 * terms * eps * np.maximum(size, 1.0 if "Log" in op_type else 0.0)
    absolute = [
        np.abs(a) if isinstance(a, np.ndarray) and dtype_name(a) in SHARES else a for a in operands
    ]
    return (
        2 * terms * eps * np.abs(evaluate(op_type, absolute, attributes, 1)[0]).astype(np.float64)
    )


def _with_other_zeros(
    op_type: str, operands: Sequence[Any], result: Any, rng: np.random.Generator
) -> Any:
    """Return the result with random signs of the zeros whose sign is undefined.

    `maximum` and `minimum` of 0.0 and -0.0 may give either, as in numpy, and so may a sum of -0.0.
    """
    if op_type not in EXTREMES or dtype_name(result) not in SHARES:
        return result
    zeros = [np.signbit(a[a == 0]) for a in operands if dtype_name(a) in SHARES]
    signs = np.concatenate(zeros or [np.zeros(0, bool)])
    if not signs.any() or (signs.all() and op_type not in LINEAR):
        return result
    flipped = (result == 0) & (rng.random(result.shape) < 0.5)
    return np.where(flipped, -result, result)


def perturbed(compute: Compute, seed: int) -> Outcome:
    """Run a program in the interpreter with a permitted perturbation of each rounding operation.

    Zeros whose sign is undefined get a random sign.
    """
    rng = np.random.default_rng(seed)

    def shaken(op_type: str, operands: Any, attributes: Any, count: int) -> list[Any]:
        results = evaluate(op_type, operands, attributes, count)
        arrays = [a for a in operands if isinstance(a, np.ndarray)]
        results = [
            _with_other_zeros(op_type, arrays, r, rng) if isinstance(r, np.ndarray) else r
            for r in results
        ]
        with np.errstate(all="ignore"):
            errors = [
                allowed_error(op_type, operands, attributes, r)
                if isinstance(r, np.ndarray)
                else None
                for r in results
            ]
            return [
                r if e is None else np.asarray(r + e * rng.uniform(-1, 1, r.shape)).astype(r.dtype)
                for r, e in zip(results, errors, strict=True)
            ]

    with _evaluating(shaken):
        try:
            outputs = compute()
        except Exception as error:  # noqa: BLE001 - numpy raises anything
            return Failure(str(error))
    return {name: np.asarray(array) for name, array in outputs.items()}


def amplifies(compute: Compute, expected: Outcome, largest: float | None) -> bool:
    """Return True if permitted rounding errors grow to differences beyond the tolerance.

    Without `largest`, any unequal bit is a difference. If `largest` is 0, any unequal number is one.
    """
    return any(differences(perturbed(compute, seed), expected, largest) for seed in range(6))
