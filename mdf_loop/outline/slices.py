"""Slices, delays and recordings of a loop -> their outlines, in short words.

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

_WRITTEN_AXES = 3
"""Up to so many axes a slice is written with colons."""


def outline_slice(form: SliceForm, iteration: str = "") -> SliceOutline:
    """A slice, with the name of the iteration number where the body has one."""
    how = ", ".join(_slice_words(form))
    return SliceOutline(form.name, form.of, indices(form.axis, iteration or "i"), how)


def indices(axis: int, iteration: str) -> str:
    """`i`, `:, i`, `..., i, :`: the brackets of a slice on an axis."""
    if not -_WRITTEN_AXES <= axis <= _WRITTEN_AXES:
        return f"axis {axis}: {iteration}"
    if axis >= 0:
        return ", ".join([*[":"] * axis, iteration])
    return ", ".join(["...", iteration, *[":"] * (-axis - 1)])


def _slice_words(form: SliceForm) -> Iterator[str]:
    backwards = form.stride < 0
    if form.part is not None:
        yield f"parts of {form.part}"
    if backwards:
        yield "backwards"
    if (form.start, form.end) != ((-1, 0) if backwards else (0, -1)):
        yield f"from {form.start} to {form.end}"
    if abs(form.stride) != (form.part or 1):
        yield f"stride {abs(form.stride)}"


def outline_delay(form: DelayForm) -> DelayOutline:
    """A delay."""
    return DelayOutline(form.name, form.of, form.back, form.initial)


def recorded_words(form: RecordingForm | None) -> str:
    """How a recorded value comes out, where it is not just stacked."""
    return "" if form is None else ", ".join(_recorded_words(form))


def _recorded_words(form: RecordingForm) -> Iterator[str]:
    if form.concat:
        yield f"joined along axis {form.axis}"
    elif form.axis != 0:
        yield f"on axis {form.axis}"
    if form.reverse:
        yield "last iteration first"
    if form.last:
        yield "only the last one"
    if form.length is not None:
        yield f"padded to {value_text(form.length)} with {value_text(form.pad)}"
