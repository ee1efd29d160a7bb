"""Tell by a run with other content whether a kernel uses unwritten memory."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from .counts import Counts
from .finding import Finding
from .launch import Launch
from .snapshot import Snapshot

OTHER = 0x5C  # each byte of unwritten memory in the second run: large and finite in every format
LARGEST = 1 << 28  # bytes of buffers beyond which no copy is kept


class UnwrittenUse:
    """The buffers before a run, and the comparison with a second run."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        allocations = {id(a): a.size for launch in launches for a in launch.memory.allocations}
        self.launches = launches
        self.before = Snapshot(launches) if sum(allocations.values()) <= LARGEST else None

    def explain(
        self, findings: list[Finding], counts: list[Counts], again: Callable[[int], list[Counts]]
    ) -> list[Finding]:
        """Return findings; findings of unwritten memory say whether stores or branches depend on it.

        again: runs the launches with a content of unwritten memory.
        """
        concerned = [f.kind == "uninitialised" for f in findings]
        if self.before is None or not any(concerned) or any(f.kind == "deadlock" for f in findings):
            return findings
        after = Snapshot(self.launches)
        self.before.restore()
        branches = [c.instructions for c in again(OTHER)] != [c.instructions for c in counts]
        stores = not after.current
        after.restore()
        uses = [name for name, used in (("stores", stores), ("branches", branches)) if used]
        note = f"; {' and '.join(uses) or 'no store or branch'} of the run depend{'' if uses else 's'} on such values"
        return [replace(f, message=f.message + note) if own else f for f, own in zip(findings, concerned, strict=True)]
