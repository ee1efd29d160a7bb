"""The leader of a CTA pair reads what its peer loads without waiting for it.

Each CTA copies half of the scale factors, and its own mbarrier counts that half. Nothing leads from the peer's
mbarrier to the leader.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/NVIDIA/cutlass/issues/3643",
        "https://github.com/NVIDIA/cutlass/pull/3647",
    ),
    file="2cta_mma_blockscale_m128.py",
    area="ordering",
    args=lambda: [np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)],
    expected=lambda: [None, np.arange(64, dtype=np.uint32)],
    grid=2,
    cluster=2,
    ptx="""
    setp.ne.u32 %p1, %cta, 0;
    setp.ne.u32 %p2, %lane, 0;
    @%p2 bra READY;
    mbarrier.init.shared.b64 [%smem], 1;    // this CTA's half
    mbarrier.init.shared.b64 [%smem+8], 1;  // in the leader: the peer's half
    fence.mbarrier_init.release.cluster;
READY:
    bar.warp.sync -1;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @%p2 bra LOADING;
    mad.wide.u32 %d1, %cta, 128, %g0;
    mbarrier.arrive.expect_tx.shared.b64 _, [%smem], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem+128], [%d1], 128, [%smem];
LOADING:
    bar.warp.sync -1;
    WAIT %smem, 0;
    @!%p1 bra LEADER;
+   @%p2 bra END;
+   add.u32 %r1, %smem, 8;
+   mapa.shared::cluster.u32 %r2, %r1, 0;
+   mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
    bra END;
LEADER:
+   mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%smem+8], 0;
+   @!%p3 bra LEADER;
    mad.lo.u32 %r3, %lane, 4, %smem;
    mapa.shared::cluster.u32 %r4, %r3, 1;
    ld.shared.u32 %r5, [%r3+128];
    ld.shared::cluster.u32 %r6, [%r4+128];
    mad.wide.u32 %d2, %lane, 4, %g1;
    st.global.u32 [%d2], %r5;
    st.global.u32 [%d2+128], %r6;
END:
    barrier.cluster.arrive;
    barrier.cluster.wait;
""",
)
