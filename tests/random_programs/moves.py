"""Random nodes that move, select, repeat and replace elements at constant and computed indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.random_programs.drawing import Drawing, Known, NotPossibleError, Scope
from tests.random_programs.values import FLOATS, Extents, is_fixed, random_array

ENDS = (0, 1, 2, 3, 5, 9, 11, -1, -2, -3, -9, -11, 2**63 - 1, -(2**63))
INTEGERS = ("int64", "int32")


def _ints(d: Drawing, s: Scope, numbers: Sequence[int]) -> Known:
    return d.constant(s, list(numbers))


def _axis(d: Drawing, x: Known) -> tuple[int, int]:
    """Return a random axis, and the axis as an attribute, which may be negative."""
    axis = d.rng.randrange(len(x.shape))
    return axis, axis - len(x.shape) if d.chance(0.25) else axis


def _with(shape: Extents, axis: int, *extents: int | str) -> Extents:
    return (*shape[:axis], *extents, *shape[axis + 1 :])


def _positions(d: Drawing, s: Scope, extent: int | str, fits: Extents | None = None) -> Known:
    """Return indices along an axis, mostly computed and nearly always in range."""

    def usable(v: Known) -> bool:
        return v.dtype in INTEGERS and (len(v.shape) < 2 if fits is None else v.shape == fits)

    candidate = d.maybe(s, usable)
    if candidate is None or d.chance(0.15):
        shape = d.rng.choice(((), (1,), (2,), (3,))) if fits is None else fits
        if not is_fixed(shape) or extent == 0:
            raise NotPossibleError
        limit = extent if isinstance(extent, int) else 1
        numbers = np.array(
            [d.rng.randrange(-limit, limit) for _ in range(int(np.prod(shape)))], np.int64
        )
        return d.constant(s, numbers.reshape(shape))
    if not isinstance(extent, int) or d.chance(0.05):
        return candidate
    divisor = d.constant(s, max(extent, 1), candidate.dtype)
    return d.one(s, "Mod", [candidate, divisor], candidate.dtype, candidate.shape)


def gather(d: Drawing, s: Scope) -> None:
    """Add a gather of slices along an axis."""
    x = d.pick(s, lambda v: len(v.shape) > 0)
    axis, axis_attribute = _axis(d, x)
    if d.chance(0.08) and x.dtype in INTEGERS and len(x.shape) == 1 and x.shape[0]:
        divisor = d.constant(s, x.shape[0] if isinstance(x.shape[0], int) else 1, x.dtype)
        x = d.one(s, "Mod", [x, divisor], x.dtype, x.shape)
        d.one(s, "Gather", [x, x], x.dtype, x.shape)
        return
    positions = _positions(d, s, x.shape[axis])
    d.one(
        s,
        "Gather",
        [x, positions],
        x.dtype,
        _with(x.shape, axis, *positions.shape),
        axis=axis_attribute,
    )


def gather_elements(d: Drawing, s: Scope) -> None:
    """Add a gather of elements along an axis, sometimes with one array as data and indices."""
    x = d.pick(s, lambda v: len(v.shape) > 0 and is_fixed(v.shape))
    axis, axis_attribute = _axis(d, x)
    positions = _positions(d, s, x.shape[axis], x.shape)
    d.one(s, "GatherElements", [x, positions], x.dtype, positions.shape, axis=axis_attribute)


def scatter(d: Drawing, s: Scope) -> None:
    """Add a replacement of elements, or a sum or extreme with them."""
    x = d.pick(s, lambda v: len(v.shape) > 0 and is_fixed(v.shape) and v.dtype in _SCATTERED)
    reduction = d.rng.choice(("none", "none", "add", "mul"))
    if x.dtype == "bool":
        reduction = "none"
    if d.chance(0.5):
        _scatter_rows(d, s, x, reduction)
        return
    axis, axis_attribute = _axis(d, x)
    positions = _positions(d, s, x.shape[axis], x.shape)
    rows = _like(d, s, x.dtype, positions.shape)
    _scattered(d, x, reduction)
    options = {"axis": axis_attribute, "reduction": reduction}
    d.one(s, "ScatterElements", [x, positions, rows], x.dtype, x.shape, **options)


_SCATTERED = (*FLOATS, "int64", "int32", "bool")


def _scattered(d: Drawing, x: Known, reduction: str) -> None:
    if reduction != "none" and x.dtype in FLOATS:
        d.is_exact = False


def _scatter_rows(d: Drawing, s: Scope, x: Known, reduction: str) -> None:
    extent = x.shape[0]
    if not isinstance(extent, int) or extent == 0:
        raise NotPossibleError
    count = d.rng.choice((1, 1, 2, 3))
    if count == 1:
        number = d.zero_or_more(s, extent)
        positions = d.one(s, "Reshape", [number, _ints(d, s, (1, 1))], "int64", (1, 1))
    else:
        positions = d.constant(s, [[d.rng.randrange(-extent, extent)] for _ in range(count)])
    rows = _like(d, s, x.dtype, (count, *x.shape[1:]))
    _scattered(d, x, reduction)
    d.one(s, "ScatterND", [x, positions, rows], x.dtype, x.shape, reduction=reduction)


def _like(d: Drawing, s: Scope, dtype: str, shape: Extents) -> Known:
    candidate = d.maybe(s, lambda v: v.dtype == dtype and v.shape == shape)
    if candidate is not None:
        return candidate
    if not is_fixed(shape):
        raise NotPossibleError
    return d.random_constant(s, dtype, shape)  # type: ignore[arg-type]


def slice_(d: Drawing, s: Scope) -> None:
    """Add a slice with constant or computed ends and a step of either sign."""
    x = d.pick(s, lambda v: len(v.shape) > 0)
    axis, axis_attribute = _axis(d, x)
    axes, steps = (
        _ints(d, s, (axis_attribute,)),
        _ints(d, s, (d.rng.choice((1, 1, 1, 2, 3, -1, -2, -3)),)),
    )
    start, end = _end(d, s), _end(d, s)
    shape = _with(x.shape, axis, d.extent())
    d.one(s, "Slice", [x, start, end, axes, steps], x.dtype, shape)


def _end(d: Drawing, s: Scope) -> Known:
    number = d.maybe(s, lambda v: v.dtype == "int64" and v.shape == ())
    if number is None or d.chance(0.4):
        return _ints(d, s, (d.rng.choice(ENDS),))
    if d.chance(0.2):
        number = d.one(s, "Neg", [number], "int64", ())
    return d.one(s, "Unsqueeze", [number, _ints(d, s, (0,))], "int64", (1,))


def window(d: Drawing, s: Scope) -> None:
    """Add a slice of constant length from a computed index."""
    x = d.pick(s, lambda v: len(v.shape) > 0)
    axis, axis_attribute = _axis(d, x)
    first = d.one(*(s, "Unsqueeze", [d.zero_or_more(s, 4), _ints(d, s, (0,))], "int64", (1,)))
    end = d.one(s, "Add", [first, _ints(d, s, (d.rng.choice((1, 2, 3)),))], "int64", (1,))
    shape = _with(x.shape, axis, d.extent())
    d.one(s, "Slice", [x, first, end, _ints(d, s, (axis_attribute,))], x.dtype, shape)


def concat(d: Drawing, s: Scope) -> None:
    """Add a concatenation of two or three values, often of one with itself."""
    x = d.pick(s, lambda v: len(v.shape) > 0)
    axis, axis_attribute = _axis(d, x)

    def fits(v: Known) -> bool:
        same = v.dtype == x.dtype and len(v.shape) == len(x.shape)
        return same and _with(v.shape, axis, 0) == _with(x.shape, axis, 0)

    parts = [x, *(x if d.chance(0.3) else d.pick(s, fits) for _ in range(d.rng.choice((1, 1, 2))))]
    extents = [part.shape[axis] for part in parts]
    whole = sum(extents) if is_fixed(tuple(extents)) else d.extent()  # type: ignore[arg-type]
    d.one(s, "Concat", parts, x.dtype, _with(x.shape, axis, whole), axis=axis_attribute)


def transpose(d: Drawing, s: Scope) -> None:
    """Add a permutation of the axes."""
    x = d.pick(s, lambda v: len(v.shape) > 1)
    order = d.rng.sample(range(len(x.shape)), len(x.shape))
    d.one(s, "Transpose", [x], x.dtype, tuple(x.shape[k] for k in order), perm=order)


def axes(d: Drawing, s: Scope) -> None:
    """Add an insertion or a removal of an axis, or flatten the array."""
    x = d.pick(s)
    if d.chance(0.45) and len(x.shape) < 3:
        axis = d.rng.randrange(len(x.shape) + 1)
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        d.one(s, "Unsqueeze", [x, _ints(d, s, (axis,))], x.dtype, shape)
    elif 1 in x.shape and d.chance(0.6):
        axis = x.shape.index(1)
        d.one(s, "Squeeze", [x, _ints(d, s, (axis,))], x.dtype, _with(x.shape, axis))
    elif is_fixed(x.shape):
        size = int(np.prod(x.shape))  # type: ignore[arg-type]
        d.one(s, "Reshape", [x, _ints(d, s, (size if size == 0 else -1,))], x.dtype, (size,))
    else:
        raise NotPossibleError


def extents(d: Drawing, s: Scope) -> None:
    """Add the shape or the size of a value."""
    x = d.pick(s)
    if len(x.shape) and d.chance(0.5):
        d.one(s, "Shape", [x], "int64", (len(x.shape),))
    else:
        d.one(s, "Size", [x], "int64", ())


def expand(d: Drawing, s: Scope) -> None:
    """Add a broadcast to a shape, or a repetition."""
    x = d.pick(s, lambda v: is_fixed(v.shape))
    if d.chance(0.4) and x.shape:
        repeats = [d.rng.choice((1, 1, 2, 0, 3)) for _ in x.shape]
        shape = tuple(int(e) * k for e, k in zip(x.shape, repeats, strict=True))
        d.one(s, "Tile", [x, _ints(d, s, repeats)], x.dtype, shape)
        return
    count = d.rng.choice((0, 1, 2, 3))
    target = (count, *x.shape)
    d.one(s, "Expand", [x, _ints(d, s, [int(e) for e in target])], x.dtype, target)


def lengths(d: Drawing, s: Scope) -> None:
    """Add an array of computed length."""
    uniform_number = d.rng.random()
    if uniform_number < 0.3:
        limit = d.zero_or_more(s, 9)
        zero, one = d.constant(s, 0), d.constant(s, 1)
        d.one(s, "Range", [zero, limit, one], "int64", (d.extent(),))
    elif uniform_number < 0.55:
        count = d.one(*(s, "Unsqueeze", [d.zero_or_more(s, 9), _ints(d, s, (0,))], "int64", (1,)))
        dtype = d.rng.choice(("float64", "int64", "float32"))
        from onnx import numpy_helper

        filled = numpy_helper.from_array(random_array(d.rng, dtype, (1,)))
        d.one(s, "ConstantOfShape", [count], dtype, (d.extent(),), value=filled)
    else:
        mask = d.pick(s, lambda v: v.dtype == "bool" and len(v.shape) == 1)
        x = d.pick(s, lambda v: v.shape == mask.shape)
        if d.chance(0.2):
            x = mask
        d.one(s, "Compress", [x, mask], x.dtype, (d.extent(),), axis=0)


def pad(d: Drawing, s: Scope) -> None:
    """Add a padding, or a negative padding that removes elements."""
    x = d.pick(s, lambda v: v.dtype in (*FLOATS, *INTEGERS) and len(v.shape) == 1)
    extent = x.shape[0]
    least = -1 if isinstance(extent, int) and extent > 3 else 0
    sides = [d.rng.randint(least, 2) for _ in range(2)]
    whole = extent + sum(sides) if isinstance(extent, int) else d.extent()
    filled = d.random_constant(s, x.dtype, ())
    d.one(s, "Pad", [x, _ints(d, s, sides), filled], x.dtype, (whole,))


def others(d: Drawing, s: Scope) -> None:
    """Add a `Trilu`, a `TopK` or a `OneHot`."""
    uniform_number = d.rng.random()
    if uniform_number < 0.35:
        x = d.pick(s, lambda v: len(v.shape) == 2 and v.dtype in (*FLOATS, "int64", "bool"))
        k = d.constant(s, d.rng.randint(-2, 2))
        d.one(s, "Trilu", [x, k], x.dtype, x.shape, upper=int(d.chance(0.5)))
    elif uniform_number < 0.7:
        x = d.of(s, *FLOATS, "int64", least_rank=1, fixed=True)
        extent = int(x.shape[-1])
        count = d.rng.randint(0, extent)
        shape = (*x.shape[:-1], count)
        largest = int(d.chance(0.5))
        outputs = ((x.dtype, shape), ("int64", shape))
        d.node(s, "TopK", [x, _ints(d, s, (count,))], *outputs, axis=-1, largest=largest)
    else:
        x = d.of(s, "int64", least_rank=1)
        dtype = d.rng.choice(("float64", "float32", "int64"))
        depth, two = d.rng.choice((1, 2, 7)), d.random_constant(s, dtype, (2,))
        d.one(s, "OneHot", [x, d.constant(s, depth), two], dtype, (*x.shape, depth))


KINDS = {
    gather: 2.0,
    gather_elements: 0.7,
    scatter: 1.0,
    slice_: 1.5,
    window: 0.5,
    concat: 1.0,
    transpose: 0.7,
    axes: 1.0,
    extents: 0.6,
    expand: 0.7,
    lengths: 0.9,
    pad: 0.4,
    others: 0.8,
}
