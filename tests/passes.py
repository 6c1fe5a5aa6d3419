"""Counts passes over arrays: what `sys.setprofile` does not see, since an operator or a ufunc is no call to it.

While a `PassCount` is `running`, arrays that numpy makes, and those that compiled kernels return, are of a subclass
that notes what is done with them. A pass is a ufunc (an operator is one), a function or a method of numpy, an index
by an array, or a compiled kernel that Python calls, over at least one array of `ROWS` rows or more. What a kernel
does inside is one pass. One statement can be more than one: ``X.astype(...) * 2`` is two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, Final
from unittest import mock

import numpy as np
from numba import _dispatcher
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from streamsvm.points import Points

ROWS: Final = 500
"""An array of fewer is none of a leaf's or a batch's rows."""
MAKERS: Final = ("arange", "array", "asarray", "ascontiguousarray", "empty", "fromiter", "full", "ones", "zeros")
METHODS: Final = ("argpartition", "argsort", "astype", "copy", "cumsum", "dot", "nonzero", "partition", "sort", "take")


class PassCount:
    """Passes, by the name of what made them.

    Attributes
    ----------
    passes : Counter of str
    """

    def __init__(self) -> None:
        self.passes: Counter[str] = Counter()
        self._counts = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Note what is done with arrays that are made while the block runs; only one count can run at a time."""
        with mock.patch.object(_Noted, "running", self), _patched():
            yield

    def __call__(self, work: Callable[[], int]) -> tuple[int, float]:
        """Return what work returned, and its passes; within `running`."""
        before = self.passes.total()
        self._counts = True
        try:
            done = work()
        finally:
            self._counts = False
        return done, float(self.passes.total() - before)

    def note(self, name: str) -> None:
        """Count a pass, if work is counted now."""
        if self._counts:
            self.passes[name] += 1


class _Noted(np.ndarray[Any, Any]):
    """An array whose uses are noted."""

    running: PassCount = PassCount()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        _note(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}", (inputs, out))
        if out is not None:
            options["out"] = _plain(out)
        options = {name: _plain(value) for name, value in options.items()}
        found = getattr(ufunc, method)(*_plain(inputs), **options)
        return out[0] if out is not None and len(out) == 1 else _noted(found)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        _note(f"np.{func.__name__}", (args, *kwargs.values()))
        return _noted(func(*_plain(args), **{name: _plain(value) for name, value in kwargs.items()}))

    def __getitem__(self, index: Any) -> Any:
        if _is_gathering(index):
            _note("[array]", (self, index))
        return super().__getitem__(_plain(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        if _is_gathering(index) or isinstance(value, np.ndarray):
            _note("[...] =", (self, index, value))
        super().__setitem__(_plain(index), _plain(value))


def _method(name: str) -> Callable[..., Any]:
    own = getattr(np.ndarray, name)

    def noted(self: NDArray[Any], *args: Any, **kwargs: Any) -> Any:
        _note(f".{name}", (self,))
        return own(self, *_plain(args), **kwargs)

    return noted


for _name in METHODS:
    setattr(_Noted, _name, _method(_name))


def _is_gathering(index: Any) -> bool:
    return isinstance(index, np.ndarray | list) or (isinstance(index, tuple) and any(map(_is_gathering, index)))


def _note(name: str, over: Any) -> None:
    if _has_rows(over):
        _Noted.running.note(name)


def _has_rows(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0 and value.shape[0] >= ROWS
    return isinstance(value, tuple | list) and any(map(_has_rows, value))


def _plain(value: Any) -> Any:
    """Return a value whose arrays are plain views of the same memory."""
    if isinstance(value, _Noted):
        return value.view(np.ndarray)
    if type(value) in (tuple, list):
        return type(value)(map(_plain, value))
    return value


def noted_points(points: Points) -> Points:
    """Return points whose uses are noted."""
    return Points(_noted(points.X), _noted(points.y), _noted(points.weight))


def _noted(value: Any) -> Any:
    if type(value) is np.ndarray:
        return value.view(_Noted)
    if type(value) in (tuple, list):
        return type(value)(map(_noted, value))
    return value


@contextmanager
def _patched() -> Iterator[None]:
    def kernel(self: Any, *args: Any, **kwargs: Any) -> Any:
        _note(f"kernel {self.py_func.__name__}", args)
        return _noted(_dispatcher.Dispatcher.__call__(self, *_plain(args), **kwargs))

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(Dispatcher, "__call__", kernel, create=True))
        for name in MAKERS:
            stack.enter_context(mock.patch.object(np, name, _maker(getattr(np, name))))
        yield


def _maker(own: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(own)
    def made(*args: Any, **kwargs: Any) -> Any:
        return _noted(own(*_plain(args), **kwargs))

    return made
