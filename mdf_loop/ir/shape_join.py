"""Join of two shapes: the common shape of the results of two branches or two iterations.

    [3, n] and [3, 4]      ->  [3, ?]      extents that differ are unknown
    [*]    and [3, 4]      ->  [*]         an unknown number of axes stays unknown
    [3, n] and [3, m, k]   ->  [*]         different ranks: equal leading extents, and further
                                           extents that are unknown
    [1]    and []          ->  [1]         one element
    [3, 5] and [3, 4]      ->  error

A name is an extent that is known only at run time. An extent whose name begins with `?` is unnamed
until the builder chooses a name.

Source: MindSpore, "Control Flow Statements", ShapeJoin rules 1 to 4; one element with and without
an axis: mindspore/core/abstract/utils.cc, SingleElementShapeJoin.
"""

from __future__ import annotations

from mdf_loop.errors import JoinError
from mdf_loop.ir import Shape

_Extents = tuple[int | str, ...]

_SINGLE_ELEMENT_SHAPES = ((), (1,))


def join_shapes(first: Shape, second: Shape) -> Shape:
    """Return the common shape of two shapes by MindSpore's join rules.

    Raises:
        JoinError: No rule applies to the two shapes.
    """
    if first is None or second is None:
        return None
    if first in _SINGLE_ELEMENT_SHAPES and second in _SINGLE_ELEMENT_SHAPES:
        return max(first, second, key=len)
    if not _can_join(first, second):
        raise JoinError(shape_sentence(first, second))
    return any_shape(first, second)


def any_shape(first: Shape, second: Shape) -> Shape:
    """Return the common shape of two shapes, in which unequal extents become unknown."""
    if first is None or second is None or len(first) != len(second):
        return None
    return tuple(
        first_extent if first_extent == second_extent else f"?{k}"
        for k, (first_extent, second_extent) in enumerate(zip(first, second, strict=True))
    )


def _can_join(first: _Extents, second: _Extents) -> bool:
    if len(first) == len(second):  # rules 1 and 2
        return all(
            first_extent == second_extent
            or isinstance(first_extent, str)
            or isinstance(second_extent, str)
            for first_extent, second_extent in zip(first, second, strict=True)
        )
    shorter_shape, longer_shape = sorted((first, second), key=len)  # rule 4
    has_equal_prefix = all(
        extent == longer_extent or (isinstance(extent, str) and isinstance(longer_extent, str))
        for extent, longer_extent in zip(shorter_shape, longer_shape, strict=False)
    )
    return has_equal_prefix and all(
        isinstance(extent, str) for extent in longer_shape[len(shorter_shape) :]
    )


def shape_sentence(first: Shape, second: Shape) -> str:
    """Return MindSpore's error message for two shapes that have no common shape."""
    return f"Shape Join Failed: shape1 = {shape_text(first)}, shape2 = {shape_text(second)}"


def dtype_sentence(first: str, second: str) -> str:
    """Return MindSpore's error message for two dtypes that have no common dtype."""
    return f"Type Join Failed: dtype1 = {first}, dtype2 = {second}"


def shape_text(shape: Shape) -> str:
    """Return a shape as text, such as `()`, `(2)`, `(3, n)`, or `(*)` for an unknown number of axes."""
    return f"({'*' if shape is None else ', '.join(map(str, shape))})"
