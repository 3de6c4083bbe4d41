"""Public names, and the cost of their import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mdf_loop


def test_public_names() -> None:
    assert sorted(mdf_loop.__all__) == [
        "CompiledModel",
        "Derivatives",
        "Differentiated",
        "Drawing",
        "Fit",
        "FitProgress",
        "Fits",
        "Gradient",
        "Grid",
        "LoopError",
        "Progress",
        "Recovery",
        "Results",
        "StopReason",
        "Verification",
        "compile",
        "draw",
        "explain",
        "fold",
        "from_onnx",
        "grid",
        "loop",
        "paired",
        "read",
        "recover",
        "register",
        "seed",
        "sobol",
        "unfold",
        "unregister",
        "verify",
    ]
    for name in mdf_loop.__all__:
        assert getattr(mdf_loop, name).__doc__, name


def test_a_misspelt_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'complie'"):
        mdf_loop.complie  # noqa: B018


def test_importing_loads_no_large_library() -> None:
    heavy = {"onnx", "onnxruntime", "onnx_ir", "modeci_mdf", "numpy", "graphviz", "pygraphviz"}
    code = f"import sys, mdf_loop; print(sorted({heavy!r} & set(sys.modules)))"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"
