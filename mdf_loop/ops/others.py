"""Operators of signals and of text."""

from __future__ import annotations

from mdf_loop.ops.compositions import text
from mdf_loop.ops.newer_forms import axis_as_operand
from mdf_loop.ops.registry import Row, no

ROWS = (
    Row(name="DFT", newer_forms=((20, axis_as_operand),)),
    Row(name="STFT"),
    Row(name="BlackmanWindow"),
    Row(name="HammingWindow"),
    Row(name="HannWindow"),
    Row(
        name="MelWeightMatrix",
        not_composed="give its arguments as constants, then it is computed when compiling",
    ),
    Row(
        name="StringNormalizer",
        wrong_kernel=text.lacks_locale,
        composed=text.string_normalizer,
    ),
    Row(name="TfIdfVectorizer"),
    Row(name="StringConcat", may_fail=no),
    Row(name="StringSplit", may_fail=no),
    Row(name="RegexFullMatch", may_fail=no),
    Row(name="ImageDecoder"),
)
