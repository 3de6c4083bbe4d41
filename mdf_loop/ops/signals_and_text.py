"""Registry rows of operators on signals and text."""

from __future__ import annotations

from mdf_loop.ops.decompositions import text
from mdf_loop.ops.opset_changes import axis_as_operand
from mdf_loop.ops.registry import Row, never

OPERATOR_ROWS = (
    Row(name="DFT", newer_encodings=((20, axis_as_operand),)),
    Row(name="STFT"),
    Row(name="BlackmanWindow"),
    Row(name="HammingWindow"),
    Row(name="HannWindow"),
    Row(
        name="MelWeightMatrix",
        undecomposed_reason="give its arguments as constants, then it is computed when compiling",
    ),
    Row(
        name="StringNormalizer",
        wrong_kernel=text.lacks_locale,
        decomposition=text.string_normalizer,
    ),
    Row(name="TfIdfVectorizer"),
    Row(name="StringConcat", may_fail=never),
    Row(name="StringSplit", may_fail=never),
    Row(name="RegexFullMatch", may_fail=never),
    Row(name="ImageDecoder"),
)
