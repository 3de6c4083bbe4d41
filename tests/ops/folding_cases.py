"""Calls of every operation of the registry, with operands that hold corner values of every dtype."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from mdf_loop.ir.types import dtype_name, numpy_dtype
from mdf_loop.ops import row_of
from tests.ops.operator_samples import SAMPLES, F

FLOATS = ("float64", "float32", "float16", "bfloat16")
WHOLE = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
DTYPES = (*FLOATS, *WHOLE, "bool")
EXTENTS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 37)
"""Extents of vectors: empty, shorter than a SIMD register, and longer than two of them."""

FEW_EXTENTS = (0, 1, 5, 9, 37)
"""Extents of vectors for operations that are decomposed, which takes the compiler longer."""

TO = (1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 16)
"""ONNX's numbers of the dtypes that `Cast` converts to, text apart."""

GRIDS = ((0, 3), (3, 0), (2, 3), (1, 37), (37, 2))
"""Shapes of the operands of reductions."""


@dataclass(frozen=True)
class Call:
    """One call of an operation: its operands (None where one is left out) and attributes."""

    operands: Sequence[np.ndarray | None]
    attributes: Mapping[str, Any]
    output_count: int = 1


def corners(dtype: str, size: int, seed: int) -> np.ndarray:
    """Return numbers that start with corner values of a dtype, in an order of the seed."""
    kind = np.dtype(numpy_dtype(dtype)).kind
    if kind == "b":
        pool = [True, False]
    elif kind in "iu":
        info = np.iinfo(dtype)
        pool = [0, 1, 2, 3, 7, int(info.max), int(info.min), int(info.max) - 1, int(info.max) // 2]
        pool += [-1, -3, int(info.min) + 1] if kind == "i" else []
    else:
        limits = ml_dtypes.finfo(numpy_dtype(dtype))
        small, large = float(limits.smallest_subnormal), float(limits.max)
        pool = [0.25, -0.0, 0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, -2.5, 0.7, -0.3, 3.0]
        pool += [small, -small, large, -large, float(limits.smallest_normal), 1.9, 88.0, -710.0]
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(pool) * (1 + size // len(pool)))[:size] % len(pool)
    with np.errstate(all="ignore"):
        return np.array([pool[k] for k in chosen], None if kind in "iub" else np.float64).astype(
            numpy_dtype(dtype)
        )


def calls(name: str, dtype: str) -> list[Call]:
    """Return the calls of an operation whose main operands have a dtype."""
    seed = zlib.crc32(f"{name} {dtype}".encode()) % 1000
    if name == "Cast":
        return [
            Call((corners(dtype, extent, seed),), {"to": to}) for to in TO for extent in (0, 5, 37)
        ]
    if name == "Range":  # A range between corner values exceeds any memory.
        return list(_as_sample(name, dtype, seed))[:1]
    of_sample = list(_as_sample(name, dtype, seed))
    if row_of(name).is_elementwise:
        return [*of_sample, *_vectors(name, dtype, seed)]
    if name.startswith(("Reduce", "Arg", "OrderedSum", "CumSum")) or name in _ALONG:
        return [*of_sample, *_grids(name, dtype, seed)]
    return of_sample


_ALONG = ("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")


def _as_sample(name: str, dtype: str, seed: int) -> Iterator[Call]:
    """Yield the sample of an operation: with its own numbers, and with corner values."""
    sample = SAMPLES[name]
    for round_ in range(4):
        operands = []
        for k, operand in enumerate(sample.inputs):
            array = operand.array("float64") if isinstance(operand, F) else np.asarray(operand)
            if operand is None:
                operands.append(None)
            elif not isinstance(operand, F):
                operands.append(array)
            elif round_ == 0:
                operands.append(_converted(operand, dtype))
            else:
                numbers = corners(dtype, array.size, seed + 10 * round_ + k)
                operands.append(numbers.reshape(array.shape))
        yield Call(operands, sample.attributes, sample.output_count)


def _converted(marker: F, dtype: str) -> np.ndarray:
    if dtype in ("float16", "bfloat16"):
        return marker.array("float32").astype(numpy_dtype(dtype))
    return marker.array(dtype)


def _vectors(name: str, dtype: str, seed: int) -> Iterator[Call]:
    """Yield calls with vectors of all extents, single numbers, and one operand of one element."""
    sample = SAMPLES[name]
    for extent in FEW_EXTENTS if row_of(name).decomposition else EXTENTS:
        yield Call(
            [_like(operand, dtype, (extent,), seed + k) for k, operand in enumerate(sample.inputs)],
            sample.attributes,
        )
    for round_ in range(2):
        yield Call(
            [
                _like(operand, dtype, (), seed + k + round_)
                for k, operand in enumerate(sample.inputs)
            ],
            sample.attributes,
        )
    if len(sample.inputs) > 1:
        yield Call(
            [
                _like(operand, dtype, (1,) if k else (9,), seed + k)
                for k, operand in enumerate(sample.inputs)
            ],
            sample.attributes,
        )


def _like(operand: Any, dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    of = dtype if isinstance(operand, F) else dtype_name(np.asarray(operand))
    return corners(of, int(np.prod(shape)), seed).reshape(shape)


def _grids(name: str, dtype: str, seed: int) -> Iterator[Call]:
    """Yield calls along each axis, with the axis as attribute and as operand."""
    for shape in GRIDS:
        for k in range(2):
            data = corners(dtype, int(np.prod(shape)), seed + k).reshape(shape)
            if name == "CumSum":
                yield Call((data, np.array(k)), {"reverse": k})
            elif name in (*_ALONG, "ArgMax", "ArgMin", "ArgMaximum", "ArgMinimum"):
                yield Call((data,), {"axis": k})
            else:
                yield Call((data,), {"keepdims": k})
                yield Call((data,), {"axes": (k,), "keepdims": k})
                if not name.startswith(("Ordered", "ReduceMaximum", "ReduceMinimum")):
                    yield Call((data, np.array([k])), {"keepdims": k})


def _numbers(dtype: str, *shape: int, seed: int = 3) -> np.ndarray:
    return corners(dtype, int(np.prod(shape)), seed).reshape(shape)


_TEXT = np.array(["", "nan", "a b", "-1.5", "7"], object)
_X = _numbers("float64", 2, 3, 4)
_ROW = _numbers("float64", 5)
_BYTES = _numbers("int8", 3, 4)

MORE_CALLS: dict[str, list[Call]] = {
    "Range": [
        Call([np.array(v, dtype) for v in ends], {})
        for dtype in ("float64", "float32", "int64", "int32")
        for ends in ((0, 5, 1), (5, 0, -1), (0, 5, -1), (3, 3, 1), (0, 40, 3))
    ]
    + [
        Call([np.array(v, dtype) for v in ends], {})
        for dtype in ("float64", "float32")
        for ends in ((0.1, 5.0, 0.1), (-0.0, 1.0, 0.3), (0.5, -710.0, -np.inf), (1.0, 0.0, -0.1))
    ],
    "OneHot": [
        Call((np.array(places), np.array(depth), np.array(values)), {"axis": axis})
        for places in ([-1, -3, 7, 1], [], [[1, 0]])
        for depth in (0, 3)
        for values in ([0.25, np.inf], [-0.0, np.nan], [3, -(2**63)])
        for axis in (-1, 0)
    ],
    "Gather": [
        Call((_X, np.array(places, np.int64)), {"axis": axis})
        for places in ([0, -1], [1], [], [[1, 0]], 1, [5], [-9])
        for axis in (0, 1, -1)
    ],
    "Slice": [
        Call((_ROW, *(np.array([number]) for number in (start, stop, 0, step))), {})
        for start in (-(2**63), -6, -2, 0, 3, 2**63 - 1)
        for stop in (-(2**63), -6, -1, 0, 4, 2**63 - 1)
        for step in (-2, -1, 1, 3)
    ],
    "Pad": [
        Call((_X, np.array(pads), *filling), {"mode": mode})
        for pads in ([0, 1, 0, 2, 0, 0], [0, 0, -1, 0, 1, 0], [0] * 6)
        for mode, filling in (
            ("constant", (np.array(np.nan),)),
            ("constant", ()),
            ("edge", ()),
            ("reflect", ()),
        )
    ],
    "Trilu": [
        Call((_numbers(dtype, 3, 4), np.array(k)), {"upper": upper})
        for dtype in ("float64", "int64", "bool")
        for k in (-9, -1, 0, 2, 9)
        for upper in (0, 1)
    ],
    "Cast": [
        *(Call((_TEXT,), {"to": to}) for to in TO),
        *(Call((_TEXT[3:],), {"to": to}) for to in TO),
        *(Call((corners(dtype, 21, 2),), {"to": 8}) for dtype in DTYPES),
    ],
    "CastLike": [
        Call((corners(dtype, 21, 2), np.zeros(1, numpy_dtype(other))), {})
        for dtype in DTYPES
        for other in ("float64", "float32", "int64", "int8", "bool")
    ],
    "Where": [
        Call((np.array([True, False, True]), left, right), {})
        for dtype in ("float64", "float32", "int64", "bool")
        for left in (corners(dtype, 3, 1), corners(dtype, 1, 2))
        for right in (corners(dtype, 3, 4), corners(dtype, 1, 7).reshape(()))
    ],
    "Equal": [Call((_TEXT, _TEXT[::-1].copy()), {})],
    "Concat": [
        Call((_TEXT, _TEXT[:0]), {"axis": 0}),
        Call((_X, _X[:, :0]), {"axis": 1}),
    ],
    "Tile": [Call((_ROW, np.array([times])), {}) for times in (0, 1, 3)],
    "Expand": [Call((_X, np.array(shape)), {}) for shape in ([0, 1, 1, 1], [2, 3, 4], [1])],
    "Reshape": [
        Call((_X, np.array(shape)), {"allowzero": allowed})
        for shape in ([4, 6], [-1, 2], [0, -1], [5, 5], [0, 3, 4])
        for allowed in (0, 1)
    ],
    "ConstantOfShape": [
        Call((np.array(shape, np.int64),), {"value": np.array([value])})
        for shape in ([], [0], [2, 3])
        for value in (np.nan, -0.0, 2**63 - 1, True)
    ],
    "EyeLike": [
        Call((_BYTES,), {"k": k, "dtype": to}) for k in (-5, -1, 0, 2) for to in (1, 7, 11)
    ],
    "BitCast": [
        Call((corners(dtype, 21, 5),), {"to": to})
        for dtype, to in (("float64", 7), ("int64", 11), ("float32", 6), ("int32", 1), ("uint8", 3))
    ],
    "BitShift": [
        Call((corners(dtype, 9, 1), np.array([0, 1, 7, 8, 31, 32, 63, 64, 65], dtype)), how)
        for dtype in ("uint8", "uint32", "uint64")
        for how in ({"direction": "LEFT"}, {"direction": "RIGHT"})
    ],
    "Pow": [
        Call((corners(dtype, 13, 1), np.arange(13).astype(numpy_dtype(other))), {})
        for dtype in ("float64", "float32", "int64", "int32")
        for other in ("float64", "float32", "int64", "int32")
    ]
    + [Call((np.array([2, 3]), np.array([-1, 64])), {})],
    "Div": [Call((np.array([7, -7]), np.array([0, 2])), {})],
    "Mod": [
        Call((np.array([7, -7]), np.array([0, 2])), {}),
        *(Call((corners(d, 21, 1), corners(d, 21, 2)), {"fmod": 1}) for d in FLOATS),
    ],
    "Clip": [
        Call((corners(dtype, 21, 1), *(np.array(bound, dtype) for bound in bounds)), {})
        for dtype in ("float64", "float32", "int64", "uint8")
        for bounds in ((2, 5), (5, 2), (3,), ())
    ],
    "TopK": [
        Call((data, np.array([k])), {"largest": largest}, 2)
        for data in (corners("float64", 21, 1), corners("int64", 13, 1), np.array([3, 3, 3]))
        for k in (0, 2, 99)
        for largest in (0, 1)
    ],
    "Unique": [
        Call((data,), {"sorted": order}, 4)
        for data in (corners("float64", 21, 1), corners("int64", 26, 1), _TEXT)
        for order in (0, 1)
    ],
    "NonZero": [Call((corners(dtype, 21, 1),), {}) for dtype in ("float64", "int8", "bool")],
    "CumSum": [
        Call((corners(dtype, 37, 1), np.array(0)), {"exclusive": exclusive, "reverse": reverse})
        for dtype in ("float64", "float32", "int64", "int32")
        for exclusive in (0, 1)
        for reverse in (0, 1)
    ],
    "ScatterND": [
        Call((corners(dtype, 6, 1), np.array([[1], [1], [3]]), corners(dtype, 3, 2)), how)
        for dtype in ("float64", "int64")
        for how in ({}, {"reduction": "add"}, {"reduction": "mul"}, {"reduction": "max"})
    ],
    "ScatterElements": [
        Call((corners(dtype, 6, 1), np.array([1, -2, 3]), corners(dtype, 3, 2)), how)
        for dtype in ("float64", "int64")
        for how in ({}, {"reduction": "add"}, {"reduction": "mul"}, {"reduction": "max"})
    ],
    "Einsum": [
        Call((_numbers(dtype, 3, 4), _numbers(dtype, 4, 3)), {"equation": equation})
        for dtype in ("float64", "int64", "int32")
        for equation in ("ij,jk->ik", "ij,ji->", "ij,jk->k")
    ],
    "MatMul": [
        Call((_numbers(dtype, 3, n), _numbers(dtype, n, 2)), {})
        for dtype in ("float64", "float32", "int64", "int32", "uint64", "uint32")
        for n in (0, 1, 37)
    ],
    "StringConcat": [Call((_TEXT, _TEXT), {})],
}
"""Further calls of operations: other attributes, positions outside, text, empty arrays."""
