"""Count the steps of the Collatz rule from 1, 2, 3, ... down to 1."""

from pathlib import Path

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"

steps = mdf_loop.compile(MODEL).run()["steps"]


def collatz_steps(n: int) -> int:
    """Return the number of Collatz steps from `n` down to 1, in plain Python."""
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


print("model: ", steps.tolist())
print("python:", [collatz_steps(start) for start in range(1, len(steps) + 1)])
