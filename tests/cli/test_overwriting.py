"""Commands never overwrite a file that they read, and preserve links that they write to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mdf_loop
from mdf_loop.errors import InputError

NODE = {
    "input_ports": {"a": {"default_value": 1.5}},
    "parameters": {"v": {"default_initial_value": 0.0, "value": "v + a"}},
    "output_ports": {"out": {"value": "v"}},
}
CONTENT = {"m": {"graphs": {"g": {"nodes": {"n": NODE}}}}}


@pytest.fixture
def place(tmp_path: Path, monkeypatch) -> Path:
    """Return a folder with a model and inputs in every format, and make it the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("m.json").write_text(json.dumps(CONTENT))
    Path("d.csv").write_text("a\n1\n2\n")
    Path("f.csv").write_text("time,n.out\n0,1\n1,2\n2,3.5\n")
    Path("d.json").write_text('{"a": 1}')
    np.savez("d.npz", a=np.array(1.0))
    np.savez("s.npz", **mdf_loop.compile("m.json").run(steps=2).state)
    Path("folder").mkdir()
    Path("folder/m.json").write_text(json.dumps(CONTENT))
    mdf_loop.compile("m.json").save("m.onnx")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


RUN = "run m.json --steps 2"
FIT = "fit m.json f.csv --free a=0..3"
COMMANDS = [
    "run m.json --output m.json",
    f"{RUN} --inputs d.csv --output d.csv",
    f"{RUN} --inputs d.json --output d.json",
    f"{RUN} --inputs d.npz --output d.npz",
    f"{RUN} --input a=d.csv:a --output d.csv",
    f"{RUN} --set n.v=d.npz:a --output d.npz",
    f"{RUN} --sweep n.v=d.csv:a --output d.csv",
    f"{RUN} --inputs d.npz --final-state d.npz",
    f"{RUN} --checkpoint m.json",
    f"{RUN} --inputs d.csv --checkpoint d.csv",
    f"{RUN} --engine modeci --inputs d.json --output d.json",
    "gradient m.onnx --of n.out:sum --wrt n.v --save m.onnx",
    f"{FIT} --output f.csv",
    f"{FIT} --inputs d.json --output d.json",
    "fit m.json --subject one=f.csv --free a=0..3 --output f.csv",
    "compile m.onnx",
    "compile m.onnx -o m.onnx",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_input_files_are_not_overwritten(cli, place, command: str) -> None:
    state_before = contents(place)
    outcome = cli(*command.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert "the model or what it is given is read from there" in outcome.err
    assert contents(place) == state_before


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["a symbolic link", "a hard link"])
@pytest.mark.parametrize(
    ("command", "read", "written"),
    [
        ("run m.json --steps 2 --output WRITTEN", "m.json", "x.csv"),
        ("run m.json --steps 2 --dt 1 --plot WRITTEN", "m.json", "x.png"),
        ("run m.json --steps 2 --final-state WRITTEN", "m.json", "x.npz"),
        ("run m.json --steps 2 --checkpoint WRITTEN", "m.json", "x.ckpt"),
        ("run m.json --steps 2 --inputs d.csv --output WRITTEN", "d.csv", "x.json"),
        ("compile m.json -o WRITTEN", "m.json", "x.onnx"),
        ("gradient m.json --of n.out:sum --wrt n.v --save WRITTEN", "m.json", "x.onnx"),
        (f"{FIT} --output WRITTEN", "f.csv", "x.json"),
        (f"{FIT} --plot WRITTEN", "f.csv", "x.png"),
        (f"{FIT} --write WRITTEN", "m.json", "x.yaml"),
        ("draw m.json -o WRITTEN", "m.json", "x.svg"),
        ("import m.onnx -o WRITTEN", "m.onnx", "x.yaml"),
    ],
)
def test_links_to_input_files_are_not_overwritten(
    cli, place, link: Any, command, read, written
) -> None:
    link(read, written)
    state_before = contents(place)
    outcome = cli(*command.replace("WRITTEN", written).split())
    assert outcome.code == 2
    assert "is the same or lies in it" in outcome.err
    assert contents(place) == state_before


def test_the_folder_of_an_input_file_is_not_replaced(cli, place) -> None:
    assert cli("run", "m.json", "--steps", 2, "--output", "x.zarr").code == 0
    Path("x.zarr/mine.json").write_text(json.dumps(CONTENT))
    outcome = cli("run", "x.zarr/mine.json", "--steps", 2, "--output", "x.zarr")
    assert (outcome.code, Path("x.zarr/mine.json").exists()) == (2, True)
    assert "is read from there" in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        "--output x.zarr --plot x.zarr/p.png",
        "--output x.npz --final-state x.npz",
        "--output x.zarr --checkpoint x.zarr/c",
        "--plot x.svg --checkpoint x.svg",
        "--output x.npz --resume x.npz",
        "--output s.npz --initial-state s.npz",
        "--checkpoint s.npz --initial-state s.npz",
    ],
)
def test_two_outputs_in_one_file_are_refused(cli, place, arguments: str) -> None:
    Path("x.zarr").mkdir()
    state_before = contents(place)
    outcome = cli("run", "m.json", "--steps", "2", "--dt", "1", *arguments.split())
    assert outcome.code == 2
    assert "both name" in outcome.err or "is no Zarr store" in outcome.err
    assert contents(place) == state_before


EMPTY = [
    "run m.json --output",
    "run m.json --steps 2 --dt 1 --plot",
    "run m.json --steps 2 --final-state",
    "run m.json --steps 2 --initial-state",
    "run m.json --steps 2 --checkpoint",
    "run m.json --steps 2 --resume",
    "run m.json --inputs",
    "compile m.json -o",
    "draw m.json -o",
    "import m.onnx -o",
    f"{FIT} --output",
    f"{FIT} --plot",
    f"{FIT} --write",
    f"{FIT} --inputs",
    "fit m.json --free a=0..3",
    "demo --output",
    "run",
    "check",
    "compile",
    "draw",
    "explain",
    "verify",
    "import",
]


@pytest.mark.parametrize("command", EMPTY)
def test_empty_names_are_refused(cli, place, command: str) -> None:
    state_before = contents(place)
    outcome = cli(*command.split(), "")
    assert (outcome.code, outcome.out) == (2, "")
    assert "has no name: the text that was given is empty" in outcome.err
    assert contents(place) == state_before


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("x" * 300 + ".npz", "the name is too long for a file"), ("a\ud800.npz", "no file can be")],
)
def test_impossible_names_are_refused(cli, place, name: str, sentence: str) -> None:
    for arguments in (("--output", name), ("--inputs", name), ("--final-state", name)):
        outcome = cli("run", "m.json", "--steps", "2", *arguments)
        assert outcome.code == 2
        assert sentence in outcome.err


LINKED = {
    "x.npz": "run m.json --steps 2 --output",
    "x.json": "run m.json --steps 2 --output",
    "x.csv": "run m.json --steps 2 --output",
    "x.h5": "run m.json --steps 2 --output",
    "x.nc": "run m.json --steps 2 --output",
    "x.zarr": "run m.json --steps 2 --overwrite --output",
    "x.png": "run m.json --steps 2 --dt 1 --plot",
    "x.state.npz": "run m.json --steps 2 --final-state",
    "x.ckpt": "run m.json --steps 2 --checkpoint",
    "x.fit.json": f"{FIT} --output",
    "x.fit.csv": f"{FIT} --output",
    "x.fit.png": f"{FIT} --plot",
    "x.fit.yaml": f"{FIT} --write",
    "x.onnx": "compile m.json -o",
    "x.dot": "draw m.json -o",
    "x.yaml": "import m.onnx -o",
}


@pytest.mark.parametrize("command", ["draw /", "compile /", "draw .", "run /", "import /"])
def test_a_folder_as_model_is_refused(cli, place, command: str) -> None:
    outcome = cli(*command.split())
    assert outcome.code == 2
    assert "Error: " in outcome.err


@pytest.mark.parametrize("name", LINKED)
def test_links_are_preserved(cli, place, name: str) -> None:
    real_path = Path("folder") / name
    Path(name).symlink_to(real_path)
    for _ in range(2):  # the first call creates the target of the link, and the second replaces it
        outcome = cli(*LINKED[name].split(), name)
        assert outcome.code == 0, outcome.err
        assert Path(name).is_symlink()
        assert real_path.exists()
        assert not real_path.is_symlink()


# --- side files -----------------------------------------------------------------------------------


@pytest.fixture
def foreign(place) -> Path:
    """Return an ONNX file with a large array, which an import writes to an npz file."""
    large = numpy_helper.from_array(np.arange(100.0), "w")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], name="add")],
        "g",
        [value("x", TensorProto.DOUBLE, [100])],
        [value("y", TensorProto.DOUBLE, [100])],
        [large],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "big.onnx")
    return place


def test_an_import_replaces_only_its_own_side_file(cli, foreign) -> None:
    np.savez("big.npz", mine=np.ones(3))
    state_before = contents(foreign)
    outcome = cli("import", "big.onnx")
    assert outcome.code == 2
    assert "'big.npz', which the large arrays of 'big.yaml' go to: it is there" in outcome.err
    assert contents(foreign) == state_before
    Path("big.npz").unlink()
    for _ in range(2):
        assert cli("import", "big.onnx").code == 0


def test_side_files_are_not_overwritten(cli, foreign) -> None:
    assert cli("import", "big.onnx").code == 0
    state_before = contents(foreign)
    outcome = cli("run", "big.yaml", "--input", "x=1", "--output", "big.npz")
    assert outcome.code == 2
    assert contents(foreign) == state_before


def test_external_data_is_not_overwritten(cli, foreign) -> None:
    model = onnx.load("big.onnx")
    onnx.save(model, "b.onnx", save_as_external_data=True, location="b.npz", size_threshold=0)
    state_before = contents(foreign)
    assert cli("run", "b.onnx", "--input", "x=1", "--output", "b.npz").code == 2
    assert contents(foreign) == state_before


# --- from Python ----------------------------------------------------------------------------------


def test_python_functions_do_not_overwrite_the_model(place) -> None:
    state_before = contents(place)
    model = mdf_loop.compile("m.json")
    results = model.run(steps=2, dt=1.0)
    os.symlink("m.json", "x.onnx")
    os.symlink("m.json", "x.svg")
    os.symlink("m.json", "x.npz")
    drawing = mdf_loop.draw("m.json")
    os.chdir("folder")
    for write in (
        lambda: model.run(output="../m.json"),
        lambda: model.run(steps=2, checkpoint="../x.npz"),
        lambda: model.save("../x.onnx"),
        lambda: results.save("../x.npz"),
        lambda: results.plot("../x.svg"),
        lambda: drawing.save("../x.svg"),
        lambda: mdf_loop.draw(place / "m.json", "../x.svg"),
        lambda: mdf_loop.draw(model.document, "../x.svg"),
    ):
        with pytest.raises(InputError, match="the model or what it is given is read from there"):
            write()
    assert {name: state_before[name] for name in state_before} == {
        name: content for name, content in contents(place).items() if name in state_before
    }


def test_other_files_are_overwritten(place) -> None:
    mdf_loop.read("folder/m.json")
    mdf_loop.compile("m.json").run(steps=2, output="d.json")
    assert "outputs" in json.loads(Path("d.json").read_text())


@pytest.mark.parametrize("path", ["", 3, b"x.npz", "a\0.npz", ["x.npz"]])
def test_python_functions_refuse_invalid_paths(place, path: Any) -> None:
    model = mdf_loop.compile("m.json")
    results = model.run(steps=2, dt=1.0)
    for write in (
        lambda: mdf_loop.compile(path),
        lambda: model.run(output=path),
        lambda: model.run(steps=2, checkpoint=path),
        lambda: model.run(steps=2, resume=path),
        lambda: model.save(path),
        lambda: results.save(path),
        lambda: results.plot(path),
        lambda: mdf_loop.draw("m.json", path),
        lambda: mdf_loop.draw("m.json").save(path),
    ):
        with pytest.raises(mdf_loop.LoopError):
            write()


@pytest.mark.slow
def test_undecodable_names(place) -> None:
    """Check names on the command line whose bytes are not valid text."""
    name = b"\xff\x1b[2J.json"
    os.link("m.json", name)
    bytes_before = Path("m.json").read_bytes()
    for arguments in ([b"run", name, b"--output", b"m.json"], [b"check", b"no" + name]):
        code = "import mdf_loop.cli; mdf_loop.cli.main()"
        process = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True)
        assert (process.returncode, process.stdout) == (2, b"")
        assert rb"\udcff\x1b[2J.json" in process.stderr
        assert b"Traceback" not in process.stderr
    assert Path("m.json").read_bytes() == bytes_before
