"""A store belongs to one run, and results belong to the rows of the run that created them."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from msgspec.structs import asdict, replace

import mdf_loop
from mdf_loop.errors import InputError
from mdf_loop.run.recording import store_lease
from mdf_loop.run.recording.lock import describe_this_process
from tests.models.timed import ADDING

FOREVER = 100_000_000
STEPS = 200_000
WRITTEN = "is being written by run"


@pytest.fixture(scope="module")
def model() -> Any:
    return mdf_loop.compile(ADDING["g"], device="cpu")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(model: Any, by: float = 1.0, steps: int = 50, **more: Any) -> mdf_loop.Results:
    return model.run(set={"add.by": by}, steps=steps, **{"output": "x.zarr", **more})


def parameter_of_rows(path: str = "x.zarr") -> float:
    """Return the parameter of the run whose rows are in the store, and check the rows."""
    by = zarr.open_array(f"{path}/add.by", mode="r")[...]
    x = zarr.open_array(f"{path}/add.x", mode="r")[...]
    assert len(set(by)) == 1
    np.testing.assert_array_equal(x, by[0] * np.arange(1, len(x) + 1))
    return float(by[0])


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def attributes() -> dict[str, Any]:
    entries: dict[str, Any] = json.loads(Path("x.zarr/zarr.json").read_text())["attributes"]
    return entries


def stop_after(act: Callable[[], object]) -> Callable[[Any], bool]:
    """Return a callback that acts once the store exists and then stops the run."""
    done: list[object] = []

    def told(progress: Any) -> bool:
        if not (Path("x.zarr").exists() and progress.done):
            return True
        if not done:
            done.append(act())
        return False

    return told


class Killed(BaseException):
    """Exception that stands for a killed process."""


def kill() -> None:
    raise Killed


# --- two runs -----------------------------------------------------------------------------------


def test_a_second_run_is_refused_while_the_first_goes_on(model, here):
    errors = []

    def second() -> None:
        assert "unfinished" in attributes()
        for more in ({}, {"overwrite": True}, {"steps": None}, {"engine": "modeci"}):
            with pytest.raises(InputError, match=WRITTEN) as caught:
                run(model, 2.0, **more)
            errors.append(caught.value)
        with pytest.raises(InputError, match=WRITTEN):
            mdf_loop.Results({"A.x": np.zeros(3)}, {}, "cpu", "float64").save("x.zarr")

    results = run(model, steps=FOREVER, progress=stop_after(second))
    assert len(errors) == 4
    assert attributes()["run"] in str(errors[0])
    assert results["add.x"].size > 1
    assert parameter_of_rows() == 1.0
    assert "unfinished" not in attributes()
    assert files(here) == ["x.zarr"]


def test_two_threads(model, here):
    begin, ended = threading.Barrier(2), []

    def one(by: float) -> None:
        begin.wait()
        try:
            ended.append(run(model, by, steps=3000))
        except InputError as error:
            ended.append(error)

    threads = [threading.Thread(target=one, args=(by,)) for by in (1.0, 2.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (refused,) = (end for end in ended if isinstance(end, InputError))
    (results,) = (end for end in ended if isinstance(end, mdf_loop.Results))
    assert f"'x.zarr' {WRITTEN}" in str(refused) or "has the rows of run" in str(refused)
    assert parameter_of_rows() == results["add.by"][-1]
    assert files(here) == ["x.zarr"]


@pytest.mark.parametrize("wrong", [{"only": ["nothing"]}, {"dt": "x"}, {"state": {}}])
def test_a_run_that_is_refused_keeps_no_lock(model, here, wrong):
    with pytest.raises(mdf_loop.LoopError):
        run(model, **wrong)
    assert files(here) == []


def test_a_long_run_updates_its_lock(model, here, monkeypatch):
    monkeypatch.setattr(store_lease, "RENEWAL_SECONDS", 0.01)
    heard = []

    def look() -> None:
        for _ in range(2):
            lock = json.loads(Path("x.zarr.lock").read_text())
            heard.append(lock["mdf_loop_lock"][0]["heard"])
            time.sleep(0.1)

    run(model, steps=FOREVER, progress=stop_after(look))
    assert heard[0] < heard[1]


def test_a_run_that_has_lost_its_store_writes_nothing_more(model, here):
    other_owner = replace(
        describe_this_process("20260101-000000-00000000"), host="far", system="far"
    )

    def take() -> None:
        Path("x.zarr.lock").write_text(json.dumps({"mdf_loop_lock": [asdict(other_owner)]}))
        Path("x.zarr").rename("old.zarr")
        Path("x.zarr").mkdir()

    def told(progress: Any) -> None:
        if Path("x.zarr/add.by/c").exists() and not Path("old.zarr").exists():
            take()

    with pytest.raises(InputError, match=r"'x.zarr' belongs no more to this run") as lost:
        run(model, steps=FOREVER, progress=told, checkpoint="c", checkpoint_every=1e-9)
    assert "run 20260101-000000-00000000 (process" in str(lost.value)
    assert "on far, since" in str(lost.value)
    assert files(here / "x.zarr") == []
    assert parameter_of_rows("old.zarr") == 1.0
    assert files(here) == ["c", "old.zarr", "x.zarr", "x.zarr.lock"]


# --- stores that are there ----------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"steps": None}, {"engine": "modeci"}])
def test_a_finished_store_is_replaced_on_request(model, here, more):
    first = run(model, **more)
    name = attributes()["run"]
    with pytest.raises(InputError, match=f"'x.zarr' has the rows of run {name}\n.*--overwrite"):
        run(model, 2.0, **more)
    assert attributes()["run"] == name
    second = run(model, 2.0, **more, overwrite=True)
    assert attributes()["run"] != name
    assert np.all(np.asarray(second["add.by"]) == 2.0)
    assert first.stopped_by is mdf_loop.StopReason.COMPLETED
    assert files(here) == ["x.zarr"]


def test_a_run_that_was_stopped_has_finished_its_store(model, here):
    run(model, steps=FOREVER, progress=stop_after(lambda: None))
    with pytest.raises(InputError, match="has the rows of run"):
        run(model, 2.0)
    run(model, 2.0, overwrite=True)
    assert parameter_of_rows() == 2.0


def test_a_saved_store_is_finished(model, here):
    results = mdf_loop.Results({"A.x": np.zeros(3)}, {}, "cpu", "float64")
    for _ in range(2):
        results.save("x.zarr")
    with pytest.raises(InputError, match="has the rows of run"):
        run(model)


def test_the_store_of_a_run_that_was_killed_is_taken_over(model, here):
    with pytest.raises(Killed):
        run(model, steps=FOREVER, progress=stop_after(kill))
    assert "unfinished" in attributes()
    run(model, 2.0)
    assert parameter_of_rows() == 2.0


def test_a_run_that_is_killed_before_it_replaces_a_finished_store(model, here):
    run(model)
    with pytest.raises(Killed):
        run(model, 2.0, overwrite=True, progress=lambda progress: kill())
    assert parameter_of_rows() == 1.0
    with pytest.raises(InputError, match="has the rows of run"):
        run(model, 2.0)


def test_foreign_files_are_not_replaced(model, here):
    Path("x.zarr").mkdir()
    Path("x.zarr/mine").touch()
    with pytest.raises(InputError, match="is no Zarr store of mdf_loop"):
        run(model, overwrite=True)
    assert files(here) == ["x.zarr"]
    assert files(here / "x.zarr") == ["mine"]


# --- going on -----------------------------------------------------------------------------------


def stop_run(model: Any, by: float = 1.0, **more: Any) -> mdf_loop.Results:
    """Stop a run that has rows in its store and a checkpoint."""
    return run(model, by, FOREVER, checkpoint="c", progress=stop_after(lambda: None), **more)


def test_a_run_goes_on_with_its_own_store(model, here):
    done = stop_run(model)["add.x"].size
    name = attributes()["run"]
    for steps in (done + 100, done + 200):
        results = run(model, steps=steps, checkpoint="c", resume="c")
        assert results["add.x"].size == steps
        assert (parameter_of_rows(), attributes()["run"]) == (1.0, name)
    assert {"unfinished", "stopped_by"}.isdisjoint(attributes())


def test_two_runs_that_go_on_from_one_checkpoint(model, here):
    stop_run(model)
    refused = []

    def second() -> None:
        with pytest.raises(InputError, match=WRITTEN) as error:
            run(model, steps=FOREVER, resume="c")
        refused.append(error)
        assert "unfinished" in attributes()

    run(model, steps=FOREVER, resume="c", progress=stop_after(second))
    assert len(refused) == 1
    assert parameter_of_rows() == 1.0


@pytest.mark.parametrize("more", [{}, {"overwrite": True}])
def test_a_run_does_not_go_on_with_the_rows_of_another(model, here, more):
    stop_run(model)
    name = attributes()["run"]
    run(model, 2.0, overwrite=True)
    other = attributes()["run"]
    sentence = f"'x.zarr' has the rows of run {other}, and no more those of run {name}"
    with pytest.raises(InputError, match=sentence):
        run(model, steps=FOREVER, resume="c", **more)
    assert (parameter_of_rows(), attributes()["run"]) == (2.0, other)
    assert files(here) == ["c", "x.zarr"]


def test_a_run_goes_on_that_had_no_store_yet(model, here):
    run(model, steps=1, checkpoint="c")  # the first row is written with the next row
    assert run(model, resume="c")["add.x"].size == 50
    run(model, steps=1, checkpoint="c", overwrite=True)
    shutil.rmtree("x.zarr")
    run(model, 2.0)
    with pytest.raises(InputError, match="has the rows of run"):
        run(model, resume="c")
    assert parameter_of_rows() == 2.0
    run(model, resume="c", overwrite=True)
    assert parameter_of_rows() == 1.0


def test_one_evaluation_that_goes_on_replaces_what_it_wrote_itself(here):
    loop = {
        "nodes": {
            "n": {
                "functions": {
                    "loop": {
                        "function": "onnx::Loop",
                        "args": {
                            "M": 50,
                            "v_initial": 6.0,
                            "body": {
                                "step": {
                                    "metadata": {"inputs": ["i", "go", "x"], "outputs": ["h", "y"]},
                                    "nodes": {
                                        "s": {
                                            "input_ports": {"x": {}, "go": {}},
                                            "output_ports": {
                                                "h": {"value": "go"},
                                                "y": {"value": "x + 1"},
                                            },
                                        }
                                    },
                                }
                            },
                        },
                    }
                },
                "output_ports": {"y": {"value": "loop"}},
            }
        }
    }
    model = mdf_loop.compile({"g": loop}, device="cpu")
    words = {"output": "x.zarr", "checkpoint": "c", "resume": "c"}
    for _ in range(2):
        assert model.run(**words)["y"] == 56.0
    Path("c").unlink()
    with pytest.raises(InputError, match="has the rows of run"):
        model.run(**words)


# --- results ------------------------------------------------------------------------------------


def test_results_do_not_show_the_rows_of_another_run(model, here):
    results = run(model)
    name = attributes()["run"]
    run(model, 2.0, overwrite=True)
    now = f"'x.zarr' has the rows of run {attributes()['run']} now; these results are those of "
    for read in (
        lambda: results["add.x"][3],
        lambda: np.asarray(results["add.by"]),
        lambda: results["add.x"].oindex[[1, 2]],
        lambda: results.to_xarray(),
        lambda: results.plot("x.png"),
        lambda: results.save("y.npz"),
        lambda: results.save("x.zarr"),
        lambda: pickle.loads(pickle.dumps(results["add.x"]))[3],
    ):
        with pytest.raises(InputError, match=f"{now}run {name}"):
            read()
    assert parameter_of_rows() == 2.0
    assert files(here) == ["x.zarr"]


def test_results_whose_store_is_gone_or_damaged(model, here):
    results = run(model)
    Path("x.zarr").rename("y.zarr")
    sentence = "the rows of these results were in 'x.zarr', which is not there any more, or damaged"
    with pytest.raises(InputError, match=sentence):
        results["add.x"][3]
    Path("y.zarr").rename("x.zarr")
    assert results["add.x"][3] == 4.0
    Path("x.zarr/zarr.json").write_text("{")
    with pytest.raises(InputError, match=sentence):
        results["add.x"][3]


def test_results_of_a_run_that_goes_on_again_from_before(model, here):
    first = run(model, steps=30, checkpoint="c")
    Path("early").write_bytes(Path("c").read_bytes())
    results = run(model, steps=60, resume="c")
    assert np.asarray(first["add.x"]).tolist() == results["add.x"][:30].tolist()
    last_rows = []

    def look() -> None:
        if not last_rows:
            last_rows.append(first["add.x"][-1])
            with pytest.raises(InputError, match=r"has fewer rows, or others, than these results"):
                results["add.x"][:]

    run(model, steps=60, resume="early", progress=lambda progress: look())
    assert last_rows == [30.0]
    assert results["add.x"][-1] == 60.0


def test_later_versions_of_zarr_detect_a_replaced_store(model, here):
    if not hasattr(zarr.storage.LocalStore, "get_sync"):
        pytest.skip("an earlier version")
    store = run(model)["add.x"].store
    assert store.get_sync("zarr.json") is not None
    run(model, overwrite=True)
    with pytest.raises(InputError, match="has the rows of run"):
        store.get_sync("zarr.json")


@pytest.mark.parametrize(
    "change",
    [
        lambda root: root["attributes"].pop("run"),
        lambda root: root["attributes"].update(run=["\x1b[2J"]),
        lambda root: root.pop("attributes"),
        lambda root: root["consolidated_metadata"]["metadata"].pop("add.x"),
        lambda root: root["consolidated_metadata"]["metadata"]["add.x"].pop("shape"),
        lambda root: root["consolidated_metadata"]["metadata"]["add.x"].update(shape=[]),
        lambda root: root["consolidated_metadata"]["metadata"]["add.x"].update(shape=["x"]),
        lambda root: root["consolidated_metadata"]["metadata"]["add.x"].update(shape=[49]),
        lambda root: root["consolidated_metadata"]["metadata"]["add.x"].update(data_type="int8"),
        lambda root: root["consolidated_metadata"]["metadata"].update({"add.x": 3}),
    ],
)
def test_results_of_a_store_that_was_changed(model, here, change):
    results = run(model)
    root = json.loads(Path("x.zarr/zarr.json").read_text())
    change(root)
    Path("x.zarr/zarr.json").write_text(json.dumps(root))
    for _ in range(2):
        with pytest.raises(InputError, match=r"'x\.zarr'") as error:
            results["add.x"][3]
    assert "\x1b" not in str(error.value)


def test_a_run_goes_on_with_a_store_whose_metadata_is_lost(model, here):
    done = stop_run(model)["add.x"].size
    Path("x.zarr/zarr.json").write_bytes(b"")
    with pytest.raises(InputError, match="its metadata are damaged"):
        run(model, overwrite=True)
    results = run(model, steps=done + 100, resume="c")
    assert results["add.x"][-1] == done + 100.0
    assert parameter_of_rows() == 1.0
    assert "run" in attributes()


# --- other folders and processes ----------------------------------------------------------------


@pytest.mark.slow
def test_a_program_that_goes_to_another_folder(model, here, monkeypatch):
    """Check that a run writes to one store although the working directory changes."""
    Path("other").mkdir()
    monkeypatch.chdir("other")
    run(model, 2.0)
    monkeypatch.chdir("..")

    def told(progress: Any) -> None:
        if Path("x.zarr").exists() and Path.cwd() == here:
            monkeypatch.chdir("other")

    results = run(model, steps=STEPS, progress=told)
    assert Path.cwd() == here / "other"
    assert results["add.x"][-1] == float(STEPS)
    assert json.loads(results.to_json())["outputs"]["add.x"]["file"] == "x.zarr"
    assert parameter_of_rows() == 2.0
    assert parameter_of_rows(f"{here}/x.zarr") == 1.0
    assert files(here) == ["other", "x.zarr"]
    assert files(here / "other") == ["x.zarr"]


def test_a_program_that_goes_away_before_there_is_a_store(model, here, monkeypatch):
    Path("other").mkdir()
    with pytest.raises(InputError, match=r"'x.zarr' was '.*' when the run began, and is another"):
        run(model, progress=lambda progress: monkeypatch.chdir(here / "other"))
    assert files(here) == ["other"]
    assert files(here / "other") == []


@pytest.mark.slow
def test_a_process_that_was_forked_does_not_write(tmp_path):
    """Check that a forked child does not write and the run of the parent is unaffected."""
    program = """
import os, mdf_loop
from tests.models.timed import ADDING

def told(progress):
    global child
    if child is None and os.path.exists("x.zarr"):
        child = os.fork()
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            assert os.path.exists("x.zarr.lock")
            return False
    return child != 0 or None

child = None
try:
    mdf_loop.compile(ADDING["g"], device="cpu").run(steps=10**8, output="x.zarr", progress=told)
except mdf_loop.LoopError as error:
    print(error, flush=True)
    os._exit(3)
"""
    process = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert "belongs to the process from which this one was forked" in process.stdout
    assert parameter_of_rows(f"{tmp_path}/x.zarr") == 1.0
    assert files(tmp_path) == ["x.zarr"]
