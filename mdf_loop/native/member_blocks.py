"""LLVM code of a batched loop in which a vector lane starts the next member when one finishes.

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
from mdf_loop.native.elementwise import ElementPosition
from mdf_loop.native.loop_text import PARAMETERS
from mdf_loop.native.support import KernelSignature
from mdf_loop.native.writer import Cells, LocalVariable
from mdf_loop.ops.native.code import MEMORY_TYPES, Cell, Failure, is_single


class MemberBlocks(LaneBlocks):
    """Emitter of an LLVM function that runs one batch member in each vector lane."""

    def __init__(
        self, signature: KernelSignature, lane_block: LaneBlock, failures: list[Failure]
    ) -> None:
        super().__init__(signature, lane_block, failures)
        self._lane_pointers: dict[Value, str] = {}
        """Pointers to memory for the values of all lanes, used while members are exchanged."""

    def write_loop(self, head: str) -> str:
        """Return an LLVM function that returns at once, for a batch without members."""
        self.scalar_code.line("ret i64 0")
        return self.finish_function(head)

    def write_blocks(self, name: str) -> str:
        """Return an LLVM function that computes one thread's share of the batch members."""
        scalar_code, loop = self.scalar_code, self.signature.loop
        self.begin()
        next_part_index = scalar_code.emit("add i64 %part, 1")
        self._next_member_pointer = scalar_code.allocate_local("i64")
        self._active_count_pointer = scalar_code.allocate_local("i64")
        scalar_code.line(
            f"store i64 {self._write_share_begin(self._lane_count, '%part')}, ptr {self._next_member_pointer}"
        )
        scalar_code.line(f"store i64 0, ptr {self._active_count_pointer}")
        self._member_end = self._write_share_begin(self._lane_count, next_part_index)
        self._carried_by_input = {
            carried_value.body_input: carried_value for carried_value in loop.carried
        }
        self._captured_values = [
            value for value in self.signature.captured_values if not is_single(value)
        ]
        self._iteration_counter = Value("number", "int64", ())
        self._member_index = Value("member", "int64", ())
        self._is_running, self._has_member = (
            Value("goes", "bool", ()),
            Value("has a member", "bool", ()),
        )
        self._last_condition = Value("last", "bool", ())
        lane_values = (
            self._iteration_counter,
            self._member_index,
            self._is_running,
            self._has_member,
            self._last_condition,
        )
        for value in (*self._carried_by_input, *self._captured_values, *lane_values):
            self._lane_pointers[value] = self._allocate_lanes(value)
        scalar_input_registers = self._load_scalar_inputs()
        member_exchange_block, iteration_block = (
            self.function_text.new_name("taking"),
            self.function_text.new_name("going"),
        )
        scalar_code.line(f"br label %{member_exchange_block}")
        scalar_code.label(member_exchange_block)
        self.repeat("0", str(self._lane_block.lanes), 1, self._exchange_member)
        active_count = scalar_code.emit(f"load i64, ptr {self._active_count_pointer}")
        has_members = scalar_code.emit(f"icmp sgt i64 {active_count}, 0")
        begin_block, end_block = (
            self.function_text.new_name("begin"),
            self.function_text.new_name("done"),
        )
        scalar_code.line(f"br i1 {has_members}, label %{begin_block}, label %{end_block}")
        scalar_code.label(begin_block)
        registers_by_value = {
            **scalar_input_registers,
            **{value: self._load_vectors(value) for value in self._captured_values},
        }
        has_member = self._load_vectors(self._has_member)
        lane_variables = {
            value: self.allocate_array(value)
            for value in (*self._carried_by_input, self._iteration_counter)
        }
        for value, variable in lane_variables.items():
            self._store_vectors(value, self._load_vectors(value), variable)
        scalar_code.line(f"br label %{iteration_block}")
        scalar_code.label(iteration_block)
        self._check_stop_flag()
        lane_conditions, is_running = self._write_lane_iteration(
            registers_by_value, lane_variables, has_member
        )
        has_finished_lane = self._write_finish_test(is_running)
        leave_block = self.function_text.new_name("leaving")
        scalar_code.line(
            f"br i1 {has_finished_lane}, label %{leave_block}, label %{iteration_block}"
        )
        scalar_code.label(leave_block)
        for value, variable in lane_variables.items():
            self._spill(value, self.load_array(value, variable))
        self._spill(self._last_condition, lane_conditions)
        self._spill(self._is_running, is_running)
        scalar_code.line(f"br label %{member_exchange_block}")
        scalar_code.label(end_block)
        scalar_code.line("ret i64 0")
        return self.finish_function(f"define internal i64 @{name}{PARAMETERS}")

    # --- iterations ---------------------------------------------------------------------------

    def _load_scalar_inputs(self) -> Cells:
        """Emit loads of the scalar inputs of the loop."""
        scalar_input_registers = {}
        for value in filter(is_single, self.signature.unscanned_inputs):
            element_position = self.signature.element_position(value)
            scalar_input_registers[value] = self._load_value(
                value, self.input_pointers[element_position.array], str(element_position.index)
            )
        return scalar_input_registers

    def _write_lane_iteration(
        self, registers_by_value: Cells, variables: dict[Value, LocalVariable], has_member: Cell
    ) -> tuple[Cell, Cell]:
        """Emit one iteration of the batch members in all vector lanes.

        Returns:
            The condition of each lane, and a flag for each lane that continues. A lane without a member
                continues.
        """
        loop, vector_code = self.signature.loop, self._vector_code
        registers_by_value = dict(registers_by_value)
        for value in self._carried_by_input:
            registers_by_value[value] = self.load_array(value, variables[value])
        iteration_counts = self.load_array(
            self._iteration_counter, variables[self._iteration_counter]
        )
        registers_by_value[loop.iteration] = iteration_counts
        if loop.first_iteration is not None:
            first_iteration = self._vector_register(
                self.cell(loop.first_iteration, registers_by_value), 0, "int64"
            )
            iteration_numbers = (
                vector_code.binary("add", "int64", count, first_iteration)
                for count in iteration_counts.registers
            )
            registers_by_value[loop.iteration] = Cell(tuple(iteration_numbers))
        true_constant = vector_code.constant(True, "bool")
        registers_by_value[loop.condition_in] = Cell(
            (true_constant,) * self._lane_block.vector_count
        )
        self.ops(loop.ops, registers_by_value)
        for value, carried_value in self._carried_by_input.items():
            self._store_vectors(
                value,
                self._broadcast_value(carried_value.body_output, registers_by_value),
                variables[value],
            )
        one_literal = vector_code.constant(1, "int64")
        next_iteration_counts = Cell(
            tuple(
                vector_code.binary("add", "int64", count, one_literal)
                for count in iteration_counts.registers
            )
        )
        self._store_vectors(
            self._iteration_counter, next_iteration_counts, variables[self._iteration_counter]
        )
        assert loop.condition_out is not None
        lane_conditions = self._broadcast_value(loop.condition_out, registers_by_value)
        trip_count = vector_code.broadcast("%trip", "int64")
        running_flags = []
        for next_iteration_count, condition, lane_has_member in zip(
            next_iteration_counts.registers,
            lane_conditions.registers,
            has_member.registers,
            strict=True,
        ):
            has_next_iteration = vector_code.binary(
                "and",
                "bool",
                vector_code.less("int64", next_iteration_count, trip_count),
                condition,
            )
            is_free = vector_code.binary("xor", "bool", lane_has_member, true_constant)
            running_flags.append(vector_code.binary("or", "bool", has_next_iteration, is_free))
        return lane_conditions, Cell(tuple(running_flags))

    def _broadcast_value(self, value: Value, cells: Cells) -> Cell:
        """Return the registers of a value, with a scalar broadcast to all lanes."""
        value_cell = self.cell(value, cells)
        return Cell(
            tuple(
                self._vector_register(value_cell, k, value.dtype)
                for k in range(self._lane_block.vector_count)
            )
        )

    def _write_finish_test(self, is_running: Cell) -> str:
        """Emit a test whether the batch member in at least one vector lane has finished."""
        vector_code, (are_all_running, *other_running_flags) = (
            self._vector_code,
            is_running.registers,
        )
        for running_flag in other_running_flags:
            are_all_running = vector_code.binary("and", "bool", are_all_running, running_flag)
        return vector_code.any(
            vector_code.binary("xor", "bool", are_all_running, vector_code.constant(True, "bool"))
        )

    # --- exchange of members ---------------------------------------------------------------------

    def _exchange_member(self, lane: str) -> None:
        """Emit code that replaces a finished batch member in a vector lane by the next one."""
        scalar_code = self.scalar_code
        has_finished = scalar_code.binary(
            "xor", "bool", self._load_lane(self._is_running, lane), "true"
        )

        def serve() -> None:
            scalar_code.branch(
                self._load_lane(self._has_member, lane), lambda: self._retire_member(lane)
            )
            self._start_next_member(lane)
            self._store_lane(self._is_running, lane, "true")

        scalar_code.branch(has_finished, serve)

    def _retire_member(self, lane: str) -> None:
        """Emit stores of the final values of a finished batch member, and free its lane."""
        loop, member_index = self.signature.loop, self._load_lane(self._member_index, lane)
        for value, carried_value in self._carried_by_input.items():
            self._store_final(carried_value.final, self._load_lane(value, lane), member_index)
        self._store_counts(
            member_index,
            self._load_lane(self._iteration_counter, lane),
            self._load_lane(self._last_condition, lane),
        )
        assert loop.condition is not None
        self._store_lane(self._has_member, lane, "false")
        self._add_to_active(-1)

    def _store_counts(self, member_index: str, count: str, last: str) -> None:
        """Emit stores of a batch member's iteration count and last condition."""
        loop = self.signature.loop
        for value, register in ((loop.iteration_count, count), (loop.last_condition, last)):
            if value is not None:
                self.store(
                    self.scalar_code,
                    value.dtype,
                    register,
                    self.output_pointers[value],
                    member_index,
                )

    def _start_next_member(self, lane: str) -> None:
        """Emit code that fills a free vector lane with the next batch member that has iterations.

        The final values of members without iterations are their initial values.
        """
        scalar_code, loop = self.scalar_code, self.signature.loop
        retry_block, member_block, end_block = (
            self.function_text.new_name(stem) for stem in ("again", "there", "taken")
        )
        assert loop.condition is not None
        scalar_code.line(f"br label %{retry_block}")
        scalar_code.label(retry_block)
        member_index = scalar_code.emit(f"load i64, ptr {self._next_member_pointer}")
        has_next_member = scalar_code.emit(f"icmp slt i64 {member_index}, {self._member_end}")
        scalar_code.line(f"br i1 {has_next_member}, label %{member_block}, label %{end_block}")
        scalar_code.label(member_block)
        scalar_code.line(
            f"store i64 {scalar_code.emit(f'add i64 {member_index}, 1')}, ptr {self._next_member_pointer}"
        )
        is_running = self.load(
            scalar_code, "bool", self.input_pointers[loop.condition], member_index
        )
        has_iterations = scalar_code.emit("icmp sgt i64 %trip, 0")
        start_block, skip_block = (
            self.function_text.new_name("begins"),
            self.function_text.new_name("ends"),
        )
        scalar_code.line(
            f"br i1 {scalar_code.binary('and', 'bool', is_running, has_iterations)}, label %{start_block}, label %{skip_block}"
        )
        scalar_code.label(skip_block)
        for carried_value in loop.carried:
            self._store_final(
                carried_value.final,
                self._load_input(carried_value.initial, member_index),
                member_index,
            )
        self._store_counts(member_index, "0", is_running)
        scalar_code.line(f"br label %{retry_block}")
        scalar_code.label(start_block)
        for value, carried_value in self._carried_by_input.items():
            self._store_lane(value, lane, self._load_input(carried_value.initial, member_index))
        for value in self._captured_values:
            self._store_lane(value, lane, self._load_input(value, member_index))
        self._store_lane(self._iteration_counter, lane, "0")
        self._store_lane(self._member_index, lane, member_index)
        self._store_lane(self._has_member, lane, "true")
        self._add_to_active(1)
        scalar_code.line(f"br label %{end_block}")
        scalar_code.label(end_block)

    def _load_input(self, value: Value, member: str) -> str:
        """Emit a load of a loop input for one batch member."""
        if value in self.signature.scalar_constants:
            return self.cell(value, {}).registers[0]
        element_position = self.signature.element_position(value)
        element_index = (
            str(element_position.index)
            if is_single(value)
            else self._element_index(element_position, member)
        )
        return self.load(
            self.scalar_code,
            value.dtype,
            self.input_pointers[element_position.array],
            element_index,
        )

    def _store_final(self, final: Value, register: str, member: str) -> None:
        """Emit a store of a final carried value of one batch member."""
        element_position = self.signature.element_position(final)
        stack_pointer, element_index = (
            self.output_pointers[element_position.array],
            self._element_index(element_position, member),
        )
        self.store(self.scalar_code, final.dtype, register, stack_pointer, element_index)

    def _element_index(self, element: ElementPosition, member: str) -> str:
        """Emit the index of a batch member's element in the array over all members."""
        if element.element_count == 1:
            return member
        first_element = self.scalar_code.emit(f"mul i64 {member}, {element.element_count}")
        return self.scalar_code.emit(f"add i64 {first_element}, {element.index}")

    def _add_to_active(self, change: int) -> None:
        """Emit code that adds `change` to the number of lanes that run a batch member."""
        active_count = self.scalar_code.emit(f"load i64, ptr {self._active_count_pointer}")
        self.scalar_code.line(
            f"store i64 {self.scalar_code.emit(f'add i64 {active_count}, {change}')}, ptr {self._active_count_pointer}"
        )

    # --- values of lanes in memory ----------------------------------------------------------------

    def _allocate_lanes(self, value: Value) -> str:
        """Emit the allocation of zeroed local memory for one value per vector lane."""
        scalar_code, array_type = (
            self.scalar_code,
            f"[{self._lane_block.lanes} x {MEMORY_TYPES[value.dtype]}]",
        )
        lanes_pointer = scalar_code.allocate_local(array_type)
        scalar_code.line(f"store {array_type} zeroinitializer, ptr {lanes_pointer}")
        return lanes_pointer

    def _lane_address(self, value: Value, lane: str) -> str:
        memory_type = MEMORY_TYPES[value.dtype]
        return self.scalar_code.emit(
            f"getelementptr {memory_type}, ptr {self._lane_pointers[value]}, i64 {lane}"
        )

    def _load_lane(self, value: Value, lane: str) -> str:
        register = self.scalar_code.emit(
            f"load {MEMORY_TYPES[value.dtype]}, ptr {self._lane_address(value, lane)}"
        )
        return (
            self.scalar_code.emit(f"trunc i8 {register} to i1")
            if value.dtype == "bool"
            else register
        )

    def _store_lane(self, value: Value, lane: str, register: str) -> None:
        if value.dtype == "bool":
            register = self.scalar_code.emit(f"zext i1 {register} to i8")
        lane_pointer = self._lane_address(value, lane)
        self.scalar_code.line(f"store {MEMORY_TYPES[value.dtype]} {register}, ptr {lane_pointer}")

    def _load_vectors(self, value: Value) -> Cell:
        """Emit loads of one value, for all vector lanes, from memory to vector registers."""
        vector_code = self._vector_code

        def load(pointer: str) -> str:
            register = vector_code.emit(
                f"load {vector_code.memory_type(value.dtype)}, ptr {pointer}, align 1"
            )
            return self._convert_to_bools(register) if value.dtype == "bool" else register

        return Cell(tuple(self._for_each_vector(value, load)))

    def _convert_to_bools(self, register: str) -> str:
        return self._vector_code.emit(
            f"trunc {self._vector_code.memory_type('bool')} {register} to {self._vector_code.type('bool')}"
        )

    def _spill(self, value: Value, cell: Cell) -> None:
        """Emit stores of one value, for all vector lanes, from vector registers to memory."""
        vector_code, memory_type = self._vector_code, self._vector_code.memory_type(value.dtype)
        for pointer, register in zip(
            self._for_each_vector(value, str), cell.registers, strict=True
        ):
            if value.dtype == "bool":
                register = vector_code.emit(
                    f"zext {vector_code.type('bool')} {register} to {memory_type}"
                )
            vector_code.line(f"store {memory_type} {register}, ptr {pointer}, align 1")

    def _for_each_vector(self, value: Value, use: Callable[[str], str]) -> list[str]:
        vector_width, vector_indices = (
            self._lane_block.vector_width,
            range(self._lane_block.vector_count),
        )
        return [use(self._lane_address(value, str(k * vector_width))) for k in vector_indices]

    def _store_vectors(self, value: Value, cell: Cell, variable: LocalVariable) -> None:
        vector_type = self._vector_code.type(value.dtype)
        for register, pointer in zip(cell.registers, variable, strict=True):
            self._vector_code.line(f"store {vector_type} {register}, ptr {pointer}")
