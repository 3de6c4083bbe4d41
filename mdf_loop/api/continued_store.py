"""Store of an earlier cluster run that a new run resumes, with checks and repairs of the store's content."""

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
_REMEDY = f"put back the store as it was, or {_RESTART_HINT}"

_VERSION = "mdf_loop"
"""Key in the stored run identity of earlier versions, which the number format has replaced."""


class ContinuedStore(Struct, frozen=True):
    """Checked store, with the parts that must be repaired before members are written to it.

    Attributes:
        store: The store.
        layout: Its metadata.
        cut: Division of the members into blocks.
        computed: Numbers of the blocks that are computed and intact.
        leftovers: Files to remove: the files of damaged blocks, and incomplete files of killed processes.
        damaged_coordinates: Names of the coordinates that must be written again.
    """

    store: Regions
    layout: RegionLayout
    cut: Partition
    computed: frozenset[int]
    leftovers: tuple[Path, ...]
    damaged_coordinates: tuple[str, ...]

    def mend(self) -> None:
        """Remove the files of damaged blocks. The flags of a block are removed before its data.

        Raises:
            InputError: The store cannot be written.
        """
        place = self.store.place
        with folder.convert_os_errors(place):
            for file in self.leftovers:
                file.unlink(missing_ok=True)
            for parent in {file.parent for file in self.leftovers}:
                sync(parent)

    def write_coordinates(
        self, lease: StoreLease, items: Iterable[Labelled], along: Mapping[str, CoordinateFunction]
    ) -> None:
        """Write the damaged coordinates again.

        Raises:
            InputError: The run has no such coordinate, or the store cannot be written.
        """
        checksums = dict(self.layout.record.checksums or {})
        names = set(self.damaged_coordinates)
        for item in items:
            if escape_name(item.name) in names:
                checksums |= self.store.write_coordinate(item, along.get(item.name))
                names.remove(escape_name(item.name))
        if names:
            raise InputError(
                f"cannot continue '{lease.path}': '{min(names)}' is damaged, which is no "
                "coordinate of this run",
                hint=_REMEDY,
            )
        if self.store.has_checksums:
            self.store.note(lease, {"checksums": checksums}, {})


def continued_store(
    lease: StoreLease, shape: tuple[int, ...], identity: Mapping[str, str]
) -> ContinuedStore | None:
    """Return the store of an earlier run with the same members, or None if no such store exists.

    All reasons to refuse the store are checked before damaged metadata of its arrays are replaced.

    Args:
        lease: Lease of the store, which permits writing.
        shape: Number of members along each axis.
        identity: Texts of all arguments that determine the results of the run.

    Raises:
        InputError: The store belongs to another run, or is damaged.
    """
    attributes = folder.read_own_attributes(lease.place)
    if SWEEP_ATTRIBUTE not in attributes:
        return None
    try:
        layout = read_layout(lease.place)
        run = {word: text for word, text in layout.record.run.items() if word != _VERSION}
        if apart := describe_difference(run, identity):
            raise InputError(
                f"the store '{lease.path}' is of {apart}",
                hint="give the same command, or begin anew without resume",
            )
        check_environment(f"the store '{lease.path}'", layout.record.environment, _RESTART_HINT)
        files = dict(list_files(lease.place))
        cut = _read_partition(layout, shape)
    except DamagedError as error:
        raise InputError(f"cannot continue '{lease.path}': {error}", hint=_REMEDY) from None
    record = layout.record
    store = Regions(
        lease.place,
        str(attributes.get(folder.RUN_ATTRIBUTE)),
        record.shape,
        record.outputs,
        record.flags,
        has_checksums=record.checksums is not None,
    )
    computed, leftovers = set(), [lease.place / f for f in files if f.endswith(".partial")]
    with folder.convert_os_errors(lease.place):
        layout.mend(lease.place)  # the check needs these metadata to read chunks
        check = RegionCheck(lease.place, layout, files)
        for block in cut.blocks():
            members = [*boxes(record.shape, block.first, block.last)]
            state = check.state(members)
            if state is BlockState.COMPUTED:
                computed.add(block.number)
            elif state is BlockState.DAMAGED:
                leftovers += check.files(members)
        coordinates = tuple(check.damaged_coordinates())
    return ContinuedStore(store, layout, cut, frozenset(computed), tuple(leftovers), coordinates)


def _read_partition(layout: RegionLayout, shape: tuple[int, ...]) -> Partition:
    """Return the division of the members into blocks that a store records.

    Raises:
        DamagedError: The recorded division does not match the members of this run.
    """
    record = layout.record
    if record.shape != shape:
        raise DamagedError(
            f"it says that its members are {list(record.shape)}, and those of this run are "
            f"{list(shape)}"
        )
    cut = Partition(record.shape, record.axis, record.chunk, record.chunks_in_block)
    if cut.count != record.blocks:
        raise DamagedError(f"it says that there are {record.blocks} blocks, not {cut.count}")
    return cut
