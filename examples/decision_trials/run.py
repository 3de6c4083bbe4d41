"""Decision trials: a while loop for each, many trials in one run, and runs that are stopped."""

from pathlib import Path
from tempfile import TemporaryDirectory

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
model = mdf_loop.compile(MODEL)

one = model.run()
print(f"one trial: {one['evidence']:+.3f} after {one['seconds']:.3f} s")

wanted = {"seconds": ["mean", "max"], "upwards": "mean"}
trials = model.run(steps=150, only=["seconds"], when="slow", reduce=wanted)
print(f"150 trials: {trials['trial.upwards.mean']:.0%} upwards", end=", ")
print(
    f"{trials['trial.seconds.mean']:.2f} s on average, {trials['trial.seconds.max']:.2f} s at most"
)
numbers = trials.axes[0].coordinates["step"]
print("trials of more than 2 s:", *numbers)

far = {"trial.threshold": 1e6}
bounded = mdf_loop.compile(MODEL, max_iterations=10_000).run(set=far)
print(f"a threshold too far: {bounded['evidence']:+.2f} reached")
print(f"  {bounded.reason}")
limited = model.run(set=far, time_limit=0.2)
print(f"  {limited.reason}")

hard = {"trial.threshold": 40.0}
with TemporaryDirectory() as folder:
    file = Path(folder) / "trial.ckpt"
    model.run(set=hard, checkpoint=file, progress=lambda progress: progress.done == 0)
    resumed = model.run(set=hard, resume=file)
unbroken = model.run(set=hard)
print(f"stopped and resumed: {resumed['evidence']} after {resumed['steps']} iterations")
print(f"unbroken:            {unbroken['evidence']} after {unbroken['steps']} iterations")
