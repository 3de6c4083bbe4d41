"""Conversion of a branch with unknown extents if its conversion with the shapes of the run fails.

Only the run determines the selected branch, but the shapes are those of one run. So a branch that does not
fit these shapes is not an error of the model. Only a run that selects the branch fails.

    if %one giving %y: float32[d]             # x: float32[2, 3], its port says [-1, -1]
      %s: float32[2] = Squeeze(%x, 1)         # is refused: that axis has 3 elements
      give %s
    ->
      %none: int64[1] = Not(%one)             # 0, but only the run can know it
      %extents: int64[d] = Slice(Shape(%x), %none)
      %x_open: float32[d, d_2] = Reshape(%x, %extents)
      %s: float32[d] = Squeeze(%x_open, 1)
      give %s

Extents that the model states stay known. A branch that fits no input at all is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

import numpy as np
from msgspec import Struct

from mdf_loop.errors import Finding, Poisoned
from mdf_loop.ir import Op, Shape, Value
from mdf_loop.ir.types import is_tensor
from mdf_loop.lower import Scope, Term, cast
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops.build_helpers import ints
from mdf_loop.reading.general_shapes import GeneralShapes, is_independent_of_inputs, is_specialized

BranchReader = Callable[[ModelBuilder, Scope], Sequence[Value]]
"""Function that appends the operations of a branch, with names looked up in a scope, and returns the outputs."""


_STRICT_RULE_ERRORS = frozenset({"CarryShapeError", "JoinError"})
"""Findings about strict shape rules of this package. Other shapes do not remove them."""


class OpenBranch:
    """Converter of a branch, which tries unknown shapes if the run's own shapes cause errors.

    Attributes:
        is_then: Value of the condition for which the branch is selected.
        is_open: True if the branch was converted with unknown shapes.
    """

    def __init__(
        self,
        description: str,
        read_branch: BranchReader,
        scope: Scope,
        condition: Value,
        *,
        is_then: bool,
    ) -> None:
        self.description = description
        self.read_branch = read_branch
        self.scope = scope
        self.condition = condition
        self.is_then = is_then
        self.is_open = False

    def read(self, b: ModelBuilder) -> Sequence[Value]:
        """Convert the branch to operations in its own builder `b`, and return its outputs."""
        if b.constant_of(self.condition) is not None:
            return self.read_branch(b, self.scope)
        branch_result = self._try_to_read(b, self.scope)
        if branch_result.outputs is not None and not branch_result.findings:
            return branch_result.outputs
        generalized_outputs = (
            self._read_with_open_shapes(b, branch_result.findings[0])
            if self._may_fit_other_shapes(b, branch_result.findings)
            else None
        )
        if generalized_outputs is not None:
            return generalized_outputs
        b.findings.items += branch_result.findings
        b.findings.lasting.update(branch_result.findings)
        raise Poisoned

    def _may_fit_other_shapes(self, b: ModelBuilder, findings: Sequence[Finding]) -> bool:
        """Return True if the branch may be correct for shapes other than those of the run."""
        any_shape_findings = b.findings.lasting
        return bool(findings) and not any(
            finding in any_shape_findings or finding.kind in _STRICT_RULE_ERRORS
            for finding in findings
        )

    def _read_with_open_shapes(self, b: ModelBuilder, finding: Finding) -> Sequence[Value] | None:
        """Convert the branch as if the shapes of its inputs were unknown, and return its outputs.

        Return None if the branch is wrong for all shapes.
        """
        for keeps_ranks in (True, False):
            b.discard(b.ops)
            b.ops.clear()
            open_scope = _OpenScope(b, self.scope, self._compute_zero, keeps_ranks=keeps_ranks)
            branch_result = self._try_to_read(b, open_scope)
            if branch_result.outputs is not None and not branch_result.findings:
                self.is_open = True
                b.note(
                    f"{self.description} does not fit these shapes: a run that takes it fails ({finding.what})",
                    finding.where,
                )
                return branch_result.outputs
        return None

    def _try_to_read(self, b: ModelBuilder, scope: Scope) -> _BranchResult:
        """Try to convert the branch, and return its outputs and the errors of the conversion."""
        branch_outputs = None
        finding_count = len(b.findings.items)
        with b.findings.catch():
            branch_outputs = self.read_branch(b, scope)
        return _BranchResult(branch_outputs, b.findings.pop_since(finding_count))

    def _compute_zero(self, b: ModelBuilder) -> Value:
        """Return a tensor that is [0] whenever the branch runs, but that no pass can fold to a constant."""
        is_not_selected = b.op("Not", self.condition) if self.is_then else self.condition
        return b.op("Reshape", cast(b, is_not_selected, "int64"), ints(b, 1))


class _BranchResult(Struct, frozen=True):
    """Outputs of a converted branch (None after an error), and the errors of the conversion."""

    outputs: Sequence[Value] | None
    findings: tuple[Finding, ...]


class _OpenScope(Scope):
    """Scope in which extents that depend on the run's inputs are replaced by unknown extents.

    If `keeps_ranks` is false, values without a stated shape may have any number of axes.
    """

    def __init__(
        self,
        b: ModelBuilder,
        outside: Scope,
        make_zero: Callable[[ModelBuilder], Value],
        *,
        keeps_ranks: bool,
    ) -> None:
        super().__init__(parent=outside)
        self.b = b
        self.keeps_ranks = keeps_ranks
        self._make_zero = make_zero
        self._zero: Value | None = None
        self._general_shapes = GeneralShapes(b)
        self._open_values: dict[Value, Value] = {}

    def find(self, name: str) -> Term | None:
        """Look up a value by name, and hide the extents that depend on the run's inputs."""
        found_term = super().find(name)
        return None if found_term is None else self._generalize(found_term)

    def _generalize(self, original_term: Term) -> Term:
        """Hide the extents that depend on the run's inputs, in a value or a tuple of values."""
        if isinstance(original_term, tuple):
            return type(original_term)(self._generalize(element) for element in original_term)
        if original_term not in self._open_values:
            general_shape = self._general_shapes.find_shape(original_term)
            if not (
                self.keeps_ranks
                or original_term in self.b.stated_shapes
                or is_independent_of_inputs(self.b, original_term)
            ):
                general_shape = None
            needs_hidden_shape = is_tensor(original_term.dtype) and is_specialized(
                self.b, original_term, general_shape
            )
            self._open_values[original_term] = (
                self._hide_shape(original_term, general_shape)
                if needs_hidden_shape
                else original_term
            )
        return self._open_values[original_term]

    def _hide_shape(self, value: Value, shape: Shape) -> Value:
        """Append a `Reshape` that keeps a value but hides its shape until run time."""
        b = self.b
        with b.at(b.where, value.name):
            if self._zero is None:
                self._zero = self._make_zero(b)
            last_axis = ints(b, np.iinfo(np.int64).max)
            runtime_extents = b.op("Slice", b.op("Shape", value), self._zero, last_axis)
            shape_with_names = shape and tuple(
                b.name("d") if str(extent).startswith("?") else extent for extent in shape
            )
            reshaped_value = b.new(value.dtype, shape_with_names)
            b.ops.append(
                Op(
                    "Reshape",
                    (value, runtime_extents),
                    (reshaped_value,),
                    MappingProxyType({"allowzero": 1}),
                    b.where,
                )
            )
        return b.mark_weak(reshaped_value) if b.is_weak(value) else reshaped_value
