"""Mutations of bytes without regard to their meaning: flips, cuts, insertions, copies, other numbers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

NUMBERS = (
    *(b"0 1 -1 2 3 7 100 255 65536 2147483647 2147483648 -2147483648 4294967296").split(),
    *(b"9223372036854775807 9223372036854775808 -9223372036854775808 18446744073709551616").split(),
    *(b"1e308 1e400 -1e400 5e-324 nan inf -inf .nan .inf 0.5 -0.0 1_000 0x10 010 1e5 1e").split(),
    b"9" * 400,
)
_WORD = re.compile(rb"[A-Za-z_][\w.:]*")
_NUMBER = re.compile(rb"-?\d+(\.\d+)?(e[+-]?\d+)?")
_EXTREMES = (0, 1, 0x7F, 0x80, 0xFF)


def mutate_bytes(rng: random.Random, content: bytes, times: int) -> bytes:
    """Return the content after some mutations."""
    for _ in range(times):
        content = rng.choice(_CHANGES)(rng, content) if content else rng.randbytes(8)
    return content


def _random_range(rng: random.Random, content: bytes) -> tuple[int, int]:
    start = rng.randrange(len(content))
    return start, min(len(content), start + rng.choice((1, 2, 4, 8, 16, 64, 256, 1024)))


def _flip_bit(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite_bytes(rng: random.Random, content: bytes) -> bytes:
    start, end = _random_range(rng, content)
    filled = bytes([rng.choice(_EXTREMES)]) * (end - start)
    return content[:start] + rng.choice((filled, rng.randbytes(end - start))) + content[end:]


def _remove_bytes(rng: random.Random, content: bytes) -> bytes:
    start, end = _random_range(rng, content)
    return content[:start] + content[end:]


def _insert_bytes(rng: random.Random, content: bytes) -> bytes:
    index = rng.randrange(len(content) + 1)
    return content[:index] + rng.randbytes(rng.choice((1, 2, 8, 64))) + content[index:]


def _duplicate_bytes(rng: random.Random, content: bytes) -> bytes:
    start, end = _random_range(rng, content)
    index = rng.choice((end, rng.randrange(len(content) + 1)))
    return content[:index] + content[start:end] * rng.choice((1, 1, 2, 20)) + content[index:]


def _truncate(rng: random.Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content))]


def _replace_match(
    rng: random.Random, content: bytes, pattern: re.Pattern[bytes], replacement: bytes
) -> bytes:
    places = list(pattern.finditer(content))
    if not places:
        return _flip_bit(rng, content)
    index = rng.choice(places)
    return content[: index.start()] + replacement + content[index.end() :]


def _replace_number(rng: random.Random, content: bytes) -> bytes:
    return _replace_match(rng, content, _NUMBER, rng.choice(NUMBERS))


def _replace_word(rng: random.Random, content: bytes) -> bytes:
    words = _WORD.findall(content)
    return _replace_match(rng, content, _WORD, rng.choice(words) if words else b"")


def _change_line(rng: random.Random, content: bytes) -> bytes:
    """Remove, duplicate or move a line."""
    lines = content.split(b"\n")
    line = lines.pop(rng.randrange(len(lines)))
    for _ in range(rng.choice((0, 1, 2))):
        lines.insert(rng.randrange(len(lines) + 1), line)
    return b"\n".join(lines)


_CHANGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(_flip_bit, _overwrite_bytes, _remove_bytes, _insert_bytes, _duplicate_bytes, _truncate),
    *(_replace_number, _replace_number, _replace_word, _replace_word, _change_line),
)
