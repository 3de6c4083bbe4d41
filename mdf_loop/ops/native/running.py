"""Machine code of `CumSum`, and of the positions of maxima and minima along an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.code import Arrays, Cell, Code, Extent, Extents, Failure, NotNative
from mdf_loop.ops.native.extents import less, product
from mdf_loop.ops.native.grids import further, over_grid
from mdf_loop.ops.native.products import added
from mdf_loop.ops.registry import NativeWhole, title


def running_sum(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """Write `CumSum`: each sum is the sum of the previous sum and one number. `reverse` begins at the end.

    Raises:
        NotNative: The axis is computed.
    """
    data, axis = op.inputs[0], writer.known(op.inputs[1])
    assert data is not None
    if axis is None:
        raise NotNative("it has onnx::CumSum along an axis that is computed")
    output, dtype, extents = op.outputs[0], data.dtype, writer.extents(data)
    along = int(axis.item()) % len(extents)
    writer.shaped(output, extents)
    source, target = writer.pointer_of(data, writer.cell(data, cells)), writer.buffer(output)
    count, tail = extents[along], product(writer.one, extents[along + 1 :])
    size = product(writer.one, (count, tail))
    exclusive, reverse = (bool(op.attributes.get(name, 0)) for name in ("exclusive", "reverse"))

    begin, go_on = _sums(writer, dtype, tail, exclusive)

    def row(part: str, number: str) -> tuple[str, str]:
        """Return the addresses of the input elements and of the sums at a position along the axis."""
        last = less(writer.one, count, 1)
        place = writer.one.put(f"sub i64 {last}, {number}") if reverse else number
        far = further(writer, writer.times(part, size), place, tail)
        return writer.at(dtype, source, far), writer.at(dtype, target, far)

    def each(part: str) -> None:
        if isinstance(count, int):
            begin(*row(part, "0"))
        else:
            some = writer.one.compare("ne", "int64", count, "0")
            writer.one.when(some, lambda: begin(*row(part, "0")))

        def one(number: str) -> None:
            (before, sums) = row(part, writer.one.put(f"sub i64 {number}, 1"))
            (here, there) = row(part, number)
            go_on(before, here, sums, there)

        writer.repeat("1", str(count), 1, one)

    if count != 0:
        writer.repeat("0", str(product(writer.one, extents[:along])), 1, each)
    return writer.as_cell(output, target)


def _sums(
    writer: Arrays, dtype: str, tail: Extent, exclusive: bool
) -> tuple[Callable[[str, str], None], Callable[[str, str, str, str], None]]:
    """Return the writer of the first sums, and the writer of all other sums from the previous sums."""

    def begin(here: str, there: str) -> None:
        def first(code: Code, k: str) -> None:
            number = writer.load(code, dtype, here, k)
            writer.store(code, dtype, code.number(0, dtype) if exclusive else number, there, k)

        writer.over(tail, first)

    def go_on(before: str, here: str, sums: str, there: str) -> None:
        def next_one(code: Code, k: str) -> None:
            number = writer.load(code, dtype, before if exclusive else here, k)
            total = added(code, dtype, writer.load(code, dtype, sums, k), number)
            writer.store(code, dtype, total, there, k)

        writer.over(tail, next_one)

    return begin, go_on


def place_of(*, largest: bool, nan_wins: bool = False) -> NativeWhole:
    """Return a writer of the position of the maximum or minimum along an axis.

    In `ArgMax` and `ArgMin`, nan is never the extreme. In `ArgMaximum` and `ArgMinimum`, nan is the extreme.

    Args:
        largest: True for the maximum.
        nan_wins: True if nan is the extreme.
    """

    def form(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
        data, output, code = op.inputs[0], op.outputs[0], writer.one
        assert data is not None
        shape, dtype = writer.extents(data), data.dtype
        axis = op.attributes.get("axis", 0) % max(1, len(shape))
        count = shape[axis] if shape else 1
        _require_elements(code, op, count)
        output_extents = tuple(1 if k == axis else extent for k, extent in enumerate(shape))
        keeps = op.attributes.get("keepdims", 1)
        writer.shaped(output, tuple(e for k, e in enumerate(output_extents) if keeps or k != axis))
        source, target = writer.pointer_of(data, writer.cell(data, cells)), writer.buffer(output)
        last = op.attributes.get("select_last_index", 0)
        steps, others = _strides(code, shape), _strides(code, output_extents)
        step = steps[axis] if shape else 1
        best, where = code.place(code.type(dtype)), code.place("i64")

        def is_better(new: str, old: str) -> str:
            a, b = (old, new) if largest else (new, old)
            better = code.less(dtype, a, b)
            if last:
                better = code.binary("or", "bool", better, code.equal(dtype, a, b))
            return _or_is_nan(code, dtype, (new, old), better, last=last) if nan_wins else better

        def one(places: list[str]) -> None:
            begin, result = places
            code.line(
                f"store {code.type(dtype)} {writer.load(code, dtype, source, begin)}, ptr {best}"
            )
            code.line(f"store i64 0, ptr {where}")

            def compare(number: str) -> None:
                new = writer.load(code, dtype, source, further(writer, begin, number, step))
                old = code.put(f"load {code.type(dtype)}, ptr {best}")
                better = is_better(new, old)
                place = code.choose(better, "int64", number, code.put(f"load i64, ptr {where}"))
                chosen = code.choose(better, dtype, new, old)
                code.line(f"store {code.type(dtype)} {chosen}, ptr {best}")
                code.line(f"store i64 {place}, ptr {where}")

            writer.repeat("1", str(count), 1, compare)
            writer.store(code, "int64", code.put(f"load i64, ptr {where}"), target, result)

        over_grid(writer, output_extents, [steps, others], one)
        return writer.as_cell(output, target)

    return form


def _or_is_nan(code: Code, dtype: str, numbers: tuple[str, str], better: str, *, last: bool) -> str:
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
        raise NotNative(f"it has {title(op.op_type)} of nothing")
    if isinstance(count, str):
        sentence = f"onnx::{op.op_type} needs at least one element"
        failure = Failure(sentence, op.where, "there was nothing to choose from")
        code.fail_if(code.compare("eq", "int64", count, "0"), failure)


largest_place = place_of(largest=True)
smallest_place = place_of(largest=False)
