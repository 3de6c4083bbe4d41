"""Reductions over the rows of a run equal NumPy's reductions over the whole trace, for any blocks."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from mdf_loop.archives import read_arrays
from mdf_loop.errors import InputError, LoopError, OperandError
from mdf_loop.files import write_arrays
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.recording.reductions import Reductions
from mdf_loop.run.recording.statistics import reductions_over_time

CHOSEN = ("min", "max", "last")
NUMPY = {
    "mean": np.mean,
    "sum": np.sum,
    "min": np.min,
    "max": np.max,
    "last": lambda rows, axis: rows[-1],
}
DTYPES = (
    *("float64", "float32", "float16", ml_dtypes.bfloat16),
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint64"),
)
MANY = 4097
SHAPES = ((), (1,), (3,), (2, 3), (7, 100), (MANY,), (0,))

REDUCTIONS = reductions_over_time()


def random_rows(seed, dtype, shape=(), length=9000, odd=False):
    """Draw rows of large and small numbers; with `odd` also nan, inf and zeros of both signs."""
    draw = np.random.default_rng(seed)
    length = max(5, min(length, 200_000 // max(1, math.prod(shape))))
    rows = draw.normal(size=(length, *shape)) * 10.0 ** draw.integers(-2, 3, size=(length, *shape))
    if np.dtype(dtype).kind in "biu":
        return (np.abs(rows) % 100).astype(dtype)
    if odd:
        places = draw.integers(0, rows.size, size=6)
        rows.reshape(-1)[places] = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0)
    return rows.astype(dtype)


def split_randomly(rows, seed, segments=12):
    """Split the rows into blocks, some of them empty."""
    places = np.sort(np.random.default_rng(seed).integers(0, len(rows) + 1, size=segments))
    return [rows[a:b] for a, b in pairwise([0, *places, len(rows)])]


def reduce_blocks(word, blocks):
    reduction = REDUCTIONS[word]()
    for block in blocks:
        reduction.add(block)
    return reduction.value()


def same_bits(left, right):
    assert (left.dtype, left.shape) == (right.dtype, right.shape)
    assert left.tobytes() == right.tobytes()


def concatenate(parts):
    """Concatenate the parts in their common dtype."""
    return np.concatenate(parts)


# --- as numpy on the whole trace ------------------------------------------------------------------


@pytest.mark.parametrize("word", CHOSEN)
@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_chosen_values_are_numpys(dtype, odd, word):
    for shape in SHAPES:
        rows = random_rows(1, dtype, shape, odd=odd and shape != (0,))
        actual = reduce_blocks(word, split_randomly(rows, 2))
        with np.errstate(invalid="ignore"):
            expected = np.asarray(NUMPY[word](rows, axis=0))
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(actual.astype(float), expected.astype(float))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_the_mean_is_that_of_exact_sums(dtype):
    for shape in SHAPES:
        rows = random_rows(3, dtype, shape)
        actual = reduce_blocks("mean", split_randomly(rows, 4))
        is_float = rows.dtype.kind not in "biu"
        assert actual.dtype == (rows.dtype if is_float else np.float64)
        assert actual.shape == shape
        columns = rows.reshape(len(rows), -1).astype(float).T[:50]
        for column, mean in zip(columns, actual.reshape(-1)[:50], strict=True):
            exact = math.fsum(column) / len(rows)
            assert abs(exact - float(mean)) <= tolerance(column, exact, actual.dtype)


def tolerance(column, exact, dtype):
    """Return the tolerance: half an ulp of the dtype, plus the rounding of 12 additions."""
    return abs(exact) * float(ml_dtypes.finfo(dtype).eps) + 12 * 1.2e-16 * np.abs(column).mean()


def test_the_mean_keeps_what_rounding_loses():
    rows = np.full(1 << 20, 0.1)
    rows[0], rows[-1] = 1e16, -1e16
    exact = math.fsum(rows) / len(rows)
    # The tolerance allows for the rounding of block sums in these two dtypes.
    assert abs(reduce_blocks("mean", split_randomly(rows, 5)) - exact) < 1e-2
    assert reduce_blocks("mean", [np.full(3_000_000, 0.1)]) == 0.1


@pytest.mark.parametrize(
    "special",
    [
        [np.nan],
        [np.inf],
        [-np.inf],
        [np.inf, np.inf],
        [np.inf, -np.inf],
        [np.inf, np.nan],
        [1.7e308] * 2,
        [-1.7e308] * 3,
    ],
)
@pytest.mark.parametrize("places", [0, 4095, 4096, 9000])
def test_a_mean_that_is_not_finite_is_numpys(special, places):
    rows = np.ones(10_000)
    rows[places : places + len(special)] = special
    with np.errstate(all="ignore"):
        expected = np.mean(rows)
    np.testing.assert_equal(float(reduce_blocks("mean", split_randomly(rows, 6))), float(expected))


def test_a_mean_is_not_finite_only_where_its_rows_are_not():
    rows = np.ones((100, 3))
    rows[7, 1] = np.inf
    assert reduce_blocks("mean", [rows]).tolist() == [1.0, np.inf, 1.0]


def test_half_floats_add_up_beyond_their_range():
    assert reduce_blocks("mean", [np.full(1000, 6e4, np.float16)]) == np.float16(6e4)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_the_sum_is_the_mean_times_the_count(dtype):
    rows = random_rows(4, dtype, (7,))
    actual = reduce_blocks("sum", split_randomly(rows, 5))
    widened = rows.astype(float)
    is_float = rows.dtype.kind not in "biu"
    expected = [math.fsum(column) for column in widened.T]
    assert actual.dtype == (rows.dtype if is_float else np.float64)
    np.testing.assert_allclose(
        actual.astype(float), np.array(expected).astype(actual.dtype).astype(float), rtol=1e-14
    )


def test_the_sum_of_booleans_is_a_count():
    spikes = np.random.default_rng(0).random((5000, 3)) < 0.01
    assert reduce_blocks("sum", split_randomly(spikes, 6)).tolist() == spikes.sum(axis=0).tolist()


# --- independent of blocks ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("word", list(REDUCTIONS))
@pytest.mark.parametrize("shape", SHAPES)
def test_cuts_change_no_bit(word, shape):
    for dtype in ("float64", "float32", "int64"):
        rows = random_rows(7, dtype, shape, odd=shape not in ((), (0,)))
        unsplit_reduction = reduce_blocks(word, [rows])
        for seed in range(8):
            same_bits(reduce_blocks(word, split_randomly(rows, seed)), unsplit_reduction)
        same_bits(
            reduce_blocks(word, [rows[k : k + 1] for k in range(len(rows))]), unsplit_reduction
        )


@pytest.mark.parametrize("word", ["min", "max"])
def test_zeros_and_nans_have_no_sign(word):
    for pair in ([0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0], [np.nan, -np.nan], [-np.nan, np.nan]):
        actual = reduce_blocks(word, [np.array(pair)])
        assert not np.signbit(actual)


@pytest.mark.parametrize("word", list(REDUCTIONS))
def test_memory_order_changes_no_bit(word):
    rows = random_rows(8, "float64", (3, 5))
    same_bits(reduce_blocks(word, [np.asfortranarray(rows)]), reduce_blocks(word, [rows]))
    same_bits(reduce_blocks(word, [np.repeat(rows, 2, 0)[::2]]), reduce_blocks(word, [rows]))


@pytest.mark.parametrize("word", list(REDUCTIONS))
def test_other_elements_of_a_row_change_no_bit(word):
    rows = random_rows(11, "float64", (40,), length=5000)
    unsplit_reduction = reduce_blocks(word, [rows])
    for first, last in ((0, 1), (3, 8), (8, 40)):
        same_bits(reduce_blocks(word, [rows[:, first:last]]), unsplit_reduction[first:last])


@pytest.mark.parametrize("word", list(REDUCTIONS))
@pytest.mark.parametrize("dtype", ["float64", "float16", ml_dtypes.bfloat16, "bool", "uint64"])
def test_a_restored_snapshot_equals_the_unbroken_reduction(word, dtype, tmp_path):
    for shape in ((), (2, 3), (MANY,)):
        rows = random_rows(9, dtype, shape, odd=True)
        unsplit_reduction = reduce_blocks(word, [rows])
        reduction = REDUCTIONS[word]()
        for k, block in enumerate(split_randomly(rows, 10, segments=4)):
            path = tmp_path / f"{k}.npz"
            with path.open("wb") as stream:
                write_arrays(stream, reduction.snapshot())
            reduction.value()
            reduction = REDUCTIONS[word]()
            reduction.restore(Snapshot(read_arrays(path)))
            reduction.add(block)
        same_bits(reduction.value(), unsplit_reduction)


@pytest.mark.parametrize("word", list(REDUCTIONS))
def test_a_snapshot_does_not_change_afterwards(word):
    rows = random_rows(11, "float64", (2,))
    reduction = REDUCTIONS[word]()
    reduction.add(rows[:100])
    parts = reduction.snapshot()
    before = {name: part.copy() for name, part in parts.items()}
    reduction.add(rows[100:])
    for name, part in parts.items():
        np.testing.assert_array_equal(part, before[name])


# --- types that change ----------------------------------------------------------------------------

TYPES = [
    ("int64", "float64"),
    ("int64", "float32"),
    ("bool", "int8"),
    ("float64", "int64"),
    ("int8", "float16"),
    ("int8", "uint8"),
    ("uint64", "int64"),
    ("float16", "float32"),
    (ml_dtypes.bfloat16, "float32"),
    ("bool", ml_dtypes.bfloat16),
]


@pytest.mark.parametrize("word", list(REDUCTIONS))
@pytest.mark.parametrize(("first", "later"), TYPES)
def test_a_changing_dtype_is_the_common_dtype_of_the_trace(word, first, later):
    for length in (1, 5000):
        parts = [random_rows(12, first)[:length], random_rows(13, later)]
        for ordered in (parts, parts[::-1]):
            whole = concatenate(ordered)
            actual = reduce_blocks(word, ordered)
            same_bits(actual, reduce_blocks(word, [whole]))
            if word in CHOSEN:
                expected = np.asarray(NUMPY[word](whole, axis=0))
                assert actual.dtype == expected.dtype
                assert float(actual) == float(expected)


@pytest.mark.parametrize("word", list(REDUCTIONS))
def test_large_whole_numbers_become_floats_once(word):
    big = 2**62 + 2**8 + 1
    parts = [np.array([big - 3, big]), np.array([1.0, float(2**62)])]
    expected = np.asarray(NUMPY[word](concatenate(parts), axis=0))
    same_bits(reduce_blocks(word, parts), expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_of_different_lengths_have_only_a_last_one(axis):
    def of(*shape):
        return {"A.x": np.ones((*(2,) * axis, *shape))}

    reductions = Reductions({"A.x": [word for word in REDUCTIONS if word != "last"]})
    reductions.add(of(5, 3), axis)
    reductions.add(of(0, 1), axis)  # no rows
    with pytest.raises(InputError) as caught:
        reductions.add(of(1, 1), axis)
    sentence = "'A.x' has not the same length in all steps, so its rows have no "
    assert [f.what.partition(sentence)[2] for f in caught.value.findings] == [
        "mean",
        "sum",
        "min",
        "max",
    ]
    last = Reductions({"A.x": ["last"]})
    for part in (of(5, 3), of(1, 1), of(0, 7)):
        last.add(part, axis)
    assert last.arrays()["A.x.last"].shape == (*(2,) * axis, 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("word", list(REDUCTIONS))
def test_rows_that_are_not_finite_give_no_warnings(word):
    parts = [np.full((1, 3), np.inf), np.array([[-np.inf, np.nan, 1.0]]), np.full((9, 3), 1.7e308)]
    actual = reduce_blocks(word, parts)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(actual, NUMPY[word](concatenate(parts), axis=0))


@pytest.mark.parametrize("word", list(REDUCTIONS))
def test_empty_blocks_have_a_part_in_the_type(word):
    parts = [np.arange(5), np.zeros(0)]
    actual = reduce_blocks(word, parts)
    assert actual.dtype == np.float64
    np.testing.assert_array_equal(actual, NUMPY[word](concatenate(parts), axis=0))


def test_dtypes_without_a_common_one_are_refused():
    reduction = REDUCTIONS["last"]()
    reduction.add(np.arange(3))
    with pytest.raises(OperandError, match="no common dtype of int64 and string"):
        reduction.add(np.array(["a"], object))


# --- no rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", list(REDUCTIONS))
@pytest.mark.parametrize(("dtype", "is_nan"), [("float32", "float32"), ("int64", "float64")])
def test_without_rows_there_is_nan(word, dtype, is_nan):
    same_bits(reduce_blocks(word, [np.zeros((0, 2), dtype)]), np.full(2, np.nan, is_nan))


def test_the_last_of_no_texts_is_omitted():
    reductions = Reductions({"A.x": ("last",), "B.y": ("mean",)})
    assert reductions.arrays() == {}
    reductions.add({"A.x": np.zeros(0, object), "B.y": np.zeros(0)}, 0)
    assert list(reductions.arrays()) == ["B.y.mean"]


# --- reductions of a run --------------------------------------------------------------------------

ASKED = {"A.x": ("mean", "max"), "B.y": ("last",)}


def test_names_are_those_of_outputs_and_words():
    reductions = Reductions(ASKED)
    reductions.add({"A.x": np.arange(6.0), "B.y": np.eye(6), "C.z": np.arange(6)}, 0)
    arrays = reductions.arrays()
    assert list(arrays) == ["A.x.mean", "A.x.max", "B.y.last"]
    assert arrays["A.x.mean"] == 2.5
    assert arrays["A.x.max"] == 5.0
    assert arrays["B.y.last"].tolist() == [0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("own", [[(), ()], [(3,), (3,)], [(3, 4), (3, 4)]])
def test_members_of_a_sweep_are_reduced_one_by_one(own):
    """Check each member against its own reduction, also three members with rows of three."""
    words = {"A.x": tuple(REDUCTIONS)}
    parts = [
        np.stack([random_rows(20 + m, "float64", shape)[:5000] for m in range(4)]) for shape in own
    ]
    swept = Reductions(words)
    for part in parts:
        for k in range(0, 5000, 700):
            swept.add({"A.x": part[:, k : k + 700]}, 1)
    for member in range(4):
        alone = Reductions(words)
        for part in parts:
            alone.add({"A.x": part[member]}, 0)
        for name, array in alone.arrays().items():
            actual = swept.arrays()[name][member]
            assert actual.shape == array.shape
            np.testing.assert_allclose(actual, array, rtol=0, atol=1e-12 if "mean" in name else 0)


def test_cuts_of_a_sweep_change_no_bit():
    rows = np.ascontiguousarray(np.moveaxis(random_rows(25, "float64", (4, 3)), 0, 1))
    whole = Reductions({"A.x": tuple(REDUCTIONS)})
    whole.add({"A.x": rows}, 1)
    for seed in range(5):
        in_blocks = Reductions({"A.x": tuple(REDUCTIONS)})
        for block in split_randomly(rows.swapaxes(0, 1), seed):
            in_blocks.add({"A.x": block.swapaxes(0, 1)}, 1)
        for name, array in in_blocks.arrays().items():
            assert array.shape == (4, 3)
            same_bits(array, whole.arrays()[name])


@pytest.mark.parametrize("axis", [0, 1])
def test_snapshots_of_all_go_through_files(axis, tmp_path):
    rows = {"A.x": random_rows(30, "float32", (5,)), "B.y": random_rows(31, "int64", (5,))}
    rows = {n: np.moveaxis(a, 0, axis) for n, a in rows.items()}
    front = (slice(None),) * axis
    whole = Reductions(ASKED)
    whole.add(rows, axis)
    first = Reductions(ASKED)
    first.add({n: a[(*front, slice(0, 777))] for n, a in rows.items()}, axis)
    with (tmp_path / "a.npz").open("wb") as stream:
        write_arrays(stream, first.snapshot())
    second = Reductions(ASKED)
    second.restore(Snapshot(read_arrays(tmp_path / "a.npz")))
    for name, array in second.arrays().items():
        same_bits(array, first.arrays()[name])
    second.add({n: a[(*front, slice(777, None))] for n, a in rows.items()}, axis)
    assert list(second.arrays()) == list(whole.arrays())
    for name, array in second.arrays().items():
        same_bits(array, whole.arrays()[name])


def test_a_snapshot_before_the_first_row():
    fresh = Reductions(ASKED)
    fresh.restore(Snapshot(Reductions(ASKED).snapshot()))
    assert fresh.arrays() == {}
    fresh.add({"A.x": np.arange(3), "B.y": np.arange(3)}, 0)
    assert fresh.arrays()["A.x.max"] == 2


def test_the_last_of_texts(tmp_path):
    reductions = Reductions({"A.x": ("last",)})
    reductions.add({"A.x": np.array([["a", "b"], ["\u00e4\u00df", ""]], object)}, 0)
    with (tmp_path / "a.npz").open("wb") as stream:
        write_arrays(stream, reductions.snapshot())
    restored = Reductions({"A.x": ("last",)})
    restored.restore(Snapshot(read_arrays(tmp_path / "a.npz")))
    for each in (reductions, restored):
        (last,) = each.arrays().values()
        assert last.dtype == object
        assert json.dumps(last.tolist()) == json.dumps(["\u00e4\u00df", ""])


# --- refused --------------------------------------------------------------------------------------


def test_unknown_words_are_all_named():
    with pytest.raises(InputError) as caught:
        Reductions({"A.x": ("mean", "median"), "B.y": ("var",)})
    assert "'A.x' cannot be reduced to 'median'" in str(caught.value)
    assert "'B.y' cannot be reduced to 'var'" in str(caught.value)
    assert "hint: the words are mean, sum, last, min, max" in str(caught.value)


def test_texts_have_no_mean():
    reductions = Reductions({"A.x": ("last", "mean", "max")})
    with pytest.raises(LoopError) as caught:
        reductions.add({"A.x": np.array(["a"], object)}, 0)
    assert isinstance(caught.value, InputError)
    assert "'A.x' is string, which has no mean" in str(caught.value)
    assert "'A.x' is string, which has no max" in str(caught.value)
    assert "hint: reduce it to its last value: {'A.x': 'last'}" in str(caught.value)


def test_other_reductions_than_those_of_the_checkpoint_are_refused():
    first = Reductions({"A.x": ("mean",)})
    first.add({"A.x": np.arange(3)}, 0)
    with pytest.raises(InputError, match=r"did not have 'A\.x\.max'"):
        Reductions({"A.x": ("mean", "max")}).restore(Snapshot(first.snapshot()))
