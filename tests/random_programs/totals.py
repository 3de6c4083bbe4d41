"""Random nodes that combine elements: reductions, `ArgMax`, cumulative sums and matrix products."""

from __future__ import annotations

from tests.random_programs.drawing import Drawing, NotPossibleError, Scope
from tests.random_programs.values import FLOATS, Extents

INTEGERS = ("int64", "int32")
EXTREMES = ("ReduceMax", "ReduceMin")
SUMS = ("ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1")
FLOAT_SUMS = ("ReduceMean", "ReduceL2", "ReduceLogSumExp", "ReduceLogSum")


def _axes(d: Drawing, rank: int) -> list[int]:
    count = d.rng.randint(1, rank)
    return sorted(d.rng.sample(range(rank), count))


def _reduced(shape: Extents, axes: list[int], keepdims: int) -> Extents:
    if keepdims:
        return tuple(1 if k in axes else extent for k, extent in enumerate(shape))
    return tuple(extent for k, extent in enumerate(shape) if k not in axes)


def reduction(d: Drawing, s: Scope) -> None:
    """Add a reduction over some axes, all or none of them."""
    x = d.of(s, *FLOATS, *INTEGERS, least_rank=1)
    # outside of loops ONNX Runtime's kernels pass over nan
    extremes = EXTREMES if x.dtype not in FLOATS or s.in_loop else ()
    operations = [*extremes, *SUMS]
    if x.dtype in FLOATS:
        operations = [*extremes, *extremes]
        if d.profile.functions:
            operations += [*SUMS, *FLOAT_SUMS]
    if not operations:
        raise NotPossibleError
    operation = d.rng.choice(operations)
    if operation == "ReduceLogSumExp" and not s.in_loop:  # its kernel passes over nan behind inf
        raise NotPossibleError
    if x.dtype in FLOATS and operation not in EXTREMES:
        d.is_exact = False
    rank, keepdims = len(x.shape), int(d.chance(0.5))
    uniform_number = d.rng.random()
    if uniform_number < 0.12:
        axes = list(range(rank))
        d.one(s, operation, [x], x.dtype, _reduced(x.shape, axes, keepdims), keepdims=keepdims)
        return
    if uniform_number < 0.17:
        none = d.constant(s, [])
        d.one(s, operation, [x, none], x.dtype, x.shape, keepdims=1, noop_with_empty_axes=1)
        return
    axes = _axes(d, rank)
    axes_input = d.constant(s, [axis - rank if d.chance(0.3) else axis for axis in axes])
    d.one(
        s, operation, [x, axes_input], x.dtype, _reduced(x.shape, axes, keepdims), keepdims=keepdims
    )


def place(d: Drawing, s: Scope) -> None:
    """Add an `ArgMax` or `ArgMin`, the position of an extreme element."""
    floats = FLOATS if s.in_loop else ()
    x = d.of(s, *floats, *INTEGERS, "int8", "uint8", least_rank=1)
    axis, keepdims = d.rng.randrange(len(x.shape)), int(d.chance(0.5))
    options = {"axis": axis, "keepdims": keepdims, "select_last_index": int(d.chance(0.3))}
    shape = _reduced(x.shape, [axis], keepdims)
    d.one(s, d.rng.choice(("ArgMax", "ArgMin")), [x], "int64", shape, **options)


def running_sum(d: Drawing, s: Scope) -> None:
    """Add a running sum along an axis."""
    x = d.of(s, *(FLOATS if d.profile.functions else ()), *INTEGERS, least_rank=1)
    if x.dtype in FLOATS:
        d.is_exact = False
    axis = d.constant(s, d.rng.randrange(-len(x.shape), len(x.shape)))
    options = {"exclusive": int(d.chance(0.4)), "reverse": int(d.chance(0.4))}
    d.one(s, "CumSum", [x, axis], x.dtype, x.shape, **options)


def product(d: Drawing, s: Scope) -> None:
    """Add a product of matrices or vectors, often of one with itself."""
    dtypes = (*(FLOATS if d.profile.functions else ()), *INTEGERS)
    x = d.pick(s, lambda v: v.dtype in dtypes and 0 < len(v.shape) < 3)
    y = d.pick(
        s,
        lambda v: (
            v.dtype == x.dtype
            and 0 < len(v.shape) < 3
            and v.shape[-2 if len(v.shape) == 2 else 0] == x.shape[-1]
        ),
    )
    if x.dtype in FLOATS:
        d.is_exact = False
    shape = x.shape[:-1] + (y.shape[1:] if len(y.shape) == 2 else ())
    d.one(s, "MatMul", [x, y], x.dtype, shape)


def normalized(d: Drawing, s: Scope) -> None:
    """Add a normalization of numbers by their sum."""
    if not d.profile.functions:
        return
    x = d.of(s, *FLOATS, least_rank=1)
    d.is_exact = False
    axis = d.rng.randrange(len(x.shape))
    d.one(s, d.rng.choice(("Softmax", "LogSoftmax", "Hardmax")), [x], x.dtype, x.shape, axis=axis)


KINDS = {reduction: 2.0, place: 0.8, running_sum: 0.6, product: 1.0, normalized: 0.4}
