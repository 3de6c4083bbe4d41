"""`mdf-loop demo`."""

from __future__ import annotations

import onnxruntime
import pytest

from mdf_loop.demo import DEMOS


@pytest.mark.slow
def test_the_demo_writes_models_pictures_and_onnx_files(cli, tmp_path):
    folder = tmp_path / "made" / "here"
    outcome = cli("demo", "--output", folder)
    assert (outcome.code, outcome.err) == (0, "")
    for demo in DEMOS:
        assert f"{demo.name}: " in outcome.out
        assert (folder / f"{demo.name}.yaml").read_bytes() == demo.path.read_bytes()
        assert "<svg" in (folder / f"{demo.name}.svg").read_text()
        onnxruntime.InferenceSession(str(folder / f"{demo.name}.onnx"))
    assert "loop_node.b_final = 6" in outcome.out
    assert "loop_node.user_defined_vals = [12 -6]" in outcome.out.replace("  ", " ")
    assert "loop_node.loop_1: 2 iterations; its condition became false" in outcome.out


@pytest.mark.slow
def test_the_demo_can_be_run_again(cli, tmp_path):
    assert cli("demo", "--output", tmp_path).code == 0
    assert cli("demo", "--output", tmp_path).code == 0


def test_a_file_as_folder_is_refused(cli, tmp_path):
    (tmp_path / "file").write_text("")
    outcome = cli("demo", "--output", tmp_path / "file")
    assert outcome.code == 2
    assert "file" in outcome.err
