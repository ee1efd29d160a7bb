"""The content of buffers of launches, to run them again."""

from collections.abc import Iterable

import numpy as np

from ..memory.global_memory import Allocation
from .launch import Launch


class Snapshot:
    """The content of all buffers of launches."""

    def __init__(self, launches: Iterable[Launch]) -> None:
        allocations = {id(a): a for launch in launches for a in launch.memory.allocations}
        self.contents: list[tuple[Allocation, np.ndarray]] = [(a, a.bytes.copy()) for a in allocations.values()]

    def restore(self) -> None:
        for allocation, content in self.contents:
            if not np.array_equal(allocation.bytes, content):  # unwritten buffers may be read-only
                allocation.bytes[:] = content

    @property
    def current(self) -> bool:
        """Whether the buffers still hold this content."""
        return all(np.array_equal(allocation.bytes, content) for allocation, content in self.contents)
