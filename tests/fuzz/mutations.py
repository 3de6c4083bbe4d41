"""Map a seed number to a mutated model or scene, reproducibly.

A valid model or scene is mutated one to five times: in its structure, in its bytes, or in both.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

from tests.fuzz import onnx_changes, scene_changes, word_changes, xml_changes, yaml_changes
from tests.fuzz.byte_changes import mutate_bytes
from tests.fuzz.scenes import SCENES, Scene, scenes
from tests.fuzz.seeds import READERS, Files, corpus

STRUCTURES: dict[str, Callable[[random.Random, Files, int], Files]] = {
    "mdf": yaml_changes.mutate_document,
    "onnx": onnx_changes.mutate_onnx,
    "ir": xml_changes.mutate_ir,
}


TARGETS = (*READERS, *SCENES)
"""Fuzzing targets: readers of models, and commands that read other files."""

_TIMES = (1, 1, 1, 1, 2, 2, 3, 5)


def mutate_scene_of_seed(target: str, seed: int) -> Scene:
    """Return the mutated scene of a seed."""
    rng = random.Random(f"{target} {seed}")
    scene = rng.choice(scenes(target))()
    if target == "command":
        return word_changes.mutate_words(rng, scene, rng.choice((1, 1, 1, 2, 3)))
    return scene_changes.mutate_scene(rng, scene, rng.choice(_TIMES))


def mutate_model(reader: str, seed: int, stored: bool = False) -> Files:
    """Return the mutated model of a seed; `stored` also selects models next to the checkout."""
    rng = random.Random(f"{reader} {seed}")
    files = rng.choice(corpus(reader, stored))()
    choice = rng.random()
    if choice < 0.9:
        files = STRUCTURES[reader](rng, files, rng.choice(_TIMES))
    if choice < 0.85:
        return files
    return _mutate_bytes_of_files(rng, files)


def _mutate_bytes_of_files(rng: random.Random, files: Files) -> Files:
    """Mutate the bytes of the model, or sometimes of a file next to it."""
    times = rng.choice((1, 1, 2, 4))
    name = rng.choice(sorted(files.beside)) if files.beside and rng.random() < 0.3 else None
    if name is None:
        content = mutate_bytes(rng, files.content, times)
        return dataclasses.replace(files, content=content)
    beside = {**files.beside, name: mutate_bytes(rng, files.beside[name], times)}
    if rng.random() < 0.2:
        del beside[name]
    return dataclasses.replace(files, beside=beside)
