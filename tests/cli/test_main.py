"""Common behaviour of all commands: help, start-up, exit codes and errors."""

from __future__ import annotations

import errno
import subprocess
import sys
import time

import pytest

import mdf_loop
from mdf_loop.cli import COMMANDS, main

HEAVY = ("numpy", "onnx", "onnxruntime", "modeci_mdf", "matplotlib", "networkx", "graphviz")


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_every_command(cli, flag):
    outcome = cli(flag)
    assert outcome.code == 0
    listed = [line.split()[0] for line in outcome.out.split("Commands:")[1].splitlines() if line]
    assert listed == list(COMMANDS)


def test_no_command_shows_help(cli):
    assert "Commands:" in (cli().out + cli().err)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_a_sentence_for_every_option(cli, name):
    outcome = cli(name, "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"Usage: mdf-loop {name} [OPTIONS]")


def test_version(cli):
    assert cli("--version").out == f"mdf-loop, version {mdf_loop.__version__}\n"


def test_help_imports_no_heavy_modules():
    program = (
        "import sys; sys.argv = ['mdf-loop', '--help']\n"
        "from mdf_loop.cli import main\n"
        "try: main()\n"
        f"finally: print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    start = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    assert process.returncode == 0
    assert process.stderr == "[]\n"
    assert seconds < 2, "0.1 s on an idle machine"


def test_main_with_arguments(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("mdf-loop")


# --- exit codes -------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "check", "verify", "compile", "draw", "explain"])
@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("missing.yaml", None, "ModelError: there is no file"),
        ("model.txt", "x", "ModelError: 'model.txt' does not end in"),
        ("model.yaml", "[", "ModelError: 'model.yaml' is not an MDF model"),
        ("model.json", "{", "ModelError: 'model.json' is not an MDF model"),
        ("empty.yaml", "", "ModelError: 'empty.yaml' is not an MDF model"),
        ("none.yaml", "m: {format: ModECI MDF v0.4}", "ModelError: 'none.yaml' holds no graph"),
    ],
)
def test_an_unusable_model_is_one_error_and_nothing_on_stdout(
    cli, tmp_path, command, name, content, sentence
):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    outcome = cli(command, path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(sentence)
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("command", ["run", "check", "verify", "compile"])
def test_all_findings_at_once(cli, broken, command):
    outcome = cli(command, broken)
    assert (outcome.code, outcome.out) == (2, "")
    assert "UnknownNameError: unknown name 'z'" in outcome.err
    assert "UnknownFunctionError: unknown function 'numpy.exq'" in outcome.err
    assert "at $.graphs[0].nodes['twice'].output_ports['y']" in outcome.err
    assert "hint: did you mean 'numpy.exp" in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [("ruin", "x.yaml"), ("run",), ("run", "a.yaml", "b.yaml"), ("run", "a.yaml", "--colour")],
)
def test_misspelt_commands_and_options(cli, arguments):
    outcome = cli(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Error: " in outcome.err


def test_a_folder_where_a_file_should_be(cli, tmp_path):
    outcome = cli("run", tmp_path)
    assert outcome.code == 2
    assert "is a folder, not a model" in outcome.err


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(28, "No space left on device"), "cannot read or write No space left on device\n"),
        (PermissionError(13, "Permission denied", "a.npz"), "'a.npz': Permission denied\n"),
        (OSError("disk on fire"), "cannot read or write disk on fire\n"),
    ],
)
def test_system_errors_are_one_error(cli, sample, monkeypatch, error, sentence):
    from mdf_loop.results.data import Results

    def refused(*_):
        raise error

    monkeypatch.setattr(Results, "save", refused)
    outcome = cli("run", sample, "--output", "a.npz")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith(sentence)


def test_a_closed_pipe_is_no_error(cli, sample, monkeypatch):
    from mdf_loop.api import specified_run

    def gone(*_, **__):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(specified_run, "run_specified", gone)
    outcome = cli("run", sample)
    assert (outcome.code, outcome.err) == (1, "")


def test_an_interruption_exits_with_130(cli, sample, monkeypatch):
    from mdf_loop.api import specified_run

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(specified_run, "run_specified", interrupted)
    outcome = cli("run", sample, "--json")
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "interrupted\n")


@pytest.mark.slow
def test_python_m_is_the_program():
    process = subprocess.run(
        [sys.executable, "-m", "mdf_loop", "--help"], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0
    assert process.stdout.startswith("Usage: mdf-loop [OPTIONS] COMMAND")
