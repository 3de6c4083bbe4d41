"""Make the trampoline files for all platforms: `make trampolines` (needs PyPI's ziglang)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / "mdf_loop" / "native" / "trampolines"
TARGETS = {
    "linux-x86_64.so": "x86_64-linux-gnu.2.17",
    "linux-arm64.so": "aarch64-linux-gnu.2.17",
    "macos-arm64.dylib": "aarch64-macos.11.0",
    "windows-x86_64.dll": "x86_64-windows-gnu",
    "windows-arm64.dll": "aarch64-windows-gnu",
}
"""Target triples of the zig compiler by library file."""

_OPTIONS = (
    *("-shared", "-O2", "-std=c11", "-nostdlib", "-fvisibility=hidden", "-fno-stack-protector"),
    *("-fno-sanitize=all", "-fno-builtin", "-g0", "-s", "-Wall", "-Werror"),
    "-Wno-deprecated-non-prototype",
)

_OWN = {
    "linux": ("-Wl,--build-id=none",),
    # Without an install name, the library contains the path of the build.
    "macos": ("-Wl,-install_name,@rpath/macos-arm64.dylib",),
}
"""Additional compiler options by operating system."""


def make(name: str, folder: Path = HERE) -> Path:
    """Compile one trampoline library reproducibly, with the same bytes each time."""
    target, library = TARGETS[name], folder / name
    own_options = _OWN.get(name.partition("-")[0], ())
    source = str(HERE / "trampoline.c")
    zig = (sys.executable, "-m", "ziglang", "cc")
    subprocess.run(
        [*zig, "-target", target, *_OPTIONS, *own_options, "-o", str(library), source], check=True
    )
    for leftover in (library.with_suffix(".pdb"), folder / "trampoline.lib"):
        leftover.unlink(missing_ok=True)
    return library


if __name__ == "__main__":
    for each in TARGETS:
        make(each)
