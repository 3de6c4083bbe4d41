"""Control of runs: progress display, checkpoints, time and memory limits, early stops."""
