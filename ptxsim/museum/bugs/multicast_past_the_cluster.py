"""A multicast mask names a CTA that the cluster does not have.

The mask of a "peer" was added even where CTAs are not paired. For two CTAs it has bit 2.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/NVIDIA/cutlass/issues/3658",),
    file="cutlass/pipeline/sm100.py, PipelineTmaUmma",
    area="bounds",
    args=lambda: [np.arange(32, dtype=np.uint32)],
    grid=2,
    cluster=2,
    ptx="""
    setp.ne.u32 %p1, %thread, 0;
    setp.eq.u32 %p2, %cta, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [%smem], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%smem], 128;
READY:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @!%p2 bra WAITING;
    @%p1 bra WAITING;
-   mov.b16 %h1, 7;
+   mov.b16 %h1, 3;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%smem+128], [%g0], 128, [%smem], %h1;
WAITING:
    WAIT %smem, 0;
    barrier.cluster.arrive;
    barrier.cluster.wait;
""",
)
