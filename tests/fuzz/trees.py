"""Mutations of a JSON tree without regard to its meaning: keys, values, types and nesting."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 100, 2**31, 2**63, 2**64, 10**30, -(2**40), 0.5, 1e300),
    *(
        float("nan"),
        float("inf"),
        "",
        "x",
        "0",
        "..",
        "../victim",
        "/etc/passwd",
        "a/b",
        "\0",
        "\x1b[1m",
    ),
    *(
        "\ud800",
        "float64",
        "float32",
        "int64",
        "bool",
        "string",
        "complex128",
        "|O",
        "gzip",
        "bytes",
        "x" * 5000,
    ),
    *(
        [],
        [0],
        [-1],
        [None],
        [[1]],
        [1, 2, 3],
        [10**12],
        [1] * 70,
        {},
        {"": None},
        {"name": "x"},
        {"../victim": {}},
    ),
    [[[[[[[[[[[[[[]]]]]]]]]]]]]],
)


def mutate_tree(rng: random.Random, tree: Any, times: int) -> Any:
    """Return the tree after some mutations."""
    tree = copy.deepcopy(tree)
    for _ in range(times):
        places = list(_places(tree))
        if not places:
            return rng.choice(VALUES)
        holder, key = rng.choice(places)
        _change_value(rng, holder, key, places)
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield container and key of every value."""
    keys: Any = ()
    if isinstance(tree, dict):
        keys = list(tree)
    elif isinstance(tree, list):
        keys = range(min(len(tree), 20))
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def _change_value(rng: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    choice = rng.random()
    if choice < 0.2:
        del holder[key]
    elif choice < 0.3 and isinstance(holder, dict):
        holder[rng.choice(("../victim", "x", "", "a/b", "..", f"{key}x", "time"))] = holder.pop(key)
    elif choice < 0.4:
        other, place = rng.choice(places)
        if isinstance(other, list) and place >= len(other):
            return
        holder[key] = copy.deepcopy(other[place])
    elif choice < 0.5 and isinstance(holder[key], int | float):
        holder[key] = rng.choice(
            (holder[key] + 1, holder[key] - 1, -holder[key], holder[key] * 1000)
        )
    elif choice < 0.55:
        holder[key] = [holder[key]]
    elif choice < 0.6:
        holder[key] = str(holder[key])
    else:
        holder[key] = copy.deepcopy(rng.choice(VALUES))
