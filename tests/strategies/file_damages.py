"""Damages of each file of a folder: empty, truncated, bit flipped, deleted, swapped with another file."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any


def damages(store: Path, rng: random.Random) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield ways to damage each file of a store."""
    files = sorted(file for file in store.rglob("*") if file.is_file())
    for file in files:
        content = file.read_bytes()
        at, other = rng.randrange(len(content)), rng.choice(files)
        flipped = content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
        yield f"{file} emptied", partial(file.write_bytes, b"")
        yield f"{file} cut", partial(file.write_bytes, content[: len(content) // 2])
        yield f"{file} flipped at {at}", partial(file.write_bytes, flipped)
        yield f"{file} gone", file.unlink
        yield f"{file} swapped with {other}", partial(swap, file, other)


def swap(one: Path, other: Path) -> None:
    """Swap two files."""
    contents = one.read_bytes(), other.read_bytes()
    other.write_bytes(contents[0])
    one.write_bytes(contents[1])
