"""onnx_ir is imported without sympy unless a program uses sympy; each test runs in a new process."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def python(code: str) -> list[str]:
    """Run code in a new process and return the printed words."""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.split()


def test_onnx_ir_is_imported_without_sympy() -> None:
    words = python(
        "import sys; from mdf_loop.onnx_writer import oir; "
        "print('sympy' in sys.modules, 'mpmath' in sys.modules, oir.__name__)"
    )
    assert words == ["False", "False", "onnx_ir"]


def test_arithmetic_with_extents_imports_sympy() -> None:
    """Check that symbolic extents import sympy on first use.

    If this test fails, a new version of onnx_ir uses sympy elsewhere: check that a small run still works.
    """
    words = python(
        "import sys; from mdf_loop.onnx_writer import oir; n = oir.SymbolicDim('n'); "
        "print('sympy' in sys.modules, (2 * n + 1).evaluate({'n': 3}), 'sympy' in sys.modules)"
    )
    assert words == ["False", "7", "True"]


def test_other_imports_get_the_real_sympy() -> None:
    words = python(
        "from mdf_loop.onnx_writer import oir; import sympy; from sympy import Symbol; "
        "import onnx_ir._symbolic_shapes as shapes; "
        "print(type(sympy).__name__, sympy.__file__ != '', shapes.sympy is sympy, "
        "oir.SymbolicDim(Symbol('n')).value)"
    )
    assert words == ["module", "True", "True", "n"]


@pytest.mark.parametrize("first", ["sympy", "onnx_ir"])
def test_an_imported_sympy_is_kept(first: str) -> None:
    words = python(
        f"import sys, {first}; from mdf_loop.onnx_writer import oir; "
        "print(oir._core.sympy is sys.modules['sympy'])"
    )
    assert words == ["True"]


def test_a_failed_import_of_onnx_ir_leaves_no_placeholder() -> None:
    words = python(
        "import sys\n"
        "sys.modules['onnx'] = None\n"
        "try:\n    import mdf_loop.onnx_writer\n"
        "except ImportError:\n    print('refused')\n"
        "print('sympy' in sys.modules)"
    )
    assert words == ["refused", "False"]
