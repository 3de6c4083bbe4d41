"""HDF5 and netCDF streams that fail at any write: they raise an error, and the process survives."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.soak import times

SCRIPT = """
import errno, io, sys
import numpy as np
from mdf_loop.results import saving
from mdf_loop.results.data import Results
from mdf_loop.run.outputs import Axis

class Failing(io.BytesIO):
    left = 10**9
    def write(self, data):
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)

rng = np.random.default_rng(0)
texts = np.array(["a", "b" * 1000] * 500, object)
rows = {f"A.v{k}": rng.random((1000, 3)) for k in range(6)}
time = Axis("time", {"time": np.arange(1000) / 8})
results = Results({**rows, "A.t": texts}, {}, "cpu", "float64", axes=(time,))
write = getattr(saving, sys.argv[1])

whole = Failing()
write(results, whole)
count = 10**9 - whole.left
assert count > 10
for left in range(0, count, int(sys.argv[2])):
    stream = Failing()
    stream.left = left
    try:
        write(results, stream)
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
    else:
        raise AssertionError(f"no error after {left} writes")
again = Failing()
write(results, again)
assert len(again.getvalue()) == len(whole.getvalue())
print("lives")
"""


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("write", ["_write_h5", "_write_netcdf"])
def test_a_stream_that_fails_at_any_write(write):
    command = [sys.executable, "-c", SCRIPT, write, str(times(5, 1))]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (0, "lives\n"), process.stderr[-2000:]
    assert process.stderr == ""
