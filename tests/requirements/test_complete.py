"""Check that every requirement of docs/reference/requirements.md has a test with its number."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TABLE = (HERE.parents[1] / "docs" / "reference" / "requirements.md").read_text(encoding="utf-8")
REQUIREMENTS = re.findall(r"^\| (R\d\.\d\d) \|", TABLE, re.MULTILINE)
COUNTS = {"R1": 35, "R2": 17, "R3": 22, "R4": 20, "R6": 8}


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_every_requirement_has_a_test(requirement):
    mark = requirement.lower().replace(".", "_")
    texts = (path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py"))
    assert re.search(rf"^def test_{mark}_\w+", "\n".join(texts), re.MULTILINE)


def test_all_requirements_are_stated():
    assert {group: sum(r.startswith(group) for r in REQUIREMENTS) for group in COUNTS} == COUNTS
    assert len(set(REQUIREMENTS)) == len(REQUIREMENTS)
