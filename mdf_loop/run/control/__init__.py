"""Control of runs in chunks: progress, checkpoints, limits and early stops."""
