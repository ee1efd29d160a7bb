"""ptxsim.hooks: an observer's events, and that observing changes no result."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from snippets import kernel_text

import ptxsim
from ptxsim import hooks

BODY = """.shared .align 128 .b32 s[32]; mov.u32 %r1, %tid.x; ld.param.u64 %d1, [p0]; shl.b32 %r2, %r1, 2;
mov.u32 %r3, s; add.u32 %r4, %r3, %r2; add.u32 %r5, %r1, 1; st.shared.u32 [%r4], %r5; bar.sync 0;
fence.proxy.async.shared::cta; setp.ne.u32 %p1, %r1, 0; @%p1 bra END;
cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r3], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END:"""


class Notes(hooks.Observer):
    """Counts its events."""

    def __init__(self, code: hooks.Code) -> None:
        self.code = code
        self.seen: Counter[str] = Counter()
        self.opcodes: Counter[str] = Counter()

    def begins(self) -> None:
        self.seen["clusters"] += 1

    def ran(self, f: hooks.Fragment, block: hooks.Block) -> None:
        for ins in self.code.instructions[block.first : block.last]:
            self.opcodes[ins.base] += len(f.warps())

    def asked(self, task: hooks.Task) -> None:
        self.seen[type(task).__name__] += 1

    def barrier_arrived(self, f: hooks.Fragment, barrier: hooks.NamedBarrier, at: int) -> None:
        self.seen["arrivals"] += f.count

    def shared_access(self, target, f, offsets, lanes, access: hooks.Access) -> None:
        self.seen["stores"] += access.write


def launched(ctas: int) -> tuple[ptxsim.Launch, np.ndarray]:
    out = np.zeros(32, np.uint32)
    module = ptxsim.Module.from_text(kernel_text(BODY, params=1))
    return ptxsim.launch(module, "k", (ctas,), (32,), (out,)), out


@pytest.mark.parametrize("clusters, ran", [(None, 3), (2, 2), (0, 0)])
def test_an_observer_is_told_of_blocks_work_barriers_and_accesses(clusters: int | None, ran: int) -> None:
    launch, out = launched(3)
    notes: list[Notes] = []

    def observer(of: ptxsim.Launch, code: hooks.Code) -> Notes:
        assert of is launch
        notes.append(Notes(code))
        return notes[-1]

    assert hooks.watch([launch], observer, clusters=clusters) == [[]]
    wanted = {"clusters": ran, "arrivals": 32 * ran, "stores": ran, "ReadHalf": ran, "WriteHalf": ran}
    assert notes[0].seen == Counter(wanted) and notes[0].opcodes["bar"] == ran
    assert out.tolist() == ([*range(1, 33)] if ran else [0] * 32)


def test_a_deadlock_is_a_finding_and_ends_the_watch() -> None:
    text = kernel_text("mov.u32 %r1, %tid.x; bar.sync 1, 64;", params=0)
    stuck = ptxsim.launch(ptxsim.Module.from_text(text), "k", (1,), (32,), ())
    (findings,) = hooks.watch([stuck, launched(1)[0]], lambda launch, code: Notes(code))
    assert [finding.kind for finding in findings] == ["deadlock"]
