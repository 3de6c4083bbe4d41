"""`mdf-loop explain --passes`."""

from __future__ import annotations

from mdf_loop.pipeline import ONNXRUNTIME, evaluation


def after(out: str) -> dict[str, str]:
    """What is said of each pass, by its name; of one that comes twice, the last."""
    lines = [line.removeprefix("after ") for line in out.splitlines() if line.startswith("after ")]
    return dict(line.split(": ", 1) for line in lines)


def test_the_program_and_each_pass_in_order(cli, sample):
    outcome = cli("explain", sample, "--passes")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("as read\n  program(")
    order = [apply.__name__ for apply in (*evaluation(), *ONNXRUNTIME)]
    lines = [line for line in outcome.out.splitlines() if line.startswith("after ")]
    shown = [line.removeprefix("after ").partition(":")[0] for line in lines]
    assert shown == order


def test_inputs_and_options_decide_about_the_program(cli, double):
    read = "program(%x: float64[2])"
    assert read in cli("explain", double, "--passes", "--input", "x=[1.5, 2]").out
    half = cli("explain", double, "--passes", "--precision", "float32", "--input", "x=0.5").out
    assert "program(%x: float32[])" in half


def test_what_decides_about_the_program_is_for_passes(cli, double):
    outcome = cli("explain", double, "--precision", "float32")
    assert outcome.code == 2
    assert "--precision is about the program: give --passes too" in outcome.err


def test_a_model_that_is_refused(cli, endless):
    outcome = cli("explain", endless, "--passes")
    assert outcome.code == 2
    assert "EndlessLoopError" in outcome.err


def test_what_a_pass_changed_is_counted(cli, sample):
    assert after(cli("explain", sample, "--passes").out)["report_loops"] == "2 lines new"
