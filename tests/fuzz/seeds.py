"""Valid models of three formats as starting points of the fuzzing, created on demand.

- YAML: the examples, the demo, `models/`, and imported ONNX models.
- ONNX: the texts of `onnx_texts`, and the compiled YAML models.
- IR: `models/` and the models of the importer's tests.

Stored cases next to the checkout are added only on request, so that CI is the same everywhere.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx

import mdf_loop
from mdf_loop.importing import read_foreign
from mdf_loop.importing.writing import write_model
from tests.fuzz.onnx_texts import TEXTS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DRAWN = ROOT / "tests" / "drawing" / "models"
CASES = ROOT.parent / "shared" / "cases"

READERS = {"mdf": ".yaml", "onnx": ".onnx", "ir": ".xml"}
"""Suffixes of model files by reader; the readers include each importer."""


@dataclass(frozen=True)
class Files:
    """Files of a model: the content of `model<suffix>`, and the files next to it by name."""

    suffix: str
    content: bytes
    beside: Mapping[str, bytes] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write all files and return the path of the model."""
        for name, content in self.beside.items():
            (folder / name).write_bytes(content)
        path = folder / f"model{self.suffix}"
        path.write_bytes(self.content)
        return path


Seed = Callable[[], Files]


@functools.cache
def corpus(reader: str, stored: bool = False) -> tuple[Seed, ...]:
    """Return the seeds of a reader in a fixed order."""
    paths, generated = {
        "mdf": (_mdf_paths, _imported_models),
        "onnx": (_no_paths, _exported_models),
        "ir": (_ir_paths, list),
    }[reader]
    seeds = [*(functools.partial(_from_path, path) for path in paths()), *generated()]
    if stored:
        stored_paths = (
            p for p in sorted(CASES.glob(f"*/*{READERS[reader]}")) if p.stat().st_size < 100_000
        )
        seeds += [functools.partial(_from_path, path) for path in stored_paths]
    return tuple(functools.cache(seed) for seed in seeds)


def _from_path(path: Path) -> Files:
    beside = path.with_suffix(".bin")
    files = {"model.bin": beside.read_bytes()} if beside.exists() else {}
    return Files(path.suffix, path.read_bytes(), files)


def _no_paths() -> list[Path]:
    return []


def _mdf_paths() -> list[Path]:
    folders = (ROOT / "examples", ROOT / "mdf_loop" / "demo", HERE / "models", DRAWN)
    return [
        path
        for folder in folders
        for path in sorted(folder.rglob("*.yaml"))
        if path.stem != "broken"
    ]


def _ir_paths() -> list[Path]:
    folders = (HERE / "models", ROOT / "tests" / "importing" / "openvino_models")
    return [path for folder in folders for path in sorted(folder.glob("*.xml"))]


def _imported_models() -> list[Seed]:
    """Return the ONNX texts as MDF documents."""
    return [functools.partial(_as_yaml, text) for text in TEXTS.values()]


def _as_yaml(text: str) -> Files:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
        paths = write_model(read_foreign(path), path.with_suffix(".yaml"))
        beside = {part.name: part.read_bytes() for part in paths[1:]}
        return Files(".yaml", paths[0].read_bytes(), beside)


def _exported_models() -> list[Seed]:
    """Return the ONNX texts and the MDF models as ONNX; one in eight contains its original document."""
    texts = [functools.partial(_of_text, text) for text in TEXTS.values()]
    models = [functools.partial(_compiled, path, k % 8 == 0) for k, path in enumerate(_mdf_paths())]
    return [*texts, *models]


def _of_text(text: str) -> Files:
    return Files(".onnx", onnx.parser.parse_model(text).SerializeToString())


def _compiled(path: Path, origin: bool) -> Files:
    compiled = mdf_loop.compile(path, device="cpu", shapes="dynamic", max_iterations=50)
    proto = compiled.to_onnx(origin=origin)
    return Files(".onnx", proto.SerializeToString(deterministic=True))
