"""Memory of freed arrays is reused, by one array at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from mdf_loop import memory_limit, used_memory
from mdf_loop.errors import MemoryLimitError
from mdf_loop.memory_limit import check, limited
from mdf_loop.run.recording.rows import Rows

FLOATS = np.dtype("float64")
LARGE = (1000, 300)


@pytest.fixture(autouse=True)
def empty_pool() -> Iterator[None]:
    used_memory.free_pool()
    yield
    used_memory.free_pool()


def address(array: np.ndarray) -> int:
    """Return the address of an array."""
    return int(array.__array_interface__["data"][0])


def test_memory_of_a_freed_array_is_reused() -> None:
    first = used_memory.pooled_array(LARGE, FLOATS)
    first[...] = 1.0
    assert (first.shape, first.dtype, address(first) % 64) == (LARGE, FLOATS, 0)
    first_address = address(first)
    del first
    again = used_memory.pooled_array((299, 1000), FLOATS)
    assert address(again) == first_address
    again[...] = 2.0


def test_a_view_keeps_the_memory_of_its_array() -> None:
    row = used_memory.pooled_array(LARGE, FLOATS)[17:18, ::2]
    row[...] = 3.0
    others = [used_memory.pooled_array(LARGE, FLOATS) for _ in range(3)]
    for other in others:
        other[...] = 0.0
        assert not np.shares_memory(other, row)
    assert (row == 3.0).all()


def test_small_arrays_and_objects_own_their_memory() -> None:
    assert used_memory.pooled_array((3,), FLOATS).flags.owndata
    assert used_memory.pooled_array((1 << 20,), np.dtype(object)).flags.owndata
    assert used_memory.pooled_array((0, 5), FLOATS).shape == (0, 5)


def test_memory_of_another_size_is_released() -> None:
    for factor in (1, 3, 1):
        used_memory.pooled_array((factor * LARGE[0], LARGE[1]), FLOATS)
        assert [round(m.nbytes / 8 / 300_000) for m in used_memory._POOL] == [factor]


def test_the_pool_has_a_maximum_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(used_memory, "MAX_POOL_BYTES", 5_000_000)
    arrays = [used_memory.pooled_array(LARGE, FLOATS) for _ in range(4)]
    assert not used_memory._POOL
    arrays.clear()
    assert len(used_memory._POOL) == 2


def test_the_pool_is_released_before_a_request_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        memory_limit, "resident_bytes", lambda: 500 + sum(m.nbytes for m in used_memory._POOL)
    )
    used_memory.pooled_array(LARGE, FLOATS)
    with limited(1000):
        check(400, "it")
        assert not used_memory._POOL
        with pytest.raises(MemoryLimitError, match="of which 500 B are in use"):
            check(600, "it")


def test_threads_do_not_share_memory() -> None:
    overwritten_by = []

    def work(number: int) -> None:
        for _ in range(50):
            array = used_memory.pooled_array((200, 1000), FLOATS)
            array[...] = number
            if not (array == number).all():
                overwritten_by.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not overwritten_by


def test_fewer_rows_than_expected_are_copied() -> None:
    buffer = Rows(expected=1000)
    buffer.add(range(2), {"a": np.arange(600.0).reshape(2, 300)})
    buffer.close()
    rows = buffer.arrays()["a"]
    assert rows.base is None or rows.base.nbytes == rows.nbytes
    np.testing.assert_array_equal(rows, np.arange(600.0).reshape(2, 300))


def test_more_rows_than_expected_are_recorded() -> None:
    buffer = Rows(expected=1000)
    all_rows = np.arange(450_000.0).reshape(1500, 300)
    buffer.add(range(900), {"a": all_rows[:900]})
    buffer.add(range(600), {"a": all_rows[900:]})
    buffer.close()
    np.testing.assert_array_equal(buffer.arrays()["a"], all_rows)


def test_padding_of_ragged_rows_stays_missing() -> None:
    buffer = Rows()
    parts = [np.arange(float(n))[np.newaxis] for n in range(300)]
    for part in parts:
        buffer.add(range(1), {"a": part})
        used_memory.pooled_array((300, 300), FLOATS)[...] = 7.0
    rows = buffer.arrays()["a"]
    assert [int(np.isfinite(row).sum()) for row in rows] == list(range(300))
