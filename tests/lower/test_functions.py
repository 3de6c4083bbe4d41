"""The table of functions: every family is in it, and nothing is refused that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mdf_loop import lower
from mdf_loop.errors import UnknownFunctionError, UnsupportedError
from mdf_loop.lower.functions import FUNCTIONS, REFUSED, function, names

ROOM = Path(lower.__file__).parent
REGISTERS = re.compile(r"^(@|    )names\(", re.MULTILINE)
FAMILIES = {path.stem for path in ROOM.glob("*.py") if REGISTERS.search(path.read_text())}
TESTS = ("elementary", "arrays", "expressions", "draws", "variates")


def test_every_family_is_imported_with_the_room() -> None:
    imported = Path(lower.__file__).read_text().split("register functions")[1].split(")")[0]
    assert {name.strip(" ,") for name in imported.split("\n") if name.strip()} == FAMILIES


def test_every_family_has_its_file_of_tests() -> None:
    files = (Path(__file__).with_name(f"test_lower_{name}.py") for name in TESTS)
    said = "".join(file.read_text().split('"""')[1] for file in files)
    assert not {family for family in FAMILIES if f"`{family}`" not in said}


def test_nothing_is_refused_that_can_be_compiled() -> None:
    assert not REFUSED.keys() & FUNCTIONS.keys()


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_refused_is_said_with_its_reason(name: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        function(name)
    why, hint = REFUSED[name]
    assert f"'{name}' {why}, so it cannot be compiled" in str(caught.value)
    assert hint in str(caught.value)


def test_what_nobody_knows_is_suggested_by_its_module() -> None:
    with pytest.raises(UnknownFunctionError, match=r"write 'numpy\.exp'"):
        function("exp")


def test_a_name_stands_there_once() -> None:
    with pytest.raises(ValueError, match=r"'numpy\.exp' is defined twice"):
        names("numpy.exp")(lambda b: None)  # type: ignore[arg-type, return-value]
