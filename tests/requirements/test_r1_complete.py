"""Every requirement on ONNX Loop has a test here that bears its number."""

import re
from pathlib import Path

import pytest

REQUIREMENTS = range(1, 35)


@pytest.mark.parametrize("number", REQUIREMENTS, ids=lambda n: f"R1.{n:02d}")
def test_every_requirement_has_a_test(number):
    files = Path(__file__).parent.glob("test_r1_*.py")
    tests = re.findall(r"^def (test_r1_(\d\d)_\w+)", "\n".join(f.read_text() for f in files), re.M)
    assert [name for name, found in tests if int(found) == number]
