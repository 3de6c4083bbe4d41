"""Parser of MDF files (JSON, YAML, BSON) that refuses duplicate keys."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from mdf_loop.document.yaml_text import duplicate_key_error, read_yaml

MDF_SUFFIXES = (".json", ".yaml", ".yml", ".bson")
"""Suffixes of MDF files."""


def parse(path: Path) -> Any:
    """Parse a JSON, YAML or BSON file to plain content, and refuse duplicate keys."""
    if path.suffix.lower() == ".bson":
        import bson

        return bson.decode(path.read_bytes())
    with path.open(encoding="utf-8") as file:
        if path.suffix.lower() == ".json":
            return json.load(file, object_pairs_hook=_build_dict_with_unique_keys)
        return read_yaml(file)


def _build_dict_with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise duplicate_key_error(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return mapping
