"""Broken models, files and commands end in a result or a clean error, and the fuzzing detects failures.

`make fuzz` tries more seeds. A failure states the command that repeats it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import children
from tests.fuzz.chain import outcome
from tests.fuzz.children import ROOT, outcomes
from tests.fuzz.commands import command_outcome
from tests.fuzz.mutations import TARGETS, mutate_model, mutate_scene_of_seed
from tests.fuzz.scenes import SCENES, scenes
from tests.fuzz.seeds import READERS, corpus
from tests.soak import some, times

pytestmark = pytest.mark.slow

SEED_COUNT = times(5, 1000)


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
def test_mutated_inputs_end_in_a_result_or_a_clean_error(target: str) -> None:
    all_outcomes = list(outcomes(target, 0, SEED_COUNT))
    assert [each.seed for each in all_outcomes] == list(range(SEED_COUNT))
    failures = [f"{each.repeat}\n{each.message}" for each in all_outcomes if each.kind == "failure"]
    assert not failures, "\n\n".join(failures)
    assert {"refusal"} <= {each.kind for each in all_outcomes} <= {"result", "refusal"}


@pytest.mark.soak
@pytest.mark.parametrize("reader", READERS)
def test_models_are_valid_before_mutation(reader: str, tmp_path: Path) -> None:
    outcome_lines = []
    for k, seed in enumerate(some(corpus(reader), 30)):
        folder = tmp_path / str(k)
        folder.mkdir()
        outcome_lines.append(outcome(seed().write(folder)))
    refused = [each for each in outcome_lines if not each.startswith(("result", "RunError"))]
    assert not refused  # a RunError is caused by the inputs, which are zeros


@pytest.mark.parametrize("target", SCENES)
def test_scenes_are_valid_before_mutation(target: str, tmp_path: Path) -> None:
    for k, scene in enumerate(scenes(target)):
        folder = tmp_path / str(k)
        folder.mkdir()
        assert command_outcome(scene(), folder) == "result", scene().words


@pytest.mark.slow
@pytest.mark.parametrize("target", SCENES)
def test_mutated_scenes_are_reproducible(target: str) -> None:
    mutants = [mutate_scene_of_seed(target, seed) for seed in range(20)]
    again = [mutate_scene_of_seed(target, seed) for seed in range(20)]
    assert mutants == again
    sound = [scene() for scene in scenes(target)]
    assert sum(scene in sound for scene in mutants) < 5


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_mutated_models_are_reproducible_in_other_processes(reader: str) -> None:
    files = [mutate_model(reader, seed) for seed in range(5)]
    script = (
        "from tests.fuzz.mutations import mutate_model\n"
        f"print([mutate_model({reader!r}, seed) for seed in range(5)], end='')"
    )
    other_process = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "7"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert other_process.stdout == repr(files)


FAKE_CHILD = """
import faulthandler, json, os, sys, time
first, end, seconds = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[5])
for seed in range(first, end):
    print(json.dumps({"seed": seed}), flush=True)
    faulthandler.dump_traceback_later(seconds, exit=True)
    if seed == 2:
        os.abort()
    time.sleep(60 if seed == 4 else 0.5 if seed == 5 else 0)
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps({"seed": seed, "kind": "refusal", "message": "no"}), flush=True)
"""


def test_crashes_and_hangs_are_failures_and_other_seeds_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fake.py").write_text(FAKE_CHILD)
    monkeypatch.setattr(children, "CHILD", (sys.executable, str(tmp_path / "fake.py")))
    monkeypatch.setattr(children, "SECONDS", 0.3)
    by_seed = {each.seed: each for each in outcomes("mdf", 0, 7)}
    assert [seed for seed, each in by_seed.items() if each.kind == "failure"] == [2, 4]
    assert by_seed[2].message.startswith("exit -6")
    assert "Timeout" in by_seed[4].message
    assert by_seed[4].repeat == "python -m tests.fuzz.run --target mdf --seed 4"
    assert len(by_seed) == 7


def test_a_child_that_cannot_start_is_an_error_of_the_fuzzing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children, "CHILD", (sys.executable, "-c", "import nowhere"))
    with pytest.raises(RuntimeError, match="the fuzzing itself failed"):
        list(outcomes("mdf", 0, 1))
