"""Shared fixtures: the hypothesis profile, stored cases, models from YAML text, and runs in all engines."""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import settings

import mdf_loop
from mdf_loop.document.loading import suppress_output
from mdf_loop.importing.opening import open_document
from mdf_loop.ir.types import dtype_name, numpy_dtype
from mdf_loop.native.executable_memory import executable_memory_problem
from mdf_loop.run.interpret import interpret
from mdf_loop.run.modeci.engine_graph import to_modeci_graph

settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")

# A job in the background ignores Ctrl-C, and so would the processes that tests send it to.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Thousands of test objects stay alive anyway, and their garbage collection would take an eighth of all time.
gc.set_threshold(100_000, 50, 100)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores, because many tests wait for child processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (cores or 1) + 1


TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2}
"""Tolerated relative difference between the kernels of two engines, by dtype."""


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of stored cases and models next to the checkout, or skip the test."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("there is no folder 'shared' beside the checkout")
    return folder


# --- models as text ---------------------------------------------------------------------------


def document_of(text: str) -> dict[str, Any]:
    """Return an MDF document from YAML text of a whole document or of one graph (`nodes:`, `edges:`)."""
    content = yaml.safe_load(text)
    if "nodes" not in content:
        return content
    return {"model": {"format": "ModECI MDF v0.4", "graphs": {"graph": content}}}


@pytest.fixture(scope="session")
def mdf() -> Callable[[str], Any]:
    """Return a function `mdf(text)` that builds a modeci_mdf Model from YAML of a document or graph."""
    from modeci_mdf.mdf import Model

    def model(text: str) -> Any:
        with suppress_output():
            return Model.from_dict(document_of(text))

    return model


# --- engines ----------------------------------------------------------------------------------


def close(actual: Any, expected: Any) -> None:
    """Check that two arrays or sequences are equal: shapes, dtypes, and numbers within the tolerance.

    Integers and booleans must be equal bit for bit.
    """
    if expected is None or isinstance(expected, list):
        assert type(actual) is type(expected)
        for first, second in zip(actual or (), expected or (), strict=True):
            close(first, second)
            assert dtype_name(np.asarray(first)) == dtype_name(np.asarray(second))
        return
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    floats = [str(a.dtype) for a in (actual, expected) if a.dtype.kind == "f"]
    rtol = max((TOLERANCE[name] for name in floats), default=0)
    if rtol:
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=0)
    else:
        np.testing.assert_array_equal(actual, expected)


def engine_outputs(model: Any, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all output ports in modeci_mdf's own engine with the plugin."""
    from modeci_mdf.execution_engine import EvaluableGraph

    graph = to_modeci_graph(open_document(model))
    with suppress_output():
        engine = EvaluableGraph(graph)
        for name, array in arrays.items():
            for node_id, node in engine.enodes.items():
                for port_id, port in node.evaluable_inputs.items():
                    if name in (port_id, f"{node_id}.{port_id}"):
                        port.set_input_value(array)
        engine.evaluate()
    return {
        f"{node_id}.{port_id}": port.curr_value
        for node_id, node in engine.enodes.items()
        for port_id, port in node.evaluable_outputs.items()
    }


@pytest.fixture(scope="session")
def run_everywhere(mdf: Callable[[str], Any]) -> Callable[..., mdf_loop.Results]:
    """Return a function `run_everywhere(model, inputs)` that compares all engines.

    The engines are the interpreter, ONNX Runtime and modeci_mdf's engine. The function returns the results of
    ONNX Runtime. `model` is YAML text or any argument of `compile`. `engine=False` omits modeci_mdf's engine,
    which has no options for iteration limits and `shapes`.
    """

    @lru_cache(maxsize=16)
    def compile_text(text: str, options: frozenset[tuple[str, Any]]) -> tuple[Any, Any]:
        source = mdf(text)
        return source, mdf_loop.compile(source, device="cpu", **dict(options))

    def run(
        model: Any, inputs: Mapping[str, Any] | None = None, *, engine: bool = True, **options: Any
    ) -> mdf_loop.Results:
        if isinstance(model, str):
            source, compiled = compile_text(model, frozenset(options.items()))
        else:
            source, compiled = model, mdf_loop.compile(model, device="cpu", **options)
        arrays, program, _ = compiled.prepare(inputs or {})
        results = compiled.run(inputs)
        by_interpreter = interpret(program, arrays)
        theirs = engine_outputs(source, arrays) if engine else {}
        assert list(results) == list(by_interpreter)
        for name, array in results.items():
            close(array, by_interpreter[name])
            if isinstance(array, np.ndarray):
                assert dtype_name(array) == dtype_name(by_interpreter[name])
            if name in theirs:
                close(np.asarray(theirs[name]), array)
        return results

    return run


# --- stored cases -----------------------------------------------------------------------------


def stored_value(entry: Any) -> Any:
    """Return a value of a stored case: an array, a list of arrays (a sequence), or None."""
    if entry is None:
        return None
    if "sequence" in entry:
        return [stored_value(member) for member in entry["sequence"]]
    return np.array(entry["data"], numpy_dtype(entry["dtype"])).reshape(entry["shape"])


@pytest.fixture(scope="session")
def check_stored(
    run_everywhere: Callable[..., mdf_loop.Results], shared: Path
) -> Callable[..., None]:
    """Return a function `check_stored(case, model, outputs)` that compares all runs of a stored case.

    The case is the folder `cases/onnx_loop/<case>`. Inputs have the case's own names unless `names` maps
    them. `outputs` lists output ports of the model in the order of the case.
    """

    def check(
        case: str, model: Any, outputs: list[str], names: Mapping[str, str], **options: Any
    ) -> None:
        path = shared / "cases" / "onnx_loop" / f"{case}.json"
        if not path.exists():
            pytest.skip(f"the case '{case}' is not stored here")
        for run in json.loads(path.read_text())["runs"]:
            inputs = {names.get(k, k): stored_value(entry) for k, entry in run["inputs"].items()}
            results = run_everywhere(model, inputs, **options)
            for name, entry in zip(outputs, run["expected"], strict=True):
                expected = stored_value(entry)
                close(results[name], expected)
                if isinstance(expected, np.ndarray):
                    assert results[name].dtype == expected.dtype

    return check


# --- without native loops -----------------------------------------------------------------------


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests of native loops where loops cannot be native."""
    has_llvmlite = find_spec("llvmlite") is not None
    problem = executable_memory_problem() if has_llvmlite else "llvmlite is not installed"
    if problem is not None:
        for item in items:
            folders = item.path.relative_to(Path(__file__).parent).parts
            if "native" in folders or item.get_closest_marker("native"):
                item.add_marker(pytest.mark.skip(reason=problem))
