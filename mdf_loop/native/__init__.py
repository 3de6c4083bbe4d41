"""Loops as machine code: one kernel for a loop, an operator of ONNX Runtime's.

`support` says what form a loop has, or why it has none; `lanes` writes the form's code, `machine`
(the one place that knows llvmlite) makes it run, `operator` hands it to ONNX Runtime. A loop without
a form is standard: ONNX Runtime's own Loop or Scan, as in files, which are always standard.
"""
