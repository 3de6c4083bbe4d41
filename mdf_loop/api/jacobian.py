"""Jacobians and Hessians: many derivatives of one run, computed at once.

    forward     a tangent for each number by which is differentiated, beside what the model computes
    reverse     a cotangent for each number that is differentiated, backward

The Jacobian of more numbers than it is differentiated by is computed forward, any other in reverse. A
Hessian is the Jacobian of a gradient, forward over reverse.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from mdf_loop.api.differentiation import Named
from mdf_loop.errors import InputError
from mdf_loop.ir import Array, Program, Value
from mdf_loop.losses import Loss
from mdf_loop.passes.batching.batch import batch
from mdf_loop.passes.gradient.differentiate import change_of, differentiate
from mdf_loop.passes.gradient.forward import UNIT, jacobian_forward, tangent_of, units
from mdf_loop.passes.gradient.objective import VALUE, with_value
from mdf_loop.pipeline import prepare
from mdf_loop.reading.binding import Bound
from mdf_loop.results.derivatives import Derivatives
from mdf_loop.run.backend import PROGRAM_BACKENDS
from mdf_loop.run.gradient.terms import Data, whole_terms
from mdf_loop.run.members import members_in_front
from mdf_loop.specification import RunSpecification

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]


def jacobian(named: Named, asked: RunSpecification) -> Derivatives:
    """How outputs change with what they are differentiated by.

    Raises:
        LoopError: something has no derivative, or does not change a little; the sentence names it.
    """
    bound = _of_one_run(named, asked)
    program = named.program(asked, bound)
    feeds = {**bound.drawing(program).arrays, **named.controls(asked)}
    values = {output.name: output.value for output in program.outputs}
    outputs = {
        name: _extents(name, values[shown], asked.steps) for name, shown in named.outputs.items()
    }
    by = {name: array.shape for name, array in named.at(bound).items()}
    if _total(by) <= _total(outputs):
        return _forward(named, program, named.outputs, by, feeds)
    return _reverse(named, program, outputs, feeds)


def hessian(named: Named, losses: Sequence[Loss], asked: RunSpecification) -> Derivatives:
    """How the derivatives of a number change with what it is differentiated by.

    Raises:
        LoopError: something has no derivative, or does not change a little; the sentence names it.
    """
    bound = _of_one_run(named, asked)
    source = named.program(asked, bound)
    terms = whole_terms(losses, named.outputs)
    targets = tuple(named.inputs.values())
    program = differentiate(with_value(source, terms), VALUE, targets)
    data = Data.of(losses, terms, source, asked.steps)
    feeds = {**bound.drawing(source).arrays, **named.controls(asked), **data.arrays}
    changes = {name: change_of(target) for name, target in named.inputs.items()}
    by = {name: array.shape for name, array in named.at(bound).items()}
    return _forward(named, program, changes, by, feeds)


def _of_one_run(named: Named, asked: RunSpecification) -> Bound:
    bound = named.bound(asked)
    if bound.members or bound.streams.vary:
        raise InputError("a Jacobian, or a Hessian, is of one run", hint="leave trials out")
    return bound


def _forward(
    named: Named, program: Program, of: Mapping[str, str], by: Shapes, feeds: Mapping[str, Array]
) -> Derivatives:
    """By a tangent for each number of what is differentiated by."""
    targets = tuple(named.inputs.values())
    shown = tuple(dict.fromkeys(of.values()))
    made = jacobian_forward(program, targets, shown)
    given = {tangent_of(named.inputs[name]): shape for name, shape in by.items()}
    wanted = [tangent_of(name) for name in shown]
    arrays, native = _computed(named, made, wanted, given, feeds)
    found = {}
    for name, output in of.items():
        parts = _apart(arrays[tangent_of(output)], by)
        for other, part in parts.items():
            axes = range(len(by[other]))
            found[name, other] = np.moveaxis(part, axes, [k - len(by[other]) for k in axes])
    return Derivatives(found, "forward", native)


def _reverse(named: Named, program: Program, of: Shapes, feeds: Mapping[str, Array]) -> Derivatives:
    """By a cotangent for each number of what is differentiated."""
    outputs = {name: named.outputs[name] for name in of}
    names = [change_of(output) for output in outputs.values()]
    targets = tuple(named.inputs.values())
    made = batch(differentiate(program, None, targets, tuple(outputs.values())), names, UNIT)
    given = {change_of(outputs[name]): shape for name, shape in of.items()}
    arrays, native = _computed(named, made, [change_of(t) for t in targets], given, feeds)
    found = {
        (name, other): part
        for other, target in named.inputs.items()
        for name, part in _apart(arrays[change_of(target)], of).items()
    }
    return Derivatives(found, "reverse", native)


def _computed(
    named: Named,
    program: Program,
    wanted: Collection[str],
    given: Shapes,
    feeds: Mapping[str, Array],
) -> tuple[dict[str, Array], Mapping[str, str]]:
    """What is wanted of a program, whose inputs that are given change by one number at a time."""
    outputs = tuple(output for output in program.outputs if output.name in wanted)
    backend = PROGRAM_BACKENDS["onnxruntime"]
    ready = prepare(replace(program, outputs=outputs), backend.order)
    loaded = backend.load(ready, named.prepared.placement)
    dtypes = {entry.value.name: entry.value.dtype for entry in program.inputs}
    fed = {**feeds, **units({name: np.empty(shape, dtypes[name]) for name, shape in given.items()})}
    made = loaded.run({entry.value.name: fed[entry.value.name] for entry in ready.inputs})
    return members_in_front(ready, made, _total(given)), loaded.native


def _apart(array: Array, shapes: Shapes) -> dict[str, Array]:
    """What belongs to each of those whose numbers stand along the first axis."""
    found, at = {}, 0
    for name, shape in shapes.items():
        rows = array[at : at + math.prod(shape)]
        found[name] = rows.reshape((*shape, *array.shape[1:]))
        at += math.prod(shape)
    return found


def _total(shapes: Shapes) -> int:
    return sum(map(math.prod, shapes.values()))


def _extents(name: str, value: Value, steps: int | None) -> tuple[int, ...]:
    """The shape of an output.

    Raises:
        InputError: nobody knows it before the run.
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
