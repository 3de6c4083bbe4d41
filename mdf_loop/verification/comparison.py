"""Comparison of arrays of a compiled model with arrays of another engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdf_loop.html_tables import html_table, number_text
from mdf_loop.ir import Array, Data
from mdf_loop.public_call import public_calls
from mdf_loop.text_escaping import escape_to_one_line

_DTYPE_KINDS = {"bool", "int", "uint", "float"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of one output or parameter between a compiled model and another engine.

    Attributes:
        name: `node.port` or `node.parameter`.
        engine: The other engine: `modeci_mdf` or `interpreter`.
        equal: True if the shapes and the numbers are equal within the tolerance.
        max_abs: Largest absolute difference, which is infinite if only one side has a number.
        max_rel: Largest relative difference.
        types: Dtype and shape of both sides, the compiled model first.
        first_step: First step of a run over time that differs, or None.
        values: First two values that differ, the compiled model first, or None.
        is_parameter: True for a parameter.
    """

    name: str  # `node.port` or `node.parameter`
    engine: str  # other engine
    equal: bool  # numbers are equal within the tolerance
    max_abs: float  # largest absolute difference
    max_rel: float  # largest relative difference
    types: tuple[str, str]  # dtype and shape of both sides
    first_step: int | None = None  # first step that differs
    values: tuple[str, str] | None = None  # first two values that differ
    is_parameter: bool = False

    @property
    def kinds(self) -> tuple[str, str] | None:
        """Dtypes of both compared arrays if exactly one is an integer type, else None."""
        our_dtype_name, their_dtype_name = (type_text.partition("[")[0] for type_text in self.types)
        dtype_kinds = {dtype.rstrip("0123456789") for dtype in (our_dtype_name, their_dtype_name)}
        return (
            (our_dtype_name, their_dtype_name)
            if len(dtype_kinds) == 2 and dtype_kinds < _DTYPE_KINDS
            else None
        )

    def __str__(self) -> str:
        verdict = "equal" if self.equal else "DIFFERENT"
        return escape_to_one_line(
            f"{verdict:9}  {self.name}  {self.types[0]} against {self.engine} {self.types[1]}: "
            f"max abs {self.max_abs:.3g}, max rel {self.max_rel:.3g}{self._remark()}"
        )

    def _remark(self) -> str:
        """Return a text about the first difference, or about equal numbers with different dtypes."""
        if self.equal:
            return f"; equal, but {self.kinds[0]} against {self.kinds[1]}" if self.kinds else ""
        step_text = "" if self.first_step is None else f" at step {self.first_step}"
        values_text = "" if self.values is None else f": {self.values[0]} against {self.values[1]}"
        return f", first{step_text}{values_text}" if step_text or values_text else ""


@public_calls
@dataclass(frozen=True, slots=True)
class Verification:
    """Result of `verify`, with the comparison of each output and parameter of a model.

    Attributes:
        comparisons: One comparison for each name and each engine.
        tolerance: Relative difference up to which numbers count as equal.
        notes: Remarks about the comparison.
    """

    comparisons: tuple[Comparison, ...]
    tolerance: float  # relative tolerance of the comparison
    notes: tuple[str, ...] = ()  # notes on differences between the engines

    @property
    def equal(self) -> bool:
        """True if all compared values are equal within the tolerance."""
        return all(comparison.equal for comparison in self.comparisons)

    @property
    def bit_for_bit(self) -> bool:
        """True if all compared values are identical bit for bit."""
        return self.equal and all(comparison.max_abs == 0 for comparison in self.comparisons)

    def __str__(self) -> str:
        verdict = "equal, bit for bit" if self.bit_for_bit else "equal"
        verdict = verdict if self.equal else "different"
        output_lines = [
            str(comparison) for comparison in self.comparisons if not _is_summarized(comparison)
        ]
        output_lines += self._summaries()
        output_lines += [f"{verdict} (tolerance: relative {self.tolerance:g})"]
        output_lines += [f"note: {note}" for note in self.notes]
        return "\n".join(map(escape_to_one_line, output_lines))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        table_rows = [
            (
                comparison.name,
                comparison.engine,
                "equal" if comparison.equal else "different",
                *map(number_text, (comparison.max_abs, comparison.max_rel)),
            )
            for comparison in sorted(self.comparisons, key=lambda each: each.equal)
        ]
        column_titles = ("name", "engine", "result", "largest difference", "relative")
        return html_table(str(self).splitlines()[-1 - len(self.notes)], column_titles, table_rows)

    def _summaries(self) -> list[str]:
        """Return a line per engine with the number of equal parameters and largest differences."""
        summary_lines = []
        for engine in dict.fromkeys(comparison.engine for comparison in self.comparisons):
            equal_parameters = [
                comparison
                for comparison in self.comparisons
                if comparison.engine == engine and _is_summarized(comparison)
            ]
            if equal_parameters:
                count_text = (
                    "1 parameter"
                    if len(equal_parameters) == 1
                    else f"{len(equal_parameters)} parameters"
                )
                max_absolute_difference, max_relative_difference = (
                    max(parameter.max_abs for parameter in equal_parameters),
                    max(parameter.max_rel for parameter in equal_parameters),
                )
                summary_lines.append(
                    f"equal      {count_text} against {engine}: "
                    f"max abs {max_absolute_difference:.3g}, max rel {max_relative_difference:.3g}"
                )
        return summary_lines


def _is_summarized(comparison: Comparison) -> bool:
    return comparison.equal and comparison.is_parameter


def compare(
    name: str,
    engine: str,
    ours: Array,
    theirs: Array,
    tolerance: float,
    *,
    is_parameter: bool = False,
) -> Comparison:
    """Compare an array of a compiled model with the array of another engine.

    Axes of extent 1 are ignored, and nan is equal to nan. Floats are equal if they differ by the tolerance
    or by a few last bits of the largest one. Integers must be identical.
    """
    is_equal, max_absolute_difference, max_relative_difference, _, first_different_values = (
        _measure_difference((ours,), (theirs,), tolerance)
    )
    array_types = (type_of(ours), type_of(theirs))
    return Comparison(
        name,
        engine,
        is_equal,
        max_absolute_difference,
        max_relative_difference,
        array_types,
        None,
        first_different_values,
        is_parameter=is_parameter,
    )


def compare_rows(
    name: str,
    engine: str,
    ours: Sequence[Array],
    theirs: Sequence[Array],
    tolerance: float,
    types: tuple[str, str],
    *,
    is_parameter: bool = False,
) -> Comparison:
    """Compare the recorded rows of two runs over time, where each row may have another shape."""
    measured_difference = _measure_difference(ours, theirs, tolerance)
    return Comparison(
        name,
        engine,
        *measured_difference[:3],
        types,
        *measured_difference[3:],
        is_parameter=is_parameter,
    )


def compare_members(
    name: str,
    engine: str,
    ours: Data,
    theirs: Data,
    tolerance: float,
    *,
    is_parameter: bool = False,
) -> tuple[Comparison, ...]:
    """Compare two arrays, or compare two sequences of arrays member by member.

    Sequences of different lengths, and values of different kinds, give one comparison that is not equal.
    """
    if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray):
        return (compare(name, engine, ours, theirs, tolerance, is_parameter=is_parameter),)
    member_kinds = (_describe_kind(ours), _describe_kind(theirs))
    length_difference = 0.0 if member_kinds[0] == member_kinds[1] else np.inf
    sequence_comparison = Comparison(
        name,
        engine,
        not length_difference,
        length_difference,
        length_difference,
        member_kinds,
        is_parameter=is_parameter,
    )
    if length_difference or not ours:
        return (sequence_comparison,)
    return tuple(
        compare(
            f"{name}[{k}]", engine, our_member, their_member, tolerance, is_parameter=is_parameter
        )
        for k, (our_member, their_member) in enumerate(zip(ours, theirs, strict=True))
    )


def _describe_kind(data: Data) -> str:
    """Describe a value by its dtype, by the length of a sequence, or as `absent`."""
    if data is None:
        return "absent"
    return f"sequence of {len(data)}" if isinstance(data, list) else f"{data.dtype}"


def type_of(array: Array) -> str:
    """Return the dtype and shape of an array as text, such as `float64[2, 3]`."""
    return f"{array.dtype}{list(array.shape)}"


_MeasuredDifference = tuple[bool, float, float, int | None, tuple[str, str] | None]
"""Equality, largest absolute and relative difference, first different row, first different values."""


def _measure_difference(
    ours: Sequence[Array], theirs: Sequence[Array], tolerance: float
) -> _MeasuredDifference:
    """Return the largest differences between corresponding rows, and the first different values."""
    if len(ours) != len(theirs):
        step_count_texts = (f"{len(ours)} steps", f"{len(theirs)} steps")
        return False, np.inf, np.inf, min(len(ours), len(theirs)), step_count_texts
    for row_index, (our_row, their_row) in enumerate(zip(ours, theirs, strict=True)):
        if extents_without_ones(our_row) != extents_without_ones(their_row) or _is_text(
            our_row
        ) != _is_text(their_row):
            return False, np.inf, np.inf, row_index, (type_of(our_row), type_of(their_row))
    our_elements, their_elements = (
        np.concatenate([row.reshape(-1) for row in rows]) for rows in (ours, theirs)
    )
    if _is_text(our_elements):
        absolute_differences = relative_differences = np.where(
            our_elements == their_elements, 0.0, np.inf
        )
    else:
        absolute_differences, relative_differences = _element_differences(
            our_elements, their_elements
        )
    if _is_integer(our_elements) and _is_integer(their_elements):
        tolerance = 0.0
    if not absolute_differences.any():
        return True, 0.0, 0.0, None, None
    max_absolute_difference, max_relative_difference = (
        float(absolute_differences.max()),
        float(relative_differences.max()),
    )
    if max_relative_difference <= tolerance:
        return True, max_absolute_difference, max_relative_difference, None, None
    first_different_index = int(np.argmax(relative_differences > tolerance))
    row_index = int(
        np.searchsorted(
            np.cumsum([our_row.size for our_row in ours]), first_different_index, side="right"
        )
    )
    return (
        False,
        max_absolute_difference,
        max_relative_difference,
        row_index,
        _format_values(our_elements[first_different_index], their_elements[first_different_index]),
    )


def _element_differences(our_elements: Array, their_elements: Array) -> tuple[Array, Array]:
    """Return the absolute and relative differences between the elements of two arrays.

    The relative difference is 0 up to 8 units in the last place of the largest value. The unit is that of
    the coarser dtype.
    """
    are_integers = _is_integer(our_elements) and _is_integer(their_elements)
    min_integer_difference, machine_epsilon = (
        (1.0, 0.0)
        if are_integers
        else (0.0, max(_machine_epsilon(our_elements), _machine_epsilon(their_elements)))
    )
    is_equal = our_elements == their_elements
    our_elements, their_elements = (
        our_elements.astype(np.float64),
        their_elements.astype(np.float64),
    )
    with np.errstate(all="ignore"):
        is_equal |= np.isnan(our_elements) & np.isnan(their_elements)
        absolute_differences = np.where(
            is_equal, 0, np.maximum(np.abs(our_elements - their_elements), min_integer_difference)
        )
        absolute_differences = np.nan_to_num(absolute_differences, nan=np.inf, posinf=np.inf)
        magnitudes = np.maximum(np.abs(our_elements), np.abs(their_elements))
        rounding_error = (
            8 * machine_epsilon * np.max(magnitudes, where=np.isfinite(magnitudes), initial=0)
        )
        relative_differences = np.where(
            absolute_differences <= rounding_error, 0, absolute_differences / magnitudes
        )
    return absolute_differences, np.nan_to_num(relative_differences, nan=np.inf, posinf=np.inf)


def _machine_epsilon(array: Array) -> float:
    """Return the machine epsilon of an array's dtype, or of float64 for integers and bools."""
    return float(np.finfo(array.dtype if array.dtype.kind == "f" else np.float64).eps)


def extents_without_ones(array: Array) -> list[int]:
    """Return a shape without axes of extent 1, which modeci_mdf's engine adds to numbers."""
    return [extent for extent in array.shape if extent != 1]


def _format_values(our_number: object, their_number: object) -> tuple[str, str]:
    """Format two numbers with 6 digits, or with 17 digits if 6 digits do not differ."""
    for digit_count in (6, 17):
        formatted_values = tuple(
            f"{number:.{digit_count}g}" if isinstance(number, np.floating) else str(number)
            for number in (our_number, their_number)
        )
        if formatted_values[0] != formatted_values[1]:
            break
    return formatted_values[0], formatted_values[1]


def _is_integer(array: Array) -> bool:
    return array.dtype.kind in "biu"


def _is_text(array: Array) -> bool:
    return array.dtype.kind in "OUS"
