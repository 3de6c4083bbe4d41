"""Delays: values of earlier iterations that a loop body reads.

    v_2: {of: v_out, back: 2, initial: [5.0, 6.0]}

    iteration     0     1     2          3
    v_2           5.0   6.0   v_out[0]   v_out[1]

`initial` has the values from before the loop, oldest first. One number stands for all of them. All delays
of one value share one history: a chain of carried values or, for long delays, one carried array whose rows
move up by one in each iteration.

Source: Theano, `theano.scan`, taps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from mdf_loop.document.parts import DocumentValue
from mdf_loop.errors import CarryShapeError, CarryTypeError, LoopError, ModelError, Poisoned
from mdf_loop.ir import Shape, Value, type_text
from mdf_loop.ir.types import is_tensor, kind_of
from mdf_loop.lower import Scope, cast, lower_expression, tensor
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.operators import check_value
from mdf_loop.lower.reductions import count_reduced_elements
from mdf_loop.ops.build_helpers import extents, ints, kind
from mdf_loop.reading.entries import NamedEntry, parse_entries
from mdf_loop.reading.extents import Extents

_DELAY_KEYS = ("of", "back", "initial")
_MAX_CHAIN_DEPTH = 10
"""Maximum depth of a history that is a chain. A carried value costs 0.1 us per iteration, an array 1 us."""

_MAX_WIDE_CHAIN_DEPTH, _WIDE_ROW_ELEMENTS = 256, 64
"""Maximum chain depth for wide rows, and the number of elements from which a row is wide.

In an array, all rows are copied in each iteration. Measured with ONNX Runtime 1.31 on one core, per
iteration: numbers, 64 back: chain 8.1 us, array 2.5 us; rows of 1000, 64 back: chain 2.9 us, array 60 us.
"""


class DelayForm(Struct, frozen=True):
    """Arguments of a delay (value of an earlier iteration), as written in the document."""

    name: str
    source_name: str
    iterations_back: int
    initial_expression: DocumentValue | None
    where: str = ""


def parse_delays(value: DocumentValue, where: str) -> tuple[DelayForm, ...]:
    """Parse the loop argument `delays`, which names values of earlier iterations."""
    return tuple(
        _parse_delay(delay_entry) for delay_entry in parse_entries(value, where, _DELAY_KEYS)
    )


def _parse_delay(entry: NamedEntry) -> DelayForm:
    """Parse the arguments of one delay, an entry of the loop argument `delays`.

    Raise ModelError if a field is wrong.
    """
    source_name, iterations_back = entry.expression("of"), entry.integer("back", 1)
    if not isinstance(source_name, str):
        raise ModelError(
            f"'of' of the delay '{entry.name}' is the name of a value of the body, not {source_name!r}",
            entry.where,
        )
    if iterations_back < 1:
        raise ModelError(
            f"the delay '{entry.name}' is {iterations_back} iterations back",
            entry.where,
            "1 is the iteration before; what comes later is not known yet",
        )
    initial_expression = entry.fields.get("initial")
    return DelayForm(
        entry.name, source_name.strip(), iterations_back, initial_expression, entry.where
    )


# --- histories --------------------------------------------------------------------------------


class History(Struct, frozen=True, eq=False):
    """Last `depth` values of one name in a loop body, from which all its delays are read.

    Attributes:
        source_name: Name of the value in the body.
        depth: Number of values.
        named_delays: Name of each delay, with its number of iterations.
        values_before_loop: Values before the loop, oldest first: [depth, *row].
        where: Path in the document.
    """

    source_name: str
    depth: int
    named_delays: tuple[tuple[str, int], ...]
    values_before_loop: Value
    where: str

    @property
    def is_chain(self) -> bool:
        """True if a chain of carried values stores the past values, False if one array does."""
        known_extents = [extent for extent in self.row_shape or () if isinstance(extent, int)]
        is_wide = math.prod(known_extents) >= _WIDE_ROW_ELEMENTS
        return self.depth <= (_MAX_WIDE_CHAIN_DEPTH if is_wide else _MAX_CHAIN_DEPTH)

    @property
    def row_shape(self) -> Shape:
        """Shape of the delayed value in one iteration of the loop."""
        return extents(self.values_before_loop)[1:]

    @property
    def carried_names(self) -> tuple[str, ...]:
        """Names of the loop-carried values that store the past values."""
        if not self.is_chain:
            return (f"{self.source_name} before",)
        return tuple(
            f"{self.source_name} {distance} before" for distance in range(1, self.depth + 1)
        )

    def create_initial_values(self, b: ModelBuilder) -> tuple[Value, ...]:
        """Return the initial loop-carried values, which hold the values from before the loop.

        A chain has the newest value first.
        """
        if not self.is_chain:
            return (self.values_before_loop,)
        row_positions = (
            b.constant(np.array(self.depth - distance)) for distance in range(1, self.depth + 1)
        )
        return tuple(
            b.op("Gather", self.values_before_loop, position, axis=0) for position in row_positions
        )

    def read_delayed_values(
        self, b: ModelBuilder, body_inputs: Sequence[Value]
    ) -> dict[str, Value]:
        """Return the value of each delay, by name, from the carried values `body_inputs`."""
        if self.is_chain:
            return {
                name: body_inputs[iterations_back - 1]
                for name, iterations_back in self.named_delays
            }
        row_positions = {
            name: b.constant(np.array(self.depth - iterations_back))
            for name, iterations_back in self.named_delays
        }
        return {
            name: b.op("Gather", body_inputs[0], position, axis=0)
            for name, position in row_positions.items()
        }

    def append_value(
        self, b: ModelBuilder, body_inputs: Sequence[Value], value: Value
    ) -> tuple[Value, ...]:
        """Return the past values for the next iteration, with `value` as the newest."""
        if self.is_chain:
            return (value, *body_inputs[:-1])
        newer_rows = b.op("Slice", body_inputs[0], ints(b, 1), ints(b, self.depth), ints(b, 0))
        return (b.op("Concat", newer_rows, b.op("Unsqueeze", value, ints(b, 0)), axis=0),)


# --- values before the loop -------------------------------------------------------------------


class SharedDelays(Struct, frozen=True, eq=False):
    """Delays of one value of the loop body that share one initial value.

    The initial value is the lowered expression `initial_value`.
    """

    source_name: str
    delays: tuple[DelayForm, ...]
    initial_value: Value

    @property
    def depth(self) -> int:
        """Number of iterations of the longest delay."""
        return max(delay.iterations_back for delay in self.delays)

    def build_history(
        self, b: ModelBuilder, row: RowType | None, outer_extents: Extents
    ) -> History:
        """Build the store of past values from which all of these delays are read.

        `row` is the type of the delayed value, or None if unknown.

        `outer_extents` has the extents that are known outside the loop.

        Raises:
            LoopError: If the initial values do not fit.
        """
        named_delays = tuple((delay.name, delay.iterations_back) for delay in self.delays)
        delay_path = self.delays[0].where
        with b.at(delay_path, self.source_name):
            initial_value = self.initial_value
            if row is not None and _is_convertible_number(b, initial_value, row.dtype):
                initial_value = cast(b, initial_value, row.dtype)
            values_before_loop = self._read_values_before_loop(b, initial_value, row)
            if row is not None:
                values_before_loop = self._broadcast_to_rows(
                    b, values_before_loop, row, outer_extents
                )
        return History(self.source_name, self.depth, named_delays, values_before_loop, delay_path)

    def _read_values_before_loop(
        self, b: ModelBuilder, initial: Value, row: RowType | None
    ) -> Value:
        """Return the values of a delayed name before the first iteration, with the shape [depth, *row]."""
        initial_extents = extents(initial)
        if not initial_extents:  # one number stands for all values
            return b.op("Expand", initial, ints(b, self.depth))
        if self.depth == 1 and _is_single_value(initial_extents, row):
            return b.op("Unsqueeze", initial, ints(b, 0))
        row_count = count_reduced_elements(b, initial, 0)
        initial_row_count = (
            b.constant(np.array(row_count)) if isinstance(row_count, int) else row_count
        )
        is_long_enough = b.op("LessOrEqual", b.constant(np.array(self.depth)), initial_row_count)
        too_few_values_error = CarryShapeError(
            f"the delays of '{self.source_name}' need the {self.depth} values before the loop, but their "
            f"initial is {initial.type}",
            hint=f"give {self.depth} values, oldest first: initial: [...]",
        )
        last_positions = check_value(
            b, b.constant(np.arange(-self.depth, 0)), is_long_enough, too_few_values_error
        )
        return b.op("Gather", initial, last_positions, axis=0)

    def _broadcast_to_rows(
        self, b: ModelBuilder, values_before_loop: Value, row: RowType, outer_extents: Extents
    ) -> Value:
        """Broadcast scalar initial values of a delay to the shape of the delayed value.

        Raise CarryTypeError if the dtypes of initial values and delayed value differ.
        """
        row_extents = extents(values_before_loop)[1:]
        if values_before_loop.dtype != row.dtype:
            raise CarryTypeError(
                f"the delays of '{self.source_name}' hold {values_before_loop.dtype} before the loop, but the value is "
                f"{row}",
                hint="write the initial values in the dtype of the value",
            )
        if row_extents or not row.shape:
            return values_before_loop
        values_with_axes = b.op(
            "Reshape", values_before_loop, ints(b, self.depth, *(1 for _ in row.shape))
        )
        full_shape = outer_extents.tensor(b, (self.depth, *row.shape))
        return (
            values_before_loop
            if full_shape is None
            else b.op("Expand", values_with_axes, full_shape)
        )


def _is_single_value(initial_extents: tuple[int | str, ...], row: RowType | None) -> bool:
    """Return True if `initial` is the value of a delay itself, not a list with one value."""
    if row is None or row.shape is None:
        return initial_extents[0] != 1
    return len(initial_extents) == len(row.shape) and (initial_extents[0] != 1 or row.shape[0] == 1)


def _is_convertible_number(b: ModelBuilder, initial: Value, dtype: str) -> bool:
    """Return True if an initial value is a plain number that can be converted to `dtype`."""
    if not b.is_weak(initial) or not is_tensor(dtype) or kind(initial) == "b":
        return False
    return kind_of(dtype) == "f" or (kind_of(dtype) in "iu" and kind(initial) == "i")


class RowType(Struct, frozen=True):
    """Dtype and shape of a carried or delayed value in one iteration."""

    dtype: str
    shape: Shape

    def __str__(self) -> str:
        return type_text(self.dtype, self.shape)

    def fits(self, history: History) -> bool:
        """Return True if the past values of a delay can be stored with this dtype and shape.

        An unknown extent fits every extent.
        """
        row_shape = history.row_shape
        if self.shape is None or row_shape is None:
            return self.dtype == history.values_before_loop.dtype
        extent_pairs = zip(self.shape, row_shape, strict=False)
        return (
            self.dtype == history.values_before_loop.dtype
            and len(self.shape) == len(row_shape)
            and all(
                extent == row_extent or isinstance(extent, str) or isinstance(row_extent, str)
                for extent, row_extent in extent_pairs
            )
        )

    def mismatch_error(self, history: History) -> LoopError:
        """Return the error for initial values of a delay that differ from this dtype or shape."""
        delay_names = " and ".join(f"'{name}'" for name, _ in history.named_delays)
        return CarryShapeError(
            f"{delay_names} would be {type_text(history.values_before_loop.dtype, history.row_shape)} before the loop, but "
            f"'{history.source_name}' is {self}",
            history.where,
            "give the initial values the shape of the value, oldest first",
        )


def read_delays(
    b: ModelBuilder, forms: tuple[DelayForm, ...], scope: Scope
) -> tuple[SharedDelays, ...]:
    """Convert the initial values of a loop's delays to program values.

    Errors in several delays are raised together.
    """
    delays_by_history: dict[tuple[str, str], list[DelayForm]] = {}
    for delay_form in sorted(forms, key=lambda delay: -delay.iterations_back):
        with b.findings.catch():
            delays_by_history.setdefault(
                _find_history_key(delay_form, delays_by_history), []
            ).append(delay_form)
    shared_delays: list[SharedDelays] = []
    for (source_name, _), delays in delays_by_history.items():
        with b.findings.catch(), b.at(delays[0].where, source_name):
            initial_value = tensor(
                b,
                lower_expression(
                    b, delays[0].initial_expression, scope, f"delays.{delays[0].name}"
                ),
            )
            shared_delays.append(SharedDelays(source_name, tuple(delays), initial_value))
    if sum(len(delay_group.delays) for delay_group in shared_delays) < len(forms):
        raise Poisoned
    return tuple(shared_delays)


def _find_history_key(
    form: DelayForm, groups: Mapping[tuple[str, str], list[DelayForm]]
) -> tuple[str, str]:
    """Return the key of the group of delays that share their past values with a delay.

    `groups` has the longer delays by key.
    """
    if form.initial_expression is not None:
        return form.source_name, repr(form.initial_expression)
    history_keys = [history_key for history_key in groups if history_key[0] == form.source_name]
    if len(history_keys) == 1:
        return history_keys[0]
    raise ModelError(
        f"the delay '{form.name}' has no 'initial'",
        form.where,
        f"what was '{form.source_name}' before the loop? give {form.iterations_back} values, oldest first",
    )
