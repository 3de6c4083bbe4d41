"""Program that is loaded into ONNX Runtime: device, threads, memory limits and runs."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from mdf_loop.emit import NodeWriters, SessionModel
from mdf_loop.emit.loop_node import write_loop
from mdf_loop.emit.scan_node import write_scan
from mdf_loop.errors import LoopError
from mdf_loop.ir import Array, Data, Program
from mdf_loop.ir.types import dtype_name
from mdf_loop.native.loop_decisions import decide_loops
from mdf_loop.native.support import STOP_FLAG
from mdf_loop.onnx_session import run_options, session_options
from mdf_loop.passes.legalize.repeat_loops_with_nan import repeat_loops_with_nan
from mdf_loop.pipeline import CUDA, LOADED, prepare
from mdf_loop.run.control.stopping import Stopped, Stopping
from mdf_loop.run.device import DEFAULT_PLACEMENT, Device, Placement
from mdf_loop.run.onnxruntime.abandonable import call_runtime
from mdf_loop.run.onnxruntime.arrays import (
    bfloat16_names,
    convert_inputs,
    convert_outputs,
    is_directly_writable,
    make_ort_value,
)
from mdf_loop.run.onnxruntime.device_race import open_session
from mdf_loop.run.onnxruntime.runtime_errors import (
    convert_load_error,
    convert_run_error,
    onnxruntime_errors,
)
from mdf_loop.run.onnxruntime.sizes import measure_sizes
from mdf_loop.run.output_buffers import NO_BUFFERS, OutputBuffers, address
from mdf_loop.signals import stop_exception

MAX_THREADS = 0
"""Maximum number of threads of any session of this process, or 0 for the number of cores."""

SPIN_MICROSECONDS = 20
"""Microseconds that an idle thread of a session polls for work before it sleeps.

The time spans the gap between two operations. By default, ONNX Runtime's threads spin for about 50 ms, so
threads of a finished session block the cores of the next session. A model of four loops took five times
as long with the default, and streaming a network frame by frame took twice as long."""

SINGLE_THREAD_ELEMENTS = 50_000
"""Elements per value up to which one thread is fastest (measured on ONNX Runtime 1.31)."""

SINGLE_THREAD_MICROSECONDS = 50.0
"""Microseconds of an operation up to which one thread is fastest: waking a second thread takes 20."""

MIN_DIRECT_BYTES = 1 << 18
"""Minimum bytes of outputs that are written directly to their destination, which costs 0.1 ms."""


class Session:
    """Program that is loaded into an ONNX Runtime session.

    Several threads may use a session at once. A session for a segment uses as many threads as a session for
    the `whole` program, since the last bits of Log and MatMul depend on the number of threads.
    """

    def __init__(
        self,
        program: Program,
        placement: Placement = DEFAULT_PLACEMENT,
        whole: Program | None = None,
    ) -> None:
        self.program = program
        self.output_names = [output.name for output in program.outputs]
        self._dtypes = {output.name: output.value.dtype for output in program.outputs}
        self._bfloat16_inputs, self._bfloat16_outputs = bfloat16_names(program)
        self._sizes = measure_sizes(program)
        self._sizes.check_limit()
        whole_program_sizes = self._sizes if whole is None else measure_sizes(whole)
        is_large_program = (
            whole_program_sizes.max_elements > SINGLE_THREAD_ELEMENTS
            or whole_program_sizes.max_operation_microseconds > SINGLE_THREAD_MICROSECONDS
        )
        loaded_program = prepare(program, LOADED)
        loop_program = placement.loop_program
        native_loops = decide_loops(
            loaded_program,
            placement.native,
            brief=placement.is_brief,
            get_loop_program=None
            if loop_program is None
            else functools.partial(prepare, loop_program, LOADED),
            whole=whole,
        )
        loaded_program = native_loops.program
        options = _make_options(
            native_loops.can_share_lanes(loaded_program), is_large_program, placement.threads
        )
        self.native = native_loops.form_by_name
        keep_alive = native_loops.register(options)
        node_writers = NodeWriters(native_loops.writer(write_scan), native_loops.writer(write_loop))
        self._has_stop_flag = bool(native_loops.loops)
        control_inputs = (STOP_FLAG,) if native_loops.loops else ()
        # On CUDA, the condition of a loop is slower than the check for nan in each iteration.
        model = SessionModel(
            repeat_loops_with_nan(loaded_program, native_loops.loops),
            node_writers,
            control_inputs,
            cuda_program=functools.partial(prepare, loaded_program, CUDA),
        )
        self._nodes = model.nodes
        self._external_constants = {
            name: make_ort_value(array) for name, array in model.large_constants.items()
        }
        if self._external_constants:
            options.add_external_initializers(
                list(self._external_constants), list(self._external_constants.values())
            )
        try:
            self._session = open_session(model, placement.device, options)
            keep_alive()
        except LoopError:
            raise
        except onnxruntime_errors() as error:
            raise convert_load_error(error) from None

    @property
    def device(self) -> Device:
        """Device of the program, with the reason for its choice.

        `UNDECIDED_DEVICE` before the first run if that run chooses the device.
        """
        return self._session.device

    def run(
        self,
        arrays: Mapping[str, Data],
        stopping: Stopping | None = None,
        buffers: OutputBuffers = NO_BUFFERS,
    ) -> dict[str, Data]:
        """Run the program on inputs by name, and return its outputs by name.

        Outputs that have memory in `buffers` are written there.

        Raises:
            RunError: The model failed. The message names the place in the MDF document.
            RecordShapeError: The rows of a recorded value differ in shape.
            MemoryLimitError: The process exceeded the memory limit.
            Stopped: `stopping` has ended the run.
            KeyboardInterrupt: A signal arrived, and there is no `stopping`.
        """
        if stopping is None:
            return self._run_alone(arrays, buffers)
        self._sizes.check_limit()
        options = run_options()
        feeds = convert_inputs(arrays, self._bfloat16_inputs)
        if self._has_stop_flag:
            stop_flag = np.zeros((), np.int64)
            feeds = {**feeds, STOP_FLAG.name: np.array(address(stop_flag))}
            termination_handle: Any = TerminationFlag(options, stop_flag)
        else:
            termination_handle = options
        try:
            stopping.register_computation(termination_handle)
            outputs = call_runtime(
                functools.partial(
                    self._session.run,
                    self.output_names,
                    feeds,
                    options,
                    self._select_writable(buffers),
                ),
                stopping,
            )
        except onnxruntime_errors() as error:
            if options.terminate:
                raise Stopped from None
            raise convert_run_error(error, self._nodes) from None
        finally:
            stopping.unregister_computation(termination_handle)
        return convert_outputs(
            dict(zip(self.output_names, outputs, strict=True)), self._bfloat16_outputs
        )

    def _run_alone(self, arrays: Mapping[str, Data], buffers: OutputBuffers) -> dict[str, Data]:
        """Run the program, which only signals and the memory limit can stop.

        Raises:
            KeyboardInterrupt: A signal arrived.
        """
        outputs: dict[str, Data] | None = None
        with Stopping(grace=0.0) as local_stop_monitor, suppress(Stopped):
            outputs = self.run(arrays, local_stop_monitor, buffers)
        if local_stop_monitor.reason is not None and local_stop_monitor.reason.is_asked:
            raise stop_exception(local_stop_monitor.reason)
        if outputs is None:  # without a failure, other code has ended the run
            raise local_stop_monitor.failure or KeyboardInterrupt
        return outputs

    def _select_writable(self, buffers: OutputBuffers) -> OutputBuffers:
        """Return the buffers into which ONNX Runtime can and should write outputs directly."""
        if sum(array.nbytes for array in buffers.values()) < MIN_DIRECT_BYTES:
            return NO_BUFFERS
        return {
            name: array
            for name, array in buffers.items()
            if is_directly_writable(array) and dtype_name(array) == self._dtypes[name]
        }


def _make_options(shares: bool, large: bool, threads: int | None) -> Any:
    """Return ONNX Runtime session options with a suitable number of threads.

    The number is 1 unless loops share lanes or values are large.

    Args:
        shares: True if native loops share their lanes among threads.
        large: True if a value is so large that several threads are faster than one.
        threads: Maximum number of threads, or None for the limit of the process only.
    """
    options = session_options()
    max_threads = _max_threads(threads)
    options.intra_op_num_threads = max_threads if large else 1
    options.add_session_config_entry("session.intra_op.spin_duration_us", str(SPIN_MICROSECONDS))
    if shares:  # spinning threads would block the threads that run native lanes
        options.intra_op_num_threads = max_threads or _count_cores()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _max_threads(threads: int | None) -> int:
    """Return the maximum number of threads of a session, or 0 for ONNX Runtime's default."""
    thread_limits = [thread_count for thread_count in (threads, MAX_THREADS) if thread_count]
    return min(*thread_limits, _count_cores()) if thread_limits else 0


def set_max_threads(count: int) -> None:
    """Set the maximum number of threads of ONNX Runtime sessions that are opened later."""
    global MAX_THREADS
    MAX_THREADS = count


def _count_cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class TerminationFlag:
    """Flag that terminates an ONNX Runtime run and its native loops.

    Native loops poll a number that is initially 0.
    """

    def __init__(self, options: Any, number: Array) -> None:
        self._options = options
        self._stop_flag = number

    @property
    def terminate(self) -> bool:
        """True if the run was told to terminate."""
        return bool(self._options.terminate)

    @terminate.setter
    def terminate(self, ends: bool) -> None:
        self._options.terminate = ends
        self._stop_flag[...] = ends
