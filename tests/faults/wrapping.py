"""How a function of the shipped code is replaced while a process runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace a function by `around(original, *arguments)`, which must take what the function takes."""
    original = getattr(owner, name)
    parameters = inspect.signature(original).parameters.values()
    taken = [one for one in parameters if one.kind in POSITIONAL]
    named_only = {one.name: one for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}
    try:
        inspect.signature(around).bind(original, *taken, **named_only)
    except TypeError as misfit:
        raise TypeError(f"what is planted for {name} does not fit it any more: {misfit}") from misfit

    @functools.wraps(original)
    def replaced(*given: Any, **named: Any) -> Any:
        return around(original, *given, **named)

    setattr(owner, name, replaced)
