"""Results of an ONNX model in every engine."""

from __future__ import annotations

from typing import Any

import onnxruntime

import mdf_loop


def all_engines(model: Any, feeds: Any, **options: Any) -> list[Any]:
    """Return the results of standard and native loops, the interpreter, and a saved file in plain ONNX Runtime."""
    opened = mdf_loop.from_onnx(model)
    results = [
        mdf_loop.compile(opened, native=native, **options).run(feeds, engine=engine)
        for native, engine in [
            ("off", "onnxruntime"),
            ("require", "onnxruntime"),
            ("off", "interpreter"),
        ]
    ]
    proto = mdf_loop.compile(opened, **options).to_onnx(feeds)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    runtime_outputs = dict(zip(names, session.run(names, feeds), strict=True))
    return [*results, runtime_outputs]
