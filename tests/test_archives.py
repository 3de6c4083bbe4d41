"""What an `.npz` file says of itself is checked before anything of it is unfolded."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import mdf_loop
from mdf_loop.archives import read_arrays
from mdf_loop.cli import cli
from mdf_loop.errors import InputError, MemoryLimitError, ModelError
from mdf_loop.memory_limit import limited, resident

ROOM = 10**7
NODE = {"input_ports": {"x": {}}, "output_ports": {"y": {"value": "x"}}}
MODEL = {"m": {"graphs": {"g": {"nodes": {"A": NODE}}}}}


def header(dtype: str, shape: object) -> bytes:
    stream = io.BytesIO()
    about = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, about)  # type: ignore[arg-type]
    return stream.getvalue()


def forged(path: Path, head: bytes, zeros: int) -> Path:
    """A small file with one array, of so many zero bytes."""
    archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
    with archive, archive.open("x.npy", "w") as stream:
        stream.write(head)
        while zeros > 0:
            stream.write(bytes(min(zeros, 1 << 20)))
            zeros -= 1 << 20
    return path


def with_room(path: Path, room: int = ROOM) -> dict[str, np.ndarray]:
    with limited(resident() + room):
        return read_arrays(path)


@pytest.mark.slow
def test_a_small_file_that_unfolds_to_a_large_one(tmp_path: Path) -> None:
    path = forged(tmp_path / "a.npz", header("<f8", (5 * 10**6,)), 4 * 10**7)
    assert path.stat().st_size < 10**5
    before = resident()
    with pytest.raises(MemoryLimitError, match=r"the array 'x' of 'a.npz' would take 40 MB"):
        with_room(path)
    assert resident() - before < ROOM
    assert with_room(path, 10**8)["x"].nbytes == 4 * 10**7


def test_many_arrays_are_looked_at_together(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", **{f"a{k}": np.zeros(10**5) for k in range(20)})
    with pytest.raises(MemoryLimitError, match=r"the arrays of 'a.npz' would take 16 MB"):
        with_room(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("head", "zeros", "match"),
    [
        (
            header("<f8", (10**15,)),
            80,
            r"'x' has 80 bytes, not those of float64\[1000000000000000\]",
        ),
        (header("<f8", (4,)), 80, "has 80 bytes"),
        (header("<f8", (-4,)), 80, "no array of numbers"),
        (header("<f8", (True,)), 8, "no array of numbers"),
        (header("|O", (2,)), 16, "no array of numbers"),
        (b"\x93NUMPY\x03\x00" + header("<f8", (4,))[8:], 32, "version"),
        (b"no array", 32, "magic"),
        (header("<f8", (4,))[:30], 0, "EOF"),
        (header("<f8", (4,)).replace(b"}", b" "), 32, ""),
        (header("<f8", (4,)).replace(b"'shape'", b" shape)"), 32, ""),
    ],
)
def test_what_contradicts_itself(head: bytes, zeros: int, match: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"'a.npz' is not an npz file: .*{match}"):
        with_room(forged(tmp_path / "a.npz", head, zeros))


def test_texts_of_no_letters_take_memory_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(MemoryLimitError, match="would take 64 TB"):
        with_room(forged(tmp_path / "a.npz", header("<U0", (10**12,)), 0))


def test_a_directory_that_lies(tmp_path: Path) -> None:
    path = forged(tmp_path / "a.npz", header("<f8", (10,)), 80)
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x01\x02") + 24  # the size in the directory
    content[place : place + 4] = (10**6).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not an npz file"):
        with_room(path)


def test_wherever_arrays_are_read(tmp_path: Path) -> None:
    path = forged(tmp_path / "a.npz", header("<f8", (5 * 10**6,)), 4 * 10**7)
    model = tmp_path / "m.json"
    model.write_text(json.dumps(MODEL))
    for options in (
        ["--inputs", str(path)],
        ["--input", f"x={path}:x"],
        ["--sweep", f"x={path}:x"],
        ["--initial-state", str(path), "--steps", "2"],
    ):
        with limited(resident() + ROOM):
            process = CliRunner().invoke(cli, ["run", str(model), "--device", "cpu", *options])
        assert process.exit_code == 2, process.output
        assert "MemoryLimitError: the array 'x' of 'a.npz' would take 40 MB" in process.output


def test_side_files(tmp_path: Path) -> None:
    forged(tmp_path / "a.npz", header("<f8", (5 * 10**6,)), 4 * 10**7)
    parameter = {"value": {"npz": "a.npz", "array": "x"}, "metadata": {"dtype": "float64"}}
    node = {"parameters": {"w": parameter}, "output_ports": {"y": {"value": "w"}}}
    model = tmp_path / "m.json"
    model.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"A": node}}}}}))
    with limited(resident() + ROOM), pytest.raises(MemoryLimitError) as caught:
        mdf_loop.compile(model)
    assert "'a.npz' would take 40 MB" in str(caught.value)
    assert "at $.m.graphs['g'].nodes['A'].parameters['w']" in str(caught.value)
    forged(tmp_path / "a.npz", header("<f8", (10**15,)), 80)
    with pytest.raises(ModelError, match=r"'a.npz' is not an npz file: 'x' has 80 bytes"):
        mdf_loop.compile(model)
