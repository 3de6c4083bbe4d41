"""Integer powers: exact modulo 2**width in every form; negative exponents are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.errors import LoopError, RunError
from mdf_loop.pipeline import LEGAL, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.ops.op_running import legal_run, program_of
from tests.placements import STANDARD

EXPONENTS = [0, 1, 2, 31, 32, 39, 63, 64, 65, 127, 128, 1000, 2**31, 2**40 + 1, 2**62, 2**63 - 1]
UNSIGNED = [2**63, 2**63 + 1, 2**64 - 1]
BASES = [0, 1, -1, 2, -2, 3, -3, 10, 255, 256, 257, -(2**31), 2**31 - 1]
NEGATIVE = "whole numbers cannot be raised to negative whole powers"


def wrapped_power(x: Any, n: Any) -> np.ndarray:
    """Return `x ** n` modulo 2**width, by Python's integers."""
    x, n = np.broadcast_arrays(x, n)
    bits = 8 * x.dtype.itemsize
    numbers = [pow(int(a), int(k), 2**bits) for a, k in zip(x.flat, n.flat, strict=True)]
    return np.array(numbers, np.uint64).astype(x.dtype).reshape(x.shape)


# --- the operation --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("exponents", ["int64", "int32", "int8", "uint8", "uint32", "uint64"])
def test_powers_of_any_exponent_wrap(dtype: str, exponents: str) -> None:
    most = np.iinfo(exponents).max
    bases = [*BASES, np.iinfo(dtype).min, np.iinfo(dtype).max]
    x = np.array(bases, dtype)[:, None]
    n = np.array([k for k in (*EXPONENTS, *UNSIGNED) if k <= most], exponents)
    expected = wrapped_power(x, n)
    for constant in ((), (1,)):
        program = program_of("Pow", [x, n], constant=constant)
        interpreted = interpret(program, {"x0": x, "x1": n})["y0"]
        np.testing.assert_array_equal(interpreted, expected, strict=True)
        (powers,) = legal_run("Pow", [x, n], constant=constant)
        np.testing.assert_array_equal(powers, expected, strict=True)


@pytest.mark.parametrize("n", [*EXPONENTS, *UNSIGNED])
def test_a_constant_exponent_becomes_products(n: int) -> None:
    x, exponent = np.array(BASES), np.array(n, np.uint64 if n >= 2**63 else np.int64)
    (powers,) = legal_run("Pow", [x, exponent], constant=(1,))
    np.testing.assert_array_equal(powers, wrapped_power(x, exponent), strict=True)


def test_random_bases_and_exponents() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-(2**63), 2**63 - 1, 500)
    n = rng.integers(0, 2**63 - 1, 500) >> rng.integers(0, 63, 500)
    (powers,) = legal_run("Pow", [x, n])
    np.testing.assert_array_equal(powers, wrapped_power(x, n), strict=True)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_powers_of_empty_arrays(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.int64)
    assert legal_run("Pow", [x, x])[0].shape == shape


@pytest.mark.parametrize("n", [np.array(-1), np.array([2, -1]), np.array(-(2**63))], ids=str)
@pytest.mark.parametrize("constant", [(), (1,), (0, 1)])
def test_negative_powers_are_errors(n: np.ndarray, constant: tuple[int, ...]) -> None:
    x = np.array([1, -1])
    program = program_of("Pow", [x, n], constant=constant)
    feeds = {k: a for k, a in (("x0", x), ("x1", n)) if int(k[1]) not in constant}
    with pytest.raises(RunError, match=NEGATIVE) as interpreted:
        interpret(program, feeds)
    with pytest.raises(RunError, match=NEGATIVE) as error:
        Session(prepare(program, LEGAL), STANDARD).run(feeds)
    assert interpreted.value.findings[0].where == error.value.findings[0].where == "$.here"


def test_an_integer_to_the_power_of_a_float_is_no_integer_power() -> None:
    x, n = np.array([2, 4, 9]), np.array([-1.0, 0.5, 0.5])
    expected = interpret(program_of("Pow", [x, n]), {"x0": x, "x1": n})["y0"]
    (powers,) = legal_run("Pow", [x, n])
    assert powers.tolist() == expected.tolist() == [0, 2, 3]


# --- models ---------------------------------------------------------------------------------------


def over_time(expression: str, **states: Any) -> dict[str, Any]:
    """Return a model that computes an expression of states, each of which is rotated in every step."""
    parameters: dict[str, Any] = {
        name: {
            "default_initial_value": value.tolist(),
            "value": f"numpy.{value.dtype}(numpy.roll({name}, 1))" if value.ndim else name,
        }
        for name, value in states.items()
    }
    node = {"parameters": parameters, "output_ports": {"y": {"value": expression}}}
    return {"m": {"graphs": {"g": {"nodes": {"n": node}}}}}


FORMS: list[dict[str, Any]] = [
    {"native": "off"},
    {"native": "require"},
    {"native": "off", "engine": "interpreter"},
]
FORM_PARAMETERS = [
    pytest.param(form, marks=[pytest.mark.native] * (form["native"] == "require"), id=str(form))
    for form in FORMS
]


def rows_of(model: dict[str, Any], **form: Any) -> np.ndarray:
    engine = {"engine": form.pop("engine")} if "engine" in form else {}
    compiled = mdf_loop.compile(model, **form)
    return np.asarray(compiled.run(steps=3, progress=False, **engine)["y"])


@pytest.mark.parametrize("form", FORM_PARAMETERS)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8", "uint16", "uint64"])
def test_arrays_of_every_width_wrap_over_time(dtype: str, form: dict[str, Any]) -> None:
    most = np.iinfo(dtype).max
    x = np.array([2, 3, 7, min(most, 251), 10], dtype)
    n = np.array([64, 100, 65, 2, min(most, 70)], dtype)
    rows = rows_of(over_time(f"numpy.{dtype}(x) ** numpy.{dtype}(k)", x=x, k=n), **form)
    expected = [wrapped_power(np.roll(x, step), np.roll(n, step)) for step in (1, 2, 3)]
    np.testing.assert_array_equal(rows, np.array(expected), strict=True)


@pytest.mark.parametrize("form", FORM_PARAMETERS)
@pytest.mark.parametrize("expression", ["(x + 0 * k) ** k", "numpy.power(x, k + 0 * x)"])
def test_negative_powers_end_a_run(expression: str, form: dict[str, Any]) -> None:
    node = {
        "parameters": {
            "k": {"default_initial_value": 2, "value": "k - 1"},
            "x": {"default_initial_value": 3, "value": "x + 1"},
        },
        "output_ports": {"y": {"value": expression}},
    }
    model = {"m": {"graphs": {"g": {"nodes": {"n": node}}}}}
    with pytest.raises(LoopError, match=NEGATIVE) as caught:
        rows_of(model, **form)
    assert caught.value.findings[0].where == "$.graphs[0].nodes['n'].output_ports['y']"


@pytest.mark.parametrize("form", FORM_PARAMETERS)
def test_unread_powers_cannot_fail(form: dict[str, Any]) -> None:
    node = {
        "parameters": {"k": {"default_initial_value": 3, "value": "k - 1"}},
        "output_ports": {"y": {"value": "3 ** (k - 1) if k > 0 else -7"}},
    }
    assert rows_of({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}, **form).tolist() == [3, 1, -7]


def pow_model() -> Any:
    """Return an ONNX model of one `Pow` of int64 in a loop."""
    from onnx import TensorProto as T
    from onnx import helper

    def info(name: str, dtype: int, shape: list[int]) -> Any:
        return helper.make_tensor_value_info(name, dtype, shape)

    nodes = [
        helper.make_node("Pow", ["x", "n"], ["p"]),
        helper.make_node("Identity", ["g"], ["go"]),
    ]
    nodes.append(helper.make_node("Identity", ["x"], ["x_out"]))
    body = helper.make_graph(
        nodes,
        "body",
        [info("i", T.INT64, []), info("g", T.BOOL, []), info("x", T.INT64, [3])],
        [info("go", T.BOOL, []), info("x_out", T.INT64, [3]), info("p", T.INT64, [3])],
    )
    loop = helper.make_node("Loop", ["M", "", "x0"], ["last", "powers"], body=body)
    graph = helper.make_graph(
        [loop],
        "m",
        [info("M", T.INT64, []), info("x0", T.INT64, [3]), info("n", T.INT64, [3])],
        [info("powers", T.INT64, [2, 3])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)


@pytest.mark.native
def test_powers_of_an_imported_file_and_of_the_exported_one(tmp_path: Any) -> None:
    x, n = np.array([2, 3, -7]), np.array([64, 100, 2**40 + 1])
    feeds = {"M": np.array(2), "x0": x, "n": n}
    for form in FORMS:
        engine = {"engine": form["engine"]} if "engine" in form else {}
        compiled = mdf_loop.compile(mdf_loop.from_onnx(pow_model()), native=form["native"])
        results = compiled.run(feeds, progress=False, **engine)
        np.testing.assert_array_equal(results["powers"], np.stack([wrapped_power(x, n)] * 2))
        with pytest.raises(LoopError, match=NEGATIVE):
            compiled.run({**feeds, "n": np.array([1, -1, 2])}, progress=False, **engine)
    compiled.save(tmp_path / "powers.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "powers.onnx")
    (powers,) = session.run(["powers"], feeds)
    np.testing.assert_array_equal(powers, np.stack([wrapped_power(x, n)] * 2))
    with pytest.raises(Exception, match=NEGATIVE):
        session.run(["powers"], {**feeds, "n": np.array([1, -1, 2])})
