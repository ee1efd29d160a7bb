"""Python's collector of garbage, and what is made while it rests."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")


def without_collection(make: Callable[..., Made]) -> Callable[..., Made]:
    """A function during which Python does not look for garbage: what it makes by the ten thousand is all kept."""

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Made:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return make(*args, **kwargs)
        finally:
            if was_on:
                gc.enable()

    return made
