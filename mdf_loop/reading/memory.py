"""Values of parameters, functions and outputs (states) at one point of a model's execution.

An execution of a node reads values from the memory and stores its results. In a loop, a value that is read
before it is stored is a carried value. It enters with the value of the last iteration, or the initial value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct, field

from mdf_loop.errors import CarryShapeError, CarryTypeError, Poisoned
from mdf_loop.ir import Carried, Input, InputRole, Output, OutputRole, Shape, Value, is_fixed
from mdf_loop.ir.types import is_sequence, is_tensor, kind_of, numpy_dtype, promoted_dtype
from mdf_loop.lower import Term, cast, tensor
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import add_leading_axes, choose, select_value
from mdf_loop.lower.sequences import lower_known_data
from mdf_loop.lower.terms import promote
from mdf_loop.ops.build_helpers import ints
from mdf_loop.reading.schedule.known import Truth, to_value

StateKind: TypeAlias = Literal["parameter", "function", "output", "ran", "flag", "count"]

State = tuple[StateKind, str, str]
"""Key of a value in a memory: its kind, the node's id, its own id.

`ran` tells whether a node has run, `flag` and `count` are the state of scheduler conditions.
"""

NODE_FIELDS = {"parameter": "parameters", "function": "functions", "output": "output_ports"}
"""Kind of a state -> attribute of a node in the document."""


def state_name(state: State) -> str:
    """Return the text that names a state in the inputs, outputs and checkpoints of a program."""
    state_kind, node_id, item_id = state
    return (
        f"{state_kind} {node_id}.{item_id}"
        if state_kind in NODE_FIELDS
        else f"{state_kind} {node_id}{item_id}"
    )


def create_state_input(state: State, value: Value) -> Input:
    """Return the program input for the value of a state before the first step."""
    return Input(value, role=InputRole.STATE, owner_name=state_name(state))


def create_state_output(state: State, value: Value) -> Output:
    """Return the program output for the value of a state after the last step."""
    state_text = state_name(state)
    return Output(f"{state_text} after", value, OutputRole.STATE, state_text)


_Extents: TypeAlias = tuple[int | str, ...]

StoredTerm: TypeAlias = "Term | Callable[[], Term]"


_MAX_WIDENINGS = 10
"""Maximum number of times that one carried type may widen: a few dtypes, a few axes."""


class CarriedTypes(Struct):
    """Dtype and shape of every state that a loop carries from iteration to iteration.

    Attributes:
        types_by_state: Dtype and shape by state.
        widening_counts: Number of times that each type was widened.
    """

    types_by_state: dict[State, tuple[str, Shape]] = field(default_factory=dict)
    widening_counts: Counter[State] = field(default_factory=Counter)

    def type(self, state: State) -> tuple[str, Shape]:
        """Return the dtype and shape of a carried state."""
        state_kind = state[0]
        if state_kind not in NODE_FIELDS:
            return ("int64" if state_kind == "count" else "bool", ())
        if state not in self.types_by_state:
            raise Poisoned
        return self.types_by_state[state]

    def widen(self, state: State, value: Value) -> None:
        """Generalize the dtype and shape of a state so that they also hold for a new value.

        Raises:
            CarryTypeError, CarryShapeError: If no type holds for both.
        """
        old_type = self.types_by_state.get(state)
        new_type = _join_types(state, old_type or (value.dtype, value.shape), value)
        self.widening_counts[state] += new_type != old_type
        if self.widening_counts[state] > _MAX_WIDENINGS:
            raise CarryShapeError(
                f"'{state[2]}' gets another shape with every step: {list(value.shape or ())} is not "
                "the last",
                hint="a carried value must have one shape at all steps",
            )
        self.types_by_state[state] = new_type


class Memory:
    """Values of states (outputs, parameters and functions of nodes) at one point of execution.

    A state that is missing is looked up in the memory of the enclosing scope.
    """

    def __init__(
        self, b: ModelBuilder, outside: Memory | None = None, types: CarriedTypes | None = None
    ) -> None:
        self.b = b
        self.outer_memory = outside
        self.carried_types: CarriedTypes = (
            outside.carried_types if outside is not None else types or CarriedTypes()
        )
        self.stored_values: dict[State, StoredTerm] = {}
        self._has_run: dict[str, Truth] = {}

    def put(self, state: State, held_value: StoredTerm) -> None:
        """Store the value of a state, or a function that computes the value when it is read."""
        self.stored_values[state] = held_value

    def get(self, state: State) -> Term:
        """Return the value of a state from this memory or from that of an enclosing scope.

        Raises:
            Poisoned: If the state has no value, since its node could not be read.
        """
        stored_value = self.stored_values.get(state)
        if stored_value is None:
            return self._get_unstored(state)
        return stored_value if isinstance(stored_value, Value | tuple) else stored_value()

    def _get_unstored(self, state: State) -> Term:
        """Look up a state that is not stored here in the memory of the enclosing scope."""
        if self.outer_memory is None:
            raise Poisoned
        return self.outer_memory.get(state)

    def find(self, state: State) -> Term | None:
        """Return the value of a state, or None if the state has no value."""
        if state in self.stored_values:
            return self.get(state)
        return None if self.outer_memory is None else self.outer_memory.find(state)

    def has_run(self, node: str) -> Truth:
        """Return the truth value (constant or program value) that tells whether a node has run."""
        if node in self._has_run:
            return self._has_run[node]
        return False if self.outer_memory is None else self.outer_memory.has_run(node)

    def record_run(self, node: str, truth: Truth = True) -> None:
        """Record the truth value that tells whether a node has run."""
        self._has_run[node] = truth


class LoopMemory(Memory):
    """Values of states in a loop's body, where a missing state becomes a carried value of the loop.

    Attributes:
        read_initial_value: Function that returns the initial value of a state, in the scope outside the loop.
        initial_values: Initial values of the carried states.
        carried_inputs: Carried values at the beginning of an iteration.
        carried_outputs: Carried values at the end of an iteration.
    """

    def __init__(
        self,
        b: ModelBuilder,
        types: CarriedTypes,
        read_initial_value: Callable[[State], Value],
        nodes_that_ran: Iterable[str],
    ) -> None:
        super().__init__(b, types=types)
        self.read_initial_value = read_initial_value
        self.initial_values: dict[State, Value] = {}
        self.carried_inputs: dict[State, Value] = {}
        self.carried_outputs: dict[State, Value] = {}
        self._has_run = dict.fromkeys(nodes_that_ran, True)

    def _get_unstored(self, state: State) -> Term:
        return self.carry(state)

    def find(self, state: State) -> Term | None:
        """Return the value of a state, and make the state a carried value of the loop if necessary."""
        return self.get(state)

    def carry(self, state: State) -> Value:
        """Make a state a carried value of the loop, and return its value at the start of the body."""
        if state not in self.carried_inputs:
            self.initial_values[state] = self.read_initial_value(state)
            dtype, shape = self.carried_types.type(state)
            self.carried_inputs[state] = self.b.new(dtype, shape, ".".join(filter(None, state[1:])))
        return self.carried_inputs[state]

    def has_run(self, node: str) -> Truth:
        """Return whether a node has run: True if known at compile time, else a program value.

        If nothing is recorded about the node, the value is a carried value of the loop.
        """
        if node not in self._has_run:
            self._has_run[node] = self.carry(("ran", node, ""))
        return self._has_run[node]

    def find_body_outputs(self, where: str) -> bool:
        """Find the final value of each carried state in the body, and return whether a carried type changed.

        The computation of a body output may carry further states.
        """
        while pending_states := [
            state for state in self.carried_inputs if state not in self.carried_outputs
        ]:
            for state in pending_states:
                self.carried_outputs[state] = carried_output = self._find_body_output(state)
                if NODE_FIELDS.get(state[0]) is None:
                    continue
                with self.b.at(
                    f"{where}.nodes['{state[1]}'].{NODE_FIELDS[state[0]]}['{state[2]}']"
                ):
                    self.carried_types.widen(state, carried_output)
        carried_input_types = {
            state: (carried_input.dtype, carried_input.shape)
            for state, carried_input in self.carried_inputs.items()
        }
        return any(
            self.carried_types.type(state) != carried_input_type
            for state, carried_input_type in carried_input_types.items()
        )

    def _find_body_output(self, state: State) -> Value:
        """Return the value of a carried state at the end of the loop body."""
        if state[0] == "ran":
            return to_value(self.b, self._has_run[state[1]])
        stored_value = self.stored_values.get(state)
        if stored_value is None:
            return self.carried_inputs[state]
        return tensor(
            self.b, stored_value if isinstance(stored_value, Value | tuple) else stored_value()
        )

    def build_carried_values(
        self, outer_builder: ModelBuilder, format_name: Callable[[State], str]
    ) -> tuple[Carried, ...]:
        """Build the carried values of the loop from the states that its body reads.

        `name` returns the name of a state's final value.
        """
        carried_values = []
        for state, carried_input in self.carried_inputs.items():
            carried_output = generalize(
                self.b, self.carried_outputs[state], carried_input.dtype, carried_input.shape
            )
            final_value = outer_builder.new(
                carried_input.dtype, carried_input.shape, format_name(state)
            )
            carried_values.append(
                Carried(
                    self.initial_values[state], carried_input, carried_output, final_value, state[2]
                )
            )
        return tuple(carried_values)


def _join_types(state: State, old_type: tuple[str, Shape], value: Value) -> tuple[str, Shape]:
    """Return the common dtype and shape of the old type of a state and a new value."""
    item_id = state[2]
    dtype, shape = old_type
    if dtype != value.dtype and not {kind_of(dtype), kind_of(value.dtype)} <= set("biufc"):
        raise CarryTypeError(f"'{item_id}' changes from {dtype} to {value.type}")
    common_dtype = promoted_dtype((dtype, value.dtype)) if dtype != value.dtype else dtype
    if shape is None or value.shape is None:
        return common_dtype, None
    if not (is_fixed(shape) and is_fixed(value.shape)):
        return common_dtype, _join_open_shapes(state, shape, value.shape)
    try:
        return common_dtype, np.broadcast_shapes(shape, value.shape)
    except ValueError:
        raise CarryShapeError(
            f"'{item_id}' changes its shape over time: {list(shape)} becomes {list(value.shape)}",
            hint="give it an initial value of the shape that it has later",
        ) from None


def _join_open_shapes(state: State, *shapes: _Extents) -> Shape:
    """Return the common shape of several shapes of a state, with names for differing extents.

    The values are not broadcast: each keeps its own extents. A number is an array of one element.
    """
    rank = max(map(len, shapes))
    padded_shapes = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    state_text = ".".join(filter(None, state[1:]))
    return tuple(
        extents[0]
        if {*map(type, extents)} == {int} and len({*extents}) == 1
        else f"{state_text}_{k}"
        for k, extents in enumerate(zip(*padded_shapes, strict=True))
    )


def generalize(b: ModelBuilder, value: Value, dtype: str, shape: Shape) -> Value:
    """Convert a value to a more general dtype and shape, without loss."""
    converted_value = cast(b, value, dtype)
    if shape is None or converted_value.shape is None or converted_value.shape == shape:
        return converted_value
    if not is_fixed(shape):
        return add_leading_axes(b, converted_value, len(shape))
    broadcast_value = b.op("Expand", converted_value, ints(b, *shape))
    return b.record_broadcast(broadcast_value, converted_value)


def select_term(b: ModelBuilder, test: Truth, then: Term, otherwise: Term) -> Term:
    """Return `then if test else otherwise` for program values or tuples of values.

    Numeric values of different fixed shapes are broadcast.
    """
    if not isinstance(test, Value):
        return then if test else otherwise
    then_value, else_value = tensor(b, then), tensor(b, otherwise)
    if not (kind_of(then_value.dtype) in "biufc" and kind_of(else_value.dtype) in "biufc"):
        return choose(b, test, lambda _: [then_value], lambda _: [else_value], then_value.name)[0]
    then_value, else_value = promote(b, then_value, else_value)
    if not (is_fixed(then_value.shape) and is_fixed(else_value.shape)):
        return select_value(b, test, then_value, else_value)
    selected_value = b.op("Where", test, then_value, else_value)
    if then_value.shape != else_value.shape:
        return b.record_broadcast(selected_value, then_value, else_value)
    return selected_value


def create_placeholder(b: ModelBuilder, dtype: str, shape: Shape) -> Value:
    """Return a placeholder for a value that does not exist yet and that no operation reads."""
    if not is_tensor(dtype):
        return lower_known_data(b, dtype, [] if is_sequence(dtype) else None)
    placeholder_extents = tuple(extent if isinstance(extent, int) else 0 for extent in shape or ())
    return b.constant(
        np.full(placeholder_extents, "" if dtype == "string" else 0, numpy_dtype(dtype))
    )
