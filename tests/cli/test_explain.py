"""`mdf-loop explain --passes`."""

from __future__ import annotations

from mdf_loop.pipeline import ONNXRUNTIME, passes_of_evaluation


def pass_reports(out: str) -> dict[str, str]:
    """Return the report of each pass by its name, and the last report of a pass that runs twice."""
    lines = [line.removeprefix("after ") for line in out.splitlines() if line.startswith("after ")]
    return dict(line.split(": ", 1) for line in lines)


def test_the_program_and_each_pass_in_order(cli, sample):
    outcome = cli("explain", sample, "--passes")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("as read\n  program(")
    order = [apply.__name__ for apply in (*passes_of_evaluation(), *ONNXRUNTIME)]
    lines = [line for line in outcome.out.splitlines() if line.startswith("after ")]
    pass_names = [line.removeprefix("after ").partition(":")[0] for line in lines]
    assert pass_names == order


def test_inputs_and_options_change_the_program(cli, double):
    program_text = "program(%x: float64[2])"
    assert program_text in cli("explain", double, "--passes", "--input", "x=[1.5, 2]").out
    float32_report = cli(
        "explain", double, "--passes", "--precision", "float32", "--input", "x=0.5"
    ).out
    assert "program(%x: float32[])" in float32_report


def test_program_options_require_passes(cli, double):
    outcome = cli("explain", double, "--precision", "float32")
    assert outcome.code == 2
    assert (
        "--precision changes the program, which only --passes prints: add --passes" in outcome.err
    )


def test_an_endless_loop_is_refused(cli, endless):
    outcome = cli("explain", endless, "--passes")
    assert outcome.code == 2
    assert "EndlessLoopError" in outcome.err


def test_changed_lines_are_counted(cli, sample):
    assert pass_reports(cli("explain", sample, "--passes").out)["report_loops"] == "2 lines new"
