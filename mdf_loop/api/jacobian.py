"""Jacobians and Hessians: derivatives by all elements of parameters, computed in one run.

    forward     one tangent for each element of the parameters, propagated along with the model
    reverse     one cotangent for each element of the outputs, propagated backward

Forward mode is used if the parameters have no more elements than the outputs, else reverse mode. A
Hessian is the Jacobian of a gradient, forward over reverse.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace as with_fields
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from mdf_loop.api.differentiation import DifferentiatedNames
from mdf_loop.api.gradient_check import evaluate_scalars
from mdf_loop.api.nonfinite_derivatives import has_nonfinite, warn_of_hessian, warn_of_jacobian
from mdf_loop.api.running import run
from mdf_loop.errors import InputError
from mdf_loop.ir import Array, Program, Value
from mdf_loop.losses import Loss
from mdf_loop.lru_cache import LRUCache
from mdf_loop.passes.batching.batch import batch
from mdf_loop.passes.gradient.differentiate import change_of, differentiate
from mdf_loop.passes.gradient.forward import (
    UNIT_EXTENT,
    jacobian_forward,
    tangent_of,
    unit_tangents,
)
from mdf_loop.passes.gradient.objective import OBJECTIVE_OUTPUT, add_objective
from mdf_loop.pipeline import prepare
from mdf_loop.reading.binding import BoundValues
from mdf_loop.results.derivatives import Derivatives
from mdf_loop.run.backend import PROGRAM_BACKENDS
from mdf_loop.run.gradient.terms import Data, make_unscaled_terms
from mdf_loop.run.members import move_members_first
from mdf_loop.specification import RunSpecification

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]

SESSIONS = 16
"""Number of sets of input types whose prepared Jacobians are cached."""


class Jacobian:
    """Derivatives of outputs, prepared once for each set of input types and computed for many values."""

    def __init__(self, named: DifferentiatedNames) -> None:
        self.named = named
        self._ready: LRUCache[tuple[Program, _Forward | _Reverse]] = LRUCache(SESSIONS)

    def run(self, spec: RunSpecification) -> Derivatives:
        """Return the Jacobian at the values of a run.

        Raises:
            LoopError: An operation has no derivative, or a parameter is no float. The message names it.
        """
        derivatives = self._at_once(spec)
        if len(self.named.wrt) == 1 or not has_nonfinite(derivatives.values()):
            return derivatives
        return self._recompute_by_name(spec, derivatives)

    def _recompute_by_name(self, spec: RunSpecification, derivatives: Derivatives) -> Derivatives:
        """Return the derivatives, with nan and infinite ones recomputed for one name at a time.

        An infinite slope times a tangent of 0 is nan. If all names are computed at once, this nan also
        reaches derivatives by names that do not depend on the slope.
        """
        arrays = dict(derivatives.arrays)
        for name in self.named.wrt:
            if has_nonfinite(array for (_, by), array in arrays.items() if by == name):
                alone = cached_jacobian(self.named.by(name)).run(spec)
                arrays |= {
                    k: np.where(np.isfinite(arrays[k]), arrays[k], a) for k, a in alone.items()
                }
        return with_fields(derivatives, arrays=arrays)

    def _at_once(self, spec: RunSpecification) -> Derivatives:
        """Return the derivatives by all names, computed by one run."""
        bound = _bind_single_run(self.named, spec)
        ready = self._ready.get(bound.types)
        if ready is None:
            ready = self._made(spec, bound)
            self._ready.put(bound.types, ready)
        source, forms = ready
        return forms.run({**bound.with_random_keys(source).arrays, **self.named.controls(spec)})

    def _made(
        self, spec: RunSpecification, bound: BoundValues
    ) -> tuple[Program, _Forward | _Reverse]:
        """Return the model's program, and its derivatives in the mode with fewer directions."""
        named = self.named
        program = named.program(spec, bound)
        values = {output.name: output.value for output in program.outputs}
        outputs = {
            name: _output_shape(name, values[output_name], spec.steps)
            for name, output_name in named.outputs.items()
        }
        by = {name: array.shape for name, array in named.at(bound).items()}
        if _count_elements(by) <= _count_elements(outputs):
            return program, _Forward(named, program, named.outputs, by)
        return program, _Reverse(named, program, outputs)


def cached_jacobian(named: DifferentiatedNames) -> Jacobian:
    """Return the Jacobian from the cache of the model, or create and cache it."""
    cache = named.prepared.jacobians
    computed = cache.get(named.key)
    if not isinstance(computed, Jacobian):
        computed = Jacobian(named)
        cache.put(named.key, computed)
    return computed


def jacobian(named: DifferentiatedNames, spec: RunSpecification) -> Derivatives:
    """Return the Jacobian at the values of a run, and warn of derivatives that are not finite.

    Raises:
        LoopError: An operation has no derivative, or a parameter is no float. The message names it.
    """
    derivatives = cached_jacobian(named).run(spec)
    if has_nonfinite(derivatives.values()):
        results = run(named.prepared, spec)
        warn_of_jacobian(derivatives, {name: results[n] for name, n in named.outputs.items()})
    return derivatives


def hessian(
    named: DifferentiatedNames, losses: Sequence[Loss], spec: RunSpecification
) -> Derivatives:
    """Return the second derivatives of a scalar, and warn of derivatives that are not finite.

    Raises:
        LoopError: An operation has no derivative, or a parameter is no float. The message names it.
    """
    bound = _bind_single_run(named, spec)
    source = named.program(spec, bound)
    terms = make_unscaled_terms(losses, named.outputs)
    targets = tuple(named.inputs.values())
    program = differentiate(add_objective(source, terms), OBJECTIVE_OUTPUT, targets)
    data = Data.of(losses, terms, source, spec.steps)
    feeds = {**bound.with_random_keys(source).arrays, **named.controls(spec), **data.arrays}
    changes = {name: change_of(target) for name, target in named.inputs.items()}
    by = {name: array.shape for name, array in named.at(bound).items()}
    derivatives = _Forward(named, program, changes, by).run(feeds)
    if has_nonfinite(derivatives.values()):
        outputs = {name: np.asarray(rows)[None] for name, rows in run(named.prepared, spec).items()}
        (value,) = evaluate_scalars(losses, named.outputs, outputs, 1, 0)
        warn_of_hessian(derivatives, value)
    return derivatives


def _bind_single_run(named: DifferentiatedNames, spec: RunSpecification) -> BoundValues:
    """Return the bound values of a run, or raise an error for a sweep or trials."""
    bound = named.bound(spec)
    if bound.member_values or bound.streams.has_members:
        raise InputError("a Jacobian, or a Hessian, is of one run", hint="leave trials out")
    return bound


class _Forward:
    """Forward mode: one tangent for each element of the parameters."""

    def __init__(
        self, named: DifferentiatedNames, program: Program, of: Mapping[str, str], by: Shapes
    ) -> None:
        output_names = tuple(dict.fromkeys(of.values()))
        forward = jacobian_forward(program, tuple(named.inputs.values()), output_names)
        tangent_shapes = {tangent_of(named.inputs[name]): shape for name, shape in by.items()}
        self._of, self._by = of, by
        self._units = _UnitChanges(
            named, forward, [tangent_of(name) for name in output_names], tangent_shapes
        )

    def run(self, feeds: Mapping[str, Array]) -> Derivatives:
        """Return the derivatives for the inputs of a program."""
        arrays, by, blocks = self._units.run(feeds), self._by, {}
        for name, output in self._of.items():
            for other, part in _split_blocks(arrays[tangent_of(output)], by).items():
                axes = range(len(by[other]))
                blocks[name, other] = np.moveaxis(part, axes, [k - len(by[other]) for k in axes])
        return Derivatives(blocks, "forward", self._units.native)


class _Reverse:
    """Reverse mode: one cotangent for each element of the outputs."""

    def __init__(self, named: DifferentiatedNames, program: Program, of: Shapes) -> None:
        outputs = {name: named.outputs[name] for name in of}
        self._of = of
        self._changes = {name: change_of(target) for name, target in named.inputs.items()}
        names = [change_of(output) for output in outputs.values()]
        targets = tuple(named.inputs.values())
        reverse = differentiate(program, None, targets, tuple(outputs.values()))
        change_shapes = {change_of(outputs[name]): shape for name, shape in of.items()}
        batched = batch(reverse, names, UNIT_EXTENT)
        self._units = _UnitChanges(named, batched, tuple(self._changes.values()), change_shapes)

    def run(self, feeds: Mapping[str, Array]) -> Derivatives:
        """Return the derivatives for the inputs of a program."""
        arrays = self._units.run(feeds)
        blocks = {
            (name, other): part
            for other, change in self._changes.items()
            for name, part in _split_blocks(arrays[change], self._of).items()
        }
        return Derivatives(blocks, "reverse", self._units.native)


class _UnitChanges:
    """Program that computes derivatives in all unit directions of some inputs at once."""

    def __init__(
        self,
        named: DifferentiatedNames,
        program: Program,
        output_names: Collection[str],
        shapes: Shapes,
    ) -> None:
        outputs = tuple(output for output in program.outputs if output.name in output_names)
        backend = PROGRAM_BACKENDS["onnxruntime"]
        self._program = prepare(replace(program, outputs=outputs), backend.order)
        self._loaded = backend.load(self._program, named.prepared.placement)
        self._total = _count_elements(shapes)
        dtypes = {entry.value.name: entry.value.dtype for entry in program.inputs}
        self._units = unit_tangents(
            {name: np.empty(shape, dtypes[name]) for name, shape in shapes.items()}
        )

    @property
    def native(self) -> Mapping[str, str]:
        """Native form of each loop."""
        return self._loaded.native

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the selected outputs, with a leading axis of unit directions."""
        fed = {**feeds, **self._units}
        outputs = self._loaded.run({e.value.name: fed[e.value.name] for e in self._program.inputs})
        return move_members_first(self._program, outputs, self._total)


def _split_blocks(array: Array, shapes: Shapes) -> dict[str, Array]:
    """Split an array along its first axis into one block for each name, and give each block its shape."""
    blocks, at = {}, 0
    for name, shape in shapes.items():
        rows = array[at : at + math.prod(shape)]
        blocks[name] = rows.reshape((*shape, *array.shape[1:]))
        at += math.prod(shape)
    return blocks


def _count_elements(shapes: Shapes) -> int:
    """Return the total number of elements of arrays with these shapes."""
    return sum(map(math.prod, shapes.values()))


def _output_shape(name: str, value: Value, steps: int | None) -> tuple[int, ...]:
    """Return the shape of an output, over time with `steps` rows.

    Raises:
        InputError: The shape is unknown before the run.
    """
    shape = value.shape or ()
    own = shape if steps is None else (steps, *shape[1:])
    known = tuple(extent for extent in own if isinstance(extent, int))
    if value.shape is None or len(known) < len(own):
        raise InputError(
            f"the shape of '{name}' is known only when it runs: {value.type}",
            value.where,
            "give the inputs and parameters that it depends on a shape",
        )
    return known
