"""The model file of silero-vad, if installed: two networks, 25 branches and one state."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mdf_loop
from mdf_loop.cli import cli

SPEC = find_spec("silero_vad")
pytestmark = pytest.mark.skipif(SPEC is None, reason="silero-vad is not installed")

STATE = np.zeros((2, 1, 128), np.float32)
SOUND = 0.1 * np.random.default_rng(0).standard_normal((50, 1, 576)).astype(np.float32)
RATES = [(16000, 576), (8000, 288)]


def file(name: str = "silero_vad") -> Path:
    assert SPEC is not None
    assert SPEC.origin is not None
    return Path(SPEC.origin).parent / "data" / f"{name}.onnx"


def plain(path: Path, frames: Any, **feeds: Any) -> dict[str, Any]:
    """Return the outputs of ONNX Runtime for each frame."""
    import onnxruntime

    session, state, pairs = onnxruntime.InferenceSession(path), STATE, []
    for frame in frames:
        output, state = session.run(None, {"input": frame, "state": state, **feeds})
        pairs.append((output, state))
    outputs, states = zip(*pairs, strict=True)
    return {"output": np.stack(outputs), "stateN": np.stack(states)}


@pytest.mark.parametrize(("rate", "samples"), RATES)
def test_one_frame(tmp_path: Path, rate: int, samples: int) -> None:
    frame, saved = SOUND[0, :, :samples], tmp_path / "out.npz"
    np.savez(tmp_path / "in.npz", input=frame, state=STATE, sr=rate)
    command = ["run", str(file()), "--inputs", str(tmp_path / "in.npz"), "--output", str(saved)]
    outcome = CliRunner().invoke(cli, [*command, "--device", "cpu"])
    assert outcome.exit_code == 0, outcome.output
    arrays = np.load(saved)
    for name, expected in plain(file(), [frame], sr=np.array(rate)).items():
        np.testing.assert_array_equal(arrays[name], expected[0])


@pytest.mark.parametrize(("rate", "samples"), RATES)
@pytest.mark.parametrize("name", ["silero_vad", "silero_vad_half"])
def test_a_stream(name: str, rate: int, samples: int) -> None:
    from modeci_mdf.mdf import Edge

    model = mdf_loop.from_onnx(file(name))
    graph = model.graphs[0]
    sender, port = graph.metadata["outputs"]["stateN"].rsplit(".", 1)
    (state,) = (node for node in graph.nodes if node.id == "state")
    state.input_ports[0].default_value = STATE
    ends = {"receiver": "state", "receiver_port": "state"}
    graph.edges.append(Edge(id="feedback", sender=sender, sender_port=port, **ends))
    feeds = {"sr": np.array(rate)} if name == "silero_vad" else {}
    frames = SOUND[:, :, :samples]
    results = mdf_loop.compile(model, device="cpu").run({"input": frames, **feeds}, steps=50)
    for output, expected in plain(file(name), frames, **feeds).items():
        np.testing.assert_array_equal(results[output], expected)
