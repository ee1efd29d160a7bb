"""Who opens builds: the loader of their DSL, for the GPU, or within a block something else, such as a simulator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Generic, TypeVar

Opener = TypeVar("Opener")


class Opening(Generic[Opener]):
    """What stands in for the GPU where builds of one DSL are opened; nothing outside of `by`."""

    def __init__(self, dsl: str) -> None:
        self._opener: ContextVar[Opener | None] = ContextVar(f"{dsl} builds are opened by", default=None)
        self._processors: ContextVar[int | None] = ContextVar(f"multiprocessors for {dsl}", default=None)

    @contextlib.contextmanager
    def by(self, opener: Opener, processors: int | None = None) -> Iterator[None]:
        """Within the block, builds are opened by `opener` instead of for the GPU.

        `processors` is how many multiprocessors a binding is then told that there are; None asks the GPU all the same.
        """
        tokens = self._opener.set(opener), self._processors.set(processors)
        try:
            yield
        finally:
            self._opener.reset(tokens[0])
            self._processors.reset(tokens[1])

    @property
    def opener(self) -> Opener | None:
        return self._opener.get()

    @property
    def processors(self) -> int | None:
        return self._processors.get()
