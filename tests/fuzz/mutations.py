"""Seed number -> one broken model, or one broken scene; the same number always makes the same.

One of the sound ones is taken and changed one to five times: in its structure, in its bytes, or both.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

from tests.fuzz import onnx_changes, scene_changes, word_changes, xml_changes, yaml_changes
from tests.fuzz.byte_changes import changed_bytes
from tests.fuzz.scenes import SCENES, Scene, scenes
from tests.fuzz.seeds import READERS, Files, corpus

STRUCTURES: dict[str, Callable[[random.Random, Files, int], Files]] = {
    "mdf": yaml_changes.changed,
    "onnx": onnx_changes.changed,
    "ir": xml_changes.changed,
}


TARGETS = (*READERS, *SCENES)
"""What is fuzzed: the readers of models, and what commands read beside a model."""

_TIMES = (1, 1, 1, 1, 2, 2, 3, 5)


def mutated_scene(target: str, seed: int) -> Scene:
    """The scene of a seed number."""
    rng = random.Random(f"{target} {seed}")
    scene = rng.choice(scenes(target))()
    if target == "command":
        return word_changes.changed(rng, scene, rng.choice((1, 1, 1, 2, 3)))
    return scene_changes.changed(rng, scene, rng.choice(_TIMES))


def mutated(reader: str, seed: int, stored: bool = False) -> Files:
    """The files of a seed number, made of the models in the checkout (`stored`: and beside it)."""
    rng = random.Random(f"{reader} {seed}")
    files = rng.choice(corpus(reader, stored))()
    way = rng.random()
    if way < 0.9:
        files = STRUCTURES[reader](rng, files, rng.choice(_TIMES))
    if way < 0.85:
        return files
    return _changed_bytes(rng, files)


def _changed_bytes(rng: random.Random, files: Files) -> Files:
    """The model itself, or now and then a file beside it, with other bytes."""
    times = rng.choice((1, 1, 2, 4))
    name = rng.choice(sorted(files.beside)) if files.beside and rng.random() < 0.3 else None
    if name is None:
        content = changed_bytes(rng, files.content, times)
        return dataclasses.replace(files, content=content)
    beside = {**files.beside, name: changed_bytes(rng, files.beside[name], times)}
    if rng.random() < 0.2:
        del beside[name]
    return dataclasses.replace(files, beside=beside)
