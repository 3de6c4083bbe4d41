"""Decision for each loop of a program whether machine code or ONNX Runtime executes the loop.

The decision depends on the program and, for short runs, on the amount of work. The amount of work decides
only if native and standard loops give the same bits, so a split or extended run gives the same results.
Modules that compile machine code are imported only when a loop is compiled, which keeps short runs fast.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from mdf_loop.errors import Finding, raise_findings
from mdf_loop.ir import Array, Loop, Op, Operation, Program, Value, bodies, walk
from mdf_loop.native.cost import is_slower
from mdf_loop.native.decompose import decompose_loop
from mdf_loop.native.outside_functions import OutsideFunctions, find_outside_functions
from mdf_loop.native.support import KernelSignature, constants_in, signature_of
from mdf_loop.ops import row_of
from mdf_loop.ops.costs import CALL_MICROSECONDS
from mdf_loop.ops.native.code import NotNative, is_float
from mdf_loop.ops.registry import Reproducibility

if TYPE_CHECKING:
    from mdf_loop.emit.onnx_model import LoopWriter
    from mdf_loop.native.operator import NativeLoop

NATIVE = "native"
"""Decision text of a native loop."""
STANDARD_FOR_LITTLE_WORK = "standard: there is little to do"
"""Decision text of a loop that is standard because it has too little work for machine code to pay off."""
MIN_SHARED_ELEMENTS = 512
"""Minimum number of elements of a carried array for which sharing a loop among threads may pay off."""

MIN_NATIVE_MICROSECONDS = 10_000.0
"""Minimum work of a native loop: estimated microseconds that all iterations take in ONNX Runtime.

The compilation of machine code takes longer.
"""


class LoopDecisions(Struct, frozen=True, eq=False):
    """Decision for each loop of a program: machine code (native) or ONNX Runtime (standard).

    Attributes:
        program: The program. Loops of one iteration replace the functions that native loops compute with own
            code.
        loops: Operators of native loops.
        form_by_name: Decision for each loop by name: `native`, or `standard: ` and the reason.
    """

    program: Program
    loops: Mapping[Loop, NativeLoop] = field(default_factory=dict)
    form_by_name: Mapping[str, str] = field(default_factory=dict)

    def register(self, options: Any) -> Callable[[], None]:
        """Register the custom operators of native loops with ONNX Runtime session options.

        Returns:
            A function to be called after a session was created, which keeps the operators alive.
        """
        if not self.loops:
            return lambda: None
        from mdf_loop.native.operator import keep_alive, register

        custom_operators = tuple(self.loops.values())
        domain_address = register(options, custom_operators)
        return lambda: keep_alive(options, domain_address, custom_operators)

    def writer(self, otherwise: LoopWriter) -> LoopWriter:
        """Return a writer of loops as ONNX nodes, which writes native loops as custom operators.

        `otherwise` writes all other loops.
        """
        if not self.loops:
            return otherwise
        from mdf_loop.native.node import make_loop_writer

        return make_loop_writer(self.loops, otherwise)

    def can_share_lanes(self, program: Program) -> bool:
        """Return True if native loops may divide their array elements among several threads.

        The loops must have many elements, and the number of threads must not affect the bits of other operations.
        """
        loop_op_ids = {id(op) for loop in self.loops for op in walk(loop.ops)}
        ops_outside_loops = (
            op for op in walk(program.ops) if isinstance(op, Op) and id(op) not in loop_op_ids
        )
        return any(map(_has_large_arrays, self.loops)) and not any(
            map(_depends_on_math_library, ops_outside_loops)
        )


def decide_loops(
    program: Program,
    mode: str = "auto",
    *,
    brief: bool = False,
    get_loop_program: Callable[[], Program] | None = None,
    whole: Program | None = None,
) -> LoopDecisions:
    """Decide for each loop of a program whether to compile the loop to machine code.

    Args:
        program: The program, prepared for ONNX Runtime.
        mode: `auto`; `off` for no native loops; `require` for native loops only.
        brief: True if the program has less work than `MIN_NATIVE_MICROSECONDS`.
        get_loop_program: Returns the program of which `program` is an iteration of the last loop. The function is
            called only if its result matters.
        whole: The program of which `program` is a part.

    Raises:
        UnsupportedError: The mode is `require` and some loops cannot be native. The error lists each with its
            reason.
    """
    outside_functions = find_outside_functions(whole or program)
    decision_maker = _DecisionMaker(constants_in(program), mode, brief, outside_functions)
    decision_maker.visit(program.ops)
    if mode == "require":
        decision_maker.refuse_standard()
    functions_outside_loops = find_outside_functions(program, whole=whole)
    if mode == "off" or not functions_outside_loops.functions or reason_unavailable() is not None:
        return LoopDecisions(program, decision_maker.loops, decision_maker.form_by_name)
    array_loops = (
        decision_maker.array_loops
        if whole is None
        else _decide_without_compiling(whole, mode, brief=brief).array_loops
    )
    functions_to_compile = functions_outside_loops.of_loops(array_loops)
    if get_loop_program is not None and _last_loop_computes_arrays(get_loop_program(), mode):
        functions_to_compile = list(functions_outside_loops.functions)
    return (
        _add_function_loops(program, functions_to_compile, decision_maker)
        if functions_to_compile
        else LoopDecisions(program, decision_maker.loops, decision_maker.form_by_name)
    )


def _last_loop_computes_arrays(program: Program, mode: str) -> bool:
    """Return True if the last loop computes arrays, and a long run would compile the loop."""
    outermost_loops = [operation for operation in program.ops if isinstance(operation, Loop)]
    return any(
        loop is outermost_loops[-1] for loop in _decide_without_compiling(program, mode).array_loops
    )


def _add_function_loops(
    program: Program, functions: Sequence[Op], decisions: _DecisionMaker
) -> LoopDecisions:
    """Compile math functions outside of loops as one-iteration loops, and extend the decisions."""
    from mdf_loop.native.function_loops import replace_functions_by_loops
    from mdf_loop.native.operator import make_operator

    looped_functions = replace_functions_by_loops(program, functions)
    function_operators = {
        loop: make_operator(kernel, f"function_{k}")
        for k, (loop, kernel) in enumerate(looped_functions.kernels.items())
    }
    return LoopDecisions(
        looped_functions.program, {**decisions.loops, **function_operators}, decisions.form_by_name
    )


def refuse_standard_loops(program: Program) -> None:
    """Raise an error if ONNX Runtime, instead of machine code, would execute a loop of a program.

    No loop is compiled.

    Raises:
        UnsupportedError: Some loops cannot be native. The error lists each with its reason.
    """
    decision_maker = _decide_without_compiling(program, "require")
    unavailable_reason = reason_unavailable() if decision_maker.form_by_name else None
    if unavailable_reason is not None:
        decision_maker.standard_loops = [
            (loop, unavailable_reason) for loop in program.ops if isinstance(loop, Loop)
        ]
    decision_maker.refuse_standard()


def predict_forms(program: Program) -> Mapping[str, str]:
    """Predict for each loop name whether a long run would use machine code.

    No loop is compiled.
    """
    return _decide_without_compiling(program, "auto").form_by_name


def _decide_without_compiling(
    program: Program, mode: str, *, brief: bool = False
) -> _DecisionMaker:
    """Decide which loops of a program would be native, without compiling them."""
    decision_maker = _DecisionMaker(
        constants_in(program), mode, brief, find_outside_functions(program), compiles=False
    )
    decision_maker.visit(program.ops)
    return decision_maker


class _DecisionMaker:
    """Visitor that decides which loops to compile to machine code, outer loops first.

    Attributes:
        loops: Operators of native loops.
        array_loops: Native loops that compute arrays.
        form_by_name: Decision for each loop by name.
        standard_loops: Standard loops with their reasons.
    """

    def __init__(
        self,
        constants: Mapping[Value, Array],
        mode: str,
        is_brief: bool,
        outside_functions: OutsideFunctions,
        compiles: bool = True,
    ) -> None:
        self.loops: dict[Loop, NativeLoop] = {}
        self.array_loops: list[Loop] = []
        """Native loops that compute arrays."""
        self.form_by_name: dict[str, str] = {}
        self.standard_loops: list[tuple[Loop, str]] = []
        self._constants = constants
        self._mode = mode
        self._is_brief = is_brief
        self._outside_functions = outside_functions
        self._compiles = compiles

    def refuse_standard(self) -> None:
        """Raise an UnsupportedError that lists all loops that are not native."""
        raise_findings(
            Finding(
                "UnsupportedError",
                f"the loop '{loop.name}' cannot be native: {reason}",
                loop.where,
                "change what is named, or run it with native='auto'",
            )
            for loop, reason in self.standard_loops
        )

    def visit(self, ops: Iterable[Operation]) -> None:
        """Decide for each loop in a sequence of operations whether it is native."""
        for operation in ops:
            if isinstance(operation, Loop):
                self._decide_loop(operation)
            else:
                for body in bodies(operation):
                    self.visit(body.ops)

    def _decide_loop(self, loop: Loop) -> None:
        try:
            self._decide_native(loop)
        except NotNative as reason:
            self.form_by_name[loop.name] = f"standard: {reason}"
            self.standard_loops.append((loop, str(reason)))
            self.visit(loop.ops)
            return
        for operation in walk((loop,)):
            if isinstance(operation, Loop):
                self.form_by_name[operation.name] = NATIVE

    def _decide_native(self, loop: Loop) -> None:
        """Compile a loop to machine code, or raise NotNative with the reason not to.

        Raises:
            NotNative: The loop cannot be native, or is better standard.
        """
        if self._mode == "off":
            raise NotNative("native loops are off")
        if any(
            isinstance(operation, Loop) and operation.member_axis for operation in walk(loop.ops)
        ):
            raise NotNative("members stop each for itself in a loop inside")
        decomposed_loop = decompose_loop(loop, self._constants)
        try:
            signature = signature_of(decomposed_loop.loop, decomposed_loop.constants)
            self._compile_if_faster(loop, signature, decomposed_loop.loop)
        except NotNative as reason:
            raise decomposed_loop.restate_reason(reason) from None

    def _compile_if_faster(
        self, loop: Loop, signature: KernelSignature, composed_loop: Loop
    ) -> None:
        """Compile a loop to machine code, or raise NotNative if this does not pay off."""
        if self._mode == "auto" and is_slower(composed_loop, loop, self._constants):
            raise NotNative("ONNX Runtime's own kernels are faster for its arrays")
        if (
            self._mode == "auto"
            and self._has_little_work(loop)
            and self._has_same_bits(loop, signature)
        ):
            raise NotNative(STANDARD_FOR_LITTLE_WORK.removeprefix("standard: "))
        unavailable_reason = reason_unavailable() if self._compiles else None
        if unavailable_reason is not None:
            raise NotNative(unavailable_reason)
        from mdf_loop.native.kernel import compile_kernel, write_kernel

        if self._compiles:
            from mdf_loop.native.operator import make_operator

            self.loops[loop] = make_operator(compile_kernel(signature), f"loop_{len(self.loops)}")
        else:
            write_kernel(signature, 1)
        if signature.computes_arrays:
            self.array_loops.append(loop)

    def _has_same_bits(self, loop: Loop, signature: KernelSignature) -> bool:
        """Return True if machine code and ONNX Runtime compute bit-identical results of a loop.

        Functions that were hoisted out of the loop count, too.
        """
        hoisted_functions = (
            self._outside_functions.of_loop(loop) if signature.computes_arrays else []
        )
        return not hoisted_functions and has_same_bits(loop, many=signature.computes_arrays)

    def _has_little_work(self, loop: Loop) -> bool:
        trip_count = None if loop.trip_count is None else self._constants.get(loop.trip_count)
        if trip_count is None:
            return self._is_brief
        return (
            int(trip_count.item()) * estimate_work(loop.ops, self._constants)
            < MIN_NATIVE_MICROSECONDS
        )


def estimate_work(ops: Iterable[Operation], constants: Mapping[Value, Array]) -> float:
    """Return a lower bound of the time of operations in ONNX Runtime, in microseconds.

    The result is infinite if an inner loop has an unknown number of iterations.
    """
    total_microseconds = 0.0
    for operation in ops:
        total_microseconds += CALL_MICROSECONDS
        if isinstance(operation, Loop):
            total_microseconds += _iteration_count(operation, constants) * (
                CALL_MICROSECONDS + estimate_work(operation.ops, constants)
            )
        elif isinstance(operation, Op):
            total_microseconds += row_of(operation.op_type).min_microseconds(operation)
        else:
            total_microseconds += sum(
                estimate_work(body.ops, constants) for body in bodies(operation)
            )
    return total_microseconds


def _iteration_count(loop: Loop, constants: Mapping[Value, Array]) -> float:
    """Return the number of iterations of a loop, or infinity if it is not constant."""
    trip_count = None if loop.trip_count is None else constants.get(loop.trip_count)
    return (
        math.inf
        if trip_count is None or loop.condition is not None
        else max(int(trip_count.item()), 0)
    )


def _has_large_arrays(loop: Loop) -> bool:
    """Return True if a loop carries an array large enough to divide among threads."""
    carried_shapes = (carried_value.body_input.shape or () for carried_value in loop.carried)
    return any(
        math.prod(_extent_or_minimum(extent) for extent in shape) >= MIN_SHARED_ELEMENTS
        for shape in carried_shapes
    )


def _extent_or_minimum(extent: int | str) -> int:
    return extent if isinstance(extent, int) else MIN_SHARED_ELEMENTS


def _depends_on_math_library(op: Op) -> bool:
    operation_row = row_of(op.op_type)
    return operation_row.reproducibility is Reproducibility.RUNTIME_DEPENDENT and any(
        is_float(value.dtype) for value in op.outputs
    )


def has_same_bits(loop: Loop, *, many: bool) -> bool:
    """Return True if machine code and ONNX Runtime compute bit-identical results of a loop.

    Integer arithmetic is exact, and both ways compute functions of one float64 with the system's library. In
    ONNX Runtime, the maximum of two zeros, or of a number and nan, depends on the position in the array.

    Args:
        loop: The loop.
        many: True if the loop computes arrays.
    """
    return all(_has_same_bits(op, many=many) for op in walk(loop.ops) if isinstance(op, Op))


def _has_same_bits(op: Op, *, many: bool) -> bool:
    reproducibility, dtype = row_of(op.op_type).reproducibility, op.outputs[0].dtype
    if reproducibility is Reproducibility.FIXED or not is_float(dtype):
        return True
    return not many and (reproducibility is Reproducibility.ROUNDED_ONCE or dtype == "float64")


@functools.cache
def reason_unavailable() -> str | None:
    """Return the reason why loops cannot run as machine code on this machine, or None."""
    from importlib.util import find_spec

    from mdf_loop.native.operator import trampoline_path

    if trampoline_path() is None:
        return "there is none for this system and processor"
    if find_spec("llvmlite") is None:
        return "llvmlite is not installed"
    from mdf_loop.native.machine import compilation_problem

    return compilation_problem()
