"""The gap against memory as a picture."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

from consumers.evaluate.plan import EvaluationReport
from streamsvm.errors import ConfigurationError


def check_plot(path: Path) -> None:
    """Check that a plot can be made and written, before anything takes long.

    Raises
    ------
    ConfigurationError
    """
    if path.suffix.lower() != ".png":
        raise ConfigurationError(f"--plot {path} does not end in .png", "Give a path that ends in .png.")
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(
            f"--plot {path}: the directory does not exist", "Create the directory, or give another path."
        )
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigurationError(
            "--plot needs matplotlib, which is not installed", "Install it: python -m pip install matplotlib"
        )


def plot(report: EvaluationReport, path: Path) -> None:
    """Write the gap against memory as a PNG.

    Raises
    ------
    ConfigurationError
        If there is nothing to show, or the file cannot be written.
    """
    from matplotlib.figure import Figure  # a development dependency: only who asks for a plot needs it

    if not report.curve:
        raise ConfigurationError(
            "--plot has nothing to show: every memory size to try is at least the number of training points",
            "Lower --memory-points.",
        )
    memory, ours, theirs = zip(*report.curve, strict=True)
    floor = max(report.uncertainty or 0.0, 1e-12)
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    for name, gaps, marker in (("streamsvm", ours, "o"), ("reservoir", theirs, "s")):
        axes.plot(memory, np.maximum(gaps, floor), marker=marker, label=name)
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(memory, [f"{points:,}" for points in memory])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="points held", ylabel="gap to the optimum, (F - F*) / F*")
    axes.set_title(f"{report.source}, {report.training_points:,} points")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    try:
        figure.savefig(path)
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}", "Give a path that can be written."
        ) from None
