"""Python's collector of garbage, and what is made while it rests."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar

Returned = TypeVar("Returned")


def without_collection(function: Callable[..., Returned]) -> Callable[..., Returned]:
    """Return a function during which Python does not look for garbage: what it makes by the ten thousand is all kept."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Returned:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            if was_on:
                gc.enable()

    return wrapped
