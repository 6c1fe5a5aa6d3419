"""Imports what most files of tests import and no daemon does, and loads every compiled kernel.

For the processes that `tests.workers` forks.
"""

import matplotlib.pyplot
import onnxruntime
import pandas
import pyarrow.parquet
import scipy.stats
import selenium.webdriver
import sklearn.calibration
import sklearn.datasets
import sklearn.ensemble
import sklearn.linear_model
import sklearn.model_selection
import sklearn.pipeline
import sklearn.svm
import sklearn.utils.estimator_checks

import streamsvm.estimators
from tests.compiled import is_compiled
from tests.kernels import PARTS

if is_compiled():
    for part in PARTS.values():
        part()

__all__ = [
    "matplotlib",
    "onnxruntime",
    "pandas",
    "pyarrow",
    "scipy",
    "selenium",
    "sklearn",
    "streamsvm",
]
