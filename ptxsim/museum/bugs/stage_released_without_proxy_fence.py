"""A stage is released to the next bulk copy without a proxy fence.

Loads use the generic proxy, bulk copies the async proxy. The arrival orders the warps, and not the two proxies.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/Dao-AILab/flash-attention/commit/d91ea94f",
        "https://github.com/NVIDIA/TransformerEngine/pull/2695",
    ),
    file="flash_bwd_sm100.py; amax kernels of Transformer Engine",
    area="fence",
    args=lambda: [np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)],
    expected=lambda: [None, np.arange(64, dtype=np.uint32)],
    threads=64,
    ptx="""
    setp.ne.u32 %p1, %warp, 1;              // warp 1 loads, warp 0 computes
    setp.ne.u32 %p2, %lane, 0;
    setp.ne.u32 %p3, %thread, 0;
    @%p3 bra READY;
    mbarrier.init.shared.b64 [%smem], 1;    // full
    mbarrier.init.shared.b64 [%smem+8], 1;  // empty
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    add.u32 %r1, %smem, 8;
    mov.u32 %r2, 0;                         // block
    @%p1 bra COMPUTE;
LOAD:
    xor.b32 %r3, %r2, 1;
    WAIT %r1, %r3;
    @%p2 bra NEXT;
    mad.wide.u32 %d1, %r2, 128, %g0;
    mbarrier.arrive.expect_tx.shared.b64 _, [%smem], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem+128], [%d1], 128, [%smem];
NEXT:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p4, %r2, 2;
    @%p4 bra LOAD;
    bra END;
COMPUTE:
    WAIT %smem, %r2;
    mad.lo.u32 %r4, %lane, 4, %smem;
    ld.shared.u32 %r5, [%r4+128];
+   fence.proxy.async.shared::cta;
    bar.warp.sync -1;
    @%p2 bra READ;
    mbarrier.arrive.shared.b64 _, [%smem+8];
READ:
    mad.lo.u32 %r6, %r2, 32, %lane;
    mad.wide.u32 %d2, %r6, 4, %g1;
    st.global.u32 [%d2], %r5;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p4, %r2, 2;
    @%p4 bra COMPUTE;
END:
""",
)
