"""Functions hoisted out of native loops: the results do not depend on the position of a member in a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.ir import Loop, Op, Program
from mdf_loop.native.loop_decisions import decide_loops
from mdf_loop.native.outside_functions import find_outside_functions
from mdf_loop.run.onnxruntime.session import Session
from tests.native.one_loop import Sketch
from tests.placements import REQUIRED
from tests.soak import some

FUNCTIONS = (
    *("exp", "tanh", "sin", "cos", "tan", "sinh", "cosh", "arctan", "expm1", "exp2", "cbrt"),
    *("arcsinh", "sinc"),
)
OTHER_EXPRESSIONS = (
    *("numpy.log(abs({}) + 1)", "abs({}) ** 0.7", "({}) ** 3", "1 / (1 + numpy.exp(-({})))"),
    *("numpy.arctan2({}, 0.3)", "numpy.logaddexp({}, 0.1)", "math.erf({})", "numpy.log1p(abs({}))"),
    *("numpy.sum(numpy.exp(w * ({})))", "numpy.mean(w * ({}))", "numpy.std(w + ({}))"),
    *("numpy.sum(W @ (w * ({})))", "numpy.linalg.norm(w * ({}))", "numpy.max(numpy.sin(w * ({})))"),
)
EXPRESSIONS = [*(f"numpy.{name}({{}})" for name in FUNCTIONS), *OTHER_EXPRESSIONS]
PARAMETER_VALUES = np.random.default_rng(0).normal(size=19)


def over_time(*expressions: str) -> dict[str, Any]:
    """Return a model whose state reads expressions of a parameter `p`, alone and with an input `I`."""
    rng = np.random.default_rng(1)
    expression_texts = [
        expression.format(argument)
        for expression in expressions
        for argument in ("p", "p + 0.1 * I")
    ]
    node = {
        "input_ports": {"I": {"type": "float64", "shape": []}},
        "parameters": {
            "p": {"value": 0.5},
            "w": {"value": rng.normal(size=5).tolist()},
            "W": {"value": rng.normal(size=(5, 5)).tolist()},
            "v": {
                "default_initial_value": 0.1,
                "value": f"0.5 * v + {' + '.join(expression_texts)}",
            },
        },
        "output_ports": {"v": {"value": "v"}, "u": {"value": "numpy.tanh(v)"}},
    }
    return {"m": {"graphs": {"g": {"nodes": {"n": node}}}}}


def members_of(compiled: Any, p: np.ndarray, **more: Any) -> dict[str, np.ndarray]:
    results = compiled.run(sweep={"n.p": p}, seed=1, progress=False, **more)
    assert set(dict(results.native).values()) == {"native"}
    return {name: np.asarray(results[name]) for name in results}


def assert_independent_of_blocks(compiled: Any, **more: Any) -> None:
    """Check that members have the same bits in blocks of any size."""
    rows_of_all = members_of(compiled, PARAMETER_VALUES, **more)
    for block_size in (1, 2, 8, 13):
        for first_member in range(0, len(PARAMETER_VALUES), block_size):
            block = members_of(
                compiled, PARAMETER_VALUES[first_member : first_member + block_size], **more
            )
            for name, rows in block.items():
                np.testing.assert_array_equal(
                    rows, rows_of_all[name][first_member : first_member + block_size], name
                )


DRIVE_INPUT = {"I": np.random.default_rng(2).normal(size=4)}


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_members_do_not_depend_on_their_block(precision: str) -> None:
    model = over_time("numpy.tanh({})", "numpy.cos({})", "abs({}) ** 0.7")
    compiled = mdf_loop.compile(model, native="require", precision=precision)
    assert_independent_of_blocks(compiled, inputs=DRIVE_INPUT, steps=4)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("expression", some(EXPRESSIONS, 6))
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_no_function_depends_on_the_block(expression: str, precision: str) -> None:
    compiled = mdf_loop.compile(over_time(expression), native="require", precision=precision)
    assert_independent_of_blocks(compiled, inputs=DRIVE_INPUT, steps=4)


def loop_node(step: str) -> dict[str, Any]:
    """Return a model of one evaluation with a loop, and functions before and after the loop."""
    body = {
        "step": {
            "metadata": {"inputs": ["i", "go", "v"], "outputs": ["go", "v_next"]},
            "nodes": {
                "n": {
                    "input_ports": {"v": {}, "p": {}},
                    "output_ports": {"v_next": {"value": step}},
                }
            },
        }
    }
    parameters = {"M": 50, "v_initial": "(numpy.sin(p) ** 2,)", "body": body}
    node = {
        "input_ports": {"p": {"default_value": 0.5}},
        "functions": {"f": {"function": "onnx::Loop", "args": parameters}},
        "output_ports": {"y": {"value": "f"}, "z": {"value": "numpy.cos(f) + numpy.exp(p)"}},
    }
    return {"m": {"graphs": {"g": {"nodes": {"n": node}}}}}


@pytest.mark.parametrize("step", ["0.5 * v + numpy.tanh(p)", "3.9 * v * (1 - v) + 0 * p"])
def test_members_of_one_evaluation_do_not_depend_on_their_block(step: str) -> None:
    assert_independent_of_blocks(mdf_loop.compile(loop_node(step)))


# --- choice of form -------------------------------------------------------------------------------


def test_short_and_long_runs_are_both_native() -> None:
    """Check that a loop with a hoisted function is native even if the run is short."""
    node = {
        "parameters": {
            "tau": {"value": 2.0},
            "v": {"default_initial_value": 1.0, "value": "v * numpy.exp(-1 / tau)"},
        },
        "output_ports": {"v": {"value": "v"}},
    }
    compiled = mdf_loop.compile({"m": {"graphs": {"g": {"nodes": {"n": node}}}}})
    tau = np.linspace(1.0, 3.0, 11)
    rows = {}
    for steps in (3, 60_000):
        results = compiled.run(steps=steps, sweep={"n.tau": tau}, every=1, progress=False)
        assert dict(results.native) == {"time": "native"}
        rows[steps] = np.asarray(results["v"])[:, :3]
    np.testing.assert_array_equal(rows[3], rows[60_000])


def hoisted(shape: tuple[int, ...], *, inside: str = "$.loop.body") -> Program:
    """Return a loop that adds the hoisted `Exp(x)`; `inside` is the source location of `Exp`."""
    sketch = Sketch()
    x, start = sketch.input("float64", shape, "x"), sketch.input("float64", shape, "start")
    with sketch.b.at(inside):
        exponential = sketch.b.op("Exp", x)
    return sketch.program(
        sketch.carry(start, lambda v: sketch.inside.op("Add", v, exponential)), where="$.loop"
    )


def loops_and_functions(program: Program, **more: Any) -> tuple[int, int]:
    """Return the number of native loops, and the number of functions outside of them."""
    natives = decide_loops(program, "require", **more)
    remaining_functions = [
        op for op in natives.program.ops if isinstance(op, Op) and op.op_type == "Exp"
    ]
    return len(natives.loops), len(remaining_functions)


def test_a_hoisted_function_becomes_a_loop() -> None:
    program = hoisted((5,))
    natives = decide_loops(program, "require")
    loops = [op for op in natives.program.ops if isinstance(op, Loop)]
    assert [[op.op_type for op in loop.ops] for loop in loops] == [["Exp"], ["Add"]]
    assert set(loops) == set(natives.loops)
    assert natives.form_by_name == {"A.f": "native"}


def test_scalar_and_unrelated_functions_stay_outside_of_loops() -> None:
    scalar_program = hoisted(())
    assert loops_and_functions(scalar_program) == (1, 1), "scalar functions stay outside of loops"
    assert loops_and_functions(hoisted((5,), inside="$.other")) == (1, 1), (
        "the function was not hoisted from the loop"
    )
    program = hoisted((5,))
    assert decide_loops(program, "off").program is program


def test_a_part_of_a_program_follows_the_whole_program() -> None:
    whole_program = hoisted((5,))
    loop_free_program = Program("p", whole_program.inputs[:1], whole_program.ops[:-1], ())
    assert find_outside_functions(loop_free_program).functions
    assert loops_and_functions(loop_free_program, whole=whole_program) == (1, 0)
    scalar_program = hoisted(())
    loop_free_program = Program("p", scalar_program.inputs[:1], scalar_program.ops[:-1], ())
    assert loops_and_functions(loop_free_program, whole=scalar_program) == (0, 1)


@pytest.mark.parametrize("shape", [(), (7,), (2, 3), (0,)])
def test_functions_as_loops_keep_shapes_and_dtypes(shape: tuple[int, ...]) -> None:
    """Check functions of arrays and of single numbers, with operands that are broadcast."""
    sketch = Sketch()
    x, start = sketch.input("float64", shape, "x"), sketch.input("float64", (7,), "start")
    float32_values = sketch.b.op("Cast", x, to=1)
    with sketch.b.at("$.loop.body"):
        functions = [
            sketch.b.op("Tanh", float32_values),
            sketch.b.op("Pow", sketch.b.op("Abs", x), sketch.b.constant([1.5])),
        ]
    program = sketch.program(
        sketch.carry(start, lambda v: sketch.inside.op("Add", v, v)), *functions, where="$.loop"
    )
    feeds = {"x": np.linspace(-1, 1, int(np.prod(shape))).reshape(shape), "start": np.ones(7)}
    results = Session(program, REQUIRED).run(feeds)
    expected = np.tanh(feeds["x"].astype(np.float32)), abs(feeds["x"]) ** np.array([1.5])
    for name, array in zip(("y1", "y2"), expected, strict=True):
        np.testing.assert_allclose(results[name], array, rtol=1e-6, strict=True)


FIRST_ROWS = {
    "a function of one number": ("numpy.exp(-abs(q))", "0.5 * s"),
    "a function of one number beside functions of arrays": ("numpy.exp(-abs(q))", "numpy.tanh(s)"),
    "a product of all elements": ("numpy.prod(s)", "0.5 * s"),
    "a product of matrices": ("numpy.sum((W * q) @ s)", "numpy.tanh(s)"),
}


@pytest.mark.parametrize("name", FIRST_ROWS)
def test_the_first_evaluation_computes_like_the_loop_over_later_ones(name: str) -> None:
    output, value = FIRST_ROWS[name]
    rng = np.random.default_rng(3)
    node = {
        "parameters": {
            "q": {"value": 0.4},
            "W": {"value": rng.normal(size=(9, 9)).tolist()},
            "s": {"default_initial_value": rng.normal(size=9).tolist(), "value": f"{value} * q"},
        },
        "output_ports": {"o": {"value": output}, "s": {"value": "s"}},
    }
    compiled = mdf_loop.compile({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}, native="require")
    parameter_values = rng.normal(size=7)
    member_results = compiled.run(sweep={"n.q": parameter_values}, steps=3)
    for member, value in enumerate(parameter_values):
        single_run = compiled.run(set={"n.q": value}, steps=3)
        for output in single_run:
            np.testing.assert_array_equal(
                np.asarray(member_results[output])[member], single_run[output]
            )


def test_constant_functions_are_equal_in_the_first_and_later_rows() -> None:
    node = {
        "parameters": {
            "s": {"default_initial_value": [0.5, 1.0], "value": "0.5 * s"},
            "c": {"value": "-abs(k)"},
            "k": {"value": 0.4},
        },
        "output_ports": {"o": {"value": "math.exp(c)"}, "s": {"value": "s"}},
    }
    compiled = mdf_loop.compile({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}, native="require")
    for k in np.linspace(0.01, 3, 60):
        rows = compiled.run(set={"n.k": k}, steps=2)["n.o"]
        assert rows[0] == rows[1]
