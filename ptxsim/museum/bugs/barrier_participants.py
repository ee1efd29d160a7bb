"""A named barrier expects two warps where three take part.

The count was fixed at 64 threads when a second load warp was added.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/Dao-AILab/quack/pull/146",),
    file="gemm_sm100.py",
    area="hang",
    args=lambda: [np.zeros(96, np.uint32)],
    expected=lambda: [np.tile(np.arange(32, dtype=np.uint32), 3)],
    threads=96,
    ptx="""
    setp.ne.u32 %p1, %warp, 2;              // warps 0 and 1 load, warp 2 loads for the epilogue
    @%p1 bra LOADED;
    mad.lo.u32 %r1, %lane, 4, %smem;
    st.shared.u32 [%r1], %lane;
LOADED:
-   bar.sync 1, 64;
+   bar.sync 1, 96;
    mad.lo.u32 %r2, %lane, 4, %smem;
    ld.shared.u32 %r3, [%r2];
    mad.wide.u32 %d1, %thread, 4, %g0;
    st.global.u32 [%d1], %r3;
""",
)
