"""Evaluation of a program by JAX, operation by operation; integers, booleans and loops are left to Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from mdf_loop.ir import Constant, Guard, If, Loop, Op, Operation, Program, Value
from mdf_loop.ir.types import kind_of, numpy_dtype
from mdf_loop.ops.numpy_evaluation import evaluate

Values = dict[Value, Any]


def gradient_by_jax(
    program: Program, number: str, arrays: Mapping[str, np.ndarray], wrt: Collection[str]
) -> dict[str, np.ndarray]:
    """Return the gradient of a number by inputs."""
    import jax

    def evaluated(moved: Mapping[str, Any]) -> Any:
        values: Values = {e.value: {**arrays, **moved}[e.value.name] for e in program.inputs}
        _run(program.ops, values)
        (output,) = (o for o in program.outputs if o.name == number)
        return values[output.value]

    with jax.enable_x64(True):
        gradients = jax.grad(evaluated)({name: jax.numpy.asarray(arrays[name]) for name in wrt})
        return {name: np.asarray(slope) for name, slope in gradients.items()}


def _run(ops: Iterable[Operation], values: Values) -> None:
    for op in ops:
        if isinstance(op, Constant):
            values[op.value] = op.array
        elif isinstance(op, Guard):
            values[op.output] = values[op.value]
        elif isinstance(op, If):
            branch = op.then if bool(values[op.condition]) else op.otherwise
            inside = dict(values)
            _run(branch.ops, inside)
            pairs = zip(op.outputs, branch.outputs, strict=True)
            values.update((output, inside[leaf]) for output, leaf in pairs)
        elif isinstance(op, Loop):
            _loop(op, values)
        else:
            _operation(op, values)


def _loop(loop: Loop, values: Values) -> None:
    import jax.numpy as jnp

    limit = None if loop.trip_count is None else int(values[loop.trip_count])
    go = loop.condition is None or bool(values[loop.condition])
    first = 0 if loop.first_iteration is None else int(values[loop.first_iteration])
    entering, i = [values[c.initial] for c in loop.carried], 0
    rows: list[list[Any]] = [[] for _ in loop.recorded]
    while (limit is None or i < limit) and go:
        inside = dict(values)
        inside[loop.iteration] = np.array(first + i)
        inside.update(zip((c.body_input for c in loop.carried), entering, strict=True))
        for s in loop.scanned:
            inside[s.row] = jnp.take(values[s.rows], -1 - i if s.is_backward else i, s.axis)
        _run(loop.ops, inside)
        entering = [inside[c.body_output] for c in loop.carried]
        for stack, recorded in zip(rows, loop.recorded, strict=True):
            stack.append(inside[recorded.row])
        if loop.condition is not None and loop.condition_out is not None:
            go = bool(inside[loop.condition_out])
        i += 1
    values.update(zip((c.final for c in loop.carried), entering, strict=True))
    for stack, recorded in zip(rows, loop.recorded, strict=True):
        nothing = np.zeros((0, *(recorded.row.shape or ())), numpy_dtype(recorded.row.dtype))
        values[recorded.stack] = jnp.stack(stack) if stack else nothing
    if loop.iteration_count is not None:
        values[loop.iteration_count] = np.array(i)


def _operation(op: Op, values: Values) -> None:
    operands = [None if v is None else values[v] for v in op.inputs]
    floats = [v for v in (*op.inputs, *op.outputs) if v is not None and kind_of(v.dtype) == "f"]
    if not floats:  # of whole numbers and truths alone
        computed = evaluate(op.op_type, [np.asarray(x) for x in operands], dict(op.attributes), 1)
    else:
        meaning = _MEANINGS.get(op.op_type) or _by_name(op.op_type)
        computed = meaning(op.attributes, *operands)
    computed = computed if isinstance(computed, list | tuple) else [computed]
    values.update(zip(op.outputs, computed, strict=True))


# --- what operations mean ---------------------------------------------------------------------------


def _safe(name: str, exists: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a function that computes 1 outside of its domain, so that unselected elements get no cotangent."""

    def meaning(_: Mapping[str, Any], x: Any, *more: Any) -> Any:
        import jax.numpy as jnp

        return _function(name)(jnp.where(exists(x), x, 1.0), *more)

    return meaning


def _function(name: str) -> Callable[..., Any]:
    import jax

    for module in (jax.nn, jax.numpy, jax.scipy.special):
        if hasattr(module, name):
            return getattr(module, name)  # type: ignore[no-any-return]
    raise KeyError(name)


_NAMES = {
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
    "Neg": "negative",
    "Max": "maximum",
}
_NAMES |= {
    "Min": "minimum",
    "Atan": "arctan",
    "MatMul": "matmul",
    "GreaterOrEqual": "greater_equal",
}


def _by_name(op_type: str) -> Callable[..., Any]:
    name = _NAMES.get(op_type, op_type.lower())
    return lambda _, *operands: _function(name)(*operands)


def _reduced(name: str) -> Callable[..., Any]:
    def meaning(attributes: Mapping[str, Any], x: Any, axes: Any = None) -> Any:
        axes = attributes.get("axes") if axes is None else axes
        where = None if axes is None else tuple(int(axis) for axis in axes)
        return _function(name)(x, axis=where, keepdims=bool(attributes.get("keepdims", 1)))

    return meaning


def _softmax(name: str) -> Callable[..., Any]:
    return lambda attributes, x: _function(name)(x, axis=attributes.get("axis", -1))


def _slice(
    _: Mapping[str, Any], x: Any, starts: Any, ends: Any, axes: Any = (0,), steps: Any = None
) -> Any:
    """Slice one axis at the positions that a slice of NumPy selects."""
    import jax.numpy as jnp

    (start,), (end,), (axis,) = (np.asarray(part).tolist() for part in (starts, ends, axes))
    step = 1 if steps is None else int(steps[0])
    count = np.shape(x)[axis]
    start = start + count if start < 0 else start
    end = end + count if end < 0 else end
    end = None if step < 0 and end < 0 else end
    if step < 0 and start < 0:
        return jnp.take(x, np.zeros(0, int), axis)
    return jnp.take(x, np.arange(count)[start:end:step], axis)


def _running(attributes: Mapping[str, Any], x: Any, axis: Any) -> Any:
    import jax.numpy as jnp

    axis = int(axis)
    x = jnp.flip(x, axis) if attributes.get("reverse") else x
    sums = jnp.cumsum(x, axis)
    sums = sums - x if attributes.get("exclusive") else sums
    return jnp.flip(sums, axis) if attributes.get("reverse") else sums


def _split(attributes: Mapping[str, Any], x: Any, sizes: Any) -> list[Any]:
    import jax.numpy as jnp

    return jnp.split(x, np.cumsum(sizes)[:-1].tolist(), axis=attributes.get("axis", 0))


def _gemm(attributes: Mapping[str, Any], a: Any, b: Any, c: Any) -> Any:
    a = a.T if attributes.get("transA") else a
    b = b.T if attributes.get("transB") else b
    return attributes.get("alpha", 1.0) * (a @ b) + attributes.get("beta", 1.0) * c


_MEANINGS: Mapping[str, Callable[..., Any]] = {
    "Sqrt": _safe("sqrt", lambda x: x > 0),
    "Log": _safe("log", lambda x: x > 0),
    "Reciprocal": _safe("reciprocal", lambda x: x != 0),
    "Pow": _safe("power", lambda x: x > 0),
    "Exp": _safe("exp", lambda x: x < 700),
    "Sum": lambda _, *operands: sum(operands),
    "Cast": lambda _, x: np.asarray(x, float),
    "Where": lambda _, *operands: _function("where")(*operands),
    "ReduceSumSquare": lambda attributes, x: _reduced("sum")(attributes, x * x),
    **{f"Reduce{word}": _reduced(word.lower()) for word in ("Sum", "Mean", "Max", "Min", "Prod")},
    "ReduceLogSumExp": _reduced("logsumexp"),
    "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log_softmax"),
    "Transpose": lambda attributes, x: _function("transpose")(x, attributes["perm"]),
    "Concat": lambda attributes, *operands: _function("concatenate")(
        operands, axis=attributes["axis"]
    ),
    "Reshape": lambda _, x, shape: x.reshape(tuple(int(d) for d in shape)),
    "Expand": lambda _, x, shape: x * np.ones(tuple(int(d) for d in shape)),
    "Gather": lambda attributes, x, at: _function("take")(
        x, np.asarray(at), attributes.get("axis", 0)
    ),
    "Pad": lambda _, x, pads: _function("pad")(x, np.asarray(pads).reshape(2, -1).T),
    "Slice": _slice,
    "CumSum": _running,
    "Split": _split,
    "Gemm": _gemm,
}
