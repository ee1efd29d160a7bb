"""A CTA signals its peer with scope `.cta` that its shared memory is full.

An arrival with `.release.cta` orders nothing for another CTA. Both sides need scope `.cluster`.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/Dao-AILab/quack/issues/63",
        "https://github.com/Dao-AILab/quack/commit/3d58cbf",
        "https://github.com/NVIDIA/cutlass/issues/3324",
    ),
    file="gemm_sm100.py, pipeline.py; sm100_gemm_mixed_tma_cpasync_warpspecialized",
    area="ordering",
    args=lambda: [np.zeros(32, np.uint32)],
    expected=lambda: [np.arange(32, dtype=np.uint32)],
    grid=2,
    cluster=2,
    ptx="""
    setp.ne.u32 %p1, %cta, 0;
    setp.ne.u32 %p2, %lane, 0;
    mad.lo.u32 %r1, %thread, 4, %smem;
    @%p2 bra READY;
    mbarrier.init.shared.b64 [%smem], 32;
READY:
    bar.warp.sync -1;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @!%p1 bra LEADER;
    st.shared.u32 [%r1+128], %thread;
    mapa.shared::cluster.u32 %r2, %smem, 0;
-   mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r2];
+   mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
    bra END;
LEADER:
-   mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p3, [%smem], 0;
+   mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%smem], 0;
    @!%p3 bra LEADER;
    mapa.shared::cluster.u32 %r3, %r1, 1;
    ld.shared::cluster.u32 %r4, [%r3+128];
    mad.wide.u32 %d1, %thread, 4, %g0;
    st.global.u32 [%d1], %r4;
END:
    barrier.cluster.arrive;
    barrier.cluster.wait;
""",
)
