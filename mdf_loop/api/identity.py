"""Texts that identify a run's arguments, so that only an equal run resumes its checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.ir import Data
from mdf_loop.reading.binding import BoundValues
from mdf_loop.run.control.checkpoint import digest_of_arrays, digest_of_document
from mdf_loop.specification import RunSpecification


def identity(
    prepared: PreparedModel,
    specification: RunSpecification,
    bound_values: BoundValues,
    recorded: Iterable[str],
) -> dict[str, str]:
    """Return texts that identify a run by its outputs and all arguments that determine results.

    The number of steps is no part of the identity, so that a longer run can resume.
    """
    options = prepared.options  # the compilation options, before a time limit changes them
    selection, state = specification.selection, specification.values.state
    arguments = {
        "run": "one evaluation" if specification.steps is None else "over time",
        "kept": ", ".join(recorded),
        "engine": None if specification.engine == "onnxruntime" else specification.engine,
        "device": prepared.placement.device,
        "native": None if prepared.placement.native == "auto" else prepared.placement.native,
        "precision": options.precision,
        "shapes": options.shapes,
        "max_iterations": options.max_iterations,
        "unroll": options.unroll,
        "dt": specification.dt,
        "every": selection.every,
        "when": selection.when,
        "execution_list": specification.execution_list or None,
        "output": specification.output if specification.streams else None,
        "seed": bound_values.streams.seed if bound_values.keys_by_input else None,
        "trials": bound_values.streams.trials,
        "nan": "watched" if specification.controls.watches else None,
    }
    return {
        "model": digest_of_document(prepared.document),
        **{argument: str(value) for argument, value in arguments.items() if value is not None},
        **_digest_arrays("input", bound_values.inputs.arrays),
        **_digest_arrays("parameter", bound_values.settings.arrays),
        **_digest_arrays("sweep", bound_values.member_values),
        **({} if state is None else {"state": digest_of_arrays(state)}),
    }


def _digest_arrays(kind: str, arrays: Mapping[str, Data]) -> dict[str, str]:
    """Return a digest of each array, with keys such as `parameter cell.g`."""
    return {f"{kind} {name}": _digest(name, array) for name, array in arrays.items()}


def _digest(name: str, data: Any) -> str:
    """Return a digest of an array, of the arrays in a sequence, or of None."""
    arrays = [data] if isinstance(data, np.ndarray) else list(data or ())
    return digest_of_arrays({f"{name} {k}": np.asarray(array) for k, array in enumerate(arrays)})
