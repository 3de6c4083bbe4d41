"""Where many values at once are built, and the small words that the rules for it are written in.

A rule makes the outputs of an operation, with an axis for the values in front, from operands of
which some have that axis. Most operators need no more than their axes counted one further.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Array, Op, Shape, Value
from mdf_loop.ir.substitute import substitute
from mdf_loop.ir.types import is_tensor
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.registry import title
from mdf_loop.ops.words import ints, rank

if TYPE_CHECKING:
    from mdf_loop.build import Builder

HINT = "run the values one after the other"


class Operand(Struct, frozen=True):
    """What an operation reads: `member` is the value of one run alone, `value` that of all runs.

    If it is `batched`, `value` has the axis of the runs in front of the axes of `member`.
    """

    member: Value
    value: Value
    batched: bool

    @property
    def rank(self) -> int:
        """How many axes the value of one run has."""
        return rank(self.member)


Operands: TypeAlias = Sequence["Operand | None"]


class Lane(Struct):
    """Where a rule builds: the scope at hand, the outermost one, the axis of the runs.

    `count` is the number of runs as an array of one element. What an operand becomes is made in
    the scope that made the operand, once: a loop finds it done.
    """

    b: Builder
    root: Builder
    axis: str
    count: Callable[[], Value]
    homes: dict[Value, Builder] = field(default_factory=dict)
    forms: dict[tuple[Value, tuple[object, ...]], Value] = field(default_factory=dict)

    def inside(self, b: Builder) -> Lane:
        """The lane of a body."""
        return replace(self, b=b)

    def constant(self, op: Op, operands: Operands, position: int) -> Array | None:
        """The array of an optional operand, which must be known now.

        Raises:
            UnsupportedError: the operand is computed.
        """
        x = optional(operands, position)
        array = self.b.constant_of(x.value) if x is not None else None
        if x is not None and array is None:
            raise refusal(op, f"its '{_formal(op, position)}' must be known when it is compiled")
        return array

    def spread(self, x: Operand) -> Value:
        """The operand with the axis of the runs, also if all runs share it."""
        return x.value if x.batched else self._expanded(x, (1,) * x.rank, x.member.shape)

    def filled(self, x: Operand, shape: tuple[int, ...]) -> Value:
        """The operand with the axis of the runs, each run broadcast to this shape."""
        return self._expanded(x, shape, shape)

    def aligned(self, x: Operand, rank: int) -> Value:
        """The operand with as many axes for one run, so that it broadcasts run by run."""
        if not x.batched or x.rank >= rank:
            return x.value
        axes = range(1, 1 + rank - x.rank)
        return self._form(x, ("aligned", rank), lambda b: _unsqueezed(b, x.value, axes))

    def single(self, x: Operand, rank: int) -> Value:
        """The one element that all runs share, with all axes that the result has."""
        axes = range(1 + rank - x.rank)
        return self._form(x, ("single", rank), lambda b: _unsqueezed(b, x.value, axes))

    def is_outside(self, x: Operand) -> bool:
        """Whether the operand was there before the body at hand."""
        return self._home(x.value) is not self.b

    def _expanded(self, x: Operand, least: tuple[int, ...], shape: Shape) -> Value:
        aligned = self.aligned(x, len(least))

        def expand(b: Builder) -> Value:
            made = b.op("Expand", aligned, b.op("Concat", self.count(), ints(b, *least), axis=0))
            typed = replace(made, shape=(self.axis, *(shape or ())))  # more than ONNX can tell
            b.ops[-1] = substitute(b.ops[-1], {made: typed})
            return typed

        return self._form(x, ("expanded", *least), expand)

    def _form(
        self, x: Operand, form: tuple[object, ...], make: Callable[[Builder], Value]
    ) -> Value:
        key = (x.value, form)
        if key not in self.forms:
            home = self._home(x.value)
            with home.at(home.where, x.value.name):
                self.forms[key] = make(home)
        return self.forms[key]

    def _home(self, value: Value) -> Builder:
        """The scope that made a value; constants that rules make are the whole program's."""
        known = self.b.constant_of(value) is not None
        return self.homes.get(value, self.root if known else self.b)

    def same(self, op: Op, *inputs: Value | None, **changes: Any) -> tuple[Value, ...]:
        """The operation itself on other inputs, with some attributes changed."""
        attributes = {**op.attributes, **changes}
        return self.b.multi(op.op_type, *inputs, n_outputs=len(op.outputs), **attributes)


def _unsqueezed(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    return b.op("Unsqueeze", x, ints(b, *axes))


# --- what an operation says -------------------------------------------------------------------


def required(operands: Operands, position: int = 0) -> Operand:
    """An operand that the operator requires."""
    x = operands[position]
    assert x is not None
    return x


def optional(operands: Operands, position: int) -> Operand | None:
    """An operand that may be left out."""
    return operands[position] if position < len(operands) else None


def given(operands: Operands) -> list[Operand]:
    """The operands that are not left out."""
    return [x for x in operands if x is not None]


def values(operands: Operands) -> list[Value | None]:
    """The operands as they are."""
    return [None if x is None else x.value for x in operands]


def attribute(op: Op, name: str) -> Any:
    """An attribute as given, else ONNX's default, else None."""
    return onnx_schema.attribute(op.op_type, op.attributes, name)


def further(axis: int) -> int:
    """The axis behind that of the runs; one counted from the end stays what it is."""
    return axis + 1 if axis >= 0 else axis


# --- refusals ---------------------------------------------------------------------------------


def refusal(op: Op, reason: str) -> UnsupportedError:
    """The error for an operation that cannot be computed for all runs at once."""
    sentence = f"{title(op.op_type)} cannot be computed for many values at once"
    return UnsupportedError(f"{sentence}: {reason}", op.where, HINT)


def only(op: Op, operands: Operands, *positions: int) -> None:
    """Refuse an operation that has another batched operand than these."""
    for position, x in enumerate(operands):
        if x is not None and x.batched and position not in positions:
            raise refusal(op, f"each of them has its own '{_formal(op, position)}'")


def _formal(op: Op, position: int) -> str:
    formals = onnx_schema.schema_of(op).inputs
    return str(formals[min(position, len(formals) - 1)].name)


def refuse_sequence(value: Value) -> None:
    """Refuse a value of many runs that is no tensor of a known number of axes."""
    if not is_tensor(value.dtype):
        raise UnsupportedError(
            f"'{value.name}' is {value.type} and depends on what is swept: sequences cannot be "
            "computed for many values at once",
            hint=HINT,
        )
    rank(value)
