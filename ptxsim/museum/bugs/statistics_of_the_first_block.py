"""Every block loads the statistics of the first block.

All addresses are valid and in order. Only a comparison of the outputs shows the bug.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/Dao-AILab/flash-attention/commit/b3f1b6a5",),
    file="flash_bwd_sm100.py",
    area="numbers",
    args=lambda: [np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)],
    expected=lambda: [None, np.arange(64, dtype=np.uint32)],
    missed="the wrong index gives valid addresses: only the numbers differ",
    ptx="""
    mov.u32 %r1, 0;                         // block
LOOP:
    mad.lo.u32 %r2, %r1, 32, %lane;
    mad.wide.u32 %d2, %r2, 4, %g1;
-   mad.wide.u32 %d1, %lane, 4, %g0;
+   mad.wide.u32 %d1, %r2, 4, %g0;
    ld.global.u32 %r3, [%d1];
    st.global.u32 [%d2], %r3;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 2;
    @%p1 bra LOOP;
""",
)
