"""modeci_mdf's own tests have the same outcomes with and without the plugin.

modeci_mdf's source distribution contains the tests. Two fixtures of its repository are not in the
distribution and are written here. `tests/test_examples.py` is ignored: it runs the repository's example
scripts, which are not in the distribution and need torch, tensorflow, PsyNeuLink or Graphviz. Tests of
`interfaces/`, which need torch, are not in the distribution either. Tests that run example models read the
models beside the checkout. No other test hangs, and each test may take 30 seconds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

from mdf_loop.document.loading import suppress_output

pytestmark = pytest.mark.slow

TOOLS = ("pytest-benchmark", "py-cpuinfo", "pytest-mock", "pytest-timeout")

EXTRACT_OPTIONS = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Options for extracting an archive. Early releases of Python 3.11 have no filter."""

CONFTEST = """
import pytest
import modeci_mdf.mdf as mdf


@pytest.fixture
def create_model():
    def create(nodes, edges=None, conditions=None):
        graph = mdf.Graph(id="G", nodes=nodes, edges=edges or [], conditions=conditions)
        return mdf.Model(id="M", graphs=[graph])

    return create


@pytest.fixture
def simple_model_mdf(create_model):
    first = mdf.Node(id="first", parameters=[mdf.Parameter(id="p", value=2)],
                     output_ports=[mdf.OutputPort(id="out", value="p")])
    second = mdf.Node(id="second", input_ports=[mdf.InputPort(id="x")])
    edge = mdf.Edge(id="e", sender="first", sender_port="out", receiver="second", receiver_port="x")
    return create_model([first, second], [edge])
"""

PLUGIN = """
import mdf_loop


def pytest_configure():
    import modeci_mdf.execution_engine as engine
    from modeci_mdf.functions.standard import mdf_functions

    assert "onnx::Loop" in mdf_functions
    assert engine.EvaluableNode.__init__.__module__ == engine.__name__
    assert hasattr(engine.EvaluableNode.__init__, "__wrapped__")
"""


def pip(*arguments: str) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if process.returncode:
        last_line = (process.stderr.strip().splitlines() or ["no reason given"])[-1]
        pytest.skip(f"pip cannot install the requirements: {last_line[:200]}")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """Return the folder of modeci_mdf's source distribution, with all requirements of its tests."""
    folder = tmp_path_factory.mktemp("upstream")
    requirement = f"modeci-mdf=={version('modeci-mdf')}"
    pip("download", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), requirement)
    pip("install", "--no-deps", "--target", str(folder / "tools"), *TOOLS)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, **EXTRACT_OPTIONS)
    (root,) = (path for path in folder.glob("*") if (path / "tests").is_dir())
    (root / "tests" / "conftest.py").write_text(CONFTEST)
    (folder / "tools" / "with_mdf_loop.py").write_text(PLUGIN)
    copy_examples(shared / "models", root / "examples")
    return root


def copy_examples(source: Path, target: Path) -> None:
    """Write the example models in YAML and in JSON."""
    from modeci_mdf.utils import load_mdf

    for path in source.glob("*/*.yaml"):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        with suppress_output():
            load_mdf(str(path)).to_json_file(str(copy.with_suffix(".json")))


def outcomes(root: Path, *options: str) -> dict[str, str]:
    """Run the suite, and return the outcome (passed, failed, ...) of each test by name."""
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "tests", "--ignore", "tests/test_examples.py", "-rA", "-q",
         "-p", "no:cacheprovider", "--timeout", "30", "--tb", "no", *options],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root.parent / "tools"), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=75,
        check=False,
    )  # fmt: skip
    assert process.returncode in (0, 1), process.stdout + process.stderr
    words = "PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS"
    lines = re.findall(
        rf"^({words}) (tests/.+?|\[\d+\] tests/.+?)(?: - .*)?$", process.stdout, re.M
    )
    return {name: word for word, name in lines}


def test_outcomes_are_equal_with_and_without_the_plugin(suite: Path) -> None:
    without = outcomes(suite)
    with_plugin = outcomes(suite, "-p", "with_mdf_loop")
    assert with_plugin == without
    counts = {word: list(without.values()).count(word) for word in set(without.values())}
    assert counts["PASSED"] >= 115
    assert counts.get("ERROR", 0) == 0
