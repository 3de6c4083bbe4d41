"""Errors of invalid YAML and JSON state line, column, the parser's message, and the text of the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mdf_loop.errors import ModelError
from mdf_loop.importing.opening import open_document

CASES = {
    "indentation": (
        "m.yaml",
        "m:\n    graphs:\n        g: {}\n      metadata: {a: 1}\n",
        "line 4, column 7 (metadata: {a: 1}): expected <block end>, but found '<block mapping start>', "
        "while parsing a block mapping that begins in line 2",
        "look at the indentation",
    ),
    "a tab": (
        "m.yaml",
        "m:\n\tgraphs: {}\n",
        "line 2, column 1 (graphs: {}): found character '\\t' that cannot start any token",
        "indent with spaces",
    ),
    "an end too early": ("m.yaml", "m: [1, 2\n", "line 2, column 1: expected ',' or ']'", ""),
    "no comma": (
        "m.json",
        '{"m": {"graphs": {}\n "x": 1}}',
        """line 2, column 2 ("x": 1}}): Expecting ',' delimiter""",
        "look at the commas",
    ),
    "an empty file": ("m.json", "", "line 1, column 1: Expecting value", ""),
}


@pytest.mark.parametrize("case", CASES)
def test_errors_state_line_and_column(case: str, tmp_path: Path) -> None:
    name, text, message, hint = CASES[case]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ModelError) as error:
        open_document(path)
    (finding,) = error.value.findings
    assert f"'{name}' is not an MDF model: " in finding.what
    assert message in finding.what
    assert hint in finding.hint
