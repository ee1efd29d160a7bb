"""CTAs in step give what they give one after another: outputs, findings, counts and coverage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from snippets import kernel_text

import ptxsim
from ptxsim.core import wide
from ptxsim.core.launch import EARLY
from ptxsim.frontend.program import program_of

CTAS, THREADS = 7, 64
# %d2 is the thread's word of the output, %d3 that of the input
HEAD = f"""ld.param.u64 %d8, [p0]; ld.param.u64 %d9, [p1]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;
mad.lo.u32 %r3, %r1, {THREADS}, %r2; mul.wide.u32 %d1, %r3, 4; add.u64 %d2, %d8, %d1; add.u64 %d3, %d9, %d1;
ld.global.u32 %r4, [%d3];"""
STORE = "st.global.u32 [%d2], %r4;"
LOOP = """mov.u32 %r5, 0; L: mad.lo.u32 %r4, %r4, 3, %r5; shfl.sync.bfly.b32 %r6, %r4, 1, 31, -1; add.u32 %r4, %r4, %r6;
xor.b32 %r7, %r4, %r6; add.u32 %r4, %r4, %r7; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, {trips}; @%p1 bra L;"""
EXCHANGE = """mov.u32 %r5, dyn; mad.lo.u32 %r6, %r2, 4, %r5; st.shared.u32 [%r6], %r4; bar.sync 0; xor.b32 %r7, %r2, 32;
mad.lo.u32 %r7, %r7, 4, %r5; ld.shared.u32 %r8, [%r7]; mad.lo.u32 %r4, %r8, 3, %r4;"""
IN_STEP = {
    "plain": STORE,
    "loop": LOOP.format(trips=5) + STORE,
    "loop that differs between CTAs": f"add.u32 %r9, %r1, 1; {LOOP.format(trips='%r9')} {STORE}",
    "CTAs that exit": f"setp.gt.u32 %p2, %r1, 3; @%p2 bra E; {LOOP.format(trips=3)} {STORE} E:",
    "lanes apart": f"and.b32 %r8, %r2, 31; setp.ne.u32 %p2, %r8, 5; @%p2 bra E; add.u32 %r4, %r4, 9; {STORE} E: nop;",
    "lanes in loops": f"and.b32 %r9, %r3, 3; add.u32 %r9, %r9, 1; {LOOP.format(trips='%r9')} {STORE}",
    "grid": "mov.u32 %r5, %nctaid.x; mov.u32 %r6, %ntid.x; mad.lo.u32 %r4, %r5, %r6, %r4;" + STORE,
    "words that all warps of a CTA write": "mul.wide.u32 %d4, %r1, 4; add.u64 %d4, %d4, %d8; st.global.u32 [%d4], %r1;",
    "shared": f"{EXCHANGE} {STORE}",
    "shared twice": f"{EXCHANGE} bar.sync 1, 64; {EXCHANGE} {STORE}",
    "shared, equal values": f"mov.u32 %r5, dyn; st.shared.u32 [%r5+32], %r1; bar.sync 0; ld.shared.u32 %r4, "
    f"[%r5+32]; {STORE}",
    "CTAs that exchange": f"setp.gt.u32 %p2, %r1, 3; @%p2 bra F; {EXCHANGE} F: {STORE}",
    "private": "mov.u32 %r5, %clusterid.x; st.local.u32 [own], %r5; ld.local.u32 %r6, [own]; add.u32 %r4, %r4, %r6;"
    + STORE,
}
ONE_BY_ONE = {
    "write by two CTAs": "st.global.u32 [%d8], %r1;",
    "write by two warps": f"and.b32 %r5, %r2, 31; mul.wide.u32 %d4, %r5, 4; add.u64 %d4, %d4, %d8; {STORE} "
    "st.global.u32 [%d4], %r4;",
    "shared without a barrier": EXCHANGE.replace("bar.sync 0;", "") + STORE,
    "shared overwritten early": f"{EXCHANGE} {EXCHANGE} {STORE}",
    "shared by two warps": f"mov.u32 %r5, dyn; st.shared.u32 [%r5], %r2; bar.sync 0; ld.shared.u32 %r4, [%r5]; {STORE}",
    "shared unwritten": f"mov.u32 %r5, dyn; ld.shared.u32 %r4, [%r5]; {STORE}",
    "shared out of bounds": f"mov.u32 %r5, dyn; ld.shared.u32 %r4, [%r5+1024]; {STORE}",
    "barrier of some": f"setp.lt.u32 %p2, %r2, 32; @%p2 bra A; bar.sync 0, 32; A: {STORE}",
    "barrier of too many": f"bar.sync 0, 96; {STORE}",
    "words that warps write differently": "mul.wide.u32 %d4, %r1, 4; add.u64 %d4, %d4, %d8; st.global.u32 [%d4], %r2;",
    "read of another CTA's word": STORE + "ld.global.u32 %r5, [%d8+512]; st.global.u32 [%d2], %r5;",
    "write of a word read before": "ld.global.u32 %r5, [%d8+256];" + STORE,
    "own word twice": "ld.global.u32 %r5, [%d2]; add.u32 %r4, %r4, %r5;" + STORE,
    "out of bounds": f"setp.eq.u32 %p2, %r3, 300; @%p2 ld.global.u32 %r4, [%d3+4096]; {STORE}",
    "misaligned": f"{STORE} add.u64 %d2, %d2, 1; setp.eq.u32 %p2, %r3, 300; @%p2 st.global.u32 [%d2], %r4;",
    "warps apart": f"setp.lt.u32 %p2, %r2, 32; @%p2 bra A; add.u32 %r4, %r4, 5; A: {STORE}",
    "shuffle from an exited lane": "and.b32 %r8, %r2, 31; setp.eq.u32 %p2, %r8, 5; @%p2 bra E; "
    f"shfl.sync.bfly.b32 %r4, %r4, 1, 31, -1; {STORE} E:",
    "endless": f"setp.eq.u32 %p2, %r1, 2; L: @%p2 bra L; {STORE}",
}
KERNELS = IN_STEP | ONE_BY_ONE


def run(launch: ptxsim.Launch, out: np.ndarray, in_step: bool, patch: pytest.MonkeyPatch, **options: Any) -> list:
    """Return all results of two runs of the launch; the second does not wait."""
    out[:] = 0
    with patch.context() as patched:
        if not in_step:
            patched.setattr(wide, "_eligible", lambda machine: False)
        result = ptxsim.run([launch, replace(launch, attributes={EARLY: (1,)})], step_limit=3000, **options)
    counts, coverage = [c.as_dict() for c in result.counts], [(c.as_dict(), c.ranges) for c in result.coverage]
    return [out.tolist(), [str(f) for f in result.findings], counts, coverage]


@pytest.mark.parametrize(("checks", "schedule"), [(ptxsim.DEFAULT_CHECKS, "random"), ((), "late")])
@pytest.mark.parametrize("name", [*IN_STEP, *ONE_BY_ONE])
def test_results_are_those_of_ctas_one_after_another(name, checks, schedule, monkeypatch) -> None:
    monkeypatch.setattr(wide, "LANES", 3 * THREADS)
    code = ptxsim.Module.from_text(kernel_text(HEAD + KERNELS[name], registers=".local .align 4 .b8 own[4];"))
    out, x = np.zeros(CTAS * THREADS, np.uint32), np.arange(CTAS * THREADS, dtype=np.uint32) * 7919
    launch = ptxsim.launch(code, "k", (CTAS,), (THREADS,), (out, x), dynamic_shared=256)
    alone = run(launch, out, False, monkeypatch, checks=checks, schedule=schedule)
    assert run(launch, out, True, monkeypatch, checks=checks, schedule=schedule) == alone
    if not checks and name in IN_STEP:
        assert not program_of(code, code.kernels["k"]).dependent
