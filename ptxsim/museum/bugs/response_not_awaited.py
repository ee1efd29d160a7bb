"""An exiting CTA requests more work and does not wait for the response.

A granted request cancels a cluster that then nobody runs, and the response arrives in shared memory of an exited CTA.
The fix waits for each response.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/Dao-AILab/quack/commit/58cb592",),
    file="tile_scheduler.py, gemm_sm100.py",
    area="ordering",
    args=lambda: [np.zeros(1, np.uint32)],
    threads=1,
    grid=4,
    ptx="""
    mbarrier.init.shared.b64 [%smem+16], 1;
    fence.mbarrier_init.release.cluster;
    mov.u32 %r1, 0;
WORK:
    atom.global.add.u32 %r2, [%g0], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared.b64 _, [%smem+16], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%smem], [%smem+16];
-   bra END;
    add.u32 %r3, %smem, 16;
    WAIT %r3, %r1;
    xor.b32 %r1, %r1, 1;
    ld.shared.b128 %q0, [%smem];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q0;
    @%p1 bra WORK;
END:
""",
)
