"""Rows on disk are complete at any moment for every reader, also after a crash."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import xarray
import zarr

from mdf_loop.errors import DiskFullError, InputError
from mdf_loop.run.outputs import Axis
from mdf_loop.run.recording import stream as stream_module
from mdf_loop.run.recording.stream import Column, Stream
from tests.soak import some, times

pytestmark = pytest.mark.filterwarnings("error")

FLOAT = np.dtype(float)
TIME = Axis("time", {"time": np.empty(0)})
STEP = Axis("time", {"step": np.empty(0, np.int64)})
BATCH = Axis("batch", {"A.gain": np.array([0.1, 0.2, 0.3])})


def open_stream(path: Path, *columns: Column, axes: tuple[Axis, ...] = (TIME,)) -> Stream:
    return Stream.create(path, columns or [Column("A.v", FLOAT, ())], axes, "cpu", "float64")


def lengths(path: Path) -> list[int]:
    """Return the row counts of the outputs, of the time coordinate and in the consolidated metadata."""
    whole = json.loads((path / "zarr.json").read_text())["consolidated_metadata"]["metadata"]
    own = {name: json.loads((path / name / "zarr.json").read_text()) for name in whole}
    row_counts = [own[name]["shape"][0] for name in (*sorted(set(own) - {"time"}), "time")]
    return [*row_counts, *{entry["shape"][0] for entry in whole.values()}]


def resume_stream(path: Path, length: int) -> Stream:
    """Open the store from a checkpoint of the given length."""
    opened_stream = Stream(path)
    opened_stream._stored_count = length
    snapshot = opened_stream.checkpoint()
    return Stream.resume(path, length, snapshot, [*opened_stream.arrays()])


# --- what is in it ------------------------------------------------------------------------------


def test_added_rows_are_read_with_labels(tmp_path):
    columns = [Column("A.v", FLOAT, (2,), "mV"), Column("/A/n", np.dtype(np.int64), ())]
    stream = open_stream(tmp_path / "x.zarr", *columns)
    rng = np.random.default_rng(1)
    v, n, t = rng.standard_normal((50, 2)), rng.integers(0, 2**62, 50), np.arange(50) * 0.1
    for start in range(0, 50, 7):
        part = slice(start, start + 7)
        stream.add(t[part], {"A.v": v[part], "/A/n": n[part], "unused": t})
    assert stream.length == 50
    stream.close()
    with xarray.open_zarr(tmp_path / "x.zarr") as data:
        assert {name: data[name].dims for name in data} == {
            "A.v": ("time", "A.v_0"),
            "%2FA%2Fn": ("time",),
        }
        np.testing.assert_array_equal(data["A.v"], v)
        np.testing.assert_array_equal(data["%2FA%2Fn"], n)
        np.testing.assert_array_equal(data["time"], t)
        assert data["A.v"].attrs == {"units": "mV"}
        assert data["time"].attrs == {"units": "s"}
        assert data["%2FA%2Fn"].attrs == {"long_name": "/A/n"}
        assert data.attrs["device"] == "cpu"
    arrays = stream.arrays()
    assert list(arrays) == ["A.v", "/A/n"]
    np.testing.assert_array_equal(arrays["/A/n"][3:9], n[3:9])


@pytest.mark.parametrize("name", ["zarr.json", "zarr.json.partial", "..", ".", "A.partial", "c"])
def test_reserved_names_of_zarr_are_valid_outputs(tmp_path, name):
    """Check names of nodes and ports such as `zarr`, `json` and the empty string."""
    path = tmp_path / "x.zarr"
    stream = open_stream(path, Column(name, FLOAT, ()))
    stream.add(np.arange(3.0), {name: np.arange(3.0)})
    stream.close()
    again = resume_stream(path, 2)
    again.add(np.arange(3.0), {name: np.arange(3.0)})
    again.close()
    assert again.arrays()[name][...].tolist() == [0, 1, 0, 1, 2]
    with xarray.open_zarr(path) as data:
        (variable,) = data.values()
    assert variable.attrs.get("long_name", variable.name) == name


def test_steps_are_a_coordinate_though_their_axis_is_time(tmp_path):
    stream = open_stream(tmp_path / "x.zarr", axes=(STEP,))
    stream.add(np.arange(3), {"A.v": np.ones(3)})
    stream.close()
    with xarray.open_zarr(tmp_path / "x.zarr") as data:
        assert data["step"].dtype == np.int64
        assert set(data.coords) == {"step"}
        assert data["A.v"].dims == ("time",)


def test_a_sweep_grows_along_its_second_axis(tmp_path):
    stream = open_stream(tmp_path / "x.zarr", Column("A.v", FLOAT, (2,)), axes=(BATCH, TIME))
    v = np.random.default_rng(2).standard_normal((3, 10, 2))
    stream.add(np.zeros(1), {"A.v": v[:, :1]})
    stream.add(np.ones(9), {"A.v": v[:, 1:]})
    stream.close()
    with xarray.open_zarr(tmp_path / "x.zarr") as data:
        assert data["A.v"].dims == ("batch", "time", "A.v_0")
        np.testing.assert_array_equal(data["A.v"], v)
        np.testing.assert_array_equal(data["A.gain"], BATCH.coordinates["A.gain"])
        assert set(data.coords) == {"A.gain", "time"}


@pytest.mark.parametrize(
    "rows",
    [
        np.array([0.0, -0.0, np.nan, np.inf]),
        np.zeros((4, 0)),
        np.array(["a", "", "µ and more"] * 2, object)[:4],
        np.array([1, 2.5, -3, 0], ml_dtypes.bfloat16),
        np.array([True, False, True, True]),
        np.arange(4, dtype=np.uint8),
        np.arange(8, dtype=np.float16).reshape(4, 2),
    ],
    ids=lambda rows: str(rows.dtype),
)
def test_every_dtype(tmp_path, rows):
    stream = open_stream(tmp_path / "x.zarr", Column("A.v", rows.dtype, rows.shape[1:]))
    for place in (slice(0, 3), slice(3, 3), slice(3, 4)):
        stream.add(np.zeros(4)[place], {"A.v": rows[place]})
        stream.flush()
    read = stream.arrays()["A.v"][...]
    stream.close()
    assert read.shape == rows.shape
    if rows.dtype == object:
        assert read.tolist() == rows.tolist()
    else:
        exact = rows.astype(np.float32) if rows.dtype == ml_dtypes.bfloat16 else rows
        assert read.dtype == exact.dtype
        assert read.tobytes() == exact.tobytes()


def test_whole_numbers_among_floats(tmp_path):
    stream = open_stream(tmp_path / "x.zarr", Column("A.v", FLOAT, (2, 1)))
    stream.add(np.zeros(1), {"A.v": np.array([[[3], [3]]])})
    stream.add(np.zeros(2), {"A.v": np.array([[[1.5], [2.5]], [[3.5], [4.5]]])})
    stream.close()
    expected = [[[3.0], [3.0]], [[1.5], [2.5]], [[3.5], [4.5]]]
    assert stream.arrays()["A.v"][...].tolist() == expected


@pytest.mark.parametrize(
    ("rows", "dtype", "sentence"),
    [
        (np.ones((2, 3)), FLOAT, r"rows of 'A.v' that are float64\[3\] cannot .* are float64\[2\]"),
        (np.ones(2), np.dtype(np.int64), r"that are float64\[\] cannot .* are int64\[2\]"),
        (np.full(2, 2**53 + 1), FLOAT, r"that are int64\[\] cannot be kept exactly"),
        (np.full(2, 0.1), np.dtype(np.float32), r"that are float64\[\] cannot be kept exactly"),
        (np.array(["a", "b"], object), FLOAT, r"that are string\[\] cannot be kept exactly"),
    ],
)
def test_rows_that_do_not_fit(tmp_path, rows, dtype, sentence):
    stream = open_stream(tmp_path / "x.zarr", Column("A.v", dtype, (2,)))
    with pytest.raises(InputError, match=sentence):
        stream.add(np.zeros(2), {"A.v": rows})
    assert stream.length == 0
    stream.close()


# --- when it is written -------------------------------------------------------------------------


def test_rows_wait_for_a_second_or_until_they_are_many(tmp_path, monkeypatch):
    now = 100.0
    monkeypatch.setattr(stream_module.time, "monotonic", lambda: now)
    stream = open_stream(tmp_path / "x.zarr")
    stream.add(np.zeros(1), {"A.v": np.zeros(1)})
    assert lengths(tmp_path / "x.zarr") == [0, 0, 0]
    now += 1.1
    stream.add(np.zeros(0), {"A.v": np.zeros(0)})
    assert lengths(tmp_path / "x.zarr") == [1, 1, 1]
    stream.add(np.zeros(100), {"A.v": np.zeros(100)})
    assert lengths(tmp_path / "x.zarr") == [1, 1, 1]
    stream.add(np.zeros(300_000), {"A.v": np.zeros(300_000)})
    assert lengths(tmp_path / "x.zarr") == [2 * 131_072] * 3  # two whole chunks
    stream.close()
    assert lengths(tmp_path / "x.zarr") == [300_101] * 3


@pytest.mark.slow
def test_the_store_is_whole_whenever_one_of_its_files_changes(tmp_path, monkeypatch):
    path = tmp_path / "x.zarr"
    stream = open_stream(path, Column("A.v", FLOAT, ()), Column("A.w", FLOAT, ()))
    counts = []
    replace = Path.replace

    def replaced(part: Path, target: Path) -> Path:
        moved = replace(part, target)
        with xarray.open_zarr(path) as data:
            count = data.sizes["time"]
            np.testing.assert_array_equal(data["A.v"], np.arange(count) + 1.0)
            np.testing.assert_array_equal(data["A.w"], np.arange(count) + 2.0)
        v, w, along, _ = lengths(path)
        assert along <= v
        assert along <= w
        assert len(zarr.open_array(path / "A.w")[...]) == w
        assert zarr.open_array(path / "A.w")[...].all()  # chunks of zeros are not written
        counts.append(count)
        return moved

    monkeypatch.setattr(Path, "replace", replaced)
    for start in range(0, 200_000, 50_000):
        numbers = np.arange(start, start + 50_000.0)
        stream.add(numbers, {"A.v": numbers + 1, "A.w": numbers + 2})
        stream.flush()
    stream.close()
    assert len(counts) > 20
    assert counts == sorted(counts)
    counts.clear()
    resume_stream(path, 70_000).close()
    assert set(counts) == {70_000}


# --- stores that are there ----------------------------------------------------------------------


def test_an_earlier_store_is_replaced(tmp_path):
    first = open_stream(tmp_path / "x.zarr", Column("B.old", FLOAT, ()))
    first.add(np.zeros(3), {"B.old": np.zeros(3)})
    first.close()
    open_stream(tmp_path / "x.zarr").close()
    assert [path.name for path in tmp_path.iterdir()] == ["x.zarr"]
    with xarray.open_zarr(tmp_path / "x.zarr") as data:
        assert dict(data.sizes) == {"time": 0}


def test_a_link_to_a_store_stays(tmp_path):
    open_stream(tmp_path / "x.zarr").close()
    (tmp_path / "link.zarr").symlink_to(tmp_path / "x.zarr")
    open_stream(tmp_path / "link.zarr", Column("B.new", FLOAT, ())).close()
    assert (tmp_path / "link.zarr").is_symlink()
    assert (tmp_path / "x.zarr" / "B.new").is_dir()


def test_foreign_files_are_not_changed(tmp_path):
    zarr.create_group(tmp_path / "x.zarr", attributes={"mine": 1})
    with pytest.raises(InputError, match=r"x.zarr' is there already|it is there already"):
        open_stream(tmp_path / "x.zarr")
    assert zarr.open_group(tmp_path / "x.zarr", mode="r").attrs["mine"] == 1


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match=r"there is no folder"):
        open_stream(tmp_path / "missing" / "x.zarr")
    with pytest.raises(InputError, match=r"cannot save rows while they are computed as '.h5'"):
        open_stream(tmp_path / "x.h5")


@pytest.mark.parametrize("length", [0, 1, 131_072, 131_073, 290_000, 300_000])
def test_going_on_after_some_of_the_rows(tmp_path, length):
    path = tmp_path / "x.zarr"
    numbers = np.arange(300_000.0)
    first = open_stream(path)
    first.add(numbers, {"A.v": numbers})
    first.close()
    stream = resume_stream(path, length)
    assert stream.length == length
    assert lengths(path) == [length] * 3
    np.testing.assert_array_equal(stream.arrays()["A.v"][...], numbers[:length])
    assert len(list((path / "A.v" / "c").iterdir())) == -(-length // 131_072)
    stream.add(-numbers[:7], {"A.v": -numbers[:7]})
    stream.close()
    expected = np.concatenate([numbers[:length], -numbers[:7]])
    for name in ("A.v", "time"):
        np.testing.assert_array_equal(zarr.open_array(path / name)[...], expected)


# --- other processes ----------------------------------------------------------------------------

WRITER = """
import sys
from itertools import count
import numpy as np
from mdf_loop.run.recording import stream
from mdf_loop.run.recording.stream import Column
from mdf_loop.run.outputs import Axis

stream.BUFFER_SECONDS = 0.01
columns = [Column("A.v", np.dtype(float), ()), Column("A.w", np.dtype(float), (3,))]
made = stream.Stream.create(
    sys.argv[1], columns, (Axis("time", {"time": np.empty(0)}),), "cpu", "float64"
)
for start in count(0, 1000):
    numbers = np.arange(start, start + 1000.0)
    rows = {"A.v": np.sin(numbers), "A.w": np.multiply.outer(numbers, [1, 2, 3])}
    made.add(numbers, rows)
    if start == 0:
        made.flush()
        print("begun", flush=True)
"""


def count_checked_rows(path: Path) -> int:
    """Check all rows and return the row count."""
    with xarray.open_zarr(path) as data:
        numbers = np.arange(float(data.sizes["time"]))
        np.testing.assert_array_equal(data["time"], numbers)
        np.testing.assert_array_equal(data["A.v"], np.sin(numbers))
        np.testing.assert_array_equal(data["A.w"], np.multiply.outer(numbers, [1, 2, 3]))
    return len(numbers)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(times(2, 50)))
def test_readers_and_a_kill_at_any_moment(tmp_path, seed):
    path = tmp_path / "x.zarr"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        counts = [count_checked_rows(path) for _ in range(3)]
        time.sleep(np.random.default_rng(seed).uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
    counts.append(count_checked_rows(path))
    assert counts == sorted(counts)
    v, w, along, whole = lengths(path)
    assert whole <= along <= min(v, w)
    length = counts[-1] - 500
    stream = resume_stream(path, length)
    assert not list(path.rglob("*.partial"))
    numbers = np.arange(length, length + 200_000.0)
    rows = {"A.v": np.sin(numbers), "A.w": np.multiply.outer(numbers, [1, 2, 3])}
    stream.add(numbers, rows)
    stream.close()
    assert count_checked_rows(path) == length + 200_000
    names = {file.name for file in path.rglob("*") if file.is_file()}
    # The file with reserved disk space is removed.
    assert all(name == "zarr.json" or name.isdecimal() for name in names)


FULL = """
import subprocess, sys
from itertools import count
import numpy as np
from mdf_loop.errors import DiskFullError
from mdf_loop.run.recording.stream import Column, Stream
from mdf_loop.run.outputs import Axis

folder, size, block = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
path = folder + "/x.zarr"
noise = np.random.default_rng(0).standard_normal((500_000, 2))

def add(stream, start):
    rows = noise[start : start + block]
    stream.add(rows[:, 0], {"A.w": rows})

mount = ["mount", "-t", "tmpfs", "-o"]
subprocess.run([*mount, f"size={size}k", "tmpfs", folder], check=True)
columns = [Column("A.w", np.dtype(float), (2,))]
stream = Stream.create(path, columns, (Axis("time", {"time": np.empty(0)}),), "cpu", "float64")
given = 0
try:
    for start in count(0, block):
        given += block
        add(stream, start)
except DiskFullError as error:
    reached = stream.length
    assert str(reached) in str(error)
assert stream.length == reached
stream.close()
stored = Stream.arrays(stream)["A.w"][...]
np.testing.assert_array_equal(stored, noise[:reached])
print(given, reached)

subprocess.run([*mount, "remount,size=20m", "tmpfs", folder], check=True)
stream = Stream.resume(path, reached, stream.checkpoint(), ["A.w"])
for start in range(reached, reached + 5 * block, block):
    add(stream, start)
stream.close()
np.testing.assert_array_equal(stream.arrays()["A.w"][...], noise[: reached + 5 * block])
"""


def may_mount() -> bool:
    tried = ["unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    try:
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.skipif(not may_mount(), reason="needs a user namespace")
@pytest.mark.parametrize(
    ("size", "block"), some([(2048, 1000), (2048, 17), (2048, 20_000), (12_000, 5000)], 2)
)
def test_a_full_disk_keeps_all_rows(tmp_path, size, block):
    run = ["unshare", "-Urm", sys.executable, "-c", FULL, str(tmp_path), str(size), str(block)]
    process = subprocess.run(run, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    submitted, stored = map(int, process.stdout.split())
    assert stored == submitted
    assert stored * 24 > size * 1024 / 4


def test_a_disk_without_any_room_keeps_what_is_readable(tmp_path, monkeypatch):
    path = tmp_path / "x.zarr"
    stream = open_stream(path)
    stream.add(np.arange(10.0), {"A.v": np.arange(10.0)})
    stream.flush()
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(zarr.Array, "__setitem__", lambda *_: (_ for _ in ()).throw(full))
    stream.add(np.arange(10.0), {"A.v": np.arange(10.0)})
    with pytest.raises(DiskFullError, match=r"the disk is full; '.*x.zarr' has the first 10 rows"):
        stream.flush()
    assert stream.length == 10
    stream.close()
    assert stream.arrays()["A.v"][...].tolist() == list(range(10))


@pytest.mark.slow
def test_zarr_is_not_loaded_before_it_is_needed():
    modules: Any = subprocess.check_output(
        [
            sys.executable,
            "-c",
            "import mdf_loop, mdf_loop.run.recording.stream, sys; print('zarr' in sys.modules)",
        ],
        text=True,
    )
    assert modules == "False\n"


# --- rows of different lengths ------------------------------------------------------------------


def test_rows_may_become_longer_than_their_chunks(tmp_path, monkeypatch):
    """Check chunks of one row: removed rows disappear whatever their number of chunks."""
    for limit in ("CHUNK_BYTES", "MIN_CHUNK_BYTES"):
        monkeypatch.setattr(stream_module.folder, limit, 1)
    path = tmp_path / "x.zarr"
    whole = np.dtype(np.int64)
    columns = [Column("A.v", FLOAT, (1,)), Column("A.v.length", whole, (), "", "A.v")]
    stream = open_stream(path, *columns)
    long = np.arange(200.0)
    for row in ([1.0], [2.0, 3.0], long, [4.0]):
        rows = {"A.v": np.array([row]), "A.v.length": np.array([len(row)])}
        stream.add(np.zeros(1), rows)
    stream.close()
    stored_rows = stream.arrays()["A.v"][...]
    assert stored_rows.shape == (4, 200)
    np.testing.assert_array_equal(stored_rows[2], long)
    assert stored_rows[1, :2].tolist() == [2, 3]
    assert np.isnan(stored_rows[1, 2:]).all()
    assert len([*(path / "A.v" / "c" / "2").iterdir()]) == 4
    again = resume_stream(path, 2)
    assert not [*(path / "A.v" / "c").glob("2/*")]
    again.add(np.zeros(1), {"A.v": np.array([[5.0]]), "A.v.length": np.array([1])})
    again.close()
    stored_rows = again.arrays()["A.v"][...]
    assert stored_rows[2, 0] == 5
    assert np.isnan(stored_rows[2, 1:]).all()
    with xarray.open_zarr(path) as data:
        assert data["A.v.length"].values.tolist() == [1, 2, 1]
