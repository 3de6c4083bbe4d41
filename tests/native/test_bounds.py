"""Kernels whose accesses are checked: a wrong one fails with a sentence, and checks change nothing else."""

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
from mdf_loop.native.kernel import text_of
from mdf_loop.native.loop_text import NO_MEMORY, STOPPED, TAKEN, LoopText
from mdf_loop.native.space import StackSpace
from mdf_loop.native.steps import KernelWriter
from mdf_loop.native.support import KernelSignature, constants_in, form_of
from mdf_loop.native.writer import FormWriter
from mdf_loop.ops.native.code import Code, Extent, NotNative
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.onnxruntime import session as session_module
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import REQUIRED, STANDARD, kernels_checked
from tests.soak import times
from tests.strategies.native_loops import EXACT, Case, native_loops
from tests.strategies.native_steps import native_steps


def adding(shape: Shape) -> Program:
    """Each of three rows is added to what is carried, which is turned around if it is a matrix."""
    b = Builder()
    b.where = "$.model"
    assert shape is not None
    x, rows = b.new("float64", shape, "x"), b.new("float64", ("time", *shape), "rows")
    trip, inside = b.new("int64", (), "trip"), b.body()
    i, go = inside.new("int64", (), "i"), inside.new("bool", (), "go")
    enter, row = inside.new("float64", shape, "enter"), inside.new("float64", shape, "row")
    turned = inside.op("Transpose", enter, perm=(1, 0)) if len(shape) == 2 else enter
    made = inside.op("Add", turned, row)
    final, stack = b.new("float64", shape, "final"), b.new("float64", ("k", *shape), "stack")
    carried, recorded = (Carried(x, enter, made, final),), (Recorded(made, stack),)
    body, scanned = tuple(inside.ops), (Scanned(rows, row),)
    b.append(Loop("A.f", trip, None, i, go, None, carried, recorded, body, scanned, where="$.loop"))
    outputs = (Output("final", final), Output("stack", stack))
    return prepare(
        Program("p", tuple(map(Input, (x, rows, trip))), tuple(b.ops), outputs), ONNXRUNTIME
    )


def growing(shape: Shape) -> Program:
    """Each iteration records the rows of a loop inside: `x` so many times as a number says."""
    b = Builder()
    b.where = "$.model"
    x, count = b.new("float64", shape, "x"), b.new("int64", (), "count")
    outer, inner = b.body(), b.body()
    i, j = outer.new("int64", (), "i"), inner.new("int64", (), "j")
    goes, go = outer.new("bool", (), "goes"), inner.new("bool", (), "go")
    row = inner.op("Add", x, x)
    some = outer.new("float64", ("k", *(shape or ())), "some")
    outer.append(
        Loop("A.g", count, None, j, go, None, (), (Recorded(row, some),), tuple(inner.ops))
    )
    made = outer.op("Neg", some)
    stack, three = b.new("float64", ("i", "k", *(shape or ())), "stack"), b.constant(np.array(3))
    body, recorded = tuple(outer.ops), (Recorded(made, stack),)
    b.append(Loop("A.f", three, None, i, goes, None, (), recorded, body, where="$.loop"))
    inputs, outputs = tuple(map(Input, (x, count))), (Output("stack", stack),)
    return prepare(Program("p", inputs, tuple(b.ops), outputs), ONNXRUNTIME)


def feeds(shape: Shape, trip: int = 3) -> dict[str, np.ndarray]:
    known = tuple(100 if extent == "n" else int(extent) for extent in shape or ())
    rows = np.arange(3.0 * np.prod(known)).reshape(3, *known)
    return {"x": rows[1] / 7, "rows": rows, "trip": np.array(trip)}


def fed(shape: Shape, count: int = 5) -> dict[str, np.ndarray]:
    return {"x": feeds(shape)["x"], "count": np.array(count)}


KINDS = {
    "one": (adding(()), feeds(())),
    "lanes": (adding(("n",)), feeds(("n",))),
    "steps": (adding((9, 9)), feeds((9, 9))),
    "growing": (growing(("n",)), fed(("n",))),
}


def fault(kind: str, **other: np.ndarray) -> str:
    """What a checked run fails with; the place and the advice are always the same."""
    program, given = KINDS[kind]
    with kernels_checked(), pytest.raises(RunError) as error:
        Session(program, REQUIRED).run(given | other)
    (finding,) = error.value.findings
    assert finding.where == "$.loop"
    assert finding.hint == "native='off' computes it without machine code"
    begin, end = "the native loop 'A.f' was about to ", f": {bounds.FAULT}"
    assert finding.what.startswith(begin)
    assert finding.what.endswith(end)
    return finding.what.removeprefix(begin).removesuffix(end)


# --- kernels that are right -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [("n",), (9, 9), (0,), (1,), ()])
@pytest.mark.parametrize("trip", [0, 1, 3])
def test_nothing_fails_that_is_right(shape: Shape, trip: int) -> None:
    """Without lanes, or without rows, there is no memory at all."""
    program, given = adding(shape), feeds(shape, trip)
    with kernels_checked():
        made = Session(program, REQUIRED).run(given)
    expected = Session(program, STANDARD).run(given)
    for name in expected if trip else ["final"]:  # no rows have any shape
        np.testing.assert_array_equal(made[name], expected[name])


@pytest.mark.parametrize("shape", [(), ("n",), (2, 3)])
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_nothing_fails_that_grows(shape: Shape, count: int) -> None:
    given = fed(shape, count)
    with kernels_checked():
        made = Session(growing(shape), REQUIRED).run(given)["stack"]
    expected = np.broadcast_to(-2 * given["x"], (3, count, *given["x"].shape))
    assert made.shape[:2] == (3, count)
    assert made.tobytes() == expected.tobytes()


# --- arrays that begin anywhere -------------------------------------------------------------------


def elsewhere(array: np.ndarray) -> np.ndarray:
    """The same numbers, where no number of their dtype should begin."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    moved = np.frombuffer(memory.data, array.dtype, array.size, 1).reshape(array.shape)
    moved[...] = array
    assert not moved.flags.aligned
    return moved


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_given_may_begin_anywhere(kind: str) -> None:
    program, given = KINDS[kind]
    with kernels_checked():
        session = Session(program, REQUIRED)
    expected = session.run(given)
    made = session.run({name: elsewhere(array) for name, array in given.items()})
    for name, array in expected.items():
        np.testing.assert_array_equal(made[name], array)


def test_room_may_begin_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "ENOUGH", 0)
    program, given = KINDS["lanes"]
    with kernels_checked():
        session = Session(program, REQUIRED)
    expected = session.run(given)["stack"]
    made = session.run(given, room={"stack": elsewhere(np.zeros_like(expected))})["stack"]
    np.testing.assert_array_equal(made, expected)


# --- kernels that are wrong -----------------------------------------------------------------------

FAR = 1 << 40
"""Elements: where a process has no memory."""

PLACES = [
    *(("lanes", name) for name in ("x", "rows", "final", "stack")),
    *(("steps", name) for name in ("enter", "rows", "row", "a table of places", "Transpose")),
    *(("growing", name) for name in ("some", "Neg", "stack")),
]
COPIES = [
    *(("steps", name) for name in ("x", "enter", "final", "stack")),
    *(("growing", name) for name in ("some", "Neg", "stack")),
]


def memory_of(pointer: str) -> str:
    return next(bounds._memories(pointer)).value.name


@pytest.mark.parametrize(("kind", "name"), PLACES)
@pytest.mark.parametrize("by", [1, -1, FAR, -FAR])
def test_a_wrong_place(monkeypatch: pytest.MonkeyPatch, kind: str, name: str, by: int) -> None:
    """Every element of an array is looked for beside where it is."""
    far = FormWriter.far

    def wrong(self: FormWriter, pointer: str, number: Extent, kind: str = "i8") -> str:
        if memory_of(pointer) == name:
            number = self.one.put(f"add i64 {number}, {by * (8 if kind == 'i8' else 1)}")
        return far(self, pointer, number, kind)

    monkeypatch.setattr(FormWriter, "far", wrong)
    assert fault(kind) == f"reach outside of the memory of '{name}'"


@pytest.mark.parametrize(("kind", "name"), COPIES)
@pytest.mark.parametrize("by", [1, -1, FAR, -FAR])
def test_a_wrong_copy(monkeypatch: pytest.MonkeyPatch, kind: str, name: str, by: int) -> None:
    """All of an array is copied from or to beside where it is."""
    copy = KernelWriter.copy

    def wrong(self: KernelWriter, target: str, source: str, size: Extent) -> None:
        ends = (
            self.far(end, 8 * by) if memory_of(end) == name else end for end in (target, source)
        )
        copy(self, *ends, size)

    monkeypatch.setattr(KernelWriter, "copy", wrong)
    assert fault(kind) == f"reach outside of the memory of '{name}'"


@pytest.mark.parametrize(("kind", "name"), [("steps", "x"), ("growing", "Add")])
def test_a_copy_that_is_too_long(monkeypatch: pytest.MonkeyPatch, kind: str, name: str) -> None:
    copy = KernelWriter.copy

    def wrong(self: KernelWriter, target: str, source: str, size: Extent) -> None:
        copy(self, target, source, self.one.put(f"add i64 {size}, 1"))

    monkeypatch.setattr(KernelWriter, "copy", wrong)
    assert fault(kind) == f"reach outside of the memory of '{name}'"


@pytest.mark.parametrize("kind", ["lanes", "steps"])
def test_more_iterations_than_rows(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A row is a part of an array, and inside of it."""
    monkeypatch.setattr(FormWriter, "_check_rows", lambda *_: None)
    assert fault(kind, trip=np.array(4)) == "reach outside of the memory of 'rows'"


def test_more_rows_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LaneBlocks, "_trip", lambda *_: "4")
    assert fault("one", rows=np.arange(9.0)) == "reach outside of the memory of 'stack'"


def test_a_room_that_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was in it before is gone."""
    grown = StackSpace.grown

    def wrong(self: StackSpace, room: int, factors: Sequence[Extent]) -> str:
        before = grown(self, room, factors)
        grown(self, room, (*factors, 1 << 10))
        return before

    monkeypatch.setattr(StackSpace, "grown", wrong)
    assert fault("growing") == "reach outside of the memory of 'some'"


def test_a_room_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    grown = StackSpace.grown
    monkeypatch.setattr(
        StackSpace, "grown", lambda self, room, factors: grown(self, room, factors[1:])
    )
    assert fault("growing") == "reach outside of the memory of 'some'"


def test_a_line_that_begins_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 100 numbers are no lines of the cache."""
    monkeypatch.setattr(machine, "width", lambda: 8)
    monkeypatch.setattr(LaneBlocks, "_streams", lambda *_: "true")
    assert fault("lanes") == "take what is no multiple of 64 bytes for one in the memory of 'stack'"


def test_a_pointer_from_nowhere() -> None:
    """It is no kernel: who writes one learns it at once."""
    (loop,) = (op for op in adding(()).ops if isinstance(op, Loop))
    with kernels_checked():
        checks = bounds.bounds_of(Code(), loop, str)
    with pytest.raises(AssertionError, match="nobody knows into which array %v1 points"):
        checks.access("%v1", 8)


# --- texts ----------------------------------------------------------------------------------------

random = settings(
    max_examples=times(15, 2_500),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def forms(program: Program) -> Iterator[KernelSignature]:
    known = constants_in(program)
    return (form_of(op, known) for op in program.ops if isinstance(op, Loop))


def texts(form: KernelSignature) -> tuple[LoopText, LoopText]:
    """Without and with checks."""
    with kernels_checked(False):
        plain = text_of(form, 8)
    with kernels_checked():
        return plain, text_of(form, 8)


def without_checks(text: str) -> Iterable[str]:
    """The lines that are not between the comments around checks."""
    inside = False
    for line in text.splitlines():
        if line.strip().startswith(bounds.BEGUN):
            inside = not line.strip().startswith(bounds.ENDED)
        elif not inside:
            yield line


def renumbered(lines: Iterable[str], made: LoopText) -> list[str]:
    """The same text, with names by their order and failures by their sentences."""
    found = []
    names: dict[str, str] = {}
    for line in lines:
        if line.startswith("define"):
            names.clear()
        said = re.sub(r"(?<=ret i64 -)\d+", lambda m: reason(made, int(m[0])), line)
        parts = re.split(r"((?<=%)[a-z_]+\d+\b|^[a-z_]+\d+(?=:))", said)
        found.append(
            "".join(
                names.setdefault(part, f"n{len(names)}") if k % 2 else part
                for k, part in enumerate(parts)
            )
        )
    return found


def reason(made: LoopText, number: int) -> str:
    others = {STOPPED: "stopped", NO_MEMORY: "no memory"}
    return others.get(number) or str(made.failures[number - 1])


def touched(text: str) -> Iterator[tuple[str, bool]]:
    """The memory of each access that is not the function's own, and whether it was checked just before."""
    own, checked, skips = set[str](), set[str](), False
    for line in map(str.strip, text.splitlines()):
        made, *rest = re.findall(r"[%@][\w.]+", line) or [""]
        if line.startswith("define"):
            own, skips = {"%extents", "%in", "%out", "%call"}, TAKEN not in line
        elif line.startswith(bounds.BEGUN):
            skips = not line.startswith(bounds.ENDED)
            checked |= {made} - ({made} if skips else set())
        elif skips:
            continue
        elif " = getelementptr " in line:
            own |= {made} if own & set(rest) else set()
        elif re.match(r"store |call void @llvm.memmove|.* = load (?!volatile)", line):
            for pointer in re.findall(r"[,(] ?ptr ([%@]\w+)", line):
                if pointer not in own and not pointer.startswith("%place"):
                    yield pointer, pointer in checked
                    checked.discard(pointer)


def assert_only_checks_are_added(program: Program) -> None:
    for form in forms(program):
        try:
            plain, checked = texts(form)
        except NotNative:
            continue
        assert bounds.BEGUN not in plain.text
        left = renumbered(without_checks(checked.text), checked)
        assert left == renumbered(plain.text.splitlines(), plain)
        accesses = list(touched(checked.text))
        assert accesses
        assert all(is_checked for _, is_checked in accesses)
        assert not any(is_checked for _, is_checked in touched(plain.text))


@pytest.mark.parametrize("kind", KINDS)
def test_texts(kind: str) -> None:
    assert_only_checks_are_added(KINDS[kind][0])


@pytest.mark.slow
@pytest.mark.soak
@random
@given(native_loops(EXACT))
def test_texts_of_lanes(case: Case) -> None:
    assert_only_checks_are_added(prepare(case.program, ONNXRUNTIME))


@pytest.mark.slow
@pytest.mark.soak
@random
@given(native_steps())
def test_texts_of_steps(case: Case) -> None:
    assert_only_checks_are_added(prepare(case.program, ONNXRUNTIME))
