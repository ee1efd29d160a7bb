"""A deadlock's message begins with the likely culprit, and says who should have come and what keeps them."""

from __future__ import annotations

import numpy as np
from snippets import run_kernel

# Warp 1 copies tiles into a buffer, warp 0 takes them out: mbarrier 0 says full, mbarrier 8 says empty.
PIPELINE = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; @%p1 bra S;
mbarrier.init.shared.b64 [%r1], 1; mbarrier.init.shared.b64 [%r1+8], 32; fence.mbarrier_init.release.cluster;
S: bar.sync 0; mov.u32 %r9, 0; setp.lt.u32 %p2, %r2, 32; @%p2 bra C; setp.ne.u32 %p3, %r2, 32; @%p3 bra E;
ld.param.u64 %d1, [p0];
P: and.b32 %r4, %r9, 1; xor.b32 %r4, %r4, FIRST;
W: mbarrier.try_wait.parity.shared.b64 %p4, [%r1+8], %r4; @!%p4 bra W;
mbarrier.arrive.expect_tx.shared.b64 _, [%r1], BYTES;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+128], [%d1], 128, [%r1];
add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, 3; @%p5 bra P; bra E;
C: and.b32 %r4, %r9, 1;
V: mbarrier.try_wait.parity.shared.b64 %p4, [%r1], %r4; @!%p4 bra V;
mad.lo.u32 %r5, %r2, 4, %r1; ld.shared.u32 %r6, [%r5+128]; RELEASE
add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, TURNS; @%p5 bra C; E:"""
ANNOUNCE = "mbarrier.arrive.expect_tx.shared.b64 _, [%r1], BYTES;"
RELEASE = "mbarrier.arrive.shared.b64 _, [%r1+8];"


def deadlock(
    first: int = 1, size: int = 128, release: str = RELEASE, turns: int = 3, announce: str = ANNOUNCE, count: int = 32
) -> tuple[str, str]:
    """The first clause of the finding, and the instruction it stands at; empty without a finding."""
    body = PIPELINE.replace(ANNOUNCE, announce).replace("[%r1+8], 32;", f"[%r1+8], {count};")
    body = body.replace("FIRST", str(first)).replace("BYTES", str(size)).replace("RELEASE", release)
    body = body.replace("TURNS", str(turns))
    result = run_kernel(body, np.zeros(64, np.uint32), threads=64, shared=512, schedule="eager")
    found = [f for f in result.findings if f.kind == "deadlock"]
    return (found[0].message.split("; waiting: ")[0], found[0].instruction) if found else ("", "")


def test_the_pipeline_as_it_should_be_does_not_deadlock() -> None:
    assert deadlock() == ("", "")


def test_a_producer_whose_parity_is_flipped_comes_first() -> None:
    message, instruction = deadlock(first=0)
    assert "the first wait of a producer is for parity 1" in message and "%r1+8" in instruction


def test_bytes_that_nobody_sends_are_laid_to_who_announced_them() -> None:
    message, instruction = deadlock(size=144)
    assert "fewer bytes came than were expected at PTX line" in message and "128 came, sent at PTX line" in message
    assert "expect_tx" in instruction


def test_bytes_that_nobody_announced_are_laid_to_who_sent_them() -> None:
    message, instruction = deadlock(announce="")
    assert message.startswith("128 bytes have come") and "no mbarrier.arrive.expect_tx has announced them" in message
    assert "cp.async.bulk" in instruction


def test_a_count_that_is_too_large_is_laid_to_who_made_the_mbarrier() -> None:
    message, _ = deadlock(count=33)
    assert message.startswith("32 arrivals have come") and "made for 33 at PTX line" in message


def test_a_consumer_that_never_releases_is_named_with_where_it_has_gone() -> None:
    message, instruction = deadlock(release="")
    assert "nobody has ever arrived there" in message and "has to release it there" in message
    assert "[%r1], %r4" in instruction  # the consumer's wait, behind which the release is missing
    message, _ = deadlock(turns=1)
    assert "warp 0 of CTA 0, which arrived for phase 0 at PTX line" in message and "has exited since" in message


def test_a_named_barrier_that_too_few_threads_are_left_for_says_so() -> None:
    body = "mov.u32 %r2, %tid.x; setp.lt.u32 %p1, %r2, 32; @%p1 bra E; bar.sync 1, 64; E:"
    (found,) = run_kernel(body, threads=64).findings
    assert "too few threads are left to come" in found.message
