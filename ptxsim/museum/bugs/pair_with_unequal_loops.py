"""Two CTAs of a cluster work on groups with different numbers of steps.

Each step ends in a barrier of the cluster. The CTA with more steps waits for a peer that has left its loop. The fix
lets no pair straddle two groups; here both take the larger count.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/deepseek-ai/DeepGEMM/pull/429",),
    file="k_grouped_bf16_gemm for sm_90",
    area="hang",
    args=lambda: [np.array([4, 6], np.uint32)],
    grid=2,
    cluster=2,
    ptx="""
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [%smem], 2;    // the arrivals of both CTAs
    fence.mbarrier_init.release.cluster;
READY:
    barrier.cluster.arrive;
    barrier.cluster.wait;
-   mad.wide.u32 %d1, %cta, 4, %g0;
-   ld.global.u32 %r1, [%d1];               // steps of this CTA's group
+   ld.global.v2.u32 {%r1, %r2}, [%g0];
+   max.u32 %r1, %r1, %r2;
    mov.u32 %r3, 0;
    xor.b32 %r4, %cta, 1;
    mapa.shared::cluster.u32 %r5, %smem, %r4;
STEP:
    @%p1 bra ARRIVED;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];
    mbarrier.arrive.release.cluster.shared::cta.b64 _, [%smem];
ARRIVED:
    and.b32 %r6, %r3, 1;
    WAIT %smem, %r6;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p2, %r3, %r1;
    @%p2 bra STEP;
    barrier.cluster.arrive;
    barrier.cluster.wait;
""",
)
