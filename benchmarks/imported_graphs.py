"""Networks of `imported.py` as ONNX models with values for their inputs.

Three networks with pooling layers are files of the package onnx (`light_*.onnx`). This module builds all
other networks. They take ONNX Runtime 3 to 10 milliseconds. A call of `run` costs 0.1 to 0.3 milliseconds,
which `cost_of_a_call.py` measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

Feeds = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Graph:
    """A network with values for its inputs."""

    model: onnx.ModelProto
    feeds: Feeds


def parse_graph(text: str, weights: Mapping[str, tuple[int, ...]], **feeds: np.ndarray) -> Graph:
    """Parse a network from ONNX text and add random weights with the given shapes."""
    rng = np.random.default_rng(5)
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    for name, shape in weights.items():
        terms = np.prod(shape[1:]) if len(shape) > 3 else np.prod(shape[-2:-1])
        scale = 0.7 / np.sqrt(terms)  # this scale damps rounding errors in loops
        array = (scale * rng.normal(size=shape)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return Graph(model, feeds)


def numbers(*shape: int) -> np.ndarray:
    """Return random float32 numbers."""
    return np.random.default_rng(6).normal(size=shape).astype(np.float32)


def load_light_network(name: str) -> Graph:
    """Load an image network that the package onnx ships."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = onnx.load(folder / f"light_{name}.onnx")
    inside = {weight.name for weight in model.graph.initializer}
    (image,) = (each for each in model.graph.input if each.name not in inside)
    return Graph(model, {image.name: numbers(1, 3, 224, 224)})


def poolings() -> Graph:
    """Build two convolutions on a spectrogram, each followed by a pooling layer."""
    return parse_graph(
        """f (float[1, 32, 60, 256] x) => (float[1, 32, 60, 16] y) {
          a = Conv <pads = [1, 1, 1, 1]> (x, W)
          b = MaxPool <kernel_shape = [1, 4], strides = [1, 4]> (a)
          d = Conv <pads = [1, 1, 1, 1]> (b, W)
          y = MaxPool <kernel_shape = [1, 4], strides = [1, 4]> (d) }""",
        {"W": (32, 32, 3, 3)},
        x=numbers(1, 32, 60, 256),
    )


def lstm() -> Graph:
    """Build a bidirectional LSTM over 120 frames whose final states are unused."""
    return parse_graph(
        """f (float[120, 4, 80] x) => (float[120, 2, 4, 128] y) {
          y, h, s = LSTM <hidden_size = 128, direction = "bidirectional"> (x, W, R, B) }""",
        {"W": (2, 512, 80), "R": (2, 512, 128), "B": (2, 1024)},
        x=numbers(120, 4, 80),
    )


def gru() -> Graph:
    """Build two GRU layers over 160 frames and a classification of the final state."""
    return parse_graph(
        """f (float[160, 2, 64] x) => (float[2, 10] y) {
          a, b = GRU <hidden_size = 160> (x, W, R)
          one = Constant <value_ints = [1]> ()
          d = Squeeze (a, one)
          e, h = GRU <hidden_size = 160> (d, V, S)
          zero = Constant <value_ints = [0]> ()
          last = Squeeze (h, zero)
          y = MatMul (last, P) }""",
        {
            "W": (1, 480, 64),
            "R": (1, 480, 160),
            "V": (1, 480, 160),
            "S": (1, 480, 160),
            "P": (160, 10),
        },
        x=numbers(160, 2, 64),
    )


def _loop(number: int, initial: str, shape: str, body: str, count: str = "n") -> str:
    """Return the text of a loop that computes `y<number>` from an initial value."""
    k = number
    return f"""y{k} = Loop ({count}, yes, {initial}) <body = b{k}
        (int64 i{k}, bool c{k}, float{shape} v{k}) => (bool g{k}, float{shape} w{k}) {{
          g{k} = Identity (c{k}) {body.replace("#", str(k))} }}>"""


YES = "yes = Constant <value = bool {1}> ()"
CONVOLUTION = "a# = Conv <pads = [1, 1, 1, 1]> (v#, F) w# = Tanh (a#)"
SOFTMAX = "a# = Softmax <axis = 1> (v#) w# = Add (a#, v#)"
PRODUCT = "a# = MatMul (v#, W) w# = Tanh (a#)"


def iterated(shape: tuple[int, ...], body: str, count: int, **weights: tuple[int, ...]) -> Graph:
    """Build one loop whose body computes `w#` from `v#`."""
    kind = str(list(shape))
    text = f"f (int64 n, float{kind} x) => (float{kind} y1) {{ {YES} {_loop(1, 'x', kind, body)} }}"
    return parse_graph(text, weights, n=np.array(count), x=numbers(*shape))


def convolution() -> Graph:
    """Build a loop of 100 convolutions with 8 channels."""
    return iterated((1, 8, 32, 32), CONVOLUTION, 100, F=(8, 8, 3, 3))


def softmax() -> Graph:
    """Build a loop of 300 softmax operations on 64 rows."""
    return iterated((64, 64), SOFTMAX, 300)


def product() -> Graph:
    """Build a loop of 100 matrix products with 128 rows."""
    return iterated((128, 128), PRODUCT, 100, W=(128, 128))


def decoding() -> Graph:
    """Build a greedy decoder of 300 tokens with key and value caches of 512 rows."""
    body = """
          row# = Gather (E, s#)
          q# = MatMul (row#, Q) k# = MatMul (row#, K)
          zero# = Constant <value_ints = [0]> ()
          at1# = Unsqueeze (i1, zero#) at# = Unsqueeze (at1#, zero#)
          w# = ScatterND (v#, at#, k#)
          t# = Transpose (w#) a# = MatMul (q#, t#) p# = Softmax <axis = 1> (a#)
          o# = MatMul (p#, w#) l# = MatMul (o#, O)
          r# = ArgMax <axis = 1, keepdims = 0> (l#)"""
    text = f"""f (int64 n, float[512, 64] x, int64[1] first) => (float[512, 64] y, int64[m, 1] token) {{
        {YES}
        y, last, token = Loop (n, yes, x, first) <body = b
          (int64 i1, bool c1, float[512, 64] v1, int64[1] s1)
          => (bool g1, float[512, 64] w1, int64[1] r1, int64[1] z1) {{
            g1 = Identity (c1) {body.replace("#", "1")} z1 = Identity (r1) }}> }}"""
    sizes = {"E": (200, 64), "Q": (64, 64), "K": (64, 64), "O": (64, 200)}
    first = np.array([7])
    return parse_graph(text, sizes, n=np.array(300), x=np.zeros((512, 64), np.float32), first=first)


def two_loops() -> Graph:
    """Build a loop of convolutions followed by a loop of softmax operations."""
    kind = "[1, 8, 32, 32]"
    text = f"""f (int64 n, float{kind} x) => (float[64, 128] y2) {{ {YES}
        {_loop(1, "x", kind, CONVOLUTION)}
        rows = Constant <value_ints = [64, 128]> ()
        r = Reshape (y1, rows)
        {_loop(2, "r", "[64, 128]", SOFTMAX)} }}"""
    return parse_graph(text, {"F": (8, 8, 3, 3)}, n=np.array(80), x=numbers(1, 8, 32, 32))


def three_loops() -> Graph:
    """Build three loops of matrix products in series."""
    kind = "[128, 128]"
    loops = (_loop(k, initial, kind, PRODUCT) for k, initial in ((1, "x"), (2, "y1"), (3, "y2")))
    text = f"f (int64 n, float{kind} x) => (float{kind} y3) {{ {YES} {' '.join(loops)} }}"
    return parse_graph(text, {"W": (128, 128)}, n=np.array(40), x=numbers(128, 128))


def _recurrence(k: int, rows: str) -> str:
    """Return the text of a loop with a gated recurrence over rows of 2 x 192 numbers."""
    return f"""last{k}, y{k} = Loop (n, yes, zero) <body = b{k}
        (int64 i{k}, bool c{k}, float[2, 192] h{k})
        => (bool g{k}, float[2, 192] u{k}, float[2, 192] o{k}) {{
          g{k} = Identity (c{k}) x{k} = Gather <axis = 0> ({rows}, i{k})
          a{k} = MatMul (x{k}, W) b1{k} = MatMul (h{k}, R) s{k} = Add (a{k}, b1{k})
          z{k}, t{k} = Split <axis = 1> (s{k}) p{k} = Sigmoid (z{k}) q{k} = Tanh (t{k})
          m{k} = Mul (p{k}, h{k}) d{k} = Sub (q{k}, m{k}) u{k} = Tanh (d{k}) o{k} = Identity (u{k}) }}>"""


def four_loops() -> Graph:
    """Build four loops in series, each a gated recurrent layer over 60 frames."""
    layers = ((1, "x"), (2, "y1"), (3, "y2"), (4, "y3"))
    loops = " ".join(_recurrence(k, rows) for k, rows in layers)
    text = f"""f (int64 n, float[60, 2, 192] x) => (float[60, 2, 192] y4) {{ {YES}
        shape = Constant <value_ints = [2, 192]> ()
        zero = ConstantOfShape <value = float[1] {{0.0}}> (shape) {loops} }}"""
    return parse_graph(
        text, {"W": (192, 384), "R": (192, 384)}, n=np.array(60), x=numbers(60, 2, 192)
    )


def _layer(k: int, source: str) -> str:
    """Return the text of a transformer layer with 4 heads."""
    return f"""n{k} = LayerNormalization ({source}, S)
        q{k} = MatMul (n{k}, Q) k{k} = MatMul (n{k}, K) v{k} = MatMul (n{k}, V)
        qr{k} = Reshape (q{k}, heads) qt{k} = Transpose <perm = [1, 0, 2]> (qr{k})
        kr{k} = Reshape (k{k}, heads) kt{k} = Transpose <perm = [1, 2, 0]> (kr{k})
        vr{k} = Reshape (v{k}, heads) vt{k} = Transpose <perm = [1, 0, 2]> (vr{k})
        a{k} = MatMul (qt{k}, kt{k}) p{k} = Softmax <axis = 2> (a{k}) o{k} = MatMul (p{k}, vt{k})
        ot{k} = Transpose <perm = [1, 0, 2]> (o{k}) or{k} = Reshape (ot{k}, whole)
        r{k} = Add (or{k}, {source}) f{k} = MatMul (r{k}, F) e{k} = Relu (f{k})
        d{k} = MatMul (e{k}, G) x{k} = Add (d{k}, r{k})"""


def transformer() -> Graph:
    """Build six transformer layers on 64 tokens of 128 numbers."""
    layers = " ".join(_layer(k, f"x{k - 1}") for k in range(1, 7))
    text = f"""f (float[64, 128] x0) => (float[64, 128] y) {{
        heads = Constant <value_ints = [64, 4, 32]> ()
        whole = Constant <value_ints = [64, 128]> () {layers} y = Identity (x6) }}"""
    square = dict.fromkeys("QKV", (128, 128))
    weights = {"S": (128,), **square, "F": (128, 512), "G": (512, 128)}
    return parse_graph(text, weights, x0=numbers(64, 128))


def perceptron() -> Graph:
    """Build six layers of 512 units on 128 rows."""
    layers = " ".join(f"a{k} = MatMul (x{k}, W) x{k + 1} = Relu (a{k})" for k in range(6))
    text = f"f (float[128, 512] x0) => (float[128, 512] y) {{ {layers} y = Identity (x6) }}"
    return parse_graph(text, {"W": (512, 512)}, x0=numbers(128, 512))


GRAPHS: Mapping[str, Callable[[], Graph]] = {
    "squeezenet": lambda: load_light_network("squeezenet"),
    "inception": lambda: load_light_network("inception_v1"),
    "resnet50": lambda: load_light_network("resnet50"),
    "poolings": poolings,
    "lstm": lstm,
    "gru": gru,
    "decoding": decoding,
    "two loops": two_loops,
    "three loops": three_loops,
    "four loops": four_loops,
    "transformer": transformer,
    "perceptron": perceptron,
}
"""Networks: four with pooling layers, two recurrent, four with one to four loops, two others."""

LOOPS: Mapping[str, Callable[[], Graph]] = {
    "convolution": convolution,
    "softmax": softmax,
    "product": product,
    "decoding": decoding,
}
"""Loops that could be native, but that run faster with ONNX Runtime's kernels."""
