"""Row maxima are written past their array, into a buffer that a copy fills.

The offset `m_block * 2` assumed two query stages. With one stage it lies behind the array.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/Dao-AILab/flash-attention/pull/2229",
        "https://github.com/Dao-AILab/flash-attention/commit/188643b8",
    ),
    file="flash_fwd_sm100.py, block_sparse_utils.py",
    area="ordering",
    args=lambda: [np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)],
    expected=lambda: [None, np.arange(128, dtype=np.uint32)],
    threads=128,
    shared=2048,
    ptx="""
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [%smem+1536], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%smem+1536], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem+1024], [%g0], 512, [%smem+1536];
READY:
    bar.sync 0;
    mad.lo.u32 %r1, %thread, 4, %smem;
    st.shared.u32 [%r1], 1;                 // row sums: 128 words
-   st.shared.u32 [%r1+1024], 2;            // row maxima behind two stages of 128 rows
+   st.shared.u32 [%r1+512], 2;             // row maxima behind one stage
    add.u32 %r2, %smem, 1536;
    WAIT %r2, 0;
    ld.shared.u32 %r3, [%r1+1024];
    mad.wide.u32 %d1, %thread, 4, %g1;
    st.global.u32 [%d1], %r3;
""",
)
