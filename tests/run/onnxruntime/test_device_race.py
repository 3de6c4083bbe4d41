"""`device="auto"` with CUDA available: the faster device is found by a race."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.errors import RunError
from mdf_loop.ir import StopReason
from mdf_loop.run.control.stopping import Stopped, Stopping
from mdf_loop.run.device import UNDECIDED_DEVICE, Device
from mdf_loop.run.onnxruntime import device_race
from mdf_loop.run.onnxruntime.device import PlacedModel
from mdf_loop.run.onnxruntime.device_race import Race
from mdf_loop.run.onnxruntime.session import Session
from tests.ops.op_running import program_of

MICROSECOND = 1e-6


class Clock:
    """Clock that advances only by the durations of the sessions."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return time.monotonic()


class FakeSession:
    """Session that returns its name and whose runs take the listed seconds; the last entry repeats."""

    def __init__(self, clock: Clock, name: str, seconds: Sequence[float]) -> None:
        self.clock, self.name, self.left = clock, name, list(seconds)
        self.runs = 0

    def run(self, _names, _feeds, _options) -> list[str]:
        self.runs += 1
        self.clock.now += self.left.pop(0) if len(self.left) > 1 else self.left[0]
        return [self.name]


@pytest.fixture
def clock(monkeypatch) -> Iterator[Clock]:
    fake_clock = Clock()
    monkeypatch.setattr(device_race, "time", fake_clock)
    return fake_clock


def race(cpu, cuda, reason: str = "CUDA is available") -> Race:
    return Race(PlacedModel(cpu, Device("cpu", "")), PlacedModel(cuda, Device("cuda", reason)))


def run(racing: Race, options=None) -> list[str]:
    return racing.run(["y"], {}, options or onnxruntime.RunOptions())


# --- who wins -------------------------------------------------------------------------------------


def test_the_faster_device_wins_and_the_reason_has_both_times(clock: Clock) -> None:
    cpu, cuda = (
        FakeSession(clock, name, [1.0e-2, us * MICROSECOND])
        for name, us in (("cpu", 39), ("cuda", 410))
    )
    racing = race(cpu, cuda)
    assert racing.device == UNDECIDED_DEVICE
    assert run(racing) == ["cpu"]
    sentence = "cpu: 39 us for the first piece of work, cuda: 410 us"
    assert racing.device == Device("cpu", sentence)


def test_cuda_wins_with_some_operations_on_the_cpu(clock: Clock) -> None:
    racing = race(
        FakeSession(clock, "cpu", [0.5]),
        FakeSession(clock, "cuda", [0.9, 0.004]),
        "on the CPU: Atan",
    )
    assert run(racing) == ["cuda"]
    assert racing.device == Device(
        "cuda", "cuda: 4 ms for the first piece of work, cpu: 500 ms; on the CPU: Atan"
    )


@pytest.mark.parametrize(("cuda", "winner"), [(1.0, "cpu"), (0.92, "cpu"), (0.90, "cuda")])
def test_cuda_must_be_clearly_faster(clock: Clock, cuda: float, winner: str) -> None:
    racing = race(FakeSession(clock, "cpu", [1.0]), FakeSession(clock, "cuda", [cuda]))
    assert run(racing) == [winner]


def test_the_winner_is_kept(clock: Clock) -> None:
    cpu, cuda = FakeSession(clock, "cpu", [1e-4]), FakeSession(clock, "cuda", [1e-3])
    racing = race(cpu, cuda)
    run(racing)
    before = cpu.runs, cuda.runs
    assert run(racing) == ["cpu"]
    assert (cpu.runs, cuda.runs) == (before[0] + 1, before[1])


def test_short_runs_are_measured_often_and_long_runs_rarely(clock: Clock) -> None:
    cpu, cuda = (
        FakeSession(clock, "cpu", [1e-4, 1e-4, 0.1, 1e-4]),
        FakeSession(clock, "cuda", [1e-3]),
    )
    run(race(cpu, cuda))
    assert (cpu.runs, cuda.runs) == (3, 4)  # the third run took long
    cpu, cuda = FakeSession(clock, "cpu", [60.0]), FakeSession(clock, "cuda", [50.0])
    run(race(cpu, cuda))
    # The start-up time in the first run on CUDA does not count.
    assert (cpu.runs, cuda.runs) == (1, 2)


def test_one_slow_run_among_fast_ones_is_noise(clock: Clock) -> None:
    cpu = FakeSession(clock, "cpu", [1e-2, 5e-3, 1e-4, 1e-4])
    racing = race(cpu, FakeSession(clock, "cuda", [1e-2, 1e-3]))
    assert run(racing) == ["cpu"]


# --- a race ends ----------------------------------------------------------------------------------


class EndlessSession:
    """Session that runs until its options request termination."""

    def __init__(self) -> None:
        self.began = threading.Event()

    def run(self, _names, _feeds, options) -> list[str]:
        self.began.set()
        end = time.monotonic() + 20
        while not options.terminate:
            assert time.monotonic() < end, "nobody told it to stop"
            time.sleep(0.001)
        raise RuntimeError("Exiting due to terminate flag being set to true.")


def test_cuda_is_terminated_after_it_has_lost(clock: Clock, monkeypatch) -> None:
    monkeypatch.setattr(device_race, "CUDA_EXTRA_SECONDS", 0.05)
    racing = race(FakeSession(clock, "cpu", [1e-4]), EndlessSession())
    options = onnxruntime.RunOptions()
    assert run(racing, options) == ["cpu"]
    assert not options.terminate
    assert (
        racing.device.reason == "cpu: 100 us for the first piece of work, cuda: more than 50.1 ms"
    )


def test_a_failure_of_cuda_is_a_reason_for_the_cpu(clock: Clock) -> None:
    def fail(*_):
        raise RuntimeError("CUDA failure 2: out of memory\nmore lines")

    racing = race(FakeSession(clock, "cpu", [1e-4]), SimpleNamespace(run=fail))
    assert run(racing) == ["cpu"]
    assert racing.device.reason == (
        "cpu: 100 us for the first piece of work, cuda: CUDA failure 2: out of memory"
    )


def ended_while_cuda_is_at_work(racing: Race, cuda: EndlessSession) -> list[str]:
    """Run a race that is terminated while CUDA is running, with run options separate from those of CUDA."""
    options = onnxruntime.RunOptions()
    cuda.began.clear()

    def end() -> None:
        cuda.began.wait(20)
        options.terminate = True

    ending = threading.Thread(target=end)
    ending.start()
    outputs = run(racing, options)
    ending.join()
    return outputs


def test_a_terminated_race_returns_the_outputs_of_the_cpu(clock: Clock) -> None:
    """Check that the device is undecided after one terminated run and is the CPU after the second one.

    CUDA may still have been starting during the first run.
    """
    cuda = EndlessSession()
    racing = race(FakeSession(clock, "cpu", [1e-4]), cuda)
    assert ended_while_cuda_is_at_work(racing, cuda) == ["cpu"]
    assert racing.device == UNDECIDED_DEVICE
    assert ended_while_cuda_is_at_work(racing, cuda) == ["cpu"]
    assert racing.device.name == "cpu"
    sentence = "cpu: 100 us for the first piece of work, cuda: ended from outside after "
    assert racing.device.reason.startswith(sentence)


def test_cuda_that_was_warm_before_is_measured_at_once(clock: Clock) -> None:
    cuda = EndlessSession()
    racing = race(FakeSession(clock, "cpu", [1.0]), cuda)
    ended_while_cuda_is_at_work(racing, cuda)
    fast = FakeSession(clock, "cuda", [0.5])
    cuda.run = fast.run
    assert run(racing) == ["cuda"]
    assert fast.runs == 1


def test_a_run_ended_from_outside_while_the_cpu_repeats_it_is_complete(clock: Clock) -> None:
    options = onnxruntime.RunOptions()

    class Ended(FakeSession):
        def run(self, *arguments) -> list[str]:
            if self.runs == 1:
                options.terminate = True
                raise RuntimeError("Exiting due to terminate flag being set to true.")
            return super().run(*arguments)

    cuda = EndlessSession()
    racing = race(Ended(clock, "cpu", [1e-4]), cuda)
    assert run(racing, options) == ["cpu"]
    assert racing.device == UNDECIDED_DEVICE
    assert not cuda.began.is_set()


def test_threads_that_come_during_a_race_wait_for_its_end(clock: Clock) -> None:
    gate, cuda = threading.Event(), FakeSession(clock, "cuda", [1e-3])

    class Waiting(FakeSession):
        def run(self, *arguments) -> list[str]:
            gate.wait(20)
            return super().run(*arguments)

    cpu = Waiting(clock, "cpu", [1e-4])
    racing = race(cpu, cuda)
    devices: list[list[str]] = []
    threads = [threading.Thread(target=lambda: devices.append(run(racing))) for _ in range(8)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert devices == [["cpu"]] * 8
    assert (cpu.runs, cuda.runs) == (4 + 7, 4)  # a single race


# --- with the runtime's own sessions --------------------------------------------------------------

GRAPH = {
    "g": {
        "nodes": {
            "A": {"input_ports": {"x": {"shape": [2]}}, "output_ports": {"y": {"value": "x / 3"}}}
        },
        "edges": {},
    }
}


def claiming_cuda(monkeypatch, *, slow: str) -> None:
    """Let the runtime report CUDA as available and delay one of the two devices."""
    real = onnxruntime.InferenceSession

    def session(model, options, providers, **settings):
        name = "cpu" if len(providers) == 1 else "cuda"
        settings.pop("enable_fallback", None)
        cpu_session = real(model, options, providers=["CPUExecutionProvider"], **settings)

        def run(*arguments):
            time.sleep(0.1 if name == slow else 0)
            return cpu_session.run(*arguments)

        part = SimpleNamespace(
            ep_name="CUDAExecutionProvider", get_nodes=lambda: [SimpleNamespace(op_type="Div")]
        )
        return SimpleNamespace(
            run=run,
            get_providers=lambda: [providers[0][0], *providers[1:]],
            get_provider_graph_assignment_info=lambda: [part],
        )

    available = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: available)
    monkeypatch.setattr(onnxruntime, "InferenceSession", session)


@pytest.mark.parametrize(("slow", "device"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_model_reports_its_device_and_the_reason(monkeypatch, slow: str, device: str) -> None:
    claiming_cuda(monkeypatch, slow=slow)
    compiled = mdf_loop.compile(GRAPH)
    results = compiled.run({"x": [1.0, 2.0]})
    np.testing.assert_array_equal(results["y"], np.array([1.0, 2.0]) / 3)
    assert results.device == compiled.device == device
    assert compiled.device_reason.startswith(f"{device}: ")
    assert f" for the first piece of work, {slow}: " in compiled.device_reason


def test_a_failing_model_leaves_the_device_undecided(monkeypatch) -> None:
    claiming_cuda(monkeypatch, slow="cuda")
    whole = np.array([1, 2])
    session = Session(program_of("Mod", [whole, whole]))
    with pytest.raises(RunError, match="divided by zero"):
        session.run({"x0": whole, "x1": np.array([1, 0])})
    assert session.device == UNDECIDED_DEVICE
    session.run({"x0": whole, "x1": np.array([1, 3])})
    assert session.device.name == "cpu"


def test_a_race_can_be_stopped(monkeypatch) -> None:
    claiming_cuda(monkeypatch, slow="cpu")
    session = Session(program_of("Neg", [np.array([1.0])]))
    with Stopping(grace=0.0) as stopping:
        stopping.request_stop(StopReason.TIME_LIMIT)
        time.sleep(0.05)
        with pytest.raises(Stopped):
            session.run({"x0": np.array([1.0])}, stopping)
    assert session.device == UNDECIDED_DEVICE


@pytest.mark.slow
def test_a_loop_in_chunks_reports_its_device(monkeypatch) -> None:
    """Check the device of a loop in chunks, whose whole run exceeds the waiting time for CUDA."""
    claiming_cuda(monkeypatch, slow="cuda")
    loop = {
        "function": "onnx::Loop",
        "args": {
            "M": 400_000,
            "v_initial": "(x0,)",
            "body": {
                "b": {
                    "metadata": {"inputs": ["i", "c", "x"], "outputs": ["c", "y"]},
                    "nodes": {
                        "s": {
                            "input_ports": {"x": {}},
                            "output_ports": {"y": {"value": "numpy.cos(x)"}},
                        }
                    },
                }
            },
        },
    }
    node = {
        "functions": {"f": loop},
        "parameters": {"x0": {"value": 0.1}},
        "output_ports": {"y": {"value": "f[0]"}},
    }
    compiled = mdf_loop.compile({"g": {"nodes": {"A": node}, "edges": {}}})
    results = compiled.run()
    assert abs(float(results["y"]) - 0.7390851332151607) < 1e-12
    assert results.device == compiled.device == "cpu"
    assert " for the first piece of work, cuda: " in compiled.device_reason


def test_over_time_the_device_is_that_of_the_loop_over_the_steps(monkeypatch) -> None:
    claiming_cuda(monkeypatch, slow="cpu")
    compiled = mdf_loop.compile(GRAPH)
    results = compiled.run({"x": [1.0, 2.0]}, steps=5)
    assert results["y"].shape == (5, 2)
    assert results.device == compiled.device == "cuda"
    assert compiled.run({"x": [1.0, 2.0]}).device == compiled.device == "cuda"
