"""Machine code of strided views, which are arrays of regularly spaced elements of an array.

    Transpose     [n, m] -> [m, n]        axes (m, 1), (n, m)
    broadcast     [m] -> [n, m]           axes (n, 0), (m, 1)
    every other   [n, m] -> [n / 2, m]    axes (n / 2, 2 m), (m, 1)

Each pair is the extent of an axis and its stride in the source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from mdf_loop.ir import Value
from mdf_loop.ops.native.code import ITEM_BYTES, ArrayCode, Cell, Code, Extent, Extents
from mdf_loop.ops.native.extents import Factors, canonical_product, product

UNIT_PRODUCT, ZERO_PRODUCT = canonical_product((1,)), canonical_product((0,))
"""Canonical forms of the products 1 and 0."""


class StridedAxis(Struct, frozen=True):
    """Extent and memory stride of an array axis, each as a tuple of factors of a product.

    The stride is the distance of neighbours in elements.
    """

    extent: Factors
    stride: Factors


def contiguous_axes(extents: Extents) -> list[StridedAxis]:
    """Return the extent and memory stride of each axis of a contiguous array."""
    return [StridedAxis((extent,), extents[k + 1 :]) for k, extent in enumerate(extents)]


def merge_axes(axes: Sequence[StridedAxis]) -> list[StridedAxis]:
    """Merge neighbouring axes of an array that have a common memory stride."""
    merged_axes: list[StridedAxis] = []
    for axis in (strided_axis for strided_axis in axes if strided_axis.extent != (1,)):
        if merged_axes and canonical_product(merged_axes[-1].stride) == canonical_product(
            (*axis.extent, *axis.stride)
        ):
            merged_axes[-1] = StridedAxis((*merged_axes[-1].extent, *axis.extent), axis.stride)
        else:
            merged_axes.append(axis)
    return merged_axes


def copy_strided(
    writer: ArrayCode, dtype: str, target: str, source: str, axes: Sequence[StridedAxis]
) -> None:
    """Write LLVM code that copies a strided view to contiguous memory."""
    axes = merge_axes(axes)
    if not axes:
        writer.copy(target, source, ITEM_BYTES[dtype])
    elif all(canonical_product(axis.extent) != ZERO_PRODUCT for axis in axes):
        _copy_merged(writer, dtype, target, source, axes)


def _copy_merged(
    writer: ArrayCode, dtype: str, target: str, source: str, axes: Sequence[StridedAxis]
) -> None:
    """Write LLVM code that copies a nonempty strided view to contiguous memory."""
    scalar_code, first_axis = writer.scalar_code, axes[0]
    first_extent, first_stride = (
        product(scalar_code, first_axis.extent),
        product(scalar_code, first_axis.stride),
    )
    if len(axes) == 1 and first_stride in (0, 1):
        writer.for_each_element(
            first_extent, _make_line_copy(writer, dtype, target, source, bool(first_stride))
        )
        return
    part_size = product(scalar_code, (extent for axis in axes[1:] for extent in axis.extent))

    def part(number: str) -> None:
        source_pointer = writer.element_address(
            dtype, source, writer.multiply(number, first_stride)
        )
        target_pointer = writer.element_address(dtype, target, writer.multiply(number, part_size))
        if len(axes) == 1:
            writer.store(
                scalar_code, dtype, writer.load(scalar_code, dtype, source_pointer), target_pointer
            )
        else:
            _copy_merged(writer, dtype, target_pointer, source_pointer, axes[1:])

    writer.repeat("0", str(first_extent), 1, part)


def _make_line_copy(
    writer: ArrayCode, dtype: str, target: str, source: str, is_contiguous: bool
) -> Callable[[Code, str], None]:
    """Return a function that writes code to copy contiguous elements, or to repeat one element."""
    repeated_element = "" if is_contiguous else writer.load(writer.scalar_code, dtype, source)

    def write(code: Code, k: str) -> None:
        register = (
            writer.load(code, dtype, source, k)
            if is_contiguous
            else code.broadcast(repeated_element, dtype)
        )
        writer.store(code, dtype, register, target, k)

    return write


def strided_view(
    writer: ArrayCode,
    output: Value,
    source: tuple[Value, Cell],
    axes: Sequence[StridedAxis],
    begin: Extent = 0,
) -> Cell:
    """Return a strided view of an array, which is copied unless it is contiguous."""
    source_value, source_cell = source
    view_pointer = writer.pointer_of(source_value, source_cell)
    if begin != 0:
        view_pointer = writer.element_address(source_value.dtype, view_pointer, str(begin))
    if [canonical_product(axis.stride) for axis in merge_axes(axes)] not in ([], [UNIT_PRODUCT]):
        copy_pointer = writer.allocate_buffer(output)
        copy_strided(writer, source_value.dtype, copy_pointer, view_pointer, axes)
        view_pointer = copy_pointer
    return writer.as_cell(output, view_pointer)


def broadcast(writer: ArrayCode, value: Value, cell: Cell, extents: Extents) -> Cell:
    """Return an array that is broadcast to a given shape."""
    broadcast_value = Value(
        value.name,
        value.dtype,
        tuple("?" if isinstance(extent, str) else extent for extent in extents),
    )
    writer.set_extents(broadcast_value, extents)
    return strided_view(
        writer, broadcast_value, (value, cell), _broadcast_axes(writer.extents(value), extents)
    )


def _broadcast_axes(input_extents: Extents, target: Extents) -> list[StridedAxis]:
    """Return the extents and strides of an array that is broadcast to a given shape."""
    source_axes = [StridedAxis((1,), ())] * (len(target) - len(input_extents)) + contiguous_axes(
        input_extents
    )
    return [
        StridedAxis((extent,), (0,)) if axis.extent == (1,) and extent != 1 else axis
        for axis, extent in zip(source_axes, target, strict=True)
    ]
