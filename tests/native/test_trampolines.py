"""The trampoline libraries that register native loops in ONNX Runtime, one for each system."""

from __future__ import annotations

import importlib.util
import sys
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pytest

from mdf_loop.native.operator import trampoline_path

CI_SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "trampolines.py"
FIRST_BYTES = {
    "linux-x86_64.so": b"\x7fELF\x02\x01",
    "linux-arm64.so": b"\x7fELF\x02\x01",
    "macos-arm64.dylib": b"\xcf\xfa\xed\xfe",
    "windows-x86_64.dll": b"MZ",
    "windows-arm64.dll": b"MZ",
}
ELF_MACHINE_NUMBERS = {"linux-x86_64.so": 62, "linux-arm64.so": 183}
"""ELF machine numbers of the processors."""

EXPORTED_SYMBOLS = ("mdf_loop_operators", "mdf_loop_count", "mdf_loop_name", "mdf_loop_domain")


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    """Load the script that builds the trampoline libraries."""
    spec = importlib.util.spec_from_file_location("trampolines", CI_SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def content(name: str) -> bytes:
    return (files("mdf_loop.native") / "trampolines" / name).read_bytes()


def test_every_target_system_has_a_library(maker: ModuleType) -> None:
    assert set(maker.TARGETS) == set(FIRST_BYTES)


@pytest.mark.parametrize("name", FIRST_BYTES)
def test_each_library_has_the_format_of_its_system(name: str) -> None:
    library_bytes = content(name)
    assert library_bytes.startswith(FIRST_BYTES[name])
    if name in ELF_MACHINE_NUMBERS:
        assert int.from_bytes(library_bytes[18:20], "little") == ELF_MACHINE_NUMBERS[name]
    for symbol in (*EXPORTED_SYMBOLS, "RegisterCustomOps", "mdf_loop_release"):
        assert symbol.encode() in library_bytes


def test_the_macos_library_has_a_relative_install_name() -> None:
    assert b"\0@rpath/macos-arm64.dylib\0" in content("macos-arm64.dylib")


@pytest.mark.parametrize(
    ("system", "processor", "name"),
    [
        ("linux", "x86_64", "linux-x86_64.so"),
        ("linux", "aarch64", "linux-arm64.so"),
        ("darwin", "arm64", "macos-arm64.dylib"),
        ("win32", "AMD64", "windows-x86_64.dll"),
        ("win32", "ARM64", "windows-arm64.dll"),
        ("darwin", "x86_64", None),
        ("linux", "riscv64", None),
        ("freebsd14", "amd64", None),
        ("emscripten", "wasm32", None),
    ],
)
def test_each_system_selects_its_library(
    system: str, processor: str, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("platform.machine", lambda: processor)
    library_path = trampoline_path()
    assert (None if library_path is None else library_path.name) == name


@pytest.mark.slow
def test_the_library_is_reproducible_from_its_source(maker: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    library_path = maker.make("linux-x86_64.so", tmp_path)
    assert library_path.read_bytes() == content("linux-x86_64.so")
    assert [path.name for path in tmp_path.iterdir()] == [library_path.name]
