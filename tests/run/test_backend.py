"""The back-end interface: runs are equal on every back end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import DeviceError, RunError
from mdf_loop.importing.opening import open_document
from mdf_loop.ir import StopReason
from mdf_loop.run.backend import BACKENDS, PROGRAM_BACKENDS, DocumentBackend
from mdf_loop.run.control.stopping import Stopped, Stopping
from mdf_loop.run.device import Placement
from mdf_loop.run.interpreted import Interpreted
from mdf_loop.specification import ENGINES
from tests.models.loops import loop_model
from tests.ops.op_running import in_a_loop, program_of
from tests.placements import STANDARD

GROWING = loop_model(
    {"M": 50, "v_initial": "(1.0,)"},
    {"x_next": "x * a", "row": "x + i"},
    port_values={"a": 1.125},
    carried="x",
    recorded="row",
)

NEURON = """
nodes:
  cell:
    input_ports: {drive: {default_value: 0.5}}
    parameters:
      v: {default_initial_value: 0.0, time_derivative: (drive - v) / tau}
      tau: {value: 0.25}
    output_ports: {v: {value: v}}
"""


def test_every_engine_name_has_a_back_end() -> None:
    assert set(BACKENDS) == set(ENGINES)
    documents = {name for name, b in BACKENDS.items() if isinstance(b, DocumentBackend)}
    assert documents == {"modeci"} == set(BACKENDS) - set(PROGRAM_BACKENDS)


def test_sessions_of_the_runtime_are_made_in_one_place() -> None:
    package = Path(mdf_loop.__file__).parent
    module_names = {
        path.name for path in package.rglob("*.py") if "InferenceSession" in path.read_text()
    }
    assert module_names == {"onnx_session.py"}


def test_back_ends_for_programs_give_the_same() -> None:
    program = in_a_loop("Neg", np.array([0.5, -0.25]))
    arrays = [
        backend.load(program, STANDARD).run({"x0": np.array([0.5, -0.25])})["y0"]
        for backend in PROGRAM_BACKENDS.values()
    ]
    for one in arrays[1:]:
        np.testing.assert_array_equal(one, arrays[0])


def same(ours: mdf_loop.Results, theirs: mdf_loop.Results) -> None:
    assert list(ours) == list(theirs)
    for name, array in ours.items():
        np.testing.assert_allclose(theirs[name], array, rtol=1e-12)
        assert theirs[name].dtype == array.dtype


@pytest.fixture
def growing() -> mdf_loop.CompiledModel:
    return mdf_loop.compile(GROWING, device="cpu")


@pytest.fixture
def neuron(mdf) -> mdf_loop.CompiledModel:
    return mdf_loop.compile(mdf(NEURON), device="cpu")


def test_one_evaluation_with_its_loops(growing) -> None:
    ours, theirs = growing.run(), growing.run(engine="interpreter")
    same(ours, theirs)
    assert ours.loops == theirs.loops
    assert ours.loops["A.loop"].iterations == 50
    assert growing.device_reason == "the interpreter computes there"


def test_members_at_once(growing) -> None:
    sweep = {"a": [1.0, 1.125, 0.5]}
    same(growing.run(sweep=sweep), growing.run(sweep=sweep, engine="interpreter"))


@pytest.mark.parametrize("words", [{}, {"every": 3}, {"sweep": {"cell.tau": [0.25, 0.5]}}])
def test_over_time(neuron, words) -> None:
    words = {"steps": 10, "dt": 0.01, **words}
    same(neuron.run(**words), neuron.run(**words, engine="interpreter"))


def test_a_stopped_run_returns_partial_results() -> None:
    endless = loop_model({"cond": True, "v_initial": "(0,)"}, {"x_next": "x + 1"}, carried="x")
    compiled = mdf_loop.compile(endless, device="cpu")
    results = compiled.run(engine="interpreter", time_limit=1)
    assert results.stopped_by is StopReason.TIME_LIMIT
    assert results["r0"] == results["n"] > 0


def test_a_checkpoint_is_of_one_engine(neuron, tmp_path) -> None:
    file, words = tmp_path / "run.ckpt", {"steps": 20, "dt": 0.01, "engine": "interpreter"}
    unbroken_run = neuron.run(**words)
    neuron.run(**{**words, "steps": 8}, checkpoint=file)
    same(unbroken_run, neuron.run(**words, resume=file))
    with pytest.raises(mdf_loop.LoopError, match="engine"):
        neuron.run(**{**words, "engine": "onnxruntime"}, resume=file)


def test_the_interpreter_ends_between_iterations_and_has_one_device() -> None:
    runnable = Interpreted(in_a_loop("Neg", np.ones(1)))
    with Stopping(grace=0.0) as stopping:
        stopping.request_stop(StopReason.INTERRUPTED)
        stopping.check(0.0, ())
        with pytest.raises(Stopped):
            runnable.run({"x0": np.ones(1)}, stopping)
    with pytest.raises(DeviceError, match="the interpreter computes on the CPU"):
        Interpreted(runnable.program, Placement("cuda"))


def test_unsupported_operations_of_the_interpreter_have_a_place() -> None:
    program = program_of("Gather", [np.ones(2), np.array(0)])
    with pytest.raises(
        RunError, match="onnx::Gather cannot be computed: an index is not on axis 0"
    ) as caught:
        Interpreted(program).run({"x0": np.ones(2), "x1": np.array(5)})
    assert caught.value.findings[0].where == "$.here"


def test_a_document_goes_on_from_evaluation_to_evaluation(mdf) -> None:
    document = open_document(mdf(NEURON))
    loaded = BACKENDS["modeci"].load(document, ["cell.v"], 0.25)
    results = [loaded.run({"drive": np.array(1.0)})["cell.v"] for _ in range(3)]
    assert results == [0.0, 1.0, 1.0]
    assert loaded.device.name == "cpu"
    with Stopping() as stopping:
        stopping.request_stop(StopReason.INTERRUPTED)
        with pytest.raises(Stopped):
            loaded.run({}, stopping)
