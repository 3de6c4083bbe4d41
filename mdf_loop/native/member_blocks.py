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
from mdf_loop.native.loop_text import PARAMETERS
from mdf_loop.native.support import KernelSignature
from mdf_loop.native.writer import Cells, Place
from mdf_loop.ops.native.code import MEMORY_TYPES, Cell, Failure, is_single


class MemberBlocks(LaneBlocks):
    """Writer of an LLVM function that computes the members of a batch in a block of lanes."""

    def __init__(
        self, signature: KernelSignature, block: LaneBlock, failures: list[Failure]
    ) -> None:
        super().__init__(signature, block, failures)
        self._lanes: dict[Value, str] = {}
        """Pointers to memory for the values of all lanes, used while members are exchanged."""

    def write_loop(self, head: str) -> str:
        """Return an LLVM function that does nothing, for a batch without members."""
        self.scalar.line("ret i64 0")
        return self.function(head)

    def write_blocks(self, name: str) -> str:
        """Return an LLVM function that computes one share of the members."""
        code, loop = self.scalar, self.signature.loop
        self.begin()
        next_part = code.emit("add i64 %part, 1")
        self._next_member = code.allocate_local("i64")
        self._active_count = code.allocate_local("i64")
        code.line(
            f"store i64 {self._write_share_begin(self._count, '%part')}, ptr {self._next_member}"
        )
        code.line(f"store i64 0, ptr {self._active_count}")
        self._member_end = self._write_share_begin(self._count, next_part)
        self._carried = {c.enter: c for c in loop.carried}
        self._captured = [v for v in self.signature.captured if not is_single(v)]
        self._number = Value("number", "int64", ())
        self._member = Value("member", "int64", ())
        self._is_running, self._has_member = (
            Value("goes", "bool", ()),
            Value("has a member", "bool", ()),
        )
        self._last_condition = Value("last", "bool", ())
        lane_values = (
            self._number,
            self._member,
            self._is_running,
            self._has_member,
            self._last_condition,
        )
        for value in (*self._carried, *self._captured, *lane_values):
            self._lanes[value] = self._allocate_lanes(value)
        shared_values = self._load_scalar_inputs()
        exchange_block, iteration_block = self.text.name("taking"), self.text.name("going")
        code.line(f"br label %{exchange_block}")
        code.label(exchange_block)
        self.repeat("0", str(self._block.lanes), 1, self._exchange_member)
        active_count = code.emit(f"load i64, ptr {self._active_count}")
        has_members = code.emit(f"icmp sgt i64 {active_count}, 0")
        begin_block, end_block = self.text.name("begin"), self.text.name("done")
        code.line(f"br i1 {has_members}, label %{begin_block}, label %{end_block}")
        code.label(begin_block)
        cells = {**shared_values, **{v: self._load_vectors(v) for v in self._captured}}
        has_member = self._load_vectors(self._has_member)
        array_places = {v: self.allocate_array(v) for v in (*self._carried, self._number)}
        for value, place in array_places.items():
            self._store_vectors(value, self._load_vectors(value), place)
        code.line(f"br label %{iteration_block}")
        code.label(iteration_block)
        self._check_stop_flag()
        conditions, is_running = self._write_lane_iteration(cells, array_places, has_member)
        stops = self._write_finish_test(is_running)
        leave_block = self.text.name("leaving")
        code.line(f"br i1 {stops}, label %{leave_block}, label %{iteration_block}")
        code.label(leave_block)
        for value, place in array_places.items():
            self._spill(value, self.load_array(value, place))
        self._spill(self._last_condition, conditions)
        self._spill(self._is_running, is_running)
        code.line(f"br label %{exchange_block}")
        code.label(end_block)
        code.line("ret i64 0")
        return self.function(f"define internal i64 @{name}{PARAMETERS}")

    # --- iterations ---------------------------------------------------------------------------

    def _load_scalar_inputs(self) -> Cells:
        """Load the scalar inputs of the loop."""
        cells = {}
        for value in filter(is_single, self.signature.unscanned_inputs):
            place = self.signature.place(value)
            cells[value] = self._load_value(value, self.memory[place.array], str(place.number))
        return cells

    def _write_lane_iteration(
        self, cells: Cells, array_places: dict[Value, Place], has_member: Cell
    ) -> tuple[Cell, Cell]:
        """Write one iteration of all lanes.

        Returns:
            The condition of each lane, and a flag for each lane that continues. A lane without a member
                continues.
        """
        loop, wide = self.signature.loop, self._vector
        cells = dict(cells)
        for value in self._carried:
            cells[value] = self.load_array(value, array_places[value])
        number = self.load_array(self._number, array_places[self._number])
        cells[loop.iteration] = number
        if loop.first_iteration is not None:
            first = self._vector_register(self.cell(loop.first_iteration, cells), 0, "int64")
            iteration_numbers = (
                wide.binary("add", "int64", each, first) for each in number.registers
            )
            cells[loop.iteration] = Cell(tuple(iteration_numbers))
        true = wide.constant(True, "bool")
        cells[loop.condition_in] = Cell((true,) * self._block.copies)
        self.ops(loop.ops, cells)
        for value, carried in self._carried.items():
            self._store_vectors(
                value, self._broadcast_value(carried.leave, cells), array_places[value]
            )
        one = wide.constant(1, "int64")
        next_numbers = Cell(tuple(wide.binary("add", "int64", n, one) for n in number.registers))
        self._store_vectors(self._number, next_numbers, array_places[self._number])
        assert loop.condition_out is not None
        conditions = self._broadcast_value(loop.condition_out, cells)
        trip = wide.broadcast("%trip", "int64")
        running_lanes = []
        for n, condition, lane_has_member in zip(
            next_numbers.registers, conditions.registers, has_member.registers, strict=True
        ):
            continues = wide.binary("and", "bool", wide.less("int64", n, trip), condition)
            is_free = wide.binary("xor", "bool", lane_has_member, true)
            running_lanes.append(wide.binary("or", "bool", continues, is_free))
        return conditions, Cell(tuple(running_lanes))

    def _broadcast_value(self, value: Value, cells: Cells) -> Cell:
        """Return the cell of a value with one element for each lane. A scalar is broadcast."""
        cell = self.cell(value, cells)
        return Cell(
            tuple(self._vector_register(cell, k, value.dtype) for k in range(self._block.copies))
        )

    def _write_finish_test(self, is_running: Cell) -> str:
        """Write the test that any lane has finished, and return the register of the result."""
        wide, (all_running, *other_registers) = self._vector, is_running.registers
        for register in other_registers:
            all_running = wide.binary("and", "bool", all_running, register)
        return wide.any(wide.binary("xor", "bool", all_running, wide.constant(True, "bool")))

    # --- exchange of members ---------------------------------------------------------------------

    def _exchange_member(self, lane: str) -> None:
        """Write the exchange of a finished member: store the outputs, and start the next member in the lane."""
        code = self.scalar
        has_finished = code.binary("xor", "bool", self._load_lane(self._is_running, lane), "true")

        def serve() -> None:
            code.branch(self._load_lane(self._has_member, lane), lambda: self._retire_member(lane))
            self._start_next_member(lane)
            self._store_lane(self._is_running, lane, "true")

        code.branch(has_finished, serve)

    def _retire_member(self, lane: str) -> None:
        """Write the stores of the final values of the member in a lane, and mark the lane as free."""
        loop, member = self.signature.loop, self._load_lane(self._member, lane)
        for value, carried in self._carried.items():
            self._store_final(carried.final, self._load_lane(value, lane), member)
        self._store_counts(
            member, self._load_lane(self._number, lane), self._load_lane(self._last_condition, lane)
        )
        assert loop.condition is not None
        self._store_lane(self._has_member, lane, "false")
        self._add_to_active(-1)

    def _store_counts(self, place: str, count: str, last: str) -> None:
        """Write the stores of the iteration count and the last condition of a member."""
        loop = self.signature.loop
        for value, register in ((loop.iteration_count, count), (loop.last_condition, last)):
            if value is not None:
                self.store(self.scalar, value.dtype, register, self.stacks[value], place)

    def _start_next_member(self, lane: str) -> None:
        """Write the assignment of the next member with iterations to a lane.

        The final values of members without iterations are their initial values.
        """
        code, loop = self.scalar, self.signature.loop
        retry_block, member_block, end_block = (
            self.text.name(stem) for stem in ("again", "there", "taken")
        )
        assert loop.condition is not None
        code.line(f"br label %{retry_block}")
        code.label(retry_block)
        member = code.emit(f"load i64, ptr {self._next_member}")
        has_next = code.emit(f"icmp slt i64 {member}, {self._member_end}")
        code.line(f"br i1 {has_next}, label %{member_block}, label %{end_block}")
        code.label(member_block)
        code.line(f"store i64 {code.emit(f'add i64 {member}, 1')}, ptr {self._next_member}")
        is_running = self.load(code, "bool", self.memory[loop.condition], member)
        has_iterations = code.emit("icmp sgt i64 %trip, 0")
        start_block, skip_block = self.text.name("begins"), self.text.name("ends")
        code.line(
            f"br i1 {code.binary('and', 'bool', is_running, has_iterations)}, label %{start_block}, label %{skip_block}"
        )
        code.label(skip_block)
        for carried in loop.carried:
            self._store_final(carried.final, self._load_input(carried.initial, member), member)
        self._store_counts(member, "0", is_running)
        code.line(f"br label %{retry_block}")
        code.label(start_block)
        for value, carried in self._carried.items():
            self._store_lane(value, lane, self._load_input(carried.initial, member))
        for value in self._captured:
            self._store_lane(value, lane, self._load_input(value, member))
        self._store_lane(self._number, lane, "0")
        self._store_lane(self._member, lane, member)
        self._store_lane(self._has_member, lane, "true")
        self._add_to_active(1)
        code.line(f"br label %{end_block}")
        code.label(end_block)

    def _load_input(self, value: Value, member: str) -> str:
        """Load an input of the loop for a member."""
        if value in self.signature.numbers:
            return self.cell(value, {}).registers[0]
        place = self.signature.place(value)
        at = str(place.number) if is_single(value) else self._element_index(place, member)
        return self.load(self.scalar, value.dtype, self.memory[place.array], at)

    def _store_final(self, final: Value, register: str, member: str) -> None:
        """Write the store of a final value of a member."""
        place = self.signature.place(final)
        stack, at = self.stacks[place.array], self._element_index(place, member)
        self.store(self.scalar, final.dtype, register, stack, at)

    def _element_index(self, place: Element, member: str) -> str:
        """Write the index of an element of a member in the array of all members."""
        if place.count == 1:
            return member
        first = self.scalar.emit(f"mul i64 {member}, {place.count}")
        return self.scalar.emit(f"add i64 {first}, {place.number}")

    def _add_to_active(self, change: int) -> None:
        """Write an addition to the number of lanes that have a member."""
        active_count = self.scalar.emit(f"load i64, ptr {self._active_count}")
        self.scalar.line(
            f"store i64 {self.scalar.emit(f'add i64 {active_count}, {change}')}, ptr {self._active_count}"
        )

    # --- values of lanes in memory ----------------------------------------------------------------

    def _allocate_lanes(self, value: Value) -> str:
        """Allocate zeroed memory for one value of each lane."""
        code, kind = self.scalar, f"[{self._block.lanes} x {MEMORY_TYPES[value.dtype]}]"
        place = code.allocate_local(kind)
        code.line(f"store {kind} zeroinitializer, ptr {place}")
        return place

    def _lane_address(self, value: Value, lane: str) -> str:
        kind = MEMORY_TYPES[value.dtype]
        return self.scalar.emit(f"getelementptr {kind}, ptr {self._lanes[value]}, i64 {lane}")

    def _load_lane(self, value: Value, lane: str) -> str:
        register = self.scalar.emit(
            f"load {MEMORY_TYPES[value.dtype]}, ptr {self._lane_address(value, lane)}"
        )
        return self.scalar.emit(f"trunc i8 {register} to i1") if value.dtype == "bool" else register

    def _store_lane(self, value: Value, lane: str, register: str) -> None:
        if value.dtype == "bool":
            register = self.scalar.emit(f"zext i1 {register} to i8")
        at = self._lane_address(value, lane)
        self.scalar.line(f"store {MEMORY_TYPES[value.dtype]} {register}, ptr {at}")

    def _load_vectors(self, value: Value) -> Cell:
        """Load the vectors of a value from memory."""
        wide = self._vector

        def load(at: str) -> str:
            register = wide.emit(f"load {wide.memory_type(value.dtype)}, ptr {at}, align 1")
            return self._convert_to_bools(register) if value.dtype == "bool" else register

        return Cell(tuple(self._for_each_vector(value, load)))

    def _convert_to_bools(self, register: str) -> str:
        return self._vector.emit(
            f"trunc {self._vector.memory_type('bool')} {register} to {self._vector.type('bool')}"
        )

    def _spill(self, value: Value, cell: Cell) -> None:
        """Store the vectors of a value to memory."""
        wide, kind = self._vector, self._vector.memory_type(value.dtype)
        for at, register in zip(self._for_each_vector(value, str), cell.registers, strict=True):
            if value.dtype == "bool":
                register = wide.emit(f"zext {wide.type('bool')} {register} to {kind}")
            wide.line(f"store {kind} {register}, ptr {at}, align 1")

    def _for_each_vector(self, value: Value, use: Callable[[str], str]) -> list[str]:
        width, copies = self._block.width, range(self._block.copies)
        return [use(self._lane_address(value, str(k * width))) for k in copies]

    def _store_vectors(self, value: Value, cell: Cell, place: Place) -> None:
        kind = self._vector.type(value.dtype)
        for register, one in zip(cell.registers, place, strict=True):
            self._vector.line(f"store {kind} {register}, ptr {one}")
