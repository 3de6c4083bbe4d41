r"""Errors for lone surrogates, which JSON can write (`"\ud800"`), but UTF-8 cannot encode.

Every text of a model is checked when the model is read: names, expressions, units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.document.structure import as_mapping
from mdf_loop.errors import Finding
from mdf_loop.number_check import contains_only_numbers


def surrogate_findings(content: Any) -> Iterator[Finding]:
    """Report each text that contains a lone surrogate, with its path."""
    pending_parts: list[tuple[Any, str]] = [(content, "$")]
    visited_ids: set[int] = set()
    while pending_parts:
        part, part_path = pending_parts.pop()
        if isinstance(part, str):
            if _has_lone_surrogate(part):
                yield _create_surrogate_finding(part, part_path)
            continue
        if part is None or isinstance(part, int | float):
            continue
        parts_with_steps = _find_members(part)
        if parts_with_steps and id(part) not in visited_ids:
            visited_ids.add(id(part))
            pending_parts.extend(
                (inner_part, f"{part_path}{path_step}")
                for path_step, inner_part in reversed(parts_with_steps)
            )


def _find_members(part: Any) -> list[tuple[str, Any]]:
    """Return the members of a mapping, list or modeci_mdf object, with the path step of each."""
    part = as_mapping(part)
    if isinstance(part, Mapping):
        invalid_keys = [
            ("", key) for key in part if isinstance(key, str) and _has_lone_surrogate(key)
        ]
        return [
            *invalid_keys,
            *((_format_path_step(key), inner_part) for key, inner_part in part.items()),
        ]
    if isinstance(part, np.ndarray):
        part = part.ravel().tolist() if part.dtype.kind in "OU" else []
    if isinstance(part, list | tuple) and not contains_only_numbers(part):
        return [
            (_format_path_step(getattr(inner_part, "id", k)), inner_part)
            for k, inner_part in enumerate(part)
        ]
    return []


def _format_path_step(key: Any) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"


def _has_lone_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def _create_surrogate_finding(text: str, where: str) -> Finding:
    return Finding(
        "ModelError",
        f"the text '{text}' holds half of a character (a lone surrogate), which no file can hold",
        where,
        "write the whole character; was the file cut, or written in another encoding?",
    )
