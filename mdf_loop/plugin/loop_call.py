"""One loop called with values: from modeci_mdf's engine, or from Python as `loop(...)`.

A call is compiled for the types of its values and kept; the next call with these types only runs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from mdf_loop.build import Builder, Options
from mdf_loop.check import check
from mdf_loop.emit.legalise import legalise
from mdf_loop.errors import ModelError, raise_findings
from mdf_loop.ir import Array, Input, Loop, Op, Program, Value, captures, operands
from mdf_loop.lower import Scope, Term
from mdf_loop.passes import optimise
from mdf_loop.reading.document import Document
from mdf_loop.reading.loop import read_loop
from mdf_loop.reading.node import LOOP_RESULTS
from mdf_loop.run.session import Session


class LoopCall:
    """One loop function of one node, to be run again and again on the node's values."""

    def __init__(
        self, item: Any, node: Any, where: str, document: Document, options: Options | None = None
    ) -> None:
        self.item = item
        self.node = node
        self.where = where
        self.document = document
        self.options = options or Options()
        self.named: dict[str, Array] = {}
        self._ready: dict[Any, tuple[Session, int]] = {}

    def run(self, values: Mapping[str, Any]) -> Any:
        """The loop's results for these values: a tuple, or the bare array if there is only one.

        `named` holds iterations, condition and stop reason afterwards.
        """
        usable = {k: v for k, v in values.items() if k != self.item.id and _is_tensor(v)}
        flat = dict(_flat(usable))
        key = tuple((name, str(a.dtype), a.shape, weak) for name, (a, weak) in flat.items())
        if key not in self._ready:
            self._ready[key] = self._compile(usable)
        session, n_results = self._ready[key]
        names = [entry.value.name for entry in session.program.inputs]
        made = session.run({name: flat[name][0] for name in names})
        self.named = {name: made[name] for name in LOOP_RESULTS}
        results = tuple(made[f"result{k}"] for k in range(n_results))
        return results[0] if len(results) == 1 else results

    def _compile(self, values: Mapping[str, Any]) -> tuple[Session, int]:
        b = Builder(self.options)
        inputs: list[Input] = []

        def term(name: str, value: Any) -> Term:
            if isinstance(value, tuple):
                return tuple(term(f"{name}[{k}]", part) for k, part in enumerate(value))
            array = np.asarray(value)
            made = b.new(str(array.dtype), array.shape, name)
            inputs.append(Input(made))
            return b.mark_weak(made) if _is_plain(value) else made

        scope = Scope({name: term(name, value) for name, value in values.items()}, is_node=True)
        with b.findings.catch():
            reading = read_loop(b, self.item, self.node, self.where, scope, self.document)
        raise_findings(b.findings.found)
        results = reading.term if isinstance(reading.term, tuple) else (reading.term,)
        named = {f"result{k}": result for k, result in enumerate(results)}
        named |= {name: reading.named[name]() for name in LOOP_RESULTS}
        outputs = tuple((name, v) for name, v in named.items() if isinstance(v, Value))
        program = _with_inputs_read(Program(self.item.id, tuple(inputs), tuple(b.ops), outputs))
        raise_findings(check(program))
        return Session(legalise(optimise(program), self.options)), len(results)


def _with_inputs_read(program: Program) -> Program:
    """The program with only those inputs that something reads."""
    read = {value for _, value in program.outputs}
    for operation in program.ops:
        if isinstance(operation, Op | Loop):
            read.update(operands(operation))
        if isinstance(operation, Loop):
            read.update(captures(operation))
    inputs = tuple(entry for entry in program.inputs if entry.value in read)
    return Program(program.name, inputs, program.ops, program.outputs)


def _is_tensor(value: Any) -> bool:
    """Whether a value of the engine can be an input: not None, no graph, no text."""
    if isinstance(value, tuple):
        return all(_is_tensor(part) for part in value)
    if not isinstance(value, bool | int | float | list | np.ndarray | np.generic):
        return False
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except ValueError:
        return False


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def _flat(values: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Array, bool]]]:
    for name, value in values.items():
        if isinstance(value, tuple):
            yield from _flat({f"{name}[{k}]": part for k, part in enumerate(value)})
        else:
            yield name, (np.asarray(value), _is_plain(value))


# --- from Python ------------------------------------------------------------------------------


def loop(
    M: Any = None,  # noqa: N803 - ONNX's name
    cond: Any = None,
    v_initial: Any = None,
    body: Any = None,
    **outer: Any,
) -> Any:
    """Run a loop on arrays: final carried values and recorded outputs of `body`.

    Args:
        M: trip count, one whole number; None or -1: no trip count.
        cond: start condition, one truth value; None: the body's condition is ignored.
        v_initial: the initial value of the carried value, or a tuple of several.
        body: an MDF Graph, its dict, or an ONNX GraphProto. The order of its inputs and outputs
            is in its `metadata` (an ONNX graph has its own).
        **outer: values that the body reads from outside, by name.

    Returns:
        Final carried values, then recorded outputs: a tuple, or the bare array if there is one.

    Raises:
        LoopError: what is wrong with the loop.

    Source: ONNX Loop-13.
    """
    if body is None:
        raise ModelError(
            "the loop has no body", hint="give body: a graph, its dict or a GraphProto"
        )
    initial = () if v_initial is None else v_initial
    initial = initial if isinstance(initial, tuple) else (initial,)
    values = {f"v_initial_{k}": value for k, value in enumerate(initial)}
    endless = M is None or (np.size(M) == 1 and np.asarray(M).reshape(()) == -1)
    if not endless:
        values["M"] = M
    if cond is not None:
        values["cond"] = cond
    call = _call_for(_key(body), _Body(body), len(initial), not endless, cond is not None)
    return call.run({**values, **outer})


class _Body:
    """A body as an argument of the cache: all of them equal, the key beside it decides."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Body)

    def __hash__(self) -> int:
        return 0


def _key(body: Any) -> str | bytes:
    """What tells one body from another: its content."""
    if hasattr(body, "SerializeToString"):
        serialized: bytes = body.SerializeToString(deterministic=True)
        return serialized
    content = body.to_dict() if hasattr(body, "to_dict") else body
    return json.dumps(content, default=repr, sort_keys=False)


@functools.lru_cache(maxsize=128)
def _call_for(
    _content: str | bytes, body: _Body, n_carried: int, has_trip_count: bool, has_condition: bool
) -> LoopCall:
    graph = body.graph
    if hasattr(graph, "SerializeToString"):
        from mdf_loop.reading.onnx_graph import graph_of_proto

        graph = graph_of_proto(graph)
    args = {
        "M": "M" if has_trip_count else None,
        "cond": "cond" if has_condition else None,
        "v_initial": [f"v_initial_{k}" for k in range(n_carried)],
        "body": graph,
    }
    item = SimpleNamespace(id="loop", function="onnx::Loop", args=args, value=None)
    node = SimpleNamespace(
        id="loop", input_ports=[], parameters=[], functions=[item], output_ports=[]
    )
    return LoopCall(item, node, "$.loop", Document(None, "$"))
