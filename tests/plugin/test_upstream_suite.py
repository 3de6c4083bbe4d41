"""modeci_mdf's own tests give the same list of passes and failures with and without the plugin.

The tests come with modeci_mdf's source distribution; two fixtures of its repository that are not
in it are written here. Left out is `tests/test_examples.py`: it runs the repository's example
scripts, which are not in the distribution and want torch, tensorflow, PsyNeuLink or Graphviz.
Tests of `interfaces/`, which want torch, are not in the distribution either. Tests that run example
models get those beside the checkout. Nothing of the rest hangs; each test may take 30 seconds.
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

from mdf_loop.document.loading import quiet

pytestmark = pytest.mark.slow

TOOLS = ("pytest-benchmark", "py-cpuinfo", "pytest-mock", "pytest-timeout")

SAFELY = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Early releases of Python 3.11 have no filter."""

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
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        pytest.skip(f"pip cannot get what is needed: {last[:200]}")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """The folder of modeci_mdf's source distribution, with all that its tests need."""
    folder = tmp_path_factory.mktemp("upstream")
    wanted = f"modeci-mdf=={version('modeci-mdf')}"
    pip("download", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), wanted)
    pip("install", "--no-deps", "--target", str(folder / "tools"), *TOOLS)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, **SAFELY)
    (root,) = (path for path in folder.glob("*") if (path / "tests").is_dir())
    (root / "tests" / "conftest.py").write_text(CONFTEST)
    (folder / "tools" / "with_mdf_loop.py").write_text(PLUGIN)
    copy_examples(shared / "models", root / "examples")
    return root


def copy_examples(source: Path, target: Path) -> None:
    """The example models, in YAML and in JSON."""
    from modeci_mdf.utils import load_mdf

    for path in source.glob("*/*.yaml"):
        copied = target / path.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copied)
        with quiet():
            load_mdf(str(path)).to_json_file(str(copied.with_suffix(".json")))


def outcomes(root: Path, *options: str) -> dict[str, str]:
    """Each test of the suite: passed, failed, ..."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests", "--ignore", "tests/test_examples.py", "-rA", "-q",
         "-p", "no:cacheprovider", "--timeout", "30", "--tb", "no", *options],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root.parent / "tools"), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=75,
        check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    words = "PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS"
    lines = re.findall(rf"^({words}) (tests/.+?|\[\d+\] tests/.+?)(?: - .*)?$", done.stdout, re.M)
    return {name: word for word, name in lines}


def test_the_same_with_and_without_the_plugin(suite: Path) -> None:
    without = outcomes(suite)
    with_plugin = outcomes(suite, "-p", "with_mdf_loop")
    assert with_plugin == without
    counts = {word: list(without.values()).count(word) for word in set(without.values())}
    assert counts["PASSED"] >= 115
    assert counts.get("ERROR", 0) == 0
