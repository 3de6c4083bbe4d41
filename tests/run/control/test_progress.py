"""Progress: the estimated time is correct, the bar appears on request, and a silent run prints nothing."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import pytest

from mdf_loop.errors import InputError
from mdf_loop.run.control import progress as module
from mdf_loop.run.control.progress import Pace, Progress, open_reporter

RUN = """
import sys, time
import rich.progress  # so that the time it takes is none of the run's
from mdf_loop.run.control.progress import open_reporter

def run(wanted, total, steps, step, done=0, unit="steps", name=""):
    sys.stderr.write("start\\n")
    with open_reporter(wanted, total, done, unit, name) as reporter:
        for number in range(done, steps):
            time.sleep(step)
            reporter.update(number + 1)

"""


@dataclass(frozen=True)
class ProcessOutput:
    """Output of a process: timed segments of stderr, the text of stdout and the exit code."""

    segments: list[tuple[float, str]]
    stdout: str
    code: int

    @property
    def text(self) -> str:
        return "".join(segment for _, segment in self.segments)

    @property
    def pictures(self) -> list[str]:
        """States of the progress bar, without colours."""
        plain = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", self.text)
        return [line.strip() for line in re.split(r"[\r\n]+", plain) if "/s" in line]

    def when(self, sign: str) -> float:
        return next(at for at, segment in self.segments if sign in segment)


def run_in_terminal(
    code: str, *, terminal: bool = True, interrupt: bool = False, **environment
) -> ProcessOutput:
    """Run `code` in a process whose stderr is a terminal or a pipe."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment}
    process = subprocess.Popen(
        [sys.executable, "-c", RUN + code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=variables,
        text=True,
    )
    os.close(theirs)
    segments = []
    while segment := _read(ours):
        segments.append((time.perf_counter(), segment))
        if interrupt and "/s" in segment:
            interrupt = False
            process.send_signal(signal.SIGINT)
    os.close(ours)
    stdout, _ = process.communicate()
    return ProcessOutput(segments, stdout, process.returncode)


def _read(descriptor: int) -> str:
    try:
        return os.read(descriptor, 65536).decode()
    except OSError:  # the other end of the terminal is closed
        return ""


# --- the bar, in a real terminal


@pytest.mark.slow
def test_the_bar_shows_at_once_also_while_the_first_step_computes() -> None:
    tries = (run_in_terminal("run(None, 10, 1, 1.5)") for _ in range(3))  # machines may be slow
    terminal = next(t for t in tries if t.when("0/10 steps") - t.when("start") < 0.3)
    assert terminal.when("0/10 steps") < terminal.when("1/10 steps")
    assert terminal.text.count("0/10 steps") >= 3  # the elapsed time is updated
    assert terminal.stdout == ""


@pytest.mark.slow
def test_the_bar_shows_progress_and_remaining_time() -> None:
    terminal = run_in_terminal("run(None, 1000, 130, 0.01, name='[red]F{N}')")
    last = terminal.pictures[-2]
    match = re.search(
        r"^\[red\]F\{N\} .* (\d+)% (\d+)/1000 steps ([\d.]+) steps/s \d s ETA (\d+) s$", last
    )
    assert match, terminal.pictures
    percent, done, rate, left = (float(part) for part in match.groups())
    assert percent == done // 10
    assert left == pytest.approx((1000 - done) / rate, abs=1.2)
    elapsed = terminal.segments[-1][0] - terminal.when("start")
    assert left == pytest.approx((1000 - done) * elapsed / 130, rel=0.3)


@pytest.mark.slow
def test_a_remark_stands_at_the_end() -> None:
    terminal = run_in_terminal(
        "with open_reporter(None, None, 0, 'evaluations') as reporter:\n"
        "    for done in (64, 128):\n"
        "        reporter.update(done, f'best {32 / done}')\n"
        "        time.sleep(0.3)"
    )
    assert re.search(r"128 evaluations .* best 0\.25$", terminal.pictures[-1])


@pytest.mark.slow
def test_the_line_stays_as_a_summary() -> None:
    terminal = run_in_terminal("run(None, 20, 20, 0.02)")
    seconds = re.search(r"100% 20/20 steps [\d.]+ steps/s (\d) s$", terminal.pictures[-1])[1]
    assert int(seconds) == pytest.approx(terminal.segments[-1][0] - terminal.when("start"), abs=0.6)
    assert terminal.text.endswith("\n\x1b[?25h")  # ends a line and shows the cursor again


@pytest.mark.slow
def test_a_quick_run_shows_nothing() -> None:
    assert run_in_terminal("run(None, 10, 10, 0.001)").text == "start\r\n"


@pytest.mark.slow
def test_a_resumed_run_has_the_rate_of_its_own_steps() -> None:
    terminal = run_in_terminal("run(None, 10**6, 500_040, 0.01, done=500_000)")
    elapsed = terminal.segments[-1][0] - terminal.when("start")
    rate = float(re.search(r"([\d.]+) steps/s", terminal.pictures[-1])[1])
    assert rate == pytest.approx(40 / elapsed, rel=0.3)
    assert rate <= 100
    assert "50% 5000" in terminal.pictures[-1]


@pytest.mark.slow
def test_without_a_total_there_is_a_count_and_no_estimate() -> None:
    terminal = run_in_terminal("run(None, None, 30, 0.02, unit='iterations')")
    seconds = re.search(r"30 iterations [\d.]+ iterations/s +(\d) s$", terminal.pictures[-1])[1]
    assert int(seconds) == pytest.approx(terminal.segments[-1][0] - terminal.when("start"), abs=0.6)
    assert "ETA" not in terminal.text
    assert "%" not in terminal.text


@pytest.mark.slow
def test_silent_when_stderr_is_a_pipe() -> None:
    assert run_in_terminal("run(None, 20, 20, 0.02)", terminal=False).text == "start\n"


@pytest.mark.slow
def test_silent_on_request() -> None:
    assert run_in_terminal("run(False, 20, 20, 0.02)").text == "start\r\n"


@pytest.mark.slow
def test_true_is_a_bar_in_any_case() -> None:
    process = run_in_terminal("run(True, 20, 20, 0.02)", terminal=False)
    assert "20/20 steps" in process.pictures[-1]


@pytest.mark.slow
def test_silent_in_a_notebook() -> None:
    kernel = "import types; sys.modules['IPython'] = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=1))\n"
    assert run_in_terminal(kernel + "run(None, 20, 20, 0.02)").text == "start\r\n"
    assert (
        "20/20 steps"
        in run_in_terminal(kernel.replace("kernel=1", "") + "run(None, 20, 20, 0.02)").text
    )


@pytest.mark.slow
def test_no_color_and_dumb_terminals_are_honoured() -> None:
    assert "\x1b[9" not in run_in_terminal("run(None, 20, 20, 0.02)", NO_COLOR="1").text
    assert "\x1b" not in run_in_terminal("run(None, 20, 20, 0.02)", TERM="dumb").text


@pytest.mark.slow
def test_an_ascii_terminal_gets_ascii() -> None:
    terminal = run_in_terminal("run(None, 20, 20, 0.02)", PYTHONIOENCODING="ascii")
    assert terminal.text.isascii()
    assert "20/20 steps" in terminal.pictures[-1]


@pytest.mark.slow
def test_an_interrupt_leaves_the_terminal_in_order() -> None:
    terminal = run_in_terminal("run(None, 1000, 1000, 0.01)", interrupt=True)
    assert terminal.code == -signal.SIGINT
    assert "\n\x1b[?25hTraceback" in terminal.text.replace("\r", "")
    assert terminal.text.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.slow
def test_printed_text_of_the_program_is_preserved() -> None:
    code = """
import threading
threading.Timer(0.3, lambda: (sys.stderr.write("[b]a :warning: 12[/b]\\n"), print("[i]out"))).start()
run(None, 30, 30, 0.02)
"""
    terminal = run_in_terminal(code)
    assert "[b]a :warning: 12[/b]\r\n" in terminal.text
    assert terminal.stdout == "[i]out\n"


@pytest.mark.slow
def test_one_of_two_concurrent_runs_shows_the_bar() -> None:
    code = """
import threading
threads = [threading.Thread(target=run, args=(None, 30, 30, 0.02)) for _ in range(2)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
run(None, 20, 20, 0.02)
"""
    terminal = run_in_terminal(code)
    assert terminal.text.count("30/30 steps") == 1
    assert terminal.text.count("20/20 steps") == 1  # the line is free again


@pytest.mark.slow
def test_the_run_goes_on_when_the_terminal_has_gone() -> None:
    process = run_in_terminal(
        "import os\nsys.stderr = os.fdopen(os.dup(2), 'w', buffering=1)\n"
        "import threading; threading.Timer(0.25, sys.stderr.close).start()\n"
        "run(None, 30, 30, 0.02); print('done')"
    )
    assert process.stdout == "done\n"
    assert process.code == 0


@pytest.mark.slow
def test_the_run_ends_though_the_terminal_hangs() -> None:
    code = """
import os, time
ours, theirs = os.pipe()
os.set_blocking(theirs, False)
try:
    while os.write(theirs, b"." * 4096):
        pass
except BlockingIOError:
    os.set_blocking(theirs, True)
sys.stderr = os.fdopen(theirs, "w")
began = time.perf_counter()
run(True, 20, 20, 0.02)
print(time.perf_counter() - began, flush=True)
os._exit(0)
"""
    took = (float(run_in_terminal(code).stdout) for _ in range(3))  # machines may be slow
    assert any(1.2 < seconds < 2 for seconds in took)


# --- a callback


def callback_reports(monkeypatch, *moments: float) -> list[Progress]:
    """Return the progress reports of a run whose chunks of ten steps end at these moments."""
    reports: list[Progress] = []
    clock = iter((0.0, 0.0, *moments))
    monkeypatch.setattr(module, "perf_counter", lambda: next(clock))
    with open_reporter(reports.append, 40, 0, "steps") as reporter:
        for number, _ in enumerate(moments[:4]):
            assert reporter.update(10 * (number + 1))
    return reports


def test_a_callback_gets_reports_from_start_to_end(monkeypatch) -> None:
    reports = callback_reports(monkeypatch, 0.25, 0.5, 0.75, 0.76, 0.77)
    assert [progress.done for progress in reports] == [0, 10, 20, 30, 40]
    assert reports[0] == Progress(0, 40, "steps", 0.0, None)
    assert reports[1] == Progress(10, 40, "steps", 0.25, 0.75)
    assert reports[-1] == Progress(40, 40, "steps", 0.77, 0.0)


def test_a_callback_gets_at_most_ten_reports_per_second(monkeypatch) -> None:
    reports = callback_reports(monkeypatch, 0.05, 0.1, 0.15, 0.19, 0.19)
    assert [progress.done for progress in reports] == [0, 20, 40]


def test_the_end_is_reported_once(monkeypatch) -> None:
    reports = callback_reports(monkeypatch, 0.25, 0.5, 0.75, 1.0)
    assert [progress.done for progress in reports] == [0, 10, 20, 30, 40]


def test_a_callback_is_called_in_the_thread_of_the_run() -> None:
    threads = []
    with open_reporter(
        lambda _: threads.append(threading.current_thread()), 1, 0, "steps"
    ) as reporter:
        reporter.update(1)
    assert threads == [threading.current_thread()] * 2


@pytest.mark.parametrize("stops_at", [0, 3])
def test_a_callback_that_returns_false_stops_the_run(monkeypatch, stops_at: int) -> None:
    monkeypatch.setattr(module, "SAMPLE_SECONDS", 0.0)
    done = 0
    with open_reporter(lambda progress: progress.done != stops_at, 10, 0, "steps") as reporter:
        while reporter.update(done):
            done += 1
    assert done == stops_at
    assert not reporter.update(done)  # also for later updates


@pytest.mark.parametrize("answer", [None, True, 0, ""])
def test_any_other_return_value_continues_the_run(answer) -> None:
    with open_reporter(lambda _: answer, 10, 0, "steps") as reporter:
        assert reporter.update(1)


def test_the_error_of_a_callback_is_the_error_of_the_run(monkeypatch) -> None:
    monkeypatch.setattr(module, "SAMPLE_SECONDS", 0.0)
    completed_steps = []

    def callback(progress: Progress) -> None:
        completed_steps.append(progress.done)
        if progress.done:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), open_reporter(callback, 10, 0, "steps") as reporter:
        reporter.update(1)
    assert completed_steps == [0, 1]


@pytest.mark.parametrize("option", ["yes", 1, 0, [print]])
def test_anything_else_is_refused(option) -> None:
    with pytest.raises(InputError, match=r"progress cannot be .*\n.*or a function"):
        open_reporter(option, 10, 0, "steps")


def test_without_stderr_there_is_no_bar(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    for option in (None, True):
        with open_reporter(option, 10, 0, "steps") as reporter:
            assert reporter.update(1)


@pytest.mark.parametrize("option", [False, True, lambda _: None], ids=["silent", "bar", "callback"])
def test_an_update_is_cheap(monkeypatch, option) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    took = []
    with open_reporter(option, 10, 0, "steps") as reporter:
        for _ in range(2000):
            began = time.perf_counter()
            reporter.update(1)
            took.append(time.perf_counter() - began)
    assert sorted(took)[1000] < 5e-6


# --- the estimate, with a clock of our own


def paced(total: int | None, *moments: tuple[float, int], done: int = 0) -> Pace:
    pace = Pace(total, done, "steps", 100.0)
    for at, number in moments:
        pace.note(number, 100.0 + at)
    return pace


def test_nothing_is_known_before_the_first_sample() -> None:
    assert paced(100, (0.01, 5)).progress(100.02) == Progress(5, 100, "steps", 100.02 - 100, None)
    assert paced(100, (0.01, 5)).rate is None


def test_a_constant_rate_gives_the_true_time() -> None:
    pace = paced(1000, *((0.02 * chunk, 2 * chunk) for chunk in range(1, 101)))
    assert pace.progress(102.0).remaining == pytest.approx(8.0, abs=0.02)
    assert pace.rate == pytest.approx(100.0)


def test_the_rate_covers_the_last_ten_seconds() -> None:
    slow = [(float(second), second) for second in range(1, 51)]
    fast = [(50.0 + second, 50 + 10 * second) for second in range(1, 12)]
    assert paced(1160, *slow).progress(150.0).remaining == pytest.approx(1110.0)
    assert paced(1160, *slow, *fast).progress(161.0).remaining == pytest.approx(100.0)


def test_steps_before_a_resume_do_not_count() -> None:
    pace = paced(1_000_000, (1.0, 900_010), done=900_000)
    assert pace.progress(101.0).remaining == pytest.approx(99_990 / 10)
    assert pace.mean_rate(101.0) == pytest.approx(10)


def test_the_time_left_ticks_down_during_a_slow_step() -> None:
    pace = paced(10, (30.0, 1))
    assert pace.progress(130.0).remaining == pytest.approx(270.0)
    assert pace.progress(140.0).remaining == pytest.approx(260.0)


def test_a_step_that_hangs_does_not_count_down_to_nothing() -> None:
    assert paced(10, (30.0, 1)).progress(1000.0).remaining == pytest.approx(240.0)


def test_there_is_an_estimate_though_no_step_ends_within_ten_seconds() -> None:
    pace = paced(10, (20.0, 1), (60.0, 2))
    assert pace.progress(160.0).remaining == pytest.approx(8 * 40.0)


def test_without_a_total_there_is_no_estimate() -> None:
    pace = paced(None, (1.0, 10))
    assert pace.progress(101.0) == Progress(10, None, "steps", 1.0, None)
    assert pace.rate == pytest.approx(10)


def test_nothing_is_left_at_the_end() -> None:
    assert paced(10, (0.01, 10)).progress(101.0).remaining == 0.0


def test_a_standstill_has_no_rate() -> None:
    pace = paced(10, (1.0, 0), (2.0, 0))
    assert (pace.rate, pace.progress(102.0).remaining) == (None, None)


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        ((123456, 10_000_000, "steps", 12.2, 960.0), "123456 of 10000000 steps, 12 s, 16 min left"),
        ((0, 10, "steps", 0.0, None), "0 of 10 steps, 0 s"),
        ((7, None, "iterations", 75.0, None), "7 iterations, 1 min 15 s"),
        ((9, 10, "steps", 1.0, 0.2), "9 of 10 steps, 1 s, 1 s left"),
        ((10, 10, "steps", 1.0, 0.0), "10 of 10 steps, 1 s"),
    ],
)
def test_the_text_of_a_progress(progress: tuple, text: str) -> None:
    assert str(Progress(*progress)) == text
