"""The standard functions of MDF compared with the engine of modeci_mdf."""

import numpy as np
import pytest
from modeci_mdf.execution_engine import EvaluableFunction
from modeci_mdf.functions.standard import mdf_functions
from modeci_mdf.mdf import Function

from mdf_loop.errors import OperandError, UnknownFunctionError, UnsupportedError
from mdf_loop.lower import lower_function
from mdf_loop.lower.drift_diffusion import DECISION_FUNCTIONS
from tests.lower.lower_machine import Lowered, assert_same

CODE_PREFIXES = {"actr.", "ddm."}
FORMULAS = [
    name
    for name, entry in mdf_functions.items()
    if "::" not in name and not entry["expression_string"].startswith(tuple(CODE_PREFIXES))
]
CODE_FUNCTIONS = [
    name
    for name in mdf_functions
    if "::" not in name and name not in (*FORMULAS, *DECISION_FUNCTIONS)
]
VALUES = {
    "variable0": 0.5,
    "slope": 2.0,
    "intercept": -1.0,
    "scale": 1.5,
    "gain": 3.0,
    "bias": 0.25,
    "offset": 0.125,
    "rate": -2.0,
    "A": 2.5,
    "B": 1.0,
}
ARRAYS = {
    **VALUES,
    "variable0": np.array([[-0.9, -0.1, 0.0], [0.2, 0.7, 0.95]]),
    "A": np.array([[1.0, -2.0], [0.5, 3.0]]),
    "B": np.array([2.0, -1.0]),
}


def _lower_call(name, args, inputs):
    return Lowered(lambda b, scope: lower_function(b, name, args, scope), inputs)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("operands", [VALUES, ARRAYS], ids=["numbers", "arrays"])
def test_standard_functions_equal_the_mdf_engine(name, operands):
    if name == "MatMul" and operands is VALUES:
        pytest.skip("matrices have no numbers")
    names = mdf_functions[name]["arguments"]
    values = {f"in_{key}": operands[key] for key in names}
    args = {key: f"in_{key}" for key in names}
    engine = EvaluableFunction(Function(id="f", function=name, args=args))
    engine.evaluate(dict(values))
    expected = np.asarray(engine.curr_value, np.float64)
    results = _lower_call(name, args, values).interpret()
    assert_same(results, [expected])
    fixed = {key: np.asarray(operands[key]).tolist() for key in names}
    program = _lower_call(name, fixed, {})
    assert_same(program.interpret(), [expected])


def test_the_registry_has_formulas_and_python_code():
    assert set(FORMULAS) >= {"linear", "logistic", "exponential", "MatMul", "Relu", "arctan"}
    assert set(CODE_FUNCTIONS) >= {"change_goal", "retrieve_chunk"}


@pytest.mark.parametrize("name", CODE_FUNCTIONS)
def test_functions_with_python_code_are_refused_by_name(name):
    with pytest.raises(UnsupportedError) as caught:
        _lower_call(name, {}, {})
    assert f"the function '{name}' is Python code of MDF's engine" in str(caught.value)
    assert "hint: run this model with modeci_mdf.execution_engine" in str(caught.value)


def test_arguments_may_read_earlier_arguments_and_values_of_the_node():
    args = {"variable0": "x", "slope": "variable0 + 1"}
    program = _lower_call("linear", args, {"x": 2.0, "intercept": 10.0})
    assert program.interpret()[0] == 16.0


@pytest.mark.parametrize(
    ("name", "args", "kind", "sentence"),
    [
        (
            "linear",
            {"variable0": "x"},
            OperandError,
            "the function 'linear' needs the argument 'slope'\n  hint: add 'slope' to the args of the function",
        ),
        (
            "liner",
            {},
            UnknownFunctionError,
            "unknown function 'liner'\n  hint: did you mean 'linear'?",
        ),
        ("onnx::Relux", {}, UnknownFunctionError, "did you mean 'onnx::Relu'?"),
        ("relu", {}, UnknownFunctionError, "hint: did you mean"),
    ],
)
def test_invalid_calls_are_refused(name, args, kind, sentence):
    with pytest.raises(kind) as caught:
        _lower_call(name, args, {"x": 2.0})
    assert sentence in str(caught.value)
