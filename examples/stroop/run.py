"""Simulate the Stroop effect: words slow colour naming more than colours slow reading."""

from pathlib import Path

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
red, green, nothing, colour, word = [1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]

model = mdf_loop.compile(MODEL)
results = model.run(
    trials=2000,
    sweep={
        "task.wanted": [colour] * 3 + [word] * 3,
        "stimulus.colour": [red] * 3 + [red, nothing, green],
        "stimulus.word": [red, nothing, green] + [red] * 3,
    },
    over_trials={"cycles": ["mean", {"quantiles": [0.1, 0.9]}], "answer": "mean"},
)
for k, task in enumerate(("name the colour", "read the word")):
    print(f"{task}:")
    for member, other in enumerate(("the same", "nothing", "another"), start=3 * k):
        low, high = results["cycles.quantiles"][member]
        print(
            f"  the other says {other:8} {results['cycles.mean'][member]:5.1f} cycles,",
            f"most of them {low:.0f} to {high:.0f},",
            f"{results['answer.mean'][member]:.1%} wrong",
        )
