"""With no keys, the block before the first one is loaded.

The last block is `keys / 128 - 1`, which is -1. The fix returns before the launch; here the load is skipped.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/Dao-AILab/flash-attention/pull/2470",
        "https://github.com/Dao-AILab/flash-attention/commit/03cd0651",
    ),
    file="interface.py, flash_fwd_sm100.py",
    area="bounds",
    args=lambda: [np.zeros(128, np.uint8), 0],
    ptx="""
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra END;
    cvt.u32.u64 %r1, %g1;                   // keys
+   setp.eq.u32 %p2, %r1, 0;
+   @%p2 bra END;
    shr.u32 %r2, %r1, 7;
    sub.s32 %r2, %r2, 1;                    // last block
    mul.wide.s32 %d1, %r2, 128;
    add.s64 %d1, %d1, %g0;
    mbarrier.init.shared.b64 [%smem], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%smem], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem+128], [%d1], 128, [%smem];
    WAIT %smem, 0;
END:
""",
)
