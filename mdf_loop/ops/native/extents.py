"""Arithmetic of array extents: at compile time for numbers, at run time for registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

from mdf_loop.ops.native.code import Code, Extent, Extents

Factors: TypeAlias = tuple[Extent, ...]
"""Factors of a product for which no code has been written, so that two products can be compared."""


def strip_leading_ones(extents: Extents) -> Extents:
    """Return a shape without leading axes of extent 1."""
    leading_count = next((k for k, extent in enumerate(extents) if extent != 1), len(extents))
    return extents[leading_count:]


def product(code: Code, factors: Iterable[Extent]) -> Extent:
    """Write LLVM code of the product of array extents, with constant factors folded."""
    factor_extents = tuple(factors)
    known_factor, registers = canonical_product(factor_extents)
    partial_product: Extent = known_factor
    for register in (extent for extent in factor_extents if isinstance(extent, str) and registers):
        if partial_product == 1:
            partial_product = register
        else:
            partial_product = code.emit(f"mul i64 {partial_product}, {register}")
    return partial_product


def canonical_product(factors: Iterable[Extent]) -> tuple[int, Factors]:
    """Return a product of extents as a number and a sorted tuple of registers."""
    factor_extents = tuple(factors)
    known_factor = math.prod(extent for extent in factor_extents if isinstance(extent, int))
    registers = sorted(extent for extent in factor_extents if isinstance(extent, str))
    return (known_factor, tuple(registers)) if known_factor else (0, ())


def add_extents(code: Code, *terms: Extent) -> Extent:
    """Write LLVM code of the sum of array extents, with constant terms folded."""
    partial_sum: Extent = sum(extent for extent in terms if isinstance(extent, int))
    for register in (extent for extent in terms if isinstance(extent, str)):
        if partial_sum == 0:
            partial_sum = register
        else:
            partial_sum = code.emit(f"add i64 {partial_sum}, {register}")
    return partial_sum


def subtract_extents(code: Code, a: Extent, b: Extent) -> Extent:
    """Write LLVM code of the difference `a - b` of two array extents."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else code.emit(f"sub i64 {a}, {b}")


def quotient(code: Code, a: Extent, b: Extent) -> Extent:
    """Write LLVM code of the quotient of two extents, rounded towards zero.

    The divisor `b` is positive.
    """
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // b * (-1 if a < 0 else 1)
    return a if b == 1 else code.emit(f"sdiv i64 {a}, {b}")


def _extreme(
    name: str, compute: Callable[[int, int], int]
) -> Callable[[Code, Extent, Extent], Extent]:
    """Return a function that writes LLVM code of the smaller or the larger of two extents.

    Args:
        name: Name of the LLVM intrinsic.
        compute: Function that computes the result for known numbers.
    """

    def write_extreme(code: Code, a: Extent, b: Extent) -> Extent:
        if isinstance(a, int) and isinstance(b, int):
            return compute(a, b)
        return a if a == b else code.intrinsic(name, "int64", str(a), str(b))

    return write_extreme


write_smaller_extent = _extreme("smin", min)
"""Writer of the smaller of two extents."""
write_larger_extent = _extreme("smax", max)
"""Writer of the larger of two extents."""
