"""Random draws of a model: each site has a stream, and each iteration takes the next numbers of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import mdf_loop
from mdf_loop import streams
from mdf_loop.errors import InputError
from tests.noisy_models import LOOP, WALK, model


def numbers(site: str, count: int, seed: int = 0, trial: int = 0) -> np.ndarray:
    """Return the first uniform numbers of a site."""
    key = streams.keys(seed, streams.site(site), trial)
    return streams.uniform(streams.squares(np.arange(count), key))


def walk(steps: int, seed: int = 0, trial: int = 0) -> np.ndarray:
    """Compute the random walk with NumPy."""
    x, rows = 1.0, []
    for z in streams.normal(numbers("g.A.x#0", steps, seed, trial)):
        x = 0.9 * x + (0.5 + 2.0 * z)
        rows.append(x)
    return np.array(rows)


# --- over time ------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["onnxruntime", "interpreter"])
@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_steps_take_one_number_after_the_other(engine: str, seed: int) -> None:
    results = mdf_loop.compile(model(WALK)).run(steps=20, seed=seed, engine=engine)
    np.testing.assert_array_equal(results["x"], walk(20, seed))
    np.testing.assert_array_equal(results["y"].ravel(), numbers("g.A.y#0", 60, seed))
    assert results.seed == seed


def test_a_run_can_be_cut_anywhere() -> None:
    compiled = mdf_loop.compile(model(WALK))
    unbroken_run = compiled.run(steps=9, seed=3)
    for cut in range(1, 9):
        first_part = compiled.run(steps=cut, seed=3)
        second_part = compiled.run(steps=9 - cut, seed=3, state=first_part.state)
        for name in ("A.x", "A.y"):
            np.testing.assert_array_equal(
                np.concatenate([first_part[name], second_part[name]]), unbroken_run[name]
            )


def test_a_second_run_draws_the_same() -> None:
    compiled = mdf_loop.compile(model(WALK))
    first, second, other = (compiled.run(steps=4, seed=seed)["x"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.intersect1d(first, other).size


def test_results_contain_a_fresh_seed() -> None:
    compiled = mdf_loop.compile(model(WALK))
    one, other = (compiled.run(steps=4, seed="fresh") for _ in range(2))
    assert one.seed != other.seed
    np.testing.assert_array_equal(one["x"], compiled.run(steps=4, seed=one.seed)["x"])
    assert one.to_dict()["seed"] == one.seed


# --- trials and sweeps ----------------------------------------------------------------------------


def test_random_numbers_of_a_trial_are_independent_of_other_trials() -> None:
    compiled = mdf_loop.compile(model(WALK))
    all_trials = compiled.run(steps=6, trials=50, seed=5)
    assert [axis.name for axis in all_trials.axes] == ["trial", "time"]
    for trial in (0, 1, 49):
        np.testing.assert_array_equal(all_trials["x"][trial], walk(6, 5, trial))
    np.testing.assert_array_equal(
        compiled.run(steps=6, trials=[49], seed=5)["x"][0], all_trials["x"][49]
    )
    some = compiled.run(steps=6, trials=range(7, 10), seed=5)
    np.testing.assert_array_equal(some["x"], all_trials["x"][7:10])
    assert some.axes[0].coordinates["trial"].tolist() == [7, 8, 9]
    np.testing.assert_array_equal(compiled.run(steps=6, seed=5)["x"], all_trials["x"][0])


def test_trials_stand_behind_a_sweep_whose_members_share_them() -> None:
    compiled = mdf_loop.compile(model(WALK))
    results = compiled.run(steps=5, trials=3, sweep={"A.x": [1.0, 0.0]})
    assert results["x"].shape == (2, 3, 5)
    assert [axis.name for axis in results.axes] == ["batch", "trial", "time"]
    for trial in range(3):
        np.testing.assert_array_equal(results["x"][0, trial], walk(5, 0, trial))
    np.testing.assert_array_equal(results["y"][0], results["y"][1])
    assert results.to_xarray()["A.x"].dims == ("batch", "trial", "time")


def test_seeds_can_be_swept() -> None:
    compiled = mdf_loop.compile(model(WALK))
    results = compiled.run(steps=4, sweep={"seed": [3, 9]}, trials=2)
    assert results.seed is None
    for k, seed in enumerate((3, 9)):
        for trial in range(2):
            np.testing.assert_array_equal(results["x"][k, trial], walk(4, seed, trial))


def test_streamed_trials_of_a_sweep(tmp_path: Path) -> None:
    compiled = mdf_loop.compile(model(WALK))
    options = {"steps": 50, "trials": 3, "sweep": {"A.x": [1.0, 0.0]}}
    streamed = compiled.run(**options, output=tmp_path / "walk.zarr")
    np.testing.assert_array_equal(np.asarray(streamed["x"]), compiled.run(**options)["x"])


@pytest.mark.parametrize("suffix", ["json", "h5", "nc", "zarr"])
def test_files_contain_the_seed(tmp_path: Path, suffix: str) -> None:
    compiled, file = mdf_loop.compile(model(WALK)), tmp_path / f"walk.{suffix}"
    compiled.run(steps=3, seed=2**64 - 1, output=file)
    assert b"18446744073709551615" in (file / "zarr.json" if file.is_dir() else file).read_bytes()


def test_results_without_one_common_seed_have_no_seed_attribute() -> None:
    still = {"parameters": {"x": {"value": 1.0}}, "output_ports": {"x": {"value": "x"}}}
    assert "seed" not in mdf_loop.compile(model(still)).run(seed=5).to_xarray().attrs
    sweep_run = mdf_loop.compile(model(WALK)).run(sweep={"seed": [1, 2]}).to_xarray()
    assert "seed" not in sweep_run.attrs
    assert sweep_run["seed"].values.tolist() == [1, 2]


def test_trials_go_on_from_their_states() -> None:
    compiled = mdf_loop.compile(model(WALK))
    first_part = compiled.run(steps=3, trials=4)
    second_part = compiled.run(steps=2, trials=4, state=first_part.state)
    for trial in range(4):
        np.testing.assert_array_equal(second_part["x"][trial], walk(5, 0, trial)[3:])


def test_trials_may_begin_where_one_run_ended() -> None:
    compiled = mdf_loop.compile(model(WALK))
    first_part = compiled.run(steps=3)
    second_part = compiled.run(steps=2, trials=4, state=first_part.state)
    np.testing.assert_array_equal(second_part["x"][0], walk(5)[3:])
    assert len(np.unique(second_part["x"][:, 0])) == 4


@pytest.mark.parametrize("other", [{"seed": 1}, {"seed": 1, "trials": 3}, {"trials": [4, 5, 6]}])
def test_a_state_goes_on_with_its_own_random_numbers(other: dict[str, Any]) -> None:
    compiled = mdf_loop.compile(model(WALK))
    first_part = compiled.run(steps=3, **({"trials": 3} if "trials" in other else {}))
    with pytest.raises(InputError, match="reached with other random numbers"):
        compiled.run(steps=2, state=first_part.state, **{"trials": None, **other})


def test_a_checkpoint_goes_on_with_the_same_numbers(tmp_path: Path) -> None:
    compiled = mdf_loop.compile(model(WALK))
    options = {"checkpoint": tmp_path / "run.ckpt", "progress": lambda progress: progress.done < 7}
    first_part = compiled.run(steps=5000, trials=3, seed=2, **options)
    assert first_part.stopped_by.is_asked
    with pytest.raises(InputError, match="seed"):
        compiled.run(steps=5000, trials=3, seed=3, resume=tmp_path / "run.ckpt")
    resumed_run = compiled.run(steps=5000, trials=3, seed=2, resume=tmp_path / "run.ckpt")
    np.testing.assert_array_equal(resumed_run["x"], compiled.run(steps=5000, trials=3, seed=2)["x"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 2**64}, "seed must be a whole number"),
        ({"seed": True}, "seed must be a whole number"),
        ({"seed": "old"}, "seed must be a whole number"),
        ({"trials": 0}, "trials must be how many"),
        ({"trials": []}, "trials must be how many"),
        ({"trials": [1, 1]}, "trials must be how many"),
        ({"trials": "all"}, "trials must be how many"),
        ({"trials": [-1]}, "trials must be how many"),
        ({"sweep": {"seed": [0.5]}}, "the sweep of 'seed'"),
        ({"steps": 5, "trials": 2, "when": "A.x"}, "cannot choose rows"),
    ],
)
def test_invalid_seeds_and_trials_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mdf_loop.compile(model(WALK)).run(**options)


def test_trials_of_a_model_that_draws_nothing_are_refused() -> None:
    still = {"parameters": {"x": {"value": 1.0}}, "output_ports": {"x": {"value": "x"}}}
    for options in ({"trials": 3}, {"sweep": {"seed": [1, 2]}}, {"trials": 2, "steps": 4}):
        with pytest.raises(InputError, match="draws no random numbers"):
            mdf_loop.compile(model(still)).run(**options)


# --- places ---------------------------------------------------------------------------------------


def value(expression: Any, **parameters: Any) -> Any:
    """Return the value of an output expression after one evaluation."""
    node = {"parameters": parameters, "output_ports": {"y": {"value": expression}}}
    return mdf_loop.compile(model(node)).run()["y"]


def test_calls_are_counted_as_they_are_written() -> None:
    first, second = (numbers(f"g.A.y#{k}", 1)[0] for k in range(2))
    assert value("numpy.random.uniform() - 2 * random.random()") == first - 2 * second
    inner = value("numpy.random.uniform(numpy.random.uniform(), 1.0)")
    assert inner == second + (1.0 - second) * first
    skipped = value(
        "0 * numpy.random.random_sample() if off else random.random()", off={"value": 0}
    )
    assert skipped == second


def test_parts_of_an_item_are_sites_of_their_own() -> None:
    node = {
        "functions": {
            "f": {
                "function": "linear",
                "args": {
                    "variable0": "random.random()",
                    "slope": "random.random()",
                    "intercept": 0.0,
                },
            }
        },
        "parameters": {
            "x": {"value": "x + random.random()", "default_initial_value": "random.random()"}
        },
        "output_ports": {"x": {"value": "x"}, "y": {"value": "f"}},
    }
    results = mdf_loop.compile(model(node)).run(steps=2)
    begun = numbers("g.A.x.default_initial_value#0", 1)[0]
    drawn = numbers("g.A.x#0", 2)
    np.testing.assert_array_equal(results["x"], [begun + drawn[0], begun + drawn[0] + drawn[1]])
    by = (numbers("g.A.f.slope#0", 2), numbers("g.A.f.variable0#0", 2))
    np.testing.assert_array_equal(results["y"], by[0] * by[1] + 0.0)


def test_a_node_that_does_not_run_consumes_its_random_numbers() -> None:
    draws = {
        "parameters": {"x": {"value": "random.random()"}},
        "output_ports": {"x": {"value": "x"}},
    }
    document = model(draws)
    document["m"]["graphs"]["g"]["conditions"] = {
        "node_specific": {"A": {"type": "AfterNCalls", "kwargs": {"dependency": "B", "n": 3}}},
        "termination": {"environment_state_update": {"type": "AllHaveRun", "kwargs": {}}},
    }
    document["m"]["graphs"]["g"]["nodes"]["B"] = {
        "parameters": {"n": {"value": "n + 1", "default_initial_value": 0}},
        "output_ports": {"n": {"value": "n"}},
    }
    del document["m"]["graphs"]["g"]["conditions"]["termination"]
    results = mdf_loop.compile(document).run(steps=3, engine="onnxruntime")
    drawn = numbers("g.A.x#0", 9)
    assert set(results["x"].tolist()) <= set(drawn.tolist())
    assert len(set(results["x"].tolist())) == 3


@pytest.mark.parametrize("unroll", [None, 8])
def test_iterations_of_a_loop_are_counted_over_all_its_runs(unroll: int | None) -> None:
    compiled = mdf_loop.compile(model(LOOP), unroll=unroll)
    drawn = numbers("g.A.f.body.B.z#0", 12)
    np.testing.assert_array_equal(compiled.run()["rows"], drawn[:4])
    np.testing.assert_array_equal(compiled.run(steps=3)["rows"].ravel(), drawn)
    first_part = compiled.run(steps=1)
    second_part = compiled.run(steps=2, state=first_part.state)
    np.testing.assert_array_equal(second_part["rows"].ravel(), drawn[4:])


def test_an_exported_file_has_the_keys_as_an_input(tmp_path: Path) -> None:
    compiled = mdf_loop.compile(model(WALK))
    compiled.save(tmp_path / "walk.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "walk.onnx"))
    names = [output.name for output in session.get_outputs()]
    runtime_outputs = dict(zip(names, session.run(None, {}), strict=True))
    np.testing.assert_array_equal(runtime_outputs["A.y"], compiled.run()["y"])
    keys = streams.keys(8, streams.sites(compiled.program.sites), 2)
    other = dict(zip(names, session.run(None, {"random_keys": keys}), strict=True))
    np.testing.assert_array_equal(other["A.y"], compiled.run(seed=8, trials=[2])["y"][0])
