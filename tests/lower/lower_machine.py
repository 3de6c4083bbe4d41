"""Execution of lowered expressions: by a small interpreter, by ONNX Runtime, and by Python as reference."""

import math
import warnings

import numpy as np
import onnxruntime

from mdf_loop import ir
from mdf_loop.emit import to_onnx
from mdf_loop.errors import LoopError, UnsupportedError
from mdf_loop.ir.types import dtype_name
from mdf_loop.lower import Scope, lower_expression, tensor
from mdf_loop.lower.builder import ModelBuilder, Options
from mdf_loop.ops.numpy_evaluation import evaluate
from mdf_loop.pipeline import LEGAL, prepare


class Lowered:
    """Expression or function, lowered for the given inputs and ready to run."""

    def __init__(self, lower, inputs, precision="float64", dynamic=False):
        self.b = ModelBuilder(Options(precision=precision))
        self.arrays = {name: np.asarray(value) for name, value in inputs.items()}
        self.values = {
            name: self.b.new(dtype_name(array), self._shape(name, array, dynamic), name)
            for name, array in self.arrays.items()
        }
        scope = Scope(dict(self.values), is_node=True)
        self.term = lower(self.b, scope)

    @staticmethod
    def _shape(name, array, dynamic):
        return tuple(f"{name}{k}" if dynamic else n for k, n in enumerate(array.shape))

    def outputs(self, term=None):
        """Return the tensors of the result, with tuples flattened."""
        term = self.term if term is None else term
        if isinstance(term, tuple):
            return [value for part in term for value in self.outputs(part)]
        return [term]

    def interpret(self):
        known = {self.values[name]: array for name, array in self.arrays.items()}
        for op in self.b.ops:
            if isinstance(op, ir.Constant):
                known[op.value] = op.array
            elif isinstance(op, ir.Guard):
                assert known[op.condition], op.message
                known[op.output] = known[op.value]
            else:
                feeds = [None if v is None else known[v] for v in op.inputs]
                results = evaluate(op.op_type, feeds, op.attributes, len(op.outputs))
                for value, array in zip(op.outputs, results, strict=True):
                    assert dtype_name(array) == value.dtype, (op.op_type, value.type)
                    assert value.shape is None or len(value.shape) == array.ndim, value.type
                    for stated, extent in zip(value.shape or (), array.shape, strict=False):
                        assert isinstance(stated, str) or stated == extent, (
                            value.type,
                            array.shape,
                        )
                known.update(zip(op.outputs, results, strict=True))
        return [known[value] for value in self.outputs()]

    def model(self):
        """Return the ONNX model for ONNX Runtime, with operations that have kernels there."""
        inputs = tuple(ir.Input(value) for value in self.values.values())
        results = tuple(ir.Output(f"result{k}", value) for k, value in enumerate(self.outputs()))
        program = ir.Program("lowered", inputs, tuple(self.b.ops), results)
        return to_onnx(prepare(program, LEGAL))

    def run(self):
        """Return the results of ONNX Runtime, or None if ONNX Runtime lacks a kernel for an operator."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        try:
            model = self.model().SerializeToString()
        except UnsupportedError:
            return None
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        inputs = {self.values[name].name: array for name, array in self.arrays.items()}
        return session.run(None, inputs)


def lowered(text, precision="float64", dynamic=False, **inputs):
    return Lowered(lambda b, scope: lower_expression(b, text, scope), inputs, precision, dynamic)


def lowered_unless(refusals, text, **inputs):
    """Return the lowered expression, or None if it is refused with one of these texts."""
    try:
        return lowered(text, **inputs)
    except LoopError as error:
        if any(words in str(error) for words in refusals):
            return None
        raise


def python_value(text, inputs):
    """Return the result of Python and numpy."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return eval(text, {"numpy": np, "math": math}, dict(inputs))


def flat(result):
    if isinstance(result, tuple):
        return [array for part in result for array in flat(part)]
    return [np.asarray(result)]


def assert_same(results, expected, rtol=4e-15, atol=0.0, hint=""):
    assert len(results) == len(expected), hint
    for ours, theirs in zip(results, expected, strict=True):
        assert str(ours.dtype) == str(theirs.dtype), hint
        assert ours.shape == theirs.shape, hint
        tolerance = max(rtol, 8 * np.finfo(theirs.dtype).eps) if theirs.dtype.kind == "f" else 0
        np.testing.assert_allclose(
            ours, theirs, rtol=tolerance, atol=atol, equal_nan=True, err_msg=hint
        )


def assert_like_python(text, **inputs):
    """Check that our interpreter, Python and ONNX Runtime give the same results."""
    expected = flat(python_value(text, inputs))
    program = lowered(text, **inputs)
    assert_same(program.interpret(), expected, hint=f"{text} with {inputs}")
    results = program.run() if expected else None
    if results is not None:
        assert_same(
            [np.asarray(each) for each in results],
            expected,
            atol=1e-15,
            hint=f"ONNX Runtime: {text}",
        )


def tensor_of(program):
    return tensor(program.b, program.term)
