"""Arithmetic of extents: with numbers that are known now it is done now, with registers when the loop runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

from mdf_loop.ops.native.code import Code, Extent, Extents

Factors: TypeAlias = tuple[Extent, ...]
"""A product that is not written yet: two of them can be compared."""


def bare(extents: Extents) -> Extents:
    """Without axes of one element in front."""
    front = next((k for k, extent in enumerate(extents) if extent != 1), len(extents))
    return extents[front:]


def product(code: Code, factors: Iterable[Extent]) -> Extent:
    """The product of extents."""
    given = tuple(factors)
    known, registers = alike(given)
    made: Extent = known
    for register in (extent for extent in given if isinstance(extent, str) and registers):
        made = register if made == 1 else code.put(f"mul i64 {made}, {register}")
    return made


def alike(factors: Iterable[Extent]) -> tuple[int, Factors]:
    """What two equal products have in common: a number, and registers in an order of their own."""
    given = tuple(factors)
    known = math.prod(extent for extent in given if isinstance(extent, int))
    registers = sorted(extent for extent in given if isinstance(extent, str))
    return (known, tuple(registers)) if known else (0, ())


def total(code: Code, *terms: Extent) -> Extent:
    """The sum of extents."""
    made: Extent = sum(extent for extent in terms if isinstance(extent, int))
    for register in (extent for extent in terms if isinstance(extent, str)):
        made = register if made == 0 else code.put(f"add i64 {made}, {register}")
    return made


def less(code: Code, a: Extent, b: Extent) -> Extent:
    """`a - b`."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else code.put(f"sub i64 {a}, {b}")


def quotient(code: Code, a: Extent, b: Extent) -> Extent:
    """`a / b`, rounded towards zero; `b` is above it."""
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // b * (-1 if a < 0 else 1)
    return a if b == 1 else code.put(f"sdiv i64 {a}, {b}")


def _chosen(name: str, now: Callable[[int, int], int]) -> Callable[[Code, Extent, Extent], Extent]:
    def made(code: Code, a: Extent, b: Extent) -> Extent:
        if isinstance(a, int) and isinstance(b, int):
            return now(a, b)
        return a if a == b else code.intrinsic(name, "int64", str(a), str(b))

    return made


least = _chosen("smin", min)
largest = _chosen("smax", max)
