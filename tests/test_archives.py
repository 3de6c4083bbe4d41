"""`.npz` files are checked for size and consistency before their arrays are decompressed."""

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
from mdf_loop.memory_limit import limited, resident_bytes

MEMORY_LIMIT = 10**7
NODE = {"input_ports": {"x": {}}, "output_ports": {"y": {"value": "x"}}}
MODEL = {"m": {"graphs": {"g": {"nodes": {"A": NODE}}}}}


def header(dtype: str, shape: object) -> bytes:
    stream = io.BytesIO()
    header_fields = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header_fields)  # type: ignore[arg-type]
    return stream.getvalue()


def write_forged(path: Path, head: bytes, zeros: int) -> Path:
    """Write a small compressed file with one array header and `zeros` zero bytes."""
    archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
    with archive, archive.open("x.npy", "w") as stream:
        stream.write(head)
        while zeros > 0:
            stream.write(bytes(min(zeros, 1 << 20)))
            zeros -= 1 << 20
    return path


def read_with_limit(path: Path, limit: int = MEMORY_LIMIT) -> dict[str, np.ndarray]:
    with limited(resident_bytes() + limit):
        return read_arrays(path)


@pytest.mark.slow
def test_a_small_file_with_a_large_array_is_refused(tmp_path: Path) -> None:
    path = write_forged(tmp_path / "a.npz", header("<f8", (5 * 10**6,)), 4 * 10**7)
    assert path.stat().st_size < 10**5
    memory_before = resident_bytes()
    with pytest.raises(MemoryLimitError, match=r"the array 'x' of 'a.npz' would take 40 MB"):
        read_with_limit(path)
    assert resident_bytes() - memory_before < MEMORY_LIMIT
    assert read_with_limit(path, 10**8)["x"].nbytes == 4 * 10**7


def test_the_sizes_of_all_arrays_are_added(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", **{f"a{k}": np.zeros(10**5) for k in range(20)})
    with pytest.raises(MemoryLimitError, match=r"the arrays of 'a.npz' would take 16 MB"):
        read_with_limit(tmp_path / "a.npz")


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
def test_inconsistent_headers_are_refused(
    head: bytes, zeros: int, match: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=f"'a.npz' is not an npz file: .*{match}"):
        read_with_limit(write_forged(tmp_path / "a.npz", head, zeros))


def test_many_empty_texts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MemoryLimitError, match="would take 64 TB"):
        read_with_limit(write_forged(tmp_path / "a.npz", header("<U0", (10**12,)), 0))


def test_a_wrong_size_in_the_directory_is_refused(tmp_path: Path) -> None:
    path = write_forged(tmp_path / "a.npz", header("<f8", (10,)), 80)
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x01\x02") + 24  # the size in the directory
    content[place : place + 4] = (10**6).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not an npz file"):
        read_with_limit(path)


def test_every_option_that_reads_arrays_has_the_limit(tmp_path: Path) -> None:
    path = write_forged(tmp_path / "a.npz", header("<f8", (5 * 10**6,)), 4 * 10**7)
    model = tmp_path / "m.json"
    model.write_text(json.dumps(MODEL))
    for options in (
        ["--inputs", str(path)],
        ["--input", f"x={path}:x"],
        ["--sweep", f"x={path}:x"],
        ["--initial-state", str(path), "--steps", "2"],
    ):
        with limited(resident_bytes() + MEMORY_LIMIT):
            invocation = CliRunner().invoke(cli, ["run", str(model), "--device", "cpu", *options])
        assert invocation.exit_code == 2, invocation.output
        assert "MemoryLimitError: the array 'x' of 'a.npz' would take 40 MB" in invocation.output


def test_side_files_of_models_have_the_limit(tmp_path: Path) -> None:
    write_forged(tmp_path / "a.npz", header("<f8", (5 * 10**6,)), 4 * 10**7)
    parameter = {"value": {"npz": "a.npz", "array": "x"}, "metadata": {"dtype": "float64"}}
    node = {"parameters": {"w": parameter}, "output_ports": {"y": {"value": "w"}}}
    model = tmp_path / "m.json"
    model.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"A": node}}}}}))
    with limited(resident_bytes() + MEMORY_LIMIT), pytest.raises(MemoryLimitError) as caught:
        mdf_loop.compile(model)
    assert "'a.npz' would take 40 MB" in str(caught.value)
    assert "at $.m.graphs['g'].nodes['A'].parameters['w']" in str(caught.value)
    write_forged(tmp_path / "a.npz", header("<f8", (10**15,)), 80)
    with pytest.raises(ModelError, match=r"'a.npz' is not an npz file: 'x' has 80 bytes"):
        mdf_loop.compile(model)
