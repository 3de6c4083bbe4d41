"""Operations that machine code supports, with their operand dtypes and special numbers.

Calls are derived from ONNX's schemas, so that tests also cover native forms that are added later.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Value
from mdf_loop.ir.types import element_type
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import ITEM_BYTES, REGISTER_TYPES
from mdf_loop.ops.onnx_schema import schema
from mdf_loop.ops.registry import Reproducibility, rows

DTYPES = tuple(REGISTER_TYPES)
"""Dtypes that machine code supports."""

COMMON_DTYPES = ("float64", "float32", "int64", "int32", "bool")
"""Dtypes that occur in models."""

UINT32 = element_type("uint32")

MAX_VARIADIC_OPERANDS = 3
"""Maximum number of operands of a variadic operation."""

_ONNX = {"double": "float64", "float": "float32"}


@dataclass(frozen=True)
class Call:
    """An operation with the dtypes of its operands, and attributes.

    Attributes:
        places: Positions of the operands among the inputs; optional inputs may be omitted.
    """

    name: str
    dtypes: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    places: tuple[int, ...] = ()

    @property
    def is_exact(self) -> bool:
        """True if the result is rounded at most once."""
        return row_of(self.name).reproducibility is not Reproducibility.RUNTIME_DEPENDENT

    @property
    def is_fixed(self) -> bool:
        """True if all bits of the result are fixed."""
        return row_of(self.name).reproducibility is Reproducibility.FIXED

    @property
    def is_shaped_by_first(self) -> bool:
        """True if the result has the shape of the first operand."""
        return self.name in ("Clip", "PRelu")

    def is_single(self, place: int) -> bool:
        """Return True if an operand is always a single number."""
        return self.name == "Clip" and place > 0

    @property
    def loses_signs(self) -> bool:
        """True if the sign of a zero depends on its position in ONNX Runtime."""
        return self.name in ("Max", "Min") and self.dtypes[0].startswith("float")

    @property
    def gives_floats(self) -> bool:
        """True if the result has the floating-point dtype of the operands."""
        compares = self.name in ("Equal", "IsNaN", "IsInf", "Cast", "BitCast")
        compares = compares or self.name.startswith(("Greater", "Less"))
        return self.dtypes[0].startswith("float") and not compares

    @property
    def divides(self) -> bool:
        """True if a divisor of zero is an error."""
        return self.name in ("Div", "Mod") and not self.dtypes[0].startswith("float")

    @property
    def raises_integers(self) -> bool:
        """True if a negative second operand is an error."""
        base, *exponent = self.dtypes
        return self.name == "Pow" and base[0] in "iu" and exponent[0].startswith("int")

    @property
    def is_usual(self) -> bool:
        """True if models have operands and results of these dtypes."""
        codes = [element_type(dtype) for dtype in COMMON_DTYPES]
        return (
            set(self.dtypes) <= set(COMMON_DTYPES) and self.attributes.get("to", codes[0]) in codes
        )

    @property
    def is_open(self) -> bool:
        """True if a result out of range depends on its position."""
        return self.name == "Cast" and self.attributes["to"] == UINT32 and _is_float(self.dtypes[0])

    def append_to(self, b: Builder, *operands: Value) -> Value:
        """Append the operation and return its result."""
        operands_by_place = dict(zip(self.places, operands, strict=True))
        inputs = [operands_by_place.get(k) for k in range(max(operands_by_place) + 1)]
        return b.op(self.name, *inputs, **self.attributes)

    def __str__(self) -> str:
        more = (f"{key}={value}" for key, value in self.attributes.items())
        gaps = [f"at{''.join(map(str, self.places))}"] * (self.name == "Clip")
        return "-".join((self.name, *self.dtypes, *gaps, *more))


def _words(formal: Any, constraints: Mapping[str, list[str]]) -> list[str]:
    allowed = constraints.get(formal.type_str, [formal.type_str])
    words = (word.removeprefix("tensor(").removesuffix(")") for word in allowed)
    return [each for word in words if (each := _ONNX.get(word, word)) in DTYPES]


def _operand_types(name: str) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Yield operand dtypes of the schema with their positions; variadic operands repeat 1 to `MAX_SPLIT_ELEMENTS` times."""
    op_schema = schema(name)
    constraints = {c.type_param_str: c.allowed_type_strs for c in op_schema.type_constraints}
    formals = list(op_schema.inputs)
    letters = list(dict.fromkeys(formal.type_str for formal in formals))
    choices = [_words(next(f for f in formals if f.type_str == x), constraints) for x in letters]
    for combination in itertools.product(*choices):
        dtypes = dict(zip(letters, combination, strict=True))
        for places in _places(formals, op_schema.max_input > len(formals)):
            kinds = (formals[min(k, len(formals) - 1)].type_str for k in places)
            yield tuple(dtypes[kind] for kind in kinds), places


def _places(formals: list[Any], any_number: bool) -> list[tuple[int, ...]]:
    if any_number:
        return [tuple(range(count)) for count in (1, 2, MAX_VARIADIC_OPERANDS)]
    needed = [k for k, f in enumerate(formals) if f.option.name != "Optional"]
    others = [k for k, f in enumerate(formals) if f.option.name == "Optional"]
    some = [c for n in range(len(others) + 1) for c in itertools.combinations(others, n)]
    return [tuple(sorted((*needed, *more))) for more in some]


def _attributes(name: str, dtypes: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    if name == "Cast":
        yield from ({"to": element_type(dtype)} for dtype in DTYPES)
    elif name == "Mod":
        if not dtypes[0].startswith("float"):
            yield {}
        yield {"fmod": 1}
    elif name == "BitCast":
        same = (d for d in DTYPES if d != "bool" and ITEM_BYTES[d] == ITEM_BYTES[dtypes[0]])
        yield from ({"to": element_type(dtype)} for dtype in same)
    elif name == "BitShift":
        yield from ({"direction": "LEFT"}, {"direction": "RIGHT"})
    elif name == "IsInf":
        yield from ({}, {"detect_negative": 0}, {"detect_positive": 0})
    elif name in _SLOPES and dtypes[0].startswith("float"):
        yield from ({}, *({key: value} for key, value in _SLOPES[name]))
    else:
        yield {}


_SLOPES = {
    "LeakyRelu": [("alpha", 0.3), ("alpha", 0.0), ("alpha", -2.0)],
    "ThresholdedRelu": [("alpha", 0.1), ("alpha", -0.7)],
    "HardSigmoid": [("alpha", 0.3)],
    "Elu": [("alpha", 0.3)],
    "Celu": [("alpha", 0.3)],
    "Selu": [("gamma", 0.3)],
    "Gelu": [("approximate", "tanh")],
    "Shrink": [("bias", 0.1), ("lambd", 0.1)],
}
"""Attributes with other values than the default."""


def calls(is_included: Callable[[Call], bool] = lambda call: True) -> list[Call]:
    """Return all calls of operations with a native form, in a fixed order."""
    names = sorted(row.name for row in rows() if row.native_code)
    candidates = (
        Call(name, dtypes, attributes, places)
        for name in names
        for dtypes, places in _operand_types(name)
        for attributes in _attributes(name, dtypes)
    )
    return [call for call in candidates if is_included(call)]


# --- numbers ----------------------------------------------------------------------------------

_FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.1, -0.7, 7.25, 100.5),
    *(np.inf, -np.inf, np.nan),
)
_EXTREMES = {
    "float64": (5e-324, -2.3e-308, 1.7e308, -1.7e308, 2.0**31, -(2.0**31) - 1, 2.0**63, 1e16 + 2),
    "float32": (1e-45, -1.2e-38, 3.4e38, -3.4e38, 2.0**31, 2.0**24 + 2, -(2.0**31), 2.0**63),
}
_INTEGERS = (0, 1, -1, 2, -2, 3, -3, 7, -7, 10, 100, -1000)


def hard(dtype: str) -> np.ndarray:
    """Return difficult numbers: zeros of both signs, NaN, the ends of the dtype."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype.startswith("float"):
        return np.array((*_FLOATS, *_EXTREMES[dtype]), dtype)
    ends = np.iinfo(dtype)
    some = [number for number in _INTEGERS if ends.min <= number <= ends.max]
    return np.array((*some, ends.max, ends.min, ends.max - 1, ends.min + 1), dtype)


def _is_float(dtype: str) -> bool:
    return dtype.startswith("float")


def combined(dtypes: tuple[str, ...]) -> list[np.ndarray]:
    """Return difficult numbers for each operand, in all combinations."""
    pools = [hard(dtype) for dtype in dtypes]
    grids = np.meshgrid(*pools, indexing="ij")
    return [np.ascontiguousarray(grid.ravel()) for grid in grids]


def same_bits(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Return True if all bits are equal; all NaN count as equal."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    return actual.tobytes() == expected.tobytes() or _plain(actual) == _plain(expected)


def _plain(array: np.ndarray) -> bytes:
    if array.dtype.kind != "f":
        return array.tobytes()
    return np.where(np.isnan(array), np.array(np.nan, array.dtype), array).tobytes()
