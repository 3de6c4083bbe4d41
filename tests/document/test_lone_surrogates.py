r"""Lone surrogates (`"\ud800"` in JSON) are refused on reading; NUL, if a file cannot contain it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.errors import InputError, ModelError
from mdf_loop.run.states import save_state

LONE_SURROGATE = "a\ud800"


def document(name: str = "v", value: str = "1.0 + 1", unit: str = "mV") -> dict[str, Any]:
    node = {
        "parameters": {"p": {"value": value}},
        "output_ports": {name: {"value": "p", "metadata": {"units": unit}}},
    }
    return {"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"A": node}}}}}


WITH_LONE_SURROGATE = {
    "name": (document(name=LONE_SURROGATE), r"$.m.graphs.g.nodes.A.output_ports"),
    "expression": (
        document(value=f"1 + {LONE_SURROGATE}"),
        r"$.m.graphs.g.nodes.A.parameters.p.value",
    ),
    "unit": (document(unit=LONE_SURROGATE), r"$.m.graphs.g.nodes.A.output_ports.v.metadata.units"),
}


@pytest.mark.parametrize("kind", WITH_LONE_SURROGATE)
@pytest.mark.parametrize("suffix", [".json", ".yaml", None])
def test_lone_surrogates_are_refused_on_reading(tmp_path: Path, kind, suffix) -> None:
    content, where = WITH_LONE_SURROGATE[kind]
    source: Any = content
    if suffix is not None:  # JSON is also valid YAML
        source = tmp_path / f"m{suffix}"
        source.write_text(json.dumps(content))
    with pytest.raises(ModelError, match="holds half of a character") as caught:
        mdf_loop.read(source)
    (finding,) = caught.value.findings
    assert finding.where == where
    assert r"a\ud800" in finding.what


def test_lone_surrogates_are_refused_in_a_model_in_memory() -> None:
    from modeci_mdf.mdf import Graph, Model, Node, OutputPort, Parameter

    node = Node(id="A", parameters=[Parameter(id="p", value=1.0)])
    node.output_ports.append(OutputPort(id=LONE_SURROGATE, value="p"))
    graph = Graph(id="g", nodes=[node])
    for source in (graph, Model(id="m", graphs=[graph])):
        with pytest.raises(ModelError, match="half of a character"):
            mdf_loop.read(source)


def test_pairs_and_letters_beyond_ascii_are_read(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(document(name="\U0001f600µ")))
    assert list(mdf_loop.compile(path).run()) == ["A.\U0001f600µ"]


NAME, UNIT = {"name": "v\0w"}, {"unit": "m\0V"}


@pytest.mark.parametrize(
    ("suffix", "changed"),
    [(".npz", NAME), (".h5", NAME), (".nc", NAME), (".h5", UNIT), (".nc", UNIT)],
)
def test_nul_is_refused_before_the_run_where_the_file_cannot_hold_it(
    tmp_path: Path, monkeypatch, suffix, changed
) -> None:
    model = mdf_loop.compile(document(**changed))
    monkeypatch.setattr(PreparedModel, "over_time", lambda *_, **__: pytest.fail("it has run"))
    target = tmp_path / f"x{suffix}"
    with pytest.raises(InputError, match=r"cannot hold the (name|unit).*\\x00.*character 0"):
        model.run(steps=2, output=target)
    assert not target.exists()


@pytest.mark.parametrize("suffix", [".json", ".csv", ".zarr"])
def test_other_files_can_contain_nul(tmp_path: Path, suffix) -> None:
    target = tmp_path / f"x{suffix}"
    mdf_loop.compile(document("v\0w", unit="m\0V")).run(steps=2, output=target)
    assert target.exists()


def test_nul_is_refused_in_files_saved_after_a_run(tmp_path: Path) -> None:
    results = mdf_loop.compile(document("v\0w")).run(steps=2)
    with pytest.raises(InputError, match="cannot hold the name"):
        results.save(tmp_path / "x.nc")
    with pytest.raises(InputError, match="cannot hold the name"):
        save_state(tmp_path / "x.npz", {"step": np.array(1), "parameter A.v\0w": np.array(1.0)})
    assert list(tmp_path.iterdir()) == []
