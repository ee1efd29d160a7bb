"""An mbarrier that a bulk copy signals is initialised without a fence.

`mbarrier.init` is an ordinary write. The copy's completion reaches the mbarrier through the async proxy.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/MoonshotAI/FlashKDA/issues/24",
        "https://github.com/MoonshotAI/FlashKDA/pull/25",
    ),
    file="fwd_kernel1.cuh, fwd_kernel2.cuh",
    area="fence",
    args=lambda: [np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)],
    expected=lambda: [None, np.arange(32, dtype=np.uint32)],
    ptx="""
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra WAITING;
    mbarrier.init.shared.b64 [%smem], 1;
+   fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%smem], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem+128], [%g0], 128, [%smem];
WAITING:
    bar.warp.sync -1;
    WAIT %smem, 0;
    mad.lo.u32 %r1, %thread, 4, %smem;
    ld.shared.u32 %r2, [%r1+128];
    mad.wide.u32 %d1, %thread, 4, %g1;
    st.global.u32 [%d1], %r2;
""",
)
