"""Zarr store of an earlier cluster run that a new run resumes, with checks and repairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from mdf_loop.cluster.partition import Partition, boxes
from mdf_loop.errors import InputError
from mdf_loop.files import sync
from mdf_loop.run.control.checkpoint import describe_difference
from mdf_loop.run.environment import check_environment
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.labels import Labelled, escape_name
from mdf_loop.run.recording.metadata import DamagedError
from mdf_loop.run.recording.region_check import BlockState, RegionCheck
from mdf_loop.run.recording.region_layout import SWEEP_ATTRIBUTE, RegionLayout, read_layout
from mdf_loop.run.recording.regions import CoordinateFunction, Regions
from mdf_loop.run.recording.store_files import list_files
from mdf_loop.run.recording.store_lease import StoreLease

_RESTART_HINT = "begin anew: overwrite=True (--overwrite) without resume"
_REPAIR_HINT = f"put back the store as it was, or {_RESTART_HINT}"

_OLD_VERSION_KEY = "mdf_loop"
"""Key in the stored run identity of earlier versions, which the number format has replaced."""


class ContinuedStore(Struct, frozen=True):
    """Zarr store of an earlier run, with the damaged parts that must be repaired before writing.

    Attributes:
        store: The store.
        layout: Its metadata.
        partition: Division of the members into blocks.
        computed_blocks: Numbers of the blocks that are computed and intact.
        leftover_files: Files to remove: the files of damaged blocks, and incomplete files of killed processes.
        damaged_coordinates: Names of the coordinates that must be written again.
    """

    store: Regions
    layout: RegionLayout
    partition: Partition
    computed_blocks: frozenset[int]
    leftover_files: tuple[Path, ...]
    damaged_coordinates: tuple[str, ...]

    def remove_damaged_files(self) -> None:
        """Remove the files of damaged blocks of members from the Zarr store.

        The flags of a block are removed before its data.

        Raises:
            InputError: The store cannot be written.
        """
        store_path = self.store.path
        with folder.convert_os_errors(store_path):
            for leftover_file in self.leftover_files:
                leftover_file.unlink(missing_ok=True)
            for parent_folder in {leftover_file.parent for leftover_file in self.leftover_files}:
                sync(parent_folder)

    def write_coordinates(
        self,
        lease: StoreLease,
        coordinate_arrays: Iterable[Labelled],
        along: Mapping[str, CoordinateFunction],
    ) -> None:
        """Rewrite the damaged coordinate arrays of the Zarr store.

        Raises:
            InputError: The run has no such coordinate, or the store cannot be written.
        """
        checksums = dict(self.layout.record.checksums or {})
        pending_names = set(self.damaged_coordinates)
        for coordinate in coordinate_arrays:
            if escape_name(coordinate.name) in pending_names:
                checksums |= self.store.rewrite_coordinate(coordinate, along.get(coordinate.name))
                pending_names.remove(escape_name(coordinate.name))
        if pending_names:
            raise InputError(
                f"cannot continue '{lease.path}': '{min(pending_names)}' is damaged, which is no "
                "coordinate of this run",
                hint=_REPAIR_HINT,
            )
        if self.store.has_checksums:
            self.store.update_record(lease, {"checksums": checksums}, {})


def continued_store(
    lease: StoreLease, shape: tuple[int, ...], identity: Mapping[str, str]
) -> ContinuedStore | None:
    """Return the Zarr store of an earlier run with equal arguments, or None without such a store.

    All reasons to refuse the store are checked before damaged metadata of its arrays are replaced.

    Args:
        lease: Lease of the store, which permits writing.
        shape: Number of members along each axis.
        identity: Texts of all arguments that determine the results of the run.

    Raises:
        InputError: The store belongs to another run, or is damaged.
    """
    stored_attributes = folder.read_own_attributes(lease.place)
    if SWEEP_ATTRIBUTE not in stored_attributes:
        return None
    try:
        layout = read_layout(lease.place)
        recorded_identity = {
            key: identity_text
            for key, identity_text in layout.record.run.items()
            if key != _OLD_VERSION_KEY
        }
        if identity_difference := describe_difference(recorded_identity, identity):
            raise InputError(
                f"the store '{lease.path}' is of {identity_difference}",
                hint="give the same command, or begin anew without resume",
            )
        check_environment(f"the store '{lease.path}'", layout.record.environment, _RESTART_HINT)
        store_files = dict(list_files(lease.place))
        partition = _read_partition(layout, shape)
    except DamagedError as error:
        raise InputError(f"cannot continue '{lease.path}': {error}", hint=_REPAIR_HINT) from None
    store_record = layout.record
    store = Regions(
        lease.place,
        str(stored_attributes.get(folder.RUN_ATTRIBUTE)),
        store_record.shape,
        store_record.outputs,
        store_record.flags,
        has_checksums=store_record.checksums is not None,
    )
    computed_blocks, leftover_files = (
        set(),
        [lease.place / store_file for store_file in store_files if store_file.endswith(".partial")],
    )
    with folder.convert_os_errors(lease.place):
        layout.mend(lease.place)  # the check needs these metadata to read chunks
        region_check = RegionCheck(lease.place, layout, store_files)
        for block in partition.blocks():
            member_boxes = [*boxes(store_record.shape, block.first_member, block.end_member)]
            block_state = region_check.check_block(member_boxes)
            if block_state is BlockState.COMPUTED:
                computed_blocks.add(block.block_number)
            elif block_state is BlockState.DAMAGED:
                leftover_files += region_check.block_files(member_boxes)
        damaged_coordinates = tuple(region_check.damaged_coordinates())
    return ContinuedStore(
        store,
        layout,
        partition,
        frozenset(computed_blocks),
        tuple(leftover_files),
        damaged_coordinates,
    )


def _read_partition(layout: RegionLayout, shape: tuple[int, ...]) -> Partition:
    """Return the division of members into blocks that is recorded in a Zarr store.

    Raises:
        DamagedError: The recorded division does not match the members of this run.
    """
    sweep_record = layout.record
    if sweep_record.shape != shape:
        raise DamagedError(
            f"it says that its members are {list(sweep_record.shape)}, and those of this run are "
            f"{list(shape)}"
        )
    partition = Partition(
        sweep_record.shape, sweep_record.axis, sweep_record.chunk, sweep_record.chunks_in_block
    )
    if partition.block_count != sweep_record.blocks:
        raise DamagedError(
            f"it says that there are {sweep_record.blocks} blocks, not {partition.block_count}"
        )
    return partition
