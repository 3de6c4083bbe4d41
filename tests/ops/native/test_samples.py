"""Every operator in a loop: the native loop equals the standard loop, or names the reason for no machine code."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.errors import Finding, OperandError, RunError, UnsupportedError
from mdf_loop.ir import Input, Loop, Output, Program, Recorded, Scanned, Value
from mdf_loop.ops import row_of
from mdf_loop.ops.registry import Reproducibility
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.device import Placement
from mdf_loop.run.onnxruntime.session import Session
from tests.ops.operator_samples import SAMPLES, WHOLE, F
from tests.placements import REQUIRED, STANDARD, kernels_checked
from tests.soak import some

TOLERANCE_BY_DTYPE = {"float64": 1e-12, "float32": 3e-6}
"""Relative tolerance of sums and functions that are rounded differently."""

DTYPES = ("float64", "float32", "int64", "int32", "bool")
TEXT_OPERATORS = {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"}


OutputsOrFindings: TypeAlias = Mapping[str, np.ndarray] | tuple[Finding, ...]


class Sample:
    """A loop of two iterations that applies an operator to its sample and to the reversed sample.

    Indices, shapes and similar operands are constants, unless `computed` is set.
    """

    def __init__(self, name: str, dtype: str, *, computed: bool = False) -> None:
        sample, self.b = SAMPLES[name], Builder()
        is_integer = np.dtype(dtype).kind in "iu"
        attributes = WHOLE.get(name, sample.attributes) if is_integer else sample.attributes
        self.inside = self.b.body()
        self.scanned: list[Scanned] = []
        self.arrays: dict[str, np.ndarray] = {}
        operands = [self._operand(sample_input, dtype, computed) for sample_input in sample.inputs]
        with self.inside.at("$.here"):
            output_values = self.inside.multi(
                name, *operands, output_count=sample.output_count, **attributes
            )
        self.program = prepare(self._program(output_values), ONNXRUNTIME)

    def _operand(self, entry: object, dtype: str, computed: bool) -> Value | None:
        if entry is None:
            return None
        array = entry.array(dtype) if isinstance(entry, F) else np.asarray(entry)
        if not isinstance(entry, F) and not computed:
            return self.b.constant(array)
        rows = self.b.new(str(array.dtype), (2, *array.shape), f"x{len(self.arrays)}")
        reversed_array = array.ravel()[::-1].reshape(array.shape) if isinstance(entry, F) else array
        self.arrays[rows.name] = np.stack([array, reversed_array])
        row = self.inside.new(rows.dtype, array.shape, "row")
        self.scanned.append(Scanned(rows, row))
        return row

    def _program(self, values: tuple[Value, ...]) -> Program:
        b, body_builder = self.b, self.inside
        i, condition_in = body_builder.new("int64", (), "i"), body_builder.new("bool", (), "go")
        recorded_values = tuple(
            Recorded(
                value,
                b.new(value.dtype, None if value.shape is None else (2, *value.shape), "stack"),
            )
            for value in values
        )
        two, ops = b.constant(np.array(2)), tuple(body_builder.ops)
        b.append(
            Loop(
                "loop",
                two,
                None,
                i,
                condition_in,
                None,
                (),
                recorded_values,
                ops,
                tuple(self.scanned),
                where="$",
            )
        )
        inputs = tuple(Input(scanned_input.rows) for scanned_input in self.scanned)
        outputs = tuple(
            Output(f"y{k}", recorded_value.stack)
            for k, recorded_value in enumerate(recorded_values)
        )
        return Program("p", inputs, tuple(b.ops), outputs)

    def run(self, placement: Placement) -> OutputsOrFindings:
        """Return the outputs of the loop, or the findings of its error."""
        try:
            return Session(self.program, placement).run(self.arrays)
        except RunError as error:
            return error.findings


def samples() -> Iterator[object]:
    """Yield test parameters: a sample of the operators, with few of other dtypes than float64."""
    usual_samples = some([sample for sample in _all() if sample[1] == "float64"], 2)
    other_samples = some([sample for sample in _all() if sample[1] != "float64"], 12)
    for name, dtype, is_computed in (*usual_samples, *other_samples):
        marks = [pytest.mark.soak] if dtype == "float64" else [pytest.mark.slow, pytest.mark.soak]
        constness = "computed" if is_computed else "known"
        yield pytest.param(name, dtype, is_computed, id=f"{name}-{dtype}-{constness}", marks=marks)


def _all() -> Iterator[tuple[str, str, bool]]:
    for name, dtype, is_computed in itertools.product(sorted(SAMPLES), DTYPES, (False, True)):
        if row_of(name).is_random or name in TEXT_OPERATORS:
            continue
        constant_inputs = [
            sample_input
            for sample_input in SAMPLES[name].inputs
            if sample_input is not None and not isinstance(sample_input, F)
        ]
        if not is_computed or constant_inputs:
            yield name, dtype, is_computed


@pytest.mark.parametrize(("name", "dtype", "computed"), [*samples()])
def test_operators_equal_the_standard_loop(name: str, dtype: str, computed: bool) -> None:
    try:
        sample = Sample(name, dtype, computed=computed)
    except (OperandError, UnsupportedError):
        return  # the operator does not exist in this dtype
    try:
        with kernels_checked():
            native_outcome = sample.run(REQUIRED)
    except UnsupportedError as error:
        reason = error.findings[0].what.partition("native: ")[2]
        assert name in STANDARD_OPERATORS, reason
        return
    expected = sample.run(STANDARD)
    if not isinstance(expected, Mapping):
        assert native_outcome == expected
        return
    is_exact = row_of(name).reproducibility is not Reproducibility.RUNTIME_DEPENDENT
    for key, array in expected.items():
        tolerance = (
            0 if is_exact or array.dtype.kind != "f" else TOLERANCE_BY_DTYPE[str(array.dtype)]
        )
        np.testing.assert_allclose(native_outcome[key], array, tolerance, tolerance, strict=True)


STANDARD_OPERATORS = {
    *[
        "AffineGrid",
        "BlackmanWindow",
        "CenterCropPad",
        "Col2Im",
        "Compress",
        "ConstantOfShape",
        "ConvInteger",
        "CumSum",
        "DFT",
        "DeformConv",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "Einsum",
        "EyeLike",
        "GridSample",
        "GroupNormalization",
        "HammingWindow",
        "HannWindow",
        "MatMulInteger",
        "MaxPool",
        "MaxRoiPool",
        "MeanVarianceNormalization",
        "MelWeightMatrix",
        "NegativeLogLikelihoodLoss",
        "NonMaxSuppression",
        "NonZero",
        "Pad",
        "QLinearConv",
        "QLinearMatMul",
        "QuantizeLinear",
        "Range",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "Resize",
        "ReverseSequence",
        "RoiAlign",
        "STFT",
        "ScatterElements",
        "ScatterND",
        "Slice",
        "SoftmaxCrossEntropyLoss",
        "Split",
        "Squeeze",
        "TfIdfVectorizer",
        "Tile",
        "TopK",
        "Unique",
        "Unsqueeze",
    ]
}
"""Operators without machine code for some operands, such as computed shapes or numbers of elements."""
