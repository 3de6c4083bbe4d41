"""`mdf-loop verify`."""

from __future__ import annotations

import pytest

from mdf_loop import verification
from mdf_loop.ir import StopReason
from mdf_loop.verification import Comparison, Verification
from mdf_loop.verification.limits import Limits


def test_equal_models_exit_with_0(cli, sample):
    outcome = cli("verify", sample)
    assert outcome.code == 0
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[-1] == "equal, bit for bit (tolerance: relative 1e-12)"
    engines = [line.split("against ")[1].split()[0].rstrip(":") for line in lines[:-1]]
    assert set(engines) == {"interpreter", "modeci_mdf"}
    assert any("parameters against modeci_mdf" in line for line in lines)
    assert lines[0].split() == [
        *("equal", "loop_node.b_final", "int64[]", "against", "interpreter", "int64[]:"),
        *("max", "abs", "0,", "max", "rel", "0"),
    ]


def test_json(cli, sample):
    content = cli("verify", sample, "--json").json
    assert list(content) == ["equal", "bit_for_bit", "comparisons", "tolerance", "notes"]
    assert (content["equal"], content["bit_for_bit"]) == (True, True)
    assert content["comparisons"][0] == {
        "name": "loop_node.b_final",
        "engine": "interpreter",
        "equal": True,
        "max_abs": 0.0,
        "max_rel": 0.0,
        "types": ["int64[]", "int64[]"],
        "first_step": None,
        "values": None,
        "is_parameter": False,
    }


@pytest.fixture
def different(monkeypatch):
    infinite = float("inf")
    comparison = Comparison("n.p", "modeci_mdf", False, infinite, infinite, ("int64[]", "int64[2]"))
    verification_result = Verification((comparison,), 1e-12, ("a note",))
    monkeypatch.setattr(verification, "verify", lambda *_, **__: verification_result)


def test_a_difference_exits_with_1(cli, sample, different):
    outcome = cli("verify", sample)
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.splitlines() == [
        "DIFFERENT  n.p  int64[] against modeci_mdf int64[2]: max abs inf, max rel inf",
        "different (tolerance: relative 1e-12)",
        "note: a note",
    ]


def test_json_of_a_difference(cli, sample, different):
    outcome = cli("verify", sample, "--json")
    assert outcome.code == 1
    assert outcome.json["equal"] is False
    assert outcome.json["comparisons"][0]["max_rel"] == "inf"


def test_inputs_and_options(cli, double, endless):
    assert cli("verify", double, "--input", "x=[1.5, 2]", "--precision", "float32").code == 0
    assert cli("verify", endless, "--max-iterations", 4, "--device", "cpu").code in (0, 1)


def test_comparison_with_the_interpreter(cli, endless):
    outcome = cli("verify", endless, "--max-iterations", 4)
    assert "note: modeci_mdf's engine cannot run this model" in outcome.out
    assert "against interpreter" in outcome.out
    assert outcome.code == 0


def test_an_impossible_comparison_exits_with_2(cli, endless):
    outcome = cli("verify", endless, "--max-iterations", 4, "--steps", 3)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(
        "RunError: there is nothing to compare with: modeci_mdf's engine cannot run this model: "
    )
    assert "  at $.graphs[0].nodes['grow'].functions['f']" in outcome.err


def test_over_time(cli, double):
    outcome = cli("verify", double, "--input", "x=2", "--steps", 3)
    assert outcome.code == 0
    assert all("against modeci_mdf" in line for line in outcome.out.splitlines()[:-1])


def test_limits(cli, tmp_path, monkeypatch):
    looks = iter([None] * 3)
    monkeypatch.setattr(Limits, "check_engine", lambda _: next(looks, StopReason.TIME_LIMIT))
    path = tmp_path / "m.yaml"
    path.write_text(
        "m: {graphs: {g: {nodes: {n: {parameters: {x: {default_initial_value: 0.0, value: x + 1}}, "
        "output_ports: {y: {value: x}}}}}}}"
    )
    outcome = cli("verify", path, "--steps", 10**12, "--time-limit", "1h")
    assert outcome.code == 0
    assert "3 of 1000000000000 steps were compared" in outcome.out
    monkeypatch.undo()
    outcome = cli("verify", path, "--steps", 10**12, "--memory-limit", "10MB")
    assert outcome.code == 2
    assert "--memory-limit" in outcome.err
