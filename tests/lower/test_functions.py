"""Registry of functions: every family is registered, and no registered function is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mdf_loop import lower
from mdf_loop.errors import UnknownFunctionError, UnsupportedError
from mdf_loop.lower.functions import FUNCTIONS, UNSUPPORTED_FUNCTIONS, function, register_as

PACKAGE = Path(lower.__file__).parent
REGISTERS = re.compile(r"^(@|    )register_as\(", re.MULTILINE)
FAMILIES = {path.stem for path in PACKAGE.glob("*.py") if REGISTERS.search(path.read_text())}
TESTS = ("elementary", "arrays", "expressions", "draws")


def test_every_family_is_imported_by_the_package() -> None:
    imported = Path(lower.__file__).read_text().split("register functions")[1].split(")")[0]
    assert {name.strip(" ,") for name in imported.split("\n") if name.strip()} == FAMILIES


def test_every_family_has_a_test_file() -> None:
    files = (Path(__file__).with_name(f"test_lower_{name}.py") for name in TESTS)
    docstrings = "".join(file.read_text().split('"""')[1] for file in files)
    assert not {family for family in FAMILIES if f"`{family}`" not in docstrings}


def test_no_registered_function_is_refused() -> None:
    assert not UNSUPPORTED_FUNCTIONS.keys() & FUNCTIONS.keys()


@pytest.mark.parametrize("name", sorted(UNSUPPORTED_FUNCTIONS))
def test_refusals_state_a_reason(name: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        function(name)
    reason, hint = UNSUPPORTED_FUNCTIONS[name]
    assert f"'{name}' {reason}, so it cannot be compiled" in str(caught.value)
    assert hint in str(caught.value)


def test_unknown_names_get_a_suggestion_with_module() -> None:
    with pytest.raises(UnknownFunctionError, match=r"write 'numpy\.exp'"):
        function("exp")


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match=r"'numpy\.exp' is defined twice"):
        register_as("numpy.exp")(lambda b: None)  # type: ignore[arg-type, return-value]
