"""What was translated last, so that a process that simulates one module after another does not keep them all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Made = TypeVar("Made")

KEPT = 32  # more than the kernels of any one call; a translated kernel takes 3 MB and more


class Recent(Generic[Made]):
    """What was made for the KEPT keys that were asked for last."""

    def __init__(self) -> None:
        self._made: OrderedDict[Hashable, Made] = OrderedDict()

    def __len__(self) -> int:
        return len(self._made)

    def find(self, key: Hashable, fits: Callable[[Made], bool]) -> Made | None:
        """What was made for `key`, None where there is nothing that `fits`."""
        found = self._made.get(key)
        return found if found is not None and fits(found) else None

    def get(self, key: Hashable, fits: Callable[[Made], bool], make: Callable[[], Made]) -> Made:
        """What was made for `key`, made anew unless it `fits`: a key may be the id of something that is gone."""
        found = self._made.get(key)
        if found is None or not fits(found):
            found = self._made[key] = make()
        self._made.move_to_end(key)
        if len(self._made) > KEPT:
            self._made.popitem(last=False)
        return found
