"""Interface between fits and a compiled model: outputs for many parameters, and derivatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from mdf_loop.api.differentiation import DifferentiatedNames
from mdf_loop.api.jacobian import Jacobian, cached_jacobian
from mdf_loop.api.members import run_members_with_nan, with_member
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.api.suited_method import read_program, refuse_draws, warn_of_steps
from mdf_loop.cached_property import cached_property
from mdf_loop.cluster.clients import Connection
from mdf_loop.cluster.environment import check_environment, environment_versions
from mdf_loop.cluster.tasks import Tasks
from mdf_loop.errors import LoopError, UnsupportedError
from mdf_loop.ir import Array, StopReason
from mdf_loop.request.run_options import DEFAULT_RETRIES
from mdf_loop.specification import RunSpecification, Selection

MAX_SWEEP_BYTES = 1 << 26
"""Largest total size of the outputs of one sweep, in bytes."""

ASSUMED_RUN_COUNT = 100
"""Approximate number of runs of a fit, from which the runs decide whether machine code pays off."""

CLUSTER_CHUNK_COUNT = 16
"""Number of chunks into which members are divided for the workers of a cluster."""

RELATIVE_STEP = 1e-6
"""Relative step of central differences, for models without exact derivatives."""


_MemberChunk = tuple[int, dict[str, Array]]
"""Number of the first of several consecutive members, and the parameter values of these members."""


def _run_chunk_on_worker(
    shared_arguments: tuple[PreparedModel, RunSpecification, dict[str, str]], chunk: _MemberChunk
) -> Any:
    """Run a chunk of sweep members on a worker of a cluster, and return the members' outputs."""
    prepared_model, spec, caller_environment = shared_arguments
    check_environment(caller_environment, "of this fit")
    return run_members_with_nan(prepared_model, spec, chunk[1])


class FittedModel:
    """Compiled model as a function of its free parameters, for fits.

    Attributes:
        prepared: The compiled model.
        output_names: Names of the selected outputs.
        spec: Specification of a run with the selected outputs.
        free_names: Names of the free parameters.
        difference_reason: Reason why exact derivatives are unavailable, or an empty text.
    """

    def __init__(
        self,
        prepared_model: PreparedModel,
        spec: RunSpecification,
        outputs: Sequence[str],
        free: Sequence[str],
        connection: Connection | None = None,
    ) -> None:
        self.prepared = prepared_model
        self.output_names = tuple(outputs)
        self.spec = replace(
            spec, selection=Selection(only=self.output_names), runs=ASSUMED_RUN_COUNT
        )
        self.free_names = tuple(free)
        self._member_bytes: int | None = None
        self._connection = connection
        self._tasks: Tasks[_MemberChunk, dict[str, Array]] | None = None
        if connection is not None:
            self._tasks = Tasks(
                connection,
                _run_chunk_on_worker,
                (prepared_model, self.spec, environment_versions()),
                DEFAULT_RETRIES,
            )
        self.difference_reason: str = ""

    def outputs(self, members: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs for many parameter sets, stacked along the first axis.

        The outputs are computed in batches of bounded size.
        """
        member_count = len(next(iter(members.values())))
        if self._tasks is not None and member_count > 1:
            return self._outputs_from_cluster(self._tasks, members, member_count)
        batches: list[dict[str, Array]] = []
        done_member_count = 0
        while done_member_count < member_count:
            batch_size = (
                1
                if self._member_bytes is None
                else max(1, MAX_SWEEP_BYTES // max(self._member_bytes, 1))
            )
            sweep = {
                name: values[done_member_count : done_member_count + batch_size]
                for name, values in members.items()
            }
            batches.append(run_members_with_nan(self.prepared, self.spec, sweep))
            done_member_count += len(next(iter(sweep.values())))
            if self._member_bytes is None:
                self._member_bytes = sum(array.nbytes for array in batches[0].values())
        return {
            name: np.concatenate([batch[name] for batch in batches]) for name in self.output_names
        }

    def _outputs_from_cluster(
        self,
        tasks: Tasks[_MemberChunk, dict[str, Array]],
        members: Mapping[str, Array],
        member_count: int,
    ) -> dict[str, Array]:
        """Return the outputs for many parameter sets, computed in chunks by a cluster."""
        chunk_size = -(-member_count // CLUSTER_CHUNK_COUNT)
        chunks = [
            (
                first_member,
                {
                    name: values[first_member : first_member + chunk_size]
                    for name, values in members.items()
                },
            )
            for first_member in range(0, member_count, chunk_size)
        ]
        outputs_by_chunk: dict[int, Any] = {}
        for outcome in tasks.outcomes(chunks, self._reason_to_end):
            if outcome.error is not None and not isinstance(outcome.error, LoopError):
                raise outcome.error
            outputs_by_chunk[outcome.item[0]] = outcome.error or outcome.result
        for first_member, member_values in chunks:
            # The deadline has passed: perhaps the cluster has no worker.
            if first_member not in outputs_by_chunk:
                outputs_by_chunk[first_member] = run_members_with_nan(
                    self.prepared, self.spec, member_values
                )
        computed_outputs = [
            arrays for arrays in outputs_by_chunk.values() if not isinstance(arrays, LoopError)
        ]
        if not computed_outputs:
            raise outputs_by_chunk[0]
        nan_rows = {
            name: np.full_like(output_rows[:1], np.nan, float)
            for name, output_rows in computed_outputs[0].items()
        }
        for first_member, member_values in chunks:
            if isinstance(
                outputs_by_chunk[first_member], LoopError
            ):  # all members of this chunk failed
                chunk_length = len(next(iter(member_values.values())))
                outputs_by_chunk[first_member] = {
                    name: np.repeat(nan_row, chunk_length, axis=0)
                    for name, nan_row in nan_rows.items()
                }
        return {
            name: np.concatenate(
                [outputs_by_chunk[first_member][name] for first_member, _ in chunks]
            )
            for name in self.output_names
        }

    def _reason_to_end(self) -> StopReason | None:
        """Return the reason to stop a computation on the cluster, or None."""
        assert self._connection is not None
        return StopReason.TIME_LIMIT if self._connection.is_overdue else None

    def jacobian(self, values: Mapping[str, Array]) -> Mapping[tuple[str, str], Array]:
        """Return the derivatives of the outputs with respect to the free parameters.

        Without exact derivatives, return central differences and set `difference_reason` to the reason.
        """
        if not self.difference_reason:
            try:
                values_of_member = with_member(self.prepared.document, self.spec.values, values)
                return self._jacobian.run(
                    self._differentiated_names.specification(
                        values_of_member.set, values_of_member.inputs
                    )
                )
            except UnsupportedError as error:
                self.difference_reason = error.findings[0].what
        return self._central_differences(values)

    def check_method(self, values: Mapping[str, Array], method: str | None) -> None:
        """Check that the outputs suit least squares, if the user did not choose this method.

        Args:
            values: Values of the free parameters.
            method: Method that the user requests, or None for the default.

        Raises:
            InputError: An output depends on random numbers, and the user does not request least squares.
        """
        if method == "least_squares":
            return
        try:
            program = read_program(self._differentiated_names, self.spec.values, values)
        except UnsupportedError:  # the run or its derivatives raise the error
            return
        refuse_draws(program)
        if method is None:
            warn_of_steps(self._differentiated_names, program)

    @cached_property
    def _differentiated_names(self) -> DifferentiatedNames:
        """Names of the selected outputs and of the free parameters to differentiate by."""
        return DifferentiatedNames(self.prepared, self.output_names, self.free_names, self.spec)

    @cached_property
    def _jacobian(self) -> Jacobian:
        """Function that computes the Jacobian of the outputs by the free parameters."""
        return cached_jacobian(self._differentiated_names)

    def _central_differences(self, values: Mapping[str, Array]) -> dict[tuple[str, str], Array]:
        """Return derivatives by central differences for all elements of the free parameters.

        One sweep per parameter computes them.
        """
        derivatives = {}
        for name, parameter_value in values.items():
            parameter_value = np.asarray(parameter_value)
            step_sizes = RELATIVE_STEP * np.maximum(np.abs(parameter_value).ravel(), 1.0)
            offsets = (np.eye(parameter_value.size) * step_sizes).reshape(
                parameter_value.size, *parameter_value.shape
            )
            perturbed_values = {
                name: np.concatenate([parameter_value + offsets, parameter_value - offsets])
            }
            fixed_values = {
                other_name: np.stack([other_value] * 2 * parameter_value.size)
                for other_name, other_value in values.items()
                if other_name != name
            }
            for output_name, array in self.outputs({**perturbed_values, **fixed_values}).items():
                upper_outputs, lower_outputs = (
                    array[: parameter_value.size],
                    array[parameter_value.size :],
                )
                slopes = (upper_outputs - lower_outputs) / (
                    2 * step_sizes.reshape(-1, *(1,) * (array.ndim - 1))
                )
                slopes = np.moveaxis(slopes, 0, -1)
                derivatives[output_name, name] = slopes.reshape(
                    *array.shape[1:], *parameter_value.shape
                )
        return derivatives
