"""Download elkjs, the layout library of HTML pages, into the package: `make vendor`.

The script needs npm, which downloads the archive from its configured registry. The archive must have the
checksum `SHA512`. A newer version of elkjs needs a new checksum.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / "mdf_loop" / "drawing" / "page" / "elkjs"
PACKAGE = "elkjs@0.12.1"
SHA512 = "IhMYKHE4S2vtx0QrhBP3lYOIKDeIiJXBrdq9MGYkuB8ZHqhrBnHNfSUndjXFewrX1CPK8chwq+2NA0K0hliYuw=="
FILES = ("lib/elk-worker.min.js", "LICENSE.md")


def verify_checksum(archive: bytes) -> bytes:
    """Return the archive if it has the expected checksum."""
    checksum = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if checksum != SHA512:
        sys.exit(f"{PACKAGE} has an unexpected checksum: its sha512 is {checksum}, not {SHA512}")
    return archive


def download_archive(folder: Path) -> bytes:
    """Return the archive from npm."""
    process = subprocess.run(
        ["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True, text=True
    )
    return (folder / process.stdout.strip()).read_bytes()


def vendor(target: Path = HERE) -> None:
    """Copy the files of the archive that HTML pages need, unchanged."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "elkjs.tgz")
        archive.write_bytes(verify_checksum(download_archive(Path(folder))))
        with tarfile.open(archive) as files:
            for name in FILES:
                part = files.extractfile(f"package/{name}")
                assert part is not None
                (target / Path(name).name).write_bytes(part.read())


if __name__ == "__main__":
    vendor()
