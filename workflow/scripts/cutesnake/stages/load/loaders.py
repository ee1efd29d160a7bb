"""Choose who opens builds: their DSL's loader, or a stand-in such as a simulator."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Generic, TypeVar

Opener = TypeVar("Opener")


class Opening(Generic[Opener]):
    """Stand-in for the GPU where builds of a DSL are opened, within `by`."""

    def __init__(self, dsl: str) -> None:
        self._opener: ContextVar[Opener | None] = ContextVar(f"{dsl} builds are opened by", default=None)
        self._processors: ContextVar[int | None] = ContextVar(f"multiprocessors for {dsl}", default=None)

    @contextlib.contextmanager
    def by(self, opener: Opener, processors: int | None = None) -> Iterator[None]:
        """Within the block, builds are opened by `opener` instead of for the GPU.

        `processors` is the number of multiprocessors that a binding then plans for; None asks the GPU all the same.
        """
        tokens = self._opener.set(opener), self._processors.set(processors)
        try:
            yield
        finally:
            self._opener.reset(tokens[0])
            self._processors.reset(tokens[1])

    @property
    def opener(self) -> Opener | None:
        """Return the stand-in, None outside of `by`."""
        return self._opener.get()

    @property
    def processors(self) -> int | None:
        """Return the multiprocessors to plan for, None for the GPU's."""
        return self._processors.get()
