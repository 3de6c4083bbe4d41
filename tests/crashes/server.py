"""Server process that forks scenarios, which may be killed.

python -m tests.crashes.server      reads lines of JSON, and answers each with an exit code
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]


class Server:
    """Client that runs one scenario after the other, each in a separate process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crashes.server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run_scenario(self, scenario: str, folder: Path, point: int | None = None) -> int:
        """Return the exit code of a scenario in a folder: -9 if it was killed at the point.

        The printed text is in the file `said` beside the folder, and the crash points are in `log`.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"scenario": scenario, "folder": str(folder), "point": point}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End the server process."""
        self._process.communicate(timeout=60)


@contextmanager
def server() -> Iterator[Server]:
    """Yield a `Server` and close it at the end."""
    new_server = Server()
    try:
        yield new_server
    finally:
        new_server.close()


def _serve() -> None:
    import h5netcdf  # noqa: F401
    import h5py  # noqa: F401
    import onnxruntime  # noqa: F401
    import xarray  # noqa: F401
    import zarr  # noqa: F401

    from tests.crashes import scenarios

    scenarios.mdf_loop.compile(scenarios.WALK["g"]).to_onnx()  # imports all required modules
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            _do(json.loads(line))
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


def _do(request: dict[str, Any]) -> NoReturn:
    """Execute one scenario and end the process without a Python traceback."""
    from tests.crashes.points import kill_at
    from tests.crashes.scenarios import SCENARIOS

    code = 1
    folder = Path(request["folder"])
    os.chdir(folder)
    output_file = os.open(folder.parent / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output_file, 1)
    os.dup2(output_file, 2)
    try:
        kill_at(folder, request["point"], folder.parent / "log")
        SCENARIOS[request["scenario"]]()
        code = 0
    except BaseException:  # noqa: BLE001 - told to the test
        traceback.print_exc()
    os._exit(code)


if __name__ == "__main__":
    _serve()
