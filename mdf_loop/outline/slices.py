"""Outlines of a loop's slices, delays and recordings, with short remarks.

y_t: {of: y, axis: -1, stride: -1}  ->  y_t = y[..., i], backwards
w:   {reverse: true, axis: 1}       ->  on axis 1, last iteration first
"""

from __future__ import annotations

from collections.abc import Iterator

from mdf_loop.outline.text import value_text
from mdf_loop.outline.values import DelayOutline, SliceOutline
from mdf_loop.reading.delays import DelayForm
from mdf_loop.reading.recordings import RecordingForm
from mdf_loop.reading.slices import SliceForm

_MAX_AXES_WITH_COLONS = 3
"""Maximum position of an axis for which indices are written with colons. Others are written as `axis 4: i`."""


def outline_slice(form: SliceForm, iteration: str = "") -> SliceOutline:
    """Return the outline of a loop's sliced input.

    `iteration` is the name of the body's iteration number.
    """
    remark_text = ", ".join(_slice_remarks(form))
    return SliceOutline(
        form.name, form.source_expression, indices(form.axis, iteration or "i"), remark_text
    )


def indices(axis: int, iteration: str) -> str:
    """Return the text of the indices that select iteration i on an axis, such as `:, i`."""
    if not -_MAX_AXES_WITH_COLONS <= axis <= _MAX_AXES_WITH_COLONS:
        return f"axis {axis}: {iteration}"
    if axis >= 0:
        return ", ".join([*[":"] * axis, iteration])
    return ", ".join(["...", iteration, *[":"] * (-axis - 1)])


def _slice_remarks(form: SliceForm) -> Iterator[str]:
    """Yield remarks about the options of a loop's sliced input, such as `backwards`."""
    is_backwards = form.stride < 0
    if form.part_size is not None:
        yield f"parts of {form.part_size}"
    if is_backwards:
        yield "backwards"
    if (form.start, form.end) != ((-1, 0) if is_backwards else (0, -1)):
        yield f"from {form.start} to {form.end}"
    if abs(form.stride) != (form.part_size or 1):
        yield f"stride {abs(form.stride)}"


def outline_delay(form: DelayForm) -> DelayOutline:
    """Return the outline of a loop's delayed value."""
    return DelayOutline(form.name, form.source_name, form.iterations_back, form.initial_expression)


def recording_remark(form: RecordingForm | None) -> str:
    """Return a remark about the options of a recorded value, or "" without options."""
    return "" if form is None else ", ".join(_recording_remarks(form))


def _recording_remarks(form: RecordingForm) -> Iterator[str]:
    """Yield remarks about the options of a recorded value, such as `on axis 1`."""
    if form.is_concatenated:
        yield f"joined along axis {form.axis}"
    elif form.axis != 0:
        yield f"on axis {form.axis}"
    if form.is_reversed:
        yield "last iteration first"
    if form.keeps_last_row:
        yield "only the last one"
    if form.length_expression is not None:
        yield f"padded to {value_text(form.length_expression)} with {value_text(form.pad_expression)}"
