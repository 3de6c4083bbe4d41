"""Machine code of cumulative sums, and of the positions of maxima and minima along an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.code import ArrayCode, Cell, Code, Extent, Extents, Failure, NotNative
from mdf_loop.ops.native.extents import product, subtract_extents
from mdf_loop.ops.native.grids import advance, loop_over_grid
from mdf_loop.ops.native.products import write_sum
from mdf_loop.ops.registry import NativeArrayCode, qualified_name


def running_sum(writer: ArrayCode, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """Write LLVM code of ONNX's `CumSum`, the cumulative sum along an axis.

    Each sum is the sum of the previous sum and one number. `reverse` begins at the end.

    Raises:
        NotNative: The axis is computed.
    """
    array, axis_array = op.inputs[0], writer.constant_of(op.inputs[1])
    assert array is not None
    if axis_array is None:
        raise NotNative("it has onnx::CumSum along an axis that is computed")
    output, dtype, array_extents = op.outputs[0], array.dtype, writer.extents(array)
    sum_axis = int(axis_array.item()) % len(array_extents)
    writer.set_extents(output, array_extents)
    array_pointer, output_pointer = (
        writer.pointer_of(array, writer.cell(array, cells)),
        writer.allocate_buffer(output),
    )
    axis_extent, tail_size = (
        array_extents[sum_axis],
        product(writer.scalar_code, array_extents[sum_axis + 1 :]),
    )
    block_size = product(writer.scalar_code, (axis_extent, tail_size))
    is_exclusive, is_reversed = (
        bool(op.attributes.get(attribute_name, 0)) for attribute_name in ("exclusive", "reverse")
    )

    write_first_sums, write_next_sums = _sum_writers(writer, dtype, tail_size, is_exclusive)

    def step_pointers(block: str, step_number: str) -> tuple[str, str]:
        """Return pointers to the inputs and to the cumulative sums at one step along the axis."""
        last_position = subtract_extents(writer.scalar_code, axis_extent, 1)
        axis_position = (
            writer.scalar_code.emit(f"sub i64 {last_position}, {step_number}")
            if is_reversed
            else step_number
        )
        memory_offset = advance(
            writer, writer.multiply(block, block_size), axis_position, tail_size
        )
        return writer.element_address(dtype, array_pointer, memory_offset), writer.element_address(
            dtype, output_pointer, memory_offset
        )

    def each(block: str) -> None:
        if isinstance(axis_extent, int):
            write_first_sums(*step_pointers(block, "0"))
        else:
            has_elements = writer.scalar_code.compare("ne", "int64", axis_extent, "0")
            writer.scalar_code.branch(
                has_elements, lambda: write_first_sums(*step_pointers(block, "0"))
            )

        def one(step_number: str) -> None:
            (previous_input_pointer, previous_sum_pointer) = step_pointers(
                block, writer.scalar_code.emit(f"sub i64 {step_number}, 1")
            )
            (input_pointer, sum_pointer) = step_pointers(block, step_number)
            write_next_sums(
                previous_input_pointer, input_pointer, previous_sum_pointer, sum_pointer
            )

        writer.repeat("1", str(axis_extent), 1, one)

    if axis_extent != 0:
        writer.repeat("0", str(product(writer.scalar_code, array_extents[:sum_axis])), 1, each)
    return writer.as_cell(output, output_pointer)


def _sum_writers(
    writer: ArrayCode, dtype: str, tail_size: Extent, is_exclusive: bool
) -> tuple[Callable[[str, str], None], Callable[[str, str, str, str], None]]:
    """Return functions that write LLVM code of the first and the later steps of a CumSum."""

    def begin(input_pointer: str, sum_pointer: str) -> None:
        def first(code: Code, k: str) -> None:
            element = writer.load(code, dtype, input_pointer, k)
            writer.store(
                code, dtype, code.constant(0, dtype) if is_exclusive else element, sum_pointer, k
            )

        writer.for_each_element(tail_size, first)

    def go_on(
        previous_input_pointer: str, input_pointer: str, previous_sum_pointer: str, sum_pointer: str
    ) -> None:
        def next_one(code: Code, k: str) -> None:
            element = writer.load(
                code, dtype, previous_input_pointer if is_exclusive else input_pointer, k
            )
            next_sum = write_sum(
                code, dtype, writer.load(code, dtype, previous_sum_pointer, k), element
            )
            writer.store(code, dtype, next_sum, sum_pointer, k)

        writer.for_each_element(tail_size, next_one)

    return begin, go_on


def extreme_position_writer(*, largest: bool, nan_wins: bool = False) -> NativeArrayCode:
    """Return a function that writes LLVM code of an ArgMax or ArgMin.

    In `ArgMax` and `ArgMin`, nan is never the extreme. In `ArgMaximum` and `ArgMinimum`, nan is the extreme.

    Args:
        largest: True for the maximum.
        nan_wins: True if nan is the extreme.
    """

    def write(writer: ArrayCode, op: Op, cells: Mapping[Value, Cell]) -> Cell:
        array, output, scalar_code = op.inputs[0], op.outputs[0], writer.scalar_code
        assert array is not None
        array_shape, dtype = writer.extents(array), array.dtype
        reduced_axis = op.attributes.get("axis", 0) % max(1, len(array_shape))
        axis_extent = array_shape[reduced_axis] if array_shape else 1
        _require_elements(scalar_code, op, axis_extent)
        output_extents = tuple(
            1 if k == reduced_axis else extent for k, extent in enumerate(array_shape)
        )
        keeps_axis = op.attributes.get("keepdims", 1)
        writer.set_extents(
            output,
            tuple(
                extent for k, extent in enumerate(output_extents) if keeps_axis or k != reduced_axis
            ),
        )
        array_pointer, output_pointer = (
            writer.pointer_of(array, writer.cell(array, cells)),
            writer.allocate_buffer(output),
        )
        selects_last = op.attributes.get("select_last_index", 0)
        input_strides, output_strides = (
            _strides(scalar_code, array_shape),
            _strides(scalar_code, output_extents),
        )
        axis_stride = input_strides[reduced_axis] if array_shape else 1
        best_pointer, position_pointer = (
            scalar_code.allocate_local(scalar_code.type(dtype)),
            scalar_code.allocate_local("i64"),
        )

        def is_better(new: str, old: str) -> str:
            a, b = (old, new) if largest else (new, old)
            is_improvement = scalar_code.less(dtype, a, b)
            if selects_last:
                is_improvement = scalar_code.binary(
                    "or", "bool", is_improvement, scalar_code.equal(dtype, a, b)
                )
            return (
                _prefer_nan(scalar_code, dtype, (new, old), is_improvement, last=selects_last)
                if nan_wins
                else is_improvement
            )

        def one(offsets: list[str]) -> None:
            input_offset, output_offset = offsets
            scalar_code.line(
                f"store {scalar_code.type(dtype)} {writer.load(scalar_code, dtype, array_pointer, input_offset)}, ptr {best_pointer}"
            )
            scalar_code.line(f"store i64 0, ptr {position_pointer}")

            def compare(number: str) -> None:
                new_element = writer.load(
                    scalar_code,
                    dtype,
                    array_pointer,
                    advance(writer, input_offset, number, axis_stride),
                )
                best_element = scalar_code.emit(
                    f"load {scalar_code.type(dtype)}, ptr {best_pointer}"
                )
                is_improvement = is_better(new_element, best_element)
                best_position = scalar_code.select(
                    is_improvement,
                    "int64",
                    number,
                    scalar_code.emit(f"load i64, ptr {position_pointer}"),
                )
                selected_element = scalar_code.select(
                    is_improvement, dtype, new_element, best_element
                )
                scalar_code.line(
                    f"store {scalar_code.type(dtype)} {selected_element}, ptr {best_pointer}"
                )
                scalar_code.line(f"store i64 {best_position}, ptr {position_pointer}")

            writer.repeat("1", str(axis_extent), 1, compare)
            writer.store(
                scalar_code,
                "int64",
                scalar_code.emit(f"load i64, ptr {position_pointer}"),
                output_pointer,
                output_offset,
            )

        loop_over_grid(writer, output_extents, [input_strides, output_strides], one)
        return writer.as_cell(output, output_pointer)

    return write


def _prefer_nan(
    code: Code, dtype: str, elements: tuple[str, str], is_improvement: str, *, last: bool
) -> str:
    """Write LLVM code that makes nan win the comparison of an ArgMax or ArgMin.

    The comparison `is_improvement` ignores nan.

    Of several nan, the first one is selected, or the last one if `last` is True.
    """
    is_new_nan, is_old_nan = (code.compare("uno", dtype, element, element) for element in elements)
    if last:
        return code.binary("or", "bool", is_improvement, is_new_nan)
    is_first_nan = code.binary(
        "and", "bool", is_new_nan, code.binary("xor", "bool", is_old_nan, "true")
    )
    return code.binary("or", "bool", is_improvement, is_first_nan)


def _strides(code: Code, extents: Extents) -> list[Extent]:
    """Return the stride along each axis of a contiguous array, in elements."""
    return [product(code, extents[k + 1 :]) for k in range(len(extents))]


def _require_elements(code: Code, op: Op, count: Extent) -> None:
    """Write LLVM code that ends the run with an error if an axis has no elements.

    Raises:
        NotNative: The number of elements is known to be 0.
    """
    if count == 0:
        raise NotNative(f"it has {qualified_name(op.op_type)} of nothing")
    if isinstance(count, str):
        error_sentence = f"onnx::{op.op_type} needs at least one element"
        empty_axis_failure = Failure(error_sentence, op.where, "there was nothing to choose from")
        code.fail_if(code.compare("eq", "int64", count, "0"), empty_axis_failure)


argmax = extreme_position_writer(largest=True)
argmin = extreme_position_writer(largest=False)
