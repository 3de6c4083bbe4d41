"""Import an ONNX file with a loop, draw, run and export the model, and import the exported file."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
settle (double[3] drive) => (double[3] rates, double[rounds, 3] trace)
<double[3, 3] weights = {0, 0.25, -0.5, 0.25, 0, -0.5, 0.25, 0.25, 0},
 double[3] first = {1, 0.5, 0.25}, double tolerance = {0.000001}, int64 most = {100}, bool yes = {1}>
{
    rates, trace = Loop (most, yes, first) <body = one_round (int64 i, bool go, double[3] r)
        => (bool moves, double[3] r_next, double[3] r_seen) {
            others = MatMul (weights, r)
            total = Add (drive, others)
            r_next = Relu (total)
            change = Sub (r_next, r)
            size = Abs (change)
            largest = ReduceMax <keepdims = 0> (size)
            moves = Greater (largest, tolerance)
            r_seen = Identity (r_next)
        }>
}
"""

onnx.save(onnx.parser.parse_model(TEXT), "settle.onnx")
model = mdf_loop.from_onnx("settle.onnx")
print("nodes:", *(node.id for node in model.graphs[0].nodes))
print("it is model.yaml:", model.to_yaml() == MODEL.read_text())
mdf_loop.draw(model, "settle.svg", rankdir="TB")

drive = np.array([1.0, 0.5, 0.25])
compiled = mdf_loop.compile(model)
results = compiled.run({"drive": drive})
print("rates:", results["rates"].round(4), "after", *results["trace"].shape[:1], "rounds")
session = onnxruntime.InferenceSession("settle.onnx", providers=["CPUExecutionProvider"])
rates, trace = session.run(None, {"drive": drive})
print("as the file gives them:", np.array_equal(results["trace"], trace))

compiled.save("again.onnx")
print("there and back:", mdf_loop.from_onnx("again.onnx").to_yaml() == model.to_yaml())
