"""A CTA frees the pair's tensor memory before its peer's alloc is complete.

The launch failed in 96 of 96 runs on B300. A cluster barrier between alloc and dealloc removes the failure.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/NVIDIA/cutlass/issues/3435",),
    file="reproducer in the report",
    area="ordering",
    args=lambda: [np.zeros(32, np.uint32)],
    grid=2,
    cluster=2,
    ptx="""
    setp.eq.u32 %p1, %cta, 0;
    setp.ne.u32 %p2, %lane, 0;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @%p1 bra ALLOCATE;                      // the follower is slower: it waits for a copy
    @%p2 bra WAITING;
    mbarrier.init.shared.b64 [%smem+8], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%smem+8], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem+128], [%g0], 128, [%smem+8];
WAITING:
    bar.warp.sync -1;
    add.u32 %r2, %smem, 8;
    WAIT %r2, 0;
ALLOCATE:
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%smem], 32;
    ld.shared.u32 %r1, [%smem];
+   barrier.cluster.arrive;
+   barrier.cluster.wait;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r1, 32;
    barrier.cluster.arrive;
    barrier.cluster.wait;
""",
)
