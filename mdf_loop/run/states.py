"""Model states: the values that a model carries from one run to the next, by name.

    step               number of completed evaluations
    time               time of the last completed evaluation, in the unit of time of the model
    random keys        keys of all random streams, if the model draws random numbers
    parameter A.v      and all other values that the next evaluation reads

In a sweep, values have a leading axis of members. Counters of the schedule have this axis only if the
members differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from mdf_loop.archives import read_arrays
from mdf_loop.array_conversion import Ragged, as_supported_array
from mdf_loop.errors import InputError
from mdf_loop.files import checked_place, checked_target, write_arrays, write_atomically
from mdf_loop.ir import Array, Value
from mdf_loop.ir.types import numpy_dtype
from mdf_loop.run.recording.labels import convert_to_storable

State: TypeAlias = Mapping[str, Array]

MAX_STEP = 1 << 62
"""Maximum step number."""

_HINT = "give results.state of a run of this model that took the same inputs and gave the same"


def convert_to_type(array: Array, value: Value, leading_ndim: int = 0) -> Array:
    """Convert an array to the dtype and shape of a carried value.

    `leading_ndim` is the number of leading axes, which remain.
    """
    converted_array = (
        array if value.dtype == "string" else array.astype(numpy_dtype(value.dtype), copy=False)
    )
    if value.shape is None or converted_array.shape[leading_ndim:] == value.shape:
        return converted_array
    missing_axes = len(value.shape) - (converted_array.ndim - leading_ndim)
    expanded_array = converted_array.reshape(
        (
            *converted_array.shape[:leading_ndim],
            *(1,) * missing_axes,
            *converted_array.shape[leading_ndim:],
        )
    )
    extent_pairs = zip(value.shape, expanded_array.shape[leading_ndim:], strict=True)
    fixed_extents = (
        extent if isinstance(extent, int) else array_extent for extent, array_extent in extent_pairs
    )
    shape = (*expanded_array.shape[:leading_ndim], *fixed_extents)
    return (
        expanded_array
        if expanded_array.shape == shape
        else np.array(np.broadcast_to(expanded_array, shape))
    )


def is_swept(array: Array, value: Value) -> bool:
    """Return True if the array of a carried value has a leading axis over members of a sweep."""
    return value.shape is not None and array.ndim > len(value.shape)


def drop_equal_members(array: Array) -> Array:
    """Remove the leading axis over members from an array if all members are equal."""
    return array[0, ...] if (array == array[:1]).all() else array


KEYS_NAME = "random keys"
"""Name of the keys of the random streams in a state."""


# --- states from users --------------------------------------------------------------------------


def checked_state(
    state: Any, carried: Mapping[str, Value], members: int | None, per_member: Collection[str]
) -> State:
    """Validate an initial state, and convert it to the types of the model's carried values.

    Args:
        state: Final state of an earlier run.
        carried: Carried values of the model by name.
        members: Number of members of a sweep. All members may start from the state of one run.
        per_member: Names of values that each member of a sweep has separately.

    Raises:
        InputError: The state does not fit this model.
    """
    if not isinstance(state, Mapping):
        raise InputError(f"the state is no mapping of arrays: {state!r}"[:200], hint=_HINT)
    if missing_names := sorted({"step", "time", *carried} - set(state)):
        raise InputError(
            f"the state is not one of this model: it has no '{missing_names[0]}'", hint=_HINT
        )
    checked_arrays: dict[str, Array] = {
        "step": _check_step(state["step"]),
        "time": _check_time(state["time"]),
    }
    for name, value in carried.items():
        array = _check_entry(name, state[name], value, members)
        leading_ndim = int(is_swept(array, value))
        typed_array = convert_to_type(array, value, leading_ndim)
        if members is not None and not leading_ndim and name in per_member:
            typed_array = np.repeat(typed_array[None], members, axis=0)
        checked_arrays[name] = typed_array
    return checked_arrays


def check_keys(written_keys: Any, *allowed: Array) -> None:
    """Raise an error if a state was computed with another seed, or other trials, than the run.

    Raises:
        InputError: The keys of the state equal none of the allowed keys.
    """
    if not any(
        np.array_equal(written_keys, random_keys)
        for random_keys in allowed
        if written_keys is not None
    ):
        raise InputError(
            "the state was reached with other random numbers: those of another seed, or of other trials",
            hint="give the seed and the trials of the run that it is of",
        )


def _check_step(written_step: Any) -> Array:
    step = as_supported_array(written_step, "'step' of the state")
    if step.shape != () or step.dtype.kind not in "iu" or not 1 <= step <= MAX_STEP:
        raise InputError(
            f"'step' of the state is no whole number above 0: {written_step!r}", hint=_HINT
        )
    return step


def _check_time(written_time: Any) -> Array:
    time = as_supported_array(written_time, "'time' of the state")
    if time.shape != () or time.dtype.kind not in "iuf" or not np.isfinite(time):
        raise InputError(
            f"'time' of the state must be one finite number, not {written_time!r}", hint=_HINT
        )
    return time


def _check_entry(name: str, content: Any, value: Value, members: int | None) -> Array:
    """Convert the entry `name` of a user's state to an array, and check its dtype and shape."""
    try:
        array = as_supported_array(content, f"'{name}' of the state")
    except Ragged:
        array = np.empty(0, object)
    member_shape = array.shape
    if members is not None and is_swept(array, value):
        if member_shape[0] != members:
            raise InputError(
                f"the state is of a sweep of {member_shape[0]} members, but this sweep has {members}",
                hint="sweep the same values again, or start from the state of one run",
            )
        member_shape = member_shape[1:]
    if not _can_represent(value.dtype, array) or not _can_broadcast(member_shape, value):
        raise InputError(
            f"'{name}' of the state is {array.dtype}{list(array.shape)}, "
            f"but this model carries {value.type}",
            hint=_HINT,
        )
    return array


def _can_represent(dtype: str, array: Array) -> bool:
    if dtype == "string":
        return array.dtype.kind in "OUS"
    if dtype == "bfloat16":
        converted_array = array.astype(numpy_dtype(dtype))
        return np.array_equal(
            converted_array.astype(np.float64), array.astype(np.float64), equal_nan=True
        )
    is_widening = array.dtype.kind in "biu" and np.dtype(dtype).kind == "f"
    return array.dtype.kind in "biuf" and (is_widening or np.can_cast(array.dtype, dtype, "safe"))


def _can_broadcast(shape: tuple[int, ...], value: Value) -> bool:
    """Return True if an array of shape `shape` can be broadcast to a carried value."""
    if value.shape is None:
        return True
    if len(shape) > len(value.shape):
        return False
    trailing_extents = value.shape[len(value.shape) - len(shape) :]
    return all(
        a in (1, b) or isinstance(b, str) for a, b in zip(shape, trailing_extents, strict=True)
    )


# --- files ----------------------------------------------------------------------------------------


def check_state_file(path: str | Path) -> Path:
    """Check that a state can be written to a path, and return the path."""
    target_path = checked_target(path, (".npz",), "a state")
    checked_place(target_path)
    return target_path


def missing_state_error() -> InputError:
    """Return the error that a run has no final state."""
    return InputError(
        "only a compiled model run over time ends in a state",
        hint="give steps, and run the model compiled",
    )


def save_state(path: str | Path, state: State | None) -> None:
    """Write the final state of a run to a `.npz` file.

    Raises:
        InputError: There is no state, or the file cannot be written. No partial file remains.
    """
    if state is None:
        raise missing_state_error()
    storable_arrays = {name: convert_to_storable(array) for name, array in state.items()}
    write_atomically(check_state_file(path), lambda stream: write_arrays(stream, storable_arrays))


def load_state(path: str | Path) -> State:
    """Read the state of a model from a `.npz` file that `save_state` wrote.

    Raises:
        InputError: The file does not exist, or contains no state.
    """
    state = read_arrays(path)
    if not {"step", "time"} <= set(state):
        raise InputError(
            f"'{Path(path).name}' holds no state",
            hint="--final-state of a run over time writes one",
        )
    return state
