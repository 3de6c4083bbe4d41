"""Protection of constants that are neutral only in float32 from the optimizer of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.emit.onnx_model import to_onnx
from mdf_loop.ir import Program
from mdf_loop.onnx_session import inference_session
from mdf_loop.passes.legalize.protect_identities import protect_identities
from tests.passes.sketch import same_bits, straight, text


def with_constant(
    op_type: str, number: float, *, first: bool = False, dtype: str = "float64"
) -> Program:
    """Build an operation with the constant between two other operations, as ONNX Runtime's rule needs."""
    b = Builder()
    x = b.new(dtype, ("n",), "x")
    constant = b.constant(np.array(number, dtype))
    inside = b.op("Neg", x)
    computed = b.op(op_type, *((constant, inside) if first else (inside, constant)))
    return straight(b, (x,), y=b.op("Neg", computed))


def test_a_constant_neutral_in_float32_is_protected() -> None:
    assert text(protect_identities(with_constant("Mul", 1 - 1e-8)))[3:-2] == [
        "  %const_2: float64[] = -0.99999999",
        "  %Mul:Mul: float64[n] = Mul(%Neg, %const_2)",
        "  %Mul: float64[n] = Neg(%Mul:Mul)",
    ]
    assert text(protect_identities(with_constant("Add", 1e-300, first=True)))[3:-2] == [
        "  %Add:Neg: float64[n] = Neg(%Neg)",
        "  %Add: float64[n] = Sub(%const, %Add:Neg)",
    ]


@pytest.mark.parametrize(
    ("op_type", "number", "first"),
    [
        *((op_type, 1.0, False) for op_type in ("Mul", "Div")),
        *((op_type, 0.0, False) for op_type in ("Add", "Sub")),
        ("Mul", 0.999999, False),
        ("Add", 1e-40, False),
        ("Div", 1 - 1e-8, True),
        ("Sub", 1e-300, True),
    ],
)
def test_other_operations_are_unchanged(op_type: str, number: float, first: bool) -> None:
    program = with_constant(op_type, number, first=first)
    assert protect_identities(program) is program
    assert protect_identities(with_constant(op_type, number, dtype="float32")).ops


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("op_type", ["Mul", "Div", "Add", "Sub"])
def test_onnx_runtime_computes_the_same_numbers(op_type: str, first: bool) -> None:
    numbers = (1 - 1e-8, 1 + 1e-8, 1 - 2.0**-53) if op_type in ("Mul", "Div") else (1e-46, -1e-300)
    for number in numbers:
        program = with_constant(op_type, number, first=first)
        x = np.array([0.0, -0.0, -1e-46, 1e-300, 3.0, -1.0, np.inf])
        same_bits(protect_identities, program, x=x)
        session = inference_session(to_onnx(protect_identities(program)).SerializeToString(), None)
        operands = (np.float64(number), -x) if first else (-x, np.float64(number))
        operation = {"Mul": np.multiply, "Div": np.divide, "Add": np.add, "Sub": np.subtract}
        with np.errstate(all="ignore"):
            expected = -operation[op_type](*operands)
        assert session.run(None, {"x": x})[0].tobytes() == expected.tobytes(), number
