"""Draw the figure of the README: the cost of a step in each way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

BARS = {
    "Python": "Python's floats",
    "numpy": "numpy",
    "ONNX Loop": "ONNX Loop,\nONNX Runtime",
    "JAX": "JAX",
    "numba": "numba",
    "ours": "mdf_loop,\nthe whole run",
    "ours, loop": "mdf_loop,\nthe loop alone",
}
"""Labels of the bars by way."""

OURS, OTHERS, INK = "#1f6f8b", "#b8c4cc", "#333333"


def draw(best: Mapping[str, float], path: Path) -> None:
    """Draw a bar chart of microseconds per step on a logarithmic axis."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.hashsalt": "mdf_loop", "font.size": 9})
    from matplotlib import pyplot as plt

    ways = sorted((way for way in BARS if way in best), key=lambda way: -best[way])
    times = [best[way] * 1e6 for way in ways]
    figure, axes = plt.subplots(figsize=(6.4, 0.42 * len(ways) + 0.9), layout="constrained")
    colors = [OURS if way.startswith("ours") else OTHERS for way in ways]
    bars = axes.barh([BARS[way] for way in ways], times, color=colors, height=0.7)
    axes.bar_label(bars, [f"{time:.2g}" for time in times], padding=4, color=INK)
    axes.set(xscale="log", xlim=(min(times) / 3, max(times) * 3))
    axes.set_xlabel("microseconds a step (logarithmic), FitzHugh-Nagumo, one neuron, recorded")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.invert_yaxis()
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = path.suffix.removeprefix(".")
    figure.savefig(path, metadata={"Date": None} if kind == "svg" else None, dpi=150)
    plt.close(figure)
