"""Classification of trip counts, conditions and branch indices as constant or variable.

    for i in range(M)   M: 10                     constant: 10
    while v < limit     v an input                variable: depends on input 'v'
    if flag             flag a fixed parameter    constant: true

A value is constant if the compiler knows it: it depends only on numbers of the document, parameters
without a state, and shapes. An operation with a variable operand has a variable result.

Source: MindSpore, "Control Flow Statements", constant and variable conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from mdf_loop.errors import LoopError
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.ir import (
    Array,
    Constant,
    If,
    Input,
    InputRole,
    Loop,
    Operation,
    Program,
    Value,
    captures,
    operands,
    results,
    walk,
)
from mdf_loop.lower.builder import Options
from mdf_loop.reading import read_annotated
from mdf_loop.reading.binding import BoundValues
from mdf_loop.reading.draws import is_execution_count
from mdf_loop.reading.inputs import bind_types
from mdf_loop.reading.memory import State, state_name
from mdf_loop.reading.over_time import read_over_time
from mdf_loop.reading.parameters import integrates
from mdf_loop.specification import RunSpecification


class Decision(Struct, frozen=True):
    """Control value (trip count, condition or branch index) with its class: constant or variable.

    Attributes:
        name: Node and function with the decision, such as `A.f`, from the outermost to the innermost.
        role: `trip count`, `condition` or `index`.
        path: MDF path of the argument.
        value: Value of a constant decision, or None.
        reads: Inputs and states on which a variable decision depends.
    """

    name: str
    role: str
    path: str
    value: Any | None = None
    reads: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Class of the trip count, condition or branch index: `constant` or `variable`."""
        return "variable" if self.reads else "constant"

    @property
    def why(self) -> str:
        """Text with the constant value, or with the inputs and states on which the value depends."""
        if self.reads:
            return f"depends on {', '.join(self.reads)}"
        return str(self.value).lower() if isinstance(self.value, bool) else str(self.value)


def classify(source: Source, inputs: Mapping[str, Any] | None = None) -> tuple[Decision, ...]:
    """Classify the trip counts, conditions and branch indices of a model, outer loops first.

    A decision that is known only in the first evaluation of a model over time is variable, since it
    depends on a state.

    Raises:
        LoopError: The model cannot be read.
    """
    document = open_document(source)
    options = Options(max_iterations=1)  # loops without an end are classified too
    bound_types = bind_types(document, inputs or {}, options)
    try:
        spec = RunSpecification(steps=1, dt=1.0 if integrates(document) else None)
        reading_over_time = read_over_time(document, BoundValues.of(bound_types), options, spec)
    except LoopError:
        reading_over_time = None
    if reading_over_time is not None and reading_over_time.states:
        state_descriptions = {
            state_name(state): _describe_state(state) for state in reading_over_time.states
        }
        return classify_program(
            reading_over_time.later_program, reading_over_time.terms_by_path, state_descriptions
        )
    model_reading = read_annotated(document, inputs, options=options)
    return classify_program(model_reading.program, model_reading.terms_by_path)


def classify_program(
    program: Program, types: Mapping[str, Any], states: Mapping[str, str] | None = None
) -> tuple[Decision, ...]:
    """Classify the trip counts, conditions and branch indices of a program, outer loops first.

    Args:
        program: The program.
        types: Values of the program by MDF path.
        states: Descriptions of the states that are inputs of the program.
    """
    value_sources = _Sources(program, states or {})
    control_decisions = [
        _classify_values(value_sources, path, [value])
        for path, value in types.items()
        if isinstance(value, Value) and _ROLES.get(path.rsplit(".", 1)[-1]) and ".args." in path
    ]
    for loop in value_sources.loops:
        start_condition, next_condition = loop.condition, loop.condition_out
        if loop.trip_count is not None:
            control_decisions.append(
                _classify_values(value_sources, f"{loop.where}.args.M", [loop.trip_count])
            )
        if start_condition is not None:
            constant_start = value_sources.constants.get(start_condition)
            depends_on_start_only = (
                next_condition is None
                or next_condition is loop.condition_in
                or (constant_start is not None and not constant_start)
            )
            deciding_conditions = (
                [start_condition]
                if depends_on_start_only or next_condition is None
                else [start_condition, next_condition]
            )
            control_decisions.append(
                _classify_values(value_sources, f"{loop.where}.args.cond", deciding_conditions)
            )
    decision_by_path = {decision.path: decision for decision in control_decisions}
    function_paths = [path.rsplit(".args.", 1)[0] for path in types]
    return tuple(sorted(decision_by_path.values(), key=lambda d: _sort_key(d.path, function_paths)))


_ROLES = {"M": "trip count", "cond": "condition", "index": "index"}


def _sort_key(path: str, order: Sequence[str]) -> tuple[int, str]:
    """Return the sort key of an MDF path: the position of its outermost function, then the path."""
    outermost_match = re.match(r".*?\.(?:functions|parameters)\['[^']*'\]", path)
    outermost_path = outermost_match[0] if outermost_match else path
    return (order.index(outermost_path) if outermost_path in order else len(order), path)


def _classify_values(sources: _Sources, path: str, values: Sequence[Value]) -> Decision:
    """Classify the trip count, condition or branch index at an MDF path as constant or variable."""
    dependencies = tuple(
        dict.fromkeys(
            dependency for value in values for dependency in sources.dependencies_of(value)
        )
    )
    node_and_function_names = re.findall(
        r"nodes\['([^']*)'\]\.(?:functions|parameters)\['([^']*)'\]", path
    )
    constant_array = sources.constants.get(values[0])
    return Decision(
        name=" > ".join(".".join(names) for names in node_and_function_names),
        role=_ROLES[path.rsplit(".", 1)[-1]],
        path=path,
        value=None
        if constant_array is None or dependencies
        else constant_array.reshape(-1).tolist()[0],
        reads=dependencies,
    )


_FUNCTION_PATH_PATTERN = re.compile(r"\.(?:functions|parameters)\['[^']*'\]$")
"""Pattern of the path of a function. Loops that the compiler creates (passes, time) have other paths."""


class _Sources:
    """Analysis of the inputs and states on which the values of a program depend."""

    def __init__(self, program: Program, states: Mapping[str, str]) -> None:
        self.inputs = {
            program_input.value: _describe_input(program_input, states)
            for program_input in program.inputs
        }
        self.states = {
            program_input.value
            for program_input in program.inputs
            if program_input.role is InputRole.STATE
        }
        self.constants: dict[Value, Array] = {}
        self.loops: list[Loop] = []
        self.producers: dict[Value, Operation] = {}
        self.loop_variables: dict[Value, tuple[str, tuple[Value, ...]]] = {}
        for operation in walk(program.ops):
            self._record_definitions(operation)

    def _record_definitions(self, operation: Operation) -> None:
        """Record the constants, results and loop variables that an operation defines."""
        if isinstance(operation, Constant):
            self.constants[operation.value] = operation.array
            return
        self.producers.update((value, operation) for value in results(operation))
        if not isinstance(operation, Loop):
            return
        if _FUNCTION_PATH_PATTERN.search(operation.where):
            self.loops.append(operation)
        self.loop_variables[operation.iteration] = (f"the iteration of '{operation.name}'", ())
        self.loop_variables[operation.condition_in] = (f"the condition of '{operation.name}'", ())
        for scanned_input in operation.scanned:
            iteration_text = f"the iteration of '{operation.name}'"
            self.loop_variables[scanned_input.row] = (iteration_text, (scanned_input.rows,))
        for carried_value in operation.carried:
            initial_state = (carried_value.initial,) if carried_value.initial in self.states else ()
            carried_text = f"carried value '{carried_value.name}' of '{operation.name}'"
            self.loop_variables[carried_value.body_input] = (
                carried_text,
                initial_state or (carried_value.initial, carried_value.body_output),
            )

    def dependencies_of(self, value: Value) -> tuple[str, ...]:
        """Describe the inputs and states on which a value depends, or else its loop variables.

        A constant has no dependencies.
        """
        if value in self.constants:
            return ()
        input_names: dict[str, None] = {}
        loop_variables: dict[str, None] = {}
        visited_values, unvisited_values = {value}, [value]
        while unvisited_values:
            current_value = unvisited_values.pop(0)
            if current_value in self.inputs:
                input_names[self.inputs[current_value]] = None
            elif current_value in self.loop_variables:
                loop_variables[self.loop_variables[current_value][0]] = None
            for source_value in self._direct_dependencies(current_value):
                if source_value not in visited_values and source_value not in self.constants:
                    visited_values.add(source_value)
                    unvisited_values.append(source_value)
        return tuple(input_names or loop_variables or ("what is computed in the run",))

    def _direct_dependencies(self, value: Value) -> Iterator[Value]:
        """Yield the direct dependencies of a value: operands, branch results, conditions."""
        if value in self.loop_variables:
            yield from self.loop_variables[value][1]
        operation = self.producers.get(value)
        if isinstance(operation, If):
            output_index = operation.outputs.index(value)
            yield operation.condition
            yield from (
                branch.outputs[output_index] for branch in (operation.then, operation.otherwise)
            )
        elif operation is not None:
            yield from operands(operation)
            yield from captures(operation)


_DRAWS_DESCRIPTION = "random numbers"
_CONTROL_DESCRIPTIONS = {"dt": "the time step", "steps": "the number of steps"}


def _describe_state(state: State) -> str:
    """Return a text about a state of a model over time."""
    _, node_id, item_id = state
    return _DRAWS_DESCRIPTION if is_execution_count(state) else f"state '{node_id}.{item_id}'"


def _describe_input(program_input: Input, states: Mapping[str, str]) -> str:
    """Return a text about an input of a program, such as `input 'x'`."""
    match program_input.role:
        case InputRole.STATE:
            return states[program_input.owner_name]
        case InputRole.CONTROL:
            return _CONTROL_DESCRIPTIONS[program_input.owner_name]
        case InputRole.KEYS:
            return _DRAWS_DESCRIPTION
        case InputRole.SETTING:
            return f"parameter '{program_input.owner_name}', which is set"
    return f"input '{program_input.value.name}'"
