"""Compare a call of a compiled model with plain ONNX Runtime on the same file.

    python benchmarks/cost_of_a_call.py [--rounds 100] [--turn 20] [--only NAME]

The benchmark writes five ONNX files with 100 to 1000 nodes, imports them and runs them on one value for
each input. `CompiledModel.run` and `onnxruntime.InferenceSession.run` alternate in turns of 20 calls. This
models a program that calls one model repeatedly. With `--turn 1` each call evicts the code and weights of
the other way from the caches.

A figure is the median in microseconds. Both ways compute on one thread, which is fastest for values this
small. A second thread of plain ONNX Runtime would spin while the other way is measured. The benchmark first
compares the outputs. A call may cost at most 1.1 times plain ONNX Runtime plus 30 us.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import mdf_loop
from mdf_loop import Results

MAX_FACTOR, MAX_EXTRA_US = 1.1, 30.0
"""Threshold of a call: a multiple of the time of plain ONNX Runtime, plus microseconds."""

WARM = 2
"""Number of warm-up rounds."""

Feeds = Mapping[str, np.ndarray]


@dataclass
class Writer:
    """Builder of an ONNX graph whose values are all float32."""

    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def input(self, name: str, *shape: int) -> str:
        """Add an input with a random value and return the input's name."""
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self.feeds[name] = self.rng.normal(size=shape).astype(np.float32)
        return name

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        """Add a random constant and return its name."""
        name = f"w{len(self.weights)}"
        array = (scale * self.rng.normal(size=shape)).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one output and return the output's name."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name, **attributes))
        return name

    def save(self, path: Path, output: str) -> None:
        """Write the graph to a file."""
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, outputs, self.weights)
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)


# --- models -----------------------------------------------------------------------------------


def layers(w: Writer) -> str:
    """Build a perceptron of 100 layers of 32 units: 300 nodes."""
    x = w.input("x", 1, 32)
    for _ in range(100):
        x = w.op("MatMul", x, w.weight(32, 32, scale=0.2))
        x = w.op("Tanh", w.op("Add", x, w.weight(32)))
    return x


def elementwise(w: Writer) -> str:
    """Build a chain of 1000 elementwise nodes on 16 numbers."""
    x = w.input("x", 16)
    for k in range(250):
        x = w.op("Mul", x, w.weight(16))
        x = w.op("Add", x, w.weight(16))
        x = w.op("Tanh", x)
        x = w.op("Sin" if k % 2 else "Sigmoid", x)
    return x


def recurrent(w: Writer) -> str:
    """Build a gated recurrent cell of 24 units, unrolled over 40 steps: 440 nodes."""
    x, h = w.input("x", 1, 24), w.input("h", 1, 24)
    wz, uz, wc, uc = (w.weight(24, 24, scale=0.2) for _ in range(4))
    one = w.weight(1)
    for _ in range(40):
        z = w.op("Sigmoid", w.op("Add", w.op("MatMul", x, wz), w.op("MatMul", h, uz)))
        c = w.op("Tanh", w.op("Add", w.op("MatMul", x, wc), w.op("MatMul", h, uc)))
        candidate = w.op("Mul", w.op("Sub", one, z), c)
        h = w.op("Add", w.op("Mul", z, h), candidate)
    return h


def convolutions(w: Writer) -> str:
    """Build 25 residual blocks on an image of 12 x 12: 100 nodes."""
    x = w.input("image", 1, 8, 12, 12)
    for _ in range(25):
        y = w.op("Conv", x, w.weight(8, 8, 3, 3, scale=0.1), w.weight(8), pads=[1, 1, 1, 1])
        y = w.op("Conv", w.op("Relu", y), w.weight(8, 8, 1, 1, scale=0.1))
        x = w.op("Add", x, y)
    return x


def many_inputs(w: Writer) -> str:
    """Build a graph that passes 30 inputs of 8 numbers through 6 layers each and sums them: 570 nodes."""
    total = w.weight(8)
    for k in range(30):
        x = w.input(f"x{k}", 8)
        for _ in range(6):
            x = w.op("Tanh", w.op("Add", w.op("Mul", x, w.weight(8)), w.weight(8)))
        total = w.op("Add", total, x)
    return total


MODELS: dict[str, Callable[[Writer], str]] = {
    "layers": layers,
    "elementwise": elementwise,
    "recurrent": recurrent,
    "convolutions": convolutions,
    "many inputs": many_inputs,
}


@dataclass(frozen=True)
class Pair:
    """One ONNX file, loaded both as a compiled model and in plain ONNX Runtime."""

    nodes: int
    feeds: Feeds
    ours: mdf_loop.CompiledModel
    plain: Any

    def call_ours(self) -> Results:
        """Call the compiled model."""
        return self.ours.run(self.feeds)

    def call_plain(self) -> list[Any]:
        """Call plain ONNX Runtime."""
        arrays: list[Any] = self.plain.run(None, self.feeds)
        return arrays


def pair(name: str, folder: Path) -> Pair:
    """Write a model to a file, compile it, and load it in plain ONNX Runtime."""
    writer = Writer()
    path = folder / f"{name.replace(' ', '_')}.onnx"
    writer.save(path, MODELS[name](writer))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    ours = mdf_loop.compile(path, device="cpu")
    return Pair(len(writer.nodes), writer.feeds, ours, session)


# --- measurement ------------------------------------------------------------------------------


def median_microseconds(pair: Pair, rounds: int, turn: int) -> tuple[float, float]:
    """Return the median microseconds of a call of the compiled model and of plain ONNX Runtime."""
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds + WARM):
        for call, times in zip((pair.call_ours, pair.call_plain), samples, strict=True):
            for _ in range(turn):
                start = time.perf_counter()
                call()
                times.append((time.perf_counter() - start) * 1e6)
    ours, plain = (statistics.median(times[WARM * turn :]) for times in samples)
    return ours, plain


def check_outputs(pair: Pair) -> None:
    """Raise an error if the compiled model and plain ONNX Runtime return different numbers."""
    for ours, plain in zip(pair.call_ours().values(), pair.call_plain(), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-5, strict=True)


def measure(names: list[str], rounds: int, turn: int) -> dict[str, tuple[float, float]]:
    """Print the cost of a call for each model and return the medians by name."""
    print("| model | nodes | ours | plain | ours / plain | ours - plain | allowed |")
    print("|---|---|---|---|---|---|---|")
    times_by_model = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            model_pair = pair(name, Path(folder))
            check_outputs(model_pair)
            ours, plain = times_by_model[name] = median_microseconds(model_pair, rounds, turn)
            allowed = MAX_FACTOR * plain + MAX_EXTRA_US
            print(
                f"| {name} | {model_pair.nodes} | {ours:.1f} | {plain:.1f} | {ours / plain:.2f} "
                f"| {ours - plain:.1f} | {allowed:.1f} |",
                flush=True,
            )
    return times_by_model


def main() -> None:
    """Print a table and exit with code 1 if a call exceeds its threshold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--turn", type=int, default=20)
    parser.add_argument("--only", choices=list(MODELS))
    options = parser.parse_args()
    print(f"onnxruntime {onnxruntime.__version__}, microseconds a call")
    times_by_model = measure(
        [options.only] if options.only else list(MODELS), options.rounds, options.turn
    )
    slow = [
        name
        for name, (ours, plain) in times_by_model.items()
        if ours > MAX_FACTOR * plain + MAX_EXTRA_US
    ]
    if slow:
        sys.exit(
            f"more than {MAX_FACTOR} times plain ONNX Runtime and {MAX_EXTRA_US:g} us: {', '.join(slow)}"
        )


if __name__ == "__main__":
    main()
