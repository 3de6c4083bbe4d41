"""Lazily read Zarr arrays that raise an error if another run has replaced their store.

Meanwhile, another run may have replaced the store, or the same run may have resumed from an earlier step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import zarr
from zarr.core.buffer import Buffer

from mdf_loop.errors import InputError
from mdf_loop.run.recording import zarr_folder as folder
from mdf_loop.run.recording.checked_store import CheckedStore
from mdf_loop.run.recording.metadata import METADATA, ArrayMetadata
from mdf_loop.run.run_id import describe_run


def open_rows(place: Path, display_path: Path) -> zarr.Array[Any]:
    """Open an array of a Zarr store for lazy reading, with its current rows.

    Errors call the store `display_path`.
    """
    return zarr.open_array(_RunCheckedStore(place, display_path), mode="r")


class _RunCheckedStore(CheckedStore):
    """Read-only Zarr store that raises an error if another run has replaced its files.

    `display_path` is the path of the store as the user gave it.
    """

    def __init__(self, root: Path, display_path: Path) -> None:
        super().__init__(root, display_path, read_only=True)
        self._last_version = _metadata_file_version(root)
        self._run_id, self._array_metadata = _read_current(root, display_path)

    def read_array_metadata(self) -> Any:
        """Return the array's entry in the metadata of the whole store."""
        return self._array_metadata

    def allows_missing_chunks(self, array_metadata: ArrayMetadata) -> bool:
        """Return True if rows vary in length: chunks that only have padding have no file."""
        return array_metadata.has_varying_rows

    def check(self, key: str, content: Buffer | None) -> None:
        """Raise InputError if another run has replaced the store, or if a chunk is damaged."""
        self._check()
        super().check(key, content)

    def _check(self) -> None:
        """Raise InputError if another run has replaced the store since it was opened."""
        version = _metadata_file_version(self.root)
        if version is not None and version == self._last_version:
            return
        run_id, array_metadata = _read_current(self.root, self.display_path)
        if run_id != self._run_id:
            raise InputError(
                f"'{self.display_path}' has the rows of {describe_run(run_id)} now; these results are those of "
                f"{describe_run(self._run_id)}",
                hint="give each run an output of its own",
            )
        if not _is_continuation(self._array_metadata, array_metadata):
            raise InputError(
                f"'{self.display_path}' has fewer rows, or others, than these results: {describe_run(run_id)} was "
                "gone on with since",
                hint="take the results of that, or open the store again when it has ended",
            )
        self._last_version = version


def _metadata_file_version(place: Path) -> tuple[int, int, int] | None:
    """Return inode, time and size of the store's metadata file, to detect a replacement."""
    try:
        file_status = (place.parent / METADATA).stat()
    except OSError:
        return None
    return file_status.st_ino, file_status.st_mtime_ns, file_status.st_size


def _read_current(place: Path, display_path: Path) -> tuple[Any, dict[str, Any]]:
    """Read the id of the run that wrote a Zarr store, and the metadata of an array."""
    try:
        root_metadata = folder.read_json(place.parent)
        array_metadata = root_metadata["consolidated_metadata"]["metadata"][place.name]
        return root_metadata["attributes"].get(folder.RUN_ATTRIBUTE), {
            **array_metadata,
            "shape": [*map(int, array_metadata["shape"])],
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise InputError(
            f"the rows of these results were in '{display_path}', which is not there any more, or damaged",
            hint="put it back, or run the model again",
        ) from None


def _is_continuation(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Return True if new metadata of an array equal the old, except for a shape that grew."""
    extent_pairs = [*zip(old["shape"], new["shape"], strict=False)]
    is_equal = {**old, "shape": len(old["shape"])} == {**new, "shape": len(new["shape"])}
    return is_equal and all(old_extent <= new_extent for old_extent, new_extent in extent_pairs)
