"""Mutations of a scene: damaged, forged, exchanged, lost and linked files.

Files of arrays and JSON are also mutated in their structure, like incomplete, outdated or forged files.
"""

from __future__ import annotations

import dataclasses
import io
import json
import random
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.files import ARCHIVE_ERRORS
from tests.fuzz.byte_changes import mutate_bytes
from tests.fuzz.scenes import Scene
from tests.fuzz.trees import mutate_tree

OUTSIDE = "../victim"
"""Path outside of the scene, which a command must not read, write or remove."""


def mutate_scene(rng: random.Random, scene: Scene, times: int) -> Scene:
    """Return the scene after some mutations of the files that its command reads."""
    for _ in range(times):
        names = [name for name in sorted(scene.files) if not name.endswith((".yaml", ".onnx"))]
        if not names or rng.random() < 0.03:
            return scene
        scene = rng.choice(_CHANGES)(rng, scene, rng.choice(names))
    return scene


# --- files ----------------------------------------------------------------------------------------


def _replace_file(scene: Scene, name: str, content: bytes) -> Scene:
    return dataclasses.replace(scene, files={**scene.files, name: content})


def _remove_file(scene: Scene, name: str) -> Scene:
    return dataclasses.replace(
        scene, files={k: content for k, content in scene.files.items() if k != name}
    )


def _mutate_file_bytes(rng: random.Random, scene: Scene, name: str) -> Scene:
    return _replace_file(
        scene, name, mutate_bytes(rng, scene.files[name], rng.choice((1, 1, 2, 4)))
    )


def _empty_file(_: random.Random, scene: Scene, name: str) -> Scene:
    return _replace_file(scene, name, b"")


def _zero_file(_: random.Random, scene: Scene, name: str) -> Scene:
    """Replace all bytes by zeros, as some file systems do after a power loss."""
    return _replace_file(scene, name, bytes(len(scene.files[name])))


def _lose_file(_: random.Random, scene: Scene, name: str) -> Scene:
    return _remove_file(scene, name)


def _exchange_files(rng: random.Random, scene: Scene, name: str) -> Scene:
    other = rng.choice(sorted(scene.files))
    return _replace_file(_replace_file(scene, name, scene.files[other]), other, scene.files[name])


def _replace_by_folder(_: random.Random, scene: Scene, name: str) -> Scene:
    """Replace a file by a folder."""
    return _replace_file(_remove_file(scene, name), f"{name}/inside", scene.files[name])


def _replace_by_link(rng: random.Random, scene: Scene, name: str) -> Scene:
    """Replace a file or its folder by a link to another place."""
    place = rng.choice((name, name.rpartition("/")[0] or name))
    inside = {k: v for k, v in scene.files.items() if k != place and not k.startswith(f"{place}/")}
    up = "../" * place.count("/")
    links = {**scene.links, place: rng.choice((up + OUTSIDE, "nowhere", place.rpartition("/")[2]))}
    if any(k.startswith(f"{link}/") for link in links for k in (*inside, *links)):
        return scene
    return dataclasses.replace(scene, files=inside, links=links)


def _mutate_structure(rng: random.Random, scene: Scene, name: str) -> Scene:
    """Mutate the tree of a JSON file or the arrays of an archive."""
    content = scene.files[name]
    try:
        if name.endswith(".json"):
            return _replace_file(scene, name, _mutate_json(rng, content))
        if content[:2] == b"PK":
            return _replace_file(scene, name, _mutate_archive(rng, content))
    except ARCHIVE_ERRORS:  # an earlier mutation made the file invalid
        return _mutate_file_bytes(rng, scene, name)
    return _mutate_file_bytes(rng, scene, name)


def _mutate_json(rng: random.Random, content: bytes) -> bytes:
    tree = mutate_tree(rng, json.loads(content), rng.choice((1, 1, 2, 3)))
    return json.dumps(tree, default=str).encode()


def _mutate_archive(rng: random.Random, content: bytes) -> bytes:
    """Remove, duplicate or replace an entry of the archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    if not entries:
        return content
    index = rng.randrange(len(entries))
    name, entry = entries.pop(index)
    choice = rng.random()
    if choice < 0.15:
        entries.insert(index, (rng.choice((OUTSIDE, "/x.npy", "x", f"{name}x", "99.npy")), entry))
    elif choice < 0.3:
        entries += [(name, entry), (name, _random_array_file(rng, entry))]
    elif choice < 0.9:
        entries.insert(index, (name, _random_array_file(rng, entry)))
    stream = io.BytesIO()
    kind = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(stream, "w", kind) as archive:
        for name, entry in entries:
            with warnings.catch_warnings(action="ignore"):  # duplicate names
                archive.writestr(zipfile.ZipInfo(name), entry, kind)
    return stream.getvalue()


def _random_array_file(rng: random.Random, entry: bytes) -> bytes:
    """Return an `.npy` file with another dtype, shape, header or length, or with other JSON."""
    try:
        array = np.lib.format.read_array(io.BytesIO(entry), allow_pickle=False)
        if array.dtype == np.uint8 and array.ndim == 1 and rng.random() < 0.8:
            return _array_file(np.frombuffer(_mutate_json(rng, array.tobytes()), np.uint8))
        if rng.random() < 0.3:
            return _forge_header(rng, array)
        return _array_file(rng.choice(_ARRAYS)(array))
    except ARCHIVE_ERRORS:  # no array of numbers
        return mutate_bytes(rng, entry, 1)


_ARRAYS: tuple[Callable[[Any], Any], ...] = (
    lambda a: a.astype(">f8"),
    lambda a: a.astype(np.complex128),
    lambda a: a.astype(np.longdouble),
    lambda a: a.astype("U8"),
    lambda a: a.astype("datetime64[s]"),
    lambda a: a.astype(bool),
    lambda a: a.astype(np.int8),
    lambda a: np.full_like(a, np.nan, dtype=float),
    lambda a: a[:0] if a.ndim else a[None],
    lambda a: a[..., None],
    lambda a: np.repeat(a, 2, axis=0),
    lambda a: np.zeros(8_000_000),
    lambda a: np.zeros((0, 3)),
    lambda a: np.zeros((1,) * 40) if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else a,
    lambda a: np.zeros(2, "i4,f8"),
)


def _array_file(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
    return stream.getvalue()


def _forge_header(rng: random.Random, array: Any) -> bytes:
    """Return an `.npy` file whose header contradicts its data."""
    shape = rng.choice(((2**31,), (2**62, 4), (-1,), (10**30,), (3, -2), (*array.shape, 7)))
    descr = rng.choice((array.dtype.str, "|O", "<f8", "|S1000000", "<U999999999", "|V3", "x"))
    stream = io.BytesIO()
    header_fields = {"descr": descr, "fortran_order": rng.random() < 0.2, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header_fields)
    return stream.getvalue() + array.tobytes()[: rng.choice((8, 100, None))]


_CHANGES: tuple[Callable[[random.Random, Scene, str], Scene], ...] = (
    *(
        _mutate_file_bytes,
        _mutate_file_bytes,
        _mutate_structure,
        _mutate_structure,
        _mutate_structure,
        _mutate_structure,
    ),
    *(_empty_file, _zero_file, _lose_file, _exchange_files, _replace_by_folder, _replace_by_link),
)
