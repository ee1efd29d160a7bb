"""A small cache of translated kernels, bounded for long-lived processes."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Cached = TypeVar("Cached")

CAPACITY = 32  # more than any call's kernels; an entry takes at least 3 MB


class Recent(Generic[Cached]):
    """A least-recently-used cache of CAPACITY entries."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, Cached] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: Hashable, is_valid: Callable[[Cached], bool]) -> Cached | None:
        """Return the entry of `key`; None if missing or not valid."""
        cached = self._entries.get(key)
        return cached if cached is not None and is_valid(cached) else None

    def get(self, key: Hashable, is_valid: Callable[[Cached], bool], make: Callable[[], Cached]) -> Cached:
        """Return the entry of `key`, rebuilt unless valid, since ids may be reused."""
        cached = self._entries.get(key)
        if cached is None or not is_valid(cached):
            cached = self._entries[key] = make()
        self._entries.move_to_end(key)
        if len(self._entries) > CAPACITY:
            self._entries.popitem(last=False)
        return cached
