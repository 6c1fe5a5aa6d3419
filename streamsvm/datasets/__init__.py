"""The data set of the demonstration, shipped with the package: HTRU2, candidates for pulsars.

Each of the 17,898 rows describes one candidate found in a survey of radio pulses; 1,639 of them, checked by people, are
pulsars (+1), the others are noise or interference (-1). The eight features are statistics of two curves: the pulse
profile, averaged over time and frequency, and the signal-to-noise ratio against the dispersion measure (DM-SNR). Rows
stand in the order of the source, values are raw.

Source: R. J. Lyon, HTRU2, UCI Machine Learning Repository, DOI 10.24432/C5DK6R, licensed under CC BY 4.0. Described by
R. J. Lyon, B. W. Stappers, S. Cooper, J. M. Brooke and J. D. Knowles, "Fifty Years of Pulsar Candidate Selection: From
simple filters to a new principled real-time classification approach", MNRAS 459 (2016) 1104. Changed here: values are
rounded to float32, and the label 0 is written -1.
"""

from __future__ import annotations

import csv
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.array_files import from_arrays, shuffled
from streamsvm.ingest.files.source import PointSource

HTRU2_FEATURES: Final = (
    "profile_mean",
    "profile_standard_deviation",
    "profile_excess_kurtosis",
    "profile_skewness",
    "dm_snr_mean",
    "dm_snr_standard_deviation",
    "dm_snr_excess_kurtosis",
    "dm_snr_skewness",
)
DATASETS: Final = ("htru2",)
"""Names of the sets there are."""


def load_htru2() -> tuple[NDArray[np.float32], NDArray[np.int8], tuple[str, ...]]:
    """Return the features, the labels and the names of the features of HTRU2.

    Returns
    -------
    X : ndarray of shape (17898, 8), float32
    y : ndarray of shape (17898,), int8
        +1: a pulsar, -1: none.
    feature_names : tuple of 8 str
    """
    with files(__name__).joinpath("htru2.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return arrays["X"], arrays["y"], HTRU2_FEATURES


def dataset_source(name: str) -> PointSource:
    """Return a set that ships with the package as a source.

    Parameters
    ----------
    name : str
        One of `DATASETS`.

    Raises
    ------
    ConfigurationError
        If there is no such set.
    """
    if name not in DATASETS:
        raise ConfigurationError(f"unknown data set {name}", f"Available data sets: {', '.join(DATASETS)}.")
    X, y, names = load_htru2()
    return from_arrays(name, X, y, feature_names=names)


def write_csv(
    path: str | Path,
    name: str = "htru2",
    *,
    rows: int | None = None,
    words: tuple[str, str] | None = None,
    shuffle_seed: int | None = None,
) -> None:
    """Write a set that ships with the package as a CSV file, header and column `label` included.

    The same points come out of the file as out of `dataset_source`, bit for bit, unless an option says otherwise.

    Parameters
    ----------
    path : str or Path
        The file; an existing one is overwritten.
    name : str
        One of `DATASETS`.
    rows : int, optional
        Write the first so many; all by default.
    words : tuple of two str, optional
        In the place of the labels -1 and 1.
    shuffle_seed : int, optional
        Shuffle by this seed first.

    Raises
    ------
    ConfigurationError
        If there is no such set, or the file cannot be written.
    """
    source = dataset_source(name)
    if shuffle_seed is not None:
        source = shuffled(source, shuffle_seed)
    try:
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow((*source.feature_names, "label"))
            points = (
                (*x, label if words is None else words[label > 0])  # type: ignore[operator] # its labels are numbers
                for batch in source.batches()
                for x, label in zip(batch.X.tolist(), batch.y or (), strict=True)
            )
            writer.writerows(islice(points, rows))
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}", "Choose a path that can be written."
        ) from None
