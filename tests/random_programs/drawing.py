"""Builder of a random ONNX model: scopes, visible values, nodes, dtypes and shapes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper

from mdf_loop.ir.types import element_type
from tests.random_programs.values import Extents, is_fixed, random_array

MOST_ELEMENTS = 4000
"""Maximum number of elements of a random value."""


class Known(NamedTuple):
    """A value of the model: its name, dtype and shape."""

    name: str
    dtype: str
    shape: Extents


class NotPossibleError(Exception):
    """No visible value is a valid operand of the operation."""


@dataclass
class Scope:
    """A graph under construction: outer values, own values and nodes."""

    outer: list[Known] = field(default_factory=list)
    own: list[Known] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    depth: int = 0
    in_loop: bool = False

    def inner(self, *, in_loop: bool = True) -> Scope:
        """Return an empty scope nested in this scope."""
        return Scope(self.outer + self.own, depth=self.depth + 1, in_loop=in_loop or self.in_loop)


@dataclass(frozen=True)
class Profile:
    """Weights of the dtypes, shapes and operations of a program, and its maximum nesting depth."""

    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    depth: int
    weights: dict[str, float]
    functions: bool


class Drawing:
    """A model under construction, with one seeded source for all random choices."""

    def __init__(self, rng: random.Random, profile: Profile) -> None:
        self.rng = rng
        self.profile = profile
        self.op_types: set[str] = set()
        self.is_exact = True
        self.changes_shapes = False
        self._names = 0
        self._extents = 0

    # --- names and values ----------------------------------------------------------------------

    def name(self) -> str:
        """Return an unused name."""
        self._names += 1
        return f"v{self._names}"

    def extent(self) -> str:
        """Return a new symbolic extent, which is known only at run time."""
        self._extents += 1
        return f"d{self._extents}"

    def node(
        self,
        scope: Scope,
        op_type: str,
        inputs: Sequence[Known | None],
        *outputs: tuple[str, Extents],
        **attributes: Any,
    ) -> list[Known]:
        """Append a node with outputs of these dtypes and shapes."""
        for _, shape in outputs:
            fixed = [extent for extent in shape if isinstance(extent, int)]
            if int(np.prod(fixed)) > MOST_ELEMENTS or len(shape) > 4:
                raise NotPossibleError
        values = [Known(self.name(), dtype, tuple(shape)) for dtype, shape in outputs]
        names = ["" if value is None else value.name for value in inputs]
        onnx_node = helper.make_node(op_type, names, [value.name for value in values], **attributes)
        scope.nodes.append(onnx_node)
        scope.own += values
        self.op_types.add(op_type)
        return values

    def one(
        self,
        scope: Scope,
        op_type: str,
        inputs: Sequence[Known | None],
        dtype: str,
        shape: Extents,
        **attributes: Any,
    ) -> Known:
        """Append a node with one output and return the output."""
        return self.node(scope, op_type, inputs, (dtype, shape), **attributes)[0]

    def constant(self, scope: Scope, array: ArrayLike, dtype: str = "int64") -> Known:
        """Append a constant with the numbers of an array."""
        tensor = numpy_helper.from_array(np.asarray(array, dtype))
        return self.one(scope, "Constant", [], dtype, tuple(tensor.dims), value=tensor)

    def random_constant(self, scope: Scope, dtype: str, shape: tuple[int, ...]) -> Known:
        """Append a constant of random numbers."""
        return self.constant(scope, random_array(self.rng, dtype, shape), dtype)

    def zero_or_more(self, scope: Scope, limit: int) -> Known:
        """Return a computed integer from 0 to below the limit."""
        number = self.maybe(scope, lambda v: v.dtype == "int64" and v.shape == ())
        if number is None:
            return self.constant(scope, self.rng.randrange(limit))
        divisor = self.constant(scope, limit)
        return self.one(scope, "Mod", [number, divisor], "int64", ())

    # --- choices -------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.rng.random() < probability

    def maybe(self, scope: Scope, fits: Callable[[Known], bool]) -> Known | None:
        """Return a visible value that passes a test, with preference for recent values of the scope, or None."""
        own_values = [value for value in scope.own if fits(value)]
        if own_values and self.chance(0.75):
            return own_values[-1 - int(len(own_values) * self.rng.random() ** 2)]
        visible = own_values + [value for value in scope.outer if fits(value)]
        return self.rng.choice(visible) if visible else None

    def pick(self, scope: Scope, fits: Callable[[Known], bool] = lambda _: True) -> Known:
        """Return a visible value that passes a test; raise NotPossibleError if no value passes."""
        value = self.maybe(scope, fits)
        if value is None:
            raise NotPossibleError
        return value

    def of(self, scope: Scope, *dtypes: str, least_rank: int = 0, fixed: bool = False) -> Known:
        """Return a visible value of one of these dtypes."""
        return self.pick(
            scope,
            lambda v: (
                v.dtype in dtypes
                and len(v.shape) >= least_rank
                and (is_fixed(v.shape) or not fixed)
            ),
        )


def typed(value: Known, *, shape: bool = True) -> onnx.ValueInfoProto:
    """Return the declaration of a value, with or without its shape."""
    extents = [extent if isinstance(extent, int) else None for extent in value.shape]
    return helper.make_tensor_value_info(
        value.name, element_type(value.dtype), extents if shape else None
    )
