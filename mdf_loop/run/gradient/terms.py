"""Terms of a differentiated objective, with their targets and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.errors import InputError
from mdf_loop.ir import Array, Program, Value
from mdf_loop.ir.types import numpy_dtype
from mdf_loop.losses import Loss
from mdf_loop.passes.gradient.objective import Term


def make_terms(losses: Sequence[Loss], names: Mapping[str, str]) -> tuple[Term, ...]:
    """Convert losses to terms of an objective, in which each mean has a scale factor."""
    terms = make_unscaled_terms(losses, names)
    return tuple(replace(term, is_scaled=term.term_kind == "mean") for term in terms)


def make_unscaled_terms(losses: Sequence[Loss], names: Mapping[str, str]) -> tuple[Term, ...]:
    """Convert losses to terms of an objective without scale factors.

    The terms are for one program that computes all rows.
    """
    return tuple(
        Term(names[loss.output], loss.term_kind, term_index=k) for k, loss in enumerate(losses)
    )


class ObjectiveData(Struct, frozen=True):
    """Targets and weights of the terms of an objective, as arrays by program input."""

    terms: tuple[Term, ...]
    arrays: Mapping[str, Array]
    steps: int | None
    trials: int = 1

    @classmethod
    def from_losses(
        cls,
        losses: Sequence[Loss],
        terms: tuple[Term, ...],
        program: Program,
        steps: int | None,
        trials: int = 1,
    ) -> ObjectiveData:
        """Convert the targets and weights of losses to the dtype and shape of the outputs.

        Raises:
            InputError: The shape of the data differs from the shape of the output.
        """
        value_by_output = {output.name: output.value for output in program.outputs}
        data_by_input = {
            term.data: _convert_data(
                loss, value_by_output[term.output], steps, alike=term.has_scalar_data
            )
            for loss, term in zip(losses, terms, strict=True)
            if loss.data is not None and term.data is not None
        }
        return cls(terms, data_by_input, steps, trials)

    def feeds_of_all_steps(self) -> dict[str, Array]:
        """Return the objective's program inputs for all steps of a run, by name.

        The inputs are targets, weights, and a factor for each mean term.
        """
        return {**self.arrays, **self._factors(1.0)}

    def feeds_of_steps(self, begin: int, end: int) -> dict[str, Array]:
        """Return the objective's program inputs for steps `begin` to `end` - 1, by name.

        The inputs are targets, weights, and a factor for each mean term.
        """
        assert self.steps is not None
        chunk_rows = {name: array[begin:end] for name, array in self.arrays.items()}
        return {**chunk_rows, **self._factors((end - begin) / self.steps)}

    def _factors(self, share: float) -> dict[str, Array]:
        """Return, for each mean term, the weight of a chunk's mean in the mean over all steps.

        The weights are keyed by program input, and divided by the number of trials. `share` is the share of a chunk in all steps.
        """
        mean_factor = np.array(share / self.trials)
        return {
            term.data: mean_factor
            for term in self.terms
            if term.is_scaled and term.data is not None
        }


def _convert_data(loss: Loss, value: Value, steps: int | None, *, alike: bool) -> Array:
    """Convert the targets or weights of a loss to the dtype and shape of the output."""
    output_shape = tuple(value.shape or ())
    shape = output_shape if steps is None else (steps, *output_shape[1:])
    data_array = np.asarray(loss.data, numpy_dtype(value.dtype))
    if alike:
        return data_array
    has_fixed_shape = all(isinstance(extent, int) for extent in shape)
    if data_array.ndim == 0 and has_fixed_shape:
        return np.full([int(extent) for extent in shape], data_array)
    has_output_shape = len(data_array.shape) == len(shape) and all(
        not isinstance(extent, int) or extent == array_extent
        for extent, array_extent in zip(shape, data_array.shape, strict=True)
    )
    if not has_output_shape:
        raise InputError(
            f"the data of {loss.term_kind} of '{loss.output}' have shape {list(data_array.shape)}, "
            f"but the output has {list(shape)}",
            hint="give a number for each element of the output"
            + " at each step" * (steps is not None),
        )
    return data_array
