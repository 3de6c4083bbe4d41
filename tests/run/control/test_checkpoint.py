"""Checkpoints: loaded arrays equal saved arrays bit for bit, and no crash leaves a partial file."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdf_loop import files
from mdf_loop.errors import InputError
from mdf_loop.files import write_arrays, write_atomically
from mdf_loop.importing.opening import open_document
from mdf_loop.run.control import checkpoint
from mdf_loop.run.control.checkpoint import (
    Checkpoints,
    digest_of_arrays,
    digest_of_document,
    load,
)
from tests.models.timed import ALL
from tests.strategies.arrays import ANY_NAME, PARTS

SHARED = Path(__file__).parents[4] / "shared"
LEAVE = "leave resume (--resume) out to begin anew"


def save_checkpoint(path: Path, parts: Any, identity: Any = None) -> Path:
    Checkpoints(path, 0, identity or {}).save(parts)
    return path


def same(left: Any, right: Any) -> None:
    """Check that dtypes, shapes, bits and order of two checkpoints are equal."""
    assert [(part, list(named)) for part, named in left.items()] == [
        (part, list(named)) for part, named in right.items()
    ]
    for part, named in left.items():
        for name, array in named.items():
            other = right[part][name]
            assert array.dtype == other.dtype
            assert array.shape == other.shape
            if array.dtype == object:
                assert array.tolist() == other.tolist()
            else:
                assert array.tobytes() == other.tobytes()


def refusal(path: Path, identity: Any = None) -> tuple[str, str]:
    with pytest.raises(InputError) as caught:
        load(path, identity or {})
    (finding,) = caught.value.findings
    return finding.what, finding.hint


# --- round trips ----------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(parts=PARTS, identity=st.dictionaries(ANY_NAME, ANY_NAME, max_size=3))
def test_loaded_parts_equal_saved_parts(tmp_path_factory, parts, identity):
    path = tmp_path_factory.getbasetemp() / "any.ckpt"
    same(load(save_checkpoint(path, parts, identity), identity), parts)


def test_special_bits_and_names_are_preserved(tmp_path):
    payload = np.array([0x7FF800000000BEEF, 0xFFF0000000000001, 1 << 63], np.uint64)
    parts = {
        "state": {
            "nan": payload.view(np.float64),
            "0-d": np.array(-0.0),
            "A/Add.x.11": np.zeros((0, 3), np.int8),
            "../up": np.array("a\0", object),
            "bfloat16": np.array([-0.0, np.nan], ml_dtypes.bfloat16).reshape(1, 2),
            "texts": np.array([["µ\0", ""], ["\ud800", "a" * 300]], object),
        },
        "none": {},
        "": {"": np.array([], object)},
    }
    same(load(save_checkpoint(tmp_path / "run", parts), {}), parts)


def test_the_last_save_is_loaded_and_no_temporary_files_remain(tmp_path):
    checkpoints = Checkpoints(tmp_path / "run.ckpt", 0, {})
    for k in range(5):
        checkpoints.save({"state": {"step": np.array(k)}})
    assert load(tmp_path / "run.ckpt", {})["state"]["step"] == 4
    assert os.listdir(tmp_path) == ["run.ckpt"]


def test_unsupported_objects_are_refused(tmp_path):
    with pytest.raises(TypeError, match="numbers and texts"):
        save_checkpoint(tmp_path / "run.ckpt", {"state": {"x": np.array([None, {}], object)}})


@pytest.mark.slow
def test_large_arrays_are_written_without_a_copy(tmp_path):
    megabytes = run_child(
        tmp_path,
        """
        def peak():
            line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
            return int(line.split()[1]) // 1024
        rows = np.ones(25_000_000)
        checkpoints, before = Checkpoints("run.ckpt", 0, {}), peak()
        checkpoints.save({"rows": {"x": rows, "y": np.broadcast_to(rows[:4], (2_000_000, 4))}})
        digest_of_arrays({"x": rows, "y": rows[::2]})
        print(peak() - before)
        """,
    )
    assert int(megabytes) < 60  # the arrays have 264 MB


# --- crashes --------------------------------------------------------------------------------------


def run_child(folder: Path, lines: str, before: tuple[str, ...] = (), **environment: str) -> str:
    """Run lines of Python in a child process in a folder and return the printed text."""
    head = (
        "import itertools, os, random, signal, sys, time\nimport numpy as np\n"
        "from mdf_loop.errors import InputError\n"
        "from mdf_loop.run.control.checkpoint import *\n"
        "from mdf_loop.run.control.checkpoint import digest_of_arrays, digest_of_document, load\n"
    )
    cut = "\n".join(line.removeprefix(" " * 8) for line in lines.splitlines())
    process = subprocess.run(
        [*before, sys.executable, "-c", head + cut],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


posix = pytest.mark.skipif(os.name != "posix", reason="needs fork and signals")


@pytest.mark.slow
@posix
def test_kill_9_leaves_the_old_file_or_the_new_one(tmp_path):
    """Check the file after random kills of 30 processes that save repeatedly."""
    counts = run_child(
        tmp_path,
        """
        def state(k):
            return {"state": {"step": np.array(k), "rows": np.full(40_000, k, float)}}
        def saves(first, pipe):
            checkpoints = Checkpoints("run.ckpt", 0, {"dt": "1"})
            for k in itertools.count(first):
                checkpoints.save(state(k))
                os.write(pipe, k.to_bytes(8, "little"))
        def last(pipe):
            told = b""
            while some := os.read(pipe, 8192):
                told += some
            return int.from_bytes(told[-8:], "little")
        random.seed(5)
        step, halves = 0, 0
        Checkpoints("run.ckpt", 0, {"dt": "1"}).save(state(0))
        for kill in range(300):
            if kill >= 30 and step > 3 and halves > 3:
                break
            reading, writing = os.pipe()
            if not (pid := os.fork()):
                saves(step + 1, writing)
            os.close(writing)
            time.sleep(random.uniform(0.001, 0.03))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            known = max(last(reading), step)
            os.close(reading)
            found = load("run.ckpt", {"dt": "1"})["state"]
            step = int(found["step"])
            assert step in (known, known + 1), (step, known)
            assert (found["rows"] == step).all()
            assert len(os.listdir(".")) <= 2, os.listdir(".")
            halves += len(os.listdir(".")) - 1
        Checkpoints("run.ckpt", 0, {"dt": "1"}).save(state(step + 1))
        assert os.listdir(".") == ["run.ckpt"], os.listdir(".")
        print(step, halves)
        """,
    )
    steps, halves = map(int, counts.split())
    assert steps > 3
    assert halves > 3  # some processes were killed during a save


@pytest.mark.slow
@posix
def test_two_processes_do_not_mix_their_files(tmp_path):
    run_child(
        tmp_path,
        """
        def saves(k):
            checkpoints = Checkpoints("run.ckpt", 0, {})
            for _ in range(40):
                checkpoints.save({"x": {"a": np.full(30_000, k), "b": np.full(30_000, k)}})
            os._exit(0)
        Checkpoints("run.ckpt", 0, {}).save({"x": {"a": np.zeros(3), "b": np.zeros(3)}})
        pids = [os.fork() or saves(k) for k in (1, 2)]
        for _ in range(60):
            found = load("run.ckpt", {})["x"]
            assert len({*found["a"].tolist(), *found["b"].tolist()}) == 1
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]
        assert os.listdir(".") == ["run.ckpt"]
        """,
    )


@posix
def test_only_temporary_files_of_dead_processes_are_removed(tmp_path):
    temporary_names: list[str] = []

    def write(stream: Any) -> None:
        temporary_names.extend(path.name for path in tmp_path.glob("run.ckpt.*"))
        stream.write(b"x")

    write_atomically(tmp_path / "run.ckpt", write)
    host, own = temporary_names[0].removeprefix("run.ckpt.").split("-")[:2]
    assert int(own) == os.getpid()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    abandoned = [f"run.ckpt.{host}-{dead.pid}-abc-0.part", f"run.ckpt.{host}-{own}-before-7.part"]
    others = [
        f"run.ckpt.{host}-{os.getppid()}-abc-0.part",  # a running process
        f"run.ckpt.00-{dead.pid}-abc-0.part",  # a process on another machine, whose state is unknown
        f"other.ckpt.{host}-{dead.pid}-abc-0.part",
        "run.ckpt.part",
        f"run.ckpt.{host}-x-y-z.part",
    ]
    stale = [f"run.ckpt.00-{dead.pid}-def-0.part", f"run.ckpt.{host}-{os.getppid()}-def-0.part"]
    for name in (*abandoned, *others, *stale):
        (tmp_path / name).write_text("half")
    for name in (*stale, "run.ckpt.part"):  # files not written to for a long time
        long_ago = time.time() - files.ABANDONED_SECONDS - 60
        os.utime(tmp_path / name, (long_ago, long_ago))
    (tmp_path / "run.ckpt").unlink()
    save_checkpoint(tmp_path / "run.ckpt", {})
    assert set(os.listdir(tmp_path)) == {"run.ckpt", *others}


def _may_mount() -> bool:
    try:
        process = subprocess.run(
            ["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True
        )
    except OSError:
        return False
    return process.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not _may_mount(), reason="no file systems can be mounted here")
def test_a_full_disk_leaves_the_old_file(tmp_path):
    script = f"mount -t tmpfs -o size=400k none '{tmp_path}' && cd '{tmp_path}' && exec \"$@\""
    printed = run_child(
        tmp_path,
        """
        checkpoints = Checkpoints("run.ckpt", 0, {})
        for k, size in enumerate((1000, 1_000_000, 20_000, 40_000, 1000)):
            try:
                checkpoints.save({"x": {"k": np.array(k), "a": np.ones(size)}})
            except InputError as error:
                print(error.report)
            print(int(load("run.ckpt", {})["x"]["k"]), os.listdir("."))
        """,
        ("unshare", "-Urm", "sh", "-c", script, "sh"),
    )
    full = f"DiskFullError: cannot write '{tmp_path}/run.ckpt': No space left on device"
    assert printed.splitlines() == [
        "0 ['run.ckpt']",
        full,
        "0 ['run.ckpt']",
        "2 ['run.ckpt']",
        full,  # the old file is still there
        "2 ['run.ckpt']",
        "4 ['run.ckpt']",
    ]


# --- what is no checkpoint ------------------------------------------------------------------------

PARTS_HERE = {
    "state": {"A.v": np.arange(3.0), "word": np.array(["a", "b"], object)},
    "rows": {"A.b": np.array([1.5], ml_dtypes.bfloat16)},
}


def check_damaged_file(path: Path, content: bytes) -> None:
    """Check that the damaged file is refused in one sentence or that the changed bit had no meaning."""
    path.write_bytes(content)
    try:
        parts = load(path, {"dt": "1"})
    except InputError as error:
        message = str(error)
        assert "'run.ckpt' is damaged: " in message or "'run.ckpt' is no checkpoint" in message
    else:
        same(parts, PARTS_HERE)


@pytest.mark.slow
def test_files_that_were_cut_off(tmp_path):
    intact_bytes = save_checkpoint(tmp_path / "run.ckpt", PARTS_HERE, {"dt": "1"}).read_bytes()
    for length in range(len(intact_bytes)):
        check_damaged_file(tmp_path / "run.ckpt", intact_bytes[:length])
    what, hint = refusal(tmp_path / "run.ckpt", {"dt": "1"})
    assert what == "the checkpoint 'run.ckpt' is damaged: File is not a zip file"
    assert hint == LEAVE


@pytest.mark.slow
def test_bytes_that_were_flipped(tmp_path):
    intact_bytes = save_checkpoint(tmp_path / "run.ckpt", PARTS_HERE, {"dt": "1"}).read_bytes()
    rng = np.random.default_rng(3)
    for index in range(len(intact_bytes)):
        for bits in (0xFF, int(rng.integers(1, 255))):
            changed = bytearray(intact_bytes)
            changed[index] ^= bits
            check_damaged_file(tmp_path / "run.ckpt", bytes(changed))


def test_bytes_that_are_missing_or_too_many(tmp_path):
    intact_bytes = save_checkpoint(tmp_path / "run.ckpt", PARTS_HERE, {"dt": "1"}).read_bytes()
    for index in range(0, len(intact_bytes), 7):
        check_damaged_file(tmp_path / "run.ckpt", intact_bytes[:index] + intact_bytes[index + 1 :])
        check_damaged_file(
            tmp_path / "run.ckpt", intact_bytes[:index] + b"\0" * 9 + intact_bytes[index:]
        )


def _npz(entries: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _forged(contents: Any) -> bytes:
    stream = io.BytesIO()
    text = np.frombuffer(json.dumps(contents).encode(), np.uint8)
    write_arrays(stream, {"mdf_loop.checkpoint": text, "0": np.zeros(2)})
    return stream.getvalue()


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"graphs: {}\n", _npz({}), _npz({"a.npy": b"x"}), b"\0" * 5000],
    ids=["empty", "short", "a-model", "empty-zip", "other-zip", "zeros"],
)
def test_files_of_other_kinds(tmp_path, content):
    (tmp_path / "run.ckpt").write_bytes(content)
    what, hint = refusal(tmp_path / "run.ckpt")
    assert what == "'run.ckpt' is no checkpoint"
    assert hint == "--checkpoint FILE writes one"


@pytest.mark.parametrize(
    "content",
    [
        _npz({"mdf_loop.checkpoint.npy": b"x"}),
        *(_forged(c) for c in ([], {}, None, 3, {"version": checkpoint.VERSION})),
        _forged(
            {"version": checkpoint.VERSION, "identity": {}, "parts": {"a": {"b": "", "c": ""}}}
        ),
        _forged({"version": checkpoint.VERSION, "identity": {}, "parts": {"a": {"b": "texts"}}}),
        _forged(
            {"version": checkpoint.VERSION, "identity": {}, "parts": {"a": {"b": "no_such_dtype"}}}
        ),
        _forged({"version": checkpoint.VERSION, "identity": [], "parts": []}),
        _forged({"version": checkpoint.VERSION, "identity": {}, "parts": {"a": ["b"]}}),
    ],
)
def test_forged_checkpoints_are_refused(tmp_path, content):
    (tmp_path / "run.ckpt").write_bytes(content)
    assert "the checkpoint 'run.ckpt' is damaged: " in refusal(tmp_path / "run.ckpt")[0]


def test_a_missing_file_or_folder_is_refused(tmp_path):
    assert refusal(tmp_path / "no.ckpt") == (f"there is no checkpoint '{tmp_path}/no.ckpt'", LEAVE)
    assert refusal(tmp_path) == (f"there is no checkpoint '{tmp_path}'", LEAVE)


def test_checkpoints_of_another_version(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "VERSION", checkpoint.VERSION + 1)
    path = save_checkpoint(tmp_path / "run.ckpt", {})
    monkeypatch.undo()
    what, hint = refusal(path)
    assert what == "the checkpoint 'run.ckpt' is of another version of mdf_loop"
    assert hint == f"go on with that version, or {LEAVE}"


# --- of another run -------------------------------------------------------------------------------

I_THEN, I_NOW = (digest_of_arrays({"I": np.array([x])}) for x in (1.0, 2.0))
RUN = {"model": I_THEN, "dt": "5e-05", "input I": I_THEN, "kept": "FNpop.V"}


@pytest.mark.parametrize(
    ("then", "now", "difference"),
    [
        ({}, {"dt": "0.0001"}, "of a run with dt = 5e-05, not 0.0001"),
        ({}, {"model": I_NOW, "dt": "1"}, "of another model"),
        ({}, {"input I": I_NOW}, "of a run with other values of the input 'I'"),
        ({}, {"input two words": I_NOW}, "of a run without values of the input 'two words'"),
        ({"input J": I_NOW}, {}, "of a run with values of the input 'J'"),
        ({"kept": "A.v, A.w"}, {"kept": "A.v"}, "of a run that kept A.v, A.w, not A.v"),
        ({"every": "10"}, {}, "of a run with every = 10"),
        ({}, {"every": "10"}, "of a run without every"),
        ({"state": I_THEN}, {"state": I_NOW}, "of a run with another state"),
        ({"state": I_THEN}, {}, "of a run with a state"),
        ({}, {"state": I_THEN}, "of a run without state"),
        (
            {"every": "10"},
            {"dt": "1", "every": "1"},
            "of a run with dt = 5e-05, not 1 and with every = 10, not 1",
        ),
        (
            {},
            {f"p{k}": "yes" for k in range(9)},
            "of a run " + "".join(f"without p{k} and " for k in range(5)) + "4 more",
        ),
    ],
)
def test_the_error_names_the_difference(tmp_path, then, now, difference):
    path = save_checkpoint(tmp_path / "run.ckpt", {}, {**RUN, **then})
    what, hint = refusal(path, {**RUN, **now})
    assert what.startswith(f"the checkpoint 'run.ckpt' is {difference}")
    assert hint == f"give the same model and options as then, or {LEAVE}"


def test_the_order_of_arguments_does_not_matter(tmp_path):
    path = save_checkpoint(tmp_path / "run.ckpt", {}, RUN)
    assert load(path, dict(reversed(RUN.items()))) == {}


# --- digests --------------------------------------------------------------------------------------


def test_digests_tell_arrays_apart():
    one = np.arange(6.0).reshape(2, 3)
    different = [
        {"a": one},
        {"b": one},
        {"a": one.astype(np.float32)},
        {"a": one.reshape(3, 2)},
        {"a": one * -1},
        {"a": np.negative(one, where=one == 0, out=one.copy())},  # -0.0
        {"a": one, "b": one},
        {"a": np.array(["x", "y"], object)},
        {"a": np.array(["xy", ""], object)},
        {"a": np.zeros((0, 3))},
        {},
    ]
    assert len({digest_of_arrays(arrays) for arrays in different}) == len(different)


def test_digests_are_of_values_not_of_layouts():
    first, second = np.arange(6.0).reshape(2, 3), np.arange(4)
    assert digest_of_arrays({"a": first, "b": second}) == digest_of_arrays(
        {"b": np.arange(8)[:4], "a": np.asfortranarray(first)}
    )


def test_each_model_has_a_digest_of_its_own():
    digests = [digest_of_document(open_document(model)) for model in ALL.values()]
    assert len(set(digests)) == len(digests)
    assert digests == [digest_of_document(open_document(model)) for model in ALL.values()]


def test_large_arrays_are_part_of_the_digest():
    def model(value: Any) -> Any:
        array = np.zeros(1000)
        array[-1] = value
        return {
            "M": {
                "format": "ModECI MDF v0.4",
                "graphs": {"G": {"nodes": {"A": {"parameters": {"w": {"value": array}}}}}},
            }
        }

    digests = [digest_of_document(open_document(model(value))) for value in (0.0, 1.0, 0.0)]
    assert digests[0] == digests[2] != digests[1]


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "models").is_dir(), reason="no shared models")
def test_two_processes_agree_on_the_digest_of_a_file(tmp_path):
    files = sorted((SHARED / "models").rglob("*.yaml")) + sorted(
        (SHARED / "models").rglob("*.onnx")
    )
    lines = f"""
        from mdf_loop.importing.opening import open_document
        for path in {[str(path) for path in files]!r}:
            try:
                print(digest_of_document(open_document(path)))
            except Exception as error:
                print(type(error).__name__)
        """
    first, second = (run_child(tmp_path, lines, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first == second
    assert first.count("sha256:") > 10


# --- when and where -------------------------------------------------------------------------------


def test_checkpoints_are_due_after_the_interval(tmp_path, monkeypatch):
    clock = iter([100.0, 159.9, 160.0, 161.0, 163.0, 220.9, 221.0, 300.0, 400.0, 499.0, 500.0])
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: next(clock))
    checkpoints = Checkpoints(tmp_path / "run.ckpt", 60, {})
    assert [checkpoints.due(), checkpoints.due()] == [False, True]
    checkpoints.save({})  # the save lasts from 161 to 163
    assert [checkpoints.due(), checkpoints.due()] == [False, True]
    # The save lasts from 300 to 400, so the next one is due after 100 more seconds.
    checkpoints.save({})
    assert [checkpoints.due(), checkpoints.due()] == [False, True]


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_invalid_intervals_are_refused(tmp_path, seconds):
    with pytest.raises(InputError, match=f"checkpoints cannot be written every {seconds} seconds"):
        Checkpoints(tmp_path / "run.ckpt", seconds, {})


def test_invalid_paths_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot write '.*': there is no folder '.*/none'"):
        Checkpoints(tmp_path / "none" / "run.ckpt", 1, {})
    with pytest.raises(InputError, match=r"cannot write '.*': it is no file"):
        Checkpoints(tmp_path, 1, {})
    with pytest.raises(InputError, match=r"cannot write '/dev/null': it is no file"):
        Checkpoints("/dev/null", 1, {})


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_folders_that_may_not_be_written_to(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="no files may be created in"):
        Checkpoints(tmp_path / "run.ckpt", 1, {})
    tmp_path.chmod(0o700)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "run.ckpt").symlink_to(tmp_path / "far" / "run.ckpt")
    save_checkpoint(tmp_path / "run.ckpt", PARTS_HERE)
    assert (tmp_path / "run.ckpt").is_symlink()
    same(load(tmp_path / "far" / "run.ckpt", {}), PARTS_HERE)


def test_a_file_that_is_no_checkpoint_is_not_replaced(tmp_path):
    model = tmp_path / "model.yaml"
    model.write_text("precious")
    with pytest.raises(InputError, match=r"'.*model.yaml' is there already, and is no checkpoint"):
        Checkpoints(model, 60.0, {})
    assert model.read_text() == "precious"
