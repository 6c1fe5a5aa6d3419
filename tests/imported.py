"""Imports what most files of tests import and no daemon does, for the processes that `tests.workers` forks."""

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
