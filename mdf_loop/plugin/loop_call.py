"""Execution of a single loop, for modeci_mdf's engine and for `loop(...)` in Python.

A loop is compiled for the types of its values. The next call with these types reuses the compiled loop.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.document.document import Document
from mdf_loop.document.loading import graph_of
from mdf_loop.document.modeci import from_modeci
from mdf_loop.document.parts import Function, FunctionOrParameter, Graph, Node
from mdf_loop.errors import CarryTypeError, ExpressionError, LoopError, ModelError, raise_findings
from mdf_loop.ir import Array, Input, InputRole, Output, OutputRole, Program, Value
from mdf_loop.ir.check import check
from mdf_loop.lower import Scope, Term, names_in
from mdf_loop.lower.builder import ModelBuilder, Options
from mdf_loop.lru_cache import LRUCache
from mdf_loop.pipeline import prepare
from mdf_loop.plugin.values import (
    hashable_key,
    is_python_int,
    is_python_number,
    remove_unit,
    select_part,
    to_array,
    type_of,
)
from mdf_loop.public_call import public_call
from mdf_loop.reading.draws import replace_draws_with_counts
from mdf_loop.reading.loop_forms import parse_loop
from mdf_loop.reading.node import LOOP_RESULTS
from mdf_loop.reading.readers import read_graph_function
from mdf_loop.reading.streams import Streams
from mdf_loop.run.backend import PROGRAM_BACKENDS, Runnable
from mdf_loop.run.modeci import seeds

MAX_CACHED_SESSIONS = 64
"""Maximum number of sessions in the cache of one loop. Each session is for one set of types."""

MAX_CACHED_BODIES = 128
"""Maximum number of bodies in the cache of `loop(...)`."""


class _CompiledLoop(Struct, frozen=True):
    """Loop that is compiled for certain types of its input values.

    Attributes:
        session: Session that runs the program of the loop.
        result_count: Number of results.
        sources: Source of each input: the name of a value, and the positions of a part of the value (`x`,
            `x[0]`, `x[0][1]`).
        float_names: Names of the integer values that are converted to floats.
    """

    session: Runnable
    result_count: int
    sources: Mapping[str, tuple[str, tuple[int, ...]]]
    float_names: frozenset[str]


class LoopCall:
    """Callable loop of a node, which is compiled for each set of input types.

    Attributes:
        loop_reports: Iterations, condition and stop reason of the last run, by name.
    """

    def __init__(
        self,
        item: FunctionOrParameter,
        node: Node,
        where: str,
        document: Document,
        graph_id: str = "",
    ) -> None:
        self.item = item
        self.node = node
        self.where = where
        self.document = document
        self.options = Options()
        self.graph_id = graph_id
        self.loop_reports: dict[str, Array] = {}
        self._execution_counts: dict[str, Array] = {}
        self._names_read: tuple[str, ...] = ()
        self._compiled_loops: LRUCache[_CompiledLoop] = LRUCache(MAX_CACHED_SESSIONS)

    def run(self, values: Mapping[str, Any]) -> Any:
        """Run the loop, and return its results as a tuple, or a single result as an array.

        `loop_reports` contains iterations, condition and stop reason afterwards.
        """
        compiled_loop = self._compiled_loops.get(self._create_cache_key(values))
        if compiled_loop is None:
            compiled_loop = self._compile(values)
            self._compiled_loops.put(self._create_cache_key(values), compiled_loop)
        feeds: dict[str, Array] = {}
        for program_input in compiled_loop.session.program.inputs:
            feeds[program_input.value.name] = self._create_feed(
                program_input, compiled_loop, values
            )
        output_arrays = compiled_loop.session.run(feeds)
        state_outputs = compiled_loop.session.program.output_names(OutputRole.STATE)
        self._execution_counts |= {
            name: output_arrays[output_name] for name, output_name in state_outputs.items()
        }
        self.loop_reports = {
            name: output_arrays[name] for name in LOOP_RESULTS if name in output_arrays
        }
        loop_results = tuple(output_arrays[f"result{k}"] for k in range(compiled_loop.result_count))
        return loop_results[0] if len(loop_results) == 1 else loop_results

    def _create_feed(
        self, entry: Input, compiled: _CompiledLoop, values: Mapping[str, Any]
    ) -> Array:
        """Return the array for an input of the loop's program."""
        match entry.role:
            case InputRole.KEYS:
                return Streams(seeds.current_seed).keys_of_one_run(compiled.session.program.sites)
            case InputRole.STATE:
                return self._execution_counts.get(entry.owner_name, np.array(0))
        source_name, positions_in_source = compiled.sources[entry.value.name]
        source_value = (
            float(values[source_name])
            if source_name in compiled.float_names
            else values[source_name]
        )
        return to_array(select_part(source_value, positions_in_source), source_name)

    def _create_cache_key(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the cache key of a call, made of the types of all values that the loop reads."""
        return tuple((name, type_of(values.get(name))) for name in self._names_read)

    def _compile(self, values: Mapping[str, Any]) -> _CompiledLoop:
        """Compile the loop for the types of its input values.

        Integer initial values become floats if the carried types require floats.
        """
        try:
            return self._compile_with_floats(values, frozenset())
        except CarryTypeError as error:
            integer_names = self._find_integer_initial_values(values)
            if not integer_names:
                raise
            try:
                return self._compile_with_floats(values, integer_names)
            except LoopError:
                raise error from None

    def _find_integer_initial_values(self, values: Mapping[str, Any]) -> frozenset[str]:
        """Return the names of integer initial values that modeci_mdf's engine may have converted from floats.

        modeci_mdf's engine converts a computed 2.0 to 2. An integer in the document of the node stays an integer.
        """
        loop_arguments = parse_loop(self.item, self.node, self.where, self.document)
        initial_expressions = (
            loop_arguments.initial_expressions.values()
            if isinstance(loop_arguments.initial_expressions, dict)
            else loop_arguments.initial_expressions
        )
        names_read = {name for expression in initial_expressions for name in names_in(expression)}
        literal_names = {
            parameter.id for parameter in self.node.parameters if is_python_int(parameter.value)
        }
        return frozenset(
            name for name in names_read - literal_names if is_python_int(values.get(name))
        )

    def _compile_with_floats(
        self, values: Mapping[str, Any], float_names: frozenset[str]
    ) -> _CompiledLoop:
        """Compile the loop for its input types, with the values in `float_names` as floats."""
        b = ModelBuilder(self.options)
        input_builder = _InputBuilder(b, values, float_names)
        scope = Scope(
            {name: input_builder.create_lazy_input(name) for name in values}, is_node=True
        )
        loop_path = f"{self.node.id}.{self.item.id}"
        with b.findings.catch(), b.at_call_site(graph_path=self.graph_id, item_path=loop_path):
            function_results = read_graph_function(
                b, self.item, self.node, self.where, scope, self.document
            )
        raise_findings(b.findings.items)
        loop_results = (
            function_results.term
            if isinstance(function_results.term, tuple)
            else (function_results.term,)
        )
        results_by_name = {f"result{k}": result for k, result in enumerate(loop_results)}
        results_by_name |= {name: term() for name, term in function_results.named_results.items()}
        program_outputs = tuple(
            Output(name, result_value)
            for name, result_value in results_by_name.items()
            if isinstance(result_value, Value)
        )
        loop_program = Program(
            self.item.id, tuple(input_builder.entries), tuple(b.ops), program_outputs
        )
        program = replace_draws_with_counts(loop_program)
        raise_findings(check(program))
        backend = PROGRAM_BACKENDS["onnxruntime"]
        session = backend.load(prepare(program, backend.pass_order))
        self._names_read = tuple(dict.fromkeys((*self._names_read, *input_builder.names_read)))
        return _CompiledLoop(session, len(loop_results), input_builder.sources, float_names)


class _InputBuilder:
    """Builder of program inputs for a loop, one for each name that the loop reads.

    Attributes:
        names_read: Names that the loop has read, in order.
        entries: Inputs of the program.
        sources: Source of each input, as in `_CompiledLoop`.
    """

    def __init__(
        self, b: ModelBuilder, values: Mapping[str, Any], float_names: frozenset[str]
    ) -> None:
        self.b = b
        self.values = values
        self.float_names = float_names
        self.names_read: dict[str, None] = {}
        self.entries: list[Input] = []
        self.sources: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._terms: dict[str, Term] = {}

    def create_lazy_input(self, name: str) -> Callable[[], Term]:
        """Return a function that creates the program input for a name when first called.

        For a tuple, the function creates one input per element.
        """

        def read() -> Term:
            self.names_read[name] = None
            if name not in self._terms:
                source_value = self.values[name]
                if source_value is None:
                    raise ExpressionError(
                        f"'{name}' has no value yet when the loop reads it",
                        hint=f"make '{name}' a function, or give it a value",
                    )
                self._terms[name] = self._create_inputs(name, source_value, ())
            return self._terms[name]

        return read

    def _create_inputs(self, name: str, value: Any, positions: tuple[int, ...]) -> Term:
        """Create the program input for a value, or a tuple of inputs for a tuple."""
        if isinstance(value, tuple):
            return tuple(
                self._create_inputs(name, tuple_part, (*positions, k))
                for k, tuple_part in enumerate(value)
            )
        source_array = to_array(float(value) if name in self.float_names else value, name)
        input_label = name + "".join(f"[{k}]" for k in positions)
        input_value = self.b.new(str(source_array.dtype), source_array.shape, input_label)
        self.entries.append(Input(input_value))
        self.sources[input_value.name] = (name, positions)
        return self.b.mark_weak(input_value) if is_python_number(value) else input_value


# --- call from Python -------------------------------------------------------------------------


@public_call
def loop(
    M: Any = None,  # noqa: N803 - ONNX's name
    cond: Any = None,
    v_initial: Any = None,
    body: Any = None,
    **outer: Any,
) -> Any:
    """Run a loop on arrays, and return the final carried values and the recorded outputs of `body`.

    Args:
        M: The trip count, one integer. None and -1 mean that there is no trip count.
        cond: The start condition, one boolean. If None, the body's condition is ignored.
        v_initial: The initial value of the carried value, or a tuple of several.
        body: An MDF Graph, its dict, or an ONNX GraphProto. The `metadata` of an MDF graph contains the order
            of its inputs and outputs (an ONNX graph has its own order).
        **outer: Values that the body reads from outside, by name.

    Values have no units. A dimensionless Quantity is accepted, any other Quantity is refused.

    Returns:
        Final carried values, then recorded outputs, as a tuple, or the bare array if there is only one.

    Raises:
        LoopError: The loop is invalid or fails.

    Source: ONNX Loop-13.
    """
    if body is None:
        raise ModelError(
            "the loop has no body", hint="give body: a graph, its dict or a GraphProto"
        )
    M = remove_unit(M, _TRIP_COUNT_NAME)  # noqa: N806 - ONNX's name
    initial_values = () if v_initial is None else v_initial
    initial_values = initial_values if isinstance(initial_values, tuple) else (initial_values,)
    is_unbounded = M is None or (np.size(M) == 1 and np.all(np.asarray(M) == -1))
    argument_values = {
        _INITIAL_NAME_FORMAT.format(k): value for k, value in enumerate(initial_values)
    }
    argument_values |= {} if is_unbounded else {_TRIP_COUNT_NAME: M}
    argument_values |= {} if cond is None else {_CONDITION_NAME: cond}
    cache_key = (hashable_key(body), len(initial_values), is_unbounded, cond is None)
    loop_call = _cached_calls.get(cache_key)
    if loop_call is None:
        loop_call = _build_call(body, len(initial_values), argument_values.keys())
        _cached_calls.put(cache_key, loop_call)
    argument_values |= outer
    return loop_call.run(
        {name: remove_unit(value, name) for name, value in argument_values.items()}
    )


_cached_calls: LRUCache[LoopCall] = LRUCache(MAX_CACHED_BODIES)
_TRIP_COUNT_NAME, _CONDITION_NAME, _INITIAL_NAME_FORMAT = (
    "the trip count",
    "the condition",
    "initial value {}",
)
"""Names of the arguments of a call. The spaces in them exclude clashes with names in a body."""


def _build_call(body: Any, carried_count: int, arguments: Collection[str]) -> LoopCall:
    """Build the callable loop for a body.

    `arguments` are the names of the arguments that have a value.
    """
    if hasattr(body, "SerializeToString"):
        from mdf_loop.importing.onnx_graph import convert_loop_body

        body = graph_of(convert_loop_body(body), "$.loop.args.body")
    else:
        body = from_modeci(
            copy.deepcopy(body)
        )  # the caller may change the body before a call with other types
    loop_arguments = {
        "M": _TRIP_COUNT_NAME if _TRIP_COUNT_NAME in arguments else None,
        "cond": _CONDITION_NAME if _CONDITION_NAME in arguments else None,
        "v_initial": [_INITIAL_NAME_FORMAT.format(k) for k in range(carried_count)],
        "body": body,
    }
    loop_function = Function(id="loop", function="onnx::Loop", args=loop_arguments)
    node = Node(id="loop", functions=[loop_function])
    return LoopCall(loop_function, node, "$.loop", Document(Graph(id=""), "$"))
