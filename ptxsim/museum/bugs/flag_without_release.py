"""A flag that says "data is ready" is set and read without release and acquire.

The flag was set by a plain memset and polled with `ld.global.cv`. Neither orders the data, whichever cache they
bypass.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/NVIDIA/cutlass/pull/3397",
        "https://github.com/NVIDIA/cutlass/commit/e64a9136d",
    ),
    file="distributed_all_gather_gemm_blackwell.py",
    area="ordering",
    args=lambda: [np.zeros(32, np.uint32), np.zeros(1, np.uint32), np.zeros(32, np.uint32)],
    expected=lambda: [None, None, np.arange(32, dtype=np.uint32)],
    grid=2,
    ptx="""
    mov.u32 %r1, %ctaid.x;
    setp.ne.u32 %p1, %r1, 0;
    setp.ne.u32 %p2, %thread, 0;
    mad.wide.u32 %d1, %thread, 4, %g0;
    @%p1 bra POLL;
    st.global.u32 [%d1], %thread;
    bar.warp.sync -1;
    @%p2 bra END;
-   st.global.u32 [%g1], 1;
+   fence.acq_rel.gpu;
+   red.release.gpu.global.add.u32 [%g1], 1;
    bra END;
POLL:
-   ld.global.cv.u32 %r2, [%g1];
+   ld.acquire.gpu.global.u32 %r2, [%g1];
    setp.eq.u32 %p3, %r2, 0;
    @%p3 bra POLL;
    ld.global.u32 %r3, [%d1];
    mad.wide.u32 %d2, %thread, 4, %g2;
    st.global.u32 [%d2], %r3;
END:
""",
)
