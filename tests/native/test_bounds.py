"""Bounds checks of native kernels: an access out of bounds raises an error, and checks change nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from mdf_loop.build import Builder
from mdf_loop.errors import RunError
from mdf_loop.ir import Carried, Input, Loop, Output, Program, Recorded, Scanned, Shape
from mdf_loop.native import bounds, machine
from mdf_loop.native.blocks import LaneBlocks
from mdf_loop.native.kernel import write_kernel
from mdf_loop.native.loop_text import NO_MEMORY_CODE, PARAMETERS, STOPPED_CODE, LoopText
from mdf_loop.native.space import FunctionMemory
from mdf_loop.native.steps import KernelWriter
from mdf_loop.native.support import KernelSignature, constants_in, signature_of
from mdf_loop.native.writer import FunctionWriter
from mdf_loop.ops.native.code import Code, Extent, NotNative
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.onnxruntime import session as session_module
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import REQUIRED, STANDARD, kernels_checked
from tests.soak import times
from tests.strategies.native_loops import EXACT, Case, native_loops
from tests.strategies.native_steps import native_steps


def adding_loop(shape: Shape) -> Program:
    """Return a loop that adds each scanned row to the carried array, transposing a carried matrix first."""
    b = Builder()
    b.where = "$.model"
    assert shape is not None
    x, rows = b.new("float64", shape, "x"), b.new("float64", ("time", *shape), "rows")
    trip_count, body_builder = b.new("int64", (), "trip"), b.body()
    i, condition_in = body_builder.new("int64", (), "i"), body_builder.new("bool", (), "go")
    enter_value, row = (
        body_builder.new("float64", shape, "enter"),
        body_builder.new("float64", shape, "row"),
    )
    transposed_value = (
        body_builder.op("Transpose", enter_value, perm=(1, 0)) if len(shape) == 2 else enter_value
    )
    leave_value = body_builder.op("Add", transposed_value, row)
    final_value, stack = b.new("float64", shape, "final"), b.new("float64", ("k", *shape), "stack")
    carried_values, recorded_values = (
        (Carried(x, enter_value, leave_value, final_value),),
        (Recorded(leave_value, stack),),
    )
    body_ops, scanned_inputs = tuple(body_builder.ops), (Scanned(rows, row),)
    b.append(
        Loop(
            "A.f",
            trip_count,
            None,
            i,
            condition_in,
            None,
            carried_values,
            recorded_values,
            body_ops,
            scanned_inputs,
            where="$.loop",
        )
    )
    outputs = (Output("final", final_value), Output("stack", stack))
    return prepare(
        Program("p", tuple(map(Input, (x, rows, trip_count))), tuple(b.ops), outputs), ONNXRUNTIME
    )


def growing_loop(shape: Shape) -> Program:
    """Return a loop that records the rows of an inner loop, which emits `2 * x` `count` times."""
    b = Builder()
    b.where = "$.model"
    x, count = b.new("float64", shape, "x"), b.new("int64", (), "count")
    outer_body, inner_body = b.body(), b.body()
    i, j = outer_body.new("int64", (), "i"), inner_body.new("int64", (), "j")
    outer_condition, condition_in = (
        outer_body.new("bool", (), "goes"),
        inner_body.new("bool", (), "go"),
    )
    row = inner_body.op("Add", x, x)
    inner_stack = outer_body.new("float64", ("k", *(shape or ())), "some")
    outer_body.append(
        Loop(
            "A.g",
            count,
            None,
            j,
            condition_in,
            None,
            (),
            (Recorded(row, inner_stack),),
            tuple(inner_body.ops),
        )
    )
    negative_rows = outer_body.op("Neg", inner_stack)
    stack, three = b.new("float64", ("i", "k", *(shape or ())), "stack"), b.constant(np.array(3))
    outer_ops, recorded_values = tuple(outer_body.ops), (Recorded(negative_rows, stack),)
    b.append(
        Loop(
            "A.f",
            three,
            None,
            i,
            outer_condition,
            None,
            (),
            recorded_values,
            outer_ops,
            where="$.loop",
        )
    )
    inputs, outputs = tuple(map(Input, (x, count))), (Output("stack", stack),)
    return prepare(Program("p", inputs, tuple(b.ops), outputs), ONNXRUNTIME)


def adding_inputs(shape: Shape, trip: int = 3) -> dict[str, np.ndarray]:
    fixed_shape = tuple(100 if extent == "n" else int(extent) for extent in shape or ())
    rows = np.arange(3.0 * np.prod(fixed_shape)).reshape(3, *fixed_shape)
    return {"x": rows[1] / 7, "rows": rows, "trip": np.array(trip)}


def growing_inputs(shape: Shape, count: int = 5) -> dict[str, np.ndarray]:
    return {"x": adding_inputs(shape)["x"], "count": np.array(count)}


CASES_BY_KIND = {
    "one": (adding_loop(()), adding_inputs(())),
    "lanes": (adding_loop(("n",)), adding_inputs(("n",))),
    "steps": (adding_loop((9, 9)), adding_inputs((9, 9))),
    "growing": (growing_loop(("n",)), growing_inputs(("n",))),
}


def fault_message(kind: str, **other: np.ndarray) -> str:
    """Return the specific part of the error of a checked run, after checks of its location and hint."""
    program, inputs = CASES_BY_KIND[kind]
    with kernels_checked(), pytest.raises(RunError) as error:
        Session(program, REQUIRED).run(inputs | other)
    (finding,) = error.value.findings
    assert finding.where == "$.loop"
    assert finding.hint == "native='off' computes it without machine code"
    message_begin, message_end = "the native loop 'A.f' was about to ", f": {bounds.FAULT_SENTENCE}"
    assert finding.what.startswith(message_begin)
    assert finding.what.endswith(message_end)
    return finding.what.removeprefix(message_begin).removesuffix(message_end)


# --- correct kernels ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [("n",), (9, 9), (0,), (1,), ()])
@pytest.mark.parametrize("trip", [0, 1, 3])
def test_correct_kernels_pass_the_checks(shape: Shape, trip: int) -> None:
    """Run correct kernels with checks, including empty arrays, which have no memory at all."""
    program, inputs = adding_loop(shape), adding_inputs(shape, trip)
    with kernels_checked():
        outputs = Session(program, REQUIRED).run(inputs)
    expected = Session(program, STANDARD).run(inputs)
    for name in expected if trip else ["final"]:  # no rows have any shape
        np.testing.assert_array_equal(outputs[name], expected[name])


@pytest.mark.parametrize("shape", [(), ("n",), (2, 3)])
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_correct_kernels_with_growing_arrays_pass_the_checks(shape: Shape, count: int) -> None:
    inputs = growing_inputs(shape, count)
    with kernels_checked():
        stack = Session(growing_loop(shape), REQUIRED).run(inputs)["stack"]
    expected = np.broadcast_to(-2 * inputs["x"], (3, count, *inputs["x"].shape))
    assert stack.shape[:2] == (3, count)
    assert stack.tobytes() == expected.tobytes()


# --- unaligned arrays -----------------------------------------------------------------------------


def unaligned_copy(array: np.ndarray) -> np.ndarray:
    """Return a copy of the array at a memory address that is not aligned for its dtype."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    unaligned_array = np.frombuffer(memory.data, array.dtype, array.size, 1).reshape(array.shape)
    unaligned_array[...] = array
    assert not unaligned_array.flags.aligned
    return unaligned_array


@pytest.mark.parametrize("kind", CASES_BY_KIND)
def test_inputs_may_be_unaligned(kind: str) -> None:
    program, inputs = CASES_BY_KIND[kind]
    with kernels_checked():
        session = Session(program, REQUIRED)
    expected = session.run(inputs)
    outputs = session.run({name: unaligned_copy(array) for name, array in inputs.items()})
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name], array)


def test_preallocated_outputs_may_be_unaligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MIN_DIRECT_BYTES", 0)
    program, inputs = CASES_BY_KIND["lanes"]
    with kernels_checked():
        session = Session(program, REQUIRED)
    expected = session.run(inputs)["stack"]
    stack = session.run(inputs, buffers={"stack": unaligned_copy(np.zeros_like(expected))})["stack"]
    np.testing.assert_array_equal(stack, expected)


# --- incorrect kernels ----------------------------------------------------------------------------

FAR_OFFSET = 1 << 40
"""An offset in elements that lies outside of the memory of the process."""

ACCESSED_ARRAYS = [
    *(("lanes", name) for name in ("x", "rows", "final", "stack")),
    *(("steps", name) for name in ("enter", "rows", "row", "a table of places", "Transpose")),
    *(("growing", name) for name in ("some", "Neg", "stack")),
]
COPIED_ARRAYS = [
    *(("steps", name) for name in ("x", "enter", "final", "stack")),
    *(("growing", name) for name in ("some", "Neg", "stack")),
]


def memory_of(pointer: str) -> str:
    return next(bounds._memory_areas(pointer)).value.name


@pytest.mark.parametrize(("kind", "name"), ACCESSED_ARRAYS)
@pytest.mark.parametrize("by", [1, -1, FAR_OFFSET, -FAR_OFFSET])
def test_an_access_out_of_bounds_is_reported(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str, by: int
) -> None:
    """Shift the address of every element access of one array by `by` elements."""
    offset_pointer = FunctionWriter.offset_pointer

    def wrong(self: FunctionWriter, pointer: str, number: Extent, kind: str = "i8") -> str:
        if memory_of(pointer) == name:
            number = self.scalar_code.emit(f"add i64 {number}, {by * (8 if kind == 'i8' else 1)}")
        return offset_pointer(self, pointer, number, kind)

    monkeypatch.setattr(FunctionWriter, "offset_pointer", wrong)
    assert fault_message(kind) == f"reach outside of the memory of '{name}'"


@pytest.mark.parametrize(("kind", "name"), COPIED_ARRAYS)
@pytest.mark.parametrize("by", [1, -1, FAR_OFFSET, -FAR_OFFSET])
def test_a_copy_out_of_bounds_is_reported(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str, by: int
) -> None:
    """Shift the source or the target of every copy of one array by `by` elements."""
    correct_copy = KernelWriter.copy

    def wrong(self: KernelWriter, target: str, source: str, size: Extent) -> None:
        shifted_pointers = (
            self.offset_pointer(pointer, 8 * by) if memory_of(pointer) == name else pointer
            for pointer in (target, source)
        )
        correct_copy(self, *shifted_pointers, size)

    monkeypatch.setattr(KernelWriter, "copy", wrong)
    assert fault_message(kind) == f"reach outside of the memory of '{name}'"


@pytest.mark.parametrize(("kind", "name"), [("steps", "x"), ("growing", "Add")])
def test_a_copy_that_is_too_long_is_reported(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    correct_copy = KernelWriter.copy

    def wrong(self: KernelWriter, target: str, source: str, size: Extent) -> None:
        correct_copy(self, target, source, self.scalar_code.emit(f"add i64 {size}, 1"))

    monkeypatch.setattr(KernelWriter, "copy", wrong)
    assert fault_message(kind) == f"reach outside of the memory of '{name}'"


@pytest.mark.parametrize("kind", ["lanes", "steps"])
def test_reading_past_the_last_scanned_row_is_reported(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Disable the check of the row count, so that the loop reads past the last scanned row."""
    monkeypatch.setattr(FunctionWriter, "_check_rows", lambda *_: None)
    assert fault_message(kind, trip=np.array(4)) == "reach outside of the memory of 'rows'"


def test_recording_more_rows_than_allocated_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LaneBlocks, "_trip_count", lambda *_: "4")
    assert fault_message("one", rows=np.arange(9.0)) == "reach outside of the memory of 'stack'"


def test_a_stale_address_of_a_reallocated_buffer_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let a kernel use the address of a buffer from before a reallocation, which freed the memory."""
    grow = FunctionMemory.grow

    def wrong(self: FunctionMemory, room: int, factors: Sequence[Extent]) -> str:
        stale_address = grow(self, room, factors)
        grow(self, room, (*factors, 1 << 10))
        return stale_address

    monkeypatch.setattr(FunctionMemory, "grow", wrong)
    assert fault_message("growing") == "reach outside of the memory of 'some'"


def test_a_buffer_that_is_too_small_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    grow = FunctionMemory.grow
    monkeypatch.setattr(
        FunctionMemory, "grow", lambda self, room, factors: grow(self, room, factors[1:])
    )
    assert fault_message("growing") == "reach outside of the memory of 'some'"


def test_an_unaligned_streaming_store_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Force streaming stores for rows of 100 numbers, which are not aligned to cache lines."""
    monkeypatch.setattr(machine, "vector_width", lambda: 8)
    monkeypatch.setattr(LaneBlocks, "_write_stream_test", lambda *_: "true")
    assert (
        fault_message("lanes")
        == "take what is no multiple of 64 bytes for one in the memory of 'stack'"
    )


def test_a_pointer_into_no_array_is_an_assertion_error() -> None:
    """Check that the writer of a kernel gets an error for a pointer that belongs to no array."""
    (loop,) = (op for op in adding_loop(()).ops if isinstance(op, Loop))
    with kernels_checked():
        checks = bounds.bounds_of(Code(), loop, str)
    with pytest.raises(AssertionError, match="nobody knows into which array %v1 points"):
        checks.check_access("%v1", 8)


# --- texts ----------------------------------------------------------------------------------------

random_settings = settings(
    max_examples=times(15, 2_500),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def loop_signatures(program: Program) -> Iterator[KernelSignature]:
    constants = constants_in(program)
    return (signature_of(op, constants) for op in program.ops if isinstance(op, Loop))


def texts_without_and_with_checks(form: KernelSignature) -> tuple[LoopText, LoopText]:
    """Return the LLVM text of a loop without and with bounds checks."""
    with kernels_checked(False):
        plain_text = write_kernel(form, 8)
    with kernels_checked():
        return plain_text, write_kernel(form, 8)


def lines_without_checks(text: str) -> Iterable[str]:
    """Yield the lines that are not between the comments around checks."""
    is_in_check = False
    for line in text.splitlines():
        if line.strip().startswith(bounds.CHECK_BEGIN):
            is_in_check = not line.strip().startswith(bounds.CHECK_END)
        elif not is_in_check:
            yield line


def normalize_names(lines: Iterable[str], loop_text: LoopText) -> list[str]:
    """Return the lines with names numbered by first use, and error codes replaced by their messages."""
    renumbered_lines = []
    new_names: dict[str, str] = {}
    for line in lines:
        if line.startswith("define"):
            new_names.clear()
        line_with_reasons = re.sub(
            r"(?<=ret i64 -)\d+", lambda m: failure_message(loop_text, int(m[0])), line
        )
        line_parts = re.split(r"((?<=%)[a-z_]+\d+\b|^[a-z_]+\d+(?=:))", line_with_reasons)
        renumbered_lines.append(
            "".join(
                new_names.setdefault(line_part, f"n{len(new_names)}") if k % 2 else line_part
                for k, line_part in enumerate(line_parts)
            )
        )
    return renumbered_lines


def failure_message(loop_text: LoopText, number: int) -> str:
    message_by_code = {STOPPED_CODE: "stopped", NO_MEMORY_CODE: "no memory"}
    return message_by_code.get(number) or str(loop_text.failures[number - 1])


def memory_accesses(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the array of each access to memory of the caller, and True if a check precedes the access."""
    own_pointers, checked_pointers, is_skipped = set[str](), set[str](), False
    for line in map(str.strip, text.splitlines()):
        first_name, *other_names = re.findall(r"[%@][\w.]+", line) or [""]
        if line.startswith("define"):
            own_pointers, is_skipped = {"%extents", "%in", "%out", "%call"}, PARAMETERS not in line
        elif line.startswith(bounds.CHECK_BEGIN):
            is_skipped = not line.startswith(bounds.CHECK_END)
            checked_pointers |= {first_name} - ({first_name} if is_skipped else set())
        elif is_skipped:
            continue
        elif " = getelementptr " in line:
            own_pointers |= {first_name} if own_pointers & set(other_names) else set()
        elif re.match(r"store |call void @llvm.memmove|.* = load (?!volatile)", line):
            for pointer in re.findall(r"[,(] ?ptr ([%@]\w+)", line):
                if pointer not in own_pointers and not pointer.startswith("%place"):
                    yield pointer, pointer in checked_pointers
                    checked_pointers.discard(pointer)


def assert_only_checks_are_added(program: Program) -> None:
    for signature in loop_signatures(program):
        try:
            plain_text, checked_text = texts_without_and_with_checks(signature)
        except NotNative:
            continue
        assert bounds.CHECK_BEGIN not in plain_text.llvm_code
        remaining_lines = normalize_names(
            lines_without_checks(checked_text.llvm_code), checked_text
        )
        assert remaining_lines == normalize_names(plain_text.llvm_code.splitlines(), plain_text)
        accesses = list(memory_accesses(checked_text.llvm_code))
        assert accesses
        assert all(is_checked for _, is_checked in accesses)
        assert not any(is_checked for _, is_checked in memory_accesses(plain_text.llvm_code))


@pytest.mark.parametrize("kind", CASES_BY_KIND)
def test_checks_are_the_only_change_of_the_text(kind: str) -> None:
    assert_only_checks_are_added(CASES_BY_KIND[kind][0])


@pytest.mark.slow
@pytest.mark.soak
@random_settings
@given(native_loops(EXACT))
def test_checks_are_the_only_change_of_the_text_of_vectorized_loops(case: Case) -> None:
    assert_only_checks_are_added(prepare(case.program, ONNXRUNTIME))


@pytest.mark.slow
@pytest.mark.soak
@random_settings
@given(native_steps())
def test_checks_are_the_only_change_of_the_text_of_loops_in_steps(case: Case) -> None:
    assert_only_checks_are_added(prepare(case.program, ONNXRUNTIME))
