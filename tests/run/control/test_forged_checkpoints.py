"""Changed checkpoints and states give one error that names the file and the part."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError, LoopError, MemoryLimitError
from mdf_loop.files import write_arrays
from mdf_loop.run.control import checkpoint
from mdf_loop.run.control.checkpoint import Checkpoints, load
from tests.long_runs.processes import ENDLESS
from tests.models.timed import graph
from tests.soak import times

Change = Callable[[dict[str, dict[str, Any]]], object]

PAIR = graph(
    walk={
        "parameters": {
            "x": {"default_initial_value": 0.25, "value": "3.9 * x * (1 - x)"},
            "v": {"default_initial_value": [1.0, 2.0], "value": "0.5 * v"},
        },
        "output_ports": {"x": {"value": "x"}, "v": {"value": "v"}, "big": {"value": "x > 0.5"}},
    }
)
"""A scalar, an array, and what says which rows are kept."""

OVER_TIME = {"steps": 50, "only": ["walk.x", "walk.v"]}
SWEPT = {**OVER_TIME, "sweep": {"walk.x": [0.1, 0.2, 0.3]}}
CHOSEN = {**OVER_TIME, "when": "walk.big", "reduce": {"walk.v": ["mean", "last"]}}


def parts_of(path: Path, compiled: mdf_loop.CompiledModel, words: Mapping[str, Any]) -> Any:
    """Save a checkpoint and return its parts with its identity."""
    compiled.run(**words, checkpoint=path)
    with np.load(path) as archive:
        identity = json.loads(archive["mdf_loop.checkpoint"].tobytes())["identity"]
    return {part: dict(named) for part, named in load(path, identity).items()}, identity


@pytest.fixture(scope="module")
def compiled() -> mdf_loop.CompiledModel:
    return mdf_loop.compile(PAIR["g"], device="cpu")


@pytest.fixture(scope="module")
def while_loop() -> mdf_loop.CompiledModel:
    return mdf_loop.compile(ENDLESS, device="cpu", max_iterations=40)


def refusal(
    path: Path, compiled: mdf_loop.CompiledModel, words: Mapping[str, Any], change: Change
) -> str:
    """Change a checkpoint, resume from it and return the error message."""
    parts, identity = parts_of(path, compiled, words)
    change(parts)
    Checkpoints(path, 0, identity).save(parts)
    with pytest.raises(InputError) as caught:
        compiled.run(**words, resume=path)
    (finding,) = caught.value.findings
    assert finding.hint == "leave resume (--resume) out to begin anew"
    start = "the checkpoint 'run.ckpt' is damaged: "
    assert finding.what.startswith(start)
    return finding.what.removeprefix(start)


def put(part: str, name: str, value: Any) -> Change:
    return lambda parts: parts[part].__setitem__(name, np.asarray(value))


def without(part: str, name: str = "") -> Change:
    return lambda parts: parts[part].pop(name) if name else parts.pop(part)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("course"), "it has no 'course'"),
        (without("kept"), "it has no 'kept'"),
        (without("course", "done"), "it has no 'course/done'"),
        (put("course", "done", [50]), "'course/done' is int64[1], not a whole number"),
        (put("course", "done", 50.0), "'course/done' is 50.0 (float64), not a whole number"),
        (put("course", "done", -1), "'course/done' is -1 (int64), not 0 or more"),
        (
            put("course", "done", 2**64 - 1),
            f"'course/done' is {2**64 - 1} (uint64), not 0 or more",
        ),
        (without("course", "state parameter walk.v"), "it has no 'course/state parameter walk.v'"),
        (
            put("course", "state parameter walk.v", [1.0, 2.0, 3.0]),
            "'course/state parameter walk.v' is float64[3], not float64[2]",
        ),
        (
            put("course", "state parameter walk.v", np.array(["a", "b"], object)),
            "'course/state parameter walk.v' is object[2], not float64[2]",
        ),
        (put("course", "ran", "[[[[["), "'course/ran' is <U5[], not JSON"),
        (
            put("course", "ran", '[[[["walk"]], -1]]'),
            "'course/ran' is <U18[], not the order of execution of 50 steps",
        ),
        (put("course", "ran", 3), "'course/ran' is 3 (int64), not a text"),
        (put("kept", "length", 49), "'kept/length' is 49 (int64), not 50, the rows of 50 steps"),
        (put("kept", "length", 51), "'kept/length' is 51 (int64), not from 0 to 50"),
        (put("kept", "first", 50), "'kept/first' is 50 (int64), not from 0 to 49"),
        (without("kept", "rows walk.v"), "it has no 'kept/rows walk.v'"),
        (
            put("kept", "rows walk.v", np.zeros((9, 2))),
            "'kept/rows walk.v' is float64[9, 2], not 50 rows of numbers",
        ),
        (put("kept", "rows walk.x", 1.0), "'kept/rows walk.x' is 1.0 (float64), not 50 rows"),
        (put("kept", "rows walk.x", np.zeros(50, complex)), "'kept/rows walk.x' is complex128[50]"),
        (
            put("kept", "rows walk.x", np.zeros(50, "M8[s]")),
            "'kept/rows walk.x' is datetime64[s][50], not 50 rows of numbers",
        ),
    ],
)
def test_a_run_over_time(compiled, tmp_path, change, message):
    assert refusal(tmp_path / "run.ckpt", compiled, OVER_TIME, change).startswith(message)


def test_a_sweep(compiled, tmp_path):
    change = put("kept", "rows walk.x", np.zeros(50))
    message = "'kept/rows walk.x' is float64[50], not 50 rows for each member of the sweep"
    assert refusal(tmp_path / "run.ckpt", compiled, SWEPT, change) == message


MEAN, LAST = "reduction walk.v.mean/", "reduction walk.v.last/"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("kept", "chosen"), "it has no 'kept/chosen'"),
        (
            lambda parts: parts["kept"]["chosen"].fill(3),
            "'kept/chosen' is int64[34], not numbers of steps up to 49",
        ),
        (put("kept", f"{MEAN}rows", -3), f"'kept/{MEAN}rows' is -3 (int64), not 0 or more"),
        (put("kept", f"{MEAN}dtypes", ["int7"]), f"'kept/{MEAN}dtypes' is <U4[1], not dtypes"),
        (put("kept", f"{MEAN}dtypes", 1.0), f"'kept/{MEAN}dtypes' is 1.0 (float64), not an array"),
        (put("kept", f"{MEAN}shape", [-2]), f"'kept/{MEAN}shape' is int64[1], not a shape"),
        (put("kept", f"{MEAN}sum", [1.0, 2.0]), f"'kept/{MEAN}sum' is float64[2], not an array"),
        (
            put("kept", f"{MEAN}waiting", np.zeros((9999, 2))),
            f"'kept/{MEAN}waiting' is float64[9999, 2], not an array of floats [3, 2]",
        ),
        (without("kept", f"{LAST}row"), f"it has no 'kept/{LAST}row'"),
        (put("kept", f"{LAST}row", ["a", "b"]), f"'kept/{LAST}row' is <U1[2], not an array of num"),
        (put("kept", "reduction axis", 2), "'kept/reduction axis' is 2 (int64), not from 0 to 1"),
    ],
)
def test_rows_that_were_chosen_and_reductions(compiled, tmp_path, change, message):
    assert refusal(tmp_path / "run.ckpt", compiled, CHOSEN, change).startswith(message)


def test_a_reduction_that_would_be_large(compiled, tmp_path):
    path = tmp_path / "run.ckpt"
    parts, identity = parts_of(path, compiled, CHOSEN)
    parts["kept"][f"{MEAN}shape"] = np.array([10**7, 10**7])
    Checkpoints(path, 0, identity).save(parts)
    with pytest.raises(MemoryLimitError):
        compiled.run(**CHOSEN, resume=path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("course", "piece", 99), "'course/piece' is 99 (int64), not from 0 to"),
        (put("course", "piece", 0.5), "'course/piece' is 0.5 (float64), not a whole number"),
        (put("course", "iterations", 41), "'course/iterations' is 41 (int64), not from 0 to 40"),
        (put("course", "condition", 1), "'course/condition' is 1 (int64), not true or false"),
        (
            lambda parts: parts["course"].update(
                {n: np.zeros((2, 2)) for n in parts["course"] if n.startswith("carried ")}
            ),
            "'course/carried ",
        ),
        (
            lambda parts: [
                parts["course"].pop(n) for n in list(parts["course"]) if n.startswith("rows of ")
            ],
            "it has no 'course/rows of ",
        ),
        (
            lambda parts: parts["course"].update(
                {n: np.zeros(7) for n in parts["course"] if n.startswith("rows of ")}
            ),
            "'course/rows of ",
        ),
    ],
)
def test_a_loop(while_loop, tmp_path, change, message):
    assert refusal(tmp_path / "run.ckpt", while_loop, {}, change).startswith(message)


# --- any change -----------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (
    *(-1, 1, 2**31, 2**63 - 1, 2**64 - 1, np.nan, "", "[]", "[[[], 1]]", True, [], [1], [[1.0]]),
    *(["a"], np.zeros((50, 2)), np.zeros((2, 50)), np.zeros((50, 3, 2)), np.zeros((2, 0))),
    *(np.array(["a"], object), np.zeros(50, "M8[s]"), np.zeros(50, "f4"), np.zeros(50, complex)),
    *(np.zeros(50, ">f8"), np.zeros(50, bool), np.int8(3), np.array([1, 2], "S2")),
)


def change_randomly(parts: Any, rng: np.random.Generator) -> None:
    """Change one array: remove it, replace it, or give it other axes, a shorter length or another dtype."""
    named = parts[rng.choice(list(parts))]
    name = rng.choice(list(named))
    array = named.pop(name)
    match int(rng.integers(5)):
        case 1:
            named[name] = np.asarray(ODD[rng.integers(len(ODD))])
        case 2:
            named[name] = array[None]
        case 3:
            named[name] = array[:-1] if array.ndim else np.asarray(array * -1)
        case 4:
            named[name] = array.astype(str(rng.choice(["f4", "i8", "?", "U5", "u1"])))


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("words", [OVER_TIME, CHOSEN, SWEPT], ids=["all", "chosen", "swept"])
def test_any_changed_array_is_refused_or_valid(compiled, tmp_path, words):
    path = tmp_path / "run.ckpt"
    whole, identity = parts_of(path, compiled, words)
    rng = np.random.default_rng(12)
    refusals = 0
    for _ in range(times(20, 500)):
        parts = {part: dict(named) for part, named in whole.items()}
        with contextlib.suppress(TypeError, ValueError):  # the array does not exist
            change_randomly(parts, rng)
        Checkpoints(path, 0, identity).save(parts)
        try:
            compiled.run(**words, resume=path).to_json()
        except LoopError:
            refusals += 1
    assert refusals > times(10, 250)


# --- files ----------------------------------------------------------------------------------------


def write_forged_file(
    path: Path, identity: Any, parts: Any, *arrays: Any, packed: bool = False
) -> None:
    contents = {"version": checkpoint.VERSION, "identity": identity, "parts": parts}
    text = np.frombuffer(json.dumps(contents).encode(), np.uint8)
    numbered = {str(k): np.asarray(array) for k, array in enumerate(arrays)}
    stream = io.BytesIO()
    how = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    write_arrays(stream, {"mdf_loop.checkpoint": text, **numbered}, how)
    path.write_bytes(stream.getvalue())


def as_bytes(content: Any) -> Any:
    return np.frombuffer(json.dumps(content).encode(), np.uint8)


def error_of(path: Path) -> str:
    with pytest.raises(LoopError) as caught:
        load(path, {})
    return caught.value.report


def test_a_decompression_bomb_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    write_forged_file(path, {}, {"course": {"a": ""}}, np.zeros(10**7), packed=True)
    assert path.stat().st_size < 10**6
    assert "'run.ckpt' is damaged: it holds more than it has bytes" in error_of(path)


@pytest.mark.parametrize(
    "content",
    [
        {"shape": [10**10], "texts": ["a"]},
        {"shape": [2], "texts": "ab"},
        {"shape": [1], "texts": [3]},
        {"shape": "a", "texts": []},
        {"shape": [-1], "texts": []},
        {"texts": []},
        [],
    ],
)
def test_invalid_text_is_refused(tmp_path, content):
    path = tmp_path / "run.ckpt"
    write_forged_file(path, {}, {"course": {"a": "texts"}}, as_bytes(content))
    assert "'run.ckpt' is damaged: " in error_of(path)


@pytest.mark.parametrize(
    ("parts", "array"),
    [
        ({"course": {"a": ["texts"]}}, as_bytes([])),
        ({"course": {"a": "nothing"}}, as_bytes([])),
        ({"course": {"a": "finfo"}}, as_bytes([])),
        ({"course": ["a"]}, as_bytes([])),
        (["course"], as_bytes([])),
        ({"course": {"a": "", "b": ""}}, as_bytes([])),
        ({"course": {"a": ""}}, np.zeros(2, np.longdouble)),
    ],
)
def test_contents_that_do_not_match_the_arrays(tmp_path, parts, array):
    path = tmp_path / "run.ckpt"
    write_forged_file(path, {}, parts, array)
    message = error_of(path)
    assert "the checkpoint 'run.ckpt' is damaged: " in message
    assert "object" not in message


def test_texts_that_would_be_large(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    write_forged_file(path, {}, {"course": {"a": "texts"}}, np.zeros(10**6, np.uint8))
    monkeypatch.setattr(checkpoint, "JSON_MEMORY_RATIO", 10**9)
    assert "MemoryLimitError" in error_of(path)


# --- states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"step": 2**64 - 1},
        {"step": 2**63 - 1},
        {"step": "a"},
        {"step": [1]},
        {"time": np.nan},
        {"time": "a"},
        {"parameter walk.v": np.zeros((2, 2))},
        {"parameter walk.v": np.zeros(3)},
        {"parameter walk.v": ["a", "b"]},
        {"parameter walk.v": np.zeros(2, "M8[s]")},
        {"parameter walk.v": np.zeros(2, "f8,i4")},
        {"parameter walk.v": np.zeros(2, complex)},
        {"parameter walk.x": None},
    ],
)
def test_states(compiled, tmp_path, change):
    state = {**compiled.run(steps=3).state, **change}
    with pytest.raises(InputError, match="state"):
        compiled.run(steps=3, state=state)
