"""Native loops: a loop compiled to machine code that ONNX Runtime calls as a custom operator.

`support` decides whether a loop has machine code, and states the reason if it has none. `lanes` and `steps`
write LLVM code. `machine`, the only module that uses llvmlite, compiles the code. `operator` registers the
machine code with ONNX Runtime. All other loops are standard: they are ONNX Runtime's own Loop or Scan nodes.
Saved files contain only standard loops.
"""
