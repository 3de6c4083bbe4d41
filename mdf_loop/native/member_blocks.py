"""LLVM code of a loop with per-member early exit: a lane whose member has finished gets the next member.

    all lanes are free
    while True:
        for lane in free lanes:                       # seldom: in memory
            finals of its member = values of the lane; the lane takes the next member, if there is one
        if no lane has a member: end
        while all lanes go: values = body(values)     # in registers

No lane waits for the slowest member, except at the end of a share. Lanes without a member compute values that
are discarded, so no operation in the body may fail.
"""

from __future__ import annotations

from collections.abc import Callable

from mdf_loop.ir import Value
from mdf_loop.native.blocks import LaneBlock, LaneBlocks
from mdf_loop.native.elementwise import Element
from mdf_loop.native.loop_text import TAKEN
from mdf_loop.native.support import KernelSignature
from mdf_loop.native.writer import Cells, Place
from mdf_loop.ops.native.code import STORED, Cell, Failure, is_single


class MemberBlocks(LaneBlocks):
    """Writer of an LLVM function that computes the members of a batch in a block of lanes."""

    def __init__(self, form: KernelSignature, block: LaneBlock, failures: list[Failure]) -> None:
        super().__init__(form, block, failures)
        self._lanes: dict[Value, str] = {}
        """Pointers to memory for the values of all lanes, used while members are exchanged."""

    def whole(self, head: str) -> str:
        """Return an LLVM function that does nothing, for a batch without members."""
        self.one.line("ret i64 0")
        return self.function(head)

    def blocks(self, name: str) -> str:
        """Return an LLVM function that computes one share of the members."""
        code, loop = self.one, self.form.loop
        self.begin()
        following = code.put("add i64 %part, 1")
        self._next = code.place("i64")
        self._alive = code.place("i64")
        code.line(f"store i64 {self._share(self._count, '%part')}, ptr {self._next}")
        code.line(f"store i64 0, ptr {self._alive}")
        self._end = self._share(self._count, following)
        self._carried = {c.enter: c for c in loop.carried}
        self._captured = [v for v in self.form.captured if not is_single(v)]
        self._number = Value("number", "int64", ())
        self._member = Value("member", "int64", ())
        self._is_running, self._has = Value("goes", "bool", ()), Value("has a member", "bool", ())
        self._last = Value("last", "bool", ())
        own = (self._number, self._member, self._is_running, self._has, self._last)
        for value in (*self._carried, *self._captured, *own):
            self._lanes[value] = self._memory(value)
        shared_values = self._given_to_all()
        taking, going = self.text.name("taking"), self.text.name("going")
        code.line(f"br label %{taking}")
        code.label(taking)
        self.repeat("0", str(self._block.lanes), 1, self._serve)
        alive = code.put(f"load i64, ptr {self._alive}")
        some = code.put(f"icmp sgt i64 {alive}, 0")
        begin, done = self.text.name("begin"), self.text.name("done")
        code.line(f"br i1 {some}, label %{begin}, label %{done}")
        code.label(begin)
        cells = {**shared_values, **{v: self._vectors(v) for v in self._captured}}
        has = self._vectors(self._has)
        array_places = {v: self.array_place(v) for v in (*self._carried, self._number)}
        for value, place in array_places.items():
            self._to_places(value, self._vectors(value), place)
        code.line(f"br label %{going}")
        code.label(going)
        self._look()
        out, is_running = self._iterate(cells, array_places, has)
        stops = self._any_stops(is_running)
        leaving = self.text.name("leaving")
        code.line(f"br i1 {stops}, label %{leaving}, label %{going}")
        code.label(leaving)
        for value, place in array_places.items():
            self._spill(value, self.kept_array(value, place))
        self._spill(self._last, out)
        self._spill(self._is_running, is_running)
        code.line(f"br label %{taking}")
        code.label(done)
        code.line("ret i64 0")
        return self.function(f"define internal i64 @{name}{TAKEN}")

    # --- iterations ---------------------------------------------------------------------------

    def _given_to_all(self) -> Cells:
        """Load the scalar inputs of the loop."""
        cells = {}
        for value in filter(is_single, self.form.given):
            place = self.form.place(value)
            cells[value] = self._loaded(value, self.memory[place.array], str(place.number))
        return cells

    def _iterate(
        self, cells: Cells, array_places: dict[Value, Place], has: Cell
    ) -> tuple[Cell, Cell]:
        """Write one iteration of all lanes.

        Returns:
            The condition of each lane, and a flag for each lane that continues. A lane without a member
                continues.
        """
        loop, wide = self.form.loop, self._wide
        cells = dict(cells)
        for value in self._carried:
            cells[value] = self.kept_array(value, array_places[value])
        number = self.kept_array(self._number, array_places[self._number])
        cells[loop.iteration] = number
        if loop.first is not None:
            first = self._copy(self.cell(loop.first, cells), 0, "int64")
            added = (wide.binary("add", "int64", each, first) for each in number.registers)
            cells[loop.iteration] = Cell(tuple(added))
        true = wide.number(True, "bool")
        cells[loop.condition_in] = Cell((true,) * self._block.copies)
        self.ops(loop.ops, cells)
        for value, carried in self._carried.items():
            self._to_places(value, self._all_lanes(carried.leave, cells), array_places[value])
        one = wide.number(1, "int64")
        more = Cell(tuple(wide.binary("add", "int64", n, one) for n in number.registers))
        self._to_places(self._number, more, array_places[self._number])
        assert loop.condition_out is not None
        out = self._all_lanes(loop.condition_out, cells)
        trip = wide.spread("%trip", "int64")
        running_lanes = []
        for n, condition, own in zip(more.registers, out.registers, has.registers, strict=True):
            within = wide.binary("and", "bool", wide.less("int64", n, trip), condition)
            free = wide.binary("xor", "bool", own, true)
            running_lanes.append(wide.binary("or", "bool", within, free))
        return out, Cell(tuple(running_lanes))

    def _all_lanes(self, value: Value, cells: Cells) -> Cell:
        """Return the cell of a value with one element for each lane. A scalar is broadcast."""
        cell = self.cell(value, cells)
        return Cell(tuple(self._copy(cell, k, value.dtype) for k in range(self._block.copies)))

    def _any_stops(self, is_running: Cell) -> str:
        """Write the test that any lane has finished, and return the register of the result."""
        wide, (first, *others) = self._wide, is_running.registers
        for other in others:
            first = wide.binary("and", "bool", first, other)
        return wide.any(wide.binary("xor", "bool", first, wide.number(True, "bool")))

    # --- exchange of members ---------------------------------------------------------------------

    def _serve(self, lane: str) -> None:
        """Write the exchange of a finished member: store the outputs, and start the next member in the lane."""
        code = self.one
        free = code.binary("xor", "bool", self._of_lane(self._is_running, lane), "true")

        def serve() -> None:
            code.when(self._of_lane(self._has, lane), lambda: self._give(lane))
            self._take(lane)
            self._put(self._is_running, lane, "true")

        code.when(free, serve)

    def _give(self, lane: str) -> None:
        """Write the stores of the final values of the member in a lane, and mark the lane as free."""
        loop, member = self.form.loop, self._of_lane(self._member, lane)
        for value, carried in self._carried.items():
            self._gives(carried.final, self._of_lane(value, lane), member)
        self._tell(member, self._of_lane(self._number, lane), self._of_lane(self._last, lane))
        assert loop.condition is not None
        self._put(self._has, lane, "false")
        self._count_alive(-1)

    def _tell(self, place: str, count: str, last: str) -> None:
        """Write the stores of the iteration count and the last condition of a member."""
        loop = self.form.loop
        for value, register in ((loop.count, count), (loop.last_condition, last)):
            if value is not None:
                self.store(self.one, value.dtype, register, self.stacks[value], place)

    def _take(self, lane: str) -> None:
        """Write the assignment of the next member with iterations to a lane.

        The final values of members without iterations are their initial values.
        """
        code, loop = self.one, self.form.loop
        again, there, taken_block = (self.text.name(stem) for stem in ("again", "there", "taken"))
        assert loop.condition is not None
        code.line(f"br label %{again}")
        code.label(again)
        member = code.put(f"load i64, ptr {self._next}")
        more = code.put(f"icmp slt i64 {member}, {self._end}")
        code.line(f"br i1 {more}, label %{there}, label %{taken_block}")
        code.label(there)
        code.line(f"store i64 {code.put(f'add i64 {member}, 1')}, ptr {self._next}")
        is_running = self.load(code, "bool", self.memory[loop.condition], member)
        some = code.put("icmp sgt i64 %trip, 0")
        begins, ends = self.text.name("begins"), self.text.name("ends")
        code.line(
            f"br i1 {code.binary('and', 'bool', is_running, some)}, label %{begins}, label %{ends}"
        )
        code.label(ends)
        for carried in loop.carried:
            self._gives(carried.final, self._first(carried.initial, member), member)
        self._tell(member, "0", is_running)
        code.line(f"br label %{again}")
        code.label(begins)
        for value, carried in self._carried.items():
            self._put(value, lane, self._first(carried.initial, member))
        for value in self._captured:
            self._put(value, lane, self._first(value, member))
        self._put(self._number, lane, "0")
        self._put(self._member, lane, member)
        self._put(self._has, lane, "true")
        self._count_alive(1)
        code.line(f"br label %{taken_block}")
        code.label(taken_block)

    def _first(self, value: Value, member: str) -> str:
        """Load an input of the loop for a member."""
        if value in self.form.numbers:
            return self.cell(value, {}).registers[0]
        place = self.form.place(value)
        at = str(place.number) if is_single(value) else self._at_member(place, member)
        return self.load(self.one, value.dtype, self.memory[place.array], at)

    def _gives(self, final: Value, register: str, member: str) -> None:
        """Write the store of a final value of a member."""
        place = self.form.place(final)
        stack, at = self.stacks[place.array], self._at_member(place, member)
        self.store(self.one, final.dtype, register, stack, at)

    def _at_member(self, place: Element, member: str) -> str:
        """Write the index of an element of a member in the array of all members."""
        if place.count == 1:
            return member
        first = self.one.put(f"mul i64 {member}, {place.count}")
        return self.one.put(f"add i64 {first}, {place.number}")

    def _count_alive(self, more: int) -> None:
        """Write an addition to the number of lanes that have a member."""
        alive = self.one.put(f"load i64, ptr {self._alive}")
        self.one.line(f"store i64 {self.one.put(f'add i64 {alive}, {more}')}, ptr {self._alive}")

    # --- values of lanes in memory ----------------------------------------------------------------

    def _memory(self, value: Value) -> str:
        """Allocate zeroed memory for one value of each lane."""
        code, kind = self.one, f"[{self._block.lanes} x {STORED[value.dtype]}]"
        place = code.place(kind)
        code.line(f"store {kind} zeroinitializer, ptr {place}")
        return place

    def _at_lane(self, value: Value, lane: str) -> str:
        kind = STORED[value.dtype]
        return self.one.put(f"getelementptr {kind}, ptr {self._lanes[value]}, i64 {lane}")

    def _of_lane(self, value: Value, lane: str) -> str:
        register = self.one.put(f"load {STORED[value.dtype]}, ptr {self._at_lane(value, lane)}")
        return self.one.put(f"trunc i8 {register} to i1") if value.dtype == "bool" else register

    def _put(self, value: Value, lane: str, register: str) -> None:
        if value.dtype == "bool":
            register = self.one.put(f"zext i1 {register} to i8")
        at = self._at_lane(value, lane)
        self.one.line(f"store {STORED[value.dtype]} {register}, ptr {at}")

    def _vectors(self, value: Value) -> Cell:
        """Load the vectors of a value from memory."""
        wide = self._wide

        def load(at: str) -> str:
            register = wide.put(f"load {wide.stored(value.dtype)}, ptr {at}, align 1")
            return self._truths(register) if value.dtype == "bool" else register

        return Cell(tuple(self._of_copies(value, load)))

    def _truths(self, register: str) -> str:
        return self._wide.put(
            f"trunc {self._wide.stored('bool')} {register} to {self._wide.type('bool')}"
        )

    def _spill(self, value: Value, cell: Cell) -> None:
        """Store the vectors of a value to memory."""
        wide, kind = self._wide, self._wide.stored(value.dtype)
        for at, register in zip(self._of_copies(value, str), cell.registers, strict=True):
            if value.dtype == "bool":
                register = wide.put(f"zext {wide.type('bool')} {register} to {kind}")
            wide.line(f"store {kind} {register}, ptr {at}, align 1")

    def _of_copies(self, value: Value, use: Callable[[str], str]) -> list[str]:
        width, copies = self._block.width, range(self._block.copies)
        return [use(self._at_lane(value, str(k * width))) for k in copies]

    def _to_places(self, value: Value, cell: Cell, place: Place) -> None:
        kind = self._wide.type(value.dtype)
        for register, one in zip(cell.registers, place, strict=True):
            self._wide.line(f"store {kind} {register}, ptr {one}")
