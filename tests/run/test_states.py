"""Runs that continue from the state of another run, and rows of every k-th step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError
from mdf_loop.run import time_session as over_time
from mdf_loop.run.states import load_state, save_state
from tests.long_runs.helpers import lengths
from tests.models.timed import ALL, NEURON, graph, same

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STEPS = 12
CASES = [(name, dt) for name in ALL for dt in (None, 0.5)]


def concatenate_rows(first: Any, second: Any) -> dict[str, Any]:
    """Concatenate the rows and the time coordinates of two runs."""
    rows = {name: np.concatenate([first[name], second[name]]) for name in first}
    (before,), (after,) = first.axes, second.axes
    for name, along in before.coordinates.items():
        rows[f"along {name}"] = np.concatenate([along, after.coordinates[name]])
    return rows


def whole(results: Any) -> dict[str, Any]:
    return {**results, **{f"along {k}": a for k, a in results.axes[0].coordinates.items()}}


def same_rows(left: dict[str, Any], right: dict[str, Any]) -> None:
    """Check that rows are equal; only missing rows convert integers to floats."""
    assert list(left) == list(right)
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)
        assert left[name].shape == right[name].shape


@pytest.fixture(scope="module")
def compiled() -> dict[str, mdf_loop.CompiledModel]:
    return {name: mdf_loop.compile(model, device="cpu") for name, model in ALL.items()}


# --- every ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("small", [0, over_time.SMALL_ROW_BYTES])
@pytest.mark.parametrize(("name", "dt"), CASES)
def test_every_keeps_each_kth_row(compiled, monkeypatch, name, dt, small):
    monkeypatch.setattr(over_time, "SMALL_ROW_BYTES", small)
    for steps in range(1, 21):
        every_row = compiled[name].run(steps=steps, dt=dt)
        for every in range(1, 8):
            thinned = compiled[name].run(steps=steps, dt=dt, every=every)
            same_rows(whole(thinned), {n: rows[::every] for n, rows in whole(every_row).items()})
            same(thinned.state, every_row.state)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dt"), CASES)
def test_rows_before_the_last_one_need_not_be_made(compiled, monkeypatch, name, dt):
    names = [*compiled[name].run(steps=1, dt=dt)]
    options = {"dt": dt, "only": (), "reduce": dict.fromkeys(names, "last")}
    for steps in (1, 2, 3, 7, 20):
        results = compiled[name].run(steps=steps, **options)
        monkeypatch.setattr(over_time, "SMALL_ROW_BYTES", 0)
        with lengths(lambda: 3):
            lean = compiled[name].run(steps=steps, **options)
        monkeypatch.undo()
        same(dict(lean), dict(results))
        same(lean.state, results.state)


def test_last_rows_of_members():
    """Check the last rows of a sweep in chunks of any length, also next to a second reduction."""
    model = mdf_loop.compile(EXAMPLES / "parameter_sweep" / "model.yaml", device="cpu")
    options = {"sweep": {"current": np.linspace(0, 2, 700)}, "steps": 50, "dt": 0.1}
    every_row = model.run(**options)
    for length in (1, 7, 50):
        with lengths(lambda length=length: length):
            last = model.run(**options, reduce={"v": "last"})
            both = model.run(**options, reduce={"v": ["last", "max"]})
        np.testing.assert_array_equal(last["fn.v.last"], every_row["v"][:, -1])
        np.testing.assert_array_equal(both["fn.v.last"], every_row["v"][:, -1])
        np.testing.assert_array_equal(both["fn.v.max"], every_row["v"].max(axis=1))


def test_rows_left_out_have_a_part_in_the_type():
    """Check that a state which becomes a float in a skipped step is a float in all rows."""
    node = {
        "parameters": {"v": {"default_initial_value": 1, "time_derivative": "0.5"}},
        "output_ports": {"v": {"value": "v"}},
    }
    compiled = mdf_loop.compile(graph(n=node), device="cpu")
    every_row, thinned = compiled.run(steps=3, dt=1.0), compiled.run(steps=3, dt=1.0, every=5)
    assert every_row["v"].dtype == thinned["v"].dtype == "float64"
    assert thinned["v"].tolist() == [1.0]


# --- going on -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "dt"), CASES)
@pytest.mark.parametrize("every", [1, 2, 5])
def test_two_consecutive_runs_equal_one_run(compiled, name, dt, every):
    unbroken = compiled[name].run(steps=STEPS, dt=dt, every=every)
    for split in range(1, STEPS):
        first = compiled[name].run(steps=split, dt=dt, every=every)
        second = compiled[name].run(steps=STEPS - split, dt=dt, every=every, state=first.state)
        same_rows(concatenate_rows(first, second), whole(unbroken))
        same(second.state, unbroken.state)


@pytest.mark.parametrize(
    ("name", "port", "shape"), [("neuron", "I", ()), ("pair", "drive", ()), ("arrays", "I", (3,))]
)
@pytest.mark.parametrize("every", [1, 3])
def test_with_inputs_over_time(compiled, name, port, shape, every):
    rows = np.random.default_rng(5).normal(size=(STEPS, *shape))
    how = {"dt": 0.5, "every": every}
    unbroken = compiled[name].run({port: rows}, steps=STEPS, **how)
    for split in range(1, STEPS):
        first = compiled[name].run({port: rows[:split]}, steps=split, **how)
        rest = {port: rows[split:]}
        second = compiled[name].run(rest, steps=STEPS - split, state=first.state, **how)
        same_rows(concatenate_rows(first, second), whole(unbroken))


@pytest.mark.parametrize("name", ALL)
def test_a_saved_state_continues_in_a_new_compiled_model(compiled, name, tmp_path):
    unbroken = compiled[name].run(steps=STEPS, dt=0.1)
    first = compiled[name].run(steps=5, dt=0.1)
    save_state(tmp_path / "state.npz", first.state)
    np.savez(tmp_path / "by_hand.npz", **first.state)
    other = mdf_loop.compile(ALL[name], device="cpu")
    for state in (load_state(tmp_path / "state.npz"), np.load(tmp_path / "by_hand.npz")):
        second = other.run(steps=STEPS - 5, dt=0.1, state=state)
        same_rows(concatenate_rows(first, second), whole(unbroken))
        same(second.state, unbroken.state)


def test_step_by_step(compiled):
    unbroken = compiled["pair"].run(steps=STEPS, dt=0.5)
    results = compiled["pair"].run(steps=1, dt=0.5)
    rows = [results["rate"]]
    for _ in range(STEPS - 1):
        results = compiled["pair"].run(steps=1, dt=0.5, state=results.state)
        rows.append(results["rate"])
    np.testing.assert_array_equal(np.concatenate(rows), unbroken["rate"])


def test_a_state_is_not_changed_and_can_be_reused(compiled):
    state = compiled["neuron"].run(steps=3, dt=0.5).state
    copies = {name: array.copy() for name, array in state.items()}
    once = compiled["neuron"].run(steps=3, dt=0.5, state=state)
    same(state, copies)
    same(compiled["neuron"].run(steps=3, dt=0.5, state=state), once)


def test_runs_shorter_than_every_have_no_rows(compiled):
    state = compiled["arrays"].run(steps=1, dt=0.5).state
    none = compiled["arrays"].run(steps=2, dt=0.5, every=10, state=state)
    assert none["net.r"].shape == (0, 3)
    assert none.time.shape == (0,)
    assert none.state["step"] == 3


def test_other_inputs_parameters_and_dt_from_a_state_on(compiled):
    first = compiled["neuron"].run(steps=4, dt=0.5)
    second = compiled["neuron"].run(
        {"I": 0.0}, set={"fn.a": 0.1}, steps=3, dt=0.25, state=first.state
    )
    assert second.time.tolist() == [1.75, 2.0, 2.25]
    v, w = first["v"][-1], first["w"][-1]
    v = v + (v - v * v * v / 3 - w + 0.0) * 0.25
    assert second["v"][0] == v


def test_float32(tmp_path):
    compiled = mdf_loop.compile(NEURON, device="cpu", precision="float32")
    unbroken = compiled.run(steps=STEPS, dt=0.1)
    first = compiled.run(steps=5, dt=0.1)
    save_state(tmp_path / "state.npz", first.state)
    second = compiled.run(steps=STEPS - 5, dt=0.1, state=load_state(tmp_path / "state.npz"))
    same_rows(concatenate_rows(first, second), whole(unbroken))


# --- sweeps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sweep"),
    [
        ("neuron", {"fn.a": [0.1, 0.7, 1.5]}),
        ("arrays", {"net.leak": [0.5, 0.25, 0.125]}),
        ("pair", {"source.gain": [0.0, 0.5, 2.0]}),
        ("scheduled", {"fast.step": [1, 2, 3]}),
    ],
)
def test_a_sweep_goes_on(compiled, name, sweep):
    unbroken = compiled[name].run(sweep=sweep, steps=STEPS, dt=0.5)
    for split in range(1, STEPS):
        first = compiled[name].run(sweep=sweep, steps=split, dt=0.5)
        second = compiled[name].run(sweep=sweep, steps=STEPS - split, dt=0.5, state=first.state)
        for output in unbroken:
            both = np.concatenate([first[output], second[output]], axis=1)
            np.testing.assert_array_equal(both, unbroken[output])
        same(second.state, unbroken.state)


def test_members_start_from_the_state_of_one_run(compiled):
    state = compiled["arrays"].run(steps=4, dt=0.5).state
    sweep_run = compiled["arrays"].run(
        sweep={"net.leak": [0.5, 0.25]}, steps=3, dt=0.5, state=state
    )
    for k, leak in enumerate([0.5, 0.25]):
        single = compiled["arrays"].run(set={"net.leak": leak}, steps=3, dt=0.5, state=state)
        np.testing.assert_array_equal(sweep_run["net.r"][k], single["net.r"])


def test_a_state_becomes_an_array_in_a_sweep():
    """Check that a state which grows from a number to a vector has the member axis first."""
    node = {
        "input_ports": {"x": {"default_value": [1.0, 2.0, 3.0]}},
        "parameters": {
            "k": {"value": 1.0},
            "v": {"default_initial_value": "k", "time_derivative": "k * x"},
        },
        "output_ports": {"v": {"value": "v"}},
    }
    compiled = mdf_loop.compile(graph(n=node), device="cpu")
    ks = [1.0, 2.0, 4.0]
    sweep_run = compiled.run(sweep={"n.k": ks}, steps=4, dt=0.5)
    for row, k in zip(sweep_run["v"], ks, strict=True):
        np.testing.assert_array_equal(row, compiled.run(set={"n.k": k}, steps=4, dt=0.5)["v"])
    first = compiled.run(sweep={"n.k": ks}, steps=1, dt=0.5)
    second = compiled.run(sweep={"n.k": ks}, steps=3, dt=0.5, state=first.state)
    np.testing.assert_array_equal(second["v"], sweep_run["v"][:, 1:])


# --- states that are none -------------------------------------------------------------------------


def neuron_state(**changed: Any) -> dict[str, Any]:
    state = {
        "step": np.array(3),
        "time": np.array(1.0),
        "parameter fn.v": np.array(0.5),
        "parameter fn.w": np.array(0.25),
    }
    return {**state, **{name.replace("_", " "): value for name, value in changed.items()}}


V = "'parameter fn.v' of the state is {}, but this model carries float64[]"


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (3, "the state is no mapping of arrays: 3"),
        ({}, "the state is not one of this model: it has no 'parameter fn.v'"),
        ({"step": 1, "time": 0.0}, "it has no 'parameter fn.v'"),
        (neuron_state(step=0), "'step' of the state is no whole number above 0: 0"),
        (neuron_state(step=2.5), "'step' of the state is no whole number"),
        (neuron_state(step=[1, 2]), "'step' of the state is no whole number"),
        (neuron_state(step="x"), "'step' of the state is no whole number"),
        (neuron_state(time=float("nan")), "'time' of the state must be one finite number, not"),
        (neuron_state(time=[1.0, 2.0]), "'time' of the state must be one finite number, not"),
        (neuron_state(**{"parameter_fn.v": np.zeros(3)}), V.format("float64[3]")),
        (neuron_state(**{"parameter_fn.v": np.zeros((1, 1))}), V.format("float64[1, 1]")),
        (neuron_state(**{"parameter_fn.v": "x"}), V.format("<U1[]")),
        (neuron_state(**{"parameter_fn.v": 1j}), V.format("complex128[]")),
        (neuron_state(**{"parameter_fn.v": None}), V.format("object[]")),
        (neuron_state(**{"parameter_fn.v": [[1], [1, 2]]}), V.format("object[0]")),
    ],
)
def test_wrong_states_are_refused(compiled, state, sentence):
    with pytest.raises(InputError) as caught:
        compiled["neuron"].run(steps=2, dt=0.5, state=state)
    assert sentence in str(caught.value)


def test_valid_forms_of_a_state(compiled):
    exact = compiled["neuron"].run(steps=2, dt=0.5, state=neuron_state())
    plain_state = {
        "step": 3,
        "time": 1.0,
        "parameter fn.v": 0.5,
        "parameter fn.w": np.float32(0.25),
    }
    same(compiled["neuron"].run(steps=2, dt=0.5, state=plain_state), exact)


def test_states_of_other_models_are_refused(compiled):
    state = compiled["neuron"].run(steps=2, dt=0.5).state
    for name in ("pair", "arrays", "scheduled"):
        with pytest.raises(InputError, match="the state is not one of this model"):
            compiled[name].run(steps=2, dt=0.5, state=state)
    float32_values = mdf_loop.compile(NEURON, device="cpu", precision="float32")
    with pytest.raises(InputError, match=r"is float64\[\], but this model carries float32\[\]"):
        float32_values.run(steps=2, dt=0.5, state=state)


def test_sweeps_of_other_sizes(compiled):
    state = compiled["neuron"].run(sweep={"fn.a": [0.1, 0.2]}, steps=2, dt=0.5).state
    with pytest.raises(InputError, match="of a sweep of 2 members, but this sweep has 3"):
        compiled["neuron"].run(sweep={"fn.a": [1, 2, 3]}, steps=2, dt=0.5, state=state)
    with pytest.raises(InputError, match=r"is float64\[2\], but this model carries float64\[\]"):
        compiled["neuron"].run(steps=2, dt=0.5, state=state)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"state": neuron_state()}, "state needs steps"),
        ({"execution_list": True}, "execution_list needs steps"),
        ({"every": 2}, "every needs steps"),
        ({"dt": 0.5}, "dt needs steps"),
        ({"steps": 2, "engine": "modeci", "state": neuron_state()}, "engine takes no state"),
    ],
)
def test_options_that_require_a_compiled_run_over_time(compiled, options, sentence):
    with pytest.raises(InputError, match=sentence):
        compiled["neuron"].run(**options)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "there is no file"),
        (b"no archive", "'state.npz' is not an npz file"),
        (b"", "'state.npz' is not an npz file"),
        ({"FNpop.V": np.zeros(3)}, "'state.npz' holds no state"),
    ],
)
def test_files_without_a_state(tmp_path, content, sentence):
    path = tmp_path / "state.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.savez(path, **content)
    with pytest.raises(InputError) as caught:
        load_state(path)
    assert sentence in str(caught.value)


def test_files_that_cannot_be_written(tmp_path, compiled):
    state = compiled["neuron"].run(steps=2).state
    with pytest.raises(InputError, match=r"(?s)cannot save a state as '\.csv'.*use \.npz"):
        save_state(tmp_path / "state.csv", state)
    with pytest.raises(InputError, match="there is no folder"):
        save_state(tmp_path / "no" / "state.npz", state)
    with pytest.raises(InputError, match="only a compiled model run over time ends in a state"):
        save_state(tmp_path / "state.npz", compiled["neuron"].run().state)


def test_a_model_that_gives_nothing_is_refused_over_time_too():
    silent = graph(n={"functions": {"n": {"value": "1 + 1"}}})
    with pytest.raises(mdf_loop.LoopError, match="there is nothing to compute"):
        mdf_loop.compile(silent, device="cpu").run(steps=3)
    results = mdf_loop.compile(silent, device="cpu").run(steps=3, record=["n.n"])
    assert results["n.n"].tolist() == [2, 2, 2]


def test_a_model_whose_output_ports_all_feed_nodes_says_so():
    node = {
        "input_ports": {"x": {"default_value": 1.0}},
        "output_ports": {"x": {"value": "x / 2"}},
    }
    ends = {"sender_port": "x", "receiver_port": "x"}
    mutual = graph(left=node, right=node)
    mutual["g"]["edges"] = {
        "there": {"sender": "left", "receiver": "right", **ends},
        "back": {"sender": "right", "receiver": "left", **ends},
    }
    for steps in (None, 3):
        with pytest.raises(mdf_loop.LoopError, match="all output ports of 'g' feed nodes") as error:
            mdf_loop.compile(mutual, device="cpu").run(steps=steps)
        assert "metadata: {outputs: [left.x, right.x]}" in str(error.value)
    mutual["g"]["metadata"] = {"outputs": ["left.x", "right.x"]}
    assert mdf_loop.compile(mutual, device="cpu").run(steps=3)["left.x"].shape == (3,)
