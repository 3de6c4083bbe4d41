"""`mdf-loop compile`: its file runs in plain ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime

from mdf_loop.importing.origin import origin_of


def test_the_file_runs_in_plain_onnx_runtime(cli, sample, tmp_path):
    target = tmp_path / "sample.onnx"
    outcome = cli("compile", sample, "-o", target)
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        f"wrote {target} (ONNX opset 17, IR version 8)",
        "  output loop_node.b_final",
        "  output loop_node.user_defined_vals",
        "  output loop_node.keepgoing_out",
    ]
    onnx.checker.check_model(str(target), full_check=True)
    session = onnxruntime.InferenceSession(str(target))
    final, recorded, condition = session.run(None, {})
    assert (int(final), recorded.tolist(), bool(condition)) == (6, [12, -6], False)


def test_inputs_fix_the_types_of_the_file(cli, demos, tmp_path):
    target = tmp_path / "division.onnx"
    outcome = cli(
        *("compile", demos["repeated_division"], "--output", target),
        *("--input", "input=[[1,1,1],[1,1,1]]", "--input", "loop_count=5"),
    )
    assert outcome.code == 0
    assert "  input input\n" in outcome.out
    session = onnxruntime.InferenceSession(str(target))
    assert {i.name: i.type for i in session.get_inputs()}["input"] == "tensor(double)"
    feeds = {"input": np.ones((2, 3)), "loop_count": np.array(3.0)}
    inputs = {i.name: feeds[i.name] for i in session.get_inputs()}
    np.testing.assert_allclose(session.run(None, inputs)[0], np.full((2, 3), 0.2), rtol=1e-12)


def test_the_default_is_beside_the_model(cli, double):
    assert cli("compile", double).out.startswith(f"wrote {double.with_suffix('.onnx')} ")
    assert double.with_suffix(".onnx").is_file()


def test_precision_float32(cli, double, tmp_path):
    target = tmp_path / "d.onnx"
    assert cli("compile", double, "-o", target, "--precision", "float32", "--input", "x=1.5")
    session = onnxruntime.InferenceSession(str(target))
    assert session.get_inputs()[0].type == "tensor(float)"


def test_max_iterations_is_written_into_the_file(cli, endless, tmp_path):
    target = tmp_path / "e.onnx"
    assert cli("compile", endless, "-o", target, "--max-iterations", 3).code == 0
    session = onnxruntime.InferenceSession(str(target))
    assert int(session.run(None, {"x": np.array(1)})[0]) == 4


def test_no_origin_omits_the_mdf_model(cli, double, tmp_path):
    target = tmp_path / "d.onnx"
    assert cli("compile", double, "-o", target).code == 0
    assert origin_of(onnx.load(target)) is not None
    assert cli("compile", double, "-o", target, "--no-origin").code == 0
    assert origin_of(onnx.load(target)) is None


def test_invalid_targets_are_refused(cli, double, tmp_path):
    for target, sentence in (
        (tmp_path / "model.txt", "does not end in .onnx"),
        (tmp_path / "no" / "model.onnx", "there is no folder"),
    ):
        outcome = cli("compile", double, "-o", target)
        assert (outcome.code, outcome.out) == (2, "")
        assert sentence in outcome.err
        assert not target.exists()


def test_an_invalid_model_preserves_the_old_file(cli, broken, tmp_path):
    target = tmp_path / "old.onnx"
    target.write_bytes(b"old")
    assert cli("compile", broken, "-o", target).code == 2
    assert target.read_bytes() == b"old"
