"""Jacobians and Hessians, with all derivatives computed in one run.

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
from mdf_loop.api.specified_run import run_specified
from mdf_loop.errors import InputError
from mdf_loop.ir import Array, Program, Value
from mdf_loop.losses import Loss
from mdf_loop.lru_cache import LRUCache
from mdf_loop.passes.batching.batch import batch
from mdf_loop.passes.gradient.differentiate import cotangent_name, differentiate
from mdf_loop.passes.gradient.forward import (
    UNIT_EXTENT,
    jacobian_forward,
    tangent_name,
    unit_tangents,
)
from mdf_loop.passes.gradient.objective import OBJECTIVE_OUTPUT, add_objective
from mdf_loop.pipeline import prepare
from mdf_loop.reading.binding import BoundValues
from mdf_loop.results.derivatives import Derivatives
from mdf_loop.run.backend import PROGRAM_BACKENDS
from mdf_loop.run.gradient.terms import ObjectiveData, make_unscaled_terms
from mdf_loop.run.members import move_members_first
from mdf_loop.specification import RunSpecification

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]

MAX_CACHED_SESSIONS = 16
"""Number of sets of input types whose prepared Jacobians are cached."""


class Jacobian:
    """Function that computes the derivatives of outputs for many parameter values."""

    def __init__(self, differentiated_names: DifferentiatedNames) -> None:
        self.differentiated_names = differentiated_names
        self._prepared_derivatives: LRUCache[tuple[Program, _Forward | _Reverse]] = LRUCache(
            MAX_CACHED_SESSIONS
        )

    def run(self, spec: RunSpecification) -> Derivatives:
        """Return the Jacobian for the parameters and inputs of a specified run.

        Raises:
            LoopError: An operation has no derivative, or a parameter is no float. The message names it.
        """
        derivatives = self._compute_at_once(spec)
        if len(self.differentiated_names.wrt) == 1 or not has_nonfinite(derivatives.values()):
            return derivatives
        return self._recompute_by_name(spec, derivatives)

    def _recompute_by_name(self, spec: RunSpecification, derivatives: Derivatives) -> Derivatives:
        """Recompute nan and infinite derivatives for one parameter at a time.

        An infinite slope times a tangent of 0 is nan. If all names are computed at once, this nan also
        reaches derivatives by names that do not depend on the slope.
        """
        derivative_arrays = dict(derivatives.arrays)
        for name in self.differentiated_names.wrt:
            if has_nonfinite(
                array for (_, input_name), array in derivative_arrays.items() if input_name == name
            ):
                single_input_derivatives = cached_jacobian(
                    self.differentiated_names.restricted_to(name)
                ).run(spec)
                derivative_arrays |= {
                    output_and_input: np.where(
                        np.isfinite(derivative_arrays[output_and_input]),
                        derivative_arrays[output_and_input],
                        array,
                    )
                    for output_and_input, array in single_input_derivatives.items()
                }
        return with_fields(derivatives, arrays=derivative_arrays)

    def _compute_at_once(self, spec: RunSpecification) -> Derivatives:
        """Return the derivatives with respect to all parameters, computed by one run."""
        bound_values = _bind_single_run(self.differentiated_names, spec)
        prepared_derivatives = self._prepared_derivatives.get(bound_values.input_types)
        if prepared_derivatives is None:
            prepared_derivatives = self._prepare_derivatives(spec, bound_values)
            self._prepared_derivatives.put(bound_values.input_types, prepared_derivatives)
        program, derivative_mode = prepared_derivatives
        return derivative_mode.run(
            {
                **bound_values.with_random_keys(program).arrays,
                **self.differentiated_names.time_inputs(spec),
            }
        )

    def _prepare_derivatives(
        self, spec: RunSpecification, bound_values: BoundValues
    ) -> tuple[Program, _Forward | _Reverse]:
        """Return the model's program, with its Jacobian in forward or reverse mode."""
        differentiated_names = self.differentiated_names
        program = differentiated_names.program(spec, bound_values)
        values_by_name = {output.name: output.value for output in program.outputs}
        output_shapes = {
            name: _output_shape(name, values_by_name[output_name], spec.steps)
            for name, output_name in differentiated_names.outputs.items()
        }
        input_shapes = {
            name: array.shape
            for name, array in differentiated_names.values_in(bound_values).items()
        }
        if _count_elements(input_shapes) <= _count_elements(output_shapes):
            return program, _Forward(
                differentiated_names, program, differentiated_names.outputs, input_shapes
            )
        return program, _Reverse(differentiated_names, program, output_shapes)


def cached_jacobian(differentiated_names: DifferentiatedNames) -> Jacobian:
    """Return the function that computes a Jacobian, from the cache of the model if possible."""
    jacobian_cache = differentiated_names.prepared.jacobians
    cached_function = jacobian_cache.get(differentiated_names.cache_key)
    if not isinstance(cached_function, Jacobian):
        cached_function = Jacobian(differentiated_names)
        jacobian_cache.put(differentiated_names.cache_key, cached_function)
    return cached_function


def jacobian(differentiated_names: DifferentiatedNames, spec: RunSpecification) -> Derivatives:
    """Compute the Jacobian of outputs, and warn of nan or infinite derivatives.

    Raises:
        LoopError: An operation has no derivative, or a parameter is no float. The message names it.
    """
    derivatives = cached_jacobian(differentiated_names).run(spec)
    if has_nonfinite(derivatives.values()):
        results = run_specified(differentiated_names.prepared, spec)
        warn_of_jacobian(
            derivatives,
            {
                name: results[output_name]
                for name, output_name in differentiated_names.outputs.items()
            },
        )
    return derivatives


def hessian(
    differentiated_names: DifferentiatedNames, losses: Sequence[Loss], spec: RunSpecification
) -> Derivatives:
    """Compute the second derivatives of a scalar, and warn of nan or infinite derivatives.

    Raises:
        LoopError: An operation has no derivative, or a parameter is no float. The message names it.
    """
    bound_values = _bind_single_run(differentiated_names, spec)
    source_program = differentiated_names.program(spec, bound_values)
    objective_terms = make_unscaled_terms(losses, differentiated_names.outputs)
    input_names = tuple(differentiated_names.inputs.values())
    program = differentiate(
        add_objective(source_program, objective_terms), OBJECTIVE_OUTPUT, input_names
    )
    loss_data = ObjectiveData.from_losses(losses, objective_terms, source_program, spec.steps)
    feeds = {
        **bound_values.with_random_keys(source_program).arrays,
        **differentiated_names.time_inputs(spec),
        **loss_data.arrays,
    }
    cotangent_names = {
        name: cotangent_name(input_name) for name, input_name in differentiated_names.inputs.items()
    }
    input_shapes = {
        name: array.shape for name, array in differentiated_names.values_in(bound_values).items()
    }
    derivatives = _Forward(differentiated_names, program, cotangent_names, input_shapes).run(feeds)
    if has_nonfinite(derivatives.values()):
        outputs = {
            name: np.asarray(array)[None]
            for name, array in run_specified(differentiated_names.prepared, spec).items()
        }
        (objective_value,) = evaluate_scalars(losses, differentiated_names.outputs, outputs, 1, 0)
        warn_of_hessian(derivatives, objective_value)
    return derivatives


def _bind_single_run(
    differentiated_names: DifferentiatedNames, spec: RunSpecification
) -> BoundValues:
    """Return the arrays for the program's inputs, or raise InputError for a sweep or trials."""
    bound_values = differentiated_names.bind(spec)
    if bound_values.member_values or bound_values.streams.has_members:
        raise InputError("a Jacobian, or a Hessian, is of one run", hint="leave trials out")
    return bound_values


class _Forward:
    """Forward-mode Jacobian, with one tangent for each element of the parameters."""

    def __init__(
        self,
        differentiated_names: DifferentiatedNames,
        program: Program,
        outputs: Mapping[str, str],
        input_shapes: Shapes,
    ) -> None:
        output_names = tuple(dict.fromkeys(outputs.values()))
        forward_program = jacobian_forward(
            program, tuple(differentiated_names.inputs.values()), output_names
        )
        tangent_shapes = {
            tangent_name(differentiated_names.inputs[name]): shape
            for name, shape in input_shapes.items()
        }
        self._outputs, self._input_shapes = outputs, input_shapes
        self._unit_changes = _UnitChanges(
            differentiated_names,
            forward_program,
            [tangent_name(name) for name in output_names],
            tangent_shapes,
        )

    def run(self, feeds: Mapping[str, Array]) -> Derivatives:
        """Return the Jacobian by forward mode for given inputs of the program."""
        arrays, input_shapes, derivative_blocks = (
            self._unit_changes.run(feeds),
            self._input_shapes,
            {},
        )
        for name, output in self._outputs.items():
            for input_name, block in _split_blocks(
                arrays[tangent_name(output)], input_shapes
            ).items():
                input_axes = range(len(input_shapes[input_name]))
                derivative_blocks[name, input_name] = np.moveaxis(
                    block, input_axes, [k - len(input_shapes[input_name]) for k in input_axes]
                )
        return Derivatives(derivative_blocks, "forward", self._unit_changes.native)


class _Reverse:
    """Reverse-mode Jacobian, with one cotangent for each element of the outputs."""

    def __init__(
        self, differentiated_names: DifferentiatedNames, program: Program, output_shapes: Shapes
    ) -> None:
        outputs = {name: differentiated_names.outputs[name] for name in output_shapes}
        self._output_shapes = output_shapes
        self._cotangent_names = {
            name: cotangent_name(input_name)
            for name, input_name in differentiated_names.inputs.items()
        }
        cotangent_names = [cotangent_name(output) for output in outputs.values()]
        input_names = tuple(differentiated_names.inputs.values())
        reverse_program = differentiate(program, None, input_names, tuple(outputs.values()))
        cotangent_shapes = {
            cotangent_name(outputs[name]): shape for name, shape in output_shapes.items()
        }
        batched_program = batch(reverse_program, cotangent_names, UNIT_EXTENT)
        self._unit_changes = _UnitChanges(
            differentiated_names,
            batched_program,
            tuple(self._cotangent_names.values()),
            cotangent_shapes,
        )

    def run(self, feeds: Mapping[str, Array]) -> Derivatives:
        """Return the Jacobian by reverse mode for given inputs of the program."""
        arrays = self._unit_changes.run(feeds)
        derivative_blocks = {
            (name, input_name): block
            for input_name, cotangent in self._cotangent_names.items()
            for name, block in _split_blocks(arrays[cotangent], self._output_shapes).items()
        }
        return Derivatives(derivative_blocks, "reverse", self._unit_changes.native)


class _UnitChanges:
    """Program that computes the derivatives along all unit vectors of some inputs at once."""

    def __init__(
        self,
        differentiated_names: DifferentiatedNames,
        program: Program,
        output_names: Collection[str],
        shapes: Shapes,
    ) -> None:
        outputs = tuple(output for output in program.outputs if output.name in output_names)
        backend = PROGRAM_BACKENDS["onnxruntime"]
        self._program = prepare(replace(program, outputs=outputs), backend.pass_order)
        self._runnable = backend.load(self._program, differentiated_names.prepared.placement)
        self._direction_count = _count_elements(shapes)
        input_dtypes = {
            program_input.value.name: program_input.value.dtype for program_input in program.inputs
        }
        self._unit_tangents = unit_tangents(
            {name: np.empty(shape, input_dtypes[name]) for name, shape in shapes.items()}
        )

    @property
    def native(self) -> Mapping[str, str]:
        """Form in which each loop runs (as machine code or in ONNX Runtime), by loop name."""
        return self._runnable.native

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the derivatives along all unit vectors, which form the first axis."""
        all_feeds = {**feeds, **self._unit_tangents}
        outputs = self._runnable.run(
            {
                program_input.value.name: all_feeds[program_input.value.name]
                for program_input in self._program.inputs
            }
        )
        return move_members_first(self._program, outputs, self._direction_count)


def _split_blocks(array: Array, shapes: Shapes) -> dict[str, Array]:
    """Split an array along its first axis into one array per name, each with its own shape."""
    blocks_by_name, row_offset = {}, 0
    for name, shape in shapes.items():
        block_rows = array[row_offset : row_offset + math.prod(shape)]
        blocks_by_name[name] = block_rows.reshape((*shape, *array.shape[1:]))
        row_offset += math.prod(shape)
    return blocks_by_name


def _count_elements(shapes: Shapes) -> int:
    """Return the total number of elements of arrays with these shapes."""
    return sum(map(math.prod, shapes.values()))


def _output_shape(name: str, value: Value, steps: int | None) -> tuple[int, ...]:
    """Return the shape of an output, with a first axis of `steps` rows in a run over time.

    Raises:
        InputError: The shape is unknown before the run.
    """
    shape = value.shape or ()
    expected_shape = shape if steps is None else (steps, *shape[1:])
    known_extents = tuple(extent for extent in expected_shape if isinstance(extent, int))
    if value.shape is None or len(known_extents) < len(expected_shape):
        raise InputError(
            f"the shape of '{name}' is known only when it runs: {value.type}",
            value.where,
            "give the inputs and parameters that it depends on a shape",
        )
    return known_extents
