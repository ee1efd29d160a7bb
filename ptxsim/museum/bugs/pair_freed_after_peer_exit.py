"""A CTA of a pair exits while its peer still frees the pair's tensor memory.

`tcgen05.dealloc.cta_group::2` needs both CTAs. On B300 the GPU reports "CTA Not Present". The fix is a cluster barrier
before the exit.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/sgl-project/sglang/issues/32907",
        "https://github.com/sgl-project/sglang/pull/32954",
    ),
    file="cutedsl_bf16_gemm.py",
    area="ordering",
    args=lambda: [np.zeros(32, np.uint32)],
    grid=2,
    cluster=2,
    missed="CUTLASS's handshake before dealloc allows this exit too, so ptxsim does not report it",
    ptx="""
    setp.eq.u32 %p1, %cta, 0;
    setp.ne.u32 %p2, %lane, 0;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%smem], 32;
    tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
    ld.shared.u32 %r1, [%smem];
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @%p1 bra FREE;                          // the follower is slower: it waits for a copy
    @%p2 bra WAITING;
    mbarrier.init.shared.b64 [%smem+8], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%smem+8], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem+128], [%g0], 128, [%smem+8];
WAITING:
    bar.warp.sync -1;
    add.u32 %r2, %smem, 8;
    WAIT %r2, 0;
FREE:
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r1, 32;
+   barrier.cluster.arrive.relaxed;
+   barrier.cluster.wait;
""",
)
