"""Arguments, return values and refusals of `CompiledModel.differentiate` and `CompiledModel.gradient`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import mdf_loop
from mdf_loop.errors import GradientError, InputError, LoopError, UnknownNameError, UnsupportedError
from mdf_loop.ops import registry
from mdf_loop.ops.derivatives.rule import Pointwise
from mdf_loop.run.gradient import in_chunks
from tests.models.loops import loop_model
from tests.models.timed import graph
from tests.soak import some


def one_node(**parts: Any) -> dict[str, Any]:
    """Return a document with the single node `cell`."""
    return {"m": {"graphs": graph(cell=parts)}}


CELL = one_node(
    input_ports={"current": {"default_value": 0.5}, "idle": {"default_value": 2.0}},
    parameters={
        "a": {"value": 0.5},
        "start": {"value": [1.0, 2.0]},
        "unused": {"value": [[3.0, 4.0]]},
        "count": {"value": 3},
        "flag": {"value": True},
        "word": {"value": "tanh"},
        "v": {"default_initial_value": "start", "value": "v * a + current"},
    },
    output_ports={"V": {"value": "v"}, "W": {"value": "v * v"}, "N": {"value": "count * 2"}},
)
"""V[t] = V[t - 1] a + current[t], from start on: linear in all but a."""

STEPS = 40
START = np.array([1.0, 2.0])


def cell(native: str = "auto") -> mdf_loop.CompiledModel:
    return mdf_loop.compile(CELL, native=native, device="cpu")


def rows(a: float = 0.5, current: Any = 0.5, start: Any = START) -> np.ndarray:
    """Compute the rows of V with NumPy."""
    states, currents = [], np.broadcast_to(current, STEPS)
    for t in range(STEPS):
        states.append((states[-1] if states else np.asarray(start)) * a + currents[t])
    return np.array(states)


def derivative_by_a(weights: Any, a: float = 0.5) -> float:
    """Compute the derivative of the weighted sum of the rows by `a`.

    The recurrence is dV[t]/da = V[t-1] + a dV[t-1]/da.
    """
    changes, before = [np.zeros(2)], START
    for row in rows(a):
        changes.append(before + a * changes[-1])
        before = row
    return float(np.sum(weights * np.array(changes[1:])))


@pytest.fixture(params=["whole", "in chunks"])
def whole_and_in_chunks(request, monkeypatch) -> None:
    """Run the test in one program and again chunk by chunk."""
    if request.param == "in chunks":
        monkeypatch.setattr(in_chunks, "CHUNK_STATE_BYTES", 1)
        monkeypatch.setattr(in_chunks, "MIN_CHUNK_STEPS", 9)


# --- the number ---------------------------------------------------------------------------------------

V = rows()
DATA = np.linspace(-1, 1, 2 * STEPS).reshape(STEPS, 2)
LAST = np.arange(STEPS)[:, None] == STEPS - 1
WORDS = {
    "sum": ("sum", V.sum(), np.ones((STEPS, 2))),
    "mean": ("mean", V.mean(), np.full((STEPS, 2), 1 / V.size)),
    "last": ("last", V[-1].sum(), LAST * np.ones(2)),
    "sse": ({"sse": DATA}, ((V - DATA) ** 2).sum(), 2 * (V - DATA)),
    "sse of a number": ({"sse": 1}, ((V - 1) ** 2).sum(), 2 * (V - 1)),
    "weighted": ({"weighted": DATA}, (V * DATA).sum(), DATA),
    "a list": (["mean", {"weighted": DATA}], V.mean() + (V * DATA).sum(), 1 / V.size + DATA),
}


@pytest.mark.usefixtures("whole_and_in_chunks")
@pytest.mark.parametrize("native", ["auto", "off"])
@pytest.mark.parametrize("word", WORDS)
def test_reductions(word: str, native: str) -> None:
    reduction, value, weights = WORDS[word]
    gradient = cell(native).gradient({"cell.V": reduction}, ["cell.a"], steps=STEPS)
    assert gradient.value == pytest.approx(value, rel=1e-12)
    assert gradient["cell.a"] == pytest.approx(derivative_by_a(weights), rel=1e-11)


@pytest.mark.usefixtures("whole_and_in_chunks")
def test_several_outputs_are_added_up() -> None:
    gradient = cell().gradient({"cell.V": "sum", "cell.W": ["last"]}, ["cell.a"], steps=STEPS)
    assert gradient.value == pytest.approx(V.sum() + (V[-1] ** 2).sum(), rel=1e-12)
    assert gradient["cell.a"] == pytest.approx(derivative_by_a(1 + LAST * 2 * V), rel=1e-11)


def test_of_one_evaluation() -> None:
    """Check the derivatives of V = start a + current."""
    for word in ("sum", {"weighted": 1}):
        gradient = cell().gradient({"cell.V": word}, ["cell.a", "cell.start", "current"])
        assert gradient.value == 2.5
        assert {name: array.tolist() for name, array in gradient.items()} == {
            "cell.a": 3.0,
            "cell.start": [0.5, 0.5],
            "current": 2.0,
        }


def test_the_last_row_of_one_evaluation_is_that_of_the_output_itself() -> None:
    gradient = cell().gradient({"cell.V": "last"}, ["cell.start", "cell.a"])
    assert (gradient.value, gradient["cell.a"], gradient["cell.start"].tolist()) == (
        1.5,
        2,
        [0, 0.5],
    )


def test_gradient_has_value_and_shapes_of_the_parameters() -> None:
    gradient = cell().gradient({"cell.V": "sum"}, ["cell.start", "cell.a", "cell.start"])
    assert isinstance(gradient.value, float)
    assert list(gradient) == ["cell.start", "cell.a"]
    assert (gradient["cell.a"].shape, gradient["cell.a"].dtype) == ((), np.float64)
    assert (gradient.seed, gradient.native, gradient.check) == (0, {}, None)
    assert gradient.to_dict() == {
        "value": 2.5,
        "gradient": {
            "cell.start": {"dtype": "float64", "shape": [2], "data": [0.5, 0.5]},
            "cell.a": {"dtype": "float64", "shape": [], "data": 3.0},
        },
    }


def test_one_name_may_be_a_text() -> None:
    assert list(cell().gradient({"cell.V": "sum"}, "cell.a")) == ["cell.a"]


def test_in_float32() -> None:
    model = mdf_loop.compile(CELL, precision="float32", device="cpu")
    gradient = model.gradient({"cell.V": "sum"}, ["cell.a"], steps=STEPS)
    assert gradient["cell.a"].dtype == np.float32
    assert gradient["cell.a"] == pytest.approx(derivative_by_a(1), rel=1e-5)


# --- by what ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("whole_and_in_chunks")
def test_an_input_over_time_has_rows() -> None:
    """Check that the derivative by row t is the sum 1 + a + a^2 + ... over the remaining steps."""
    a, current = 0.5, np.linspace(-1, 1, STEPS)
    gradient = cell().gradient(
        {"cell.V": "sum"}, ["current", "cell.start"], inputs={"current": current}, steps=STEPS
    )
    left = STEPS - np.arange(STEPS)
    np.testing.assert_allclose(gradient["current"], 2 * (1 - a**left) / (1 - a), rtol=1e-12)
    np.testing.assert_allclose(gradient["cell.start"], [a * (1 - a**STEPS) / (1 - a)] * 2)
    assert gradient.value == pytest.approx(rows(current=current).sum(), rel=1e-12)


@pytest.mark.usefixtures("whole_and_in_chunks")
def test_an_input_that_stays_has_the_sum_of_its_rows() -> None:
    arguments = ({"cell.V": "sum"}, ["current"])
    one = cell().gradient(*arguments, steps=STEPS)["current"]
    each = cell().gradient(*arguments, steps=STEPS, inputs={"current": np.full(STEPS, 0.5)})[
        "current"
    ]
    assert one.shape == ()
    assert one == pytest.approx(each.sum(), rel=1e-12)


@pytest.mark.usefixtures("whole_and_in_chunks")
def test_derivatives_by_the_initial_value_of_a_state() -> None:
    gradient = cell().gradient(
        {"cell.V": "last"}, ["cell.v"], set={"cell.v": [3.0, 4.0]}, steps=STEPS
    )
    np.testing.assert_allclose(gradient["cell.v"], [0.5**STEPS] * 2, rtol=1e-12)


@pytest.mark.usefixtures("whole_and_in_chunks")
@pytest.mark.parametrize("steps", [None, STEPS])
def test_unused_parameters_have_zero_derivatives(steps: int | None) -> None:
    gradient = cell().gradient({"cell.V": "sum"}, ["cell.unused", "idle", "cell.a"], steps=steps)
    assert gradient["cell.unused"].tolist() == [[0.0, 0.0]]
    assert gradient["idle"].tolist() == 0.0
    assert gradient["cell.a"] != 0


def test_a_compiled_derivative_accepts_other_values_and_shapes() -> None:
    gradient = cell().differentiate({"cell.V": "sum"}, ["cell.a", "cell.start"])
    assert gradient.run({"cell.a": 0.25})["cell.start"].tolist() == [0.25, 0.25]
    assert gradient.run({"cell.start": [1.0, 2.0, 3.0]})["cell.a"] == 6.0
    assert gradient.run(inputs={"current": 1.0}).value == 3.5
    assert gradient.run()["cell.start"].tolist() == [0.5, 0.5]


def test_gradients_do_not_share_arrays() -> None:
    gradient = cell().differentiate({"cell.V": "sum"}, ["cell.unused", "cell.start"])
    first = gradient.run()
    for array in first.values():
        array[...] = 7
    assert gradient.run()["cell.start"].tolist() == [0.5, 0.5]
    assert gradient.run()["cell.unused"].tolist() == [[0.0, 0.0]]


# --- many at once -------------------------------------------------------------------------------------


def assert_members(together: Any, alone: list[Any]) -> None:
    """Check that each member of a sweep has the derivatives of a single run."""
    np.testing.assert_allclose(together.value, [one.value for one in alone], rtol=1e-12)
    for name, array in together.items():
        stacked = np.stack([one[name] for one in alone])
        np.testing.assert_allclose(array, stacked, rtol=1e-11, atol=1e-13, err_msg=name)


SWEEPS: dict[str, tuple[dict[str, Any], Mapping[str, Any]]] = {
    "what is differentiated by": ({"cell.a": [0.1, 0.5, 0.9]}, {}),
    "something else": ({"current": [0.0, 1.0, 2.0]}, {}),
    "arrays": ({"cell.start": [[1.0, 2.0], [3.0, 4.0], [0.0, -1.0]]}, {}),
    "an input over time": ({"current": np.arange(3 * STEPS).reshape(3, STEPS) / 40.0}, {}),
    "two": ({"cell.a": [0.1, 0.5, 0.9], "current": [0.0, 1.0, 2.0]}, {}),
}


@pytest.mark.usefixtures("whole_and_in_chunks")
@pytest.mark.soak
@pytest.mark.parametrize(("what", "native"), some(product(SWEEPS, ["auto", "off"]), 2))
def test_a_sweep_equals_single_runs(what: str, native: str) -> None:
    sweep, _ = SWEEPS[what]
    gradient = cell(native).differentiate(
        {"cell.V": ["mean", {"sse": DATA}], "cell.W": "last"},
        ["cell.a", "cell.start", "current", "cell.unused"],
        steps=STEPS,
    )
    members = [{name: values[k] for name, values in sweep.items()} for k in range(3)]
    single_runs = [
        gradient.run(
            {n: v for n, v in member.items() if n != "current"},
            {n: v for n, v in member.items() if n == "current"},
        )
        for member in members
    ]
    assert_members(gradient.run(sweep=sweep), single_runs)


def test_a_sweep_of_one_evaluation() -> None:
    gradient = cell().differentiate({"cell.W": "sum"}, ["cell.a", "cell.start"])
    joint_run = gradient.run(sweep={"cell.a": [0.1, 0.5, 0.9]})
    assert_members(joint_run, [gradient.run({"cell.a": a}) for a in (0.1, 0.5, 0.9)])


WALK = one_node(
    parameters={
        "keep": {"value": 0.9},
        "sd": {"value": 0.5},
        "x": {"default_initial_value": 0.0, "value": "keep * x + sd * numpy.random.normal()"},
    },
    output_ports={"x": {"value": "x"}},
)


@pytest.mark.usefixtures("whole_and_in_chunks")
@pytest.mark.parametrize("native", ["auto", "off"])
def test_noise_is_held_as_it_was_drawn(native: str) -> None:
    """Check that the derivative of x by sd is x / sd, since the drawn noise stays fixed."""
    model = mdf_loop.compile(WALK, native=native, device="cpu")
    for seed in (0, 7):
        gradient = model.gradient({"cell.x": "sum"}, ["cell.sd"], steps=STEPS, seed=seed)
        total = model.run(steps=STEPS, seed=seed)["x"].sum()
        assert gradient.seed == seed
        assert gradient.value == pytest.approx(total, rel=1e-12)
        assert gradient["cell.sd"] == pytest.approx(total / 0.5, rel=1e-12)


@pytest.mark.usefixtures("whole_and_in_chunks")
@pytest.mark.parametrize(
    ("word", "of_sum"), [("sum", 1.0), ("last", 1.0), ("mean", 1 / 5), ({"sse": 0.5}, 1.0)]
)
def test_trials_are_added_up_and_a_mean_is_over_them_too(word: Any, of_sum: float) -> None:
    model = mdf_loop.compile(WALK, device="cpu")
    arguments = ({"cell.x": word}, ["cell.sd", "cell.keep"])
    joint_run = model.gradient(*arguments, steps=STEPS, trials=5)
    single_run = [model.gradient(*arguments, steps=STEPS, trials=[k]) for k in range(5)]
    assert len({one.value for one in single_run}) == 5
    assert joint_run.value == pytest.approx(
        of_sum * sum(one.value for one in single_run), rel=1e-12
    )
    for name in arguments[1]:
        expected = of_sum * sum(one[name] for one in single_run)
        assert joint_run[name].shape == ()
        assert joint_run[name] == pytest.approx(expected, rel=1e-11)


def test_trials_in_a_sweep() -> None:
    gradient = mdf_loop.compile(WALK, device="cpu").differentiate(
        {"cell.x": "mean"}, ["cell.sd", "cell.keep"], steps=STEPS, trials=3
    )
    joint_run = gradient.run(sweep={"cell.keep": [0.5, 0.9]})
    assert joint_run["cell.sd"].shape == (2,)
    assert_members(joint_run, [gradient.run({"cell.keep": keep}) for keep in (0.5, 0.9)])


HALVING = loop_model(
    {"cond": True, "v_initial": "x"},
    {"x_next": "x * rate", "seen": "x"},
    port_values={"x": 1.0, "rate": 0.5},
    carried="x",
    go="x * rate > 0.1",
)


@pytest.mark.parametrize("native", ["auto", "off"])
def test_members_that_stop_at_different_times(native: str) -> None:
    """Check that x rate^n has the derivative n x rate^(n - 1) by rate, with n held fixed."""
    model = mdf_loop.compile(HALVING, native=native, device="cpu")
    rates = np.array([0.5, 0.2, 0.9])
    counts = np.ceil(np.log(0.1) / np.log(rates))
    assert model.run(sweep={"rate": rates})["n"].tolist() == counts.tolist()
    gradient = model.gradient({"A.r0": "sum"}, ["rate", "x"], sweep={"rate": rates})
    np.testing.assert_allclose(gradient.value, rates**counts, rtol=1e-12)
    np.testing.assert_allclose(gradient["rate"], counts * rates ** (counts - 1), rtol=1e-12)
    np.testing.assert_allclose(gradient["x"], rates**counts, rtol=1e-12)


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "of", [None, {}, "cell.V", ["cell.V"], {"cell.V": "median"}, {"cell.V": 1}]
)
def test_unknown_reductions_are_refused(of: Any) -> None:
    with pytest.raises(InputError, match=r"of says|cannot be made a number by") as error:
        cell().gradient(of, ["cell.a"])
    assert '{"sse": data}' in str(error.value)


@pytest.mark.parametrize("reduction", [{"sse": 1, "weighted": 1}, {"what": 1}, {}])
def test_unknown_reductions_with_data_are_refused(reduction: Any) -> None:
    with pytest.raises(InputError, match=r"'cell\.V' cannot be made a number by"):
        cell().gradient({"cell.V": reduction}, ["cell.a"])


def test_an_empty_parameter_list_is_refused() -> None:
    with pytest.raises(InputError, match="wrt names nothing"):
        cell().gradient({"cell.V": "sum"}, [])
    with pytest.raises(InputError, match="wrt is no list of names"):
        cell().gradient({"cell.V": "sum"}, [1])  # type: ignore[list-item]


def test_unknown_names() -> None:
    with pytest.raises(UnknownNameError, match=r"no output 'cell\.No'"):
        cell().gradient({"cell.No": "sum"}, ["cell.a"])
    with pytest.raises(LoopError, match=r"cell\.no"):
        cell().gradient({"cell.V": "sum"}, ["cell.a", "cell.no"])
    with pytest.raises(LoopError, match=r"'cell\.b'"):
        cell().gradient({"cell.V": "sum"}, ["cell.a"], set={"cell.b": 1.0})


def test_whole_numbers_and_truth_values_all_at_once() -> None:
    with pytest.raises(UnsupportedError) as error:
        cell().gradient({"cell.V": "sum"}, ["cell.count", "cell.a", "cell.flag"])
    assert [finding.what for finding in error.value.findings] == [
        "'cell.count' is int64: only by numbers with a point can be differentiated",
        "'cell.flag' is bool: only by numbers with a point can be differentiated",
    ]


def test_an_output_of_whole_numbers() -> None:
    with pytest.raises(UnsupportedError, match=r"'cell\.N' is int64\[\], which does not change"):
        cell().gradient({"cell.N": "sum"}, ["cell.a"])


@pytest.mark.parametrize("word", ["sse", "weighted"])
@pytest.mark.parametrize(
    ("steps", "data", "own"),
    [
        (None, np.zeros(3), [2]),
        (None, np.zeros((1, 2)), [2]),
        (4, np.zeros(2), [4, 2]),
        (4, np.zeros((3, 2)), [4, 2]),
        (4, np.zeros((4, 1)), [4, 2]),
    ],
)
def test_data_of_another_shape(word: str, steps: int | None, data: np.ndarray, own: Any) -> None:
    shape = list(data.shape)
    with pytest.raises(InputError) as error:
        cell().gradient({"cell.V": {word: data}}, ["cell.a"], steps=steps)
    sentence = f"the data of {word} of 'cell.V' have shape {shape}, but the output has {own}"
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    "data", ["abc", "1.5", None, [1.0, None], [[1.0], [1.0, 2.0]], {}, [1j, 2j]]
)
def test_data_that_are_no_numbers(data: Any) -> None:
    with pytest.raises(InputError, match=r"the data of sse of 'cell\.V' are no array of numbers"):
        cell().gradient({"cell.V": {"sse": data}}, ["cell.a"])


# --- a check ------------------------------------------------------------------------------------------

SQUASHED = one_node(
    parameters={
        "W": {"value": [[0.5, -0.25], [0.75, 1.0]]},
        "x": {"value": [1.0, -2.0]},
    },
    output_ports={"y": {"value": "numpy.tanh(W @ x)"}},
)


def wrong_tanh() -> registry.Row:
    """Return the registry row of Tanh with a derivative that is correct for positive numbers only."""
    right = registry.row_of("Tanh")

    def side(b: Any, op: Any, g: Any) -> Any:
        slope = b.op("Sub", b.constant(np.array(1.0)), b.op("Mul", op.outputs[0], op.outputs[0]))
        return b.op("Mul", g, b.op("Mul", slope, b.op("Sign", op.inputs[0])))

    return replace(right, derivative=Pointwise(lambda op: (side,)))


def test_a_check_reports_the_compared_elements() -> None:
    gradient = mdf_loop.compile(SQUASHED).gradient(
        {"cell.y": "sum"}, ["cell.W", "cell.x"], check=True
    )
    assert gradient.check is not None
    assert gradient.check.elements == 6
    assert gradient.check.largest < 1e-7
    assert gradient.to_dict()["check"]["elements"] == 6


def test_a_check_finds_a_wrong_rule_and_names_the_element(monkeypatch) -> None:
    """Check that the error names W[1, 1], which has the largest wrong derivative.

    W x is [1, -1.25], so that the derivatives through the second row have the wrong sign.
    """
    monkeypatch.setitem(registry._ROWS, "Tanh", wrong_tanh())
    with pytest.raises(
        GradientError, match=r"the derivative by 'cell\.W\[1, 1\]' is 0\.56\d+, but "
    ):
        mdf_loop.compile(SQUASHED).gradient({"cell.y": "sum"}, ["cell.W"], check=True)


@pytest.mark.usefixtures("whole_and_in_chunks")
def test_a_check_over_time() -> None:
    model = cell()
    inputs = {"current": np.linspace(0, 1, STEPS)}
    wrt = ["cell.a", "cell.start", "current", "cell.unused"]
    gradient = model.gradient(
        {"cell.V": ["mean", "last", {"sse": DATA}]}, wrt, inputs=inputs, steps=STEPS, check=True
    )
    assert gradient.check.elements == 1 + 2 + STEPS + 2


def test_a_check_of_trials() -> None:
    model = mdf_loop.compile(WALK)
    for of in ("mean", "sum", "last"):
        gradient = model.gradient({"cell.x": of}, ["cell.keep"], steps=9, trials=4, check=True)
        assert gradient.check.elements == 1


def test_a_check_finds_a_kink() -> None:
    model = mdf_loop.compile(
        one_node(
            parameters={"x": {"value": 0.0}},
            output_ports={"y": {"value": "2 * x if x > 0.0 else 0.0"}},
        )
    )
    assert model.gradient({"cell.y": "sum"}, ["cell.x"], set={"cell.x": 1.0}, check=True)
    with pytest.raises(GradientError, match="a kink, a spike or a count of iterations"):
        model.gradient({"cell.y": "sum"}, ["cell.x"], check=True)


def test_a_sweep_cannot_be_checked() -> None:
    with pytest.raises(InputError, match="a sweep cannot be checked"):
        cell().gradient({"cell.V": "sum"}, ["cell.a"], sweep={"cell.a": [0.1, 0.2]}, check=True)


# --- shapes that may change ---------------------------------------------------------------------------


def growing(leave: str) -> dict[str, Any]:
    return loop_model(
        {"M": 3, "v_initial": "x"},
        {"x_next": leave},
        port_values={"x": [1.0, 2.0]},
        carried="x",
        metadata={"shapes": "dynamic"},
    )


def test_a_loop_that_may_change_its_shape_but_does_not() -> None:
    gradient = mdf_loop.compile(growing("x * x")).gradient({"A.r0": "sum"}, ["x"])
    assert gradient["x"].tolist() == [8.0, 8 * 2.0**7]


def test_a_loop_that_changes_its_shape_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="may change its shape: loops that carry it have no"):
        mdf_loop.compile(growing("numpy.concatenate([x, x])")).gradient({"A.r0": "sum"}, ["x"])


# --- one step, and arrays without elements ------------------------------------------------------------


def with_a_loop_inside(value: str) -> dict[str, Any]:
    """Return a model over time whose loop computes `value` from a vector u and a matrix W in every step."""
    ports = {"go": {"value": True}, "s_next": {"value": f"0.5 * s + 0.1 * {value}"}}
    node = {"input_ports": {"s": {}, "u": {}, "W": {}}, "output_ports": ports}
    metadata = {"inputs": ["i", "go_in", "s"], "outputs": ["go", "s_next"]}
    body = {"b": {"metadata": metadata, "nodes": {"q": node}}}
    args = {"M": 2, "v_initial": "(0.3 * k,)", "body": body}
    return one_node(
        parameters={
            "k": {"value": 0.3},
            "w": {"value": [1.0, 2.0]},
            "W": {"value": [[1.0, 2.0], [0.5, -1.0]]},
            "u": {"default_initial_value": [1.0, 2.0], "value": "0.6 * u + 0.3 * w"},
            "x": {"default_initial_value": 0.2, "value": "0.5 * x + loop"},
        },
        functions={"loop": {"function": "onnx::Loop", "args": args}},
        output_ports={"y": {"value": "x"}},
    )


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("value", ["numpy.tanh(u @ u)", "numpy.var(u)", "numpy.sum(W @ W)"])
def test_a_loop_inside_of_few_steps(value: str, steps: int) -> None:
    compiled = mdf_loop.compile(with_a_loop_inside(value), native="off", device="cpu")
    by = ["cell.k", "cell.w", "cell.W", "cell.u"]
    compiled.gradient({"cell.y": "sum"}, by, steps=steps, check=True)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("shape", [(0, 2, 2), (2, 0, 2), (2, 2, 0), (0, 0, 0)], ids=str)
def test_states_and_products_without_elements(shape: tuple[int, int, int], steps: int) -> None:
    n, m, k = shape
    model = one_node(
        parameters={
            "W": {"value": np.ones((n, k))},
            "V": {"value": np.ones((k, m))},
            "g": {"value": 0.5},
            "u": {"default_initial_value": np.ones((n, m)), "value": "0.5 * u + W @ V"},
            "s": {"default_initial_value": 1.0, "value": "0.9 * s * g + numpy.sum(u)"},
        },
        output_ports={"y": {"value": "s"}},
    )
    by = ["cell.g", "cell.W", "cell.V", "cell.u"]
    for native in ("auto", "off"):
        compiled = mdf_loop.compile(model, native=native, device="cpu")
        gradient = compiled.gradient({"cell.y": "sum"}, by, steps=steps, check=True)
        assert [gradient[name].shape for name in by] == [(), (n, k), (k, m), (n, m)]
