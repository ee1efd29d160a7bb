"""An mbarrier expects one arrival where four warps arrive.

The count was `len([warp_ids])`, the length of a list that holds one tuple. The buffer counts as empty after the first
warp has read it, and the next block overwrites what the other warps still read.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/Dao-AILab/flash-attention/commit/d101fa73",),
    file="flash_bwd_sm100.py",
    area="ordering",
    args=lambda: [np.arange(64, dtype=np.uint32), np.zeros(256, np.uint32)],
    expected=lambda: [None, np.repeat(np.arange(64, dtype=np.uint32).reshape(2, 1, 32), 4, axis=1).reshape(-1)],
    threads=160,
    ptx="""
    setp.ne.u32 %p1, %warp, 4;              // warp 4 loads, warps 0 to 3 compute
    setp.ne.u32 %p2, %lane, 0;
    setp.ne.u32 %p3, %thread, 0;
    @%p3 bra READY;
    mbarrier.init.shared.b64 [%smem], 1;    // full
-   mbarrier.init.shared.b64 [%smem+8], 1;  // empty
+   mbarrier.init.shared.b64 [%smem+8], 4;  // empty
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
    mad.lo.u32 %r6, %r2, 128, %thread;
    mad.wide.u32 %d2, %r6, 4, %g1;
    st.global.u32 [%d2], %r5;
    fence.proxy.async.shared::cta;
    bar.warp.sync -1;
    @%p2 bra READ;
    mbarrier.arrive.shared.b64 _, [%smem+8];
READ:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p4, %r2, 2;
    @%p4 bra COMPUTE;
END:
""",
)
