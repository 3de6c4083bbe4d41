"""`mdf-loop fit`: its output, its files, its refusals and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import yaml

import mdf_loop
from tests.conftest import document_of
from tests.models.fitted import CELL, DECISION, DT, STEPS, compiled, trace

Cli: TypeAlias = Callable[..., Any]
FREE = "--free cell.tau=0.5..5 --free cell.gain=1..6"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cell.yaml").write_text(yaml.safe_dump(document_of(CELL)))
    for name, gain in (("data", 3.0), ("other", 2.0)):
        rows = trace(compiled(CELL), gain=gain, tau=1.5)
        table = np.column_stack([rows["time"], rows["cell.V"]])
        np.savetxt(f"{name}.csv", table, "%.6g", ",", header="time,V", comments="")
    return tmp_path


def test_printed_table(cli: Cli, folder: Path) -> None:
    outcome = cli("fit", *f"cell.yaml data.csv {FREE} --against cell.V --dt {DT}".split())
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[0].split() == [
        *("parameter", "estimate", "standard", "error", "95", "%", "interval")
    ]
    assert "4 of 4 starts agree" in outcome.out


def test_one_json_object(cli: Cli, folder: Path) -> None:
    outcome = cli("fit", *f"cell.yaml data.csv {FREE} --against cell.V=V --dt {DT} --json".split())
    fit_content = json.loads(outcome.out)
    fit = mdf_loop.compile("cell.yaml").fit(
        "data.csv", {"cell.tau": (0.5, 5), "cell.gain": (1, 6)}, "cell.V", dt=DT
    )
    assert fit_content["estimates"] == fit.estimates
    assert fit_content["stopped_by"] == "completed"
    assert fit_content["agreeing"] == 4


def test_written_files(cli: Cli, folder: Path) -> None:
    arguments = "--output fit.json --plot fit.svg --write fitted.yaml"
    outcome = cli(
        "fit",
        *f"cell.yaml data.csv {FREE} --dt {DT} --start cell.tau=1 --start cell.gain=2 {arguments}".split(),
    )
    assert outcome.code == 0, outcome.err
    estimates = json.loads((folder / "fit.json").read_text())["estimates"]
    assert (folder / "fit.svg").stat().st_size > 1000
    written = yaml.safe_load((folder / "fitted.yaml").read_text())
    parameters = written["model"]["graphs"]["graph"]["nodes"]["cell"]["parameters"]
    assert parameters["tau"]["value"] == estimates["cell.tau"]


def test_subjects(cli: Cli, folder: Path) -> None:
    arguments = f"{FREE} --dt {DT} --subject a=data.csv --subject b=other.csv --shared cell.tau"
    outcome = cli("fit", *f"cell.yaml {arguments} --json".split())
    fit_content = json.loads(outcome.out)
    taus = {
        subject_fit["estimates"]["cell.tau"] for subject_fit in fit_content["subjects"].values()
    }
    assert list(fit_content["subjects"]) == ["a", "b"]
    assert len(taus) == 1
    assert fit_content["shared"] == ["cell.tau"]


@pytest.mark.slow
def test_reaction_times(cli: Cli, folder: Path) -> None:
    (folder / "ddm.yaml").write_text(yaml.safe_dump(document_of(DECISION)))
    results = compiled(DECISION).run(trials=300, seed=5, progress=False)
    rows = np.column_stack([results["ddm.rt"], results["ddm.choice"]])
    np.savetxt("rt.csv", rows, "%.6g", ",", header="rt,choice", comments="")
    arguments = "--free ddm.drift=0..3 --rt ddm.rt --choice ddm.choice --trials 300 --points 16"
    outcome = cli("fit", *f"ddm.yaml rt.csv {arguments} --json".split())
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["estimates"]["ddm.drift"] == pytest.approx(1.0, abs=0.3)


@pytest.mark.slow
def test_conditions_share_a_threshold(cli: Cli, folder: Path) -> None:
    (folder / "ddm.yaml").write_text(yaml.safe_dump(document_of(DECISION)))
    for name, drift in (("hard", 0.5), ("easy", 1.5)):
        results = compiled(DECISION).run(set={"ddm.drift": drift}, trials=300, progress=False)
        rows = np.column_stack([results["ddm.rt"], results["ddm.choice"]])
        np.savetxt(f"{name}.csv", rows, "%.6g", ",", header="rt,choice", comments="")
    arguments = "--free ddm.drift=0..3 --free ddm.threshold=0.4..2 --shared ddm.threshold"
    arguments += " --rt ddm.rt --choice ddm.choice --trials 300 --points 16 --json"
    outcome = cli(
        "fit", *f"ddm.yaml --subject hard=hard.csv --subject easy=easy.csv {arguments}".split()
    )
    assert outcome.code == 0, outcome.err
    hard, easy = (
        subject_fit["estimates"] for subject_fit in json.loads(outcome.out)["subjects"].values()
    )
    assert hard["ddm.threshold"] == easy["ddm.threshold"]
    assert hard["ddm.drift"] < easy["ddm.drift"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("cell.yaml data.csv --free cell.tau=1 --dt 0.1", "--free 'cell.tau=1' has no bounds"),
        ("cell.yaml data.csv --free cell.tau=2..1 --dt 0.1", "leave nothing between them"),
        ("cell.yaml data.csv --free cell.x=0..1 --dt 0.1", "no parameter 'cell.x'"),
        (f"cell.yaml {FREE} --dt 0.1", "give DATA, or --subject"),
        (f"cell.yaml data.csv {FREE} --subject a=data.csv", "give DATA, or --subject"),
        (f"cell.yaml {FREE} --subject a", "--subject 'a' is not NAME=VALUE"),
        (f"cell.yaml none.csv {FREE} --dt 0.1", "there is no file 'none.csv'"),
        (f"cell.yaml data.csv {FREE} --dt 0.1 --output fit.txt", "cannot save a fit as '.txt'"),
        (f"cell.yaml data.csv {FREE} --dt 0.1 --output data.csv", "cannot write 'data.csv'"),
        (f"cell.yaml data.csv {FREE} --dt 0.1 --write cell.yaml", "cannot write 'cell.yaml'"),
        (f"cell.yaml data.csv {FREE} --dt 0.1 --output a.json --write a.json", "both name"),
        (f"cell.yaml {FREE} --subject a=data.csv --plot a.svg", "--plot is for a single fit"),
        (f"cell.yaml data.csv {FREE} --dt 0.1 --steps 10", "match no step"),
    ],
)
def test_invalid_options_are_refused(cli: Cli, folder: Path, arguments: str, message: str) -> None:
    state_before = {path: path.read_bytes() for path in folder.iterdir()}
    outcome = cli("fit", *arguments.split())
    assert outcome.code == 2
    assert message in outcome.err
    assert not outcome.out
    assert {path: path.read_bytes() for path in folder.iterdir()} == state_before


def test_a_time_limit_prints_the_best_fit(cli: Cli, folder: Path) -> None:
    outcome = cli(
        "fit",
        *f"cell.yaml data.csv {FREE} --dt {DT} --steps {STEPS} --time-limit 0.000001 --json".split(),
    )
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["stopped_by"] == "time_limit"


def test_a_nan_derivative_has_a_warning(cli: Cli, folder: Path) -> None:
    """Check the warning for a derivative by b that is nan everywhere (inf times 0)."""
    parameters = {"a": {"value": 1.0}, "b": {"value": 1.0}, "n": {"value": "n + 1"}}
    output = {"y": {"value": "a * n + b * n * n + numpy.sqrt(b * 0.0)"}}
    nodes = {"c": {"parameters": parameters, "output_ports": output}}
    Path("b.yaml").write_text(yaml.safe_dump({"m": {"graphs": {"g": {"nodes": nodes}}}}))
    Path("b.csv").write_text("step,c.y\n0,2.5\n1,6.5\n2,12\n")
    outcome = cli(
        "fit",
        *["b.yaml", "b.csv", "--free", "c.a=0..2", "--free", "c.b=0..2", "--points", "8", "--json"],
    )
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["nonfinite_derivatives"] == ["c.b"]
    (line,) = outcome.err.splitlines()
    assert line.startswith(
        "warning: at points of the search outputs are finite, but derivatives by 'c.b' are"
    )
