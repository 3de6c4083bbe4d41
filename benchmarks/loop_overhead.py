"""Compare the loop overhead of a compiled model with a hand-written ONNX Loop and other implementations.

    python benchmarks/loop_overhead.py [--iterations 20000] [--rounds 15]

For each body the same arithmetic is run by

- ours: the MDF model compiled by mdf_loop, one run of all iterations;
- hand: a hand-written ONNX Loop of the same operations in ONNX Runtime, same process;
- numpy: a plain Python loop over numpy arrays;
- engine: modeci_mdf's own engine, the body as a stateful node, one evaluate() per iteration;
- reference: onnx's ReferenceEvaluator on the hand-written model.

Samples of all ways alternate, so that all see the same state of the machine. A figure is a median, and a
ratio is a ratio of medians. For very small bodies, two sessions of the same model differ by up to 10 %
because of their memory addresses. Several sessions of each way are therefore created and used in turn.
Compile times are listed separately.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import mdf_loop
from mdf_loop.run.device import Placement
from mdf_loop.run.onnxruntime.session import Session

STANDARD = Placement("cpu", native="off")
"""Standard ONNX Runtime operators; `native.py` measures native loops."""

Array = np.ndarray
ONE, DT = 1.0000001, 5e-5
RNG = np.random.default_rng(7)
WEIGHTS = RNG.normal(0, 0.1, (100, 100))
FN_V = "(a*V*V*V + c*V + d - W + I) / tau_v"
FN_W = "(V - b*W + g) / tau_w"
FN = {"a": -1 / 3, "c": 1.0, "d": 0.0, "I": 0.5, "tau_v": 1.0, "b": 0.8, "g": 0.7, "tau_w": 12.5}


@dataclass(frozen=True)
class Body:
    """A loop body in every form: MDF expressions, ONNX operations and a numpy function."""

    name: str
    initial: dict[str, Array]
    parameters: dict[str, object]
    updates: dict[str, str]
    onnx_schema: list[tuple[str, list[str], str]]
    leaves: list[str]
    step: Callable[..., tuple[Array, ...]]


def chain(n: int) -> Body:
    """Return a body of n alternating additions and multiplications."""
    expression, ops, last = "x", [], "x"
    for k in range(n):
        symbol, op_type = ("*", "Mul") if k % 2 else ("+", "Add")
        expression = f"({expression} {symbol} one)"
        ops.append((op_type, [last, "one"], f"t{k}"))
        last = f"t{k}"

    def step(x: Array) -> tuple[Array]:
        for k in range(n):
            x = x * ONE if k % 2 else x + ONE
        return (x,)

    return Body(
        f"{n} op{'s' if n > 1 else ''}",
        {"x": np.array([0.5])},
        {"one": ONE},
        {"x": expression},
        ops,
        [last],
        step,
    )


def fitzhugh_nagumo() -> Body:
    """Return one Euler step of the FitzHugh-Nagumo neuron."""
    ops = [
        ("Mul", ["a", "V"], "m1"),
        ("Mul", ["m1", "V"], "m2"),
        ("Mul", ["m2", "V"], "m3"),
        ("Mul", ["c", "V"], "m4"),
        ("Add", ["m3", "m4"], "s1"),
        ("Add", ["s1", "d"], "s2"),
        ("Sub", ["s2", "W"], "s3"),
        ("Add", ["s3", "I"], "s4"),
        ("Div", ["s4", "tau_v"], "dv"),
        ("Mul", ["dv", "dt"], "dvt"),
        ("Add", ["V", "dvt"], "V1"),
        ("Mul", ["b", "W"], "m5"),
        ("Sub", ["V", "m5"], "s5"),
        ("Add", ["s5", "g"], "s6"),
        ("Div", ["s6", "tau_w"], "dw"),
        ("Mul", ["dw", "dt"], "dwt"),
        ("Add", ["W", "dwt"], "W1"),
    ]

    def step(v: Array, w: Array) -> tuple[Array, Array]:
        p = FN
        dv = (p["a"] * v * v * v + p["c"] * v + p["d"] - w + p["I"]) / p["tau_v"]
        dw = (v - p["b"] * w + p["g"]) / p["tau_w"]
        return v + dv * DT, w + dw * DT

    return Body(
        "FitzHugh-Nagumo step",
        {"V": np.array([-1.0]), "W": np.array([0.1])},
        {**FN, "dt": DT},
        {"V": f"V + {FN_V} * dt", "W": f"W + {FN_W} * dt"},
        ops,
        ["V1", "W1"],
        step,
    )


def recurrent_network() -> Body:
    """Return one step of a recurrent network with 100 tanh units."""

    def step(r: Array) -> tuple[Array]:
        return (np.tanh(r @ WEIGHTS + 0.1),)

    return Body(
        "RNN step, 100 units",
        {"r": np.full(100, 0.2)},
        {"weights": WEIGHTS.tolist(), "drive": 0.1},
        {"r": "numpy.tanh(r @ weights + drive)"},
        [
            ("MatMul", ["r", "weights"], "wr"),
            ("Add", ["wr", "drive"], "total"),
            ("Tanh", ["total"], "r1"),
        ],
        ["r1"],
        step,
    )


BODIES = (chain(1), chain(8), chain(32), fitzhugh_nagumo(), recurrent_network())


# --- the ways to run a body -------------------------------------------------------------------


def loop_graph(body: Body) -> dict[str, object]:
    """Return an MDF graph that runs the body in a loop node; the trip count is an input."""
    names = list(body.initial)
    nodes = {
        "step": {
            "input_ports": {name: {} for name in (*names, *body.parameters)},
            "output_ports": {
                **{f"{name}_next": {"value": e} for name, e in body.updates.items()},
                "go": {"value": "True"},
            },
        }
    }
    metadata = {"inputs": ["i", "go_in", *names], "outputs": ["go", *(f"{n}_next" for n in names)]}
    args = {
        "M": "n",
        "v_initial": "(" + "".join(f"{n}_0, " for n in names) + ")",
        "body": {"b": {"metadata": metadata, "nodes": nodes}},
    }
    has_several = len(names) > 1
    node = {
        "input_ports": {"n": {"type": "int64"}},
        "functions": {"f": {"function": "onnx::Loop", "args": args}},
        "parameters": {
            **{f"{n}_0": {"value": a.tolist()} for n, a in body.initial.items()},
            **{n: {"value": v} for n, v in body.parameters.items()},
        },
        "output_ports": {
            n: {"value": f"f[{k}]" if has_several else "f"} for k, n in enumerate(names)
        },
    }
    return {"g": {"nodes": {"A": node}, "edges": {}}}


def build_hand_written_loop(body: Body) -> onnx.ModelProto:
    """Build an ONNX Loop of the same operations, with constants as initializers."""

    def info(name: str, array: Array) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, array.shape)

    nodes = [helper.make_node(op, inputs, [out]) for op, inputs, out in body.onnx_schema]
    scalar = [("i", TensorProto.INT64), ("go", TensorProto.BOOL)]
    inputs = [helper.make_tensor_value_info(name, kind, []) for name, kind in scalar]
    inputs += [info(name, array) for name, array in body.initial.items()]
    outputs = [helper.make_tensor_value_info("go", TensorProto.BOOL, [])]
    outputs += [info(n, a) for n, a in zip(body.leaves, body.initial.values(), strict=True)]
    inner = helper.make_graph(nodes, "body", inputs, outputs)
    finals = [f"{name}_final" for name in body.initial]
    loop = helper.make_node(
        "Loop", ["n", "true", *(f"{name}_0" for name in body.initial)], finals, body=inner
    )
    constants = {**body.parameters, **{f"{n}_0": a for n, a in body.initial.items()}}
    initializers = [
        numpy_helper.from_array(np.asarray(v, np.float64), name) for name, v in constants.items()
    ]
    initializers.append(numpy_helper.from_array(np.array(True), "true"))
    graph = helper.make_graph(
        [loop],
        "hand",
        [helper.make_tensor_value_info("n", TensorProto.INT64, [])],
        [info(f, a) for f, a in zip(finals, body.initial.values(), strict=True)],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def engine_graph(body: Body) -> object:
    """Return a graph of one stateful node for modeci_mdf's engine.

    The functions of the node compute all new values from the old values before the parameters change.
    """
    from modeci_mdf.mdf import Function, Graph, Node, OutputPort, Parameter

    node = Node(id="A")
    for name, value in body.parameters.items():
        node.parameters.append(Parameter(id=name, value=value))
    for name, expression in body.updates.items():
        node.functions.append(Function(id=f"{name}_next", value=expression))
        initial = Parameter(id=f"{name}_0", value=body.initial[name].tolist())
        state = Parameter(id=name, default_initial_value=f"{name}_0", value=f"{name}_next")
        node.parameters += [initial, state]
        node.output_ports.append(OutputPort(id=f"{name}_out", value=name))
    return Graph(id="g", nodes=[node])


def numpy_loop(body: Body, n: int) -> tuple[Array, ...]:
    """Run the body in a plain Python loop and return the final values."""
    values = tuple(body.initial.values())
    for _ in range(n):
        values = body.step(*values)
    return values


# --- measurement ------------------------------------------------------------------------------


SESSIONS = 8


def load_hand_written_loop(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Load the hand-written model in ONNX Runtime with the session options of mdf_loop."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def time_call(run: Callable[[], object]) -> float:
    """Return the wall time of one call in seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(body: Body, iterations: int, rounds: int) -> dict[str, float]:
    """Return microseconds per iteration of every way, the ratio to the hand-written loop, and compile ms."""
    graph = loop_graph(body)
    feeds = {"n": np.array(iterations)}
    start = time.perf_counter()
    compiled = mdf_loop.compile(graph, device="cpu")
    program = compiled.prepare(feeds)[2].program
    compile_ms = (time.perf_counter() - start) * 1e3
    ours = compiled.run(feeds)
    model = build_hand_written_loop(body)
    sessions = [
        (Session(program, STANDARD), load_hand_written_loop(model)) for _ in range(SESSIONS)
    ]
    expected = numpy_loop(body, iterations)
    by_hand = sessions[0][1].run(None, feeds)
    for array, hand, plain in zip(ours.values(), by_hand, expected, strict=True):
        np.testing.assert_allclose(array, hand, rtol=1e-12)
        np.testing.assert_allclose(array, plain, rtol=1e-9)

    few = max(iterations // 200, 20)
    reference = ReferenceEvaluator(model)
    with contextlib.redirect_stdout(io.StringIO()):
        from modeci_mdf.execution_engine import EvaluableGraph

        engine = EvaluableGraph(engine_graph(body))
        engine.evaluate()

    def evaluate() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            for _ in range(few):
                engine.evaluate()

    ways: dict[str, tuple[Callable[[], object], int]] = {
        "numpy": (lambda: numpy_loop(body, iterations // 10), iterations // 10),
        "reference": (lambda: reference.run(None, {"n": np.array(few)}), few),
        "engine": (evaluate, few),
    }
    samples: dict[str, list[float]] = {name: [] for name in ("ours", "hand", *ways)}
    for k in range(rounds):
        ours_session, hand_one = sessions[k % SESSIONS]
        pair = [
            ("ours", lambda s=ours_session: s.run(feeds)),
            ("hand", lambda s=hand_one: s.run(None, feeds)),
        ]
        for name, run in pair if k % 2 else reversed(pair):
            samples[name].append(time_call(run) / iterations * 1e6)
        for name in ("numpy", *(("reference", "engine") if k < 3 else ())):
            way, n = ways[name]
            samples[name].append(time_call(way) / n * 1e6)
    figures = {name: statistics.median(values) for name, values in samples.items()}
    return {**figures, "ratio": figures["ours"] / figures["hand"], "compile ms": compile_ms}


def main() -> None:
    """Print the table, ratios first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--iterations", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=48)
    options = parser.parse_args()
    versions = (
        f"onnxruntime {onnxruntime.__version__}, numpy {np.__version__}, onnx {onnx.__version__}"
    )
    print(f"Python {platform.python_version()}, {versions}, {platform.machine()}, one thread")
    print(f"{options.iterations} iterations a run, {options.rounds} rounds, float64\n")
    print(
        "| body | ours / hand-written | engine / ours | reference / ours | numpy / ours "
        "| ours | hand-written | numpy | reference | engine | compile ms |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for body in BODIES:
        f = measure(body, options.iterations, options.rounds)
        times = " | ".join(f"{f[k]:.3g}" for k in ("ours", "hand", "numpy", "reference", "engine"))
        print(
            f"| {body.name} | {f['ratio']:.3f} | {f['engine'] / f['ours']:.0f} "
            f"| {f['reference'] / f['ours']:.0f} | {f['numpy'] / f['ours']:.2f} "
            f"| {times} | {f['compile ms']:.0f} |"
        )
    print("\nus per iteration; compile ms: reading, compiling and creating the session")


if __name__ == "__main__":
    main()
