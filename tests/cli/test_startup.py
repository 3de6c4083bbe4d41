"""Modules that commands import, which take half of the time of a small run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mdf_loop.demo import DEMOS

HEAVY = {
    *(
        "bokeh",
        "dask",
        "dask_jobqueue",
        "distributed",
        "graph_scheduler",
        "graphviz",
        "h5netcdf",
        "h5py",
    ),
    *(
        "llvmlite",
        "matplotlib",
        "mpmath",
        "networkx",
        "pandas",
        "pygraphviz",
        "rich",
        "scipy",
        "sympy",
    ),
    *("torch", "xarray", "zarr", "numpy.ma", "onnx.reference", "modeci_mdf.execution_engine"),
    *("mdf_loop.cluster", "mdf_loop.drawing", "mdf_loop.fitting", "mdf_loop.passes.gradient"),
}
"""Modules that take about a tenth of a second to import and that a small model does not use."""

PROGRAM = """
import sys
from mdf_loop.cli import main
try:
    main(sys.argv[1:])
finally:
    print("imported:", *sys.modules)
"""

MODELS = {demo.name: demo.path for demo in DEMOS}


def imported(*arguments: object) -> set[str]:
    """Return the heavy modules that a command imports in a process of its own."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    (line,) = (line for line in process.stdout.splitlines() if line.startswith("imported:"))
    return HEAVY & set(line.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "may"),
    [
        (("run", MODELS["sum_and_difference"]), set()),
        (("run", MODELS["leaky_neuron"], "--steps", 3, "--dt", "1ms"), {"llvmlite"}),
        (("run", MODELS["leaky_neuron"], "--steps", 3, "--json"), {"llvmlite"}),
        (("check", MODELS["leaky_neuron"]), {"networkx"}),
    ],
)
def test_a_small_model_needs_nothing_heavy(command: tuple[object, ...], may: set[str]) -> None:
    """Check that native loops and the graph of `check` import only their own heavy modules."""
    assert imported(*command) <= may


@pytest.mark.slow
def test_heavy_modules_are_imported_on_use(tmp_path: Path) -> None:
    """Check that the names in `HEAVY` are current module names."""
    model = MODELS["leaky_neuron"]
    plotted = imported("run", model, "--steps", 3, "--plot", tmp_path / "v.svg")
    assert plotted >= {"matplotlib"}
    stored = imported("run", model, "--steps", 3, "--output", tmp_path / "v.h5")
    assert stored >= {"h5py"}
