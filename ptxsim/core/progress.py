"""Progress policy of a cluster: who may go next, by how long nothing has changed, and when it counts as stuck."""

from __future__ import annotations

from collections.abc import Sequence

from .adversarial import Aim
from .livelock import Rounds
from .warp import Fragment

_PATIENCE = 20_000  # turns of plain computation without any change of state before threads count as stuck
_CALM = 40  # turns without any change of state after which threads that loop are looked for


class ProgressPolicy:
    """Counts turns since the state of a cluster last changed.

    A turn is `idle` where its thread waited or polled, else `busy`: plain computation may yet lead somewhere.
    """

    def __init__(self) -> None:
        self.idle = self.busy = 0
        self._last = -1  # the cluster's progress when a turn was counted last
        self._loops = Rounds()

    @property
    def unchanged(self) -> int:
        """Turns since the last change of state."""
        return self.idle + self.busy

    def count(self, progress: int, rested: bool) -> None:
        """Count a turn. `progress` numbers the changes of state; `rested` says that the thread waited or polled."""
        if progress != self._last:
            self.idle, self.busy, self._last = 0, 0, progress
            self._loops.forget()
        elif rested:
            self.idle += 1
        else:
            self.busy += 1

    def stuck(self, ready: Sequence[Fragment]) -> bool:
        """Whether threads will change nothing any more, where no asynchronous work is under way."""
        polled_in_vain = self.idle > 50 + 8 * len(ready) + 8 * self.busy
        return polled_in_vain or self.busy > _PATIENCE or self._loops.all_of(ready)

    def candidates(self, ready: list[Fragment], work: bool, aim: Aim | None) -> list[Fragment]:
        """The threads that may go: none where all only poll and asynchronous `work` can go on instead.

        What an adversarial schedule holds back goes, too, once the others have changed nothing for long.
        """
        if work and self.idle > 2 * len(ready) + 2:
            return []
        if aim is not None and self.unchanged <= 2 * len(ready) + 50:
            return aim.free(ready)
        return ready

    def pick(self, candidates: Sequence[Fragment], choice: int) -> tuple[Fragment, bool]:
        """The thread that takes a schedule's choice, and whether it overtakes lanes of its warp that loop.

        Every turn without a change moves the choice on by one, so that no candidate is passed over for ever.
        """
        f = candidates[(choice + self.unchanged) % len(candidates)]
        if self.unchanged <= _CALM:
            return f, False
        first = f if f.turn() else f.earlier() or f
        chosen = self._loops.instead(first)
        self._loops.note(chosen)
        return chosen, chosen is not first
