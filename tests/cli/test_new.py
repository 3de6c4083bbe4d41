"""`mdf-loop new`: each model checks, runs, draws, and is equal in modeci_mdf's engine."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from mdf_loop.starts import STARTER_MODELS

KINDS = [start.model_kind for start in STARTER_MODELS]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_printed_next_commands_work(cli, kind):
    outcome = cli("new", kind)
    assert (outcome.code, outcome.err) == (0, "")
    first_line, *commands = outcome.out.splitlines()
    assert first_line.startswith(f"wrote {kind}.yaml: a ")
    assert len(commands) == 3
    for line in commands:
        program, *arguments = shlex.split(line)
        assert program == "mdf-loop"
        assert cli(*arguments).code == 0
    assert Path(f"{kind}.svg").stat().st_size > 0
    assert cli("verify", f"{kind}.yaml").code == 0


def test_the_neuron_fires_in_milliseconds(cli):
    cli("new", "neuron")
    results = cli("run", "neuron.yaml", "--steps", 301, "--dt", "0.1ms", "--json").json
    assert results["time_unit"] == "ms"
    spikes = results["outputs"]["cell.spike"]["data"]
    assert sum(spikes) == 2


def test_the_root_is_one(cli):
    cli("new", "loop", "root.yml")
    outputs = cli("run", "root.yml", "--input", "a=9", "--json").json["outputs"]
    assert outputs["newton.root"]["data"] == 3.0
    assert outputs["newton.guesses"]["shape"] == [outputs["newton.iterations"]["data"]]


@pytest.mark.parametrize("kind", KINDS)
def test_models_have_comments_and_short_lines(kind):
    (path,) = (start.path for start in STARTER_MODELS if start.model_kind == kind)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert sum("# " in line for line in lines) >= 5
    assert max(map(len, lines)) <= 120


def test_existing_files_are_not_overwritten(cli):
    Path("loop.yaml").write_text("mine")
    outcome = cli("new", "loop")
    assert outcome.code == 2
    assert outcome.err == (
        "InputError: there is 'loop.yaml' already, and it is not overwritten\n"
        "  hint: give another name: mdf-loop new loop another.yaml\n"
    )
    assert Path("loop.yaml").read_text() == "mine"


def test_dangling_links_are_not_overwritten(cli):
    Path("loop.yaml").symlink_to("elsewhere.yaml")
    assert cli("new", "loop").code == 2
    assert not Path("elsewhere.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("loop", "x.json"), "use .yaml or .yml"),
        (("loop", "nowhere/x.yaml"), "there is no folder 'nowhere'"),
        (("loop", ""), "file for a model"),
        (("brain",), "'brain' is not one of 'neuron', 'decision', 'loop'"),
        ((), "Missing argument"),
    ],
)
def test_invalid_paths_are_refused(cli, arguments, sentence):
    outcome = cli("new", *arguments)
    assert outcome.code == 2
    assert sentence in outcome.err
    assert list(Path().iterdir()) == []


def test_a_name_with_blanks_is_quoted(cli):
    out = cli("new", "loop", "my loop.yaml").out
    assert "mdf-loop draw 'my loop.yaml' -o 'my loop'.svg" in out
