"""Memory limits: sizes as text, the default limit, and the memory of the process and its container."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

from mdf_loop import memory_limit
from mdf_loop.errors import InputError, MemoryLimitError
from mdf_loop.memory_limit import (
    as_text,
    check,
    checked_limit,
    limit,
    limited,
    read_machine_memory,
    resident_bytes,
)


@pytest.mark.parametrize(
    ("limit", "size"),
    [
        (None, None),
        ("4GB", 4 * 10**9),
        ("512MiB", 512 << 20),
        (" 1.5 g ", 1_500_000_000),
        (".5kb", 500),
        ("100", 100),
        ("7B", 7),
        ("2TiB", 2 << 40),
        (5e9, 5 * 10**9),
        (np.int64(1024), 1024),
    ],
)
def test_accepted_limits(limit: object, size: int | None) -> None:
    assert checked_limit(limit) == size


@pytest.mark.parametrize(
    "limit",
    ["", "GB", "-3", "4 parsecs", "1e9", "nan", "٣GB", float("nan"), float("inf"), True, [], 0, -1],
)
def test_invalid_limits_are_refused(limit: object) -> None:
    with pytest.raises(InputError, match="the memory limit is"):
        checked_limit(limit)


@pytest.mark.parametrize(
    ("size", "text"),
    [(7, "7 B"), (1500, "1.5 kB"), (3.2e6, "3.2 MB"), (4e9, "4 GB"), (281.5e12, "282 TB")],
)
def test_sizes_as_text(size: float, text: str) -> None:
    assert as_text(size) == text


def test_a_limit_applies_inside_its_context() -> None:
    default = limit()
    with limited(10**12):
        assert limit() == 10**12
        with limited(None):
            assert limit() == 10**12
        check(10**9, "a thing")
        with pytest.raises(MemoryLimitError, match="a thing would take 1 TB of memory"):
            check(10**12, "a thing", "$.there")
    assert limit() == default


def test_resident_memory_of_the_process() -> None:
    gc.collect()
    memory_before = resident_bytes()
    block = np.ones(2 * 10**7)
    assert 1.2e8 < resident_bytes() - memory_before < 2e8
    del block


def write_system_files(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_memory_of_a_container(tmp_path: Path) -> None:
    machine = read_machine_memory(tmp_path)
    assert machine > 10**8
    for name, content, expected in (
        ("max", "max\n", machine),
        ("group", "500000000\n", 500_000_000),
        ("unbounded", f"{2**63 - 4096}\n", machine),
    ):
        root = tmp_path / name
        write_system_files(
            root, proc__self__cgroup="0::/a/b\n", sys__fs__cgroup__a__memory_dot_max=content
        )
        assert read_machine_memory(root) == expected
    older = write_system_files(
        tmp_path / "older",
        proc__self__cgroup="4:memory:/a/b\n3:cpu,cpuacct:/\n0::/\n",
    )
    folder = older / "sys/fs/cgroup/memory"
    (folder / "a/b").mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text("900000000")
    (folder / "a/b/memory.limit_in_bytes").write_text("700000000")
    assert read_machine_memory(older) == 700_000_000
    (folder / "a/b/memory.limit_in_bytes").unlink()
    assert read_machine_memory(older) == 900_000_000


def test_the_default_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for memory, expected in ((8 * 10**9, 6 * 10**9), (10**8, 10**9)):
        memory_limit.default_limit.cache_clear()
        monkeypatch.setattr(memory_limit, "read_machine_memory", lambda root, memory=memory: memory)
        assert memory_limit.default_limit() == expected
    memory_limit.default_limit.cache_clear()
