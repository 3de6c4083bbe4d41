"""Ctrl-C in calls of scripts, interactive sessions and commands."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop import signals
from mdf_loop.api import specified_run
from mdf_loop.errors import LoopError
from mdf_loop.interruption import InterruptReaction
from mdf_loop.run.control.stopping import Stopping
from tests.long_runs.processes import ENDLESS, WALK
from tests.models.fitted import CELL, DT, FREE, compiled, trace
from tests.noisy_models import model as noisy

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

STEPS = 1_000_000


def send_sigint(progress: Any) -> None:
    """Send SIGINT from a progress callback."""
    if getattr(progress, "done", 1):
        signal.raise_signal(signal.SIGINT)


def run(model: Any = WALK, **words: Any) -> mdf_loop.Results:
    """Run a model over time and interrupt the run."""
    words = {"steps": STEPS, "progress": send_sigint, **words}
    return mdf_loop.compile(model["g"], native="off").run(**words)


@pytest.fixture
def interactive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)


# --- runs -----------------------------------------------------------------------------------------


def test_a_script_raises_with_partial_results() -> None:
    with pytest.raises(KeyboardInterrupt, match=r"of 1000000 steps; .*is in \.results") as caught:
        run()
    results = caught.value.results  # type: ignore[attr-defined]
    # Python has an exit code for KeyboardInterrupt, but not for its subclasses.
    assert type(caught.value) is KeyboardInterrupt
    assert results.stopped_by is mdf_loop.StopReason.INTERRUPTED
    assert 0 < len(results["walk.x"]) < STEPS


def test_an_interactive_run_returns_partial_results_with_a_warning(interactive: None) -> None:
    with pytest.warns(UserWarning, match="interrupted, this is only what was reached: .* steps"):
        results = run()
    assert 0 < len(results["walk.x"]) < STEPS


def test_on_interrupt_overrides_the_default_of_a_session(interactive: None) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(on_interrupt="raise")


def test_on_interrupt_overrides_the_default_of_a_script() -> None:
    with pytest.warns(UserWarning, match="interrupted"):
        assert 0 < len(run(on_interrupt="return")["walk.x"]) < STEPS


def test_an_unknown_on_interrupt_is_refused() -> None:
    with pytest.raises(LoopError, match=r"on_interrupt cannot be 'ignore'"):
        run(on_interrupt="ignore")


def test_a_callback_that_stops_a_run_raises_nothing() -> None:
    results = run(progress=lambda progress: progress.done == 0)
    assert results.stopped_by is mdf_loop.StopReason.INTERRUPTED


def test_a_command_returns_partial_results_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    with signals.handling_signals():
        assert 0 < len(run()["walk.x"]) < STEPS
    assert not recwarn.list


@pytest.mark.parametrize("name", ["rows.npz", "rows.zarr"])
def test_files_are_written_before_the_exception(tmp_path: Path, name: str) -> None:
    checkpoint = tmp_path / "run.ckpt"
    with pytest.raises(KeyboardInterrupt) as caught:
        run(output=tmp_path / name, checkpoint=checkpoint)
    results = caught.value.results  # type: ignore[attr-defined]
    assert (tmp_path / name).exists()
    assert results.checkpoint == checkpoint
    resumed = mdf_loop.compile(WALK["g"], native="off").run(
        steps=results["walk.x"].shape[0] + 5, resume=checkpoint, output=tmp_path / name
    )
    assert resumed["walk.x"].shape[0] == results["walk.x"].shape[0] + 5


def test_ctrl_c_while_a_file_is_written_waits_for_it(tmp_path: Path, monkeypatch: Any) -> None:
    save = mdf_loop.Results.save

    def interrupt(results: mdf_loop.Results, path: Path) -> None:
        signal.raise_signal(signal.SIGINT)
        save(results, path)

    monkeypatch.setattr(mdf_loop.Results, "save", interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        run(steps=10, progress=False, output=tmp_path / "rows.npz")
    assert len(caught.value.results["walk.x"]) == 10  # type: ignore[attr-defined]
    with np.load(tmp_path / "rows.npz") as arrays:
        assert len(arrays["walk.x"]) == 10


def call(compute: Callable[[], Any], on_interrupt: str) -> Any:
    """Return the results of a function that reacts to Ctrl-C."""
    with InterruptReaction[Any](on_interrupt, str) as reaction:
        reaction.results = compute()
    return reaction.results


def test_a_run_that_fails_after_ctrl_c_is_interrupted() -> None:
    """Check that Ctrl-C ends scripts that catch LoopError."""

    results = object()

    def fails() -> None:
        with Stopping():
            signal.raise_signal(signal.SIGINT)
        error = LoopError("the disk was full")
        error.results = results
        raise error

    with pytest.raises(KeyboardInterrupt) as caught:
        call(fails, "raise")
    assert isinstance(caught.value.__cause__, LoopError)
    assert caught.value.results is results  # type: ignore[attr-defined]
    with pytest.raises(LoopError, match="the disk was full"):
        call(fails, "return")


def test_ctrl_c_after_a_time_limit_is_not_lost() -> None:
    def limited(progress: Any) -> None:
        if progress.elapsed > 0.05:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        run(
            steps=10**8,
            reduce={"walk.x": "last"},
            only=["walk.x"],
            time_limit=0.05,
            progress=limited,
        )
    stopped_by = caught.value.results.stopped_by  # type: ignore[attr-defined]
    assert stopped_by in (mdf_loop.StopReason.TIME_LIMIT, mdf_loop.StopReason.INTERRUPTED)


def test_a_single_evaluation_of_a_loop_is_interruptible() -> None:
    model = mdf_loop.compile(ENDLESS, native="off", device="cpu", max_iterations=10**7)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.run(progress=send_sigint, time_limit=30)
    assert 0 < caught.value.results.loops["A.loop"].iterations < 10**7  # type: ignore[attr-defined]


def test_statistics_have_the_completed_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    from mdf_loop.api import running

    ready, batches = running._run_once, []

    def interrupt(*words: Any) -> Any:
        batches.append(1)
        if len(batches) == 2:
            raise KeyboardInterrupt
        return ready(*words)

    monkeypatch.setattr(running, "_run_once", interrupt)
    model = mdf_loop.compile(noisy({"output_ports": {"y": {"value": "numpy.random.normal()"}}}))
    with pytest.raises(KeyboardInterrupt, match="1024 trials") as caught:
        model.run(trials=10_000, over_trials={"y": "mean"})
    assert caught.value.results["y.mean"].shape == ()  # type: ignore[attr-defined]


def test_a_call_within_another_one_ends_both(interactive: None) -> None:
    """Check a run inside a fit: the fit must not take the partial results for complete ones."""

    def objective(outputs: Any) -> float:
        run()
        raise AssertionError

    with pytest.raises(KeyboardInterrupt) as caught:
        compiled(CELL).fit(None, FREE, objective=objective, steps=5, dt=DT)
    assert caught.value.results is None  # type: ignore[attr-defined]


def test_calls_in_other_threads_are_not_interruptible() -> None:
    numbers: list[int] = []
    thread = threading.Thread(target=lambda: numbers.append(call(lambda: 1, "raise")))
    thread.start()
    thread.join()
    assert numbers == [1]


# --- fits, recoveries, gradients, comparisons -----------------------------------------------------


def test_an_interrupted_fit_has_the_best_estimates(interactive: None) -> None:
    model = compiled(CELL)
    data = trace(model, seed=1, tau=1.5, gain=2.5)
    words = {"against": "cell.V", "dt": DT, "progress": send_sigint}
    with pytest.raises(KeyboardInterrupt, match=r"the best of \d+ evaluations") as caught:
        model.fit(data, FREE, on_interrupt="raise", **words)
    assert set(caught.value.results.estimates) == set(FREE)  # type: ignore[attr-defined]
    with pytest.warns(UserWarning, match="interrupted"):
        fit = model.fit(data, FREE, **words)
    assert fit.stopped_by is mdf_loop.StopReason.INTERRUPTED


def send_sigint_at_call(count: int) -> Callable[[Any], None]:
    """Return a callback that sends SIGINT at its `count`-th call."""
    calls: list[int] = []

    def interrupt(progress: Any) -> None:
        calls.append(1)
        if len(calls) == count:
            signal.raise_signal(signal.SIGINT)

    return interrupt


def test_interrupted_fits_of_subjects_have_the_completed_fits() -> None:
    model = compiled(CELL)
    data = {name: trace(model, seed=k, tau=1.5, gain=2.5) for k, name in enumerate("ab")}
    words = {"against": "cell.V", "dt": DT, "start": {"cell.tau": 1.0, "cell.gain": 1.0}}
    first_losses: list[float] = []

    def in_second(progress: Any) -> None:
        if progress.evaluations == 1:
            first_losses.append(progress.best)
        if len(first_losses) == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="fits of a") as caught:
        model.fit(data, FREE, progress=in_second, **words)
    assert "a" in caught.value.results  # type: ignore[attr-defined]


def test_an_interrupted_recovery_has_the_completed_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    from mdf_loop.api import recovery

    fit, calls = recovery.fit, []

    def interrupt(*words: Any) -> Any:
        calls.append(1)
        outcome = fit(*words)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return outcome

    monkeypatch.setattr(recovery, "fit", interrupt)
    words = {"against": "cell.V", "steps": 20, "dt": DT, "noise": 0.05, "points": 8, "polish": 1}
    with pytest.raises(KeyboardInterrupt, match="2 of 5 data sets") as caught:
        mdf_loop.recover(compiled(CELL), FREE, times=5, **words)
    assert caught.value.results.estimates.shape == (2, 2)  # type: ignore[attr-defined]


def test_an_interrupted_check_of_a_gradient_has_the_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mdf_loop.api import differentiated

    def interrupt(*words: Any) -> None:
        raise KeyboardInterrupt

    words = {"of": {"cell.V": "mean"}, "wrt": ["cell.tau"], "steps": 5, "dt": DT}
    monkeypatch.setattr(differentiated, "check_gradient", interrupt)
    with pytest.raises(KeyboardInterrupt, match="not checked") as caught:
        compiled(CELL).gradient(**words, check=True)
    assert caught.value.results["cell.tau"].shape == ()  # type: ignore[attr-defined]
    monkeypatch.setattr(differentiated, "seed_of", interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        compiled(CELL).gradient(**words, on_interrupt="return")
    assert caught.value.results is None  # type: ignore[attr-defined]


def test_an_interrupted_verification_compares_the_completed_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    ready = specified_run.run_specified

    def interrupt(model: Any, spec: Any) -> Any:
        results = ready(model, spec)
        return interrupted_results(results, 3)

    monkeypatch.setattr(specified_run, "run_specified", interrupt)
    with pytest.raises(KeyboardInterrupt, match="3 of 8 steps were compared") as caught:
        mdf_loop.verify(WALK["g"], steps=8)
    verification = caught.value.results  # type: ignore[attr-defined]
    assert verification.equal
    assert [c.name for c in verification.comparisons] == ["walk.x"]


def interrupted_results(results: mdf_loop.Results, steps: int) -> mdf_loop.Results:
    """Return the results of the first steps, as if Ctrl-C had ended the run."""
    signals.count_interrupt()
    from mdf_loop.run.outputs import Axis

    partial_results = mdf_loop.Results(
        {name: array[:steps] for name, array in results.items()},
        {},
        "cpu",
        "float64",
        axes=(Axis("time", {"step": np.arange(steps)}),),
        stopped_by=mdf_loop.StopReason.INTERRUPTED,
    )
    return partial_results.with_changes(steps=results.steps)


# --- processes ------------------------------------------------------------------------------------

SCRIPT = """
import signal, sys
import mdf_loop
from tests.long_runs.processes import WALK

signal.signal(signal.SIGINT, signal.default_int_handler)
model = mdf_loop.compile(WALK["g"], native="off")
for k in range(2):
    press = lambda p: p.done and signal.raise_signal(signal.SIGINT)
    model.run(steps=1_000_000, progress=press)
    print("went on", k)
"""


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("-i",)])
def test_ctrl_c_ends_a_script_but_not_a_session(words: tuple[str, ...]) -> None:
    process = subprocess.run(
        [sys.executable, *words, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert process.stdout.splitlines() == (["went on 0", "went on 1"] if words else [])
    assert process.returncode == (0 if words else -signal.SIGINT), process.stderr
