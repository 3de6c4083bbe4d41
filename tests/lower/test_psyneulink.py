"""Functions of PsyNeuLink that MDF does not define, and noise of strength 0."""

from __future__ import annotations

import numpy as np
import pytest

import mdf_loop
from mdf_loop import ir
from mdf_loop.errors import OperandError, UnknownFunctionError
from mdf_loop.lower import lower_function
from mdf_loop.lower.psyneulink import FORMULAS
from mdf_loop.lower.syntax import draws_numbers
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code
from tests.lower.lower_machine import Lowered, assert_same

X = np.array([[0.5, -1.0, 2.0], [0.0, 0.25, -0.75]])
SOFTMAX = {"type": "SoftMax", "output": "all", "per_item": True, "mask_threshold": None}
SUM = {"type": "LinearCombination", "operation": "sum", "weights": None, "exponents": None}
NUMBERS = {
    "gain": 1.5,
    "bias": 0.25,
    "leak": 0.1,
    "scale": 2.0,
    "offset": 0.5,
    "standard_deviation": 0.7,
}


def lower_call(name, metadata, **args):
    arguments = {"variable0": "x", **args}
    return Lowered(lambda b, scope: lower_function(b, name, arguments, scope, metadata), {"x": X})


def softmax(x):
    e = np.exp(1.5 * x - np.max(1.5 * x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


ROWS = [
    ("identity", {"type": "Identity"}, lambda x: x),
    (
        "relu",
        {"type": "ReLU"},
        lambda x: 2 * np.maximum(1.5 * (x - 0.25), 0.1 * 1.5 * (x - 0.25)) + 0.5,
    ),
    (
        "gaussian",
        {"type": "Gaussian"},
        lambda x: 2 * np.exp(-((x - 0.25) ** 2) / (2 * 0.7**2)) / np.sqrt(2 * np.pi * 0.7) + 0.5,
    ),
    ("softmax", SOFTMAX, softmax),
    ("linearcombination", SUM, lambda x: 2 * x.sum(axis=0) + 0.5),
    ("linearcombination", {**SUM, "operation": "product"}, lambda x: 2 * x.prod(axis=0) + 0.5),
]


@pytest.mark.parametrize(("name", "metadata", "formula"), ROWS)
def test_psyneulink_functions_equal_their_formulas(name, metadata, formula):
    assert_same(lower_call(name, metadata, **NUMBERS).interpret(), [formula(X)])


def test_all_psyneulink_functions_are_tested():
    options = [{k: v for k, v in metadata.items() if k != "type"} for _, metadata, _ in ROWS]
    still = [formula for formula in FORMULAS if not draws_numbers(formula.expression)]
    elsewhere = [formula.name for formula in still if formula.subexpressions]
    assert elsewhere == ["driftdiffusionanalytical"]  # by tests/psyneulink
    still = [formula for formula in still if not formula.subexpressions]
    drawing = {formula.name for formula in FORMULAS if draws_numbers(formula.expression)}
    assert drawing == {"exponentialdist", "ornsteinuhlenbeckintegrator"}  # by tests/psyneulink
    assert [(f.name, dict(f.options)) for f in still] == list(
        zip([row[0] for row in ROWS], options, strict=True)
    )


def test_a_missing_argument_is_refused():
    with pytest.raises(OperandError, match="the function 'relu' needs the argument 'gain'"):
        lower_call("relu", {"type": "ReLU"})


@pytest.mark.parametrize(
    ("name", "kind", "more"),
    [
        ("softmax", "SoftMax", {**SOFTMAX, "output": "MAX_VAL"}),
        ("softmax", "SoftMax", {**SOFTMAX, "mask_threshold": 0.5}),
        ("linearcombination", "LinearCombination", {**SUM, "weights": [[1.0], [-1.0]]}),
        ("linearcombination", "LinearCombination", {**SUM, "operation": "cross-entropy"}),
        ("dualadaptiveintegrator", "DualAdaptiveIntegrator", {}),
        ("doubled", "UserDefinedFunction", {}),
    ],
)
def test_python_functions_are_refused_by_name(name, kind, more):
    with pytest.raises(UnknownFunctionError) as caught:
        lower_call(name, {"type": kind, **more}, **NUMBERS)
    (finding,) = caught.value.findings
    assert finding.what == f"unknown function '{name}'"
    assert finding.hint.startswith(f"it is PsyNeuLink's {kind}, whose Python is not in the file")


@pytest.mark.parametrize("metadata", [{}, {"type": 5}, {"type": "Neuron"}])
def test_other_unknown_functions_get_a_suggestion(metadata):
    with pytest.raises(UnknownFunctionError, match=r"did you mean 'Relu'\?"):
        lower_call("relu", metadata, **NUMBERS)


def noisy(strength, operator="onnx::RandomNormal", args=None):
    draw = {"function": operator, "args": args or {"shape": [2]}}
    step = {"value": "x + noise * math.sqrt(0.1) * draw", "args": {"noise": strength}}
    node = {
        "input_ports": {"x": {"shape": [2]}},
        "functions": {"draw": draw, "step": step},
        "output_ports": {"y": {"value": "step"}},
    }
    return {"g": {"nodes": {"n": node}}}


@pytest.mark.parametrize("operator", ["onnx::RandomNormal", "onnx::RandomUniform"])
@pytest.mark.parametrize("strength", [0.0, 0, [0.0, 0.0]])
def test_noise_of_strength_0_is_none(operator, strength):
    model = noisy(strength, operator)
    assert mdf_loop.compile(model).run({"x": [1.5, 2.5]})["y"].tolist() == [1.5, 2.5]
    ops = eliminate_dead_code(mdf_loop.read(model)).ops
    assert not [op for op in ops if isinstance(op, ir.Op) and op.op_type.startswith("Random")]


def test_noise_of_another_strength_is_drawn():
    values = mdf_loop.compile(noisy(0.5)).run({"x": [1.5, 2.5]})["y"]
    assert not np.any(values == [1.5, 2.5])
