"""Results of a model as named arrays with axes and units, and reports about its loops."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from msgspec import Struct

from mdf_loop.durations import SECONDS
from mdf_loop.ir import Array, Data, StopReason
from mdf_loop.public_call import public_calls
from mdf_loop.run.execution_list import ExecutionList
from mdf_loop.run.recording.ticks import Ticks
from mdf_loop.stopped_by import REASONS


@dataclass(frozen=True, slots=True, eq=False)
class LoopReport:
    """Report about one loop: its number of iterations, and the reason why the loop ended.

    If members of a sweep, or trials, ended individually, both are arrays over members. `codes` has the
    reasons as integers.
    """

    iterations: int | Array
    stopped_by: StopReason | Array
    codes: int | Array = field(default=None, repr=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.codes is None:
            object.__setattr__(self, "codes", _reason_codes(self.stopped_by))

    @classmethod
    def of(cls, iterations: int | Array, codes: Array) -> LoopReport:
        """Create a loop report from the number of iterations and the code of the stop reason.

        Both may be arrays with an element for each member of a sweep.
        """
        if np.ndim(iterations) == 0:
            return cls(int(iterations), REASONS[int(codes)])
        return cls(iterations, np.array(REASONS, object)[codes], codes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LoopReport):
            return NotImplemented
        return np.array_equal(self.iterations, other.iterations) and np.array_equal(
            self.codes, other.codes
        )

    def __hash__(self) -> int:
        return hash((self.how_often, self.why))

    def unflatten(self, axes: tuple[Axis, ...]) -> LoopReport:
        """Return the report with its axis of members divided into several axes."""
        if isinstance(self.stopped_by, StopReason):
            return self
        return LoopReport.of(
            **split_first_axis({"iterations": self.iterations, "codes": self.codes}, axes)
        )

    @property
    def how_often(self) -> str:
        """Number of iterations as text, such as `7 iterations` or `177 to 3021 iterations`."""
        min_iterations, max_iterations = np.min(self.iterations), np.max(self.iterations)
        if min_iterations != max_iterations:
            return f"{min_iterations} to {max_iterations} iterations"
        return "1 iteration" if max_iterations == 1 else f"{max_iterations} iterations"

    @property
    def reasons(self) -> list[StopReason]:
        """Distinct reasons why the loop ended, the most frequent reason first."""
        if isinstance(self.stopped_by, StopReason):
            return [self.stopped_by]
        reason_counts = np.bincount(np.ravel(self.codes), minlength=len(StopReason))
        count_by_reason = {
            reason: int(count)
            for reason, count in zip(StopReason, reason_counts, strict=True)
            if count
        }
        return sorted(count_by_reason, key=lambda reason: -count_by_reason[reason])

    @property
    def why(self) -> str:
        """Reasons why the loop ended, as text."""
        return ", or ".join(reason.value for reason in self.reasons)

    @property
    def words(self) -> str | list[Any]:
        """Stop reason as one word, such as `condition`, or a list with a word for each member."""
        if isinstance(self.stopped_by, StopReason):
            return self.stopped_by.word
        reason_words = np.array([reason.word for reason in StopReason], object)
        return list(reason_words[self.codes].tolist())


def _reason_codes(reasons: StopReason | Array) -> int | Array:
    """Return the integer code of a stop reason, or an array of codes for an array of reasons."""
    if isinstance(reasons, StopReason):
        return reasons.code
    codes: Array = np.vectorize(lambda reason: reason.code, otypes=[np.intp])(reasons)
    return codes


class Axis(Struct, frozen=True, eq=False):
    """Leading axis of all outputs of a run: time, or the members of a sweep, or trials.

    `name` is `time`, `batch`, `trial` or a swept input of a grid. `coordinates` has the arrays along it.
    They are `time` in the model's unit, or `step` for a model without time. For a batch, they are the swept
    values by name, which may be arrays. For trials, they are the trial numbers. Times are computed on access
    (`numpy.asarray`). `is_swept` is True for a batch and for a swept input of a grid.
    """

    name: str
    coordinates: Mapping[str, Array | Ticks]
    is_swept: bool = False

    @property
    def length(self) -> int:
        """Number of positions along the axis."""
        return len(next(iter(self.coordinates.values())))


def split_first_axis(arrays: Mapping[str, Data], axes: tuple[Axis, ...]) -> Mapping[str, Data]:
    """Divide the first axis of arrays (all members of a grid) into one axis per grid axis.

    Data that are not NumPy arrays in memory are returned unchanged.
    """
    if len(axes) < 2:
        return arrays
    leading_shape = tuple(axis.length for axis in axes)
    return {
        name: data.reshape(*leading_shape, *data.shape[1:])
        if isinstance(data, np.ndarray)
        else data
        for name, data in arrays.items()
    }


@public_calls
class Outputs(Mapping[str, Data]):
    """Output arrays of a model by name (`node.port`), with axes, units and loop reports.

    A unique port id is sufficient as a name.

    An output is an array. A sequence is a list of arrays, and an absent optional value is None.

    Attributes:
        loops: A `LoopReport` by `node.function` for each loop of the outermost level.
        device: Device of the run: `cpu` or `cuda`.
        precision: Dtype of floating-point numbers.
        axes: Leading axes of all outputs, outermost first. Empty for one evaluation.
        lengths: Unpadded length of each row, for outputs over time whose rows may vary in length:
            `int64[time]`, or `int64[time, axes]` for rows of several axes. Members of a sweep are in
            front.
        dtypes: Types of the outputs that are not arrays, e.g. `sequence(float32)`.
        reduced: Names of reductions of a run over time, which have no axis of time.
        stopped_by: Reason for the end of the run. `StopReason.COMPLETED` for a complete run.
        reason: Reason for the end of the run as a sentence, with the completed steps.
        state: Values that the model carries into its next evaluation, for a run over time, or None.
        seed: Seed of the random numbers, or None for a sweep of seeds (see its axis).
        draws: True if the model draws random numbers.
        statistics: Parameters of each statistic over trials, by the name of the output: the probabilities of
            quantiles, or the edges of a histogram.
        dims: Names of the trailing axes of outputs, as stated in the model.
        native: Form of each loop by `node.function` (`time` for the loop over time): `native`,
            or `standard:` followed by the reason.
        execution_list: Sets of nodes that ran in each evaluation of a run over time, in order. None
            if the schedule depends on the run and was not recorded.
        checkpoint: File for `resume`, or None if no checkpoint was written.
        notes: Sentences about the run that a modeller should read, such as the first nan. They equal
            the warnings of `CompiledModel.run`.
        seconds: Duration of each loop that ran in chunks, by name (`time` for the loop over time). The
            empty name has the duration of a whole evaluation, which includes short loops.
    """

    _arrays: Mapping[str, Data]
    _known_units: Mapping[str, str]
    dtypes: Mapping[str, str]
    loops: Mapping[str, LoopReport]
    device: str
    precision: str
    axes: tuple[Axis, ...]
    lengths: Mapping[str, Array]
    reduced: frozenset[str]
    state: Mapping[str, Array] | None
    execution_list: ExecutionList | None
    checkpoint: Path | None
    native: Mapping[str, str]
    seed: int | None
    draws: bool
    statistics: Mapping[str, tuple[float, ...]]
    dims: Mapping[str, tuple[str, ...]]
    seconds: Mapping[str, float]
    stopped_by: StopReason
    reason: str
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        arrays: Mapping[str, Data],
        loops: Mapping[str, LoopReport],
        device: str,
        precision: str,
        *,
        axes: tuple[Axis, ...] = (),
        lengths: Mapping[str, Array] | None = None,
        units: Mapping[str, str] | None = None,
        dtypes: Mapping[str, str] | None = None,
        reduced: Collection[str] = (),
        stopped_by: StopReason = StopReason.COMPLETED,
        reason: str = "",
        state: Mapping[str, Array] | None = None,
        execution_list: ExecutionList | None = None,
        checkpoint: Path | None = None,
        native: Mapping[str, str] | None = None,
        seed: int | None = None,
        draws: bool = False,
        statistics: Mapping[str, tuple[float, ...]] | None = None,
        dims: Mapping[str, tuple[str, ...]] | None = None,
        seconds: Mapping[str, float] | None = None,
    ) -> None:
        vars(self).update(
            _arrays=dict(arrays),
            dtypes=dict(dtypes) if dtypes else {},
            loops=dict(loops),
            device=device,
            precision=precision,
            axes=axes,
            lengths=dict(lengths) if lengths else {},
            reduced=frozenset(reduced),
            state=state,
            execution_list=execution_list,
            checkpoint=checkpoint,
            native=dict(native) if native else {},
            seed=seed,
            draws=draws,
            statistics=dict(statistics) if statistics else {},
            dims=dict(dims) if dims else {},
            seconds=dict(seconds) if seconds else {},
            stopped_by=stopped_by,
            reason=reason or stopped_by.value,
            _known_units=units or {},
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"results are immutable, and '{name}' cannot be set")

    def with_changes(self, arrays: Mapping[str, Data] | None = None, **attributes: Any) -> Self:
        """Return a copy of the outputs with other arrays (None keeps them) and other attributes."""
        changed_outputs = object.__new__(type(self))  # copy.copy takes ten times as long
        vars(changed_outputs).update(vars(self), **attributes)
        if arrays is not None:
            vars(changed_outputs)["_arrays"] = dict(arrays)
        return changed_outputs

    @property
    def units(self) -> Mapping[str, str]:
        """Units of outputs and coordinates by name, for example `mV`."""
        all_units = {"time": SECONDS, **self._known_units}
        coordinate_names = (name for axis in self.axes for name in axis.coordinates)
        return {
            name: all_units[name]
            for name in (*coordinate_names, *self._arrays)
            if name in all_units
        }

    def divide_first_axis(self, axes: tuple[Axis, ...]) -> Self:
        """Return a copy of the outputs whose first axis is divided into the given axes."""
        return self.with_changes(
            split_first_axis(self._arrays, axes),
            axes=(*axes, *self.axes[1:]),
            lengths=split_first_axis(self.lengths, axes),
            loops={name: report.unflatten(axes) for name, report in self.loops.items()},
        )

    def axes_of(self, name: str) -> tuple[Axis, ...]:
        """Return the leading axes of an output, such as time."""
        if name in self.reduced:
            return tuple(axis for axis in self.axes if axis.name != "time")
        return self.axes

    def __getitem__(self, name: str) -> Data:
        return self._arrays[self.full_name(name)]

    def full_name(self, name: str) -> str:
        """Return the full output name `node.port` that is equal to `name` or ends with `.name`.

        Raises:
            KeyError: No output matches, or several outputs match.
        """
        if name in self._arrays:
            return name
        matching_names = [full_name for full_name in self._arrays if full_name.endswith(f".{name}")]
        if len(matching_names) == 1:
            return matching_names[0]
        raise KeyError(
            f"no output '{name}'; there are {', '.join(self._arrays)}; what else a model computes a run "
            "gives with record=['node.item'] (--record node.item)"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)
