"""Machine code of `CumSum`, and of the positions of maxima and minima along an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.code import Arrays, Cell, Code, Extent, Extents, Failure, NotNative
from mdf_loop.ops.native.extents import product, subtract_extents
from mdf_loop.ops.native.grids import advance, loop_over_grid
from mdf_loop.ops.native.products import write_sum
from mdf_loop.ops.registry import NativeArrayCode, qualified_name


def running_sum(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """Write `CumSum`: each sum is the sum of the previous sum and one number. `reverse` begins at the end.

    Raises:
        NotNative: The axis is computed.
    """
    data, axis = op.inputs[0], writer.constant_of(op.inputs[1])
    assert data is not None
    if axis is None:
        raise NotNative("it has onnx::CumSum along an axis that is computed")
    output, dtype, extents = op.outputs[0], data.dtype, writer.extents(data)
    along = int(axis.item()) % len(extents)
    writer.set_extents(output, extents)
    source, target = writer.pointer_of(data, writer.cell(data, cells)), writer.buffer(output)
    count, tail = extents[along], product(writer.scalar, extents[along + 1 :])
    size = product(writer.scalar, (count, tail))
    exclusive, reverse = (bool(op.attributes.get(name, 0)) for name in ("exclusive", "reverse"))

    begin, go_on = _sum_writers(writer, dtype, tail, exclusive)

    def row(part: str, number: str) -> tuple[str, str]:
        """Return the addresses of the input elements and of the sums at a position along the axis."""
        last = subtract_extents(writer.scalar, count, 1)
        place = writer.scalar.emit(f"sub i64 {last}, {number}") if reverse else number
        offset = advance(writer, writer.multiply(part, size), place, tail)
        return writer.element_address(dtype, source, offset), writer.element_address(
            dtype, target, offset
        )

    def each(part: str) -> None:
        if isinstance(count, int):
            begin(*row(part, "0"))
        else:
            has_elements = writer.scalar.compare("ne", "int64", count, "0")
            writer.scalar.branch(has_elements, lambda: begin(*row(part, "0")))

        def one(number: str) -> None:
            (before, sums) = row(part, writer.scalar.emit(f"sub i64 {number}, 1"))
            (here, there) = row(part, number)
            go_on(before, here, sums, there)

        writer.repeat("1", str(count), 1, one)

    if count != 0:
        writer.repeat("0", str(product(writer.scalar, extents[:along])), 1, each)
    return writer.as_cell(output, target)


def _sum_writers(
    writer: Arrays, dtype: str, tail: Extent, exclusive: bool
) -> tuple[Callable[[str, str], None], Callable[[str, str, str, str], None]]:
    """Return the writer of the first sums, and the writer of all other sums from the previous sums."""

    def begin(here: str, there: str) -> None:
        def first(code: Code, k: str) -> None:
            number = writer.load(code, dtype, here, k)
            writer.store(code, dtype, code.constant(0, dtype) if exclusive else number, there, k)

        writer.for_each_element(tail, first)

    def go_on(before: str, here: str, sums: str, there: str) -> None:
        def next_one(code: Code, k: str) -> None:
            number = writer.load(code, dtype, before if exclusive else here, k)
            total = write_sum(code, dtype, writer.load(code, dtype, sums, k), number)
            writer.store(code, dtype, total, there, k)

        writer.for_each_element(tail, next_one)

    return begin, go_on


def extreme_position_writer(*, largest: bool, nan_wins: bool = False) -> NativeArrayCode:
    """Return a writer of the position of the maximum or minimum along an axis.

    In `ArgMax` and `ArgMin`, nan is never the extreme. In `ArgMaximum` and `ArgMinimum`, nan is the extreme.

    Args:
        largest: True for the maximum.
        nan_wins: True if nan is the extreme.
    """

    def write(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
        data, output, code = op.inputs[0], op.outputs[0], writer.scalar
        assert data is not None
        shape, dtype = writer.extents(data), data.dtype
        axis = op.attributes.get("axis", 0) % max(1, len(shape))
        count = shape[axis] if shape else 1
        _require_elements(code, op, count)
        output_extents = tuple(1 if k == axis else extent for k, extent in enumerate(shape))
        keeps_axis = op.attributes.get("keepdims", 1)
        writer.set_extents(
            output, tuple(e for k, e in enumerate(output_extents) if keeps_axis or k != axis)
        )
        source, target = writer.pointer_of(data, writer.cell(data, cells)), writer.buffer(output)
        selects_last = op.attributes.get("select_last_index", 0)
        steps, output_strides = _strides(code, shape), _strides(code, output_extents)
        step = steps[axis] if shape else 1
        best_pointer, position_pointer = (
            code.allocate_local(code.type(dtype)),
            code.allocate_local("i64"),
        )

        def is_better(new: str, old: str) -> str:
            a, b = (old, new) if largest else (new, old)
            better = code.less(dtype, a, b)
            if selects_last:
                better = code.binary("or", "bool", better, code.equal(dtype, a, b))
            return (
                _prefer_nan(code, dtype, (new, old), better, last=selects_last)
                if nan_wins
                else better
            )

        def one(places: list[str]) -> None:
            begin, result = places
            code.line(
                f"store {code.type(dtype)} {writer.load(code, dtype, source, begin)}, ptr {best_pointer}"
            )
            code.line(f"store i64 0, ptr {position_pointer}")

            def compare(number: str) -> None:
                new = writer.load(code, dtype, source, advance(writer, begin, number, step))
                old = code.emit(f"load {code.type(dtype)}, ptr {best_pointer}")
                better = is_better(new, old)
                place = code.select(
                    better, "int64", number, code.emit(f"load i64, ptr {position_pointer}")
                )
                chosen = code.select(better, dtype, new, old)
                code.line(f"store {code.type(dtype)} {chosen}, ptr {best_pointer}")
                code.line(f"store i64 {place}, ptr {position_pointer}")

            writer.repeat("1", str(count), 1, compare)
            writer.store(
                code, "int64", code.emit(f"load i64, ptr {position_pointer}"), target, result
            )

        loop_over_grid(writer, output_extents, [steps, output_strides], one)
        return writer.as_cell(output, target)

    return write


def _prefer_nan(
    code: Code, dtype: str, numbers: tuple[str, str], better: str, *, last: bool
) -> str:
    """Write the extension of the comparison `better` to nan, which is preferred to every other number.

    Of several nan, the first one is selected, or the last one if `last` is True.
    """
    new, old = (code.compare("uno", dtype, number, number) for number in numbers)
    if last:
        return code.binary("or", "bool", better, new)
    first = code.binary("and", "bool", new, code.binary("xor", "bool", old, "true"))
    return code.binary("or", "bool", better, first)


def _strides(code: Code, extents: Extents) -> list[Extent]:
    """Return the stride along each axis of a contiguous array, in elements."""
    return [product(code, extents[k + 1 :]) for k in range(len(extents))]


def _require_elements(code: Code, op: Op, count: Extent) -> None:
    """Write a check that fails the run if there are no elements.

    Raises:
        NotNative: The number of elements is known to be 0.
    """
    if count == 0:
        raise NotNative(f"it has {qualified_name(op.op_type)} of nothing")
    if isinstance(count, str):
        sentence = f"onnx::{op.op_type} needs at least one element"
        failure = Failure(sentence, op.where, "there was nothing to choose from")
        code.fail_if(code.compare("eq", "int64", count, "0"), failure)


argmax = extreme_position_writer(largest=True)
argmin = extreme_position_writer(largest=False)
