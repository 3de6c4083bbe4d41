"""Examples are in canonical form and have equal results in all engines; test_docs.py runs their scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

import mdf_loop
from mdf_loop.document.loading import suppress_output

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").iterdir())


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_an_example_has_a_model_a_script_and_a_page(folder):
    assert {"model.yaml", "run.py", "README.md"} <= {path.name for path in folder.iterdir()}
    assert f"$ python examples/{folder.name}/run.py\n" in (folder / "README.md").read_text()


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_modeci_mdf_writes_the_same_file(folder, tmp_path):
    from modeci_mdf.utils import load_mdf

    with suppress_output():
        load_mdf(str(folder / "model.yaml")).to_yaml_file(str(tmp_path / "again.yaml"))
    assert (tmp_path / "again.yaml").read_bytes() == (folder / "model.yaml").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_all_engines_agree(folder):
    verification = mdf_loop.verify(folder / "model.yaml")
    assert verification.equal, str(verification)
    engines = {comparison.engine for comparison in verification.comparisons}
    assert engines == {"interpreter", "modeci_mdf"}, verification.notes
