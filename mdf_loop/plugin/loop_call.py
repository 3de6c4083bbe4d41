"""One loop called with values: from modeci_mdf's engine, or from Python as `loop(...)`.

A call is compiled for the types of its values and kept; the next call with these types only runs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.document.document import Document
from mdf_loop.document.loading import graph_of
from mdf_loop.errors import CarryTypeError, ExpressionError, LoopError, ModelError, raise_findings
from mdf_loop.ir import Array, Gives, Input, Output, Program, Takes, Value
from mdf_loop.ir.check import check
from mdf_loop.lower import Scope, Term, names_in
from mdf_loop.lower.builder import ModelBuilder, Options
from mdf_loop.pipeline import prepare
from mdf_loop.plugin.models import graph_with
from mdf_loop.plugin.values import (
    array_of,
    content_of,
    is_plain,
    is_whole,
    part_of,
    type_of,
    without_unit,
)
from mdf_loop.reading.draws import with_streams_going_on
from mdf_loop.reading.loop_forms import loop_form
from mdf_loop.reading.node import LOOP_RESULTS
from mdf_loop.reading.readers import read_graph_function
from mdf_loop.reading.streams import Streams
from mdf_loop.recent import Recent
from mdf_loop.run.backend import PROGRAM_BACKENDS, Runnable
from mdf_loop.run.modeci import seeds

SESSIONS_KEPT = 64
"""Sessions kept for one loop, each for one set of types."""

BODIES_KEPT = 128
"""Bodies kept of those that `loop(...)` was called with."""


class _Ready(Struct, frozen=True):
    """A loop compiled for some types: its session, and where each input comes from.

    An input is a value by name, or a part of one by positions: `x`, `x[0]`, `x[0][1]`.
    """

    session: Runnable
    n_results: int
    sources: Mapping[str, tuple[str, tuple[int, ...]]]
    floats: frozenset[str]


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
        self.graph = graph_with(node)
        self.named: dict[str, Array] = {}
        self._counts: dict[str, Array] = {}
        self._reads: tuple[str, ...] = ()
        self._ready: Recent[_Ready] = Recent(SESSIONS_KEPT)

    def run(self, values: Mapping[str, Any]) -> Any:
        """The loop's results for these values: a tuple, or the bare array if there is only one.

        `named` holds iterations, condition and stop reason afterwards.
        """
        ready = self._ready.get(self._key(values))
        if ready is None:
            ready = self._compile(values)
            self._ready.put(self._key(values), ready)
        feeds: dict[str, Array] = {}
        for entry in ready.session.program.inputs:
            feeds[entry.value.name] = self._given(entry, ready, values)
        made = ready.session.run(feeds)
        counts = ready.session.program.gives(Gives.STATE)
        self._counts |= {name: made[output] for name, output in counts.items()}
        self.named = {name: made[name] for name in LOOP_RESULTS if name in made}
        results = tuple(made[f"result{k}"] for k in range(ready.n_results))
        return results[0] if len(results) == 1 else results

    def _given(self, entry: Input, ready: _Ready, values: Mapping[str, Any]) -> Array:
        """What an input of the program is given."""
        match entry.role:
            case Takes.KEYS:
                return Streams(seeds.current).of_one_run(ready.session.program.sites)
            case Takes.STATE:
                return self._counts.get(entry.of, np.array(0))
        name, positions = ready.sources[entry.value.name]
        value = float(values[name]) if name in ready.floats else values[name]
        return array_of(part_of(value, positions), name)

    def _key(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """The types of the values that the loop reads, as far as is known by now."""
        return tuple((name, type_of(values.get(name))) for name in self._reads)

    def _compile(self, values: Mapping[str, Any]) -> _Ready:
        try:
            return self._compiled(values, frozenset())
        except CarryTypeError as error:
            whole = self._whole_initial_values(values)
            if not whole:
                raise
            try:
                return self._compiled(values, whole)
            except LoopError:
                raise error from None

    def _whole_initial_values(self, values: Mapping[str, Any]) -> frozenset[str]:
        """Plain whole numbers that the loop starts from and that may be meant with a point.

        modeci_mdf's engine turns a computed 2.0 into 2. A number that the node itself writes
        without a point is meant as it is written.
        """
        form = loop_form(self.item, self.node, self.where, self.document)
        initial = form.initial.values() if isinstance(form.initial, dict) else form.initial
        names = {name for expression in initial for name in names_in(expression)}
        written = {p.id for p in self.node.parameters if is_whole(p.value)}
        return frozenset(name for name in names - written if is_whole(values.get(name)))

    def _compiled(self, values: Mapping[str, Any], floats: frozenset[str]) -> _Ready:
        b = ModelBuilder(self.options)
        inputs = _Inputs(b, values, floats)
        scope = Scope({name: inputs.asked(name) for name in values}, is_node=True)
        item = f"{self.node.id}.{self.item.id}"
        with b.findings.catch(), b.placed(graph=self.graph, item=item):
            reading = read_graph_function(b, self.item, self.node, self.where, scope, self.document)
        raise_findings(b.findings.found)
        results = reading.term if isinstance(reading.term, tuple) else (reading.term,)
        named = {f"result{k}": result for k, result in enumerate(results)}
        named |= {name: term() for name, term in reading.named.items()}
        outputs = tuple(Output(name, v) for name, v in named.items() if isinstance(v, Value))
        made = Program(self.item.id, tuple(inputs.made), tuple(b.ops), outputs)
        program = with_streams_going_on(made)
        raise_findings(check(program))
        backend = PROGRAM_BACKENDS["onnxruntime"]
        session = backend.load(prepare(program, backend.order))
        self._reads = tuple(dict.fromkeys((*self._reads, *inputs.asked_for)))
        return _Ready(session, len(results), inputs.sources, floats)


class _Inputs:
    """Makes a program's inputs of values, each when the loop first asks for its name."""

    def __init__(self, b: ModelBuilder, values: Mapping[str, Any], floats: frozenset[str]) -> None:
        self.b = b
        self.values = values
        self.floats = floats
        self.asked_for: dict[str, None] = {}
        self.made: list[Input] = []
        self.sources: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._terms: dict[str, Term] = {}

    def asked(self, name: str) -> Callable[[], Term]:
        """What gives the input (or the tuple of inputs) of that name."""

        def term() -> Term:
            self.asked_for[name] = None
            if name not in self._terms:
                value = self.values[name]
                if value is None:
                    raise ExpressionError(
                        f"'{name}' has no value yet when the loop reads it",
                        hint=f"make '{name}' a function, or give it a value",
                    )
                self._terms[name] = self._make(name, value, ())
            return self._terms[name]

        return term

    def _make(self, name: str, value: Any, positions: tuple[int, ...]) -> Term:
        if isinstance(value, tuple):
            return tuple(self._make(name, part, (*positions, k)) for k, part in enumerate(value))
        array = array_of(float(value) if name in self.floats else value, name)
        label = name + "".join(f"[{k}]" for k in positions)
        made = self.b.new(str(array.dtype), array.shape, label)
        self.made.append(Input(made))
        self.sources[made.name] = (name, positions)
        return self.b.mark_weak(made) if is_plain(value) else made


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

    No value has a unit: a Quantity is taken if it is dimensionless, and refused otherwise.

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
    M = without_unit(M, _TRIP_COUNT)  # noqa: N806 - ONNX's name
    initial = () if v_initial is None else v_initial
    initial = initial if isinstance(initial, tuple) else (initial,)
    endless = M is None or (np.size(M) == 1 and np.all(np.asarray(M) == -1))
    values = {_INITIAL.format(k): value for k, value in enumerate(initial)}
    values |= {} if endless else {_TRIP_COUNT: M}
    values |= {} if cond is None else {_CONDITION: cond}
    key = (content_of(body), len(initial), endless, cond is None)
    call = _calls.get(key)
    if call is None:
        call = _call_for(body, len(initial), values.keys())
        _calls.put(key, call)
    values |= outer
    return call.run({name: without_unit(value, name) for name, value in values.items()})


_calls: Recent[LoopCall] = Recent(BODIES_KEPT)
_TRIP_COUNT, _CONDITION, _INITIAL = "the trip count", "the condition", "initial value {}"
"""What a call's own arguments are called: no body can name them by mistake."""


def _call_for(body: Any, n_carried: int, given: Collection[str]) -> LoopCall:
    if hasattr(body, "SerializeToString"):
        from mdf_loop.importing.onnx_graph import loop_body

        body = graph_of(loop_body(body), "$.loop.args.body")
    else:
        body = copy.deepcopy(body)  # the caller may change it before new types come
    args = {
        "M": _TRIP_COUNT if _TRIP_COUNT in given else None,
        "cond": _CONDITION if _CONDITION in given else None,
        "v_initial": [_INITIAL.format(k) for k in range(n_carried)],
        "body": body,
    }
    item = SimpleNamespace(id="loop", function="onnx::Loop", args=args, value=None)
    node = SimpleNamespace(
        id="loop", input_ports=[], parameters=[], functions=[item], output_ports=[]
    )
    return LoopCall(item, node, "$.loop", Document(None, "$"))
