"""The stored gradient cases as programs that compute the objective."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import mdf_loop
from mdf_loop.ir import Program
from mdf_loop.ir.check import check
from mdf_loop.passes.gradient.objective import Term, add_objective
from mdf_loop.passes.whole_run import whole_run
from mdf_loop.reading.over_time import read_over_time
from mdf_loop.reading.program import read_once
from mdf_loop.reading.settings import input_name
from mdf_loop.request.run_options import RunOptions
from mdf_loop.specification import specify

FOLDER = Path(__file__).parents[4] / "shared" / "gradient_cases"


def names() -> list[str]:
    """Return the names of cases that have a gradient."""
    listed = []
    for path in sorted(FOLDER.glob("*.json")):
        case = json.loads(path.read_text())
        if not case.get("error") and case.get("kind") != "fit":
            listed.append(path.stem)
    return listed


def load(name: str) -> dict[str, Any]:
    """Return the stored document of a case."""
    case: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return case


def program_of(case: dict[str, Any]) -> tuple[Program, dict[str, np.ndarray], dict[str, str]]:
    """Return the program, all its inputs, and the program inputs of the names in the case."""
    model = mdf_loop.compile(str(FOLDER / case["model"]))
    at = {k: np.asarray(v, float) for k, v in case["at"].items()}
    ports = set(case["wrt_inputs"])
    inputs = {k: np.asarray(v) for k, v in case["inputs"].items()}
    inputs |= {k: at[k] for k in ports}
    sets = {k: at[k] for k in case["wrt"] if k not in ports}
    only = list(dict.fromkeys(o["output"] for o in case["of"]))
    spec = specify(RunOptions(inputs, set=sets, only=only, steps=case["steps"], dt=case["dt"]))
    bound = model.prepared.bind(spec)
    more: dict[str, np.ndarray] = {}
    if case["steps"] is None:
        program = read_once(model.document, bound, model.options, spec.selection).program
    else:
        over = read_over_time(model.document, bound, model.options, spec)
        program = whole_run(
            over.first_program, over.later_program, over.recorded_names, bound.inputs.varying_names
        )
        more = {"steps": np.array(case["steps"])}
        more |= {"dt": np.array(case["dt"])} if case["dt"] else {}
    assert check(program) == ()
    bound = bound.with_random_keys(program)
    terms, data = [], {}
    for k, entry in enumerate(case["of"]):
        parameters = entry.get("target", entry.get("weights"))
        terms.append(Term(entry["output"], entry["reduce"], term_index=k))
        if (name := terms[-1].data) is not None:
            data[name] = np.asarray(parameters, float)
    program = add_objective(program, terms)
    known = {**bound.arrays, **data, **more}
    arrays = {e.value.name: known.get(e.value.name, e.default) for e in program.inputs}
    targets = {name: name if name in ports else input_name(name) for name in case["wrt"]}
    return program, arrays, targets
